"""Converts OWPML, the XML inside HWPX, to the paragraphs and list styles of a `HangulDocument`.

Elements are matched by local name, as the namespaces changed between 2011 and 2024. Of variants (`switch`) the first
`case` is read, as Hangul does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tasks.documents.document_errors import RefusedDocument
from tasks.documents.hwp import hwp_model as hwp
from tasks.documents.marks import shift_signs

Element = Any
"""An lxml element; lxml carries no types."""

_SPECIAL = {"tab": "\t", "lineBreak": "\n", "nbSpace": "\u00a0", "fwSpace": " ", "hyphen": "-"}
_ASIDES: dict[str, hwp.AsideKind] = {"header": "header", "footer": "footer", "hiddenComment": "hidden comment"}
"""Footnotes, endnotes, comments and unknown elements are notes."""
_PICTURES = frozenset({"pic", "ole", "chart", "video"})
_DRAWN_SHAPES = frozenset({"rect", "ellipse", "line", "arc", "polygon", "curve", "connectLine", "container", "textart"})
_SHAPES = _PICTURES | _DRAWN_SHAPES | {"unknownObject"}
_FORMS = frozenset({"btn", "radioBtn", "checkBtn", "comboBox", "listBox", "edit", "scrollBar"})
_BOXES = {"CHECKED": "☒ ", "UNCHECKED": "☐ "}
_PLACES = {"supscript": 1, "subscript": -1}
_MAX_SPAN = 1024
_KINDS: dict[str, hwp.ListKind] = {"OUTLINE": "outline", "NUMBER": "number", "BULLET": "bullet"}


def read_head(root: Element) -> hwp.ListStyles:
    """Return the lists that header.xml defines, the paragraph shapes of each, and which character shapes are raised."""
    heads: dict[str, hwp.ListHead] = {}
    numberings: dict[int, tuple[hwp.NumberingLevel, ...]] = {}
    bullets: dict[int, str] = {}
    places: dict[str, int] = {}
    for element in root.iter():
        match local_name(element):
            case "paraPr":
                heading = _find(element, "heading")
                if heading is not None and (kind := _KINDS.get(heading.get("type", ""))):
                    head = hwp.ListHead(kind, _number(heading, "idRef"), min(_number(heading, "level"), hwp.MAX_LEVEL))
                    heads[element.get("id", "")] = head
            case "numbering":
                levels = [child for child in element if local_name(child) == "paraHead"]
                levels.sort(key=lambda level: _number(level, "level"))
                rules: list[hwp.NumberingLevel] = []
                for level in levels:
                    start = _number(level, "start", missing=1)
                    # of more than seven levels, the engine copies the last
                    pattern = "" if len(rules) > 6 and _text(level) == rules[6].pattern else _text(level)
                    rules.append(hwp.NumberingLevel(pattern, level.get("numFormat", "DIGIT"), start))
                numberings[_number(element, "id")] = tuple(rules)
            case "charPr":
                shifts = [_PLACES[name] for child in element if (name := local_name(child)) in _PLACES]
                places |= {element.get("id", ""): shift for shift in shifts}
            case "bullet":
                # a bullet that is an image has no character of its own
                bullets[_number(element, "id")] = "" if _number(element, "useImage") else element.get("char", "")
            case _:
                pass
    return hwp.ListStyles(numberings, bullets, heads, places)


def read_section(root: Element, styles: hwp.ListStyles, master_page: Callable[[str], Element | None]) -> hwp.Section:
    """Return a section. `master_page` gives the root of the master page of an id, or None. Raises RefusedDocument."""
    reader = _SectionReader(styles, master_page)
    paragraphs = tuple(reader.paragraphs(root))
    least_pages = hwp.count_pages(map(read_lines, root), columns=reader.columns) if reader.defines_page else 0
    return hwp.Section(paragraphs, reader.outline_id, least_pages)


def read_lines(paragraph: Element) -> tuple[bool, list[int]]:
    """Return whether a page begins with a paragraph, and how far each stored line of it is below the page's top."""
    segments = [line for child in paragraph if local_name(child) == "linesegarray" for line in child]
    return paragraph.get("pageBreak") == "1", [_number(line, "vertpos") for line in segments]


