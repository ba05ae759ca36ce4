"""Vectors of a dataset's pictures, questions or texts; what was embedded before is found again, shard by shard.

picture ─► normalised ─┐
                       ├─► mean ─► normalised = what the selector sees
question ► normalised ─┘                text ─► normalised, where there is no picture
                                        text and answer ─► normalised, mean, normalised: candidates of such a task
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import islice

import numpy as np
import torch
from safetensors.numpy import load, save

from storage.artifacts import Artifacts
from storage.records import Ref
from tasks.keys import content_key
from tasks.lever.data.embeddings import bank_of
from tasks.lever.judge.demonstration_task import Vectors, View, Views
from tasks.lever.lever_errors import DatasetUnusable
from tasks.lever.lever_records import Dataset, Embedded, Item

Shard = dict[str, Vectors]
"""`vectors` of what is seen of items, a row for each, and `classes` of pictures where the encoder tells them."""

PER_SHARD = 256
"""Pictures, questions or texts that are embedded and kept together; a kill loses at most so many."""
VERSION = 1
"""Raise it when the same encoder would give other vectors."""
SHORTEST = 1e-6
"""A vector that is shorter points nowhere."""


def embed_dataset(
    dataset: Dataset, views: Views, artifacts: Artifacts, *, tell: Callable[[int], None] = lambda _: None
) -> Embedded:
    """Banks of all items; what looks alike is embedded once.

    Each shard is kept as soon as it is made, so that an interrupted export goes on where it stopped.
    tell: called with the number of items done since its last call, of pictures where there are any.
    Raises DatasetUnusable for an item that is missing, damaged or without a usable vector, and what the encoder raises.
    """
    items, encoder = dataset.items, views.encoder
    silent: Callable[[int], None] = lambda _: None  # noqa: E731 - the other of two
    looks = _embedded(views.images, items, encoder, artifacts, tell) if views.images else {}
    texts = _embedded(views.texts, items, encoder, artifacts, silent if looks else tell)["vectors"]
    joint = _unit(looks["vectors"] + texts, items) if looks else texts
    answers = _embedded(views.answers, items, encoder, artifacts, silent)["vectors"] if views.answers else None
    row = {item.id: number for number, item in enumerate(items)}

    def keep(ids: Sequence[str], vectors: Vectors) -> Ref:
        rows = torch.from_numpy(vectors[[row[name] for name in ids]])
        return artifacts.put("embeddings", bank_of(ids, rows, encoder=encoder, where="embeddings").to_bytes())

    return Embedded(
        encoder=encoder,
        dimension=views.dimension,
        candidates=keep(dataset.candidates, joint),
        queries=keep(dataset.queries, joint),
        solved=None if answers is None else keep(dataset.candidates, _unit(joint + answers, items)),
        images=keep(list(row), looks["vectors"]) if looks else None,
        texts=keep(list(row), texts),
        classes=keep(list(row), looks["classes"]) if "classes" in looks else None,
    )


def _embedded(
    view: View, items: Sequence[Item], encoder: str, artifacts: Artifacts, tell: Callable[[int], None]
) -> Shard:
    """A row for each item: what has one key is embedded once, shard by shard; shards that were kept are recalled."""
    keys = [view.key(item) for item in items]
    uses, distinct = Counter(keys), dict(reversed(list(zip(keys, items, strict=True))))
    remaining, made = iter(uses), list[Shard]()
    while names := list(islice(remaining, PER_SHARD)):
        key = content_key(f"lever.embed_{view.name}", VERSION, {"encoder": encoder, view.name: names})
        if ref := artifacts.recall(key):
            made.append(load(artifacts.get(ref)))
        else:
            some = [distinct[name] for name in names]
            found = view.embed(some)
            made.append({name: _unit(vectors, some) for name, vectors in found.items() if vectors is not None})
            artifacts.remember(key, artifacts.put("embedded-shard", save(made[-1])))
        tell(sum(uses[name] for name in names))
    places = {name: place for place, name in enumerate(uses)}
    rows = [places[name] for name in keys]
    complete = set(made[0]).intersection(*made)  # an encoder may not tell classes in every shard
    return {name: np.concatenate([shard[name] for shard in made])[rows] for name in complete}


def _unit(vectors: Vectors, items: Sequence[Item]) -> Vectors:
    """The rows at length one, one for each item. Raises DatasetUnusable naming an item whose row has no direction."""
    exact = vectors.astype(np.float64)
    lengths = np.linalg.norm(exact, axis=1, keepdims=True)
    usable = np.isfinite(lengths[:, 0]) & (lengths[:, 0] > SHORTEST)
    if not usable.all():
        item = items[int(np.flatnonzero(~usable)[0])]
        raise DatasetUnusable(
            f"item {item.id}: the encoder's vector is zero or no number; look at it, and leave it out if there is "
            "nothing to be seen"
        )
    return (exact / lengths).astype(np.float32)
