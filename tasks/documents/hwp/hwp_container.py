"""HWP 5 before the layout engine reads it: an OLE container of compressed record streams.

The engine reads a damaged stream as far as it can and says nothing, and it opens no old ciphers. So the streams are
decrypted, inflated and walked here first. That also counts their letters, and finds what the engine leaves out.
"""

from __future__ import annotations

import hashlib
import io
import re
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tasks.documents import document_errors as errors
from tasks.documents.archives import OLE_MAGIC, ZIP_MAGIC
from tasks.documents.document_errors import CorruptDocument, RefusedDocument
from tasks.documents.hwp.hwp_layout import PART_BYTES, Part, divide

MAX_STREAM_BYTES = 128 << 20  # one inflated stream; a 1,000-page document has about 20 MiB
MAX_RATIO = 100  # inflated over packed, for streams above `_SMALL_BYTES`; real section streams stay below 30
_SMALL_BYTES = 16 << 20
WRONG_PASSWORD = "The password does not open the document, or the document is damaged; check `--password-env`."


def damage_error(part: str = "") -> CorruptDocument:
    """Return the error for a damaged file, in words for its reader; part: the stream or member, if it is known."""
    section = re.search(r"section(\d+)", part, re.IGNORECASE)
    what = f"section {int(section[1]) + 1} of its text" if section else "a part of it"
    return CorruptDocument(f"The document is damaged or cut: {what} cannot be read; ask for an intact copy.")


def inflate(packed: bytes, *, name: str) -> bytes:
    """Inflate a raw deflate stream; CRC and length are checked where Hangul wrote them. Raises DocumentError."""
    limit = min(MAX_STREAM_BYTES, max(_SMALL_BYTES, MAX_RATIO * len(packed)))
    inflater = zlib.decompressobj(-15)  # negative: without the header of zlib
    try:
        data = inflater.decompress(packed, limit + 1)
    except zlib.error as error:
        raise damage_error(name) from error
    if len(data) > limit:
        raise RefusedDocument(
            "The document unpacks to far more than its size, as files do that are made to exhaust the memory; "
            "if it is a real document, open it in Hangul and save it anew."
        )
    if not inflater.eof:
        raise damage_error(name)
    # not in the published format, but Hangul ends a stream like gzip: CRC-32, then the length
    if len(inflater.unused_data) >= 8:
        crc, size = struct.unpack_from("<II", inflater.unused_data)
        if size == len(data) and crc != zlib.crc32(data):
            raise damage_error(name)
    return data


_PIECE_BYTES = 1 << 16
_DISTRIBUTE_DOC_DATA = 0x1C


