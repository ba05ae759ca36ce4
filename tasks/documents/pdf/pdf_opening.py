"""Opening a PDF: what cannot be read is a typed error, what MuPDF had to repair is a note."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pymupdf

from tasks.documents.document_errors import CorruptDocument, EmptyDocument, NeedsPassword, UnsupportedDocument
from tasks.documents.pdf.pdf_text import clean

METADATA_NAMES = {
    "author": "author",
    "subject": "subject",
    "keywords": "keywords",
    "creator": "creator",
    "producer": "producer",
    "creationDate": "created",
    "modDate": "modified",
    "format": "version",
}
"""MuPDF's names and ours."""
MUPDF_ERRORS = (RuntimeError, ValueError, pymupdf.mupdf.FzErrorBase)  # pyright: ignore[reportPrivateImportUsage]
MAX_NOTES = 4
MAX_NOTE_CHARS = 120
PDF_DATE = re.compile(r"D:(\d{4})(\d\d)?(\d\d)?(?:(\d\d)(\d\d)(\d\d)?)?(?:([+-])(\d\d)'?(\d\d)|Z)?")


def open_document(path: Path, password: str | None) -> pymupdf.Document:
    """The document, unlocked; MuPDF prints nothing from here on.

    Raises EmptyDocument, CorruptDocument, NeedsPassword, UnsupportedDocument; OSError for a file that is not there.
    """
    pymupdf.TOOLS.mupdf_display_errors(False)
    pymupdf.TOOLS.mupdf_display_warnings(False)
    pymupdf.TOOLS.reset_mupdf_warnings()
    if path.stat().st_size == 0:
        raise EmptyDocument("The document has no bytes; fetch it again.")
    try:
        document = pymupdf.open(path, filetype="pdf")
    except MUPDF_ERRORS as failure:
        raise _refusal(failure) from failure
    if not document.is_pdf:  # MuPDF goes by the content, whatever `filetype` says
        raise CorruptDocument("The document is not a PDF; give it the name of what it is, or fetch it again.")
    _unlock(document, password)
    if _pages(document) == 0:
        raise CorruptDocument(
            "The document holds no page that can be read: it is truncated or damaged; fetch it again."
        )
    return document


def title_of(document: pymupdf.Document) -> str | None:
    """Title in the file's metadata."""
    return clean(str((document.metadata or {}).get("title") or "")).strip() or None


def metadata_of(document: pymupdf.Document) -> dict[str, str]:
    """Metadata stored in the file; dates in ISO 8601 where they are well formed."""
    told = {ours: (document.metadata or {}).get(name) for name, ours in METADATA_NAMES.items()}
    metadata = {name: clean(str(value)).strip() for name, value in told.items() if value}
    metadata |= {name: iso_date(metadata[name]) for name in ("created", "modified") if name in metadata}
    return {name: value for name, value in metadata.items() if value}


def opening_notes(document: pymupdf.Document) -> tuple[str, ...]:
    """Whether the file was repaired, and MuPDF's first complaints."""
    said = _shortened(pymupdf.TOOLS.mupdf_warnings().splitlines())
    if document.is_repaired:
        return ("the file is damaged and was repaired; some of it may be missing", *said)
    return said


def iso_date(date: str) -> str:
    """`D:20230317171542-04'00'` as `2023-03-17T17:15:42-04:00`; anything else as it stands."""
    match = PDF_DATE.match(date)
    if match is None:
        return date
    year, month, day, hour, minute, second, sign, zone_hour, zone_minute = match.groups()
    text = "-".join(part for part in (year, month, day) if part)
    if hour:
        text += f"T{hour}:{minute}:{second or '00'}"
        text += f"{sign}{zone_hour}:{zone_minute}" if sign else "Z" if date.endswith("Z") else ""
    return text


def _unlock(document: pymupdf.Document, password: str | None) -> None:
    if not document.needs_pass:
        return
    if not password:
        raise NeedsPassword("The document is encrypted; give its password through `--password-env NAME`.")
    if not document.authenticate(password):
        raise NeedsPassword("The document is encrypted and does not open with the given password; check it.")


def _pages(document: pymupdf.Document) -> int:
    try:
        return document.page_count
    except MUPDF_ERRORS as failure:
        raise _refusal(failure) from failure


def _refusal(failure: Exception) -> CorruptDocument | UnsupportedDocument:
    said = _shortened([*pymupdf.TOOLS.mupdf_warnings().splitlines(), str(failure)])
    if re.search(r"encryption handler|unsupported.*encrypt|unknown encryption", " ".join(said), re.IGNORECASE):
        return UnsupportedDocument(
            f"The document is protected by an encryption that is not read ({said[-1]}); save it without protection."
        )
    return CorruptDocument(
        f"The document cannot be read as a PDF ({said[-1]}): it is truncated or damaged; fetch it again."
    )


def complaints() -> tuple[str, ...]:
    """What MuPDF said since it was last asked to forget: a few lines, each once."""
    return _shortened(pymupdf.TOOLS.mupdf_warnings().splitlines())


def _shortened(lines: Iterable[str]) -> tuple[str, ...]:
    """The first few different lines; MuPDF's own counting of repeats is left out."""
    said = dict.fromkeys(line.strip()[:MAX_NOTE_CHARS] for line in lines if line.strip() and not line.startswith("..."))
    return tuple(said)[:MAX_NOTES]
