"""HWP 5: an OLE container of compressed record streams."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

from tasks.rag.documents.errors import (
    CorruptDocument,
    DocumentError,
    EmptyDocument,
    NeedsPassword,
    UnsupportedDocument,
)
from tasks.rag.documents.hwp_assembly import HangulReader, assemble
from tasks.rag.documents.hwp_body import read_section
from tasks.rag.documents.hwp_crypto import decrypt_distribution, decrypt_stream, distribution_key
from tasks.rag.documents.hwp_docinfo import read_docinfo
from tasks.rag.documents.hwp_model import HangulDocument
from tasks.rag.documents.hwp_records import Record, Tag, inflate, record_tree
from tasks.rag.documents.hwp_summary import read_summary
from tasks.rag.documents.reading import Header, ReadOptions

_SIGNATURE = b"HWP Document File"
_OLE_MAGIC = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_SECTOR_SHIFTS = (b"\x09\0\x06\0", b"\x0c\0\x06\0")
"""Sectors of 512 or 4096 bytes, small ones of 64: the only sizes of the OLE format."""
_DAMAGED = (OSError, ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError)
"""What olefile raises over a damaged container."""
_SUMMARY_STREAM = "\x05HwpSummaryInformation"


class _Flags(NamedTuple):
    version: str
    compressed: bool
    password: bool
    distribution: bool
    rights_managed: bool
    encrypt_version: int


def open_hwp(path: Path, *, password: str | None, options: ReadOptions) -> HangulReader:  # noqa: ARG001
    """Reads an HWP 5 document. Raises DocumentError."""
    import olefile

    document = read_hwp(path, password=password)
    header = Header(
        format="hwp",
        reader=f"trivet hwp + olefile {olefile.__version__}",
        page_source="none",
        page_count=1,
        title=document.title,
        metadata=document.metadata,
        notes=document.notes,
    )
    return HangulReader(header, assemble(document))


def read_hwp(path: Path, *, password: str | None) -> HangulDocument:
    """The document before it becomes blocks."""
    with open_container(path) as ole:
        return Container(ole, password, file_bytes=path.stat().st_size).document()


def open_container(path: Path) -> Any:
    import olefile

    with path.open("rb") as file:
        start = file.read(512)
    if not start:
        raise EmptyDocument("The document has no bytes; ask for the file again.")
    if start.startswith(_SIGNATURE):
        raise UnsupportedDocument(
            "The document is an HWP 3 document, and HWP 5 and HWPX are read; open it in Hangul and save it as HWPX."
        )
    if not start.startswith(_OLE_MAGIC):
        raise CorruptDocument(
            "The document is not an HWP 5 document: it does not start as an OLE container; check its extension."
        )
    file_bytes = path.stat().st_size
    if not _plausible(start, file_bytes=file_bytes):
        raise CorruptDocument(
            "The document is a damaged OLE container: its header claims more than the file holds; "
            "ask for an intact copy."
        )
    try:
        return olefile.OleFileIO(str(path))
    except _DAMAGED as error:
        raise CorruptDocument(f"The document is a damaged OLE container ({error}); ask for an intact copy.") from error


def _plausible(start: bytes, *, file_bytes: int) -> bool:
    """Whether sector sizes are those of the format, and the tables fit into the file.

    olefile takes both as they are claimed: a flipped bit would have it allocate terabytes.
    """
    if len(start) < 76 or start[30:34] not in _SECTOR_SHIFTS:
        return False
    sector_bytes = 1 << start[30]
    tables = (int.from_bytes(start[at : at + 4], "little") for at in (44, 64, 72))  # FAT, small FAT, double FAT
    return all(sectors * sector_bytes <= file_bytes for sectors in tables)


class Container:
    """The streams of one file, decrypted and inflated as its header says."""

    def __init__(self, ole: Any, password: str | None, *, file_bytes: int) -> None:
        self._ole = ole
        self._file_bytes = file_bytes
        self.password = password
        self.flags = _read_flags(self.raw("FileHeader"))
        if self.flags.rights_managed:
            raise UnsupportedDocument(
                "The document is under rights management (DRM) or a certificate, whose keys are not in the file; "
                "open it where you have the rights, and save it without them."
            )
        if self.flags.password and password is None:
            raise NeedsPassword("The document is encrypted with a password; name one by `--password-env`.")

    def document(self) -> HangulDocument:
        info = read_docinfo(self.docinfo())
        names = self._section_names()
        sections = tuple(read_section(record_tree(self._section(name), name=name), info) for name in names)
        metadata = self._metadata()
        return HangulDocument(sections, info.styles, metadata.pop("title", None), metadata, self._notes())

    def _notes(self) -> tuple[str, ...]:
        flags = self.flags
        notes = (
            "read from the view streams of a distribution document" if flags.distribution else "",
            "decrypted with the password" if flags.password else "",
        )
        return tuple(filter(None, notes))

    def raw(self, name: str) -> bytes:
        try:
            for size in (self._ole.root.size, self._ole.get_size(name)):
                if size > self._file_bytes:  # olefile would go round a cycle of sectors until it has as many bytes
                    raise ValueError(f"{size} bytes claimed, {self._file_bytes} in the file")
            return self._ole.openstream(name).read()
        except _DAMAGED as error:
            raise CorruptDocument(
                f"Stream {name} is missing or damaged ({error}): not an HWP 5 document, or not whole; "
                "ask for an intact copy."
            ) from error

    def docinfo(self) -> list[Record]:
        """DocInfo's records; with a password, it is also the proof that the password is right."""
        name = "DocInfo"
        if not self.flags.password:
            return record_tree(self._unpack(self.raw(name), name), name=name)
        try:
            records = record_tree(self._plain(name), name=name)
        except DocumentError as error:
            raise NeedsPassword(_WRONG_PASSWORD) from error
        if not records or records[0].tag != Tag.DOCUMENT_PROPERTIES:
            raise NeedsPassword(_WRONG_PASSWORD)
        return records

    def _section(self, name: str) -> bytes:
        if not self.flags.distribution:
            return self._plain(name)
        stream = self.raw(name)
        # one record in the open, 4 bytes of header and 256 of key material, then the cipher text
        first = int.from_bytes(stream[:4], "little")
        if first & 0x3FF != Tag.DISTRIBUTE_DOC_DATA or first >> 20 != 256:
            raise CorruptDocument(
                f"Stream {name} has no distribution record: the file is damaged; ask for an intact copy."
            )
        return self._unpack(decrypt_distribution(stream[260:], distribution_key(stream[4:260])), name)

    def _plain(self, name: str) -> bytes:
        stream = self.raw(name)
        if self.flags.password:
            stream = decrypt_stream(stream, self.password or "", encrypt_version=self.flags.encrypt_version)
        return self._unpack(stream, name)

    def _unpack(self, stream: bytes, name: str) -> bytes:
        return inflate(stream, name=name) if self.flags.compressed else stream

    def _section_names(self) -> list[str]:
        """Section streams in the order of their numbers."""
        folder = "ViewText" if self.flags.distribution else "BodyText"
        numbers = sorted(
            int(entry[1][7:])
            for entry in self._ole.listdir()
            if len(entry) == 2 and entry[0] == folder and re.fullmatch(r"Section\d{1,5}", entry[1])
        )
        if not numbers:
            raise CorruptDocument(f"The document has no {folder} section: it is damaged; ask for an intact copy.")
        return [f"{folder}/Section{number}" for number in numbers]

    def _metadata(self) -> dict[str, str]:
        """What the summary says; it stands in the open even where the text has a password."""
        return read_summary(self.raw(_SUMMARY_STREAM)) if self._ole.exists(_SUMMARY_STREAM) else {}


_WRONG_PASSWORD = "The password does not open the document, or the document is damaged; check `--password-env`."


def _read_flags(header: bytes) -> _Flags:
    if len(header) < 48 or not header.startswith(_SIGNATURE):
        raise CorruptDocument(
            "The FileHeader stream does not say `HWP Document File`: not an HWP 5 document; check its extension."
        )
    flags = int.from_bytes(header[36:40], "little")
    version = ".".join(str(part) for part in reversed(header[32:36]))
    if header[35] != 5:
        raise UnsupportedDocument(f"The document has HWP version {version}, and 5 is read; save it anew in Hangul.")
    return _Flags(
        version=version,
        compressed=bool(flags & 1),
        password=bool(flags & 2),
        distribution=bool(flags & 4),
        rights_managed=bool(flags & (1 << 4 | 1 << 8 | 1 << 10)),
        encrypt_version=int.from_bytes(header[44:48], "little"),
    )
