"""Reads plain text: encoding, paragraphs, numbered headings, and pages where form feeds separate them."""

from __future__ import annotations

import codecs
import re
from pathlib import Path
from typing import NamedTuple

from tasks.documents.document_errors import EmptyDocument, RefusedDocument
from tasks.documents.document_readers import SURROGATE, BlockList, Reader, ReadOptions, read_whole

MOST_BYTES = 100_000_000
_BOMS = {  # UTF-32 before UTF-16, whose mark it begins with
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_ESCAPES = {b"\x1b$)C": "iso2022_kr", b"\x1b$B": "iso2022_jp", b"\x1b$@": "iso2022_jp"}
"""Escape sequences that announce the 7-bit encodings of Korean and Japanese mail (RFC 1557, RFC 1468)."""
_WIDER = {"euc_kr": "cp949", "gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932", "iso8859-1": "cp1252"}
"""Encodings that are named where their vendor's larger one is meant, as browsers read them."""
# 1A ended files of DOS, 1B begins escapes of ISO 2022, and NULs are counted by themselves
_CONTROLS = bytes(set(range(0x20)) - set(b"\t\n\r\f\v\b\x1a\x1b\0"))
_CHARSET = re.compile(rb"charset\s*=\s*[\"']?\s*([A-Za-z0-9_\-]+)", re.IGNORECASE)
_HEADINGS = (
    (1, re.compile(r"(?:제\s*\d+\s*장|[ⅠⅡⅢⅣⅤⅥⅦⅧⅨⅩ]+[.\s]|(?:CHAPTER|PART)\s+[\dIVX]+\b)", re.IGNORECASE)),
    (3, re.compile(r"\d+(?:\.\d+)+\.?\s|[가-하]\.\s")),
    (2, re.compile(r"제\s*\d+\s*절|\d+\.\s")),
)
_HEADING_CHARS = 60


class DecodedText(NamedTuple):
    """A text with the encoding that its bytes were read in."""

    text: str
    encoding: str
    notes: tuple[str, ...]
    """Characters that were replaced or removed, and whether the encoding is a guess."""


def open_text(path: Path, *, password: str | None, options: ReadOptions) -> Reader:  # noqa: ARG001
    """Read a plain text file, in pages only where form feeds separate them. Raises EmptyDocument or RefusedDocument."""
    decoded = decode(read_bytes(path))
    pages = decoded.text.split("\f")
    if len(pages) > 1 and not pages[-1].strip():
        pages.pop()  # a form feed ends the last page
    paged = "\f" in decoded.text
    blocks = BlockList()
    for number, text in enumerate(pages, start=1):
        add_paragraphs(blocks, text, page=number if paged else None)
    read_pages = blocks.paged(len(pages)) if paged else blocks.unpaged()
    return read_whole(read_pages, format="txt", reader="trivet text 1", notes=decoded.notes)


def read_bytes(path: Path) -> bytes:
    """Return the bytes of a text file. Raises EmptyDocument or RefusedDocument."""
    size = path.stat().st_size
    if size == 0:
        raise EmptyDocument("The file has no bytes; get it again, or remove it from the folder.")
    if size > MOST_BYTES:
        raise RefusedDocument(f"The text has {size:,} bytes, more than the {MOST_BYTES:,} that are read; split it.")
    return path.read_bytes()


def decode(data: bytes) -> DecodedText:
    """Decode text by its byte order mark, else as UTF-16, UTF-8, CP949, or by a guess; bad bytes become U+FFFD."""
    notes: list[str] = []
    encoding = next((name for bom, name in _BOMS.items() if data.startswith(bom)), None) or _detect_utf16(data)
    if data.isascii():
        encoding = encoding or next((name for escape, name in _ESCAPES.items() if escape in data), None)
    if encoding:
        text = data.decode(encoding, errors="replace")
    elif (decoded := _nearly_utf8(data)) is not None:
        text, encoding = decoded, "utf-8"
    elif (decoded := _cp949(data, final=True)) is not None:
        text, encoding = decoded, "cp949"
    else:
        encoding = _guess(data) or "cp1252"  # it gives a letter for nearly every byte
        text = data.decode(encoding, errors="replace")
        notes.append(f"The encoding was guessed: {encoding}.")
    if nuls := text.count("\0"):
        notes.append(f"NUL characters were left out: {nuls}.")
    text, lone = SURROGATE.subn("\ufffd", text.replace("\0", ""))
    if lone:
        notes.append(f"Lone surrogates were replaced by U+FFFD: {lone}.")
    if broken := text.count("\ufffd") - lone:
        notes.append(f"Characters that could not be read stand as U+FFFD: {broken}.")
    return DecodedText(text.replace("\r\n", "\n").replace("\r", "\n"), encoding, tuple(notes))


def decode_as(data: bytes, charset: str) -> str | None:
    """Return a text in the encoding that it declares; None if that is unknown, or not all bytes are valid in it."""
    try:
        name = codecs.lookup(charset.lower().removeprefix("x-").replace("windows-949", "cp949")).name
        return data.decode(_WIDER.get(name, name))
    except (LookupError, ValueError):
        return None


def decode_html(data: bytes) -> DecodedText:
    """Decode by the declared charset if all bytes are valid in it, else as text of unknown encoding."""
    declared = _CHARSET.search(data[:4096])
    name = declared[1].decode().lower() if declared else ""
    # a byte order mark or single bad bytes are a matter for `decode`
    text = decode_as(data, name) if name and not name.startswith("utf") and b"\0" not in data else None
    return decode(data) if text is None else DecodedText(text, name, ())


def looks_like_text(head: bytes) -> bool:
    """Return whether the first bytes of a file are text in some encoding, not the inside of a binary format."""
    if head.startswith(tuple(_BOMS)) or _detect_utf16(head) or any(escape in head for escape in _ESCAPES):
        return True
    if len(head.translate(None, delete=_CONTROLS)) < 0.98 * len(head) or head.count(0) > 0.05 * len(head):
        return False
    return _nearly_utf8(head) is not None or _cp949(head, final=False) is not None or _guess(head) is not None


def _detect_utf16(data: bytes) -> str | None:
    """Return the name of UTF-16 without a byte order mark (zero bytes at even or odd places); None for other text."""
    head = data[:4096]
    even, odd = head[::2].count(0), head[1::2].count(0)
    # in UTF-16, Latin letters, digits and spaces have a zero byte, and Hangul hardly ever
    if max(even, odd) * 2 < 0.3 * len(head) or min(even, odd) * 20 > max(even, odd):
        return None
    return "utf-16-le" if odd > even else "utf-16-be"


def _nearly_utf8(data: bytes) -> str | None:
    """Return UTF-8 of which 1 % of non-ASCII signs, or one, is invalid at most, as U+FFFD; None for other bytes."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        try:
            text = data.decode("utf-8", errors="surrogatepass")  # lone surrogates that some programs write
        except UnicodeDecodeError:
            text = data.decode("utf-8", errors="replace")
    broken = text.count("\ufffd")
    foreign = sum(not sign.isascii() for sign in text) - broken
    return text if broken <= max(1, foreign // 100) and foreign > 0 else None


def _cp949(data: bytes, *, final: bool) -> str | None:
    """Return Korean Windows text, None unless every byte fits and some is Hangul; final: its last sign is whole."""
    try:
        text = codecs.getincrementaldecoder("cp949")().decode(data, final)
    except UnicodeDecodeError:
        return None
    return text if any("가" <= sign <= "힣" for sign in text) else None


def _guess(data: bytes) -> str | None:
    from charset_normalizer import from_bytes

    match = from_bytes(data[:50_000]).best()
    return match.encoding if match else None


def add_paragraphs(blocks: BlockList, text: str, *, page: int | None) -> None:
    """Add a text whose paragraphs are separated by empty lines; numbered lines that stand alone are headings."""
    paragraphs = [stripped for part in re.split(r"\n[ \t\u3000]*\n", text) if (stripped := part.strip("\n \t"))]
    for paragraph, following in zip(paragraphs, [*paragraphs, ""][1:], strict=True):
        level = heading_level(paragraph)
        # numbered lines that follow one another are a list
        if level is not None and heading_level(following) != level:
            blocks.add("heading", paragraph, level=level, page=page)
        else:
            blocks.add("paragraph", paragraph, page=page)


def heading_level(paragraph: str) -> int | None:
    """Return the depth of a numbered heading (`제1장`, `1.1`), one short line without a stop at its end; else None."""
    if "\n" in paragraph or len(paragraph) > _HEADING_CHARS or paragraph.endswith((".", ",", ";", "!", "?")):
        return None
    return next((level for level, pattern in _HEADINGS if pattern.match(paragraph)), None)
