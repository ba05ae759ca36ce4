"""Reads HTML: its text as a browser would show it, without scripts, styles and hidden parts. Nothing is fetched."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from tasks.documents.assembly import BlockList, SimpleReader, storable
from tasks.documents.blocks import Cell, Kind
from tasks.documents.document_errors import RefusedDocument
from tasks.documents.read_options import Header, Reader, ReadOptions
from tasks.documents.text.text_reader import Decoded, decode, read_bytes

READER = "trivet html 1"
_DROPPED = {"script", "style", "template", "noscript", "head", "iframe", "object", "svg", "canvas", "datalist"}
_HEADINGS = {"h1", "h2", "h3", "h4", "h5", "h6"}
_INLINE = set(
    "a abbr acronym b bdi bdo big button cite code data del dfn em font i input ins kbd label mark meter nobr output "  # noqa: SIM905
    "progress q rb rp rt ruby s samp select small span strike strong sub sup time tt u var wbr".split()
)
"""What stands within a line; anything else stands on its own."""
_HIDDEN_STYLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_CHARSET = re.compile(rb"charset\s*=\s*[\"']?\s*([A-Za-z0-9_\-]+)", re.IGNORECASE)
_KOREAN = {"euc-kr", "ks_c_5601-1987", "ksc5601", "korean", "windows-949"}  # browsers read all of them as CP949
_MOST_SPANNED = 1000


def open_html(path: Path, *, password: str | None, options: ReadOptions) -> Reader:
    """An HTML file, one page without a number."""
    del password, options  # HTML has neither locks nor choices
    decoded = _decode_html(read_bytes(path))
    root = _tree(decoded.text)
    blocks = BlockList()
    try:
        _Writer(blocks).add(root)
    except RecursionError as error:
        raise RefusedDocument("The HTML nests elements hundreds deep, as no page does.") from error
    title = " ".join("".join(node.itertext()) for node in root.iter("title")).strip()
    pages = blocks.unpaged()
    header = Header(
        format="html",
        reader=READER,
        page_source="none",
        page_count=len(pages),
        title=" ".join(title.split()) or None,
        metadata=_meta(root) | {"encoding": decoded.encoding},
        notes=decoded.notes,
    )
    return SimpleReader(header, pages)


def add_html(blocks: BlockList, source: str) -> None:
    """Add the blocks of an HTML fragment."""
    if source.strip():
        _Writer(blocks).add(_tree(source))


def _decode_html(data: bytes) -> Decoded:
    """By the declared charset if all bytes fit it, else as text of unknown encoding."""
    declared = _CHARSET.search(data[:4096])
    name = declared[1].decode().lower() if declared else ""
    try:
        text = data.decode("cp949" if name in _KOREAN else name) if name and b"\0" not in data else None
    except (LookupError, UnicodeDecodeError):
        text = None
    return decode(data) if text is None or name.startswith("utf") else Decoded(text, name, ())


def _tree(source: str) -> ET.Element:
    from lxml import etree  # pyright: ignore[reportAttributeAccessIssue]  # a C module without stubs

    # huge_tree: without it everything below 256 levels would be dropped in silence
    parser: Any = etree.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True, huge_tree=True)
    root: Any = etree.fromstring(storable(source).encode(), parser)
    return ET.Element("html") if root is None else cast(ET.Element, root)


def _meta(root: ET.Element) -> dict[str, str]:
    wanted = {"author", "description", "keywords", "date", "generator"}
    named = {(node.get("name") or "").lower(): node.get("content") or "" for node in root.iter("meta")}
    return {name: content for name, content in named.items() if name in wanted and content}


class _Writer:
    """Turns a tree into blocks: text gathers until something that stands on a line of its own begins or ends."""

    def __init__(self, blocks: BlockList) -> None:
        self._blocks = blocks
        self._text: list[str] = []
        self._kind: Kind = "paragraph"
        self._level: int | None = None
        self._marker: str | None = None
        """Number or bullet of the list item whose first text is still to come."""
        self._depth = 0
        """Depth of nested lists."""
        self._images: list[str] = []

    def add(self, node: ET.Element) -> None:
        """Everything below `node`, and the text that is left at its end."""
        self._children(node)
        self._flush()

    def _children(self, node: ET.Element) -> None:
        self._append(node.text)
        for child in node:
            if not _is_dropped(child):
                self._element(child)
            self._append(child.tail)

    def _append(self, text: str | None) -> None:
        if text:
            self._text.append(re.sub(r"[ \t\r\n]+", " ", text))

    def _element(self, node: ET.Element) -> None:
        tag = node.tag
        if tag == "br":
            self._text.append("\n")
        elif tag == "img":
            self._images += [alt] if (alt := (node.get("alt") or "").strip()) else []
        elif tag in ("ul", "ol", "menu"):
            self._list(node)
        elif tag == "table":
            self._flush()
            self._table(node)
        elif tag == "pre":
            self._flush()
            self._blocks.add("paragraph", "".join(node.itertext()))
        elif tag in _HEADINGS:
            self._styled(node, "heading", int(tag[1]))
        elif tag in ("caption", "figcaption"):
            self._styled(node, "caption", None)
        elif tag in _INLINE:
            self._children(node)
        else:
            self._flush()
            self._children(node)
            self._flush()

    def _styled(self, node: ET.Element, kind: Kind, level: int | None) -> None:
        self._flush()
        before = self._kind, self._level
        self._kind, self._level = kind, level
        self._children(node)
        self._flush()
        self._kind, self._level = before

    def _list(self, node: ET.Element) -> None:
        self._flush()
        before = self._kind, self._level
        self._depth += 1
        self._kind, self._level = "list", self._depth
        start = node.get("start", "1")
        number = int(start) if start.isdecimal() else 1
        for child in node:
            if child.tag == "li" and not _is_dropped(child):
                self._marker = f"{number}." if node.tag == "ol" else "•"
                number += 1
                self._children(child)
                self._flush()
            elif not _is_dropped(child):
                self._element(child)
                self._flush()
        self._depth -= 1
        self._kind, self._level = before
        self._marker = None

    def _flush(self) -> None:
        lines = (" ".join(line.split()) for line in "".join(self._text).split("\n"))
        text = "\n".join(lines).strip()
        self._text.clear()
        if text:
            marked = f"{self._marker} {text}" if self._marker else text
            self._marker = None
            self._blocks.add(self._kind, marked, level=self._level)
        for alt in self._images:
            self._blocks.add("figure", alt)
        self._images.clear()

    def _table(self, node: ET.Element) -> None:
        for caption in node.findall("caption"):
            self._styled(caption, "caption", None)
        self._blocks.add("table", "", cells=_cells(list(_rows(node))))


def _is_dropped(node: ET.Element) -> bool:
    return node.tag in _DROPPED or node.get("hidden") is not None or bool(_HIDDEN_STYLE.search(node.get("style", "")))


def _rows(table: ET.Element) -> Iterator[ET.Element]:
    """Rows of this table, not of tables within it."""
    for child in table:
        if child.tag == "tr":
            yield child
        elif child.tag in ("thead", "tbody", "tfoot"):
            yield from child.findall("tr")


def _cells(rows: list[ET.Element]) -> list[Cell]:
    """Cells at their columns: those that hang down from rows above push later ones to the right."""
    cells: list[Cell] = []
    taken: dict[int, int] = {}
    """Column → first row that is free again."""
    for number, row in enumerate(rows):
        column = 0
        for node in (child for child in row if child.tag in ("td", "th")):
            while taken.get(column, 0) > number:
                column += 1
            row_span = min(_span(node, "rowspan"), len(rows) - number) or len(rows) - number
            col_span = _span(node, "colspan") or 1
            taken.update(dict.fromkeys(range(column, column + col_span), number + row_span))
            text, header = _cell_text(node), node.tag == "th"
            cells.append(Cell(row=number, col=column, text=text, row_span=row_span, col_span=col_span, header=header))
            column += col_span
    return cells


def _span(node: ET.Element, name: str) -> int:
    """Rows or columns; 0, for rows, reaches to the end of the table."""
    value = node.get(name, "1").strip()
    return min(int(value), _MOST_SPANNED) if value.isdecimal() and len(value) < 7 else 1


def _cell_text(node: ET.Element) -> str:
    inner = BlockList()
    _Writer(inner).add(node)
    return "\n".join(block.text for block in inner)
