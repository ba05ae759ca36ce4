"""Tells a document's format by its content; its suffix only chooses between kinds of text."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import NamedTuple

from tasks.documents.archives import ZipCaps, open_zip, read_member, refusal
from tasks.documents.document_errors import (
    CorruptDocument,
    DocumentError,
    EmptyDocument,
    RefusedDocument,
    UnsupportedDocument,
)
from tasks.documents.formats import OLE_MAGIC, ZIP_MAGIC, format_named, format_with_suffix, formats

HEAD_BYTES = 8192
_UNREAD_OLE = {
    "WordDocument": "Word 97–2003 (.doc); save it as .docx",
    "Workbook": "Excel; save it as PDF",
    "Book": "Excel; save it as PDF",
    "PowerPoint Document": "PowerPoint; save it as PDF",
}
_UNREAD_ZIP = {
    "xl/workbook.xml": "Excel; save it as PDF",
    "ppt/presentation.xml": "PowerPoint; save it as PDF",
    "content.xml": "OpenDocument; save it as .docx",
    "META-INF/container.xml": "EPUB; save it as PDF or HTML",
}
_UNREAD_MAGIC = {
    b"{\\rtf": "rich text (RTF); save it as .docx",
    b"HWP Document File V": "HWP 3 or older; save it as .hwpx",
    b"\x89PNG": "an image; put it into a PDF",
    b"\xff\xd8\xff": "an image; put it into a PDF",
    b"GIF8": "an image; put it into a PDF",
    b"%!PS": "PostScript; save it as PDF",
}


class Sniffed(NamedTuple):
    """Name of the format to read a file as, and notes for the owner of the file."""

    format: str
    notes: tuple[str, ...]


def sniff(path: Path, *, suffix: str | None = None) -> Sniffed:
    """The format of a file; `suffix` replaces that of `path`, for files stored under another name.

    Raises EmptyDocument, RefusedDocument, UnsupportedDocument, CorruptDocument; ReaderUnusable.
    """
    suffix = (path.suffix if suffix is None else suffix).lower()
    format = _sniff(path, suffix)
    promised = format_with_suffix(suffix)
    if promised is None or promised.name == format:
        return Sniffed(format, ())
    return Sniffed(format, (f"The file is named `{suffix}` but is {format.upper()} by its content; read as such.",))


def outside_reader(path: Path, *, suffix: str) -> str | None:
    """Name and version of the installed package that reads a file; None for built-in formats and unreadable files."""
    try:
        return format_named(sniff(path, suffix=suffix).format).distribution
    except DocumentError:
        return None


def _sniff(path: Path, suffix: str) -> str:
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    if not head:
        raise EmptyDocument("The file has no bytes; get it again, or remove it from the folder.")
    for format in formats():
        if format.matches(head):
            return format.name
    if head.startswith(OLE_MAGIC):
        return _sniff_ole(path)
    if head.startswith(ZIP_MAGIC):
        return _sniff_zip(path)
    for magic, what in _UNREAD_MAGIC.items():
        if head.startswith(magic):
            raise UnsupportedDocument(f"The file is {what}.")
    return _sniff_text(head, suffix)


def _sniff_ole(path: Path) -> str:
    import olefile

    try:
        with olefile.OleFileIO(str(path)) as container:
            streams = {"/".join(entry) for entry in container.listdir()}
            for format in formats():
                for stream, start in format.ole_streams:
                    if stream in streams and container.openstream(stream).read(len(start)) == start:
                        return format.name
    except Exception as error:
        raise CorruptDocument(f"The OLE container cannot be read ({error}); the file may be truncated.") from error
    for stream, what in _UNREAD_OLE.items():
        if stream in streams:
            raise UnsupportedDocument(f"The file is {what}.")
    raise UnsupportedDocument("The file is an OLE container of no known kind; save it as PDF, HWPX or DOCX.")


def _sniff_zip(path: Path) -> str:
    with open_zip(path, caps=ZipCaps()) as archive:
        names = frozenset(archive.namelist())
        if format := format_of_members(names):
            return format
        if _has_word_body(archive, names):
            return "docx"
        if any(name.startswith("Contents/") and name.endswith((".hpf", ".xml")) for name in names):
            return "hwpx"
    for name, what in _UNREAD_ZIP.items():
        if name in names:
            raise UnsupportedDocument(f"The file is {what}.")
    raise UnsupportedDocument("The file is a zip, but not a document; give it the suffix .zip to index what is in it.")


def format_of_members(names: frozenset[str]) -> str | None:
    """The format whose packages hold members of these names; None for an archive of files."""
    return next((format.name for format in formats() if not names.isdisjoint(format.zip_members)), None)


def _has_word_body(archive: zipfile.ZipFile, names: frozenset[str]) -> bool:
    """Whether the package declares a Word body under another name than the usual one."""
    if "[Content_Types].xml" not in names:
        return False
    listing = archive.getinfo("[Content_Types].xml")
    if message := refusal(listing, caps=ZipCaps()):
        raise RefusedDocument(f"{message}.")
    return b"wordprocessingml.document.main" in read_member(archive, listing)


def _sniff_text(head: bytes, suffix: str) -> str:
    from tasks.documents.text.text_reader import looks_like_text

    promised = format_with_suffix(suffix)
    if not looks_like_text(head):
        if promised and promised.has_signature:
            raise CorruptDocument(f"The file does not begin as {promised.name.upper()} files do; get it again.")
        raise UnsupportedDocument("The file is neither a known document nor text; save it as PDF, HWPX or DOCX.")
    if promised and not promised.has_signature and promised.name not in ("txt", "html"):
        return promised.name
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    if start.startswith((b"<!doctype html", b"<html")) or (start.startswith(b"<?xml") and b"<html" in start):
        return "html"
    if start.startswith(b"<?xml"):
        raise UnsupportedDocument("The file is XML of no known kind; save it as PDF, HWPX or DOCX.")
    return "html" if promised and promised.name == "html" else "txt"
