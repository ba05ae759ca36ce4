"""Reads Excel workbooks (XLSX, XLSM; both variants of the standard): tables and texts with the names of their cells.

It reads the XML itself. python-calamine is the fastest and gives no number formats, hidden rows or notes: 3.5 % would
be 0.035. openpyxl gives them only with the whole sheet in memory, and never both a formula and its value. Neither shows
a number as its format does. The format of the files is an ISO standard that does not change.
Hidden sheets, rows and columns are read and said; formulas show their stored value, and are never worked out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from tasks.documents.archives import Package, ZipCaps
from tasks.documents.blocks import Page, PageStatus
from tasks.documents.document_readers import BlockList, Reader, ReadOptions, read_whole
from tasks.documents.office_package import core_properties, refuse_encrypted
from tasks.documents.sheets.grid import Cells, letters, pieces
from tasks.documents.sheets.xlsx_parts import (
    Sheet,
    SheetPart,
    Workbook,
    cell_notes,
    read_sheet,
    read_workbook,
)

READER = "trivet xlsx 1"
MOST_CELLS = 200_000
"""Cells of all sheets together that are read; a table of more is for a database."""
CAPS = ZipCaps(member_bytes=2_000_000_000, total_bytes=4_000_000_000)
"""Sheets are streamed, and the reader stops at MOST_CELLS: a full sheet of a million rows may be large."""
NAMED = 8
"""Rows, columns or cells that a note names."""
_PICTURES = re.compile(r"xl/(?:charts/chart[^/]*\.xml|media/.+)")


def open_xlsx(path: Path, *, password: str | None, options: ReadOptions) -> Reader:  # noqa: ARG001
    """A workbook, a page for each sheet; sheets have no page numbers, their cells have names."""
    refuse_encrypted(path, password, program="Excel")
    with Package(path, caps=CAPS) as package:
        book = read_workbook(package)
        blocks, notes, pages = BlockList(), _package_notes(package, book), list[Page]()
        left = MOST_CELLS
        for number, part in enumerate(book.sheets):
            sheet = read_sheet(package, part, book, most_cells=left)
            left -= sum(map(len, sheet.cells.values()))
            comments = cell_notes(package, part)
            notes += _sheet_notes(part, sheet, len(comments))
            before = len(blocks)
            add_sheet(blocks, sheet.cells, sheet=part.name, number=number, hidden=part.hidden, of=sheet)
            for cell, text in comments:
                blocks.add("note", f"{cell}: {text}", section=number, at=f"{sheet_name(part.name)}, {cell}")
            pages.append(_page(blocks, before, "the sheet is empty"))
        metadata = core_properties(package)
    title = metadata.get("title")
    return read_whole(pages, format="xlsx", reader=READER, title=title, metadata=metadata, notes=tuple(notes))


def add_sheet(
    blocks: BlockList,
    cells: Cells,
    *,
    sheet: str | None,
    number: int | None = None,
    hidden: bool = False,
    of: Sheet | None = None,
) -> None:
    """Add the name of a sheet as a heading, then its tables and texts."""
    prefix = f"{sheet_name(sheet)}, " if sheet else ""
    found = pieces(cells, of.merged if of else ())
    if sheet and found:
        blocks.add("heading", f"{sheet} (hidden)" if hidden else sheet, level=1, section=number, at=prefix[:-2])
    for piece in found:
        blocks.add(piece.kind, piece.text, cells=piece.cells, section=number, at=prefix + piece.area.name)


def sheet_name(name: str) -> str:
    """`Sheet '예산'`."""
    return f"Sheet '{name}'"


def _page(blocks: BlockList, before: int, if_empty: str) -> Page:
    """A page without a number that holds the blocks from a position on."""
    added = tuple(blocks)[before:]
    if not added:
        return Page(number=None, status=PageStatus.EMPTY, reason=if_empty)
    return Page(number=None, status=PageStatus.OK, blocks=added)


def _package_notes(package: Package, book: Workbook) -> list[str]:
    """What the workbook holds beside cells."""
    pictures = sum(_PICTURES.fullmatch(name) is not None for name in package.names)
    macros = any(name.endswith("vbaProject.bin") for name in package.names)
    notes = {
        "The workbook holds macros; they were neither read nor run.": macros,
        f"Links to other workbooks were not followed: {book.external}.": book.external,
        f"Charts and pictures were not read: {pictures}.": pictures,
    }
    return [note for note, count in notes.items() if count]


def _sheet_notes(part: SheetPart, sheet: Sheet, comments: int) -> Iterator[str]:
    """What is not plainly seen on a sheet, and what was not read of it."""
    name = sheet_name(part.name)
    if part.hidden:
        yield f"{name} is hidden; it was read too."
    if rows := [str(row + 1) for row in sheet.hidden_rows if row in sheet.cells]:
        yield f"{name}: hidden rows were read too: {_few(rows)}."
    used = {column for held in sheet.cells.values() for column in held}
    if columns := [letters(column) for column in sheet.hidden_columns if column in used]:
        yield f"{name}: hidden columns were read too: {_few(columns)}."
    if comments:
        yield f"{name}: notes on cells: {comments}; they stand behind its tables."
    if sheet.unsaved:
        yield (
            f"{name}: formulas without a stored value were left empty: {_few(sheet.unsaved)}; "
            "open and save the workbook in a spreadsheet program."
        )
    if sheet.ended_at is not None:
        yield (
            f"{name}: only the rows up to {sheet.ended_at:,} were read, as the workbook has more than {MOST_CELLS:,} "
            "cells; split it."
        )


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
