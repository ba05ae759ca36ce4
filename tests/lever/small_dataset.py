"""A handful of questions about small pictures, and an encoder and a judge that can be worked out by hand."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from tasks.lever.data.embeddings import EmbeddingBank, make_bank
from tasks.lever.judge.judging import Judgment, PromptedQuery
from tasks.lever.lever_records import Dataset, Item, PoolRecipe, Pools, VqaItem


def png(red: int, green: int = 0, blue: int = 0) -> bytes:
    """A picture of one colour."""
    file = io.BytesIO()
    Image.new("RGB", (4, 4), (red, green, blue)).save(file, "PNG")
    return file.getvalue()


def item(id: str, *, picture: bytes = b"", question: str = "?", folder: Path | None = None) -> VqaItem:
    """A question; with a folder its picture is written there."""
    digest = hashlib.sha256(picture).hexdigest()
    path = (folder or Path("/nowhere")) / f"{digest[:16]}.png"
    if folder:
        path.write_bytes(picture)
    return VqaItem(
        id=id, image_id=f"image {digest[:8]}", image=str(path), image_sha256=digest, question=question, answers=("yes",)
    )


def pictured(items: Iterable[Item]) -> list[VqaItem]:
    """Those that are questions about pictures."""
    return [one for one in items if isinstance(one, VqaItem)]


def dataset(
    train: Sequence[Item],
    *,
    train_queries: Sequence[str] = (),
    validation: Sequence[Item] = (),
    test: Sequence[Item] = (),
) -> Dataset:
    return Dataset(
        name="small",
        train=tuple(train),
        train_queries=tuple(train_queries),
        validation=tuple(validation),
        test=tuple(test),
    )


def bank(vectors: Mapping[str, Sequence[float]]) -> EmbeddingBank:
    return make_bank(
        list(vectors), torch.tensor(list(vectors.values()), dtype=torch.float32), encoder="by hand", where="test"
    )


def pools(of: Mapping[str, Sequence[str]]) -> Pools:
    size = len(next(iter(of.values())))
    return Pools(
        recipe=PoolRecipe(sampler="RandSampler", size=size),
        seed=0,
        pools={query: tuple(pool) for query, pool in of.items()},
    )


class ColourEncoder:
    """The mean colour of a picture, the length of a question and its number of vowels; it counts what it embeds."""

    id = "colours:1"
    dimension = 4

    def __init__(self, *, dies_after: int | None = None) -> None:
        self.pictures: list[bytes] = []
        self.texts: list[str] = []
        self._dies_after = dies_after

    def embed_images(self, pngs: Sequence[bytes]) -> NDArray[np.float32]:
        if self._dies_after is not None and len(self.pictures) >= self._dies_after:
            raise KeyboardInterrupt
        self.pictures += pngs
        means = [np.asarray(Image.open(io.BytesIO(one)), np.float32).mean((0, 1)) for one in pngs]
        return np.array([[*mean, 0.0] for mean in means], np.float32)

    def embed_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.texts += texts
        return np.array([[0, 0, sum(map(text.count, "aeiou")), len(text)] for text in texts], np.float32)


class Verdicts:
    """A judge by rule: (query, demonstrations) → accuracy, None where it fails; it keeps what it was asked."""

    def __init__(self, rule: Callable[[str, tuple[str, ...]], float | None]) -> None:
        self.asked: list[PromptedQuery] = []
        self._rule = rule

    def __call__(self, asked: Sequence[PromptedQuery]) -> list[Judgment]:
        self.asked += asked
        return [self._judgment(self._rule(*one)) for one in asked]

    def _judgment(self, accuracy: float | None) -> Judgment:
        if accuracy is None:
            return Judgment(None, None, None, "the judge is away")
        return Judgment("yes", int(accuracy >= 0.5), accuracy, None)
