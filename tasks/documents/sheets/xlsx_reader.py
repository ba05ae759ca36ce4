"""Reads Excel workbooks (XLSX, XLSM; both variants of the standard): tables and texts with the names of their cells.

It reads the XML itself. python-calamine is the fastest and gives no number formats, hidden rows or notes: 3.5 % would
be 0.035. openpyxl gives them only with the whole sheet in memory, and never both a formula and its value. Neither shows
a number as its format does. The format of the files is an ISO standard that does not change.
Hidden sheets, rows and columns are read, and notes name them. Formulas show their stored value and are not evaluated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tasks.documents.archives import Package, WithoutDoctype, ZipCaps
from tasks.documents.blocks import Page
from tasks.documents.document_errors import CorruptDocument
from tasks.documents.document_readers import BlockList, Reader, ReadOptions, make_page, make_storable, read_whole
from tasks.documents.office_package import (
    feed_part,
    has_macros,
    local_name,
    read_core_properties,
    read_links,
    refuse_encrypted,
)
from tasks.documents.raised_signs import OFFICE_PLACES, shift_signs
from tasks.documents.sheets.grid import Area, Cells, Value, column_letters, column_number, find_pieces, parse_area
from tasks.documents.sheets.number_formats import BUILT_IN, GENERAL, format_general, format_number, is_date

READER = "trivet xlsx 1"
MOST_CELLS = 200_000
"""Cells of all sheets together that are read; a table of more is for a database."""
CAPS = ZipCaps(member_bytes=2_000_000_000, total_bytes=4_000_000_000)
"""Sheets are streamed, and the reader stops at MOST_CELLS: a full sheet of a million rows may be large."""
MOST_NAMES = 8
"""Rows, columns or cells that a note names."""
_PICTURES = re.compile(r"xl/(?:charts/chart[^/]*\.xml|media/.+)")


def open_xlsx(path: Path, *, password: str | None, options: ReadOptions) -> Reader:  # noqa: ARG001
    """Read a workbook as a whole, with a page for each sheet; pages have no numbers, cells have names."""
    refuse_encrypted(path, password, program="Excel")
    with Package(path, caps=CAPS) as package:
        book = read_workbook(package)
        # what it holds beside cells
        pictures = sum(_PICTURES.fullmatch(name) is not None for name in package.names)
        unread = {
            "The workbook holds macros; they were neither read nor run.": has_macros(package),
            f"Links to other workbooks were not followed: {book.external}.": book.external,
            f"Charts and pictures were not read: {pictures}.": pictures,
        }
        notes = [note for note, count in unread.items() if count]
        blocks, pages, remaining_cells = BlockList(), list[Page](), MOST_CELLS
        for number, part in enumerate(book.sheets):
            sheet = read_sheet(package, part, book, most_cells=remaining_cells)
            remaining_cells -= sum(map(len, sheet.cells.values()))
            comments = cell_notes(package, part)
            notes += _sheet_notes(part, sheet, len(comments))
            before = len(blocks)
            add_sheet(blocks, sheet.cells, sheet=part.name, number=number, hidden=part.hidden, merged=sheet.merged)
            for cell, text in comments:
                blocks.add("note", f"{cell}: {text}", section=number, at=f"{sheet_name(part.name)}, {cell}")
            pages.append(make_page(None, list(blocks)[before:], if_empty="the sheet is empty"))
        metadata = read_core_properties(package)
    title = metadata.get("title")
    return read_whole(pages, format="xlsx", reader=READER, title=title, metadata=metadata, notes=tuple(notes))


def add_sheet(
    blocks: BlockList,
    cells: Cells,
    *,
    sheet: str | None,
    number: int | None = None,
    hidden: bool = False,
    merged: Sequence[Area] = (),
) -> None:
    """Add the name of a sheet as a heading, then its tables and texts."""
    prefix = f"{sheet_name(sheet)}, " if sheet else ""
    parts = find_pieces(cells, merged)
    if sheet and parts:
        blocks.add("heading", f"{sheet} (hidden)" if hidden else sheet, level=1, section=number, at=prefix[:-2])
    for piece in parts:
        blocks.add(piece.kind, piece.text, cells=piece.cells, section=number, at=prefix + piece.area.name)


def sheet_name(name: str) -> str:
    """Return the name of a sheet as citations write it: `Sheet '예산'`."""
    return f"Sheet '{name}'"


def _sheet_notes(part: SheetPart, sheet: Sheet, comments: int) -> Iterator[str]:
    """Yield a sentence on what is hidden on a sheet, and on what was not read of it."""
    name = sheet_name(part.name)
    if part.hidden:
        yield f"{name} is hidden; it was read too."
    if rows := [str(row + 1) for row in sheet.hidden_rows if row in sheet.cells]:
        yield f"{name}: hidden rows were read too: {_list_few(rows)}."
    used = {column for row_cells in sheet.cells.values() for column in row_cells}
    if columns := [column_letters(column) for column in sorted(set(sheet.hidden_columns)) if column in used]:
        yield f"{name}: hidden columns were read too: {_list_few(columns)}."
    if comments:
        yield f"{name}: notes on cells: {comments}; they stand behind its tables."
    if sheet.unsaved:
        yield (
            f"{name}: formulas without a stored value were left empty: {_list_few(sheet.unsaved)}; "
            "open and save the workbook in a spreadsheet program."
        )
    if sheet.is_full:
        rows_read = f"only the rows up to {max(sheet.cells, default=-1) + 1:,} were read"
        yield f"{name}: {rows_read}, as the workbook has more than {MOST_CELLS:,} cells; split it."


def _list_few(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMES:,} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more


MOST_MERGED = 20_000
MOST_ROWS = 1_048_576  # of a sheet, since Excel 2007
MOST_COLUMNS = 16_384
_ESCAPED = re.compile(r"_x([0-9A-Fa-f]{4})_")
_CELL_NAME = re.compile(r"([A-Z]{1,3})(\d{1,7})")


class SheetPart(NamedTuple):
    """A sheet as the workbook lists it, before it is read."""

    name: str
    part: str
    hidden: bool


class Workbook(NamedTuple):
    """Strings, formats and names that the cells of all sheets refer to."""

    sheets: tuple[SheetPart, ...]
    texts: Sequence[str]
    formats: Sequence[str]
    """The number format of each cell style."""
    since_1904: bool
    external: int
    """Number of links to other workbooks, which are not followed."""


def read_workbook(package: Package) -> Workbook:
    """Return the workbook of a package. Raises CorruptDocument if there is none."""
    targets = [link.target for link in read_links(package, "").values() if link.type == "officeDocument"]
    main = next((name for name in (*targets, "xl/workbook.xml") if name in package.names), None)
    if main is None:
        raise CorruptDocument("The package holds no workbook; it may be another Office file, or truncated.")
    related = read_links(package, main)
    root = package.xml(main)
    sheets: list[SheetPart] = []
    for node in (node for node in root.iter() if local_name(node.tag) == "sheet"):
        link = related.get(next((value for name, value in node.attrib.items() if local_name(name) == "id"), ""))
        if link and not link.external and link.type == "worksheet" and link.target in package.names:
            hidden = node.get("state", "visible") != "visible"  # `hidden` or `veryHidden`
            sheets.append(SheetPart(make_storable(node.get("name", "")), link.target, hidden))
    if not sheets:
        raise CorruptDocument("The workbook holds no sheet with cells; save it again in a spreadsheet program.")

    by_type = {link.type: link.target for link in related.values() if link.target in package.names}
    shared = by_type.get("sharedStrings")
    texts: list[str] = []
    for item in package.xml(shared) if shared else ():
        text = ""
        for run in (node for node in item if local_name(node.tag) in ("t", "r")):  # no readings of Han letters (`rPh`)
            parts = {local_name(part.tag): part for part in run.iter()}
            shown = parts["t"].text or "" if "t" in parts else ""
            place = parts["vertAlign"].get("val", "") if "vertAlign" in parts else ""
            text += shift_signs(shown, OFFICE_PLACES.get(place, 0), before=text)
        texts.append(_unescape(text))
    properties = next((node for node in root if local_name(node.tag) == "workbookPr"), None)
    return Workbook(
        sheets=tuple(sheets),
        texts=texts,
        formats=_formats(package, by_type.get("styles")),
        # days of old files from a Macintosh count from 1904
        since_1904=properties is not None and properties.get("date1904") in ("1", "true"),
        external=sum(link.type == "externalLink" for link in related.values()),
    )


def _unescape(text: str) -> str:
    """Return a text with its escapes resolved: `_x000D_` stands for a character that XML cannot hold."""
    plain = _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text)
    return make_storable(plain.replace("\r\n", "\n").replace("\r", "\n"))


def _formats(package: Package, part: str | None) -> Sequence[str]:
    """Return the number format of each cell style, by the style's number."""
    if part is None:
        return ()
    root = package.xml(part)
    custom = {
        node.get("numFmtId", ""): node.get("formatCode", GENERAL)
        for node in root.iter()
        if local_name(node.tag) == "numFmt" and node.get("numFmtId")
    }
    styles = next((node for node in root if local_name(node.tag) == "cellXfs"), None)
    numbers = [node.get("numFmtId", "0") for node in styles or () if local_name(node.tag) == "xf"]
    return [custom.get(number) or BUILT_IN.get(int(number) if number.isdigit() else 0, GENERAL) for number in numbers]


