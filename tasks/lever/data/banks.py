"""Embeddings with the ids they belong to: one row for each question of a dataset."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from storage import files
from tasks.lever.data.json_files import first_twice
from tasks.lever.lever_errors import FileUnusable

FORMAT = "trivet embeddings"


class EmbeddingBank(NamedTuple):
    """Vectors by id. Made by `bank_of`, which checks them."""

    ids: tuple[str, ...]
    vectors: Tensor
    """(N, d) float32."""
    encoder: str
    """Name and revision of the encoder that made them; empty where nothing tells."""

    @property
    def dimension(self) -> int:
        return self.vectors.shape[1]

    def positions(self, ids: Sequence[str]) -> list[int]:
        """Row of each id. Raises FileUnusable naming the ids that have none."""
        rows = {id: row for row, id in enumerate(self.ids)}
        if missing := [id for id in ids if id not in rows]:
            raise FileUnusable(
                f"no embedding for {len(missing)} ids ({', '.join(missing[:5])}); the {len(self.ids)} there are, "
                f"{', '.join(self.ids[:3])} …, are of another dataset or split: embed this one"
            )
        return [rows[id] for id in ids]

    def rows(self, ids: Sequence[str]) -> Tensor:
        """(len(ids), d), in this order. Raises FileUnusable naming the ids that have none."""
        return self.vectors[torch.tensor(self.positions(ids), dtype=torch.long)]

    def to_bytes(self) -> bytes:
        """As safetensors with the ids in the header; equal banks give equal bytes."""
        # one entry only: safetensors writes several in no fixed order
        header = json.dumps({"format": FORMAT, "encoder": self.encoder, "ids": self.ids})
        return save({"vectors": self.vectors.contiguous()}, metadata={"trivet": header})

    @classmethod
    def from_bytes(cls, data: bytes) -> EmbeddingBank:
        """What `to_bytes` wrote. Raises FileUnusable."""
        try:
            header = json.loads(header_of(data)["trivet"])
            if header["format"] != FORMAT:
                raise FileUnusable(f"these are {header['format']}, not embeddings")
            return bank_of(header["ids"], load(data)["vectors"], encoder=header["encoder"], where="embeddings")
        except (SafetensorError, KeyError, ValueError, TypeError) as error:
            raise FileUnusable("these bytes are no embeddings of ours; run the embedding step again") from error

    def export_pt(self, path: Path) -> None:
        """Write the seed's file, a plain float32 [N, d] tensor by `torch.save`, and its ids as JSON beside it."""
        with files.replacing(path) as file:
            torch.save(self.vectors.contiguous().clone(), file)
        name, _, revision = self.encoder.partition("@")
        about = {"ids": self.ids, "encoder": name, "revision": revision, "sha256": content_hash(path)}
        files.write(beside(path), json.dumps(about, ensure_ascii=False).encode())


def bank_of(ids: Sequence[object], vectors: Tensor, *, encoder: str, where: str) -> EmbeddingBank:
    """A bank, checked. Raises FileUnusable naming `where`: not as many ids as rows, ids twice, NaN, no floats."""
    if vectors.ndim != 2:
        raise FileUnusable(f"{where}: {shape(vectors)} is no [N, d]")
    named = tuple(str(id) for id in ids)
    if len(named) != len(vectors):
        raise FileUnusable(f"{where}: {len(named)} ids for {len(vectors)} embeddings; the ids are of another file")
    if (twice := first_twice(named)) is not None:
        raise FileUnusable(f"{where}: id {twice} stands there twice")
    return EmbeddingBank(named, floats(vectors, named, where), encoder)


def floats(vectors: Tensor, ids: Sequence[str], where: str) -> Tensor:
    """`vectors` (len(ids), …) as float32. Raises FileUnusable for other numbers, NaN and infinities."""
    if not vectors.is_floating_point() or vectors.layout != torch.strided:
        raise FileUnusable(f"{where}: {vectors.dtype} are no embeddings; float32 is expected")
    if vectors.numel() and not (finite := vectors.flatten(1).isfinite().all(1)).all():
        first = ids[int(finite.logical_not().nonzero()[0])]
        raise FileUnusable(f"{where}: the embedding of {first} is not finite; embed again")
    return vectors.detach().to(device="cpu", dtype=torch.float32)


def require(bank: EmbeddingBank, *, where: str, encoder: str | None = None, dimension: int | None = None) -> None:
    """Raises FileUnusable unless the bank is of this encoder and as wide."""
    if encoder is not None and bank.encoder and bank.encoder != encoder:
        raise FileUnusable(f"{where}: embedded by {bank.encoder}, and {encoder} is needed; embed again")
    if dimension is not None and bank.dimension != dimension:
        raise FileUnusable(
            f"{where}: embeddings of {bank.dimension} numbers, and the network takes {dimension}; "
            "use the encoder that it was trained with"
        )


def beside(path: Path) -> Path:
    """Where the ids of an exported tensor lie."""
    return path.with_suffix(".json")


def content_hash(path: Path) -> str:
    """SHA-256 of a file, hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def shape(vectors: Tensor) -> str:
    """`[4, 512]`"""
    return str(list(vectors.shape))


def header_of(data: bytes) -> Mapping[str, str]:
    """The metadata in the header of safetensors bytes. Raises ValueError or KeyError where there is none."""
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or length > len(data) - 8:
        raise ValueError("no safetensors")
    return json.loads(data[8 : 8 + length])["__metadata__"]
