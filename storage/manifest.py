"""What a generation of an index is made of, and which generation readers open."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import JsonValue, ValidationError

from storage.records import Record, Ref
from storage.segments import Segment
from storage.storage_errors import NotAnIndex


class FileDigest(Record):
    """What a file must be."""

    sha256: str
    size: int


class Part(Segment):
    """A segment in an index, and the documents that it is listed with: also those that have no chunks."""

    documents: int
    catalogue: Ref


class Manifest(Record):
    """What a generation is made of, and with what."""

    format: Literal["trivet-index"] = "trivet-index"
    version: Literal[1, 2] = 2
    """1: one file of each kind, as storage.former reads them."""
    embedder: str
    dimension: int
    tokenizer: str | None
    """None: without BM25."""
    documents: int
    chunks: int
    settings: dict[str, JsonValue]
    parts: tuple[Part, ...] = ()
    """In the order of their documents."""
    centres: Ref | None = None
    """Around which vectors are grouped; None for an index that is small."""
    mean_idf: float = 0.0
    """Of BM25, over all terms."""
    files: dict[str, FileDigest]

    def packed(self) -> bytes:
        """The content of manifest.json, whose digest is that of all content."""
        return self.model_dump_json(indent=1).encode()


class Generation(Record):
    """What `publish` gives."""

    id: str
    digest: str
    """Equal content has equal digests."""
    created: bool
    """False: the content was current already."""


class Pointer(Record):
    """The content of CURRENT."""

    format: Literal["trivet-index"] = "trivet-index"
    version: Literal[1] = 1
    generation: str
    previous: str | None
    """Kept beside the current one, for readers that still use it."""
    manifest: str
    """SHA-256 of manifest.json, hex: the digest of the whole content."""


FILES = "files"
"""Folder of the files of parts, below a generation."""


def name_of(ref: Ref) -> str:
    """Name of a file of a part, below the folder of the generation."""
    return f"{FILES}/{ref.digest}.{ref.kind}"


def read_pointer(out: Path) -> Pointer:
    """What CURRENT says. Raises NotAnIndex."""
    if not out.is_dir():
        raise NotAnIndex(f"{out} is not a folder; give the folder that `trivet rag index … --index` wrote")
    try:
        data = (out / "CURRENT").read_bytes()
    except FileNotFoundError as error:
        raise NotAnIndex(f"{out} holds no finished index; run `trivet rag index … --index {out}`") from error
    except (IsADirectoryError, NotADirectoryError) as error:
        raise NotAnIndex(f"{out} holds a CURRENT that is not a file of ours; name another folder") from error
    try:
        return Pointer.model_validate_json(data)
    except ValidationError as error:
        raise NotAnIndex(
            f"{out} holds a CURRENT that is not of this program or version; name another folder"
        ) from error
