"""Streams of HWP 5, ciphers and list numbers of Hangul documents, made by hand."""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import olefile
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from tasks.documents.blocks import Page
from tasks.documents.document_errors import CorruptDocument, RefusedDocument
from tasks.documents.document_readers import ReadOptions
from tasks.documents.hwp import hwp_container, hwp_layout
from tasks.documents.hwp.hwp_container import inflate
from tasks.documents.hwp.hwp_model import ListCounters, ListHead, ListStyles, NumberingLevel, format_number
from tasks.documents.hwp.hwp_reader import open_hwp
from tests.documents.ole_writer import ole_file


def record(tag: int, level: int, data: bytes = b"") -> bytes:
    if len(data) < 0xFFF:
        return struct.pack("<I", tag | level << 10 | len(data) << 20) + data
    return struct.pack("<II", tag | level << 10 | 0xFFF << 20, len(data)) + data


def paragraph(level: int, text: bytes, *, shape: int = 0) -> bytes:
    head = struct.pack("<IIHBBHHHI", len(text) // 2, 0, shape, 0, 0, 1, 0, 1, 0)
    return record(0x42, level, head) + record(0x43, level + 1, text)


def words(text: str) -> bytes:
    return text.encode("utf-16-le")


def anchor(code: int, control: str) -> bytes:
    """An eight-unit control: code, id, filler, code."""
    return struct.pack("<H", code) + control.encode()[::-1] + bytes(8) + struct.pack("<H", code)


def control(level: int, name: str, data: bytes = b"") -> bytes:
    return record(0x47, level, name.encode()[::-1] + data)


def deflated(data: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush()


SAMPLE = Path(__file__).parents[1] / "samples" / "documents" / "hwp" / "마루군_제설 협조 안내.hwp"
TITLE = "겨울철 도로 제설 협조 안내"
"""The first paragraph of the sample, and its header."""


def written(folder: Path, *records: bytes, cut: int = 0) -> Path:
    """The sample with its text replaced by a first paragraph and these records."""
    with olefile.OleFileIO(str(SAMPLE)) as sample:
        header, docinfo = (sample.openstream(name).read() for name in ("FileHeader", "DocInfo"))
        section = zlib.decompress(sample.openstream("BodyText/Section0").read(), -15)
    starts = [at for at, level in levels(section) if not level]
    streams = {"FileHeader": header, "DocInfo": docinfo}
    packed = deflated(section[: starts[1]] + b"".join(records))
    path = folder / "x.hwp"
    path.write_bytes(ole_file(streams | {"BodyText/Section0": packed[: len(packed) - cut]}))
    return path


def levels(stream: bytes) -> Iterator[tuple[int, int]]:
    """The offset and the level of each record."""
    at = 0
    while at < len(stream):
        word = int.from_bytes(stream[at : at + 4], "little")
        yield at, word >> 10 & 0x3FF
        long = word >> 20 == 0xFFF
        at += 8 + int.from_bytes(stream[at + 4 : at + 8], "little") if long else 4 + (word >> 20)


def read(path: Path) -> Page:
    (page,) = open_hwp(path, password=None, options=ReadOptions()).pages()
    return page


def said(page: Page) -> list[tuple[str, str]]:
    return [(block.kind, block.text) for block in page.blocks if block.text != TITLE]


LIST = record(0x48, 2, struct.pack("<HHI", 1, 0, 0) + bytes(30))


@pytest.mark.parametrize(
    ("code", "name", "inside", "expected"),
    [
        (17, "fn  ", LIST + paragraph(2, words("각주")), [("paragraph", "식 이다"), ("note", "각주")]),
        (
            11,
            "eqed",
            record(0x58, 2, bytes(4) + struct.pack("<H", 3) + words("x+1") + bytes(20)),
            [("paragraph", "식 x+1이다")],
        ),
        (
            15,
            "zzzz",
            record(0x5D, 1, bytes(22)) + LIST + paragraph(2, words("메모")),
            [("paragraph", "식 이다"), ("note", "메모")],
        ),
        (
            11,
            "gso ",
            record(0x4C, 2, b"tat$" * 2 + bytes(250))
            + record(0x5A, 3, bytes(32) + struct.pack("<H", 2) + words("예술") + bytes(60)),
            [("paragraph", "식 이다"), ("paragraph", "예술")],
        ),
    ],
    ids=["a note", "an equation", "a memo", "word art"],
)
def test_what_is_no_plain_text_is_read(
    code: int, name: str, inside: bytes, expected: list[tuple[str, str]], tmp_path: Path
) -> None:
    """Memos and word art are what the layout engine leaves out."""
    path = written(
        tmp_path, paragraph(0, words("식 ") + anchor(code, name) + words("이다")), control(1, name, bytes(44)) + inside
    )
    page = read(path)
    assert said(page) == expected
    assert page.letters_lost == 0


def test_a_hidden_comment_is_hidden(tmp_path: Path) -> None:
    comment = control(1, "tcmt") + LIST + paragraph(2, words("내부 단가"))
    page = read(written(tmp_path, paragraph(0, words("본문") + anchor(15, "tcmt")), comment))
    assert said(page) == [("paragraph", "본문")]
    assert [(piece.text, piece.reason) for piece in page.hidden] == [("내부 단가", "hidden comment")]


def test_numbers_of_captions_are_those_that_hangul_stored(tmp_path: Path) -> None:
    """It counts pictures without a caption, too."""
    number = control(1, "atno", struct.pack("<IHHHH", 3, 4, 0, 0, 0))
    page = read(written(tmp_path, paragraph(0, words("그림 ") + anchor(18, "atno") + words(" 난수")), number))
    assert said(page) == [("paragraph", "그림 4 난수")]


def test_a_section_that_is_cut_is_damage_and_not_a_shorter_text(tmp_path: Path) -> None:
    with pytest.raises(CorruptDocument, match="section 1 of its text"):
        read(written(tmp_path, paragraph(0, words("본문" * 200)), cut=20))


def test_a_document_that_the_engine_does_not_convert_in_time_keeps_its_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hwp_layout, "WALL_S", 0.0)
    comment = control(1, "tcmt") + LIST + paragraph(2, words("내부 단가"))
    path = written(tmp_path, paragraph(0, words("본문") + anchor(15, "tcmt")), comment)
    reader = open_hwp(path, password=None, options=ReadOptions())
    (page,) = reader.pages()
    assert (said(page), page.letters_lost) == ([("paragraph", "본문")], 0)
    assert reader.header.notes[-1].startswith("without tables and pages: the layout engine crashed or took more")


def test_a_deflate_bomb_is_refused() -> None:
    with pytest.raises(RefusedDocument, match="exhaust the memory"):
        inflate(deflated(bytes(60 << 20)), name="s")


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
    assert hwp_container.decrypt_bitwise_cfb(encrypt_bit_by_bit(plain, key), key) == plain


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
    styles = ListStyles({}, {1: "\uf06c", 2: "▶", 3: "\u00ad"}, {}, {})
    assert marks(styles, *(ListHead("bullet", number, 0) for number in (1, 2, 3))) == ["●", "▶", "-"]
