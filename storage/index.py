"""An index folder: generations of which one is current; written beside it, verified, then switched to in one step.

    OUT/CURRENT                         which generation readers open
    OUT/generations/{number}-{digest}/  manifest.json  files/{sha256}.{kind}

A generation is a list of parts: segments (storage.segments) with the catalogue of their documents. Files that the
generation before has too are links to the same bytes on disk. They hold no times and no generation numbers.

A reader holds a shared lock on its generation, a builder an exclusive one on its unfinished folder; both end with their
process, so whatever is neither locked nor current nor previous can be removed.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import tempfile
from bisect import bisect_right
from collections.abc import Callable, Generator, Iterable, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from storage import files
from storage.arrays import map_arrays
from storage.engines import address_of, engine_of
from storage.former import FormerIndex, is_former
from storage.generations import (
    FILES,
    CatalogueEntry,
    Fact,
    FileDigest,
    FolderIndex,
    Generation,
    Index,
    Manifest,
    Part,
    Pointer,
    name_of,
    pack_catalogue,
    read_pointer,
)
from storage.lexical import Whole, postings_of
from storage.records import Ref
from storage.segments import DocumentContent, Segment, pack_segment, split
from storage.storage_errors import DamagedIndex, NotAnIndex

__all__ = ["CatalogueEntry", "Fact", "Generation", "Index", "claim", "is_current", "open_index", "publish"]

COMPANIONS = frozenset({"CURRENT", "generations", "index_status.json", "chunk_preview.json"})
"""What an index folder may hold before its first generation is there."""
OURS = re.compile(r"\d{6,}-[0-9a-f]{12}|\.building-.*")
"""Names below `generations`; nothing else is ever removed."""


class StoredChunk(Protocol):
    """What the index asks of a chunk; it is kept as one line of JSON."""

    @property
    def document(self) -> str: ...
    def model_dump_json(self) -> str: ...


def claim(out: Path) -> None:
    """Make `out` an index folder if it is empty or absent. Raises NotAnIndex, StoreUnreachable."""
    if engine := engine_of(out):
        engine.claim()
    else:
        refuse_foreign(out)
        files.make_folder(out / "generations")


def publish(
    out: Path,
    *,
    chunks: Iterable[StoredChunk],
    vectors: NDArray[np.float16],
    tokens: Iterable[Sequence[str]] | None,
    catalogue: Sequence[CatalogueEntry],
    embedder: str,
    tokenizer: str | None,
    settings: dict[str, JsonValue],
    numbers: Iterable[bytes] = (),
) -> Generation:
    """Make the segments of an index here, and publish them.

    chunks, vectors, tokens: row by row the same; `tokens` and `tokenizer` are None for an index without BM25.
    numbers: rows of storage.numbers, as JSON lines, of one document each.
    Raises as `publish_segments`, ValueError if rows do not match.
    """
    if (tokens is None) != (tokenizer is None):
        raise ValueError("BM25 needs both the token lists and the name of the tokenizer that made them")
    claim(out)
    with files.reachable(out), _scratch(out) as scratch:
        contents = _by_document(catalogue, chunks, vectors, tokens, numbers)
        segments: list[Segment] = []
        made: dict[Ref, Path] = {}
        for part in split(contents):
            packed = pack_segment(part)
            segments.append(packed.segment)
            for ref, data in packed.files.items():
                made[ref] = scratch / ref.digest
                made[ref].write_bytes(data)
        return publish_segments(
            out,
            segments=segments,
            path_of=made.__getitem__,
            catalogue=catalogue,
            embedder=embedder,
            tokenizer=tokenizer,
            settings=settings,
        )


def publish_segments(
    out: Path,
    *,
    segments: Sequence[Segment],
    path_of: Callable[[Ref], Path],
    catalogue: Sequence[CatalogueEntry],
    embedder: str,
    tokenizer: str | None,
    settings: dict[str, JsonValue],
    centres: Ref | None = None,
) -> Generation:
    """Write a generation beside the current one, verify it, and make it current; content that is current stays.

    segments: in the order of their documents. path_of: where the file of a Ref lies; it is linked or copied.
    Raises NotAnIndex, StoreUnreachable (the old generation stays), DamagedIndex (the disk gave back other bytes).
    """
    claim(out)
    made = (segments, path_of, catalogue, embedder, tokenizer, settings, centres)
    if engine := engine_of(out):
        with files.scratch_folder(out) as folder:
            manifest = _filled(_Contents(folder, before=None), *made)
            return engine.publish(manifest, folder.joinpath)
    with files.reachable(out), _workplace(out) as (folder, lock):
        contents = _Contents(folder, before=_current_files(out))
        digest = contents.seal(_filled(contents, *made))
        with _locked(out / "generations"):  # where locks change, so that no sweep comes between
            fcntl.flock(lock, fcntl.LOCK_SH)  # finished: others may read it, none may remove it
        with FolderIndex(folder, digest) as written:
            written.verify(contents.fresh)
        return _switch(out, folder, digest)


def _filled(
    contents: _Contents,
    segments: Sequence[Segment],
    path_of: Callable[[Ref], Path],
    catalogue: Sequence[CatalogueEntry],
    embedder: str,
    tokenizer: str | None,
    settings: dict[str, JsonValue],
    centres: Ref | None,
) -> Manifest:
    """All files of a generation, linked, and its manifest."""
    segments = segments or [contents.empty()]
    for ref in [ref for one in segments for ref in (one.text, one.vectors, one.numbers)]:
        contents.take(ref, path_of)
    if centres is not None:
        contents.take(centres, path_of)
    parts = contents.parts(segments, catalogue)
    return Manifest(
        embedder=embedder,
        dimension=max((one.dimension for one in segments if one.rows), default=1),
        tokenizer=tokenizer,
        documents=len(catalogue),
        chunks=sum(part.rows for part in parts),
        settings=settings,
        parts=parts,
        centres=centres,
        mean_idf=contents.mean_idf(parts) if tokenizer else 0.0,
        files=contents.files(),
    )


def _by_document(
    catalogue: Sequence[CatalogueEntry],
    chunks: Iterable[StoredChunk],
    vectors: NDArray[np.float16],
    tokens: Iterable[Sequence[str]] | None,
    numbers: Iterable[bytes],
) -> list[tuple[str, int, DocumentContent]]:
    """The rows of each document, in the order of the catalogue."""
    rows: dict[str, list[int]] = {entry.document: [] for entry in catalogue}
    lines: list[bytes] = []
    for chunk in chunks:
        if chunk.document not in rows:
            raise ValueError(f"a chunk belongs to document {chunk.document[:16]}, which is not catalogued")
        rows[chunk.document].append(len(lines))
        lines.append(chunk.model_dump_json().encode())
    words = None if tokens is None else list(tokens)
    if len({len(lines), len(vectors), len(lines if words is None else words)}) != 1:
        counts = {"chunks": len(lines), "vectors": len(vectors), "tokens": None if words is None else len(words)}
        raise ValueError(f"an index needs one vector and one token list per chunk; these are {counts}")
    told: dict[str, list[bytes]] = {}
    for of_document in filter(None, numbers):
        told.setdefault(json.loads(of_document.split(b"\n", 1)[0])["document"], []).append(of_document)
    return [
        (
            document,
            len(own),
            DocumentContent(
                document,
                [lines[row] for row in own],
                vectors[own],
                None if words is None else [words[row] for row in own],
                b"".join(told.get(document, ())),
            ),
        )
        for document, own in rows.items()
        if own or document in told
    ]


def open_index(path: Path, *, embedder: str | None = None) -> Index:
    """The current generation, pinned: a later one neither changes nor removes it.

    path: a folder, or the one that stands for the address of an engine (storage.engines).
    Raises NotAnIndex, DamagedIndex, WrongEmbedder (with `embedder`), StoreUnreachable.
    """
    engine = engine_of(path)
    opened = engine.open() if engine else open_folder(path)
    if embedder is not None:
        opened.require_embedder(embedder)
    return opened


def open_folder(path: Path) -> FolderIndex:
    """The current generation of a folder, pinned.

    Cheap: sizes are compared, files are mapped when they are used; `FolderIndex.verify` reads them all.
    Raises NotAnIndex, DamagedIndex, StoreUnreachable.
    """
    with files.reachable(path):
        while True:
            pointer = read_pointer(path)
            try:
                return open_generation(path / "generations" / pointer.generation, pointer.manifest)
            except DamagedIndex:
                if read_pointer(path) == pointer:
                    raise
                continue  # two switches between reading the pointer and opening: the generation is gone


def refuse_foreign(out: Path) -> None:
    """Raises NotAnIndex for a folder that holds something else, StoreUnreachable; changes nothing."""
    if address_of(out):
        return
    if out.exists() and not out.is_dir():
        raise NotAnIndex(f"{out} is a file; name a folder for the index")
    with files.reachable(out):
        if (out / "CURRENT").exists():
            read_pointer(out)
        elif strange := _strange(out):
            raise NotAnIndex(f"{out} holds {strange} and no index; name an empty or a new folder")


def _strange(out: Path) -> str | None:
    """A name in a folder without CURRENT that an index would not have left there; hidden files are nobody's."""
    generations = out / "generations"
    names = sorted(entry.name for entry in out.iterdir()) if out.exists() else []
    below = sorted(entry.name for entry in generations.iterdir()) if generations.is_dir() else []
    strange = [name for name in names if name not in COMPANIONS and not name.startswith(".")]
    strange += [f"generations/{name}" for name in below if not OURS.fullmatch(name)]
    return next(iter(strange), None)


