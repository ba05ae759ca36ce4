"""Untrusted zip files: path traversal and bombs are refused, and every read is bounded.

In a document that is a zip of XML (`Package`: DOCX, HWPX) one refused member refuses the whole; in an archive of
documents (`open_zip`, `read_member`) each member is checked by itself.
"""

from __future__ import annotations

import contextlib
import lzma
import stat
import unicodedata
import xml.etree.ElementTree as ET
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator
from pathlib import Path
from typing import IO, Any, Self
from zipfile import BadZipFile, ZipFile, ZipInfo

from storage.records import Record
from tasks.documents.document_errors import CorruptDocument, NeedsPassword, RefusedDocument, UnsupportedDocument

OLE_MAGIC = bytes.fromhex("D0CF11E0A1B11AE1")
ZIP_MAGIC = (b"PK\3\4", b"PK\5\6")  # a first member, or the directory of an empty archive
UTF8_NAME = 0x800  # bit 11 of a member's flags (PKWARE APPNOTE 4.4.4)
ENCRYPTED = 0x1
PIECE_BYTES = 1 << 16
DAMAGED = (BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, ValueError, RuntimeError)
"""Exceptions that zipfile raises for damaged members."""


class ZipCaps(Record):
    """The limits above which an archive is refused instead of read."""

    members: int = 10_000
    member_bytes: int = 200_000_000
    """Unpacked size of one member."""
    total_bytes: int = 1_000_000_000
    """Unpacked size of all members together."""
    xml_bytes: int = 50_000_000
    """Unpacked size of one XML part; its tree takes about ten times as much memory."""
    ratio: int = 200
    """Unpacked bytes per packed byte; XML stays below 100, a deflate bomb comes near 1,032."""
    ratio_from_bytes: int = 1_000_000
    """Unpacked size from which the ratio counts: a small member may be all blanks."""


class Package:
    """A document that is a zip of parts (DOCX). Opening and reading raise DocumentError; check_sizes: on opening."""

    def __init__(self, source: Path | IO[bytes], *, caps: ZipCaps | None = None, check_sizes: bool = True) -> None:
        self._caps = caps or ZipCaps()
        self._zip = open_zip(source, caps=self._caps)
        self.names = self._zip.NameToInfo.keys()
        """Names of the parts, in the order of the zip."""
        for info in self._zip.infolist():
            sentence = explain_refusal(info, caps=self._caps) if check_sizes else explain_misplaced_name(info)
            if sentence:
                self._zip.close()
                raise RefusedDocument(f"{sentence}; save the document again with the program that made it.")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._zip.close()

    def read(self, name: str) -> bytes:
        """Return the bytes of the part `name`. Raises DocumentError if it is missing, damaged or encrypted."""
        return read_member(self._zip, self._find(name))

    def pieces(self, name: str) -> Iterator[bytes]:
        """Yield the bytes of a part in pieces, so that a reader of streams never holds it whole. Raises as `read`."""
        with _explain_damage(f"The part `{name}`"), self._zip.open(self._find(name)) as file:
            while piece := file.read(PIECE_BYTES):
                yield piece

    def _find(self, name: str) -> ZipInfo:
        if name not in self.names:
            raise CorruptDocument(f"The part `{name}` is missing from the document; it may be truncated.")
        return self._zip.getinfo(name)

    def xml_source(self, name: str) -> bytes:
        """Return the bytes of an XML part. Raises RefusedDocument if they are too many to build a tree of."""
        size = self._zip.getinfo(name).file_size if name in self.names else 0
        if size > self._caps.xml_bytes:
            raise RefusedDocument(
                f"The part `{name}` has {size:,} bytes of XML, more than the {self._caps.xml_bytes:,} that are read; "
                "split the document."
            )
        return self.read(name)

    def xml(self, name: str) -> ET.Element:
        """Return the part `name` as a tree. Raises RefusedDocument if it declares entities or is too large."""
        return parse_xml(self.xml_source(name), name=name)


def open_zip(source: Path | IO[bytes], *, caps: ZipCaps) -> ZipFile:
    """Open an archive whose directory is sound and within the caps. Raises CorruptDocument or RefusedDocument."""
    try:
        archive = ZipFile(source)
    except (BadZipFile, EOFError, OSError, OverflowError, ValueError, NotImplementedError) as error:
        raise CorruptDocument("The file is damaged or cut: what it holds cannot be read; get it again.") from error
    entries = archive.infolist()
    total = sum(info.file_size for info in entries)
    if len(entries) > caps.members or total > caps.total_bytes:
        archive.close()
        raise RefusedDocument(
            f"The zip holds {len(entries):,} members with {total:,} bytes, more than the {caps.members:,} members and "
            f"{caps.total_bytes:,} bytes that are taken; unpack it and index the folder."
        )
    return archive


