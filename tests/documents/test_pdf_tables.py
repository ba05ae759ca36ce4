"""Tables of PDF pages: ruled, shaded, merged, without lines or with too few of them; and what must not become one."""

from __future__ import annotations

from itertools import pairwise
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
    for box in ((200, 120, 300, 140), (205, 120, 295, 130), (205, 130, 295, 140.4)):  # Word shades a cell, its lines
        page.draw_rect(box, color=None, fill=(0.7, 0.7, 0.7))
    for y in (100, 140, 160):
        page.draw_line((72, y), (400, y))
    page.draw_line((200, 120), (400, 120))
    for x in (72, 200, 400):
        page.draw_line((x, 100), (x, 160))
    page.draw_line((300, 120), (300, 160))
    put(page, "예산", 209, 139)
    for text, x, y in (("구분", 76, 124), ("금액", 204, 114), ("금년", 209, 129), ("내년", 304, 134)):
        put(page, text, x, y)
    for text, x in (("장비", 76), ("100", 204), ("200", 304)):
        put(page, text, x, 154)
    (table,) = tables(blocks_of(page, tmp_path))
    spans = {cell.text: (cell.row, cell.col, cell.row_span, cell.col_span) for cell in table.cells}
    assert spans == {
        "구분": (0, 0, 2, 1),
        "금액": (0, 1, 1, 2),
        "금년\n예산": (1, 1, 1, 1),
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


def test_the_last_row_without_shade_and_no_title_belong_to_a_striped_table(tmp_path: Path) -> None:
    page = new_page()
    lines = striped(page, 8, top=160)
    title = "Store update"
    put(page, title, (72 + 430 - pymupdf.get_text_length(title, fontname="korea", fontsize=10)) / 2, 142)
    (table,) = tables(blocks_of(page, tmp_path))
    assert table.text.splitlines() == lines


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
    from tests.benchmarks.bench_pdf import compare

    result = compare(shared / "documents" / "english" / name, peer_pages=None)
    assert result["missed pages"] == []
    assert result["share of equal cells"] >= 0.95


LEFT, RIGHT, HIGH = 60.0, 420.0, 14.0


class Sheet:
    """A page on which a table is drawn and written by hand."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._page = pymupdf.open().new_page(width=595, height=842)
        self._page.insert_text((LEFT, 60), "What follows was drawn by hand.", fontsize=9)

    def write(self, x: float, y: float, text: str) -> None:
        """Text that begins at x."""
        self._page.insert_text((x, y), text, fontsize=9)

    def amounts(self, y: float, *texts: str, ends: tuple[float, ...] = (250.0, 330.0, 410.0)) -> None:
        """Amounts that end at the given places."""
        for x, text in zip(ends, texts, strict=False):
            self.write(x - pymupdf.get_text_length(text, fontsize=9), y, text)

    def rule(self, x0: float, y0: float, x1: float, y1: float) -> None:
        """A line."""
        self._page.draw_line((x0, y0), (x1, y1))

    def shade(self, x0: float, y0: float, x1: float, y1: float) -> None:
        """A coloured ground."""
        self._page.draw_rect((x0, y0, x1, y1), color=None, fill=(0.8, 0.9, 1))

    def blocks(self) -> list[Block]:
        """What is read from it."""
        self._page.parent.save(self._file)
        (page,) = open_pdf(self._file, password=None, options=ReadOptions(ocr="off")).pages()
        return list(page.blocks)

    def tables(self) -> list[Block]:
        """The tables that are read from it."""
        return tables(tuple(self.blocks()))


@pytest.fixture
def sheet(tmp_path: Path) -> Sheet:
    return Sheet(tmp_path / "a.pdf")


def boxed(sheet: Sheet, rows: int, top: float = 120) -> None:
    """A frame with a line below each row, and none between columns."""
    for n in range(rows + 1):
        sheet.rule(LEFT, top + HIGH * n, RIGHT, top + HIGH * n)
    for x in (LEFT, RIGHT):
        sheet.rule(x, top, x, top + HIGH * rows)


REVENUE = (("Total revenue", "17,606", "$ 15,785", "(868)"), ("Cost of sales", "4,209", "-", "3.5 %"))


def test_amounts_in_a_row_of_one_cell_get_columns_of_their_own(sheet: Sheet) -> None:
    boxed(sheet, 4)
    for n, (label, *amounts) in enumerate(REVENUE * 2):
        sheet.write(LEFT + 4, 130 + HIGH * n, label)
        sheet.amounts(130 + HIGH * n, *amounts)
    (table,) = sheet.tables()
    assert table.text == "\n".join(" | ".join(row) for row in REVENUE * 2)


def test_years_above_a_table_are_its_header(sheet: Sheet) -> None:
    sheet.amounts(116, "2023", "2022", "2021")
    sheet.write(LEFT + 4, 130, "Operating activities:")
    boxed(sheet, 4, top=120 + HIGH)
    for n, (label, *amounts) in enumerate(REVENUE * 2, start=1):
        sheet.write(LEFT + 4, 130 + HIGH * n, label)
        sheet.amounts(130 + HIGH * n, *amounts)
    (table,) = sheet.tables()
    first, second, third = table.text.splitlines()[:3]
    assert [text for text in first.split(" | ") if text] == ["2023", "2022", "2021"]
    assert second.startswith("Operating activities:")
    assert third == " | ".join(REVENUE[0])
    assert {cell.text for cell in table.cells if cell.header} >= {"2023", "2022", "2021"}


@pytest.mark.parametrize("wrapped", [None, "first", "last"])
def test_amounts_that_pile_up_in_a_cell_get_rows_of_their_own(sheet: Sheet, wrapped: str | None) -> None:
    """A label of two lines stands with its amount at the first or at the last of them."""
    ys = [130, 144, 158] if wrapped is None else [130, 158, 186]
    for y in (100, 120, ys[-1] + 20):
        sheet.rule(LEFT, y, RIGHT, y)
    for x in (LEFT, 200, 340, RIGHT):
        sheet.rule(x, 100, x, ys[-1] + 20)
    for x, text in zip((LEFT, 200, 340), ("Fund", "2019", "2020"), strict=True):
        sheet.write(x + 4, 114, text)
    sheet.write(230, 96, "Growth of the funds")  # no name of columns, as those are drawn
    for n, y in enumerate(ys):
        sheet.write(LEFT + 4, y, f"Label {n}")
        beside = y
        if wrapped:
            sheet.write(LEFT + 4, y + 11, "and the rest")
            beside = y if wrapped == "first" else y + 11
        sheet.write(204, beside, f"{n}.1")
        sheet.write(344, beside, f"{n}.2")
    (table,) = sheet.tables()
    rest = " and the rest" if wrapped else ""
    assert table.text == "Fund | 2019 | 2020\n" + "\n".join(f"Label {n}{rest} | {n}.1 | {n}.2" for n in range(3))


def test_currency_signs_and_brackets_stand_with_their_amounts(sheet: Sheet) -> None:
    rows = (
        ("Cash", "$", "1,234", "", "$", "900", ""),
        ("Loss", "", "(56", ")", "", "12", ""),
        ("Net", "", "1,178", "", "", "912", ""),
    )
    for n, texts in enumerate(rows):
        for x, text in zip((LEFT + 5, 200.0, 240.0, 275.0, 300.0, 340.0, 375.0), texts, strict=True):
            sheet.write(x, 130 + HIGH * n, text)
    boxed(sheet, 3)
    for x in (195.0, 235.0, 270.0, 295.0, 335.0, 370.0):
        sheet.rule(x, 120, x, 120 + HIGH * 3)
    [table] = sheet.tables()
    assert [(cell.col, cell.text) for cell in table.cells] == [
        *((0, "Cash"), (1, "$ 1,234"), (2, "$ 900")),
        *((0, "Loss"), (1, "(56 )"), (2, "12")),
        *((0, "Net"), (1, "1,178"), (2, "912")),
    ]


def test_the_row_of_years_is_a_header_and_a_section_is_none(sheet: Sheet) -> None:
    rows = (
        ("", "October 29,", "October 30,", "January 29,"),
        ("($ in millions)", "2022", "2021", "2022*"),
        ("ASSETS", "", "", ""),
        ("Cash", "351", "1,339", "804"),
        (f"Other current assets of ours{'.' * 18}", "302", "253", "293"),  # dots that cross a line are the label's
    )
    for n, (label, *amounts) in enumerate(rows):
        sheet.write(LEFT + 5, 130 + HIGH * n, label)
        sheet.amounts(130 + HIGH * n, *amounts)
    boxed(sheet, 5)
    for x in (180.0, 260.0, 340.0):
        sheet.rule(x, 120, x, 120 + HIGH * 5)
    [table] = sheet.tables()
    assert {cell.row for cell in table.cells if cell.header} == {0, 1}
    [cash, _] = [cell for cell in table.cells if cell.text in ("351", "302")]
    assert cash.bbox is not None
    x0, y0, x1, y1 = cash.bbox
    assert (x1, y0 < 130 + HIGH * 3 < y1, x0 > 230) == (pytest.approx(250, abs=1), True, True)


def test_names_of_columns_in_several_lines_are_one_cell_and_spacers_none(sheet: Sheet) -> None:
    for n, (label, *amounts) in enumerate((("", "October 29,", "October 30,"), ("", "2022", "2021"), *REVENUE * 2)):
        top = 120 + HIGH * n
        if n in (2, 4):  # stripes in pieces, with narrow ones between the columns
            for x0, x1 in pairwise((LEFT, 180.0, 186.0, 260.0, 266.0, 340.0)):
                sheet.shade(x0, top, x1, top + HIGH)
        sheet.write(LEFT + 4, top + 10, label)
        sheet.amounts(top + 10, *amounts[:2], ends=(255.0, 335.0))
    (table,) = sheet.tables()
    names, first = " | October 29, 2022 | October 30, 2021", "Total revenue | 17,606 | $ 15,785"
    assert table.text.splitlines()[:2] == [names, first]


def test_a_title_with_a_line_in_pieces_spans_the_columns_below(sheet: Sheet) -> None:
    sheet.amounts(90, "Years ended", ends=(330.0,))
    for x0, x1 in pairwise((200.0, 258.0, 262.0, 338.0, 342.0, 415.0)):
        sheet.rule(x0, 94, x1, 94)
    sheet.amounts(104, "2023", "2022", "2021")
    for n, (label, *amounts) in enumerate(REVENUE * 2):
        sheet.write(LEFT, 140 + HIGH * n, label)  # far below the names of the columns
        sheet.amounts(140 + HIGH * n, *amounts)
    (table,) = sheet.tables()
    assert table.text.splitlines()[:3] == [" | Years ended", " | 2023 | 2022 | 2021", " | ".join(REVENUE[0])]
    assert {cell.text: cell.col_span for cell in table.cells}["Years ended"] == 3


def test_a_table_of_two_rows_has_the_columns_of_its_amounts(sheet: Sheet) -> None:
    sheet.amounts(106, "First half", "Second half", ends=(271.0, 419.0))
    names, row = ("", "Sales", "Costs", "Sales", "Costs"), ("Total", "12,345", "9,876", "7,654", "321")
    for n, (label, *texts) in enumerate((names, row, row)):
        sheet.write(LEFT, 120 + HIGH * n, label)
        sheet.amounts(120 + HIGH * n, *texts, ends=(240.0, 290.0, 380.0, 430.0))
    (table,) = sheet.tables()
    assert table.text.splitlines()[-1].split(" | ")[1:] == ["12,345", "9,876", "7,654", "321"]
    assert [cell.col_span for cell in table.cells if "half" in cell.text] == [2, 2]


def test_two_tables_side_by_side_are_two(sheet: Sheet) -> None:
    for n, (label, *amounts) in enumerate(REVENUE * 2):
        for left in (LEFT, 330.0):
            sheet.write(left, 130 + HIGH * n, label)
            sheet.amounts(130 + HIGH * n, *amounts[:2], ends=(left + 110, left + 165))
    assert [table.text.count("\n") for table in sheet.tables()] == [3, 3]


def test_a_range_is_one_value(sheet: Sheet) -> None:
    rows = [(f"Group {n}", f"{n}2 - {n}6", f"0.{n}1 (0.0{n})") for n in range(1, 5)]
    for n, texts in enumerate(rows):
        for x, text in zip((LEFT, 160.0, 240.0), texts, strict=True):
            sheet.write(x, 130 + HIGH * n, text)
    (table,) = sheet.tables()
    assert table.text.splitlines() == [" | ".join(row) for row in rows]


def test_a_page_of_contents_is_no_table_and_keeps_its_lines(sheet: Sheet) -> None:
    for n in range(6):
        sheet.write(LEFT, 130 + HIGH * n, f"Report of year {n} {'.' * 60} {n}7")
    assert [(block.kind, block.text.count("\n")) for block in sheet.blocks()[1:]] == [("paragraph", 5)]


def test_an_index_of_exhibits_is_a_list_with_whole_titles(sheet: Sheet) -> None:
    for n, (number, date) in enumerate((("3.1", "4/26/11"), ("3.2", "10/9/18"), ("10.1A*", "1/26/15"))):
        y = 130 + 2 * HIGH * n
        for x, text in ((LEFT, number), (120, "Amended terms of the notes"), (300, "8-K"), (360, date)):
            sheet.write(x, y, text)
        sheet.write(120, y + HIGH - 3, "that are due")
    assert [block.text for block in sheet.blocks() if block.kind == "list"] == [
        "3.1 Amended terms of the notes that are due 8-K 4/26/11",
        "3.2 Amended terms of the notes that are due 8-K 10/9/18",
        "10.1A* Amended terms of the notes that are due 8-K 1/26/15",
    ]


def test_a_note_below_a_table_is_prose(sheet: Sheet) -> None:
    boxed(sheet, 6)
    for n, (label, *amounts) in enumerate(REVENUE * 2):
        sheet.write(LEFT + 4, 130 + HIGH * n, label)
        sheet.amounts(130 + HIGH * n, *amounts)
    sheet.write(LEFT + 4, 130 + HIGH * 4, "(1) In these years we recorded benefits of 68.8 million, 72.4 million and")
    sheet.write(LEFT + 4, 130 + HIGH * 5, "70.7 million.")
    (table,) = sheet.tables()
    assert table.text == "\n".join(" | ".join(row) for row in REVENUE * 2)
