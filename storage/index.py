"""An index folder: versions of which readers open the current one.

    OUT/CURRENT                         which version readers open
    OUT/generations/{number}-{digest}/  manifest.json  files/{sha256}.{kind}

A version is a list of parts: segments (storage.segments) with the catalogue of their documents. Files that the
version before has too are links to the same bytes on disk. They hold no times and no version numbers.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import logging
import os
import re
import weakref
from collections.abc import Callable, Collection, Generator, Mapping
from functools import cached_property
from pathlib import Path
from threading import Lock, Thread
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue, ValidationError

from storage import files
from storage.arrays import map_arrays
from storage.engines import address_of, engine_of
from storage.lexical import IndexCounts, Lexical, postings_of
from storage.records import Record, Ref
from storage.segments import Catalogue, CatalogueEntry, Segment, texts_of
from storage.storage_errors import DamagedIndex, NotAnIndex, StorageError, WrongEmbedder
from storage.vectors import Centres, Dense, Vectors

log = logging.getLogger(__name__)

COMPANIONS = frozenset({"CURRENT", "generations", "index_status.json", "chunk_preview.json"})
"""Names that may stand in an index folder before its first version is there."""
OURS = re.compile(r"\d{6,}-[0-9a-f]{12}|\.building-.*")
"""Names below `generations`; nothing else is ever removed."""
FILES = "files"
"""Folder of the files of parts, below a version."""


class FileDigest(Record):
    """The size and SHA-256 that a file of an index must have."""

    sha256: str
    size: int


class Part(Segment):
    """A segment in an index, and the documents that it is listed with: also those that have no chunks."""

    documents: int
    catalogue: Ref


class Manifest(Record):
    """The content of manifest.json: the parts of an index version, and what they were made with."""

    format: Literal["trivet-index"] = "trivet-index"
    version: Literal[2] = 2
    embedder: str
    dimension: int
    tokenizer: str | None
    """Name of the tokenizer of the BM25 postings; None for an index without BM25."""
    documents: int
    chunks: int
    settings: dict[str, JsonValue]
    parts: tuple[Part, ...] = ()
    """The segments, in the order of their documents."""
    centres: Ref | None = None
    """Around which vectors are grouped; None for an index that is small."""
    mean_idf: float = 0.0
    """Mean BM25 idf over all terms; it completes the scores of words that most rows hold."""
    files: dict[str, FileDigest]

    def pack(self) -> bytes:
        """Return the content of manifest.json, whose digest is that of all content."""
        return self.model_dump_json(indent=1).encode()

    @property
    def refs(self) -> list[Ref]:
        """The Refs of all files of the version, each once."""
        refs = [ref for part in self.parts for ref in (part.text, part.vectors, part.numbers, part.catalogue)]
        return list(dict.fromkeys(refs if self.centres is None else [*refs, self.centres]))

    @property
    def firsts(self) -> NDArray[np.int64]:
        """Row at which each part starts, and where the last one ends."""
        return np.cumsum([0, *(part.rows for part in self.parts)], dtype=np.int64)


class Generation(Record):
    """The index version that `publish` made, or found to be current."""

    id: str
    digest: str
    """SHA-256 of the manifest, hex: equal content has equal digests."""
    created: bool
    """Whether the version is new; False where equal content was current already."""


class Pointer(Record):
    """The content of the file CURRENT: which version of the index readers open."""

    format: Literal["trivet-index"] = "trivet-index"
    version: Literal[1] = 1
    generation: str
    previous: str | None
    """Kept beside the current one, for readers that still use it."""
    manifest: str
    """SHA-256 of manifest.json, hex: the digest of the whole content."""


def name_of(ref: Ref) -> str:
    """Return the name of a file of a part, below the folder of the version."""
    return f"{FILES}/{ref.digest}.{ref.kind}"


def read_pointer(out: Path) -> Pointer:
    """Read which version CURRENT names. Raises NotAnIndex."""
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


class Index:
    """One version of an index, open. Rows are positions of chunks, those of a document together.

    One that is kept in PostgreSQL is a subclass (storage.pg_index).
    """

    def __init__(self, folder: Path, digest: str) -> None:
        """Open and pin `folder`; `digest` is its manifest's. Raises DamagedIndex, NotAnIndex for a former format."""
        self._folder = folder
        self.generation = folder.name
        self.digest = digest
        """SHA-256 of the manifest, hex: equal content has equal digests."""
        self._unpin: Callable[[], object] = weakref.finalize(self, os.close, _pin(folder))
        try:
            data = (folder / "manifest.json").read_bytes()
        except FileNotFoundError as error:
            raise DamagedIndex(_damage_message(folder / "manifest.json", "is missing")) from error
        if hashlib.sha256(data).hexdigest() != digest:
            raise DamagedIndex(_damage_message(folder / "manifest.json", "is not the one that was written"))
        try:
            self.manifest = Manifest.model_validate_json(data)
        except ValidationError as error:
            raise NotAnIndex(
                f"{folder.parents[1]} was written by an older version; run `trivet rag index` again to replace it"
            ) from error
        for name, file in self.manifest.files.items():
            _require_size(folder / name, file.size)
        self._checking, self._sound = Lock(), set[str]()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        return self.manifest.chunks

    def close(self) -> None:
        """Let the version be removed once it is neither current nor previous."""
        self._unpin()

    def require_embedder(self, embedder: str) -> None:
        """Raises WrongEmbedder unless `embedder` (an id) made the vectors."""
        if embedder != self.manifest.embedder:
            raise WrongEmbedder(
                f"the index was made with the embedder {self.manifest.embedder}, this search uses {embedder}; "
                f"search with {self.manifest.embedder}, or index again with {embedder}"
            )

    @cached_property
    def catalogue(self) -> Catalogue:
        """The documents, also those that could not be indexed."""
        with self._damage_named(FILES):
            refs = [part.catalogue for part in self.manifest.parts]
            return Catalogue([map_arrays(self._file(ref)) for ref in refs], [ref.digest for ref in refs])

    @cached_property
    def vectors(self) -> Dense:
        """Search by vectors over all segments."""
        with self._damage_named(FILES):
            paths = [self._file(part.vectors) for part in self.manifest.parts]
            return Vectors(paths, dimension=self.manifest.dimension, centres=self.centres)

    @property
    def centres_file(self) -> Path | None:
        """The file of storage.vectors.Centres; None for an index that has none."""
        return None if self.manifest.centres is None else self._file(self.manifest.centres)

    @property
    def centres(self) -> Centres | None:
        """The centres that the vectors are grouped around; None where every search is exact."""
        path = self.centres_file
        return None if path is None else Centres.open(path)

    @cached_property
    def lexical(self) -> Lexical | None:
        """Search by words with BM25; None for an index that was made without."""
        if self.manifest.tokenizer is None:
            return None
        tokens = sum(part.tokens for part in self.manifest.parts)
        postings = [postings_of(text) for text in self._texts]
        return Lexical(postings, IndexCounts(len(self), tokens, self.manifest.mean_idf))

    def chunk(self, row: int) -> bytes:
        """Return the chunk of a row (below 0: from the end) as JSON, its neighbours unread. Raises IndexError."""
        row = range(len(self))[row]  # counts from the end below 0; raises IndexError
        part = int(self._firsts.searchsorted(row, "right")) - 1
        begin, end = self._texts[part]["offsets"][row - self._firsts[part] :][:2]
        return self._texts[part]["chunks"][begin:end].tobytes()

    def document(self, row: int) -> CatalogueEntry:
        """Return the document that the chunk of a row belongs to."""
        return self.catalogue[self.document_of_row[row]]

    @cached_property
    def document_of_row(self) -> NDArray[np.int32]:
        """Per row, the position of its document in the catalogue."""
        owners = list[NDArray[np.int32]]()
        for text in self._texts:
            positions = np.array([self._position_of[document] for document in texts_of(text["documents"])], np.int32)
            owners.append(positions[text["owners"]])
        return np.concatenate(owners) if len(self) else np.empty(0, np.int32)

    @cached_property
    def numbers(self) -> tuple[Path, ...]:
        """The Parquet files of storage.numbers, one for each part. Raises NotAnIndex for files of an older version."""
        from storage.numbers import missing_columns

        paths = tuple(self._file(part.numbers) for part in self.manifest.parts)
        if missing := sorted({name for path in paths for name in missing_columns(path)}):
            why = f"the numbers of {self._folder} were written by an older version, without {', '.join(missing)}"
            raise NotAnIndex(f"{why}; run `trivet rag index` again to renew them")
        return paths

    def rows_of(self, documents: Collection[str]) -> NDArray[np.bool_]:
        """Return a flag per row: whether it belongs to one of `documents` (digests); unknown ones flag none."""
        flags = np.zeros(len(self), np.bool_)
        begins, ends = self._spans
        for position in (self._position_of[document] for document in documents if document in self._position_of):
            flags[begins[position] : ends[position]] = True
        return flags

    @cached_property
    def _spans(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Per document, its first row and the row after its last one; both 0 for a document without rows."""
        ends = np.zeros(len(self._position_of), np.int64)
        ends[self.document_of_row] = np.arange(1, len(self) + 1)  # of equal places the last one counts
        return ends - np.bincount(self.document_of_row, minlength=len(self._position_of)), ends

    @cached_property
    def names(self) -> Mapping[str, str]:
        """The name of each document, by digest."""
        return dict(zip(self.catalogue.documents, self.catalogue.names, strict=True))

    def entry(self, document: str) -> CatalogueEntry | None:
        """Return the document of this digest; None if there is none."""
        return self.catalogue[self._position_of[document]] if document in self._position_of else None

    def verify(self, names: Collection[str] | None = None) -> None:
        """Read every file and open what searches. `names`: of files to read where the others are known to be whole.

        Raises DamagedIndex for the first that is not what was written.
        """
        if names is not None:
            self._sound |= self.manifest.files.keys() - set(names)
        self._check_files()
        with self._damage_named(FILES):
            rows = [len(text["owners"]) for text in self._texts]
            _ = self.lexical, self.catalogue
        if not len(self) == self.vectors.size == sum(rows):
            raise DamagedIndex(_damage_message(self._folder, "holds files of different numbers of rows"))

    @cached_property
    def _position_of(self) -> Mapping[str, int]:
        """Digest of each document → its position in the catalogue."""
        return {document: position for position, document in enumerate(self.names)}

    def check_in_background(self) -> None:
        """Compare files with their digests in a thread, so that the first answer waits for less; damage is logged."""

        def check() -> None:
            try:
                self._check_files()
            except StorageError as error:  # whoever needs that file is told too
                log.warning("index generation=%s error=%s", self.generation, error)

        Thread(target=check, daemon=True, name="checking").start()

    def _check_files(self) -> None:
        for ref in self.manifest.refs:
            self._file(ref)

    def _file(self, ref: Ref) -> Path:
        """Return the path of a file, whose digest is compared at its first use. Raises DamagedIndex."""
        with self._checking:
            if (name := name_of(ref)) not in self._sound:
                self._check_file(ref)
                self._sound.add(name)
        return self._folder / name

    def _check_file(self, ref: Ref) -> None:
        """Raises DamagedIndex for a file of other content."""
        if not has_content(path := self._folder / name_of(ref), ref):
            raise DamagedIndex(_damage_message(path, "fails its checksum"))

    @cached_property
    def _texts(self) -> list[dict[str, NDArray[Any]]]:
        with self._damage_named(FILES):
            return [map_arrays(self._file(part.text)) for part in self.manifest.parts]

    @cached_property
    def _firsts(self) -> NDArray[np.int64]:
        return self.manifest.firsts

    @contextlib.contextmanager
    def _damage_named(self, name: str) -> Generator[None]:
        try:
            yield
        except (OSError, ValueError, KeyError) as error:
            raise DamagedIndex(_damage_message(self._folder / name, f"cannot be read ({error})")) from error


def claim(out: Path) -> None:
    """Make `out` an index folder if it is empty or absent. Raises NotAnIndex, StoreUnreachable."""
    if engine := engine_of(out):
        engine.claim()
    else:
        refuse_foreign(out)
        files.make_folder(out / "generations")


def open_index(path: Path, *, embedder: str | None = None) -> Index:
    """Open the current version and pin it: a later one neither changes nor removes it.

    Cheap: sizes are compared now; a file is compared with its digest and mapped when it is first used.
    path: a folder, or the one that stands for the address of an engine (storage.engines).
    Raises NotAnIndex, DamagedIndex, WrongEmbedder (with `embedder`), StoreUnreachable.
    """
    if engine := engine_of(path):
        opened = engine.open()
    else:
        with files.reachable(path):
            while True:
                pointer = read_pointer(path)
                try:
                    opened = Index(path / "generations" / pointer.generation, pointer.manifest)
                    break
                except DamagedIndex:
                    if read_pointer(path) == pointer:
                        raise
                    # else two switches between reading the pointer and opening: the version is gone
    if embedder is not None:
        opened.require_embedder(embedder)
    return opened


def refuse_foreign(out: Path) -> None:
    """Raises NotAnIndex for a folder that holds something else, StoreUnreachable; changes nothing."""
    if address_of(out):
        return
    if out.exists() and not out.is_dir():
        raise NotAnIndex(f"{out} is a file; name a folder for the index")
    with files.reachable(out):
        if (out / "CURRENT").exists():
            read_pointer(out)
            return
        # names that an index would not have left there before its CURRENT; hidden files are nobody's
        generations = out / "generations"
        names = sorted(entry.name for entry in out.iterdir()) if out.exists() else []
        below = sorted(entry.name for entry in generations.iterdir()) if generations.is_dir() else []
        strange = [name for name in names if name not in COMPANIONS and not name.startswith(".")]
        strange += [f"generations/{name}" for name in below if not OURS.fullmatch(name)]
        if strange:
            raise NotAnIndex(f"{out} holds {strange[0]} and no index; name an empty or a new folder")


def pointer_of(path: Path) -> Pointer:
    """Return which version readers of a folder or an engine open. Raises NotAnIndex, StoreUnreachable."""
    engine = engine_of(path)
    return engine.pointer() if engine else read_pointer(path)


def is_published(path: Path) -> bool:
    """Return whether a folder or an engine holds an index version. Raises StoreUnreachable."""
    try:
        pointer_of(path)
    except NotAnIndex:
        return False
    return True


def is_current(out: Path, digest: str) -> bool:
    """Return whether readers of `out` get this version, its files as they were written. Raises StoreUnreachable."""
    try:
        with open_index(out) as index:
            index.verify()
            return index.digest == digest
    except (NotAnIndex, DamagedIndex):
        return False


def has_content(path: Path, ref: Ref) -> bool:
    """Return whether a file has the size and the digest of its Ref; False for one that cannot be read."""
    try:
        with path.open("rb") as stored:
            same_size = os.fstat(stored.fileno()).st_size == ref.size
            return same_size and hashlib.file_digest(stored, "sha256").hexdigest() == ref.digest
    except OSError:
        return False


def _require_size(path: Path, size: int) -> None:
    """Raises DamagedIndex unless the file has its size."""
    try:
        present = path.stat().st_size
    except FileNotFoundError as error:
        raise DamagedIndex(_damage_message(path, "is missing")) from error
    if present != size:
        raise DamagedIndex(_damage_message(path, f"has {present} bytes instead of {size}"))


def _damage_message(path: Path, damage: str) -> str:
    return f"{path} {damage}; the index is damaged, run `trivet rag index` again to replace it"


def _pin(folder: Path) -> int:
    """Return an open descriptor that keeps `folder` until it is closed. Raises DamagedIndex: it is gone."""
    try:
        pin = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise DamagedIndex(_damage_message(folder, "is missing")) from error
    try:
        fcntl.flock(pin, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError as error:  # being removed at this moment
        os.close(pin)
        raise DamagedIndex(_damage_message(folder, "is being removed")) from error
    except OSError:
        pass  # a file system without locks: files that are open outlive their removal
    return pin
