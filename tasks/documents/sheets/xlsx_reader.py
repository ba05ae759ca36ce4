"""Reads Excel workbooks (XLSX, XLSM; both variants of the standard): tables and texts with the names of their cells.

It reads the XML itself. python-calamine is the fastest and gives no number formats, hidden rows or notes: 3.5 % would
be 0.035. openpyxl gives them only with the whole sheet in memory, and never both a formula and its value. Neither shows
a number as its format does. The format of the files is an ISO standard that does not change.
Sheets, rows, columns and cells that are not shown are kept as hidden text. Formulas show their stored value and are not
evaluated.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from tasks.documents.archives import Package, WithoutDoctype, ZipCaps, feed_part
from tasks.documents.blocks import HiddenText, Kind, Page
from tasks.documents.document_errors import CorruptDocument
from tasks.documents.document_readers import BlockList, Reader, ReadOptions, make_page, make_storable, read_whole
from tasks.documents.marks import OFFICE_PLACES, shift_signs
from tasks.documents.office_package import (
    find_main_part,
    list_unread,
    local_name,
    read_links,
    read_title,
    refuse_encrypted,
)
from tasks.documents.sheets.grid import (
    Area,
    Lines,
    Piece,
    Value,
    VisibleGrid,
    column_letters,
    column_number,
    find_pieces,
    parse_area,
)
from tasks.documents.sheets.number_formats import BUILT_IN, GENERAL, format_general, format_number, is_date
from tasks.documents.visibility import BLACK, WHITE, Color, explain_unseen, read_color

_COLORS: dict[tuple[str, str | None], Color] = {
    ("theme", "0"): WHITE, ("theme", "1"): BLACK,
    ("indexed", "0"): BLACK, ("indexed", "1"): WHITE, ("indexed", "8"): BLACK, ("indexed", "9"): WHITE,
}  # fmt: skip
"""A theme's first colours are its paper and its ink; the palette of old files."""
_SPACES_OF_INDENT = 3  # ECMA-376, 18.8.1
_PARTS = ("numFmt", "font", "fill")
_ESCAPED = re.compile(r"_x([0-9A-Fa-f]{4})_")


class SheetPart(NamedTuple):
    """A sheet as the workbook lists it, before it is read."""

    name: str
    part: str
    hidden: bool


class Style(NamedTuple):
    """Look of a cell: its number format, why it is not seen if it is not, and its indent."""

    format: str
    """Number format of the cell, such as `#,##0.00`."""
    unseen: str | None = None
    """Why its letters are not seen, unless something else lies behind them."""
    indent: float = 0
    """How far its text is set in, in widths of a space."""


class Workbook(NamedTuple):
    """Strings, formats and names that the cells of all sheets refer to."""

    sheets: tuple[SheetPart, ...]
    texts: Sequence[str]
    styles: Sequence[Style]
    since_1904: bool
    external: int
    """Number of links to other workbooks, which are not followed."""


def read_workbook(package: Package) -> Workbook:
    """Return the workbook of a package. Raises CorruptDocument if there is none."""
    main = find_main_part(package, "xl/workbook.xml", kind="workbook")
    related = read_links(package, main)
    root = package.xml(main)
    sheets: list[SheetPart] = []
    for node in root.iterfind(".//{*}sheet"):
        link = related.get(next((value for name, value in node.attrib.items() if local_name(name) == "id"), ""))
        if link and not link.external and link.type == "worksheet" and link.target in package.names:
            hidden = node.get("state", "visible") != "visible"  # `hidden` or `veryHidden`
            sheets.append(SheetPart(make_storable(node.get("name", "")), link.target, hidden))
    if not sheets:
        raise CorruptDocument("The workbook holds no sheet with cells; save it again in a spreadsheet program.")

    by_type = {link.type: link.target for link in related.values() if link.target in package.names}
    shared = by_type.get("sharedStrings")
    properties = root.find("{*}workbookPr")
    return Workbook(
        sheets=tuple(sheets),
        texts=[read_string(item) for item in (package.xml(shared) if shared else ())],
        styles=_read_styles(package, by_type.get("styles")),
        # days of old files from a Macintosh count from 1904
        since_1904=properties is not None and properties.get("date1904") in ("1", "true"),
        external=sum(link.type == "externalLink" for link in related.values()),
    )


