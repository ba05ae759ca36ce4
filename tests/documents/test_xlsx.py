"""Workbooks: what a person sees on a sheet is what the reader gives, with the names of the cells."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import xlsxwriter

from tasks.documents.blocks import Block, Document
from tasks.documents.document_readers import ReadOptions
from tasks.documents.sheets import xlsx_reader
from tasks.documents.sheets.grid import cell_name
from tasks.documents.sheets.xlsx_reader import open_xlsx
from tests.documents.zips import changed

Write = Callable[[Any, Any], None]


def written(path: Path, *sheets: tuple[str, Write], **options: Any) -> Path:
    """A workbook; each sheet is written by its function, which gets the workbook and the sheet."""
    with xlsxwriter.Workbook(str(path), options) as book:
        for name, write in sheets:
            write(book, book.add_worksheet(name))
    return path


def read(path: Path) -> Document:
    reader = open_xlsx(path, password=None, options=ReadOptions())
    return Document(**reader.header.model_dump(exclude={"page_count"}), pages=tuple(reader.pages()))


def blocks(path: Path) -> list[Block]:
    """All blocks but the headings that name the sheets."""
    return [block for page in read(path).pages for block in page.blocks if block.kind != "heading"]


def rows(*lines: tuple[Any, ...], at: str = "A") -> Write:
    def write(book: Any, sheet: Any) -> None:
        for number, line in enumerate(lines, start=1):
            sheet.write_row(f"{at}{number}", line)

    return write


BUDGET = (("부서", 2023, 2024), ("총무과", 1200, 1350), ("기획과", 868, 450))


def test_a_table_says_its_sheet_and_cells(tmp_path: Path) -> None:
    def write(book: Any, sheet: Any) -> None:
        for number, line in enumerate(BUDGET, start=3):
            sheet.write_row(f"B{number}", line)

    document = read(written(tmp_path / "a.xlsx", ("예산", write)))
    heading, table = document.pages[0].blocks
    assert (document.format, document.page_source, document.pages[0].number) == ("xlsx", "none", None)
    assert (heading.kind, heading.text, table.place.heading_path) == ("heading", "예산", ("예산",))
    assert table.place.cells == "Sheet '예산', B3:D5"
    assert table.text == "부서 | 2023 | 2024\n총무과 | 1200 | 1350\n기획과 | 868 | 450"
    assert [cell.header for cell in table.cells] == [True] * 3 + [False] * 6


def test_numbers_stand_as_their_formats_show_them(tmp_path: Path) -> None:
    def write(book: Any, sheet: Any) -> None:
        sheet.write_row("A1", ("항목", "금액", "증감", "마감", "완료"))
        sheet.write("A2", "도로")
        sheet.write("B2", 1350000, book.add_format({"num_format": '"₩"#,##0'}))
        sheet.write("C2", -0.125, book.add_format({"num_format": "0.0%"}))
        sheet.write_datetime("D2", date(2024, 5, 31), book.add_format({"num_format": "yyyy-mm-dd"}))
        sheet.write("E2", True)

    (table,) = blocks(written(tmp_path / "a.xlsx", ("S", write)))
    assert table.text.splitlines()[1] == "도로 | ₩1,350,000 | -12.5% | 2024-05-31 | TRUE"


def test_what_is_no_number_stands_as_it_is_written(tmp_path: Path) -> None:
    path = written(tmp_path / "a.xlsx", ("S", rows(*BUDGET)))
    changed(path, "xl/worksheets/sheet1.xml", lambda xml: xml.replace(">1350<", ">1e999<").replace(">868<", ">NaN<"))
    (table,) = blocks(path)
    assert table.text == "부서 | 2023 | 2024\n총무과 | 1200 | 1e999\n기획과 | NaN | 450"


def test_a_label_is_set_in_by_its_alignment(tmp_path: Path) -> None:
    def write(book: Any, sheet: Any) -> None:
        rows(*BUDGET)(book, sheet)
        sheet.write("A3", "기획과", book.add_format({"indent": 2}))

    (table,) = blocks(written(tmp_path / "a.xlsx", ("예산", write)))
    assert [cell.indent for cell in table.cells if not cell.col] == [0, 0, 6]


def test_tables_apart_by_empty_rows_and_columns_are_several(tmp_path: Path) -> None:
    def write(book: Any, sheet: Any) -> None:
        rows(("가", "1월"), ("나", 5))(book, sheet)
        rows(("품목", "수량"), ("종이", 7), at="D")(book, sheet)
        sheet.write_row("A5", ("이름", "나이"))
        sheet.write_row("A6", ("김", 40))

    found = blocks(written(tmp_path / "a.xlsx", ("S", write)))
    assert [block.place.cells for block in found] == ["Sheet 'S', A1:B2", "Sheet 'S', D1:E2", "Sheet 'S', A5:B6"]


def test_a_total_below_an_empty_row_belongs_to_its_table(tmp_path: Path) -> None:
    def write(book: Any, sheet: Any) -> None:
        rows(*BUDGET)(book, sheet)
        sheet.write_row("A5", ("합계", 2068, 1800))

    (table,) = blocks(written(tmp_path / "a.xlsx", ("S", write)))
    assert table.place.cells == "Sheet 'S', A1:C5"
    assert table.text.splitlines()[-1] == "합계 | 2068 | 1800"


def test_a_column_of_numbers_behind_an_empty_column_belongs_to_the_labels(tmp_path: Path) -> None:
    def write(book: Any, sheet: Any) -> None:
        rows(("부서", "2023"), ("총무과", 5))(book, sheet)
        rows(("2024",), (6,), at="D")(book, sheet)

    (table,) = blocks(written(tmp_path / "a.xlsx", ("S", write)))
    assert table.text == "부서 | 2023 | 2024\n총무과 | 5 | 6"


def test_a_merged_title_is_the_caption_and_a_source_below_is_text(tmp_path: Path) -> None:
    def write(book: Any, sheet: Any) -> None:
        sheet.merge_range("A1:C1", "부서별 예산 (단위: 천원)")
        for number, line in enumerate(BUDGET, start=2):
            sheet.write_row(f"A{number}", line)
        sheet.write("A5", "※ 자료: 재무팀")

    found = blocks(written(tmp_path / "a.xlsx", ("S", write)))
    assert [(block.kind, block.place.cells) for block in found] == [
        ("caption", "Sheet 'S', A1"),
        ("table", "Sheet 'S', A2:C4"),
        ("paragraph", "Sheet 'S', A5"),
    ]


def test_what_a_sheet_does_not_show_is_kept_as_hidden(tmp_path: Path) -> None:
    def write(book: Any, sheet: Any) -> None:
        rows(("부서", "2023", "2024"), ("총무과", 1200, 1350), ("기획과", 868, 900), ("합계", 2068, 2250))(book, sheet)
        sheet.set_row(1, None, None, {"hidden": True})
        sheet.set_column("B:B", None, None, {"hidden": True})
        sheet.write_comment("B3", "옛 금액")
        sheet.write("D3", "1 USD", book.add_format({"font_color": "white"}))
        sheet.write("D4", 7, book.add_format({"num_format": ";;;"}))
        sheet.write("C1", "2024", book.add_format({"font_color": "white", "bg_color": "navy"}))

    def secret(book: Any, sheet: Any) -> None:
        sheet.write("A1", "숨은 글")
        sheet.hide()

    first, second = read(written(tmp_path / "a.xlsx", ("S", write), ("비밀", secret))).pages
    _, table = first.blocks
    assert (table.text, table.place.cells) == ("부서 | 2024\n기획과 | 900\n합계 | 2250", "Sheet 'S', A1:C4")
    assert [cell_name(table.place.cells, cell.row, cell.col) for cell in table.cells][2:4] == [
        "Sheet 'S', A3",
        "Sheet 'S', C3",
    ]
    assert {(entry.reason, entry.text) for entry in first.hidden} == {
        ("hidden row 2", "총무과 | 1200 | 1350"),
        ("hidden column B", "2023 | 868 | 2068"),
        ("hidden column B", "B3: 옛 금액"),
        ("in the colour of its ground", "1 USD"),
        ("a number format without signs", "7"),
    }
    assert (second.blocks, second.reason) == ((), "Sheet '비밀' is hidden")
    assert [(entry.reason, entry.text) for entry in second.hidden] == [("hidden sheet '비밀'", "숨은 글")]


def test_a_merged_cell_shows_its_text_while_a_part_of_it_is_shown(tmp_path: Path) -> None:
    def write(book: Any, sheet: Any) -> None:
        rows(("구분", "금액"), ("", 5), ("", 6), ("국내", 7))(book, sheet)
        sheet.merge_range("A2:A3", "해외")
        sheet.set_row(1, None, None, {"hidden": True})

    (table,) = [block for block in blocks(written(tmp_path / "a.xlsx", ("S", write))) if block.kind == "table"]
    assert table.text == "구분 | 금액\n해외 | 6\n국내 | 7"


@pytest.mark.parametrize(("hidden", "shown"), [('"x" max="2"', 3), ('"1" max="0"', 3), ('"2" max="16384"', 1)])
def test_thousands_of_hidden_columns_are_one_and_those_that_no_program_writes_none(
    tmp_path: Path, hidden: str, shown: int
) -> None:
    path = written(tmp_path / "a.xlsx", ("S", rows(*BUDGET)))
    column = f'<col min={hidden} hidden="1"/>'
    columns = f"<cols>{column * 20_000}</cols><sheetData>"
    changed(path, "xl/worksheets/sheet1.xml", lambda xml: xml.replace("<sheetData>", columns))
    assert blocks(path)[0].text.splitlines()[0].count("|") == shown - 1


def test_notes_on_cells_stand_behind_the_tables(tmp_path: Path) -> None:
    def write(book: Any, sheet: Any) -> None:
        rows(*BUDGET)(book, sheet)
        sheet.write_comment("C2", "확정 전 금액")
        sheet.insert_textbox("E5", "잠정치")

    path = written(tmp_path / "a.xlsx", ("S", write))
    *_, box, note = blocks(path)
    assert (box.kind, box.text, box.place.cells) == ("paragraph", "잠정치", "Sheet 'S', E5")
    assert (note.kind, note.text, note.place.cells) == ("note", "C2: 확정 전 금액", "Sheet 'S', C2")
    assert read(path).notes == ("Sheet 'S': notes on cells: 1; they stand behind its tables.",)


def test_formulas_show_their_stored_value_and_the_lack_of_one_is_said(tmp_path: Path) -> None:
    def write(book: Any, sheet: Any) -> None:
        rows(*BUDGET)(book, sheet)
        sheet.write("A4", "합계")
        sheet.write_formula("B4", "=SUM(B2:B3)", None, 2068)
        sheet.write_formula("C4", "=SUM(C2:C3)", None, "")

    document = read(written(tmp_path / "a.xlsx", ("S", write)))
    assert document.pages[0].blocks[1].text.splitlines()[-1] == "합계 | 2068"
    assert document.notes[0].startswith("Sheet 'S': formulas without a stored value were left empty: C4;")


def test_a_sheet_of_a_million_rows_is_read_up_to_a_number_of_cells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(xlsx_reader, "MOST_CELLS", 3_000)
    lines = "".join(f'<row r="{n}"><c r="A{n}"><v>{n}</v></c></row>' for n in range(1, 1_048_577, 10))
    path = changed(
        written(tmp_path / "a.xlsx", ("S", rows((1,)))),
        "xl/worksheets/sheet1.xml",
        lambda xml: xml.replace('<row r="1" spans="1:1"><c r="A1"><v>1</v></c></row>', lines),
    )
    document = read(path)
    assert sum(len(block.cells) or 1 for block in document.pages[0].blocks[1:]) == 3_000
    assert document.notes[0].startswith("Sheet 'S': only the rows up to 29,991 were read")


@pytest.mark.parametrize(("most", "has_more"), [(9, False), (8, True)])
def test_a_workbook_that_is_read_whole_does_not_say_that_it_has_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, has_more: bool
) -> None:
    monkeypatch.setattr(xlsx_reader, "MOST_CELLS", most)
    notes = read(written(tmp_path / "a.xlsx", ("S", rows(*BUDGET)), ("Empty", lambda book, sheet: None))).notes
    assert ("more than" in str(notes)) == has_more


def test_macros_and_links_to_other_workbooks_are_said_and_not_followed(tmp_path: Path) -> None:
    path = changed(written(tmp_path / "a.xlsx", ("S", rows(*BUDGET))), "xl/vbaProject.bin", lambda _: "Sub Auto_Open")
    external = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/externalLink"
    changed(
        path,
        "xl/_rels/workbook.xml.rels",
        lambda xml: xml.replace(
            "</Relationships>",
            f'<Relationship Id="x" Type="{external}" Target="http://127.0.0.1:9/x.xlsx" TargetMode="External"/>'
            "</Relationships>",
        ),
    )
    assert read(path).notes == (
        "The workbook holds macros; they were neither read nor run.",
        "Links to other workbooks were not followed: 1.",
    )


def test_the_strict_variant_of_the_standard_is_read(tmp_path: Path) -> None:
    path = written(tmp_path / "a.xlsx", ("S", rows(*BUDGET)))
    strict = ("http://schemas.openxmlformats.org/officeDocument/2006", "http://purl.oclc.org/ooxml/officeDocument")
    main = (
        "http://schemas.openxmlformats.org/spreadsheetml/2006/main",
        "http://purl.oclc.org/ooxml/spreadsheetml/main",
    )
    for part in ("xl/workbook.xml", "xl/worksheets/sheet1.xml", "xl/_rels/workbook.xml.rels", "_rels/.rels"):
        changed(path, part, lambda xml: xml.replace(*strict).replace(*main))
    assert blocks(path)[0].text.startswith("부서 | 2023 | 2024")