def pointer_of(path: Path) -> Pointer:
    """Which generation readers of a folder or an engine open. Raises NotAnIndex, StoreUnreachable."""
    engine = engine_of(path)
    return engine.pointer() if engine else read_pointer(path)


def is_published(path: Path) -> bool:
    """Whether a folder or an engine holds a generation. Raises StoreUnreachable."""
    try:
        pointer_of(path)
    except NotAnIndex:
        return False
    return True


def is_current(out: Path, digest: str) -> bool:
    """True when readers of `out` get the generation of this digest, and its files have their sizes."""
    try:
        with open_index(out) as index:
            return index.digest == digest
    except (NotAnIndex, DamagedIndex):
        return False


class _Contents:
    """Fills the folder of an unfinished generation, and notes what each file must be."""

    def __init__(self, folder: Path, *, before: Path | None) -> None:
        """before: folder of the current generation, whose files need not be written again."""
        self._folder, self._before = folder, before
        self._written: dict[str, FileDigest] = {}
        self.fresh: set[str] = set()
        """Names of the files that the generation before does not have."""
        (folder / FILES).mkdir()

    def take(self, ref: Ref, path_of: Callable[[Ref], Path]) -> None:
        """Link to the file of `ref`: to that of the generation before, else to where it was made."""
        name = name_of(ref)
        if name in self._written:
            return
        self._written[name] = FileDigest(sha256=ref.digest, size=ref.size)
        if self._before is not None and _is_untouched(self._before, name, ref):
            files.link(self._before / name, self._folder / name)
            return
        self.fresh.add(name)
        files.link(path_of(ref), self._folder / name)

    def put(self, kind: str, data: bytes) -> Ref:
        """A file that is made here."""
        ref = Ref.of(kind, data)

        def written(_: Ref) -> Path:
            path = self._folder / "made"
            path.unlink(missing_ok=True)
            path.write_bytes(data)
            return path

        self.take(ref, written)
        (self._folder / "made").unlink(missing_ok=True)
        return ref

    def empty(self) -> Segment:
        """The segment of an index without chunks: documents that cannot be read are listed with it."""
        packed = pack_segment(())
        for ref, data in packed.files.items():
            self.put(ref.kind, data)
        return packed.segment

    def parts(self, segments: Sequence[Segment], catalogue: Sequence[CatalogueEntry]) -> tuple[Part, ...]:
        """The segments with the catalogue of their documents; one without chunks is listed where its digest stands."""
        listed: list[list[CatalogueEntry]] = [[] for _ in segments]
        if len(segments) == 1:
            listed[0] = list(catalogue)
        else:
            firsts = [one.first for one in segments]
            for entry in catalogue:
                listed[max(bisect_right(firsts, entry.document) - 1, 0)].append(entry)
        return tuple(
            Part(
                **one.model_dump(),
                documents=len(entries),
                catalogue=self.put("segment-catalogue", pack_catalogue(entries)),
            )
            for one, entries in zip(segments, listed, strict=True)
        )

    def mean_idf(self, parts: Sequence[Part]) -> float:
        """Of BM25, over the terms of all parts."""
        return Whole.of([postings_of(map_arrays(self._folder / name_of(part.text))) for part in parts]).mean_idf

    def files(self) -> dict[str, FileDigest]:
        """What each file must be."""
        return dict(sorted(self._written.items()))

    def seal(self, manifest: Manifest) -> str:
        """Write the manifest and make all durable; gives the manifest's digest, which is that of the content."""
        data = manifest.packed()
        files.write(self._folder / "manifest.json", data)
        for name in self.fresh:
            files.sync_file(self._folder / name)
        files.sync_folder(self._folder / FILES)
        files.sync_folder(self._folder)
        return hashlib.sha256(data).hexdigest()


