"""Both Hangul readers on real documents: the same text from either format, and nothing of it lost."""

from __future__ import annotations

import random
import re
import struct
import unicodedata
import xml.etree.ElementTree as ET
import zipfile
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tasks.documents.blocks import Block
from tasks.documents.document_errors import CorruptDocument, DocumentError, NeedsPassword, UnsupportedDocument
from tasks.documents.document_readers import ReadOptions
from tasks.documents.hwp.hwp_model import Generated, HangulDocument, ListStyles, make_hangul_reader
from tasks.documents.hwp.hwp_reader import open_hwp, open_hwpx, read_hwpx

PAIRS = [
    "aligns", "borderfill", "charshape", "example", "footnote-endnote", "headerfooter", "hyperlink", "lists",
    "lists-bullet", "multicolumns", "outline", "page", "parashape", "selfintroduce", "tabdef", "table",
    "table-caption", "textbox", "underline-styles",
]  # fmt: skip
LONE_HWPX = [
    "30_table_merge_min", "HeaderFooter", "SimplePicture", "SimpleTable", "irb_form_filled",
    "mpm_recruitment_notice", "no_manifest", "seoul_sihaengmun", "test",
]  # fmt: skip
PASSWORD = "12345"


@pytest.fixture(scope="module")
def folder(shared: Path) -> Path:
    return shared / "documents" / "hwp"


def read(path: Path, password: str | None = None) -> list[Block]:
    opener = open_hwp if path.suffix == ".hwp" else open_hwpx
    reader = opener(path, password=password, options=ReadOptions())
    return [block for page in reader.pages() for block in page.blocks]


def said(blocks: list[Block]) -> list[tuple[str, str]]:
    """Kinds and texts, whitespace aside."""
    return [(block.kind, "".join(block.text.split())) for block in blocks]


@pytest.mark.shared
@pytest.mark.parametrize("stem", PAIRS)
def test_both_formats_give_the_same_blocks(stem: str, folder: Path) -> None:
    assert said(read(folder / f"{stem}.hwp")) == said(read(folder / f"{stem}.hwpx"))


@pytest.mark.shared
def test_generated_numbers_are_written(folder: Path) -> None:
    texts = [block.text for block in read(folder / "outline.hwp")]
    assert texts[:6] == ["1. 개요 1", "가. 개요2", "1) 개요3", "가) 개요4", "(1) 개요 5", "(2) 개요 5-2"]


@pytest.mark.shared
def test_notes_come_last_with_their_numbers(folder: Path) -> None:
    texts = [block.text for block in read(folder / "footnote-endnote.hwpx")]
    assert texts[:2] == ["각주참조¹⁾²⁾", "미주참조¹⁾²⁾"]
    assert texts[2:] == ["1) 각주입니다.", "2) 각주 두 번째입니다.", "1) 미주입니다.", "2) 미주 두 번째입니다."]


@pytest.mark.shared
def test_a_distribution_document_is_read(folder: Path) -> None:
    blocks = read(folder / "distribution.hwp")
    table = next(block for block in blocks if block.kind == "table")
    assert table.text.splitlines()[1] == "본문 스트림 | ViewText/Section | BodyText/Section"
    assert [block.text for block in blocks if block.kind == "heading"][:3] == [
        "저작권",
        "본 문서에 대하여...",
        "배포용 문서",
    ]


@pytest.mark.shared
@pytest.mark.parametrize("suffix", ["hwp", "hwpx"])
def test_the_password_opens(suffix: str, folder: Path) -> None:
    assert said(read(folder / f"password-12345.{suffix}", PASSWORD)) == [
        ("paragraph", "암호로보호되는파일"),
        ("figure", ""),
    ]


@pytest.mark.shared
@pytest.mark.parametrize("suffix", ["hwp", "hwpx"])
@pytest.mark.parametrize(
    ("password", "sentence"), [(None, "is encrypted"), ("54321", "does not open"), ("", "does not open")]
)
def test_no_password_and_a_wrong_one_are_told_apart(
    suffix: str, password: str | None, sentence: str, folder: Path
) -> None:
    with pytest.raises(NeedsPassword, match=sentence):
        read(folder / f"password-12345.{suffix}", password)


def letters(texts: list[str]) -> Counter[str]:
    return Counter("".join("".join(unicodedata.normalize("NFC", text).split()) for text in texts))


def without_generated(value: Any) -> Any:
    """The lowered document with every generated number emptied."""
    if isinstance(value, Generated):
        return Generated("")
    if isinstance(value, tuple):
        parts = [without_generated(part) for part in value]  # pyright: ignore[reportUnknownVariableType]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value


def told(document: HangulDocument) -> Counter[str]:
    plain = without_generated(document._replace(styles=ListStyles({}, {}, {}, {})))
    texts: list[str] = []
    [page] = make_hangul_reader(plain, None, format="hwpx", reader="").pages()
    for block in page.blocks:
        texts += [cell.text for cell in block.cells] if block.kind == "table" else [block.text]
    return letters(texts)


def raw_hwpx(path: Path) -> Counter[str]:
    """All text of `hp:t` in the sections."""
    texts: list[str] = []
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if re.fullmatch(r"Contents/section\d+\.xml", name):
                root = ET.fromstring(archive.read(name))
                texts += ["".join(node.itertext()) for node in root.iter() if node.tag.endswith("}t")]
    return letters(texts)