def read_string(item: ET.Element) -> str:
    """Return a text of one or several runs, without readings of Han letters (`rPh`)."""
    text = ""
    for run in (node for node in item if local_name(node.tag) in ("t", "r")):
        place = run.find("{*}rPr/{*}vertAlign")
        run_text = run.text if local_name(run.tag) == "t" else run.findtext("{*}t")
        text += shift_signs(
            run_text or "", 0 if place is None else OFFICE_PLACES.get(place.get("val", ""), 0), before=text
        )
    return unescape(text)


def unescape(text: str) -> str:
    """Return a text with its escapes resolved: `_x000D_` stands for a character that XML cannot hold."""
    plain = _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text)
    return make_storable(plain.replace("\r\n", "\n").replace("\r", "\n"))


def _read_styles(package: Package, part: str | None) -> Sequence[Style]:
    """Return the look of each cell style, at the style's number; empty for a workbook without styles."""
    if part is None:
        return ()
    root = package.xml(part)
    custom = {node.get("numFmtId", "0"): node.get("formatCode", GENERAL) for node in root.iterfind(".//{*}numFmt")}
    fonts = [(_read_color(font.find("{*}color")), font.find("{*}sz")) for font in root.iterfind("{*}fonts/{*}font")]
    grounds = [_read_ground(fill.find("{*}patternFill")) for fill in root.iterfind("{*}fills/{*}fill")]
    looks: list[Style] = []
    for node in root.iterfind("{*}cellXfs/{*}xf"):
        number, font, fill = (int(text) if (text := node.get(f"{name}Id", "0")).isdecimal() else 0 for name in _PARTS)
        ink, size = fonts[font] if font < len(fonts) else (None, None)
        ground = grounds[fill] if fill < len(grounds) else None
        size_pt = None if size is None else float(size.get("val", "11"))
        format = custom.get(str(number)) or BUILT_IN.get(number, GENERAL)
        alignment = node.find("{*}alignment")
        levels = "0" if alignment is None else alignment.get("indent", "0")
        indent = _SPACES_OF_INDENT * min(int(levels), 250) if levels.isdecimal() and len(levels) < 10 else 0
        looks.append(Style(format, explain_unseen(ink=ink, ground=ground, size_pt=size_pt), indent))
    return looks


def _read_ground(pattern: ET.Element | None) -> Color | None:
    """Return the colour of a fill, white for none; None for a pattern of several, and where it is not told."""
    if pattern is None or pattern.get("patternType", "none") == "none":
        return WHITE if pattern is not None else None
    return _read_color(pattern.find("{*}fgColor")) if pattern.get("patternType") == "solid" else None


def _read_color(node: ET.Element | None) -> Color | None:
    """Return a colour given by RGB, theme or index; None for one with a tint and for any other."""
    if node is None or node.get("tint", "0") not in ("0", "0.0"):
        return None
    if rgb := node.get("rgb"):
        return read_color(rgb[-6:])
    return _COLORS.get(("theme", node.get("theme"))) or _COLORS.get(("indexed", node.get("indexed")))


READER = "trivet xlsx 1"
MOST_CELLS = 200_000
"""Cells of all sheets together that are read; a table of more is for a database."""
CAPS = ZipCaps(member_bytes=2_000_000_000, total_bytes=4_000_000_000)
"""Sheets are streamed, and the reader stops at MOST_CELLS: a full sheet of a million rows may be large."""
MOST_NAMES = 8
"""Rows, columns or cells that a note names."""
_PICTURES = re.compile(r"xl/(?:charts/chart[^/]*\.xml|media/.+)")


