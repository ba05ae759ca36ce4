"""Vectors of a dataset's pictures and questions; what was embedded before is found again, shard by shard.

picture ─► normalised ─┐
                       ├─► mean ─► normalised = what the selector sees
question ► normalised ─┘
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import islice

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import load, save

from models.protocols import VisionEmbedder
from storage.artifacts import Artifacts
from storage.records import Ref
from tasks.keys import content_key
from tasks.lever.data.dataset_pictures import Pictures
from tasks.lever.data.embeddings import bank_of
from tasks.lever.lever_errors import DatasetUnusable
from tasks.lever.lever_records import Dataset, Embedded, VqaItem

Vectors = NDArray[np.float32]
Shard = dict[str, Vectors]
"""`vectors` of pictures or questions, a row for each, and `classes` of pictures where the encoder tells them."""

PER_SHARD = 256
"""Pictures, or questions, that are embedded and kept together; a kill loses at most so many."""
VERSION = 1
"""Raise it when the same encoder would give other vectors."""
SHORTEST = 1e-6
"""A vector that is shorter points nowhere."""


def embed_dataset(
    dataset: Dataset, encoder: VisionEmbedder, artifacts: Artifacts, *, tell: Callable[[int], None] = lambda _: None
) -> Embedded:
    """Banks of all items; equal pictures and equal questions are embedded once.

    Each shard is kept as soon as it is made, so that an interrupted export goes on where it stopped.
    tell: called with the number of items done since its last call.
    Raises DatasetUnusable for a picture that is missing, damaged or without a usable vector, and what the encoder
    raises.
    """
    items = [*dataset.train, *dataset.validation, *dataset.test]
    pictures = Pictures(most_bytes=0)  # each is needed once

    def look(shard: Sequence[VqaItem]) -> Shard:
        pngs = [pictures(item).png for item in shard]
        found = {"vectors": encoder.embed_images(pngs), "classes": encoder.embed_classes(pngs)}
        return {name: _unit(vectors, shard) for name, vectors in found.items() if vectors is not None}

    def read(shard: Sequence[VqaItem]) -> Shard:
        return {"vectors": _unit(encoder.embed_texts([item.question for item in shard]), shard)}

    looks = _embedded("pictures", [(item.image_sha256, item) for item in items], encoder.id, artifacts, look, tell)
    questions = [(item.question, item) for item in items]
    texts = _embedded("questions", questions, encoder.id, artifacts, read, lambda _: None)["vectors"]
    joint = _unit(looks["vectors"] + texts, items)
    row = {item.id: number for number, item in enumerate(items)}
    train = [item.id for item in dataset.train]
    asked = [*dataset.train_queries, *(item.id for item in (*dataset.validation, *dataset.test))]

    def keep(ids: Sequence[str], vectors: Vectors) -> Ref:
        rows = torch.from_numpy(vectors[[row[name] for name in ids]])
        return artifacts.put("embeddings", bank_of(ids, rows, encoder=encoder.id, where="embeddings").to_bytes())

    return Embedded(
        encoder=encoder.id,
        dimension=encoder.dimension,
        candidates=keep(train, joint),
        queries=keep(asked, joint),
        images=keep(list(row), looks["vectors"]),
        texts=keep(list(row), texts),
        classes=keep(list(row), looks["classes"]) if "classes" in looks else None,
    )


def _embedded(
    of_what: str,
    named: Sequence[tuple[str, VqaItem]],
    encoder: str,
    artifacts: Artifacts,
    make: Callable[[Sequence[VqaItem]], Shard],
    tell: Callable[[int], None],
) -> Shard:
    """A row for each item: what has one name is embedded once, shard by shard; shards that were kept are recalled."""
    uses, distinct = Counter(name for name, _ in named), dict(reversed(named))
    remaining, made = iter(uses), list[Shard]()
    while names := list(islice(remaining, PER_SHARD)):
        key = content_key(f"lever.embed_{of_what}", VERSION, {"encoder": encoder, of_what: names})
        if ref := artifacts.recall(key):
            made.append(load(artifacts.get(ref)))
        else:
            made.append(make([distinct[name] for name in names]))
            artifacts.remember(key, artifacts.put("embedded-shard", save(made[-1])))
        tell(sum(uses[name] for name in names))
    places = {name: place for place, name in enumerate(uses)}
    rows = [places[name] for name, _ in named]
    complete = set(made[0]).intersection(*made)  # an encoder may not tell classes in every shard
    return {name: np.concatenate([shard[name] for shard in made])[rows] for name in complete}


def _unit(vectors: Vectors, items: Sequence[VqaItem]) -> Vectors:
    """The rows at length one, one for each item. Raises DatasetUnusable naming an item whose row has no direction."""
    exact = vectors.astype(np.float64)
    lengths = np.linalg.norm(exact, axis=1, keepdims=True)
    usable = np.isfinite(lengths[:, 0]) & (lengths[:, 0] > SHORTEST)
    if not usable.all():
        item = items[int(np.flatnonzero(~usable)[0])]
        raise DatasetUnusable(
            f"question {item.id} ({item.image}): the encoder's vector is zero or no number; "
            "look at the picture, and leave the question out if nothing is on it"
        )
    return (exact / lengths).astype(np.float32)
