"""Converts section streams of HWP 5 to paragraphs.

The text of a paragraph is UTF-16 in which the codes below 32 are controls of one or eight units. Objects are not in
the text: the n-th eight-unit control of an object stands for the paragraph's n-th CTRL_HEADER.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from sys import byteorder

from tasks.documents.hwp import hwp_model as hwp
from tasks.documents.hwp.hwp_streams import Record, Tag

_LINE_BYTES = 36
_PAGE_BREAK = 4
_HEAD_BYTES = 12  # attributes, width, distance and character shape before each number pattern
_SHAPE_BITS = 46  # behind fonts, widths, spacing, sizes and offsets of seven scripts, and the size
_KINDS: dict[int, hwp.ListKind] = {1: "outline", 2: "number", 3: "bullet"}


def read_docinfo(records: list[Record]) -> hwp.ListStyles:
    """Return the lists of a document; ids of lists count from 1, those of paragraph shapes from 0."""
    flat = [record for top in records for record in (top, *top.children)]
    numberings = [_read_levels(record) for record in flat if record.tag == Tag.NUMBERING]
    signs = [record.u16(_HEAD_BYTES) for record in flat if record.tag == Tag.BULLET]
    # a bullet without a sign is a picture
    bullets = [chr(sign) if sign and not 0xD800 <= sign < 0xE000 and sign != 0xFFFF else "" for sign in signs]
    heads: dict[str, hwp.ListHead] = {}
    for shape_id, record in enumerate(record for record in flat if record.tag == Tag.PARA_SHAPE):
        attributes = record.u32(0)
        if kind := _KINDS.get(attributes >> 23 & 3):
            # three bits hold levels 0–6; files since 5.0.2.5 repeat the level at the end, up to 9
            level = min(record.u32(54), hwp.MAX_LEVEL) if len(record.data) >= 58 else attributes >> 25 & 7
            heads[str(shape_id)] = hwp.ListHead(kind, record.u16(30), level)
    shapes = [record for record in flat if record.tag == Tag.CHAR_SHAPE]
    places = {
        str(shape_id): 1 if record.u32(_SHAPE_BITS) >> 15 & 1 else -1
        for shape_id, record in enumerate(shapes)
        if len(record.data) >= _SHAPE_BITS + 4 and record.u32(_SHAPE_BITS) >> 15 & 3
    }
    return hwp.ListStyles(dict(enumerate(numberings, 1)), dict(enumerate(bullets, 1)), heads, places)


def _read_levels(record: Record) -> tuple[hwp.NumberingLevel, ...]:
    """Return the levels of a list: seven, and three more since 5.1.0.0; their start numbers are kept since 5.0.2.5."""
    heads, offset = _read_patterns(record, 0, count=7)
    offset += 2  # whether the list goes on from the one before
    starts, offset = _read_starts(record, offset, count=7)
    if offset < len(record.data):
        more, offset = _read_patterns(record, offset, count=3)
        heads += more
        starts += _read_starts(record, offset, count=3)[0]
    rules = zip(heads, starts, strict=True)
    return tuple(hwp.NumberingLevel(pattern, style, start) for (pattern, style), start in rules)


def _read_patterns(record: Record, offset: int, *, count: int) -> tuple[list[tuple[str, str]], int]:
    """Return the pattern and number style of `count` levels, and the offset behind them."""
    patterns: list[tuple[str, str]] = []
    for _ in range(count):
        patterns.append((record.text(offset + _HEAD_BYTES), hwp.number_style(record.u32(offset) >> 5 & 0x1F)))
        offset += _HEAD_BYTES + 2 + 2 * record.u16(offset + _HEAD_BYTES)
    return patterns, offset


def _read_starts(record: Record, offset: int, *, count: int) -> tuple[list[int], int]:
    """Return the first numbers of `count` levels, 1 where the file has none, and the offset behind them."""
    if offset + 4 * count > len(record.data):
        return [1] * count, offset
    return [record.u32(offset + 4 * index) for index in range(count)], offset + 4 * count


_ONE_UNIT = {0: "", 10: "\n", 13: "", 24: "-", 30: "\u00a0", 31: " "}
"""Text of the controls of one unit; 25–29 are reserved."""
_TAB = 9
_OBJECT_CODES = frozenset({1, 2, 3, 11, 12, 14, 15, 16, 17, 18, 21, 22, 23})
"""Eight-unit controls with a CTRL_HEADER; the others (4–9, 19, 20) have none."""
_ASIDES: dict[str, hwp.AsideKind] = {"head": "header", "foot": "footer", "tcmt": "hidden comment"}
"""Footnotes, endnotes, comments and unknown controls are notes."""
_PAGE_NUMBERS = frozenset({0, 6})  # kinds of automatic numbers: the page number and the page count
_USER_SIGN = 0x81
_PICTURES = frozenset({Tag.PICTURE, Tag.OLE, Tag.CHART, Tag.VIDEO})


def read_section(records: list[Record], styles: hwp.ListStyles) -> hwp.Section:
    """Return the paragraphs of a section; text outside of them (memos) becomes notes."""
    properties = next((node for node in _walk(records) if _control_id(node) == "secd"), None)
    outline_id = properties.u16(18) if properties and len(properties.data) >= 20 else 0
    columns = [node.u16(4) >> 2 & 0xFF for node in _walk(records) if _control_id(node) == "cold"]
    lines = [_lines(node) for node in records if node.tag == Tag.PARA_HEADER]
    least_pages = hwp.count_pages(lines, columns=max(columns, default=1)) if properties else 0
    return hwp.Section(tuple(_paragraphs(records, styles)), outline_id, least_pages)


def _lines(node: Record) -> tuple[bool, list[int]]:
    """Return whether a paragraph begins a page, and how far each of its lines stands below the top of the page."""
    segments = b"".join(child.data for child in node.children if child.tag == Tag.PARA_LINE_SEG)
    whole = segments[: len(segments) // _LINE_BYTES * _LINE_BYTES]
    breaks = node.data[11] if len(node.data) > 11 else 0
    return bool(breaks & _PAGE_BREAK), [top for _, top in struct.iter_unpack("<Ii28x", whole)]


def _paragraphs(nodes: Iterable[Record], styles: hwp.ListStyles) -> Iterator[hwp.Paragraph]:
    for node in nodes:
        if node.tag == Tag.PARA_HEADER:
            yield _paragraph(node, styles)
        elif stray := _all_paragraphs([node], styles):
            yield hwp.Paragraph((hwp.AnchoredText("note", stray),), None)


def _paragraph(node: Record, styles: hwp.ListStyles) -> hwp.Paragraph:
    controls = iter([child for child in node.children if child.tag == Tag.CTRL_HEADER])
    runs: list[hwp.Run] = []
    # where the shape of the characters changes, and to which
    changes = [
        (child.u32(at), styles.places.get(str(child.u32(at + 4)), 0))
        for child in node.children
        if child.tag == Tag.PARA_CHAR_SHAPE
        for at in range(0, len(child.data) - 7, 8)
    ]
    for child in node.children:
        if child.tag == Tag.PARA_TEXT:
            for text, place in _text_runs(child.data, changes):
                if text is not None:
                    runs.append(hwp.shift_run(text, place, runs))
                elif control := next(controls, None):
                    runs += _control(control, styles)
    for control in controls:  # no place in the text: damaged, but not lost
        runs += _control(control, styles)
    further_nodes = [child for child in node.children if child.tag not in (Tag.PARA_TEXT, Tag.CTRL_HEADER)]
    runs += hwp.anchor_text("note", _all_paragraphs(further_nodes, styles))
    return hwp.Paragraph(tuple(runs), styles.heads.get(str(node.u16(8))))


def _text_runs(data: bytes, changes: Sequence[tuple[int, int]]) -> Iterator[tuple[str | None, int]]:
    """Yield the text between controls with its place, and None at the place of each object.

    changes: unit from which on the text is raised (1), lowered (-1) or on its line (0).
    """
    data = data[: len(data) // 2 * 2]
    units = array("H", data)
    if byteorder == "big":
        units.byteswap()
    starts = [start for start, _ in changes] if any(place for _, place in changes) else []

    def cut(start: int, end: int) -> Iterator[tuple[str, int]]:
        while start < end:
            number = bisect_right(starts, start)
            until = min(starts[number], end) if number < len(starts) else end
            place = changes[number - 1][1] if number else 0
            yield data[2 * start : 2 * until].decode("utf-16-le", "replace"), place
            start = until

    start = index = 0
    while index < len(units):
        code = units[index]
        if code >= 32:
            index += 1
            continue
        yield from cut(start, index)
        if code in _ONE_UNIT or 25 <= code <= 29:
            yield _ONE_UNIT.get(code, ""), 0
            index += 1
        else:
            if code == _TAB:
                yield "\t", 0
            elif code in _OBJECT_CODES:
                yield None, 0
            index += 8
        start = index
    yield from cut(start, len(units))


def _control(node: Record, styles: hwp.ListStyles) -> list[hwp.Run]:
    match _control_id(node):
        case "tbl ":
            return [_table(node, styles)]
        case "gso ":
            return _drawing(node, styles)
        case "eqed":
            return [child.text(4) for child in node.children if child.tag == Tag.EQUATION]
        case "atno":  # as Hangul stored it; page numbers say nothing, for they differ on every page
            attributes, number = node.u32(4), node.u16(8)
            if attributes & 0xF in _PAGE_NUMBERS or not number:
                return [hwp.Generated("")]
            # each is one UTF-16 unit, or missing
            user, prefix, suffix = (node.data[at : at + 2].decode("utf-16-le", "replace") for at in (10, 12, 14))
            style = attributes >> 4 & 0xFF
            sign = user if style == _USER_SIGN else hwp.format_number(number, hwp.number_style(style))
            return [hwp.Generated((prefix + sign + suffix).replace("\0", ""))]
        case "tcps":  # characters printed over each other
            return [node.text(4)]
        case "tdut":  # a word with its reading above
            word, reading = node.text(4), node.text(6 + 2 * node.u16(4))
            return [f"{word}({reading})" if reading else word]
        case "form":
            return [_form_text(child) for child in node.children if child.tag == Tag.FORM_OBJECT]
        case "secd":  # what stands in it are master pages
            return hwp.anchor_text("header", _all_paragraphs(node.children, styles))
        case other:
            return hwp.anchor_text(_ASIDES.get(other, "note"), _all_paragraphs(node.children, styles))


def _form_text(node: Record) -> str:
    """Return the visible text of a form object.

    Its record is a list of `Name:type:value` with the length before each string.
    """
    data = node.data[: len(node.data) // 2 * 2].decode("utf-16-le", "replace")
    for key in ("Caption:wstring:", "Text:wstring:"):
        _, separator, rest = data.partition(key)
        size, _, value = rest.partition(":")
        text = value[: int(size[:6])].strip("\0 ") if separator and size.isdecimal() else ""
        if text:
            return text
    return ""


def _table(node: Record, styles: hwp.ListStyles) -> hwp.Table:
    """Return a table: its cells are the lists behind the TABLE record, and a list before it is the caption."""
    body = next((at for at, child in enumerate(node.children) if child.tag == Tag.TABLE), len(node.children))
    cells = tuple(
        hwp.TableCell(
            row=head.u16(10),
            col=head.u16(8),
            row_span=max(1, head.u16(14)),
            col_span=max(1, head.u16(12)),
            header=bool(head.u32(4) >> 18 & 1),
            paragraphs=tuple(_paragraphs(content, styles)),
        )
        for head, content in _lists(node.children[body + 1 :])
    )
    return hwp.Table(cells, _caption(node.children[:body], styles), _in_line(node))


def _drawing(node: Record, styles: hwp.ListStyles) -> list[hwp.Run]:
    body = next((at for at, child in enumerate(node.children) if child.tag == Tag.SHAPE_COMPONENT), 0)
    inside = list(_walk(node.children[body:]))
    # word art: four corner points, then the words
    art = [hwp.Paragraph((child.text(32),), None) for child in inside if child.tag == Tag.TEXT_ART]
    return hwp.make_shape(
        (*art, *_all_paragraphs(node.children[body:], styles)),
        picture=any(child.tag in _PICTURES for child in inside),
        description=node.text(44) if len(node.data) >= 46 else "",
        caption=_caption(node.children[:body], styles),
        in_line=_in_line(node),
    )


def _caption(nodes: list[Record], styles: hwp.ListStyles) -> hwp.Caption | None:
    for head, content in _lists(nodes):
        side = head.u32(8) & 3  # left, right, top, bottom
        return hwp.Caption(tuple(_paragraphs(content, styles)), before=side in (0, 2))
    return None


def _in_line(node: Record) -> bool:
    return bool(node.u32(4) & 1)


def _lists(nodes: list[Record]) -> Iterator[tuple[Record, list[Record]]]:
    """Yield each LIST_HEADER with the paragraphs that follow it."""
    for at, node in enumerate(nodes):
        if node.tag == Tag.LIST_HEADER:
            following = takewhile(lambda other: other.tag != Tag.LIST_HEADER, nodes[at + 1 :])
            yield node, [*node.children, *following]


def _all_paragraphs(nodes: Iterable[Record], styles: hwp.ListStyles) -> tuple[hwp.Paragraph, ...]:
    """Return the outermost paragraphs at and below the nodes."""
    paragraphs: list[hwp.Paragraph] = []
    for node in nodes:
        is_paragraph = node.tag == Tag.PARA_HEADER
        paragraphs += [_paragraph(node, styles)] if is_paragraph else _all_paragraphs(node.children, styles)
    return tuple(paragraphs)


def _walk(nodes: Iterable[Record]) -> Iterator[Record]:
    """Yield the nodes and their descendants, except those in the lists of further objects."""
    for node in nodes:
        yield node
        if node.tag != Tag.LIST_HEADER:
            yield from _walk(node.children)


def _control_id(node: Record) -> str:
    """Return the four letters of a control, which are stored back to front."""
    return node.data[3::-1].decode("latin-1") if node.tag == Tag.CTRL_HEADER else ""
