"""HWP 5: an OLE container of compressed record streams; HWP 3, as converted to HWPX. Text, metadata and pictures."""

from __future__ import annotations

import re
import struct
from base64 import b64decode, b64encode
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from tasks.documents import document_errors as errors
from tasks.documents.archives import OLE_MAGIC
from tasks.documents.blocks import ImageCandidate
from tasks.documents.document_readers import Reader, ReadOptions
from tasks.documents.embedded_images import EXTERNAL_IMAGE, EmbeddedImage, make_candidates, read_embedded
from tasks.documents.hwp import hwp_streams
from tasks.documents.hwp.hwp_assembly import make_hangul_reader
from tasks.documents.hwp.hwp_body import read_docinfo, read_section
from tasks.documents.hwp.hwp_engine import VERSION, convert_to_hwpx
from tasks.documents.hwp.hwp_layout import run_in_own_process
from tasks.documents.hwp.hwp_model import HangulDocument
from tasks.documents.hwp.hwpx_reader import hwpx_images, read_hwpx
from tasks.documents.page_join import LayoutFailed

_SIGNATURE = b"HWP Document File"
_SECTOR_SHIFTS = (b"\x09\0\x06\0", b"\x0c\0\x06\0")
"""Sectors of 512 or 4096 bytes, small ones of 64: the only sizes of the OLE format."""
_DAMAGED = (OSError, ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError)
"""What olefile raises over a damaged container."""
_BIN_DATA_BYTES = 6  # attributes, number and length of the extension: a shorter record names no object
_LINK, _EMBEDDED = 0, 1
_COMPRESSED = 1  # packing of an embedded object; with 0 the document's header decides
_SUMMARY_STREAM = "\x05HwpSummaryInformation"


class _Flags(NamedTuple):
    compressed: bool
    password: bool
    distribution: bool
    rights_managed: bool
    encrypt_version: int


def open_hwp(path: Path, *, password: str | None, options: ReadOptions) -> Reader:
    """Read an HWP 5 or HWP 3 document as a whole. Raises DocumentError."""
    import olefile

    if is_hwp_3(path):
        with as_hwpx(path) as hwpx:
            return make_hangul_reader(
                read_hwpx(hwpx, password=password)._replace(metadata={}),  # the converter names itself as the author
                path.read_bytes() if options.layout == "auto" else None,
                format="hwp",
                reader=f"trivet hwp 3 + rhwp {VERSION}",
            )
    document = read_hwp(path, password=password)
    return make_hangul_reader(
        document,
        path.read_bytes() if options.layout == "auto" else None,
        format="hwp",
        reader=f"trivet hwp + olefile {olefile.__version__} + rhwp {VERSION}",
    )


def is_hwp_3(path: Path) -> bool:
    """Return whether a file is of Hangul 3 or Hangul 97, which is no OLE container."""
    with path.open("rb") as file:
        return file.read(len(_SIGNATURE)) == _SIGNATURE


@contextmanager
def as_hwpx(path: Path) -> Generator[Path]:
    """Lend an HWP 3 document as HWPX, converted by the layout engine. Raises UnsupportedDocument."""
    try:
        encoded = run_in_own_process(lambda: b64encode(convert_to_hwpx(path.read_bytes())).decode())
    except LayoutFailed as error:
        raise errors.UnsupportedDocument(
            "The document is an HWP 3 document that is encrypted or damaged; open it in Hangul and save it as HWPX."
        ) from error
    with TemporaryDirectory() as folder:
        hwpx = Path(folder) / "converted.hwpx"
        hwpx.write_bytes(b64decode(encoded))
        yield hwpx


def read_hwp(path: Path, *, password: str | None) -> HangulDocument:
    """Return an HWP 5 document before its conversion to blocks. Raises DocumentError."""
    with open_container(path) as ole:
        return Container(ole, password, file_bytes=path.stat().st_size).document()


def open_container(path: Path) -> Any:
    """Open the OLE container of a file for as long as the context lasts. Raises DocumentError."""
    import olefile

    with path.open("rb") as file:
        header = file.read(512)
    if not header:
        raise errors.EmptyDocument("The document has no bytes; ask for the file again.")
    if not header.startswith(OLE_MAGIC):
        raise errors.CorruptDocument(
            "The document does not begin as HWP documents do; check its extension, or ask for an intact copy."
        )
    # olefile would allocate terabytes for tables (FAT, small FAT, double FAT) that do not fit into the file
    sectors = max(int.from_bytes(header[at : at + 4], "little") for at in (44, 64, 72))
    valid = len(header) >= 76 and header[30:34] in _SECTOR_SHIFTS  # sectors are given as powers of two ([MS-CFB] 2.2)
    if not valid or sectors << header[30] > path.stat().st_size:
        raise hwp_streams.damage_error()
    try:
        return olefile.OleFileIO(str(path))
    except _DAMAGED as error:
        raise hwp_streams.damage_error() from error


