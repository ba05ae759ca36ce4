"""Reads HTML (its visible text) and Markdown (CommonMark with GitHub's tables, and HTML inside). Fetches nothing."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tasks.documents.blocks import Cell, Kind
from tasks.documents.document_errors import RefusedDocument
from tasks.documents.document_readers import BlockList, Reader, ReadOptions, make_storable, read_whole
from tasks.documents.raised_signs import raise_signs, shift_signs
from tasks.documents.text_reader import DecodedText, decode, decode_as, read_bytes

if TYPE_CHECKING:
    from markdown_it.token import Token

_DROPPED = {"script", "style", "template", "noscript", "head", "iframe", "object", "svg", "canvas", "datalist"}
_HEADINGS = {"h1", "h2", "h3", "h4", "h5", "h6"}
_INLINE = set(
    "a abbr acronym b bdi bdo big button cite code data del dfn em font i input ins kbd label mark meter nobr output "  # noqa: SIM905
    "progress q rb rp rt ruby s samp select small span strike strong sub sup time tt u var wbr".split()
)
"""Inline elements; any other begins a new block."""
_HIDDEN_STYLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_CHARSET = re.compile(rb"charset\s*=\s*[\"']?\s*([A-Za-z0-9_\-]+)", re.IGNORECASE)
_METADATA = {"author", "description", "keywords", "date", "generator"}
_MOST_SPANNED = 1000  # the limit of the HTML standard for `colspan`
_FRONT_MATTER = re.compile(r"---[ \t]*\n(.*?)\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_NOTE_OF_GITHUB = re.compile(r"^\[\^([^\]\s]{1,16})\]:", re.MULTILINE)
_PLACES = {"sup": 1, "sub": -1, "super": 1}
_VERTICAL = re.compile(r"vertical-align\s*:\s*(super|sub)", re.IGNORECASE)
_RAISED_TAG = re.compile(r"<(su[pb])>([^<]*)</\1>", re.IGNORECASE)
_BREAK_TAG = re.compile(r"<br\s*/?>", re.IGNORECASE)


def open_html(path: Path, *, password: str | None, options: ReadOptions) -> Reader:  # noqa: ARG001
    """Read an HTML file as one page without a number."""
    decoded = decode_html(read_bytes(path))
    blocks = BlockList()
    try:
        root = add_html(blocks, decoded.text)
    except RecursionError as error:
        raise RefusedDocument("The HTML nests elements hundreds deep, as no page does.") from error
    title = " ".join(" ".join("".join(node.itertext()) for node in root.iter("title")).split())
    meta = {(node.get("name") or "").lower(): node.get("content") or "" for node in root.iter("meta")}
    metadata = {name: content for name, content in meta.items() if name in _METADATA and content}
    return _make_reader("html", blocks, decoded, reader="trivet html 1", title=title or None, metadata=metadata)


def open_markdown(path: Path, *, password: str | None, options: ReadOptions) -> Reader:  # noqa: ARG001
    """Read a Markdown file as one page without a number."""
    from markdown_it import MarkdownIt

    decoded = decode(read_bytes(path))
    # front matter: plain `key: value` lines between `---` at the very top
    body, metadata = decoded.text, dict[str, str]()
    if match := _FRONT_MATTER.match(body):
        lines = [line.partition(":") for line in match[1].splitlines()]
        # else the first `---` is a rule with text below it
        if all(colon or key.startswith((" ", "-", "#")) or not key for key, colon, _ in lines):
            body = body[match.end() :]
            front_matter = {key.strip(): value.strip().strip("\"'") for key, _, value in lines if key[:1].isalpha()}
            metadata = {key: value for key, value in front_matter.items() if value}
    blocks = BlockList()
    # notes as GitHub writes them: `[^1]` in the text, and `[^1]: …` at the beginning of a line
    for name in set(_NOTE_OF_GITHUB.findall(body)):
        body = body.replace(f"[^{name}]:", raise_signs(name)).replace(f"[^{name}]", raise_signs(name))
    # the preset's limit of 20 would drop what is nested deeper
    parser = MarkdownIt("commonmark", {"maxNesting": 200}).enable(["table", "strikethrough"])
    _MarkdownWriter(blocks).add(iter(parser.parse(body)))
    title = metadata.get("title") or next((block.text for block in blocks if block.kind == "heading"), None)
    return _make_reader("md", blocks, decoded, reader="trivet markdown 1", title=title, metadata=metadata)


def _make_reader(
    format: str, blocks: BlockList, decoded: DecodedText, *, reader: str, title: str | None, metadata: dict[str, str]
) -> Reader:
    metadata |= {"encoding": decoded.encoding}
    pages = blocks.unpaged()
    return read_whole(pages, format=format, reader=reader, title=title, metadata=metadata, notes=decoded.notes)


def add_html(blocks: BlockList, source: str) -> ET.Element:
    """Add the visible text of HTML and return its tree. Raises RecursionError if it nests elements hundreds deep."""
    root = _parse_tree(source)
    _HtmlWriter(blocks).add(root)
    return root


def decode_html(data: bytes) -> DecodedText:
    """Decode by the declared charset if all bytes are valid in it, else as text of unknown encoding."""
    declared = _CHARSET.search(data[:4096])
    name = declared[1].decode().lower() if declared else ""
    # a byte order mark or single bad bytes are a matter for `decode`
    text = decode_as(data, name) if name and not name.startswith("utf") and b"\0" not in data else None
    return decode(data) if text is None else DecodedText(text, name, ())


def _parse_tree(source: str) -> ET.Element:
    from lxml import etree  # pyright: ignore[reportAttributeAccessIssue]  # a C module without stubs

    # huge_tree: without it everything below 256 levels would be dropped in silence
    parser: Any = etree.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True, huge_tree=True)
    root: Any = etree.fromstring(make_storable(source).encode(), parser)
    return ET.Element("html") if root is None else cast(ET.Element, root)


class _HtmlWriter:
    """Turns a tree into blocks: text is collected until a block element begins or ends."""

    def __init__(self, blocks: BlockList) -> None:
        self._blocks = blocks
        self._text: list[str] = []
        self._kind: Kind = "paragraph"
        self._level: int | None = None
        self._marker: str | None = None
        """Number or bullet of the list item whose first text is still to come."""
        self._depth = 0
        """Number of lists that are open around the text."""
        self._images: list[str] = []

    def add(self, node: ET.Element) -> None:
        """Add the visible text of everything below `node` to the blocks."""
        self._add_children(node)
        self._flush()

    def _add_children(self, node: ET.Element) -> None:
        self._append(node.text)
        for child in node:
            if not _is_dropped(child):
                self._add_element(child)
            self._append(child.tail)

    def _append(self, text: str | None) -> None:
        if text:
            self._text.append(re.sub(r"[ \t\r\n]+", " ", text))

    def _add_element(self, node: ET.Element) -> None:
        tag = node.tag
        if tag == "br":
            self._text.append("\n")
        elif tag == "img":
            alt = (node.get("alt") or "").strip()
            self._images += [alt] if alt else []
        elif tag in ("ul", "ol", "menu"):
            self._add_list(node)
        elif tag in _HEADINGS:
            self._add_styled(node, "heading", int(tag[1]))
        elif tag in ("caption", "figcaption"):
            self._add_styled(node, "caption", None)
        elif place := _PLACES.get(tag) or _find_place(node):
            start = len(self._text)
            self._add_children(node)
            before = self._text[start - 1] if start else ""
            self._text[start:] = [shift_signs("".join(self._text[start:]), place, before=before)]
        elif tag in _INLINE:
            self._add_children(node)
        else:
            self._flush()
            if tag == "table":
                for caption in node.findall("caption"):
                    self._add_styled(caption, "caption", None)
                self._blocks.add("table", "", cells=_cells(node))
            elif tag == "pre":
                self._blocks.add("paragraph", "".join(node.itertext()))  # with its line breaks
            else:
                self.add(node)

    def _add_styled(self, node: ET.Element, kind: Kind, level: int | None) -> None:
        self._flush()
        before = self._kind, self._level
        self._kind, self._level = kind, level
        self.add(node)
        self._kind, self._level = before

    def _add_list(self, node: ET.Element) -> None:
        self._flush()
        before = self._kind, self._level
        self._depth += 1
        self._kind, self._level = "list", self._depth
        start = node.get("start", "1")
        number = int(start) if start.isdecimal() else 1
        for child in (child for child in node if not _is_dropped(child)):
            if child.tag == "li":
                self._marker = f"{number}." if node.tag == "ol" else "•"
                number += 1
                self._add_children(child)
            else:
                self._add_element(child)
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
            self._blocks.add(self._kind, marked, level=self._level, marker=self._marker)
            self._marker = None
        for alt in self._images:
            self._blocks.add("figure", alt)
        self._images.clear()


def _is_dropped(node: ET.Element) -> bool:
    return node.tag in _DROPPED or node.get("hidden") is not None or bool(_HIDDEN_STYLE.search(node.get("style", "")))


def _find_place(node: ET.Element) -> int:
    """Return 1 for an inline element that its style raises, -1 for one that it lowers, else 0."""
    style = _VERTICAL.search(node.get("style", "")) if node.tag in _INLINE else None
    return _PLACES[style[1].lower()] if style else 0


def _cells(table: ET.Element) -> list[Cell]:
    """Return cells at their columns; cells that span down from rows above shift later ones to the right."""
    rows: list[ET.Element] = []
    for child in table:  # not the rows of tables within it
        if child.tag == "tr":
            rows.append(child)
        elif child.tag in ("thead", "tbody", "tfoot"):
            rows += child.findall("tr")
    cells: list[Cell] = []
    free_from: dict[int, int] = {}
    """Column → first row that is free again."""
    for number, row in enumerate(rows):
        column = 0
        for node in (child for child in row if child.tag in ("td", "th")):
            while free_from.get(column, 0) > number:
                column += 1
            row_span = min(_span(node, "rowspan"), len(rows) - number) or len(rows) - number
            col_span = _span(node, "colspan") or 1
            free_from.update(dict.fromkeys(range(column, column + col_span), number + row_span))
            inner = BlockList()
            _HtmlWriter(inner).add(node)
            text, header = "\n".join(block.text for block in inner), node.tag == "th"
            cells.append(Cell(row=number, col=column, text=text, row_span=row_span, col_span=col_span, header=header))
            column += col_span
    return cells


def _span(node: ET.Element, name: str) -> int:
    """Return a number of rows or columns; 0, for rows, reaches to the end of the table."""
    value = node.get(name, "1").strip()
    # int() refuses thousands of digits
    return min(int(value), _MOST_SPANNED) if value.isdecimal() and len(value) < 7 else 1


class _MarkdownWriter:
    """Turns the tokens of markdown-it into blocks."""

    def __init__(self, blocks: BlockList) -> None:
        self._blocks = blocks
        self._lists: list[int | None] = []
        """Number of the next item of each list that is being read; None for bullets."""
        self._marker: str | None = None
        """Number or bullet of the list item whose first text is still to come."""
        self._heading: int | None = None

    def add(self, tokens: Iterator[Token]) -> None:
        """Add the blocks of a stream of tokens."""
        for token in tokens:
            match token.type:
                case "table_open":
                    self._add_table(takewhile(lambda inside: inside.type != "table_close", tokens))
                case "heading_open":
                    self._heading = int(token.tag[1])
                case "heading_close":
                    self._heading = None
                case "bullet_list_open":
                    self._lists.append(None)
                case "ordered_list_open":
                    self._lists.append(int(token.attrs.get("start", 1)))
                case "bullet_list_close" | "ordered_list_close":
                    self._lists.pop()
                case "list_item_open":
                    number = self._lists[-1]
                    self._marker = "•" if number is None else f"{number}{token.markup}"
                    self._lists[-1] = None if number is None else number + 1
                case "list_item_close":
                    self._marker = None
                case "inline":
                    self._add_text(_inline_text(token))
                    for child in token.children or ():
                        if child.type == "image" and child.content:
                            self._blocks.add("figure", child.content)
                case "fence" | "code_block":
                    self._add_text(token.content)
                case "html_block" if token.content.strip():
                    _HtmlWriter(self._blocks).add(_parse_tree(token.content))
                case _:
                    pass  # rules, and the other ends of pairs

    def _add_text(self, text: str) -> None:
        if self._heading is not None:
            self._blocks.add("heading", text, level=self._heading)
        elif self._lists:
            marked = f"{self._marker} {text}" if self._marker else text
            self._blocks.add("list", marked, level=len(self._lists), marker=self._marker)
            self._marker = None
        else:
            self._blocks.add("paragraph", text)

    def _add_table(self, tokens: Iterable[Token]) -> None:
        cells: list[Cell] = []
        row = column = -1
        header = False
        for token in tokens:
            if token.type == "tr_open":
                row, column = row + 1, -1
            elif token.type in ("th_open", "td_open"):
                header, column = token.type == "th_open", column + 1
            elif token.type == "inline":
                cells.append(Cell(row=row, col=column, text=_inline_text(token), header=header))
        self._blocks.add("table", "", cells=cells)


def _inline_text(token: Token) -> str:
    """Return the text of an inline token without markup and images."""
    text = ""
    for child in token.children or ():
        match child.type:
            case "softbreak" | "hardbreak":
                text += "\n"
            case "image":
                pass
            case "html_inline":
                text += _BREAK_TAG.sub("\n", child.content)
            case _:
                text += child.content
    return _RAISED_TAG.sub(
        lambda match: shift_signs(match[2], _PLACES[match[1].lower()], before=text[: match.start()]), text
    ).strip()
