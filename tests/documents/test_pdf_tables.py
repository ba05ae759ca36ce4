"""Tables of PDF pages: ruled, shaded, merged, without lines; and what must not become one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pymupdf as untyped_pymupdf
import pytest

from tasks.documents.blocks import Block
from tasks.documents.document_readers import ReadOptions
from tasks.documents.pdf.pdf_reader import open_pdf

pymupdf: Any = untyped_pymupdf  # its annotations know few of its names

XS, YS = (72, 200, 300, 400), (100, 120, 140, 160)
ROWS = (("품목", "수량", "금액"), ("서버", "12", "3,575"), ("합계", "12", "3,575"))


def blocks_of(page: Any, tmp_path: Path, **options: object) -> tuple[Block, ...]:
    document = page.parent
    document.save(tmp_path / "a.pdf")
    chosen = ReadOptions.model_validate({"ocr": "off", **options})
    return next(iter(open_pdf(tmp_path / "a.pdf", password=None, options=chosen).pages())).blocks


def new_page() -> Any:
    page = pymupdf.open().new_page(width=595, height=842)
    page.insert_text((72, 80), "아래 표는 예산을 보인다.", fontname="korea", fontsize=10)
    return page


def put(page: Any, text: str, x: float, y: float) -> None:
    page.insert_text((x, y), text, fontname="korea", fontsize=10)


def fill(page: Any) -> None:
    for row, texts in enumerate(ROWS):
        for col, text in enumerate(texts):
            put(page, text, XS[col] + 4, YS[row] + 14)


def rule(page: Any) -> None:
    for y in YS:
        page.draw_line((XS[0], y), (XS[-1], y))
    for x in XS:
        page.draw_line((x, YS[0]), (x, YS[-1]))


def tables(blocks: tuple[Block, ...]) -> list[Block]:
    return [block for block in blocks if block.kind == "table"]


@pytest.mark.parametrize("reader", ["auto", "pymupdf", "pdfplumber"])
def test_a_ruled_table_gives_its_cells_and_its_text_once(tmp_path: Path, reader: str) -> None:
    page = new_page()
    fill(page)
    rule(page)
    paragraph, table = blocks_of(page, tmp_path, pdf_reader=reader)
    assert paragraph.text == "아래 표는 예산을 보인다."
    assert [(c.row, c.col, c.text) for c in table.cells] == [
        (row, col, text) for row, texts in enumerate(ROWS) for col, text in enumerate(texts)
    ]
    assert [cell.header for cell in table.cells] == [True] * 3 + [False] * 6
    assert table.text == "품목 | 수량 | 금액\n서버 | 12 | 3,575\n합계 | 12 | 3,575"
    assert table.bbox == pytest.approx((72, 100, 400, 160), abs=1)


def test_tables_can_be_left_out(tmp_path: Path) -> None:
    page = new_page()
    fill(page)
    rule(page)
    assert tables(blocks_of(page, tmp_path, tables=False)) == []


def test_merged_cells_carry_their_spans(tmp_path: Path) -> None:
    page = new_page()
    for y in (100, 140, 160):
        page.draw_line((72, y), (400, y))
    page.draw_line((200, 120), (400, 120))
    for x in (72, 200, 400):
        page.draw_line((x, 100), (x, 160))
    page.draw_line((300, 120), (300, 160))
    for text, x, y in (("구분", 76, 124), ("금액", 204, 114), ("금년", 204, 134), ("내년", 304, 134)):
        put(page, text, x, y)
    for text, x in (("장비", 76), ("100", 204), ("200", 304)):
        put(page, text, x, 154)
    (table,) = tables(blocks_of(page, tmp_path))
    spans = {cell.text: (cell.row, cell.col, cell.row_span, cell.col_span) for cell in table.cells}
    assert spans == {
        "구분": (0, 0, 2, 1),
        "금액": (0, 1, 1, 2),
        "금년": (1, 1, 1, 1),
        "내년": (1, 2, 1, 1),
        "장비": (2, 0, 1, 1),
        "100": (2, 1, 1, 1),
        "200": (2, 2, 1, 1),
    }


def striped(page: Any, count: int, *, top: float) -> list[str]:
    """The lines of a table of which every other row is shaded, drawn from `top` down."""
    rows = [(f"Item {n}", f"{n},100", f"{n},200") for n in range(1, count + 1)]
    for n, texts in enumerate(rows):
        y = top + 14 * n
        if n % 2 == 0:
            for x0, x1 in ((72, 250), (250, 340), (340, 430)):
                page.draw_rect((x0, y, x1, y + 14), color=None, fill=(0.8, 0.9, 1))
        for text, x in zip(texts, (76, 260, 350), strict=True):
            put(page, text, x, y + 10.5)
    for text, x in (("2023", 265), ("2022", 355)):
        put(page, text, x, top - 4)
    return [" | 2023 | 2022", *(" | ".join(row) for row in rows)]


def test_every_other_row_shaded_is_one_table(tmp_path: Path) -> None:
    page = new_page()
    lines = striped(page, 7, top=120)
    (table,) = tables(blocks_of(page, tmp_path))
    assert table.text.splitlines() == lines


def test_the_last_row_without_shade_and_no_title_belong_to_a_striped_table(tmp_path: Path) -> None:
    page = new_page()
    lines = striped(page, 8, top=160)
    title = "Store update"
    put(page, title, (72 + 430 - pymupdf.get_text_length(title, fontname="korea", fontsize=10)) / 2, 142)
    (table,) = tables(blocks_of(page, tmp_path))
    assert table.text.splitlines() == lines


def test_aligned_amounts_are_a_table_without_lines(tmp_path: Path) -> None:
    page = new_page()
    rows = [("Revenue", "46,298", "51,761"), ("Cost of sales", "36,386", "40,121"), ("Gross profit", "9,912", "11,640")]
    for n, texts in enumerate(rows):
        for text, x in zip(texts, (72, 300, 420), strict=True):
            put(page, text, x, 140 + 14 * n)
    (table,) = tables(blocks_of(page, tmp_path))
    assert table.text.splitlines() == [" | ".join(row) for row in rows]


def test_prose_in_two_columns_is_no_table(tmp_path: Path) -> None:
    page = pymupdf.open().new_page(width=595, height=842)
    prose = "The supplier delivers the system within six months of the contract and keeps it running. " * 6
    for box in ((72, 100, 285, 600), (310, 100, 523, 600)):
        page.insert_textbox(pymupdf.Rect(box), prose, fontsize=10)
    assert tables(blocks_of(page, tmp_path)) == []


def test_a_table_on_a_rotated_page_is_read_upright(tmp_path: Path) -> None:
    page = pymupdf.open().new_page(width=595, height=842)
    page.set_rotation(90)
    turn = page.derotation_matrix
    for y in YS:
        page.draw_line(pymupdf.Point(XS[0], y) * turn, pymupdf.Point(XS[-1], y) * turn)
    for x in XS:
        page.draw_line(pymupdf.Point(x, YS[0]) * turn, pymupdf.Point(x, YS[-1]) * turn)
    for row, texts in enumerate(ROWS):
        for col, text in enumerate(texts):
            point = pymupdf.Point(XS[col] + 4, YS[row] + 14) * turn
            page.insert_text(point, text, fontname="korea", fontsize=10, rotate=90)
    (table,) = tables(blocks_of(page, tmp_path))
    assert table.text == "품목 | 수량 | 금액\n서버 | 12 | 3,575\n합계 | 12 | 3,575"
    assert table.bbox == pytest.approx((72, 100, 400, 160), abs=1)


@pytest.mark.shared
@pytest.mark.slow
@pytest.mark.parametrize("name", ["BESTBUY_2023_10K.pdf", "ULTABEAUTY_2023Q4_EARNINGS.pdf"])
def test_tables_are_where_pdfplumber_finds_them_with_the_same_cells(shared: Path, name: str) -> None:
    from tests.benchmarks.bench_pdf import measure

    result = measure(shared / "documents" / "english" / name, peer_pages=None)
    assert result["missed_table_pages"] == []
    assert result["cells_equal_share"] >= 0.95