class _SectionReader:
    """Reads one section; keeps the id of its outline numbering and the nesting depth."""

    def __init__(self, styles: hwp.ListStyles, master_page: Callable[[str], Element | None]) -> None:
        self.outline_id = 0
        self.columns = 1
        self.defines_page = False
        self._deletes = False
        self._styles = styles
        self._master_page = master_page
        self._depth = 0

    def paragraphs(self, parent: Element) -> Iterator[hwp.Paragraph]:
        """Yield the paragraphs of a list; an object outside of them counts as one. Raises RefusedDocument."""
        self._depth += 1
        if self._depth > hwp.MAX_NESTING:
            raise RefusedDocument(
                f"Objects nest deeper than {hwp.MAX_NESTING}; no document that Hangul writes does: "
                "open it in Hangul and save it anew."
            )
        for child in _content(parent):
            if local_name(child) == "p":
                runs: list[hwp.Run] = []
                for part_or_run in _content(child):
                    is_run = local_name(part_or_run) == "run"
                    place = self._styles.places.get(part_or_run.get("charPrIDRef", ""), 0) if is_run else 0
                    for part in _content(part_or_run) if is_run else (part_or_run,):
                        shifted = place and local_name(part) == "t"
                        before = next((run for run in runs[-1:] if isinstance(run, str)), "")
                        runs += [shift_signs(_text(part), place, before=before)] if shifted else self._run(part)
                yield hwp.Paragraph(tuple(runs), self._styles.heads.get(child.get("paraPrIDRef", "")))
            elif stray := self._run(child):
                yield hwp.Paragraph(tuple(stray), None)
        self._depth -= 1

    def _run(self, element: Element) -> list[hwp.Run]:
        """Return the runs of one element, none for what holds no text; a section's page and columns are noted."""
        match local_name(element):
            case "t":
                return self._text_runs(element)
            case "tbl":
                return [self._table(element)]
            case name if name in _SHAPES:
                return self._shape(element)
            case "equation":
                return [_text(script) for script in element if local_name(script) == "script"]
            case "compose":  # characters printed over each other
                return [element.get("composeText", "")]
            case "dutmal":  # a word with its reading above
                word, reading = _child_text(element, "mainText"), _child_text(element, "subText")
                return [f"{word}({reading})" if reading else word]
            case name if name in _FORMS:
                words = element.get("caption") or element.get("selectedValue") or _child_text(element, "text")
                return [("" if name == "btn" else _BOXES.get(element.get("value", ""), "")) + words]
            case "secPr":  # what stands in it are references to master pages
                self.defines_page = self.defines_page or _find(element, "pagePr") is not None
                self.outline_id = self.outline_id or _number(element, "outlineShapeIDRef")
                ids = [child.get("idRef", "") for child in element if local_name(child) == "masterPage"]
                pages = [page for id_ in ids if (page := self._master_page(id_)) is not None]
                return [run for page in pages for run in hwp.anchor_text("header", self._all_paragraphs(page))]
            case "ctrl":
                return [run for part in _content(element) for run in self._run(part)]
            case "colPr":
                self.columns = max(self.columns, _number(element, "colCount"))
                return []
            case "autoNum":
                return [_auto_number(element)]
            case "linesegarray":  # where Hangul broke the lines
                return []
            case name:
                return hwp.anchor_text(_ASIDES.get(name, "note"), self._all_paragraphs(element))

    def _text_runs(self, element: Element) -> list[hwp.Run]:
        """Return the text of an element; what tracked changes delete, over paragraphs even, is set apart."""
        runs: list[hwp.Run] = []
        for child in (None, *element):
            name = "" if child is None else local_name(child)
            if name in ("deleteBegin", "deleteEnd"):
                self._deletes = name == "deleteBegin"
            inside = (
                element.text if child is None else _SPECIAL.get(name, "") + _text(child) + (child.tail or "")
            ) or ""
            inside = inside.replace("\u00ad", "-")  # the engine's spelling of a hyphen
            if self._deletes and inside:
                runs += hwp.anchor_text("deleted in tracked changes", (hwp.Paragraph((inside,), None),))
            elif inside:
                runs.append(inside)
        return runs

    def _all_paragraphs(self, element: Element) -> tuple[hwp.Paragraph, ...]:
        """Return the outermost paragraphs below the element, whatever holds them."""
        children = list(_content(element))
        if any(local_name(child) == "p" for child in children):
            return tuple(self.paragraphs(element))
        return tuple(paragraph for child in children for paragraph in self._all_paragraphs(child))

    def _table(self, element: Element) -> hwp.Table:
        """Return a table; a cell without an address (other programs write none) goes to the first free column."""
        cells: list[hwp.TableCell] = []
        free_from: dict[int, int] = {}  # column → first row that no cell above reaches
        rows = [child for child in _content(element) if local_name(child) == "tr"]
        for row_index, row_element in enumerate(rows):
            for cell in (child for child in _content(row_element) if local_name(child) == "tc"):
                address, span = _find(cell, "cellAddr"), _find(cell, "cellSpan")
                spans = [1 if span is None else _number(span, name, missing=1) for name in ("rowSpan", "colSpan")]
                row_span, col_span = (min(max(1, number), _MAX_SPAN) for number in spans)
                row, col = row_index, 0
                if address is not None:
                    row, col = _number(address, "rowAddr"), _number(address, "colAddr")
                else:
                    while free_from.get(col, 0) > row:
                        col += 1
                    free_from |= {col + right: row + row_span for right in range(col_span)}
                header, inside = cell.get("header") == "1", self._all_paragraphs(cell)
                cells.append(hwp.TableCell(row, col, row_span, col_span, header, inside))
        return hwp.Table(tuple(cells), self._caption(element), _in_line(element))

    def _shape(self, element: Element) -> list[hwp.Run]:
        """Return a drawing object with its author's description; nothing for a line, an arrow or an empty box."""
        text = element.get("text", "")
        paragraphs = (*([hwp.Paragraph((text,), None)] if text else []), *self._shape_paragraphs(element))
        is_picture = any(local_name(part) in _PICTURES for part in _components(element))
        caption, description = self._caption(element), _child_text(element, "shapeComment").strip()
        if not (paragraphs or is_picture or caption):
            return []
        # Hangul describes every object by itself: `그림입니다. 원본 그림의 이름: …`, `사각형입니다.`
        own_words = description.partition("\n")[0].strip().endswith("입니다.")
        return [hwp.Shape(paragraphs, is_picture, "" if own_words else description, caption, _in_line(element))]

    def _shape_paragraphs(self, element: Element) -> Iterator[hwp.Paragraph]:
        """Yield the paragraphs in a shape and in the shapes of a group, captions left out."""
        for child in _content(element):
            if local_name(child) in _SHAPES:
                yield from self._shape_paragraphs(child)
            elif local_name(child) != "caption":
                yield from self._all_paragraphs(child)

    def _caption(self, element: Element) -> hwp.Caption | None:
        caption = _find(element, "caption")
        if caption is None:
            return None
        return hwp.Caption(self._all_paragraphs(caption), before=caption.get("side", "") in ("LEFT", "TOP"))


