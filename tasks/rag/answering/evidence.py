"""Draws the pages that an answer cites, as pictures with the cited boxes framed."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from storage import files
from tasks.documents.blocks import BBox
from tasks.documents.document_errors import DocumentError, ReaderUnusable
from tasks.documents.formats import find_format, sniff
from tasks.documents.isolation import DocumentUnreadable, Job, ReadLimits, render_pages
from tasks.rag.answers import Citation

MOST_NAME_CHARS = 60
"""Most characters of a document's name in the name of a picture."""


class Evidence(NamedTuple):
    """The pictures that were written, and why other citations have none."""

    files: tuple[Path, ...]
    notes: tuple[str, ...]


def write_evidence(
    citations: Sequence[Citation], folder: Path, *, locate: Callable[[str], Path | None], limits: ReadLimits
) -> Evidence:
    """Write a PNG to `folder` for each cited page, named after the first citation on it: `1-report-p12.png`.

    locate: the file of a document by its digest; None where its bytes are no longer kept. Raises StoreUnreachable where
    `folder` cannot be written.
    """
    pictures: list[Path] = []
    notes: list[str] = []
    files.make_folder(folder)
    for digest in dict.fromkeys(citation.digest for citation in citations):
        cited = [citation for citation in citations if citation.digest == digest]
        try:
            pictures += _pictures(cited, folder, locate(digest), limits=limits)
        except (DocumentUnreadable, NoPicture) as reason:
            marks = ", ".join(f"[{citation.n}]" for citation in cited)
            notes.append(f"no picture of {marks}, {cited[0].document}: {reason}")
    return Evidence(tuple(pictures), tuple(notes))


class NoPicture(Exception):
    """A document has no picture; the message says why."""


def _pictures(cited: Sequence[Citation], folder: Path, path: Path | None, *, limits: ReadLimits) -> list[Path]:
    """Write pictures of one document's cited pages, and return their paths. Raises NoPicture, DocumentUnreadable."""
    boxes: dict[int, list[BBox]] = {}
    for citation in cited:
        if citation.page is not None:
            boxes.setdefault(citation.page, []).extend([citation.bbox] if citation.bbox else [])
    if not boxes:
        raise NoPicture("it has no pages")
    pictures: list[Path] = []
    # a document's name may hold characters that a path must not
    stem = re.sub(r"[^\w.()-]+", "_", Path(cited[0].document).stem)[:MOST_NAME_CHARS].strip("_")
    with tempfile.TemporaryDirectory() as scratch:
        for page, png in draw_pages(path, cited[0].digest, boxes, scratch=Path(scratch), limits=limits):
            first = min(citation.n for citation in cited if citation.page == page)
            pictures.append(folder / f"{first}-{stem}-p{page}.png")
            files.write(pictures[-1], png.read_bytes())
    return pictures


def draw_pages(
    path: Path | None, digest: str, boxes: Mapping[int, Sequence[BBox]], *, scratch: Path, limits: ReadLimits
) -> Iterator[tuple[int, Path]]:
    """Yield (1-based page, PNG below `scratch`) of a document with boxes drawn. Raises NoPicture, DocumentUnreadable.

    path: its file; None where its bytes are no longer kept.
    """
    if path is None:
        raise NoPicture("its bytes are not in this home's store; index it here again")
    try:
        format = sniff(path).format
        drawable = find_format(format).page_renderer is not None
    except (DocumentError, ReaderUnusable) as error:
        raise NoPicture(str(error)) from error
    if not drawable:
        raise NoPicture("only pages of PDF, HWP, HWPX, DOCX and pictures can be drawn")
    yield from render_pages(Job(path=path, digest=digest, format=format), boxes, scratch=scratch, limits=limits)
