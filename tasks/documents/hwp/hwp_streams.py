"""Streams of Hangul documents: decryption, inflation under a cap, and (HWP 5) the tree of records.

Ciphers: passwords (three schemes) and distribution documents (no password). The published formats describe none of
the password schemes. HWP 5 from Hangul 2010 on: `hwp-extract` by Volexity; older: that of HWP 3. HWPX: OpenDocument
1.2, part 3.
"""

from __future__ import annotations

import hashlib
import re
import struct
import zlib
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from tasks.documents.document_errors import CorruptDocument, RefusedDocument, UnsupportedDocument
from tasks.documents.hwp.hwp_model import MAX_NESTING

MAX_STREAM_BYTES = 128 << 20  # one inflated stream; a 1,000-page document has about 20 MiB
MAX_RATIO = 100  # inflated over packed, for streams above `_SMALL_BYTES`; real section streams stay below 30
_SMALL_BYTES = 16 << 20
WRONG_PASSWORD = "The password does not open the document, or the document is damaged; check `--password-env`."
_MAX_RECORDS = 1_000_000


class Tag(IntEnum):
    """The records that carry text or structure (hwp 5 format, revision 1.3, tables 13 and 57)."""

    DOCUMENT_PROPERTIES = 0x10
    BIN_DATA = 0x12
    CHAR_SHAPE = 0x15
    NUMBERING = 0x17
    BULLET = 0x18
    PARA_SHAPE = 0x19
    DISTRIBUTE_DOC_DATA = 0x1C
    PARA_HEADER = 0x42
    PARA_TEXT = 0x43
    PARA_LINE_SEG = 0x45
    PARA_CHAR_SHAPE = 0x44
    CTRL_HEADER = 0x47
    LIST_HEADER = 0x48
    SHAPE_COMPONENT = 0x4C
    TABLE = 0x4D
    OLE = 0x54
    PICTURE = 0x55
    CTRL_DATA = 0x57
    EQUATION = 0x58
    TEXT_ART = 0x5A
    FORM_OBJECT = 0x5B
    MEMO_LIST = 0x5D
    CHART = 0x5F
    VIDEO = 0x62


_READ_TAGS = frozenset(int(tag) for tag in Tag)


@dataclass(slots=True)
class Record:
    """A record of an HWP 5 stream with its children."""

    tag: int
    level: int
    data: bytes
    children: list[Record] = field(default_factory=list["Record"])

    def u16(self, offset: int) -> int:
        """Return the unsigned 16-bit number at the offset. Raises CorruptDocument beyond the end."""
        return self._unpack("<H", offset)

    def u32(self, offset: int) -> int:
        """Return the unsigned 32-bit number at the offset. Raises CorruptDocument beyond the end."""
        return self._unpack("<I", offset)

    def text(self, offset: int) -> str:
        """Return the UTF-16 string at the offset, behind its length. Raises CorruptDocument beyond the end."""
        return self._unpack(f"{2 * self.u16(offset)}s", offset + 2).decode("utf-16-le", "replace")

    def _unpack(self, layout: str, offset: int) -> Any:
        try:
            return struct.unpack_from(layout, self.data, offset)[0]
        except struct.error as error:
            raise damage_error() from error


def damage_error(part: str = "") -> CorruptDocument:
    """Return the error of a file that is not whole, in words of its reader; the cause is for developers.

    part: name of the stream or member that is damaged, if it is known.
    """
    section = re.search(r"section(\d+)", part, re.IGNORECASE)
    what = f"section {int(section[1]) + 1} of its text" if section else "a part of it"
    return CorruptDocument(f"The document is damaged or cut: {what} cannot be read; ask for an intact copy.")


def inflate(packed: bytes, *, name: str) -> bytes:
    """Inflate a raw deflate stream; its CRC and length are checked where Hangul wrote them."""
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