def local_name(element: Element) -> str:
    """Return the tag of an element without its namespace."""
    return element.tag.rpartition("}")[2]


def _content(element: Element) -> Iterator[Element]:
    """Yield the children, with the variant that is read in place of each `switch`."""
    for child in element:
        if local_name(child) == "switch":
            variant = next((case for case in child if local_name(case) in ("case", "default")), ())
            yield from variant
        else:
            yield child


def _text(element: Element) -> str:
    """Return the text of an element; tabs, breaks and marks are child elements between its words."""
    parts = [element.text or ""]
    for child in element:
        parts += [_SPECIAL.get(local_name(child), ""), _text(child), child.tail or ""]
    return "".join(parts).replace("\u00ad", "-")  # the engine's spelling of a hyphen


def _child_text(element: Element, name: str) -> str:
    """Return the text of the first child of that name; "" where there is none."""
    child = _find(element, name)
    return _text(child) if child is not None else ""


def _auto_number(element: Element) -> hwp.Generated:
    """Return the number as last stored, in its format; "" for 0 and for that of a page, which differs on every page."""
    number = _number(element, "num")
    # as it was last stored; those of pages are wrong on all pages but one
    if element.get("numType", "") in ("PAGE", "TOTAL_PAGE") or not number:
        return hwp.Generated("")
    format_node = _find(element, "autoNumFormat")
    look: dict[str, str] = {} if format_node is None else dict(format_node.attrib)
    style = look.get("type", "DIGIT")
    sign = look.get("userChar", "") if style == "USER_CHAR" else hwp.format_number(number, style)
    return hwp.Generated(look.get("prefixChar", "") + sign + look.get("suffixChar", ""))


def _components(element: Element) -> Iterator[Element]:
    """Yield the shape and, for a group, the shapes in it."""
    yield element
    for child in _content(element):
        if local_name(child) in _SHAPES:
            yield from _components(child)


def _find(element: Element, name: str) -> Element | None:
    """Return the first child of that name, in the order in which variants are chosen; None without one."""
    return next((child for child in _content(element) if local_name(child) == name), None)


def _in_line(element: Element) -> bool:
    position = _find(element, "pos")
    return position is not None and position.get("treatAsChar") == "1"


def _number(element: Element, name: str, *, missing: int = 0) -> int:
    text = element.get(name, "").strip()
    return int(text) if text.isdecimal() and len(text) <= 10 else missing  # ten digits hold any number of 32 bits
