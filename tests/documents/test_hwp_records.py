"""Record streams, ciphers and list numbers of Hangul documents, made by hand."""

from __future__ import annotations

import random
import struct
import zlib

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from tasks.documents.document_errors import CorruptDocument, RefusedDocument, UnsupportedDocument
from tasks.documents.hwp import hwp_streams
from tasks.documents.hwp.hwp_assembly import assemble
from tasks.documents.hwp.hwp_body import read_docinfo, read_section
from tasks.documents.hwp.hwp_model import (
    HangulDocument,
    ListCounters,
    ListHead,
    ListStyles,
    NumberingLevel,
    format_number,
)
from tasks.documents.hwp.hwp_streams import Tag, inflate, record_tree

NO_LISTS = ListStyles({}, {}, {}, {})


def record(tag: int, level: int, data: bytes = b"") -> bytes:
    if len(data) < 0xFFF:
        return struct.pack("<I", tag | level << 10 | len(data) << 20) + data
    return struct.pack("<II", tag | level << 10 | 0xFFF << 20, len(data)) + data


def paragraph(level: int, text: bytes, *, shape: int = 0) -> bytes:
    head = struct.pack("<IIHBBHHHI", len(text) // 2, 0, shape, 0, 0, 1, 0, 1, 0)
    return record(Tag.PARA_HEADER, level, head) + record(Tag.PARA_TEXT, level + 1, text)


def words(text: str) -> bytes:
    return text.encode("utf-16-le")


def anchor(code: int, control: str) -> bytes:
    """An eight-unit control: code, id, filler, code."""
    return struct.pack("<H", code) + control.encode()[::-1] + bytes(8) + struct.pack("<H", code)


def control(level: int, name: str, data: bytes = b"") -> bytes:
    return record(Tag.CTRL_HEADER, level, name.encode()[::-1] + data)


def blocks(stream: bytes, styles: ListStyles = NO_LISTS) -> list[tuple[str, str]]:
    section = read_section(record_tree(stream, name="test"), styles)
    made = assemble(HangulDocument((section,), styles, None, {}, ()))
    return [(block.kind, block.text) for block in made]


def test_controls_are_skipped_whole() -> None:
    text = anchor(2, "secd") + words("가") + anchor(3, "%hlk") + words("나") + anchor(4, "%hlk") + words("다\r")
    assert blocks(paragraph(0, text)) == [("paragraph", "가나다")]


def test_a_note_stands_last() -> None:
    note = control(1, "fn  ") + record(Tag.LIST_HEADER, 2, bytes(8)) + paragraph(2, words("각주"))
    stream = paragraph(0, words("본문") + anchor(17, "fn  ")) + note + paragraph(0, words("다음"))
    assert blocks(stream) == [("paragraph", "본문"), ("paragraph", "다음"), ("note", "각주")]


def test_an_equation_stands_in_its_sentence() -> None:
    script = control(1, "eqed") + record(Tag.EQUATION, 2, bytes(4) + struct.pack("<H", 3) + words("x+1"))
    stream = paragraph(0, words("식 ") + anchor(11, "eqed") + words(" 이다")) + script
    assert blocks(stream) == [("paragraph", "식 x+1 이다")]


def table(level: int, *cells: tuple[int, int, bytes], attributes: int = 0) -> bytes:
    """A table control; a cell is row, column and the records of its paragraphs."""
    made = control(level, "tbl ", struct.pack("<I", attributes) + bytes(36))
    made += record(Tag.TABLE, level + 1, bytes(22))
    for row, col, content in cells:
        head = struct.pack("<HHIHHHH", 1, 0, 0, col, row, 1, 1) + bytes(18)
        made += record(Tag.LIST_HEADER, level + 1, head) + content
    return made


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        pytest.param(0, [("paragraph", "앞뒤"), ("table", "표")], id="floating"),
        pytest.param(1, [("paragraph", "앞"), ("table", "표"), ("paragraph", "뒤")], id="in line"),
    ],
)
def test_a_table_splits_a_sentence_only_where_it_stands_in_line(
    attributes: int, expected: list[tuple[str, str]]
) -> None:
    stream = paragraph(0, words("앞") + anchor(11, "tbl ") + words("뒤"))
    stream += table(1, (0, 0, paragraph(2, words("표"))), attributes=attributes)
    assert blocks(stream) == expected