class Sheet(WithoutDoctype):
    """The cells of a sheet up to a limit, with its hidden rows and columns; collected while its XML is streamed."""

    def __init__(self, book: Workbook, most_cells: int) -> None:
        super().__init__()
        self._book, self._most = book, most_cells
        self.cells: dict[int, dict[int, Value]] = {}
        self.merged: list[Area] = []
        self.hidden_rows: list[int] = []
        self.hidden_columns: list[int] = []
        self.unsaved: list[str] = []
        """Names of cells whose formula has no stored value."""
        self.count = 0
        self.row = self._column = -1
        self._type, self._style = "n", ""
        self._value: list[str] = []
        self._formula = self._collects = self._in_phonetics = False

    @property
    def is_full(self) -> bool:
        """Return whether the sheet holds as many cells as are read of it."""
        return self.count >= self._most

    def start(self, tag: str, attrs: dict[str, str]) -> None:  # type: ignore[override]
        """Keep what an element's start tag says, such as the address and style of a cell."""
        hidden = attrs.get("hidden") in ("1", "true")
        match local_name(tag):
            case "c":
                name = _CELL_NAME.fullmatch(attrs.get("r", ""))
                self._column = column_number(name[1]) if name else self._column + 1
                if name:
                    self.row = int(name[2]) - 1
                self._type, self._style, self._value, self._formula = attrs.get("t", "n"), attrs.get("s", ""), [], False
            case "v":
                self._collects = True
            case "t":
                self._collects = not self._in_phonetics  # readings above Han characters (`rPh`) are no text of the cell
            case "f":
                self._formula = True
            case "row":
                number = attrs.get("r", "")
                self.row = int(number) - 1 if number.isdigit() else self.row + 1
                self._column = -1
                self.hidden_rows += [self.row] if hidden else []
            case "rPh":
                self._in_phonetics = True
            case "col" if hidden:
                first, last = int(attrs.get("min", "1")), int(attrs.get("max", "1"))
                self.hidden_columns += range(first - 1, min(last, MOST_COLUMNS))
            case "mergeCell" if len(self.merged) < MOST_MERGED and (area := parse_area(attrs.get("ref", ""))):
                self.merged.append(area)
            case _:
                pass

    def data(self, data: str) -> None:
        """Collect the characters of a value that is being read."""
        if self._collects:
            self._value.append(data)

    def end(self, tag: str) -> None:  # type: ignore[override]
        """Store a cell when its element ends."""
        match local_name(tag):
            case "c":
                raw = "".join(self._value)
                if self._formula and not raw and self._type != "str":  # `str`: a formula that gave the empty text
                    self.unsaved.append(f"{column_letters(self._column)}{self.row + 1}")
                value = self._format_value(raw) if raw else None
                within = self.row < MOST_ROWS and self._column < MOST_COLUMNS
                if value and value.text.strip() and not self.is_full and within:
                    self.cells.setdefault(self.row, {})[self._column] = value
                    self.count += 1
            case "v" | "t":
                self._collects = False
            case "rPh":
                self._in_phonetics = False
            case _:
                pass

    def _format_value(self, raw: str) -> Value:
        """Return a stored value as its cell shows it."""
        match self._type:
            case "s":
                is_listed = raw.isdigit() and int(raw) < len(self._book.texts)
                return Value(self._book.texts[int(raw)] if is_listed else "", "text")
            case "b":
                return Value("TRUE" if raw == "1" else "FALSE", "text")
            case "d":
                return Value(make_storable(raw.replace("T", " ").removesuffix(" 00:00:00")), "date")
            case "n":
                pass
            case _:
                return Value(_unescape(raw), "text")
        try:
            number = float(raw)
        except ValueError:
            return Value(make_storable(raw), "text")
        formats = self._book.formats
        style = int(self._style) if self._style.isdigit() else 0
        code = formats[style] if style < len(formats) else GENERAL
        if code == GENERAL:
            return Value(format_general(number), "number")
        text = format_number(number, code, since_1904=self._book.since_1904)
        return Value(text, "date" if is_date(code) else "number")


def read_sheet(package: Package, part: SheetPart, book: Workbook, *, most_cells: int) -> Sheet:
    """Return the cells of a sheet; of a very large one, its first rows."""
    sheet = Sheet(book, most_cells)
    feed_part(package.pieces(part.part), sheet, name=part.part, is_done=lambda: sheet.is_full)
    return sheet


def cell_notes(package: Package, sheet: SheetPart) -> list[tuple[str, str]]:
    """Return the cell and the text of each note and comment on a sheet."""
    notes: list[tuple[str, str]] = []
    for link in read_links(package, sheet.part).values():
        if link.type == "comments" and not link.external and link.target in package.names:
            for node in package.xml(link.target).iter():
                if local_name(node.tag) == "comment":
                    text = "".join(part.text or "" for part in node.iter() if local_name(part.tag) == "t")
                    notes.append((node.get("ref", ""), _unescape(text).strip()))
    return [(cell, text) for cell, text in notes if text]
