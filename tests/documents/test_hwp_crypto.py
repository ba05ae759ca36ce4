"""Ciphers: against a plain reference, known answers, and their own inverse."""

from __future__ import annotations

import random

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from tasks.documents.document_errors import UnsupportedDocument
from tasks.documents.hwp import hwp_streams


def encrypt_bit_by_bit(plain: bytes, key: bytes) -> bytes:
    """CFB-1 as its definition says: one block cipher call per bit, the register moves on by the cipher bit."""
    block = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    register, out = 0, 0
    for bit in range(8 * len(plain)):
        mask = block.update(register.to_bytes(16, "big"))[0] >> 7
        cipher_bit = (plain[bit // 8] >> (7 - bit % 8) & 1) ^ mask
        register = (register << 1 | cipher_bit) & ((1 << 128) - 1)
        out = out << 1 | cipher_bit
    return out.to_bytes(len(plain), "big")


@pytest.mark.parametrize("size", [1, 15, 16, 33, 200])
def test_vectorised_cfb_inverts_the_definition(size: int) -> None:
    draw = random.Random(size)
    plain, key = draw.randbytes(size), draw.randbytes(16)
    assert hwp_streams.decrypt_bitwise_cfb(encrypt_bit_by_bit(plain, key), key) == plain


def test_distribution_key_is_found_by_the_seed() -> None:
    record = bytes([0x03, 0, 0, 0]) + bytes(252)
    # an all-zero record shows the mask itself: seed 3 gives rand() = 48, 7196 → 0x30, thirteen times
    # and rand() = 9294, 9091 → 0x4E, four times; the key starts at 4 + 3
    assert hwp_streams.distribution_key(record)[:10] == b"\x30" * 6 + b"\x4e" * 4


def test_endless_key_derivation_is_not_begun() -> None:
    with pytest.raises(UnsupportedDocument, match="iterations"):
        hwp_streams.open_document_key("a", salt=b"", iterations=10**9, key_bytes=32)