@pytest.mark.shared
@pytest.mark.parametrize("stem", [*PAIRS, "distribution"])
def test_no_letter_of_hwp_is_lost(stem: str, folder: Path) -> None:
    """That none is invented, its HWPX says."""
    *_, last = open_hwp(folder / f"{stem}.hwp", password=None, options=ReadOptions()).pages()
    assert last.letters is not None
    assert last.letters_lost == 0


@pytest.mark.shared
@pytest.mark.parametrize("stem", PAIRS + LONE_HWPX)
def test_no_character_of_hwpx_is_lost_or_invented(stem: str, folder: Path) -> None:
    path = folder / f"{stem}.hwpx"
    assert told(read_hwpx(path)) == raw_hwpx(path)


@pytest.mark.shared
def test_the_summary_names_the_title(folder: Path) -> None:
    header = open_hwp(folder / "distribution.hwp", password=None, options=ReadOptions()).header
    assert header.title == "한글문서파일구조_배포용문서"


def damaged(data: bytes, draw: random.Random) -> bytes:
    """Cut, flipped in up to twenty bits, or blanked in a stretch."""
    copy = bytearray(data)
    match draw.randrange(3):
        case 0:
            del copy[draw.randrange(len(copy)) :]
        case 1:
            for _ in range(draw.randrange(1, 20)):
                copy[draw.randrange(len(copy))] ^= 1 << draw.randrange(8)
        case _:
            start = draw.randrange(len(copy))
            copy[start : start + 300] = bytes(len(copy[start : start + 300]))
    return bytes(copy)


@pytest.mark.shared
@pytest.mark.timeout(30)
@pytest.mark.parametrize("suffix", ["hwp", "hwpx"])
def test_damage_gives_a_typed_error_or_a_document(suffix: str, folder: Path, tmp_path: Path) -> None:
    draw = random.Random(20)
    sources = sorted(folder.glob(f"*.{suffix}"))
    path = tmp_path / f"damaged.{suffix}"
    sentences: list[str] = []
    for _ in range(100):
        path.write_bytes(damaged(draw.choice(sources).read_bytes(), draw))
        try:
            read(path, PASSWORD)
        except DocumentError as error:
            sentences.append(str(error))
    assert len(sentences) > 25
    assert all(sentence.endswith(".") for sentence in sentences)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", CorruptDocument),
        (b"HWP Document File V3.00 \x1a\x01\x02\x03\x04\x05", UnsupportedDocument),
        (b"%PDF-1.7", CorruptDocument),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(100), CorruptDocument),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\xff" * 4000, CorruptDocument),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(22) + b"\x28\0\x06\0" + bytes(4000), CorruptDocument),
    ],
    ids=["no bytes", "hwp 3", "a PDF", "a cut container", "a broken container", "sectors of a terabyte"],
)
def test_what_is_not_hwp_5_is_named(data: bytes, error: type[DocumentError], tmp_path: Path) -> None:
    path = tmp_path / "x.hwp"
    path.write_bytes(data)
    with pytest.raises(error):
        read(path)


def hwp_3_paragraph(text: str | None, *, table: list[list[str]] | None = None) -> bytes:
    """A paragraph with one line; None for the end of a list. Source: Hancom, HWP document format 3.0."""
    shape = struct.pack("<H", 1000) + bytes(7) + bytes([100] * 7) + bytes(15)
    letters = [ord(letter) if letter.isascii() else int.from_bytes(letter.encode("johab")) for letter in text or ""]
    content = b"".join(struct.pack("<H", code) for code in letters)
    if table:
        cells = [(row, col, text) for row, texts in enumerate(table) for col, text in enumerate(texts)]
        info = bytes(42) + struct.pack("<HH32xHHH", 6000, 1200, 0, len(cells), 0)
        places = b"".join(struct.pack("<BBHHHHH15x", r, c, 0, c * 3000, r * 600, 3000, 600) for r, c, _ in cells)
        texts = b"".join(hwp_3_paragraph(text) + hwp_3_paragraph(None) for _, _, text in cells)
        content = struct.pack("<HIH", 10, 0, 10) + info + places + texts + hwp_3_paragraph(None)
        letters = [0] * 4
    count = 0 if text is None else len(letters) + 1
    head = struct.pack("<BHHBBIB", text is None, count, bool(count), 0, 0, 0, 0) + shape
    if not count:
        return head
    return head + struct.pack("<6xH179x4xH8x", 160, 1000) + content + struct.pack("<H", 13)


def hwp_3(*paragraphs: bytes) -> bytes:
    page = struct.pack("<4xBBHHHHHHHH", 0, 0, 21042, 14880, 1800, 1800, 2160, 2160, 900, 900).ljust(124, b"\0")
    fonts = (struct.pack("<H", 1) + b"A".ljust(40, b"\0")) * 7
    body = fonts + struct.pack("<H", 0) + b"".join(paragraphs) + hwp_3_paragraph(None) + bytes(8)
    packed = zlib.compressobj(wbits=-15)
    start = b"HWP Document File V3.00 \x1a\1\2\3\4\5" + page + b"\1\0\0\0" + bytes(1008)
    return start + packed.compress(body) + packed.flush()


def test_text_and_tables_of_hwp_3_are_read_with_their_pages(tmp_path: Path) -> None:
    rows = [["구분", "2024"], ["도로", "1,350"]]
    path = tmp_path / "x.hwp"
    path.write_bytes(hwp_3(hwp_3_paragraph("연도별 예산"), hwp_3_paragraph("", table=rows)))
    blocks = read(path)
    assert [(block.kind, block.text, block.page) for block in blocks] == [
        ("paragraph", "연도별 예산", 1),
        ("table", "구분 | 2024\n도로 | 1,350", 1),
    ]