def explain_refusal(info: ZipInfo, *, caps: ZipCaps) -> str | None:
    """Return why a member is refused; None if its name stays within the archive and its size within the caps."""
    return explain_misplaced_name(info) or explain_excessive_size(info, caps=caps)


def explain_misplaced_name(info: ZipInfo) -> str | None:
    """Return why a member is refused for its name or as a link; None if it stays within the archive."""
    name = info.orig_filename.replace("\\", "/")  # zipfile itself cuts names at NUL
    member = f"The zip member `{escape_unprintable(name)}`"
    if name.startswith("/") or name[1:2] == ":" or ".." in name.split("/") or "\0" in name:
        return f"{member} leads out of the archive"
    if stat.S_ISLNK(info.external_attr >> 16):  # Unix keeps the mode of a file in the upper 16 bits
        return f"{member} is a link"
    return None


def explain_excessive_size(info: ZipInfo, *, caps: ZipCaps) -> str | None:
    """Return why the size of a member is refused; None if it stays within the caps."""
    member = f"The zip member `{escape_unprintable(info.orig_filename)}`"
    if info.file_size > caps.member_bytes:
        return f"{member} unpacks to {info.file_size:,} bytes, more than {caps.member_bytes:,}"
    if info.file_size > caps.ratio_from_bytes and info.file_size > caps.ratio * info.compress_size:
        return f"{member} unpacks to over {caps.ratio} times its size, as a deflate bomb does"
    return None


def member_name(info: ZipInfo) -> str:
    """Return the member's original name in NFC, with `/` between folders.

    Without the UTF-8 flag, names are in the sender's code page: UTF-8 on a Mac, CP949 on Korean Windows.
    """
    name = info.orig_filename
    if not info.flag_bits & UTF8_NAME:
        raw = name.encode("cp437")  # the code page that zipfile assumed; it maps all 256 bytes
        for encoding in ("utf-8", "cp949"):
            with contextlib.suppress(UnicodeDecodeError):
                name = raw.decode(encoding)
                break
    return unicodedata.normalize("NFC", name.replace("\\", "/"))


def escape_unprintable(name: str) -> str:
    """Return a name that can stand in a sentence or in JSON: what is not seen, or turns the direction, is escaped."""
    unseen = ("Cc", "Cf", "Cs", "Zl", "Zp")
    return "".join(s.encode("unicode_escape").decode() if unicodedata.category(s) in unseen else s for s in name)


def read_member(archive: ZipFile, info: ZipInfo) -> bytes:
    """Return the content of one member, never more than its directory declares. Raises DocumentError."""
    member = f"The zip member `{escape_unprintable(info.filename)}`"
    if info.flag_bits & ENCRYPTED:
        raise NeedsPassword(f"{member} is encrypted; unpack it and index the folder.")
    with _explain_damage(member), archive.open(info) as file:
        data = file.read(info.file_size + 1)  # a bare read() would unpack whatever is packed, before it counts
    if len(data) != info.file_size:
        raise CorruptDocument(f"{member} ends after {len(data):,} of {info.file_size:,} bytes; get the file again.")
    return data


@contextlib.contextmanager
def _explain_damage(what: str) -> Generator[None]:
    """Raise what zipfile finds wrong as a DocumentError about `what`."""
    try:
        yield
    except NotImplementedError as error:  # before DAMAGED, whose RuntimeError it is a kind of
        raise UnsupportedDocument(f"{what} is packed by an unknown method ({error}).") from error
    except DAMAGED as error:
        raise CorruptDocument(f"{what} is damaged; get the file again.") from error


def parse_xml(data: bytes, *, name: str) -> ET.Element:
    """Return the tree of an XML part. Raises RefusedDocument for a DOCTYPE, CorruptDocument if it is ill-formed."""
    return feed_part([data], WithoutDoctype(), name=name)


def feed_part(
    pieces: Iterable[bytes], handler: WithoutDoctype, *, name: str, is_done: Callable[[], bool] = lambda: False
) -> Any:
    """Feed an XML part to its handler until its end, or until `is_done`; return what the handler made of it.

    None once it `is_done`. Raises RefusedDocument for a DOCTYPE, CorruptDocument if it is ill-formed.
    """
    parser = ET.XMLParser(target=handler)
    try:
        for piece in pieces:
            parser.feed(piece)
            if is_done():
                return None
        return parser.close()
    except (ET.ParseError, ValueError, LookupError) as error:
        message = f"The part `{name}` is not well-formed XML ({error}); the file may be damaged."
        raise CorruptDocument(message) from error


class WithoutDoctype(ET.TreeBuilder):
    """A tree builder that refuses a DOCTYPE and so every entity: office formats declare none, entity bombs need one."""

    def doctype(self, name: str, pubid: str | None, system: str | None) -> None:
        """Raise RefusedDocument as soon as the parser meets a document type declaration."""
        declared = escape_unprintable(pubid or system or name)
        raise RefusedDocument(f"The XML declares a document type (`{declared}`), as entity attacks do; it is not read.")