def test_outline_paragraphs_are_headings_and_make_the_path() -> None:
    def shape(kind: int, level: int) -> bytes:
        return record(Tag.PARA_SHAPE, 1, struct.pack("<I", kind << 23 | level << 25) + bytes(50))

    styles = read_docinfo(record_tree(shape(1, 0) + shape(1, 1) + shape(0, 0), name="test"))
    stream = (
        paragraph(0, words("장"), shape=0) + paragraph(0, words("절"), shape=1) + paragraph(0, words("글"), shape=2)
    )
    section = read_section(record_tree(stream, name="test"), styles)
    made = assemble(HangulDocument((section,), styles, None, {}, ()))
    assert [(block.kind, block.level, block.place.heading_path) for block in made] == [
        ("heading", 1, ()),
        ("heading", 2, ("장",)),
        ("paragraph", None, ("장", "절")),
    ]


def deflated(data: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush()


def test_a_deflate_bomb_is_refused() -> None:
    with pytest.raises(RefusedDocument, match="exhaust the memory"):
        inflate(deflated(bytes(60 << 20)), name="s")


def test_bottomless_nesting_is_damage() -> None:
    with pytest.raises(CorruptDocument, match="damaged or cut"):
        record_tree(b"".join(record(Tag.LIST_HEADER, level) for level in range(900)), name="s")


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


@pytest.mark.parametrize(
    ("number", "style", "text"),
    [
        (7, "DIGIT", "7"),
        (21, "CIRCLED_DIGIT", "㉑"),
        (51, "CIRCLED_DIGIT", "51"),
        (1994, "ROMAN_CAPITAL", "MCMXCIV"),
        (27, "LATIN_CAPITAL", "AA"),
        (15, "HANGUL_SYLLABLE", "거"),
        (3, "CIRCLED_HANGUL_SYLLABLE", "㉰"),
        (230, "HANGUL_PHONETIC", "이백삼십"),
        (10, "CIRCLED_IDEOGRAPH", "㊉"),
        (10, "DECAGON_CIRCLE_HANJA", "癸"),
        (0, "ROMAN_CAPITAL", "0"),
        (5, "A STYLE OF TOMORROW", "5"),
    ],
)
def test_numbers_are_spelled_in_their_style(number: int, style: str, text: str) -> None:
    assert format_number(number, style) == text


def marks(styles: ListStyles, *heads: ListHead, outline_id: int = 1) -> list[str]:
    counters = ListCounters(styles)
    return [counters.mark(head, outline_id=outline_id) for head in heads]


def numbered(*patterns: str, start: int = 1) -> ListStyles:
    return ListStyles({1: tuple(NumberingLevel(pattern, "DIGIT", start) for pattern in patterns)}, {}, {}, {})


def test_a_new_upper_number_restarts_the_lower_ones() -> None:
    heads = [ListHead("number", 1, level) for level in (0, 1, 1, 0, 1)]
    assert marks(numbered("^1.", "^1.^2"), *heads) == ["1.", "1.1", "1.2", "2.", "2.1"]


def test_path_codes_write_all_levels() -> None:
    heads = [ListHead("number", 1, level) for level in (0, 1, 2)]
    assert marks(numbered("^n", "^n", "^N"), *heads) == ["1", "1.1", "1.1.1."]


def test_outline_follows_the_numbering_of_its_section() -> None:
    styles = ListStyles({2: (NumberingLevel("제^1장", "DIGIT", 1),)}, {}, {}, {})
    assert marks(styles, ListHead("outline", 0, 0), outline_id=2) == ["제1장"]


def test_bullets_of_the_symbol_font_become_the_signs_that_it_shows() -> None:
    styles = ListStyles({}, {1: "\uf06c", 2: "▶"}, {}, {})
    assert marks(styles, ListHead("bullet", 1, 0), ListHead("bullet", 2, 0)) == ["●", "▶"]
