"""What marks, type and direction say of the text of a PDF: items, headings, listings, struck and Hebrew text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
import pymupdf as untyped_pymupdf
import pytest

from tasks.documents.blocks import Block
from tasks.documents.document_readers import ReadOptions
from tasks.documents.pdf.pdf_reader import open_pdf

pymupdf: Any = untyped_pymupdf  # its annotations know few of its names

PROSE = "이 사업은 시민이 쓰는 자료를 한곳에 모아 누구나 찾아볼 수 있게 하는 것을 목적으로 하며."
ENGLISH = "The supplier keeps the system running for two years and mends what breaks within a day of the report."


def new_page() -> Any:
    return pymupdf.open().new_page(width=595, height=842)


def put(page: Any, x: float, y: float, text: str, font: str = "korea", size: float = 10) -> None:
    page.insert_text((x, y), text, fontname=font, fontsize=size)


def read(page: Any, tmp_path: Path) -> tuple[Block, ...]:
    page.parent.save(tmp_path / "a.pdf")
    return next(iter(open_pdf(tmp_path / "a.pdf", password=None, options=ReadOptions(ocr="off")).pages())).blocks


def kinds(blocks: tuple[Block, ...]) -> list[tuple[str, str]]:
    return [(block.kind, block.text) for block in blocks]


def test_marks_that_stand_apart_make_items_of_several_depths(tmp_path: Path) -> None:
    page = new_page()
    inner = [(90, "o", "Begun in the spring"), (90, "o", "Ended in the autumn")]
    rows = [(72, "*", "First of the tasks"), *inner, (72, "1.2.", "Second of the tasks")]
    for row, (x, mark, text) in enumerate(rows):
        put(page, x, 100 + 14 * row, mark, "helv")
        put(page, x + 24, 100 + 14 * row, text, "helv")

    blocks = read(page, tmp_path)

    assert [(block.kind, block.marker, block.level) for block in blocks] == [
        ("list", "*", 1),
        ("list", "o", 2),
        ("list", "o", 2),
        ("list", "1.2.", 1),
    ]


@pytest.mark.parametrize(
    "numbers", [("(1)", "(2)"), ("1)", "2)"), ("가.", "나."), ("1.", "2.")], ids=["(1)", "1)", "가.", "1."]
)
def test_numbered_lines_with_text_below_each_are_headings(tmp_path: Path, numbers: tuple[str, str]) -> None:
    page = new_page()
    for part, (number, title) in enumerate(zip(numbers, ("사업의 배경", "사업의 범위"), strict=True)):
        put(page, 72, 100 + 80 * part, f"{number} {title}")
        page.insert_textbox((72, 110 + 80 * part, 500, 160 + 80 * part), PROSE, fontname="korea", fontsize=10)

    first, below, second, _ = read(page, tmp_path)

    assert [(first.kind, first.text), (second.kind, second.text)] == [
        ("heading", f"{numbers[0]} 사업의 배경"),
        ("heading", f"{numbers[1]} 사업의 범위"),
    ]
    assert below.place.heading_path == (first.text,)


@pytest.mark.parametrize(
    "items",
    [
        ("(1) 사업자 등록증", "(2) 제안서 여덟 부", "(3) 실적 증명서"),
        ("1. 사업명: 자료 포털", "2. 기간: 여섯 달"),
        ("1) 계약한 날부터 30일 안에 제출함", "2) 제출한 것은 돌려주지 않음"),
    ],
    ids=["one after the other", "values", "sentences"],
)
def test_other_numbered_lines_are_items(tmp_path: Path, items: tuple[str, ...]) -> None:
    page = new_page()
    for row, item in enumerate(items):
        put(page, 72, 100 + 14 * row, item)
    page.insert_textbox((72, 200, 500, 260), PROSE, fontname="korea", fontsize=10)

    assert [kind for kind, _ in kinds(read(page, tmp_path))][:-1] == ["list"] * len(items)


@pytest.mark.parametrize("shift", [(0.35, 0.0), (0.4, 0.4)], ids=["double struck", "shadow"])
def test_text_that_is_struck_twice_is_read_once_and_bold(tmp_path: Path, shift: tuple[float, float]) -> None:
    page = new_page()
    x = 72.0
    for word in ("Signed", "on", "behalf"):
        for across, down in ((0.0, 0.0), shift):
            put(page, x + across, 100 + down, word, "helv", 12)
        x += pymupdf.get_text_length(f"{word} ", "helv", 12)
    page.insert_textbox((72, 130, 500, 200), ENGLISH + " that that", fontname="helv", fontsize=12)

    assert kinds(read(page, tmp_path)) == [("heading", "Signed on behalf"), ("paragraph", ENGLISH + " that that")]


def test_the_boxes_of_a_diagram_are_no_tables(tmp_path: Path) -> None:
    page = new_page()
    for x, y, name in ((72, 100, "Account"), (260, 100, "Order"), (430, 100, "Invoice"), (260, 240, "Line")):
        page.draw_rect((x, y, x + 110, y + 20))
        page.draw_rect((x, y + 20, x + 110, y + 60))
        put(page, x + 6, y + 14, name, "helv", 9)
        put(page, x + 6, y + 34, "- id: whole number", "helv", 8)
        put(page, x + 6, y + 48, "- name: text", "helv", 8)
    page.draw_line((182, 130), (260, 130))

    assert "table" not in {block.kind for block in read(page, tmp_path)}


def test_hebrew_keeps_its_order_in_cells_and_paragraphs(tmp_path: Path) -> None:
    """Each word is drawn with its last letter first, as programs that lay out Hebrew do."""
    page = new_page()
    page.insert_font("he", str(HEBREW))
    rows = [("מחברת גדולה מאוד", "שם המוצר החדש"), ("כוס", "קפה שחור חם")]
    for row, cells in enumerate(rows):
        for right, cell in zip((290, 490), cells, strict=True):
            x = right
            for word in cell.split():
                x -= pymupdf.Font(fontfile=str(HEBREW)).text_length(word, 10)
                put(page, x, 114 + 20 * row, word[::-1], "he")
                x -= 4
    for y in (100, 120, 140):
        page.draw_line((100, y), (500, y))
    for x in (100, 300, 500):
        page.draw_line((x, 100), (x, 140))

    (table,) = read(page, tmp_path)

    assert [cell.text for cell in table.cells] == [cell for row in rows for cell in row]


HEBREW = Path(matplotlib.get_data_path(), "fonts", "ttf", "DejaVuSans.ttf")