class Container:
    """The streams of one file, decrypted and inflated as its header says."""

    def __init__(self, ole: Any, password: str | None, *, file_bytes: int) -> None:
        self._ole = ole
        self._file_bytes = file_bytes
        self.password = password
        self.flags = _read_flags(self.raw("FileHeader"))
        if self.flags.rights_managed:
            raise errors.UnsupportedDocument(
                "The document is under rights management (DRM) or a certificate, whose keys are not in the file; "
                "open it where you have the rights, and save it without them."
            )
        if self.flags.password and password is None:
            raise errors.NeedsPassword("The document is encrypted with a password; name one by `--password-env`.")

    def document(self) -> HangulDocument:
        """Return the text with its lists, and the title and metadata of the summary."""
        styles = read_docinfo(self.docinfo())
        folder = "ViewText" if self.flags.distribution else "BodyText"
        numbers = sorted(
            int(entry[1][7:])
            for entry in self._ole.listdir()
            if len(entry) == 2 and entry[0] == folder and re.fullmatch(r"Section\d{1,5}", entry[1])
        )
        if not numbers:
            raise hwp_streams.damage_error()
        names = [f"{folder}/Section{number}" for number in numbers]
        trees = (hwp_streams.record_tree(self._section(name), name=name) for name in names)
        sections = tuple(read_section(tree, styles) for tree in trees)
        # the summary is not encrypted even where the text is
        metadata = read_summary(self.raw(_SUMMARY_STREAM)) if self._ole.exists(_SUMMARY_STREAM) else {}
        notes = (
            "read from the view streams of a distribution document" if self.flags.distribution else "",
            "decrypted with the password" if self.flags.password else "",
        )
        return HangulDocument(sections, styles, metadata.pop("title", None), metadata, tuple(filter(None, notes)))

    def raw(self, name: str) -> bytes:
        """Return the bytes of a stream as stored. Raises CorruptDocument if it is missing or damaged."""
        try:
            for size in (self._ole.root.size, self._ole.get_size(name)):
                if size > self._file_bytes:  # olefile would go round a cycle of sectors until it has as many bytes
                    raise ValueError(f"{size} bytes claimed, {self._file_bytes} in the file")
            return self._ole.openstream(name).read()
        except _DAMAGED as error:
            raise hwp_streams.damage_error(name) from error

    def docinfo(self) -> list[hwp_streams.Record]:
        """Return the records of DocInfo. Raises NeedsPassword if the password is wrong."""
        try:
            records = hwp_streams.record_tree(self.stream("DocInfo", compressed=self.flags.compressed), name="DocInfo")
        except errors.DocumentError as error:
            if self.flags.password:
                raise errors.NeedsPassword(hwp_streams.WRONG_PASSWORD) from error
            raise
        if self.flags.password and (not records or records[0].tag != hwp_streams.Tag.DOCUMENT_PROPERTIES):
            raise errors.NeedsPassword(hwp_streams.WRONG_PASSWORD)
        return records

    def _section(self, name: str) -> bytes:
        """Return the record stream of a section, decrypted and inflated."""
        if not self.flags.distribution:
            return self.stream(name, compressed=self.flags.compressed)
        stream = self.raw(name)
        # one plain record, 4 bytes of header and 256 of key material, then the cipher text
        first = int.from_bytes(stream[:4], "little")
        if first & 0x3FF != hwp_streams.Tag.DISTRIBUTE_DOC_DATA or first >> 20 != 256:
            raise hwp_streams.damage_error(name)
        packed = hwp_streams.decrypt_distribution(stream[260:], hwp_streams.distribution_key(stream[4:260]))
        return hwp_streams.inflate(packed, name=name) if self.flags.compressed else packed

    def stream(self, name: str, *, compressed: bool) -> bytes:
        """Return a stream, decrypted if the document has a password, and inflated."""
        data = self.raw(name)
        if self.flags.password:
            data = hwp_streams.decrypt_stream(data, self.password or "", encrypt_version=self.flags.encrypt_version)
        return hwp_streams.inflate(data, name=name) if compressed else data