def open_xlsx(path: Path, *, password: str | None, options: ReadOptions) -> Reader:  # noqa: ARG001
    """Read a workbook, up to MOST_CELLS, with a page without a number for each sheet. Raises DocumentError."""
    refuse_encrypted(path, password, program="Excel")
    with Package(path, caps=CAPS) as package:
        book = read_workbook(package)
        counts = {
            "Links to other workbooks were not followed": book.external,
            "Charts and pictures were not read": len(list(filter(_PICTURES.fullmatch, package.names))),
        }
        notes = list_unread(package, "workbook", counts)
        blocks, pages, remaining_cells = BlockList(), list[Page](), MOST_CELLS
        for number, part in enumerate(book.sheets):
            sheet, before = Sheet(book, remaining_cells), len(blocks)
            feed_part(package.pieces(part.part), sheet, name=part.part, is_done=lambda sheet=sheet: sheet.is_cut)
            remaining_cells -= sheet.count
            pieces, unseen = sheet.divide(part)
            add_pieces(blocks, pieces, sheet=part.name, number=number)
            for kind, cell, text in read_beside(package, part):
                if reason := sheet.explain_hidden(part, cell):
                    unseen.append(HiddenText(text=text, reason=reason))
                else:
                    blocks.add(kind, text, section=number, at=f"{sheet_name(part.name)}, {cell}")
            inside = list(blocks)[before:]
            notes += _sheet_notes(part, sheet, sum(block.kind == "note" for block in inside))
            if_empty = f"{sheet_name(part.name)} is hidden" if part.hidden else "the sheet is empty"
            pages.append(make_page(None, inside, if_empty=if_empty, hidden=unseen))
        title = read_title(package)
    return read_whole(pages, format="xlsx", reader=READER, title=title, notes=tuple(notes))


def add_pieces(blocks: BlockList, pieces: Sequence[Piece], *, sheet: str | None, number: int | None = None) -> None:
    """Add the name of a sheet that has pieces as a heading, then its tables and texts; number: 0-based section."""
    prefix = f"{sheet_name(sheet)}, " if sheet else ""
    if sheet and pieces:
        blocks.add("heading", sheet, level=1, section=number, at=prefix[:-2])
    for piece in pieces:
        blocks.add(piece.kind, piece.text, cells=piece.cells, section=number, at=prefix + piece.area.name)


def sheet_name(name: str) -> str:
    """Return the name of a sheet as citations write it: `Sheet '예산'`."""
    return f"Sheet '{name}'"


def _sheet_notes(part: SheetPart, sheet: Sheet, comments: int) -> Iterator[str]:
    """Yield sentences on the comments of a sheet, and on what was not read of it."""
    name = sheet_name(part.name)
    if comments:
        yield f"{name}: notes on cells: {comments}; they stand behind its tables."
    if sheet.unsaved:
        more = f" and {len(sheet.unsaved) - MOST_NAMES:,} more" if len(sheet.unsaved) > MOST_NAMES else ""
        yield (
            f"{name}: formulas without a stored value were left empty: {', '.join(sheet.unsaved[:MOST_NAMES])}{more}; "
            "open and save the workbook in a spreadsheet program."
        )
    if sheet.is_cut:
        rows_read = f"only the rows up to {sheet.last_row + 1:,} were read"
        yield f"{name}: {rows_read}, as the workbook has more than {MOST_CELLS:,} cells; split it."


MOST_MERGED = 20_000
MOST_ROWS = 1_048_576  # of a sheet, since Excel 2007
MOST_COLUMNS = 16_384
_COLUMNS = re.compile(r"(\d{1,6}) (\d{1,6})")
_CELL_PARTS = {"c", "v", "f", "is", "t", "r", "rPr", "vertAlign"}
_CELL_NAME = re.compile(r"([A-Z]{1,3})(\d{1,7})")


