"""Tells a document's format by its content; its suffix only chooses between kinds of text."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Literal, NamedTuple

from tasks.rag.documents.archives import ZipCaps, open_zip, read_member, refusal
from tasks.rag.documents.errors import CorruptDocument, EmptyDocument, RefusedDocument, UnsupportedDocument

Format = Literal["pdf", "hwp", "hwpx", "docx", "txt", "md", "html"]

SUFFIXES: dict[str, Format] = {
    ".pdf": "pdf",
    ".hwp": "hwp",
    ".hwpx": "hwpx",
    ".docx": "docx",
    ".docm": "docx",
    ".txt": "txt",
    ".text": "txt",
    ".md": "md",
    ".markdown": "md",
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
}
"""What each known suffix promises."""

HEAD_BYTES = 8192
_OLE_MAGIC = bytes.fromhex("D0CF11E0A1B11AE1")
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
    """The format to read a file as, and what to tell its owner."""

    format: Format
    notes: tuple[str, ...]


def sniff(path: Path, *, suffix: str | None = None) -> Sniffed:
    """The format of a file; `suffix` stands in for that of `path`, for files kept under another name.

    Raises EmptyDocument, RefusedDocument, UnsupportedDocument, CorruptDocument, RefusedDocument.
    """
    suffix = (path.suffix if suffix is None else suffix).lower()
    format = _sniff(path, suffix)
    if SUFFIXES.get(suffix, format) == format:
        return Sniffed(format, ())
    return Sniffed(format, (f"The file is named `{suffix}` but is {format.upper()} by its content; read as such.",))


def _sniff(path: Path, suffix: str) -> Format:
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    if not head:
        raise EmptyDocument("The file has no bytes; get it again, or remove it from the folder.")
    if b"%PDF" in head[:1024]:
        return "pdf"
    if head.startswith(_OLE_MAGIC):
        return _sniff_ole(path)
    if head.startswith((b"PK\3\4", b"PK\5\6")):
        return _sniff_zip(path)
    for magic, what in _UNREAD_MAGIC.items():
        if head.startswith(magic):
            raise UnsupportedDocument(f"The file is {what}.")
    return _sniff_text(head, suffix)


def _sniff_ole(path: Path) -> Format:
    import olefile

    try:
        with olefile.OleFileIO(str(path)) as container:
            streams = {"/".join(entry) for entry in container.listdir()}
            if "FileHeader" in streams and container.openstream("FileHeader").read(17) == b"HWP Document File":
                return "hwp"
    except Exception as error:
        raise CorruptDocument(f"The OLE container cannot be read ({error}); the file may be truncated.") from error
    if "EncryptedPackage" in streams:
        return "docx"  # whose reader says what to do
    for stream, what in _UNREAD_OLE.items():
        if stream in streams:
            raise UnsupportedDocument(f"The file is {what}.")
    raise UnsupportedDocument("The file is an OLE container of no known kind; save it as PDF, HWPX or DOCX.")


def _sniff_zip(path: Path) -> Format:
    with open_zip(path, caps=ZipCaps()) as archive:
        names = set(archive.namelist())
        if "word/document.xml" in names or _has_word_body(archive, names):
            return "docx"
        if any(name.startswith("Contents/") and name.endswith((".hpf", ".xml")) for name in names):
            return "hwpx"
    for name, what in _UNREAD_ZIP.items():
        if name in names:
            raise UnsupportedDocument(f"The file is {what}.")
    raise UnsupportedDocument("The file is a zip, but not a document; give it the suffix .zip to index what is in it.")


def _has_word_body(archive: zipfile.ZipFile, names: set[str]) -> bool:
    """Whether the package declares a Word body under another name than the usual one."""
    if "[Content_Types].xml" not in names:
        return False
    listing = archive.getinfo("[Content_Types].xml")
    if message := refusal(listing, caps=ZipCaps()):
        raise RefusedDocument(f"{message}.")
    return b"wordprocessingml.document.main" in read_member(archive, listing)


def _sniff_text(head: bytes, suffix: str) -> Format:
    from tasks.rag.documents.text import looks_like_text

    if not looks_like_text(head):
        promised = SUFFIXES.get(suffix)
        if promised in ("pdf", "hwp", "hwpx", "docx"):
            raise CorruptDocument(f"The file does not begin as {promised.upper()} files do; get it again.")
        raise UnsupportedDocument("The file is neither a known document nor text; save it as PDF, HWPX or DOCX.")
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    if SUFFIXES.get(suffix) == "md":
        return "md"
    if start.startswith((b"<!doctype html", b"<html")) or (start.startswith(b"<?xml") and b"<html" in start):
        return "html"
    if start.startswith(b"<?xml"):
        raise UnsupportedDocument("The file is XML of no known kind; save it as PDF, HWPX or DOCX.")
    return "html" if SUFFIXES.get(suffix) == "html" else "txt"