def decrypt_distribution(stream: bytes, name: str) -> bytes:
    """Decrypt a distribution document's section, still packed: AES-128-ECB behind its key. Raises CorruptDocument.

    Source: Hancom, HWP document format, distribution documents, revision 1.2.
    """
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    record, packed = stream[4:260], stream[260:]
    head = int.from_bytes(stream[:4], "little")
    if head & 0x3FF != _DISTRIBUTE_DOC_DATA or head >> 20 != 256 or len(record) < 256:
        raise damage_error(name)
    seed = int.from_bytes(record[:4], "little")

    def rand() -> int:
        """Return the next number of the linear congruential rand() of Microsoft's C."""
        nonlocal seed
        seed = (seed * 214013 + 2531011) & 0xFFFFFFFF
        return seed >> 16 & 0x7FFF

    # the XOR mask is runs of equal bytes; the seed itself is not masked
    mask = bytearray()
    while len(mask) < len(record):
        value = rand() & 0xFF
        mask += bytes([value]) * ((rand() & 0x0F) + 1)
    start = 4 + (record[0] & 0x0F)
    key = bytes(a ^ b for a, b in zip(record[start : start + 16], mask[start:], strict=False))
    return Cipher(algorithms.AES(key), modes.ECB()).decryptor().update(packed[: len(packed) // 16 * 16])


def decrypt_stream(data: bytes, password: str, *, encrypt_version: int) -> bytes:
    """Decrypt a stream of HWP 5; a wrong password gives noise that does not inflate. encrypt_version: AES from 4."""
    if encrypt_version >= 4:
        # the key is SHA-1 over each byte preceded by its predecessor rotated left by one bit
        mixed, previous = bytearray(), 0xEC
        for byte in password.encode():
            mixed += bytes(((previous << 1 | previous >> 7) & 0xFF, byte))
            previous = byte
        return decrypt_bitwise_cfb(data, hashlib.sha1(mixed, usedforsecurity=False).digest()[:16])

    from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
    from cryptography.hazmat.primitives.ciphers import Cipher, modes

    # 56 bits: UTF-16 bytes go round a ring of seven, each slot XORed and rotated; DES wants them 7 to a byte
    ring = [0] * 7
    for index, byte in enumerate(password.encode("utf-16-le")):
        turned = ring[index % 7] ^ byte
        ring[index % 7] = (turned << 1 | turned >> 7) & 0xFF
    bits = int.from_bytes(bytes(ring), "big")
    key = bytes((bits >> (49 - 7 * index) & 0x7F) << 1 for index in range(8))
    des = TripleDES(key * 3)  # triple DES with three equal keys is DES
    return Cipher(des, modes.ECB()).decryptor().update(data[: len(data) // 8 * 8])


def decrypt_bitwise_cfb(data: bytes, key: bytes) -> bytes:
    """Decrypt AES-128 in CFB-1 (one bit at a time) with a zero vector.

    Bit i is masked by the first bit of E(the 128 ciphertext bits before i), so that all registers are known at once:
    eight shifted copies of the ciphertext, seen through a sliding window of 16 bytes.
    """
    import numpy as np
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    encrypt = Cipher(algorithms.AES(key), modes.ECB()).encryptor().update
    stream = np.frombuffer(bytes(16) + data, np.uint8)
    plain = np.frombuffer(data, np.uint8).copy()
    for start in range(0, len(data), _PIECE_BYTES):
        size = min(_PIECE_BYTES, len(data) - start)
        around = stream[start : start + size + 16].astype(np.uint16)  # 16 bytes before the piece, then it
        for shift in range(8):
            shifted = (around[:-1] << shift | around[1:] >> (8 - shift)).astype(np.uint8)
            registers = np.lib.stride_tricks.sliding_window_view(shifted, 16)  # (size, 16)
            mask = np.frombuffer(encrypt(registers.tobytes()), np.uint8)[::16] & 0x80
            plain[start : start + size] ^= mask >> shift
    return plain.tobytes()


_SIGNATURE = b"HWP Document File"
_SECTOR_SHIFTS = (b"\x09\0\x06\0", b"\x0c\0\x06\0")
"""Sectors of 512 or 4096 bytes, small ones of 64: the only sizes of the OLE format."""
_DAMAGED = (OSError, ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError)
"""Exceptions that olefile raises for a damaged container."""
_COMPRESSED, _PASSWORD, _DISTRIBUTION = 1, 2, 4
_RIGHTS_MANAGED = 1 << 4 | 1 << 8 | 1 << 10  # DRM, a certificate, DRM by certificate
_SUMMARY_STREAM = "\x05HwpSummaryInformation"
# of the records (hwp 5 format, revision 1.3, tables 13 and 57), those that are looked at here
_DOCUMENT_PROPERTIES, _PARAGRAPH, _PARA_TEXT, _PARA_LINES = 0x10, 0x42, 0x43, 0x45
_CONTROL, _TEXT_ART, _MEMO_LIST = 0x47, 0x5A, 0x5D
_BREAK_AT, _PAGE_BREAK, _LINE_BYTES = 11, 4, 36
_DEEPEST = 200  # an object takes two levels, its control and its list of paragraphs, and 50 are nested at most
_NUMBER, _HIDDEN_COMMENT = b"onta", b"tmct"  # the letters of a control, back to front
_UNITS = re.compile(rb"((?:[ -\xff]\0|.[\x01-\xff])+)|[\x01-\x09\x0b\x0c\x0e-\x17]\0.{14}|..", re.DOTALL)
"""Text is UTF-16, in which the codes below 32 are controls of one unit or of eight."""


@dataclass
class HwpContents:
    """A document without its password, and what its streams say themselves."""

    data: bytes
    title: str | None = None
    notes: tuple[str, ...] = ()
    texts: list[str] = field(default_factory=list[str])
    """The text of every paragraph of HWP 5, shown or not."""
    comments: list[str] = field(default_factory=list[str])
    """Texts of hidden comments."""
    memos: list[str] = field(default_factory=list[str])
    """Texts of memos, which the layout engine leaves out."""
    word_art: list[str] = field(default_factory=list[str])
    """Words drawn as a picture, which it leaves out, too."""
    numbers: list[int] = field(default_factory=list[int])
    """Numbers of notes and captions as Hangul stored them, in their order."""

    def add_section(self, section: bytes, name: str) -> None:
        """Add what the records of a section say. Raises CorruptDocument if one is cut."""
        aside, least_level = None, 0
        for tag, level, record, _ in _records(section, name):
            if level > _DEEPEST:
                raise damage_error(name)
            if tag == _MEMO_LIST:
                aside, least_level = self.memos, level
            elif tag == _CONTROL and record.startswith(_HIDDEN_COMMENT):
                aside, least_level = self.comments, level + 1
            elif level < least_level:
                aside, least_level = None, 0
            if tag == _PARA_TEXT:
                text = "".join(run.decode("utf-16-le", "replace") for run in _UNITS.findall(record))
                self.texts.append(text)
                if aside is not None:
                    aside.append(text)
            elif tag == _TEXT_ART:  # four corner points, then the words behind their length
                end = 34 + 2 * int.from_bytes(record[32:34], "little")
                self.word_art.append(record[34:end].decode("utf-16-le", "replace"))
            elif tag == _CONTROL and record.startswith(_NUMBER):
                self.numbers.append(int.from_bytes(record[8:10], "little"))


def read_contents(path: Path, password: str | None) -> HwpContents:
    """Return the contents of a sound HWP 5 document, or the bytes of HWP 3 or HWPX. Raises DocumentError."""
    data = path.read_bytes()
    if data.startswith((_SIGNATURE, *ZIP_MAGIC)):
        return HwpContents(data)
    with _open_container(data) as ole:
        return _Container(ole, password, len(data)).contents()


def divide_contents(data: bytes) -> Iterator[Part]:
    """Yield the parts in which a document that was read is laid out: several of a long HWP 5, else one."""
    if data.startswith(OLE_MAGIC):
        with _open_container(data) as ole:
            yield from _Container(ole, None, len(data)).parts()
    else:
        yield Part(data)


def _open_container(data: bytes) -> Any:
    """Return the file as an olefile container, after its tables proved to fit. Raises CorruptDocument."""
    import olefile

    # olefile would allocate terabytes for tables (FAT, small FAT, double FAT) that do not fit into the file
    sectors = max(int.from_bytes(data[at : at + 4], "little") for at in (44, 64, 72))
    valid = len(data) >= 512 and data[30:34] in _SECTOR_SHIFTS  # sectors are given as powers of two ([MS-CFB] 2.2)
    if not valid or sectors << data[30] > len(data):
        raise damage_error()
    try:
        return olefile.OleFileIO(io.BytesIO(data), write_mode=True)
    except _DAMAGED as error:
        raise damage_error() from error


class _Container:
    """The streams of one file, decrypted and inflated as its header says. Opening and reading raise DocumentError."""

    def __init__(self, ole: Any, password: str | None, size: int) -> None:
        self._ole, self._size = ole, size
        header = self._stored("FileHeader")
        if len(header) < 48 or not header.startswith(_SIGNATURE):
            raise damage_error()
        if header[35] != 5:  # the four numbers of a version are stored back to front
            version = ".".join(str(part) for part in reversed(header[32:36]))
            raise errors.UnsupportedDocument(
                f"The document has HWP version {version}, and 5 is read; save it anew in Hangul."
            )
        self._flags, self._cipher = (int.from_bytes(header[at : at + 4], "little") for at in (36, 44))
        if self._flags & _RIGHTS_MANAGED:
            raise errors.UnsupportedDocument(
                "The document is under rights management (DRM) or a certificate, whose keys are not in the file; "
                "open it where you have the rights, and save it without them."
            )
        if self._flags & _PASSWORD:
            if password is None:
                raise errors.NeedsPassword("The document is encrypted with a password; name one by `--password-env`.")
            self._decrypt(header, password)

    def contents(self) -> HwpContents:
        """Return the bytes, texts, title and notes. Raises CorruptDocument if a stream of text is not whole."""
        distribution = bool(self._flags & _DISTRIBUTION)
        names = self._section_names()
        if not names:
            raise damage_error()
        self._inflated("DocInfo", self._stored("DocInfo"))
        notes = {
            "read from the view streams of a distribution document": distribution,
            "decrypted with the password": self._flags & _PASSWORD,
        }
        contents = HwpContents(self._ole.fp.getvalue(), notes=tuple(note for note, applies in notes.items() if applies))
        if self._ole.exists(_SUMMARY_STREAM):  # not encrypted even where the text is
            contents.title = _read_title(self._stored(_SUMMARY_STREAM))
        for name in names:
            stored = self._stored(name)
            plain = decrypt_distribution(stored, name) if distribution else stored
            contents.add_section(self._inflated(name, plain), name)
        return contents

    def _section_names(self) -> list[str]:
        sections = re.compile(rf"{'ViewText' if self._flags & _DISTRIBUTION else 'BodyText'}/Section(\d{{1,5}})")
        names = [name for name in map("/".join, self._ole.listdir()) if sections.fullmatch(name)]
        return sorted(names, key=lambda name: int(name.partition("Section")[2]))

    def parts(self) -> Iterator[Part]:
        """Yield the document in parts; a short one, or one for distribution, whose streams are not written, is one."""
        names = [] if self._flags & _DISTRIBUTION else self._section_names()
        stored = {name: self._stored(name) for name in names}
        streams = [self._inflated(name, stored[name]) for name in names]
        starts, sections = list[list[int]](), list[list[tuple[int, bool]]]()
        for name, stream in zip(names, streams, strict=True):
            paragraphs = _find_paragraphs(stream, name)
            starts.append([*(at for at, _ in paragraphs), len(stream)])
            sections.append([(end - at, begins) for (at, begins), end in zip(paragraphs, starts[-1][1:], strict=True)])
        part = None
        for part in divide(sections, part_bytes=PART_BYTES):
            first = next(iter(part))
            continues = part[first].start > 0
            for number, name in enumerate(names):
                inside, at = part.get(number, range(0)), starts[number]
                stream = bytearray(streams[number][at[inside.start] : at[inside.stop]])
                if continues and number == first:
                    stream[4 + _BREAK_AT] |= _PAGE_BREAK
                    stream[:0] = streams[number][: at[1]]
                if self._flags & _COMPRESSED:
                    packer = zlib.compressobj(9, wbits=-15)
                    stream = packer.compress(stream) + packer.flush()
                self._replace(name, bytes(stream).ljust(len(stored[name]), b"\0"))
            self._ole.ministream = None
            yield Part(self._ole.fp.getvalue(), range(first, max(part) + 1), continues)
        if part is None:
            yield Part(self._ole.fp.getvalue())

    def _stored(self, name: str) -> bytes:
        """Return the bytes of a stream as stored. Raises CorruptDocument if it is missing or damaged."""
        try:
            for size in (self._ole.root.size, self._ole.get_size(name)):
                if size > self._size:  # olefile would go round a cycle of sectors until it has as many bytes
                    raise ValueError(f"{size} bytes claimed, {self._size} in the file")
            return self._ole.openstream(name).read()
        except _DAMAGED as error:
            raise damage_error(name) from error

    def _inflated(self, name: str, data: bytes) -> bytes:
        return inflate(data, name=name) if self._flags & _COMPRESSED else data

    def _decrypt(self, header: bytes, password: str) -> None:
        """Write the streams back without their cipher. Raises NeedsPassword if the password is wrong."""
        for name in map("/".join, self._ole.listdir()):
            if not name.startswith(("DocInfo", "BodyText/", "BinData/")):
                continue
            stored = self._stored(name)
            plain = decrypt_stream(stored, password, encrypt_version=self._cipher)
            if name == "DocInfo":
                try:
                    first = next(_records(self._inflated(name, plain), name), (0,))
                except errors.DocumentError as error:
                    raise errors.NeedsPassword(WRONG_PASSWORD) from error
                if first[0] != _DOCUMENT_PROPERTIES:
                    raise errors.NeedsPassword(WRONG_PASSWORD)
            self._replace(name, plain.ljust(len(stored), b"\0"))
        flags = (self._flags & ~_PASSWORD).to_bytes(4, "little")
        self._replace("FileHeader", header[:36] + flags + header[40:])
        self._ole.ministream = None  # olefile's copy of the small streams, from before they were written

    def _replace(self, name: str, data: bytes) -> None:
        try:
            self._ole.write_stream(name, data)
        except (*_DAMAGED, AssertionError) as error:  # the stream is cut, which reading it does not say
            raise damage_error(name) from error


def _find_paragraphs(section: bytes, name: str) -> list[tuple[int, bool]]:
    """Return at which byte each outermost paragraph begins, and whether a page does. Raises CorruptDocument."""
    paragraphs, last = list[tuple[int, bool]](), 0
    for tag, level, record, at in _records(section, name):
        if tag == _PARAGRAPH and level == 0:
            paragraphs.append((at, len(record) > _BREAK_AT and bool(record[_BREAK_AT] & _PAGE_BREAK)))
        elif tag == _PARA_LINES and level == 1 and len(record) >= _LINE_BYTES and paragraphs:
            # how far the first and the last line stand below the top of the page
            top, bottom = (struct.unpack_from("<i", record, 4 + at)[0] for at in (0, len(record) - _LINE_BYTES))
            paragraphs[-1] = paragraphs[-1][0], paragraphs[-1][1] or top < last
            last = bottom
    return paragraphs


def _records(data: bytes, name: str) -> Iterator[tuple[int, int, bytes, int]]:
    """Yield tag, level, content and place of the records of a stream. Raises CorruptDocument if one is cut."""
    offset = 0
    while offset + 4 <= len(data):
        # 10 bits of tag, 10 of level and 12 of size, or a longer size behind them
        word, start = int.from_bytes(data[offset : offset + 4], "little"), offset + 4
        size = word >> 20
        if size == 0xFFF:
            size, start = int.from_bytes(data[start : start + 4], "little"), start + 4
        begin, offset = offset, start + size
        if offset > len(data):
            raise damage_error(name)
        yield word & 0x3FF, word >> 10 & 0x3FF, data[start:offset], begin


_TITLE = 2
_STRING = 0x1F  # VT_LPWSTR of [MS-OLEPS]
_SET_OFFSET_AT = 44  # where the offset of the one property set is, behind the 28-byte header and a 16-byte id
_MAX_PROPERTIES = 256


def _read_title(data: bytes) -> str | None:
    """Return the title among the document properties; None without one, or where the summary is damaged.

    It is not read by olefile, which reads strings past their end and allocates as many values as the file claims.
    """
    try:
        (start,) = struct.unpack_from("<I", data, _SET_OFFSET_AT)
        (count,) = struct.unpack_from("<I", data, start + 4)
        for index in range(min(count, _MAX_PROPERTIES)):
            key, offset = struct.unpack_from("<II", data, start + 8 + 8 * index)
            kind, units = struct.unpack_from("<II", data, start + offset)
            if key == _TITLE and kind == _STRING:
                value = data[start + offset + 8 :][: 2 * units]
                return value.decode("utf-16-le", "replace").partition("\0")[0].strip() or None
    except struct.error:
        pass
    return None
