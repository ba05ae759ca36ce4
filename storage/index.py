"""An index folder: generations of which readers open the current one.

    OUT/CURRENT                         which generation readers open
    OUT/generations/{number}-{digest}/  manifest.json  files/{sha256}.{kind}

A generation is a list of parts: segments (storage.segments) with the catalogue of their documents. Files that the
generation before has too are links to the same bytes on disk. They hold no times and no generation numbers.
"""

from __future__ import annotations

import re
from pathlib import Path

from storage import files
from storage.engines import address_of, engine_of
from storage.index_generation import Index, Pointer, read_pointer
from storage.storage_errors import DamagedIndex, NotAnIndex

COMPANIONS = frozenset({"CURRENT", "generations", "index_status.json", "chunk_preview.json"})
"""What an index folder may hold before its first generation is there."""
OURS = re.compile(r"\d{6,}-[0-9a-f]{12}|\.building-.*")
"""Names below `generations`; nothing else is ever removed."""


def claim(out: Path) -> None:
    """Make `out` an index folder if it is empty or absent. Raises NotAnIndex, StoreUnreachable."""
    if engine := engine_of(out):
        engine.claim()
    else:
        refuse_foreign(out)
        files.make_folder(out / "generations")


def open_index(path: Path, *, embedder: str | None = None) -> Index:
    """The current generation, pinned: a later one neither changes nor removes it.

    Cheap: sizes are compared, files are mapped when they are used; `Index.verify` reads them all.
    path: a folder, or the one that stands for the address of an engine (storage.engines).
    Raises NotAnIndex, DamagedIndex, WrongEmbedder (with `embedder`), StoreUnreachable.
    """
    engine = engine_of(path)
    opened = engine.open() if engine else _open_folder(path)
    if embedder is not None:
        opened.require_embedder(embedder)
    return opened


def _open_folder(path: Path) -> Index:
    with files.reachable(path):
        while True:
            pointer = read_pointer(path)
            try:
                return Index(path / "generations" / pointer.generation, pointer.manifest)
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
