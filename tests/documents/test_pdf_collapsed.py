"""Tables that are drawn with fewer lines than they have rows and columns, and drawings that are no tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pymupdf as untyped_pymupdf
import pytest

from tasks.documents.blocks import Block
from tasks.documents.document_readers import ReadOptions
from tasks.documents.pdf.pdf_reader import open_pdf

pymupdf: Any = untyped_pymupdf  # its annotations know few of its names

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

    def blocks(self) -> list[Block]:
        """What is read from it."""
        self._page.parent.save(self._file)
        (page,) = open_pdf(self._file, password=None, options=ReadOptions(ocr="off")).pages()
        return list(page.blocks)

    def tables(self) -> list[Block]:
        """The tables that are read from it."""
        return [block for block in self.blocks() if block.kind == "table"]


@pytest.fixture
def sheet(tmp_path: Path) -> Sheet:
    return Sheet(tmp_path / "a.pdf")


def boxed(sheet: Sheet, rows: int, top: float = 120) -> None:
    """A frame with a line below each row, and none between columns."""
    for n in range(rows + 1):
        sheet.rule(LEFT, top + HIGH * n, RIGHT, top + HIGH * n)
    for x in (LEFT, RIGHT):
        sheet.rule(x, top, x, top + HIGH * rows)


ROWS = (("Total revenue", "17,606", "$ 15,785", "(868)"), ("Cost of sales", "4,209", "-", "3.5 %"))


def test_amounts_in_a_row_of_one_cell_get_columns_of_their_own(sheet: Sheet) -> None:
    boxed(sheet, 4)
    for n, (label, *amounts) in enumerate(ROWS * 2):
        sheet.write(LEFT + 4, 130 + HIGH * n, label)
        sheet.amounts(130 + HIGH * n, *amounts)
    (table,) = sheet.tables()
    assert table.text == "\n".join(" | ".join(row) for row in ROWS * 2)


def test_a_title_over_several_columns_goes_on_spanning_them(sheet: Sheet) -> None:
    boxed(sheet, 3)
    sheet.write(230, 130, "Years ended May 31, in millions")
    for n, (label, *amounts) in enumerate(ROWS, start=1):
        sheet.write(LEFT + 4, 130 + HIGH * n, label)
        sheet.amounts(130 + HIGH * n, *amounts)
    (table,) = sheet.tables()
    assert next(cell for cell in table.cells if "Years" in cell.text).col_span > 1
    assert table.text.endswith("\n".join(" | ".join(row) for row in ROWS))


def test_years_above_a_table_are_its_header(sheet: Sheet) -> None:
    sheet.amounts(116, "2023", "2022", "2021")
    sheet.write(LEFT + 4, 130, "Operating activities:")
    boxed(sheet, 4, top=120 + HIGH)
    for n, (label, *amounts) in enumerate(ROWS * 2, start=1):
        sheet.write(LEFT + 4, 130 + HIGH * n, label)
        sheet.amounts(130 + HIGH * n, *amounts)
    (table,) = sheet.tables()
    first, second, third = table.text.splitlines()[:3]
    assert [text for text in first.split(" | ") if text] == ["2023", "2022", "2021"]
    assert second.startswith("Operating activities:")
    assert third == " | ".join(ROWS[0])
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


@pytest.mark.shared
@pytest.mark.slow
@pytest.mark.parametrize("folder", ["english", "korean", "filings"])
def test_pymupdf_reads_every_page_of_real_documents(shared: Path, folder: str) -> None:
    for file in sorted((shared / "documents" / folder).glob("*.pdf")):
        pages = list(open_pdf(file, password=None, options=ReadOptions(ocr="off")).pages())
        assert [page.number for page in pages if "failed" in (page.reason or "")] == [], file.name


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
        ("Other", "302", "253", "293"),
    )
    for n, (label, *amounts) in enumerate(rows):
        sheet.write(LEFT + 5, 130 + HIGH * n, label)
        sheet.amounts(130 + HIGH * n, *amounts)
    boxed(sheet, 5)
    for x in (180.0, 260.0, 340.0):
        sheet.rule(x, 120, x, 120 + HIGH * 5)
    [table] = sheet.tables()
    assert {cell.row for cell in table.cells if cell.header} == {0, 1}
    [cash] = [cell for cell in table.cells if cell.text == "351"]
    assert cash.bbox is not None
    x0, y0, x1, y1 = cash.bbox
    assert (x1, y0 < 130 + HIGH * 3 < y1, x0 > 230) == (pytest.approx(250, abs=1), True, True)


def test_a_page_of_contents_is_no_table(sheet: Sheet) -> None:
    for n in range(6):
        sheet.write(LEFT, 130 + HIGH * n, f"Chapter {n} {'.' * 60}")
        sheet.amounts(130 + HIGH * n, f"{n}7", ends=(410,))
    assert sheet.tables() == []


def test_an_index_of_exhibits_is_a_list_with_whole_titles(sheet: Sheet) -> None:
    for n, (number, date) in enumerate((("3.1", "4/26/11"), ("3.2", "10/9/18"), ("10.1A*", "1/26/15"))):
        y = 130 + 2 * HIGH * n
        for x, text in ((LEFT, number), (120, "Amended terms of the notes"), (300, "8-K"), (360, date)):
            sheet.write(x, y, text)
        sheet.write(120, y + HIGH - 3, "that are due")
    assert [block.text for block in sheet.blocks() if block.kind == "list"] == [
        "3.1 Amended terms of the notes that are due 8-K 4/26/11",
        "3.2 Amended terms of the notes that are due 8-K 10/9/18",
        "10.1A* Amended terms of the notes 8-K 1/26/15",
    ]


def test_a_note_below_a_table_is_prose(sheet: Sheet) -> None:
    boxed(sheet, 6)
    for n, (label, *amounts) in enumerate(ROWS * 2):
        sheet.write(LEFT + 4, 130 + HIGH * n, label)
        sheet.amounts(130 + HIGH * n, *amounts)
    sheet.write(
        LEFT + 4, 130 + HIGH * 4, "(1) In these years we recorded tax benefits of 68.8 million, 72.4 million and"
    )
    sheet.write(LEFT + 4, 130 + HIGH * 5, "70.7 million.")
    (table,) = sheet.tables()
    assert table.text == "\n".join(" | ".join(row) for row in ROWS * 2)
