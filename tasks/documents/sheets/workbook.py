"""What the cells of all sheets of an Excel workbook refer to: its sheets, strings and styles."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from typing import NamedTuple

from tasks.documents.archives import Package
from tasks.documents.document_errors import CorruptDocument
from tasks.documents.document_readers import make_storable
from tasks.documents.office_package import find_main_part, local_name, read_links
from tasks.documents.raised_signs import OFFICE_PLACES, shift_signs
from tasks.documents.sheets.number_formats import BUILT_IN, GENERAL
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
    """How a cell looks."""

    format: str
    """Its number format."""
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
        shown = run.text if local_name(run.tag) == "t" else run.findtext("{*}t")
        text += shift_signs(
            shown or "", 0 if place is None else OFFICE_PLACES.get(place.get("val", ""), 0), before=text
        )
    return unescape(text)


def unescape(text: str) -> str:
    """Return a text with its escapes resolved: `_x000D_` stands for a character that XML cannot hold."""
    plain = _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text)
    return make_storable(plain.replace("\r\n", "\n").replace("\r", "\n"))


def _read_styles(package: Package, part: str | None) -> Sequence[Style]:
    """Return the look of each cell style, by the style's number."""
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
    """Return the colour of a fill; None for a pattern of several."""
    if pattern is None or pattern.get("patternType", "none") == "none":
        return WHITE if pattern is not None else None
    return _read_color(pattern.find("{*}fgColor")) if pattern.get("patternType") == "solid" else None


def _read_color(node: ET.Element | None) -> Color | None:
    if node is None or node.get("tint", "0") not in ("0", "0.0"):
        return None
    if rgb := node.get("rgb"):
        return read_color(rgb[-6:])
    return _COLORS.get(("theme", node.get("theme"))) or _COLORS.get(("indexed", node.get("indexed")))