class Sheet(WithoutDoctype):
    """The cells of a sheet up to a limit, with its hidden rows and columns; collected while its XML is streamed."""

    def __init__(self, book: Workbook, most_cells: int) -> None:
        super().__init__()
        self._book, self._most = book, most_cells
        self.cells: dict[int, dict[int, Value]] = {}
        self.merged: list[Area] = []
        self._hidden_rows: set[int] = set()
        self._hidden_columns = bytearray(MOST_COLUMNS)
        self._unseen: dict[tuple[int, int], str] = {}
        """Cells whose letters cannot be told from their ground, with the reason."""
        self._formatted_away: list[str] = []
        self._has_grounds = False
        """Whether a table or a condition may colour cells beside their own styles."""
        self.unsaved: list[str] = []
        """Names of cells whose formula has no stored value."""
        self.count = 0
        self._row = self.last_row = -1
        self.is_cut = False
        """Whether the sheet holds more cells than are read of it."""

    def divide(self, part: SheetPart) -> tuple[list[Piece], list[HiddenText]]:
        """Return the pieces that the sheet shows, and the texts of what it does not show."""
        texts: list[tuple[str, str]] = []
        if part.hidden:
            rows = (" | ".join(value.text for value in row.values()) for row in self.cells.values())
            texts.append(("\n".join(rows), f"hidden sheet '{part.name}'"))
            self.cells = {}
        for (row, column), reason in ({} if self._has_grounds or part.hidden else self._unseen).items():
            texts.append((self.cells[row].pop(column).text, reason))
        texts += ((text, "a number format without signs") for text in self._formatted_away)
        pieces, in_lines = find_pieces(self.cells, self.merged, self.grid)
        texts += ((" | ".join(line), reason) for reason, line in in_lines.items())
        return pieces, [HiddenText(text=text, reason=reason) for text, reason in texts if text]

    def explain_hidden(self, part: SheetPart, cell: str) -> str | None:
        """Return what hides a cell that is given by its name; None if it is shown."""
        area = parse_area(cell)
        return f"hidden sheet '{part.name}'" if part.hidden else area and self.grid.explain_hidden(area.top, area.left)

    @cached_property
    def grid(self) -> VisibleGrid:
        """Rows and columns of the sheet with those that are hidden; complete once all rows are read."""
        hidden_columns = (number for number, is_hidden in enumerate(self._hidden_columns) if is_hidden)
        return VisibleGrid(Lines(self._hidden_rows), Lines(hidden_columns))

    def end(self, tag: str) -> ET.Element:
        """Keep what an element says when it ends, and return it, empty unless it is part of a cell."""
        element = super().end(tag)
        match local_name(tag):
            case name if name in _CELL_PARTS:
                return element  # its row is still to come
            case "row":
                self._read_row(element)
            case "col" if _is_hidden(element, "width"):
                if ends := _COLUMNS.fullmatch(f"{element.get('min')} {element.get('max')}"):
                    first, last = max(int(ends[1]) - 1, 0), min(int(ends[2]), MOST_COLUMNS)
                    self._hidden_columns[first:last] = b"\1" * max(last - first, 0)
            case "tablePart" | "cfRule":
                self._has_grounds = True
            case "mergeCell" if len(self.merged) < MOST_MERGED and (area := parse_area(element.get("ref", ""))):
                self.merged.append(area)
            case _:
                pass
        element.clear()
        return element

    def _read_row(self, row: ET.Element) -> None:
        """Keep the cells of a row that have a value, and note hidden rows and formulas saved without a value."""
        number, column = row.get("r", ""), -1
        self._row = int(number) - 1 if number.isdigit() else self._row + 1
        if _is_hidden(row, "ht") and 0 <= self._row < MOST_ROWS:
            self._hidden_rows.add(self._row)
        for cell in row:
            name = _CELL_NAME.fullmatch(cell.get("r", ""))
            column = column_number(name[1]) if name else column + 1
            self._row = int(name[2]) - 1 if name else self._row
            parts = {local_name(part.tag): part for part in cell}
            raw = parts["v"].text or "" if "v" in parts else read_string(parts["is"]) if "is" in parts else ""
            if "f" in parts and not raw and cell.get("t") != "str":  # `str`: a formula that gave the empty text
                self.unsaved.append(f"{column_letters(column)}{self._row + 1}")
            if raw.strip() and 0 <= self._row < MOST_ROWS and column < MOST_COLUMNS and not self.is_cut:
                self._keep(raw, column, cell)

    def _keep(self, raw: str, column: int, cell: ET.Element) -> None:
        """Keep the value of a cell among those that are seen or those that are not; beyond the limit, note the cut."""
        styles, style_number, kind = self._book.styles, cell.get("s", ""), cell.get("t", "n")
        number = int(style_number) if style_number.isdigit() else 0
        style = styles[number] if number < len(styles) else Style(GENERAL)
        value = self._format_value(raw, kind, style.format)._replace(indent=style.indent)
        if self.count >= self._most:
            self.is_cut = bool(value.text.strip())
            return
        self.count += 1
        if style.format.strip() == ";;;" or not value.text.strip():
            hidden = self._format_value(raw, kind, GENERAL).text
            self._formatted_away += [hidden] if hidden.strip() else []
            return
        self.cells.setdefault(self._row, {})[column] = value
        self.last_row = max(self.last_row, self._row)
        if style.unseen:
            self._unseen[self._row, column] = style.unseen

    def _format_value(self, raw: str, kind: str, format: str) -> Value:
        """Return a stored value of a kind as its format shows it, and whether that is text, a number or a date."""
        if kind == "s":
            is_listed = raw.isdigit() and int(raw) < len(self._book.texts)
            return Value(self._book.texts[int(raw)] if is_listed else "", "text")
        if kind == "b":
            return Value("TRUE" if raw == "1" else "FALSE", "text")
        if kind == "d":
            return Value(make_storable(raw.replace("T", " ").removesuffix(" 00:00:00")), "date")
        try:
            number = float(raw if kind == "n" else "")
            int(number)  # infinity and NaN are no numbers of a sheet
        except (OverflowError, ValueError):
            return Value(unescape(raw), "text")
        if format == GENERAL:
            return Value(format_general(number), "number")
        text = format_number(number, format, since_1904=self._book.since_1904)
        return Value(text, "date" if is_date(format) else "number")


def _is_hidden(line: ET.Element, size: str) -> bool:
    return line.get("hidden") in ("1", "true") or line.get(size) in ("0", "0.0")  # of no height or width


def read_beside(package: Package, sheet: SheetPart) -> Iterator[tuple[Kind, str, str]]:
    """Yield kind, cell and text of the notes on a sheet's cells, and of its text boxes by the cells they begin in."""
    for link in read_links(package, sheet.part).values():
        if link.type not in ("comments", "drawing") or link.external or link.target not in package.names:
            continue
        is_note = link.type == "comments"
        for node in package.xml(link.target).iterfind(".//{*}comment" if is_note else "./*"):
            paragraphs = [node] if is_note else node.iterfind(".//{*}txBody/{*}p")
            texts = ("".join(part.text or "" for part in paragraph.iterfind(".//{*}t")) for paragraph in paragraphs)
            column, row = (int(node.findtext(f"{{*}}from/{{*}}{name}") or "0") for name in ("col", "row"))
            cell = node.get("ref", "") if is_note else f"{column_letters(column)}{row + 1}"
            if text := unescape("\n".join(texts)).strip():
                yield ("note", cell, f"{cell}: {text}") if is_note else ("paragraph", cell, text)
