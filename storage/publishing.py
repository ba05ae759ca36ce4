"""A new version of an index: written beside the current one, verified, then switched to in one step.

A reader holds a shared lock on its version, a builder an exclusive one on its unfinished folder; both end with their
process, so whatever is neither locked nor current nor previous can be removed.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import tempfile
from bisect import bisect_right
from collections.abc import Callable, Generator, Sequence
from pathlib import Path

from pydantic import JsonValue

from storage import files
from storage.arrays import map_arrays
from storage.engines import engine_of
from storage.index import (
    FILES,
    OURS,
    FileDigest,
    Generation,
    Index,
    Manifest,
    Part,
    Pointer,
    claim,
    has_content,
    name_of,
    read_pointer,
)
from storage.lexical import IndexCounts, postings_of
from storage.records import Ref
from storage.segments import CatalogueEntry, Segment, pack_catalogue, pack_segment
from storage.storage_errors import DamagedIndex, NotAnIndex


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
    """Write a version beside the current one, verify it, and make it current; equal content that is current stays.

    segments: in the order of their documents. path_of: where the file of a Ref lies; it is linked or copied.
    Raises NotAnIndex, StoreUnreachable (the old version stays), DamagedIndex (the disk gave back other bytes).
    """
    claim(out)

    def fill(contents: Contents) -> Manifest:
        """Put the files of segments and centres into the version, and return its manifest."""
        to_publish = segments or [contents.empty()]
        for ref in [ref for segment in to_publish for ref in (segment.text, segment.vectors, segment.numbers)]:
            contents.take(ref, path_of)
        if centres is not None:
            contents.take(centres, path_of)
        parts = contents.parts(to_publish, catalogue)
        return Manifest(
            embedder=embedder,
            dimension=max((segment.dimension for segment in to_publish if segment.rows), default=1),
            tokenizer=tokenizer,
            documents=len(catalogue),
            chunks=sum(part.rows for part in parts),
            settings=settings,
            parts=parts,
            centres=centres,
            mean_idf=contents.mean_idf(parts) if tokenizer else 0.0,
            files=dict(sorted(contents.written.items())),
        )

    if engine := engine_of(out):
        with files.scratch_folder(out) as folder:
            manifest = fill(Contents(folder, before=None))
            return engine.publish(manifest, folder.joinpath)
    with files.reachable(out), _unfinished_folder(out / "generations") as (folder, lock):
        is_first = not (out / "CURRENT").exists()
        before = None if is_first else out / "generations" / read_pointer(out).generation
        contents = Contents(folder, before=before)
        digest = contents.seal(fill(contents))
        with _locked(out / "generations"):  # where locks change, so that no sweep comes between
            fcntl.flock(lock, fcntl.LOCK_SH)  # finished: others may read it, none may remove it
        with Index(folder, digest) as written:
            written.verify(contents.fresh)
        return _switch(out, folder, digest)


@contextlib.contextmanager
def _unfinished_folder(generations: Path) -> Generator[tuple[Path, int]]:
    """Yield a folder for an unfinished version, gone afterwards unless it was renamed, and its lock.

    The lock is exclusive while the builder writes, so that no other takes the folder for a leftover.
    """
    with _locked(generations):
        folder = Path(tempfile.mkdtemp(dir=generations, prefix=".building-"))
        folder.chmod(0o755)  # mkdtemp closes it to other accounts, and an index is for all who may reach it
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
        if current and current.manifest == digest:
            with contextlib.suppress(DamagedIndex, NotAnIndex):  # a damaged one is replaced
                with Index(generations / current.generation, digest) as index:
                    index.verify()
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


def _sweep(generations: Path, *, keep: set[str | None]) -> None:
    """Remove versions and unfinished folders that nobody keeps or holds open."""
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
    """Hold the lock of the publishers inside the block; it ends with the process, however that ends."""
    lock = os.open(generations, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


class Contents:
    """Fills the folder of an unfinished version, and notes what each file must be."""

    def __init__(self, folder: Path, *, before: Path | None) -> None:
        """before: folder of the current version, whose files need not be written again; None where there is none."""
        self._folder, self._before = folder, before
        self.written: dict[str, FileDigest] = {}
        """Size and SHA-256 that each file of the version must have, by name."""
        self.fresh: set[str] = set()
        """Names of the files that the version before does not have."""
        (folder / FILES).mkdir()

    def take(self, ref: Ref, path_of: Callable[[Ref], Path]) -> None:
        """Link to the file of `ref`: to that of the version before, else to where it was made."""
        name = name_of(ref)
        if name in self.written:
            return
        self.written[name] = FileDigest(sha256=ref.digest, size=ref.size)
        if self._before is not None and has_content(self._before / name, ref):
            files.link(self._before / name, self._folder / name)
            return
        self.fresh.add(name)
        files.link(path_of(ref), self._folder / name)

    def put(self, kind: str, data: bytes) -> Ref:
        """Write `data` as a file of the version, and return its Ref."""
        ref, temporary = Ref.of(kind, data), self._folder / "made"
        temporary.write_bytes(data)
        self.take(ref, lambda _: temporary)
        temporary.unlink()
        return ref

    def empty(self) -> Segment:
        """Return the segment of an index without chunks: documents that cannot be read are listed with it."""
        packed = pack_segment(())
        for ref, data in packed.files.items():
            self.put(ref.kind, data)
        return packed.segment

    def parts(self, segments: Sequence[Segment], catalogue: Sequence[CatalogueEntry]) -> tuple[Part, ...]:
        """Return segments, in order, with the catalogue of their documents; one without chunks goes by its digest."""
        entries_of: list[list[CatalogueEntry]] = [[] for _ in segments]
        if len(segments) == 1:
            entries_of[0] = list(catalogue)
        else:
            firsts = [segment.first for segment in segments]
            for entry in catalogue:
                entries_of[max(bisect_right(firsts, entry.document) - 1, 0)].append(entry)
        return tuple(
            Part(
                **segment.model_dump(),
                documents=len(entries),
                catalogue=self.put("segment-catalogue", pack_catalogue(entries)),
            )
            for segment, entries in zip(segments, entries_of, strict=True)
        )

    def mean_idf(self, parts: Sequence[Part]) -> float:
        """Return the mean BM25 idf over the terms of all parts."""
        return IndexCounts.of([postings_of(map_arrays(self._folder / name_of(part.text))) for part in parts]).mean_idf

    def seal(self, manifest: Manifest) -> str:
        """Write the manifest and make all durable; return the manifest's digest, which is that of the content."""
        data = manifest.pack()
        files.write(self._folder / "manifest.json", data)
        for name in self.fresh:
            files.sync_file(self._folder / name)
        files.sync_folder(self._folder / FILES)
        files.sync_folder(self._folder)
        return hashlib.sha256(data).hexdigest()
