"""A new generation of an index: written beside the current one, verified, then switched to in one step.

A reader holds a shared lock on its generation, a builder an exclusive one on its unfinished folder; both end with their
process, so whatever is neither locked nor current nor previous can be removed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Generator, Sequence
from pathlib import Path

from pydantic import JsonValue

from storage import files
from storage.catalogue import CatalogueEntry
from storage.engines import engine_of
from storage.generation_files import Contents
from storage.index import OURS, claim, open_generation
from storage.index_generation import Index
from storage.manifest import Generation, Manifest, Pointer, read_pointer
from storage.records import Ref
from storage.segments import Segment
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
    """Write a generation beside the current one, verify it, and make it current; content that is current stays.

    segments: in the order of their documents. path_of: where the file of a Ref lies; it is linked or copied.
    Raises NotAnIndex, StoreUnreachable (the old generation stays), DamagedIndex (the disk gave back other bytes).
    """
    claim(out)
    made = (segments, path_of, catalogue, embedder, tokenizer, settings, centres)
    if engine := engine_of(out):
        with files.scratch_folder(out) as folder:
            manifest = _filled(Contents(folder, before=None), *made)
            return engine.publish(manifest, folder.joinpath)
    with files.reachable(out), _workplace(out) as (folder, lock):
        contents = Contents(folder, before=_current_files(out))
        digest = contents.seal(_filled(contents, *made))
        with _locked(out / "generations"):  # where locks change, so that no sweep comes between
            fcntl.flock(lock, fcntl.LOCK_SH)  # finished: others may read it, none may remove it
        with Index(folder, digest) as written:
            written.verify(contents.fresh)
        return _switch(out, folder, digest)


def _filled(
    contents: Contents,
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


def _current_files(out: Path) -> Path | None:
    """The folder of the current generation."""
    try:
        return out / "generations" / read_pointer(out).generation
    except NotAnIndex:
        return None


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