def _is_untouched(before: Path, name: str, ref: Ref) -> bool:
    """Whether a generation has the file as it was written: nobody wrote to it since, or its bytes are the right ones.

    Reading all files would take longer than writing those of a change.
    """
    try:
        facts = (before / name).stat()
        if facts.st_mtime_ns <= (before / "manifest.json").stat().st_mtime_ns:
            return facts.st_size == ref.size
        with (before / name).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == ref.digest
    except OSError:
        return False


def _current_files(out: Path) -> Path | None:
    """The folder of the current generation."""
    try:
        return out / "generations" / read_pointer(out).generation
    except NotAnIndex:
        return None


def open_generation(folder: Path, digest: str) -> FolderIndex:
    """One generation, open and pinned, of this or of the former format. Raises DamagedIndex."""
    return (FormerIndex if is_former(folder) else FolderIndex)(folder, digest)


@contextlib.contextmanager
def _scratch(out: Path) -> Generator[Path]:
    """A folder for files that a generation is made of, gone afterwards."""
    if address_of(out):
        with files.scratch_folder(out) as folder:
            yield folder
    else:
        with _workplace(out) as (folder, _):
            yield folder


@contextlib.contextmanager
def _workplace(out: Path) -> Generator[tuple[Path, int]]:
    """A folder for an unfinished generation, gone afterwards unless it was renamed, and its lock.

    The lock is exclusive while the builder writes, so that no other takes the folder for a leftover.
    """
    generations = out / "generations"
    with _locked(generations):
        folder = Path(tempfile.mkdtemp(dir=generations, prefix=".building-"))
        folder.chmod(0o755)
        lock = os.open(folder, os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        yield folder, lock
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _switch(out: Path, folder: Path, digest: str) -> Generation:
    """Make the finished folder current, unless what is current has the same content and is whole."""
    generations = out / "generations"
    with _locked(generations):
        current = read_pointer(out) if (out / "CURRENT").exists() else None
        if current and current.manifest == digest and _is_whole(out, current):
            _sweep(generations, keep={current.generation, current.previous})
            return Generation(id=current.generation, digest=digest, created=False)
        numbers = (folder.name.partition("-")[0] for folder in generations.iterdir())
        number = 1 + max((int(number) for number in numbers if number.isdecimal()), default=0)
        generation = f"{number:06d}-{digest[:12]}"
        folder.rename(generations / generation)
        files.sync_folder(generations)
        pointer = Pointer(generation=generation, previous=current.generation if current else None, manifest=digest)
        files.write(out / "CURRENT", pointer.model_dump_json(indent=1).encode())
        _sweep(generations, keep={pointer.generation, pointer.previous})
        return Generation(id=generation, digest=digest, created=True)


def _is_whole(out: Path, pointer: Pointer) -> bool:
    try:
        with open_generation(out / "generations" / pointer.generation, pointer.manifest) as index:
            index.verify()
    except DamagedIndex:
        return False
    return True


def _sweep(generations: Path, *, keep: set[str | None]) -> None:
    """Remove generations and unfinished folders that nobody keeps or holds open."""
    for folder in sorted(generations.iterdir()):
        if folder.name in keep or not OURS.fullmatch(folder.name) or not folder.is_dir():
            continue
        lock = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        except BlockingIOError:
            pass  # a reader or a builder has it; the next publisher looks again
        finally:
            os.close(lock)


@contextlib.contextmanager
def _locked(generations: Path) -> Generator[None]:
    """Alone among publishers; the lock ends with the process, whatever ends that."""
    lock = os.open(generations, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
