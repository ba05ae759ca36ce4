"""Leaks: training items that are test or validation items again, by picture, words or vectors.

Splits of official files are parted by the number of a picture alone, and files of one's own as they are: the same
picture may have two numbers, or be saved a second time. Whoever is examined on what may be shown learns nothing of it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tasks.lever.data.candidate_pools import Banks, find_most_similar
from tasks.lever.lever_errors import DatasetUnusable
from tasks.lever.lever_records import Dataset, Item, VqaItem

EXAMPLES = 3
"""Leaks that a report names."""
SUSPECTS = 5
"""Nearest examined items that are compared with a training item in full."""
SUSPICIOUS = 0.9
"""Cosine of vectors from which two items are compared in full."""
SAME_VECTOR = 0.9999
"""Cosine from which two items are the same to the encoder."""
HASH_SIDE, HASH_BITS = 16, 12
"""Rows of a perceptual hash of 256 bits, and bits that may differ: pictures that were saved anew, resized or made
brighter differ in up to 10, drawn pictures of other digits in 26 and more."""
SAME_WORDS = 0.9
"""Share of words that two texts have in common to be the same."""
_WORD = re.compile(r"\w+")


class Leak(NamedTuple):
    """An examined item that a training item is again, and by what."""

    examined: str
    by: str
    """`picture` (the same bytes), `perceptual hash`, `text`, or `embedding`."""


def find_leaks(dataset: Dataset, banks: Banks) -> dict[str, Leak]:
    """Return the leak of each training item that has one, by its id. banks: embeddings, as far as there are any."""
    examined = (*dataset.validation, *dataset.test)
    first_with = {_content_of(item): item.id for item in reversed(examined)}
    leaks = {
        item.id: Leak(first_with[content], "picture" if isinstance(item, VqaItem) else "text")
        for item in dataset.train
        if (content := _content_of(item)) in first_with
    }
    by_id = {item.id: item for item in examined}
    for item, nearest in _suspects([item for item in dataset.train if item.id not in leaks], examined, banks):
        for name, cosine in nearest.items():
            if by := _likeness(item, by_id[name], cosine):
                leaks[item.id] = Leak(name, by)
                break
    return leaks


def without_leaks(dataset: Dataset, leaks: Mapping[str, Leak]) -> Dataset:
    """Return the dataset whose candidates and train queries are none of these; files may still name them.

    Raises DatasetUnusable if none is left.
    """
    reasons = {name: f"it is {leak.examined} of validation or test again, by {leak.by}" for name, leak in leaks.items()}
    parted = dataset.model_copy(
        update={
            "shown": tuple(name for name in dataset.candidates if name not in leaks),
            "train_queries": tuple(name for name in dataset.train_queries if name not in leaks),
            "left_out": dataset.left_out | reasons,
        }
    )
    if not parted.shown or not parted.train_queries:
        raise DatasetUnusable(
            f"all {len(dataset.candidates)} training items are validation or test items again "
            f"({describe_leaks(leaks)}); give others"
        )
    return parted


def describe_leaks(leaks: Mapping[str, Leak]) -> str:
    """Describe in a sentence how many items leaked, by what, and the first few."""
    kinds = ", ".join(f"{count} by {by}" for by, count in Counter(leak.by for leak in leaks.values()).most_common())
    examples = ", ".join(f"{name} is {leak.examined}" for name, leak in islice(leaks.items(), EXAMPLES))
    return (
        f"{len(leaks)} training items were left out, as they are validation or test items again: {kinds} ({examples}"
        f"{', …' if len(leaks) > EXAMPLES else ''}); all results are without them"
    )


def _content_of(item: Item) -> str:
    """Return the digest of a picture, or the words of a text."""
    return item.image_sha256 if isinstance(item, VqaItem) else " ".join(_words(item.text)) or item.text


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _suspects(train: Sequence[Item], examined: Sequence[Item], banks: Banks) -> list[tuple[Item, dict[str, float]]]:
    """Return the training items with the examined items whose vectors are near, nearest first, and their cosines."""
    bank_name = "images" if examined and isinstance(examined[0], VqaItem) else "texts"
    if bank_name not in banks or not train:
        return []
    bank = banks[bank_name][1]
    rows, targets = (bank.rows([item.id for item in items]).numpy() for items in (train, examined))
    nearest = find_most_similar(
        rows, targets, own=np.full(len(train), -1), count=min(SUSPECTS, len(examined))
    )  # (N, suspects)
    cosines = np.einsum("nd,nsd->ns", rows, targets[nearest])
    return [
        (
            item,
            {examined[at].id: float(cosine) for at, cosine in zip(places, values, strict=True) if cosine >= SUSPICIOUS},
        )
        for item, places, values in zip(train, nearest, cosines, strict=True)
        if values.max() >= SUSPICIOUS
    ]


def _likeness(item: Item, examined: Item, cosine: float) -> str | None:
    """Return by what two items with near vectors are the same, or None."""
    if isinstance(item, VqaItem) and isinstance(examined, VqaItem):
        if int((_perceptual_hash(item.image) != _perceptual_hash(examined.image)).sum()) <= HASH_BITS:
            return "perceptual hash"
    elif not isinstance(item, VqaItem) and not isinstance(examined, VqaItem):
        own, other = {*_words(item.text)}, {*_words(examined.text)}
        if len(own & other) >= SAME_WORDS * len(own | other):
            return "text"
    return "embedding" if cosine >= SAME_VECTOR else None


@cache
def _perceptual_hash(path: str) -> NDArray[np.bool_]:
    """Return whether each cell of a small grey picture is brighter than the one to its left.

    Source: the difference hash of Krawetz 2013, https://www.hackerfactor.com/blog/?/archives/529-Kind-of-Like-That.html.
    """
    from PIL import Image as Decoder

    with Decoder.open(Path(path)) as picture:
        small = picture.convert("L").resize((HASH_SIDE + 1, HASH_SIDE), Decoder.Resampling.BOX)
    grey = np.asarray(small, np.int16)
    return grey[:, 1:] > grey[:, :-1]
