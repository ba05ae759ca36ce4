"""The ciphers of HWP 5 and HWPX: passwords (three schemes) and distribution documents (no password).

None of the password schemes is in the published formats. HWP 5: `hwp-extract` by Volexity documents the one that
Hangul 2010 and later write, the older one is that of HWP 3. HWPX follows OpenDocument 1.2, part 3.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from tasks.documents.document_errors import CorruptDocument, UnsupportedDocument

_PIECE_BYTES = 1 << 16
_MAX_ITERATIONS = 1_000_000
"""PBKDF2 iterations; a file that asks for more is an attempt to consume CPU time."""
_DISTRIBUTION_BYTES = 256


def distribution_key(record: bytes) -> bytes:
    """The AES-128 key inside the record of a distribution document.

    Source: Hancom, HWP document format, distribution documents, revision 1.2.
    """
    if len(record) < _DISTRIBUTION_BYTES:
        raise CorruptDocument(
            f"The distribution record has {len(record)} bytes, expected {_DISTRIBUTION_BYTES}: "
            "the file is damaged; ask for an intact copy."
        )
    plain = bytes(a ^ b for a, b in zip(record, _mask(record), strict=False))
    offset = 4 + (record[0] & 0x0F)
    return plain[offset : offset + 16]


def _mask(record: bytes) -> Iterator[int]:
    """What the record is XORed with: runs of equal bytes from the linear congruential rand() of Microsoft's C."""
    seed = int.from_bytes(record[:4], "little")

    def rand() -> int:
        nonlocal seed
        seed = (seed * 214013 + 2531011) & 0xFFFFFFFF
        return seed >> 16 & 0x7FFF

    index = 0
    while index < _DISTRIBUTION_BYTES:
        value = rand() & 0xFF
        for _ in range((rand() & 0x0F) + 1):
            yield value if index >= 4 else 0  # the seed itself stands in the open
            index += 1


def decrypt_distribution(data: bytes, key: bytes) -> bytes:
    """AES-128-ECB; a last block that is not whole is dropped, as it cannot be decrypted."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    return Cipher(algorithms.AES(key), modes.ECB()).decryptor().update(data[: len(data) // 16 * 16])


def decrypt_stream(data: bytes, password: str, *, encrypt_version: int) -> bytes:
    """A stream of an HWP 5 file with a password; a wrong password gives noise that does not inflate."""
    if encrypt_version >= 4:
        return _decrypt_bitwise_cfb(data, _rotated_sha1_key(password))
    return _decrypt_des(data, _ring_key(password))


def _rotated_sha1_key(password: str) -> bytes:
    """Each byte behind its predecessor rotated left by one bit, hashed."""
    mixed, previous = bytearray(), 0xEC
    for byte in password.encode():
        mixed += bytes(((previous << 1 | previous >> 7) & 0xFF, byte))
        previous = byte
    return hashlib.sha1(mixed, usedforsecurity=False).digest()[:16]


def _decrypt_bitwise_cfb(data: bytes, key: bytes) -> bytes:
    """AES-128 in CFB-1 with a zero vector.

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


def _ring_key(password: str) -> bytes:
    """56 bits: UTF-16 bytes go round a ring of seven, each slot XORed and rotated; DES wants them 7 to a byte."""
    ring = [0] * 7
    for index, byte in enumerate(password.encode("utf-16-le")):
        mixed = ring[index % 7] ^ byte
        ring[index % 7] = (mixed << 1 | mixed >> 7) & 0xFF
    bits = int.from_bytes(bytes(ring), "big")
    return bytes((bits >> (49 - 7 * index) & 0x7F) << 1 for index in range(8))


def _decrypt_des(data: bytes, key: bytes) -> bytes:
    """DES-ECB, which is triple DES with three equal keys."""
    from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
    from cryptography.hazmat.primitives.ciphers import Cipher, modes

    return Cipher(TripleDES(key * 3), modes.ECB()).decryptor().update(data[: len(data) // 8 * 8])


def open_document_key(password: str, *, salt: bytes, iterations: int, key_bytes: int) -> bytes:
    """The key of an HWPX member: PBKDF2-HMAC-SHA-1 over the SHA-256 of the password."""
    if not 1 <= iterations <= _MAX_ITERATIONS or key_bytes not in (16, 24, 32):
        raise UnsupportedDocument(
            f"The encryption asks for {iterations} iterations and a key of {key_bytes} bytes; "
            f"expected 1 to {_MAX_ITERATIONS} and 16, 24 or 32: save the document in Hangul without a password."
        )
    start_key = hashlib.sha256(password.encode()).digest()
    return hashlib.pbkdf2_hmac("sha1", start_key, salt, iterations, key_bytes)


def decrypt_open_document(data: bytes, *, key: bytes, vector: bytes) -> bytes:
    """AES-CBC; the padding is left on, as Hangul's deflate streams know their own end."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    if len(vector) != 16 or len(data) % 16:
        raise CorruptDocument(
            f"An encrypted member has {len(data)} bytes and a vector of {len(vector)}; expected whole blocks of 16 "
            "and a vector of 16: the file is damaged; ask for an intact copy."
        )
    return Cipher(algorithms.AES(key), modes.CBC(vector)).decryptor().update(data)