def record_tree(data: bytes, *, name: str) -> list[Record]:
    """Return the top records of a stream with their children; records without text and structure are left out."""
    top: list[Record] = []
    open_records: list[Record] = []  # the last record of every level above the current one
    offset = count = 0
    while offset + 4 <= len(data):
        # 10 bits of tag, 10 of level and 12 of size, or a longer size behind them
        word = int.from_bytes(data[offset : offset + 4], "little")
        tag, level, size = word & 0x3FF, word >> 10 & 0x3FF, word >> 20
        start = offset + 4
        if size == 0xFFF:
            size = int.from_bytes(data[start : start + 4], "little")
            start += 4
        if start + size > len(data):
            raise damage_error(name)
        offset, count = start + size, count + 1
        if count > _MAX_RECORDS:
            raise RefusedDocument(
                "The document holds more objects than any that Hangul writes; split it in Hangul into several."
            )
        if level > 2 * MAX_NESTING:  # an object takes two levels: its control, and its list of paragraphs
            raise damage_error(name)
        if tag not in _READ_TAGS:
            continue
        record = Record(tag, level, data[start:offset])
        while open_records and open_records[-1].level >= level:
            open_records.pop()
        (open_records[-1].children if open_records else top).append(record)
        open_records.append(record)
    return top


_PIECE_BYTES = 1 << 16
_MAX_ITERATIONS = 1_000_000  # PBKDF2; a file that asks for more is an attempt to consume CPU time
_DISTRIBUTION_BYTES = 256


def distribution_key(record: bytes) -> bytes:
    """Return the AES-128 key inside the record of a distribution document.

    Source: Hancom, HWP document format, distribution documents, revision 1.2.
    """
    if len(record) < _DISTRIBUTION_BYTES:
        raise damage_error()
    seed = int.from_bytes(record[:4], "little")

    def rand() -> int:
        """Return the next number of the linear congruential rand() of Microsoft's C."""
        nonlocal seed
        seed = (seed * 214013 + 2531011) & 0xFFFFFFFF
        return seed >> 16 & 0x7FFF

    # the XOR mask is runs of equal bytes; the seed itself is not masked
    mask = bytearray()
    while len(mask) < _DISTRIBUTION_BYTES:
        value = rand() & 0xFF
        mask += bytes([value]) * ((rand() & 0x0F) + 1)
    plain = record[:4] + bytes(a ^ b for a, b in zip(record[4:], mask[4:], strict=False))
    offset = 4 + (record[0] & 0x0F)
    return plain[offset : offset + 16]


def decrypt_distribution(data: bytes, key: bytes) -> bytes:
    """Decrypt AES-128-ECB, without an incomplete last block."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    return Cipher(algorithms.AES(key), modes.ECB()).decryptor().update(data[: len(data) // 16 * 16])


def decrypt_stream(data: bytes, password: str, *, encrypt_version: int) -> bytes:
    """Decrypt a stream of HWP 5; a wrong password gives noise that does not inflate."""
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


def open_document_key(password: str, *, salt: bytes, iterations: int, key_bytes: int) -> bytes:
    """Return the key of an HWPX member: PBKDF2-HMAC-SHA-1 over the SHA-256 of the password."""
    if not 1 <= iterations <= _MAX_ITERATIONS or key_bytes not in (16, 24, 32):
        raise UnsupportedDocument(
            f"The encryption asks for {iterations} iterations and a key of {key_bytes} bytes; "
            f"expected 1 to {_MAX_ITERATIONS} and 16, 24 or 32: save the document in Hangul without a password."
        )
    start_key = hashlib.sha256(password.encode()).digest()
    return hashlib.pbkdf2_hmac("sha1", start_key, salt, iterations, key_bytes)


def decrypt_open_document(data: bytes, *, key: bytes, vector: bytes) -> bytes:
    """Decrypt AES-CBC and leave the padding on, since deflate streams have an end mark."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    if len(vector) != 16 or len(data) % 16:
        raise damage_error()
    return Cipher(algorithms.AES(key), modes.CBC(vector)).decryptor().update(data)
