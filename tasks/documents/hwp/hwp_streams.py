"""Streams of HWP 5: decryption, and inflation under a cap.

Ciphers of HWP 5: passwords (two schemes) and distribution documents (no password). The published format describes none
of the password schemes. From Hangul 2010 on: `hwp-extract` by Volexity; older: that of HWP 3.
"""

from __future__ import annotations

import hashlib
import re
import struct
import zlib

from tasks.documents.document_errors import CorruptDocument, RefusedDocument

MAX_STREAM_BYTES = 128 << 20  # one inflated stream; a 1,000-page document has about 20 MiB
MAX_RATIO = 100  # inflated over packed, for streams above `_SMALL_BYTES`; real section streams stay below 30
_SMALL_BYTES = 16 << 20
WRONG_PASSWORD = "The password does not open the document, or the document is damaged; check `--password-env`."


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


_PIECE_BYTES = 1 << 16
_DISTRIBUTE_DOC_DATA = 0x1C


def decrypt_distribution(stream: bytes, name: str) -> bytes:
    """Decrypt a section of a distribution document: AES-128-ECB behind a record with its key.

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
