"""Vectors of a dataset's pictures and questions; what was embedded before is found again, shard by shard.

picture ─► normalised ─┐
                       ├─► mean ─► normalised = what the selector sees
question ► normalised ─┘
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.protocols import VisionEmbedder
from storage.artifacts import Artifacts
from storage.records import Ref
from tasks.keys import content_key
from tasks.lever.data.dataset_pictures import Pictures
from tasks.lever.data.embeddings import EmbeddingBank, bank_of
from tasks.lever.lever_errors import DatasetUnusable
from tasks.lever.lever_records import Dataset, Embedded, VqaItem

Vectors = NDArray[np.float32]

PER_SHARD = 256
"""Pictures, or questions, that are embedded and kept together; a kill loses at most so many."""
VERSION = 1
"""Raise it when the same encoder would give other vectors."""
SHORTEST = 1e-6
"""A vector that is shorter points nowhere."""


def embed_dataset(
    dataset: Dataset,
    encoder: VisionEmbedder,
    artifacts: Artifacts,
    *,
    tell: Callable[[int], None] = lambda _: None,
) -> Embedded:
    """Banks of all items; equal pictures and equal questions are embedded once.

    Each shard is kept as soon as it is made, so that an interrupted export goes on where it stopped.
    tell: called with the number of items done since its last call.
    Raises DatasetUnusable for a repeated id, a train query that is no train item and a picture that is missing, damaged
    or without a usable vector, and what the encoder raises.
    """
    items = _distinct_items(dataset)
    looks = _embed_pictures(items, encoder, artifacts, tell=tell)
    texts = _embed_questions(items, encoder, artifacts)
    joint = _unit(looks.vectors + texts, items, width=encoder.dimension)
    row = {item.id: number for number, item in enumerate(items)}
    train = [item.id for item in dataset.train]
    asked = [*dataset.train_queries, *(item.id for item in (*dataset.validation, *dataset.test))]

    def keep(ids: Sequence[str], vectors: Vectors) -> Ref:
        return artifacts.put("embeddings", _bank(ids, vectors[[row[name] for name in ids]], encoder.id).to_bytes())

    return Embedded(
        encoder=encoder.id,
        dimension=encoder.dimension,
        candidates=keep(train, joint),
        queries=keep(asked, joint),
        images=keep(list(row), looks.vectors),
        texts=keep(list(row), texts),
        classes=keep(list(row), looks.classes) if looks.classes is not None else None,
    )


class _Looks(NamedTuple):
    """What an encoder makes of pictures, a row for each."""

    vectors: Vectors
    classes: Vectors | None


def _distinct_items(dataset: Dataset) -> list[VqaItem]:
    """All items: of train, validation and test, in this order."""
    items = [*dataset.train, *dataset.validation, *dataset.test]
    if not items:
        raise DatasetUnusable(f"{dataset.name} has no questions; see why all of them were left out")
    if repeated := [name for name, count in Counter(item.id for item in items).items() if count > 1]:
        raise DatasetUnusable(
            f"{dataset.name}: {len(repeated)} question ids stand there more than once ({', '.join(repeated[:5])}); "
            "a question belongs to one split, under an id of its own"
        )
    train = {item.id for item in dataset.train}
    if strange := [name for name in dataset.train_queries if name not in train]:
        raise DatasetUnusable(
            f"{dataset.name}: the train query {strange[0]} is no train item; choose queries among these"
        )
    return items


def _embed_pictures(
    items: Sequence[VqaItem],
    encoder: VisionEmbedder,
    artifacts: Artifacts,
    *,
    tell: Callable[[int], None],
) -> _Looks:
    pictures = Pictures(most_bytes=0)  # each is needed once

    def look(shard: Sequence[VqaItem]) -> _Looks:
        pngs = [pictures(item).png for item in shard]
        classes = encoder.embed_classes(pngs)
        return _Looks(
            _unit(encoder.embed_images(pngs), shard, width=encoder.dimension),
            _unit(classes, shard, width=classes.shape[-1]) if classes is not None else None,
        )

    uses = Counter(item.image_sha256 for item in items)
    made: list[_Looks] = []
    distinct = _first_with(items, lambda item: item.image_sha256)
    for digests, looks in _by_shard("pictures", distinct, encoder.id, artifacts, look):
        made.append(looks)
        tell(sum(uses[digest] for digest in digests))
    rows = _rows(distinct, [item.image_sha256 for item in items])
    classes = [looks.classes for looks in made if looks.classes is not None]
    return _Looks(
        np.concatenate([looks.vectors for looks in made])[rows],
        np.concatenate(classes)[rows] if len(classes) == len(made) else None,
    )


def _embed_questions(items: Sequence[VqaItem], encoder: VisionEmbedder, artifacts: Artifacts) -> Vectors:
    def read(shard: Sequence[VqaItem]) -> _Looks:
        vectors = encoder.embed_texts([item.question for item in shard])
        return _Looks(_unit(vectors, shard, width=encoder.dimension), None)

    distinct = _first_with(items, lambda item: item.question)
    made = [looks.vectors for _, looks in _by_shard("questions", distinct, encoder.id, artifacts, read)]
    return np.concatenate(made)[_rows(distinct, [item.question for item in items])]


def _first_with(items: Sequence[VqaItem], name: Callable[[VqaItem], str]) -> dict[str, VqaItem]:
    """Each name with the first item that has it."""
    found: dict[str, VqaItem] = {}
    for item in items:
        found.setdefault(name(item), item)
    return found


def _rows(distinct: Mapping[str, VqaItem], names: Sequence[str]) -> list[int]:
    places = {name: place for place, name in enumerate(distinct)}
    return [places[name] for name in names]


def _by_shard(
    of_what: str,
    distinct: Mapping[str, VqaItem],
    encoder: str,
    artifacts: Artifacts,
    make: Callable[[Sequence[VqaItem]], _Looks],
) -> Iterator[tuple[list[str], _Looks]]:
    """Names of a shard with its vectors: those that were kept, else new ones, which are kept at once."""
    remaining = iter(distinct)
    while names := list(islice(remaining, PER_SHARD)):
        key = content_key(f"lever.embed_{of_what}", VERSION, {"encoder": encoder, of_what: names})
        if ref := artifacts.recall(key):
            yield names, _read(artifacts.get(ref))
        else:
            looks = make([distinct[name] for name in names])
            artifacts.remember(key, artifacts.put("embedded-shard", _written(looks)))
            yield names, looks


def _unit(vectors: Vectors, items: Sequence[VqaItem], *, width: int) -> Vectors:
    """The rows at length one; (len(items), width). Raises DatasetUnusable naming an item whose row has no direction."""
    if vectors.shape != (len(items), width):
        raise ValueError(
            f"the encoder gave an array of {vectors.shape} for {len(items)} items; {(len(items), width)} is expected"
        )
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


def _written(looks: _Looks) -> bytes:
    from safetensors.numpy import save

    return save({"vectors": looks.vectors} | ({"classes": looks.classes} if looks.classes is not None else {}))


def _read(data: bytes) -> _Looks:
    from safetensors.numpy import load

    found: Mapping[str, Vectors] = load(data)
    return _Looks(found["vectors"], found.get("classes"))


def _bank(ids: Sequence[str], vectors: Vectors, encoder: str) -> EmbeddingBank:
    import torch

    return bank_of(ids, torch.from_numpy(vectors), encoder=encoder, where="embeddings")