def _read_flags(header: bytes) -> _Flags:
    if len(header) < 48 or not header.startswith(_SIGNATURE):
        raise errors.CorruptDocument(
            "The document is damaged, or of another format than HWP 5; check its extension, or ask for an intact copy."
        )
    flags = int.from_bytes(header[36:40], "little")
    if header[35] != 5:  # the four numbers of a version are stored back to front
        version = ".".join(str(part) for part in reversed(header[32:36]))
        raise errors.UnsupportedDocument(
            f"The document has HWP version {version}, and 5 is read; save it anew in Hangul."
        )
    return _Flags(
        compressed=bool(flags & 1),
        password=bool(flags & 2),
        distribution=bool(flags & 4),
        rights_managed=bool(flags & (1 << 4 | 1 << 8 | 1 << 10)),  # DRM, a certificate, DRM by certificate
        encrypt_version=int.from_bytes(header[44:48], "little"),
    )


_NAMES = {2: "title", 3: "subject", 4: "author", 5: "keywords", 6: "comments", 8: "last_author", 12: "created"}
_STRING, _FILE_TIME = 0x1F, 0x40  # VT_LPWSTR and VT_FILETIME of [MS-OLEPS]
_SET_OFFSET_AT = 44  # where the offset of the one property set is, behind the 28-byte header and a 16-byte id
_MAX_PROPERTIES = 256
_EPOCH = datetime(1601, 1, 1, tzinfo=UTC)


def read_summary(data: bytes) -> dict[str, str]:
    """Return the document properties by name; none if the summary is damaged.

    It is not read by olefile, which reads strings past their end and allocates as many values as the file claims.
    """
    properties: dict[str, str] = {}
    try:
        (start,) = struct.unpack_from("<I", data, _SET_OFFSET_AT)
        (count,) = struct.unpack_from("<I", data, start + 4)
        for index in range(min(count, _MAX_PROPERTIES)):
            key, offset = struct.unpack_from("<II", data, start + 8 + 8 * index)
            if key not in _NAMES:
                continue
            (kind,) = struct.unpack_from("<I", data, start + offset)
            text = ""
            if kind == _STRING:
                (units,) = struct.unpack_from("<I", data, start + offset + 4)
                value = data[start + offset + 8 :][: 2 * units]
                text = value.decode("utf-16-le", "replace").partition("\0")[0].strip()
            elif kind == _FILE_TIME:
                (ticks,) = struct.unpack_from("<Q", data, start + offset + 4)
                moment = _EPOCH + timedelta(microseconds=ticks // 10)
                text = moment.strftime("%Y-%m-%dT%H:%M:%SZ") if ticks else ""
            properties[_NAMES[key]] = text
    except (struct.error, OverflowError):
        return {}
    return {name: text for name, text in properties.items() if text}


def hwp_images(path: Path, *, password: str | None) -> Iterator[ImageCandidate]:
    """Yield the pictures in the order of their insertion into the document. Raises DocumentError."""
    if is_hwp_3(path):
        with as_hwpx(path) as hwpx:
            yield from hwpx_images(hwpx, password=password)
        return
    with open_container(path) as ole:
        container = Container(ole, password, file_bytes=path.stat().st_size)
        streams = {name.rpartition("/")[2].upper(): name for name in map("/".join, ole.listdir()) if "BinData/" in name}

        def pictures() -> Iterator[EmbeddedImage]:
            """Yield the pictures that DocInfo lists, embedded or linked; OLE objects are left out."""
            for record in (record for top in container.docinfo() for record in (top, *top.children)):
                if record.tag != hwp_streams.Tag.BIN_DATA or len(record.data) < _BIN_DATA_BYTES:
                    continue
                kind, packing = record.data[0] & 0xF, record.data[0] >> 4 & 3
                if kind == _LINK:
                    yield EXTERNAL_IMAGE
                elif kind == _EMBEDDED:
                    extension = record.data[6 : 6 + 2 * record.u16(4)].decode("utf-16-le", "replace")
                    file = f"BIN{record.u16(2):04X}.{extension}".upper()
                    compressed = packing == _COMPRESSED or (packing == 0 and container.flags.compressed)
                    if file in streams:
                        yield read_embedded(partial(container.stream, streams[file], compressed=compressed))
                    else:
                        yield EmbeddedImage(b"", f"the document lists {file} and does not hold it")

        yield from make_candidates(pictures())
