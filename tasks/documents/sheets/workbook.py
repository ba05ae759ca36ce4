"""What the cells of all sheets of an Excel workbook refer to: its sheets, strings and styles."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from typing import NamedTuple

from tasks.documents.archives import Package
from tasks.documents.document_errors import CorruptDocument
from tasks.documents.document_readers import make_storable
from tasks.documents.office_package import local_name, read_links
from tasks.documents.raised_signs import OFFICE_PLACES, shift_signs
from tasks.documents.sheets.number_formats import BUILT_IN, GENERAL

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
    is_white: bool
    """White letters on the white ground of the sheet, unless something else lies there."""


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
        texts.append(unescape(text))
    properties = next((node for node in root if local_name(node.tag) == "workbookPr"), None)
    return Workbook(
        sheets=tuple(sheets),
        texts=texts,
        styles=_read_styles(package, by_type.get("styles")),
        # days of old files from a Macintosh count from 1904
        since_1904=properties is not None and properties.get("date1904") in ("1", "true"),
        external=sum(link.type == "externalLink" for link in related.values()),
    )


def unescape(text: str) -> str:
    """Return a text with its escapes resolved: `_x000D_` stands for a character that XML cannot hold."""
    plain = _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text)
    return make_storable(plain.replace("\r\n", "\n").replace("\r", "\n"))


def _read_styles(package: Package, part: str | None) -> Sequence[Style]:
    """Return the look of each cell style, by the style's number."""
    if part is None:
        return ()
    root = package.xml(part)
    custom = {
        node.get("numFmtId", ""): node.get("formatCode", GENERAL)
        for node in root.iter()
        if local_name(node.tag) == "numFmt" and node.get("numFmtId")
    }

    def find_white(table: str, color: str) -> set[str]:
        """Return the numbers of the fonts or fills of this colour that are white."""
        nodes = next((node for node in root if local_name(node.tag) == table), ())
        colors = ([part for part in node.iter() if local_name(part.tag) == color] for node in nodes)
        return {str(number) for number, found in enumerate(colors) if found and all(map(_is_white, found))}

    fonts, fills = find_white("fonts", "color"), find_white("fills", "fgColor")
    patterns = (node for node in root.iter() if local_name(node.tag) == "fill")
    fills |= {
        str(n) for n, fill in enumerate(patterns) if [part.get("patternType", "none") for part in fill] == ["none"]
    }
    styles = next((node for node in root if local_name(node.tag) == "cellXfs"), None)
    looks: list[Style] = []
    for node in (node for node in styles or () if local_name(node.tag) == "xf"):
        number = node.get("numFmtId", "0")
        format = custom.get(number) or BUILT_IN.get(int(number) if number.isdigit() else 0, GENERAL)
        looks.append(Style(format, node.get("fontId", "0") in fonts and node.get("fillId", "0") in fills))
    return looks


def _is_white(color: ET.Element) -> bool:
    tint = color.get("tint", "0") in ("0", "0.0")
    # the theme's first colour is its paper; 1 and 9 are white in the palette of old files
    return (
        color.get("rgb", "")[-6:].upper() == "FFFFFF"
        or (color.get("theme") == "0" and tint)
        or color.get("indexed") in ("1", "9")
    )
