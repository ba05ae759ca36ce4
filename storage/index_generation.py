"""One generation of an index folder, open: its chunks, its documents, and what searches them."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import weakref
from collections.abc import Collection, Generator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from storage.arrays import map_arrays
from storage.catalogue import Catalogue, CatalogueEntry, texts_of
from storage.centres import Centres
from storage.lexical import Lexical, Whole, postings_of
from storage.manifest import FILES, FileDigest, Manifest, name_of
from storage.row_searches import Dense, Words
from storage.storage_errors import DamagedIndex, NotAnIndex, WrongEmbedder
from storage.vectors import Vectors


class Index:
    """One generation of an index, open. Rows are positions of chunks, those of a document together.

    What is kept otherwise, in an engine or in the former format, is a subclass.
    """

    def __init__(self, folder: Path, digest: str) -> None:
        """Open and pin `folder`; `digest` is its manifest's. Raises DamagedIndex."""
        self._folder = folder
        self.generation = folder.name
        self.digest = digest
        """SHA-256 of the manifest, hex: equal content has equal digests."""
        self._unpin = weakref.finalize(self, os.close, _pin(folder))
        data = _read(folder / "manifest.json")
        if hashlib.sha256(data).hexdigest() != digest:
            raise DamagedIndex(_damage(folder / "manifest.json", "is not the one that was written"))
        self.manifest = Manifest.model_validate_json(data)
        for name, file in self.manifest.files.items():
            _check(folder / name, file, content=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        return self.manifest.chunks

    def close(self) -> None:
        """Let the generation be removed once it is neither current nor previous."""
        self._unpin()

    def require_embedder(self, embedder: str) -> None:
        """Raises WrongEmbedder unless `embedder` (an id) made the vectors."""
        if embedder != self.manifest.embedder:
            raise WrongEmbedder(
                f"the index was made with the embedder {self.manifest.embedder}, this search uses {embedder}; "
                f"search with {self.manifest.embedder}, or index again with {embedder}"
            )

    @cached_property
    def catalogue(self) -> Sequence[CatalogueEntry]:
        """The documents, also those that could not be indexed."""
        return self._catalogue

    @cached_property
    def vectors(self) -> Dense:
        """Dense search."""
        with self._damage_named(FILES):
            return Vectors(
                [self._folder / name_of(part.vectors) for part in self.manifest.parts],
                dimension=self.manifest.dimension,
                centres=None if self.centres_file is None else Centres.open(self.centres_file),
            )

    @property
    def centres_file(self) -> Path | None:
        """The file of storage.vectors.Centres; None for an index that has none."""
        return None if self.manifest.centres is None else self._folder / name_of(self.manifest.centres)

    @cached_property
    def lexical(self) -> Words | None:
        """BM25 search; None if the index was made without."""
        if self.manifest.tokenizer is None:
            return None
        tokens = sum(part.tokens for part in self.manifest.parts)
        postings = [postings_of(text) for text in self._texts]
        return Lexical(postings, Whole(len(self), tokens, self.manifest.mean_idf))

    def chunk(self, row: int) -> bytes:
        """The chunk as JSON, read alone."""
        row = range(len(self))[row]
        at = int(self._firsts.searchsorted(row, "right")) - 1
        begin, end = self._texts[at]["offsets"][row - self._firsts[at] :][:2]
        return self._texts[at]["chunks"][begin:end].tobytes()

    def document(self, row: int) -> CatalogueEntry:
        """The document that the chunk belongs to."""
        return self.catalogue[self.document_of_row[row]]

    @cached_property
    def document_of_row(self) -> NDArray[np.int32]:
        """Per row, the position of its document in the catalogue."""
        places = [
            np.array([self._place[document] for document in texts_of(text["documents"])], np.int32)[text["owners"]]
            for text in self._texts
        ]
        return np.concatenate(places) if len(self) else np.empty(0, np.int32)

    @cached_property
    def numbers(self) -> tuple[Path, ...]:
        """The files of storage.numbers. Raises NotAnIndex for an index made before there were any, or such as now."""
        from storage.numbers import lacks

        paths = self._number_files
        if missing := sorted({name for path in paths for name in lacks(path)}):
            why = f"the numbers of {self._folder} were written by an older version, without {', '.join(missing)}"
            raise NotAnIndex(f"{why}; run `trivet rag index` again to renew them")
        return paths

    def rows_of(self, documents: Collection[str]) -> NDArray[np.bool_]:
        """A flag per row: does it belong to one of `documents` (digests)?"""
        flags = np.zeros(len(self), np.bool_)
        for at in (self._place[document] for document in documents if document in self._place):
            flags[self._begins[at] : self._ends[at]] = True
        return flags

    @cached_property
    def _begins(self) -> NDArray[np.int64]:
        """Per document, its first row."""
        return self._ends - np.bincount(self.document_of_row, minlength=len(self._place))

    @cached_property
    def _ends(self) -> NDArray[np.int64]:
        """Per document, the row after its last one; 0 for a document without rows."""
        ends = np.zeros(len(self._place), np.int64)
        ends[self.document_of_row] = np.arange(1, len(self) + 1)  # of equal places the last one counts
        return ends

    @cached_property
    def names(self) -> Mapping[str, str]:
        """Digest of each document → its name."""
        return dict(zip(self._catalogue.documents, self._catalogue.names, strict=True))

    def entry(self, document: str) -> CatalogueEntry | None:
        """The document of this digest; None if there is none."""
        return self.catalogue[self._place[document]] if document in self._place else None

    def verify(self, names: Collection[str] | None = None) -> None:
        """Read every file, or those of these names, and open what searches.

        Raises DamagedIndex for the first that is not what was written.
        """
        for name, file in self.manifest.files.items():
            if names is None or name in names:
                _check(self._folder / name, file, content=True)
        self._verify_rows()

    def _verify_rows(self) -> None:
        with self._damage_named(FILES):
            rows = [len(text["owners"]) for text in self._texts]
            _ = self.lexical, self.catalogue
        if not len(self) == self.vectors.size == sum(rows):
            raise DamagedIndex(_damage(self._folder, "holds files of different numbers of rows"))

    @cached_property
    def _place(self) -> Mapping[str, int]:
        """Digest of each document → its position in the catalogue."""
        return {document: at for at, document in enumerate(self.names)}

    @property
    def _number_files(self) -> tuple[Path, ...]:
        return tuple(self._folder / name_of(part.numbers) for part in self.manifest.parts)

    @cached_property
    def _catalogue(self) -> Catalogue:
        with self._damage_named(FILES):
            refs = [part.catalogue for part in self.manifest.parts]
            return Catalogue([map_arrays(self._folder / name_of(ref)) for ref in refs], [ref.digest for ref in refs])

    @cached_property
    def _texts(self) -> list[dict[str, NDArray[Any]]]:
        with self._damage_named(FILES):
            return [map_arrays(self._folder / name_of(part.text)) for part in self.manifest.parts]

    @cached_property
    def _firsts(self) -> NDArray[np.int64]:
        """Row at which each part starts."""
        return np.cumsum([0, *(part.rows for part in self.manifest.parts)], dtype=np.int64)

    @contextlib.contextmanager
    def _damage_named(self, name: str) -> Generator[None]:
        try:
            yield
        except (OSError, ValueError, KeyError) as error:
            raise DamagedIndex(_damage(self._folder / name, f"cannot be read ({error})")) from error


def _check(path: Path, file: FileDigest, *, content: bool) -> None:
    """Raises DamagedIndex unless the file has its size, and with `content` its digest."""
    try:
        size = path.stat().st_size
    except FileNotFoundError as error:
        raise DamagedIndex(_damage(path, "is missing")) from error
    if size != file.size:
        raise DamagedIndex(_damage(path, f"has {size} bytes instead of {file.size}"))
    if content:
        with path.open("rb") as stored:
            if hashlib.file_digest(stored, "sha256").hexdigest() != file.sha256:
                raise DamagedIndex(_damage(path, "fails its checksum"))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise DamagedIndex(_damage(path, "is missing")) from error


def _damage(path: Path, what: str) -> str:
    return f"{path} {what}; the index is damaged, run `trivet rag index` again to replace it"


def _pin(folder: Path) -> int:
    """An open descriptor that keeps `folder` from being removed until it is closed."""
    try:
        pin = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise DamagedIndex(_damage(folder, "is missing")) from error
    try:
        fcntl.flock(pin, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError as error:  # being removed at this moment
        os.close(pin)
        raise DamagedIndex(_damage(folder, "is being removed")) from error
    except OSError:
        pass  # a file system without locks: files that are open outlive their removal
    return pin
