"""Reads HTML, and Markdown (CommonMark with GitHub's tables, and HTML inside) as the HTML that it stands for.

Text that a browser does not show is kept as hidden. Nothing is fetched.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from tasks.documents.blocks import Cell, Kind
from tasks.documents.document_errors import RefusedDocument
from tasks.documents.document_readers import BlockList, Reader, ReadOptions, read_whole
from tasks.documents.docx.docx_inline import linearize_math
from tasks.documents.marks import raise_signs, shift_signs
from tasks.documents.text_reader import decode, decode_html, read_bytes
from tasks.documents.visibility import Element, StyleSheet

_DROPPED = {"script", "style", "head", "desc", "defs", "metadata", "title"}
"""Code, and what names a page or a drawing."""
_HEADINGS = {"h1", "h2", "h3", "h4", "h5", "h6"}
_INLINE = set(
    "a abbr acronym b bdi bdo big button cite code data del dfn em font i ins kbd label mark meter nobr output "  # noqa: SIM905
    "progress q rb rp rt ruby s samp small span strike strong sub sup textarea time tspan tt u var wbr".split()
)
"""Inline elements; any other begins a new block."""
_RANKS = {"thead": 0, "tr": 1, "tbody": 1, "tfoot": 2}
"""Rows of a table and their groups, in the order in which they are shown."""
_IN_TABLES = {"td", "th", "caption", "colgroup", "col"}
_MOST_SPANNED = {"colspan": 1000, "rowspan": 65_534}  # the limits of the HTML standard
_FRONT_MATTER = re.compile(r"---[ \t]*\n(.*?)\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_NOTE_OF_GITHUB = re.compile(r"^\[\^([^\]\s]{1,16})\]:", re.MULTILINE)
_PLACES = {"sup": 1, "sub": -1}  # elements that raise or lower letters
_MOST_DIGITS = 3  # of the number of a note
_PX_OF_SPACE = 4.0
_HARD_SPACES = {"\u3000": 4, "\u2003": 4, "\u2002": 2}
"""Widths of spaces that a browser keeps, where they are not that of a plain one."""
_TAG_NAME = re.compile(r"</?([A-Za-z][\w-]*)")


def open_html(path: Path, *, password: str | None, options: ReadOptions) -> Reader:  # noqa: ARG001
    """Read an HTML file as one page without a number. Raises EmptyDocument or RefusedDocument."""
    decoded = decode_html(read_bytes(path))
    blocks = BlockList()
    root = add_html(blocks, decoded.text)
    title = " ".join((root.findtext("head/title") or "").split())
    pages, notes = blocks.unpaged(), decoded.notes
    return read_whole(pages, format="html", reader="trivet html 1", title=title or None, notes=notes)


def open_markdown(path: Path, *, password: str | None, options: ReadOptions) -> Reader:  # noqa: ARG001
    """Read a Markdown file as one page without a number. Raises EmptyDocument or RefusedDocument."""
    decoded = decode(read_bytes(path))
    # front matter: plain `key: value` lines between `---` at the very top
    body, title = decoded.text, None
    if match := _FRONT_MATTER.match(body):
        lines = [line.partition(":") for line in match[1].splitlines()]
        # else the first `---` is a rule with text below it
        if all(colon or key.startswith((" ", "-", "#")) or not key for key, colon, _ in lines):
            body = body[match.end() :]
            title = next((value.strip().strip("\"'") for key, _, value in lines if key.strip() == "title"), None)
    blocks = BlockList()
    # notes as GitHub writes them: `[^1]` in the text, and `[^1]: …` at the beginning of a line
    for name in set(_NOTE_OF_GITHUB.findall(body)):
        body = body.replace(f"[^{name}]:", raise_signs(name)).replace(f"[^{name}]", raise_signs(name))
    add_html(blocks, _render_markdown(body))
    title = title or next((block.text for block in blocks if block.kind == "heading"), None)
    pages, notes = blocks.unpaged(), decoded.notes
    return read_whole(pages, format="md", reader="trivet markdown 1", title=title, notes=notes)


def _render_markdown(body: str) -> str:
    """Return Markdown as HTML; a placeholder such as `<name>`, which is no tag of HTML, stays text."""
    from lxml.html import defs
    from markdown_it import MarkdownIt

    # the preset's limit of 20 would drop what is nested deeper
    parser = MarkdownIt("commonmark", {"maxNesting": 200, "breaks": True}).enable(["table", "strikethrough"])
    tokens = parser.parse(body)
    for token in tokens:
        if token.type == "ordered_list_open":
            token.attrSet("data-delimiter", token.markup)
        for child in token.children or ():
            name = _TAG_NAME.match(child.content) if child.type == "html_inline" else None
            if name and name[1].lower() not in defs.tags:
                child.type = "text"  # a placeholder such as <name>, which is no tag
    return parser.renderer.render(tokens, parser.options, {})


def add_html(blocks: BlockList, source: str) -> ET.Element:
    """Add the text of HTML, unseen text as hidden, and return its tree. Raises RefusedDocument for deep nesting."""
    from lxml import etree  # pyright: ignore[reportAttributeAccessIssue]  # a C module without stubs

    # huge_tree: without it everything below 256 levels would be dropped in silence
    parser: Any = etree.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True, huge_tree=True)
    tree: Any = etree.fromstring(source.replace("\0", "").encode("utf-8", "replace"), parser)
    root = ET.Element("html") if tree is None else cast(ET.Element, tree)
    styles = StyleSheet(root)
    try:
        _HtmlWriter(blocks, styles, styles.page).add(root)
    except RecursionError as error:
        raise RefusedDocument("The text nests elements hundreds deep, as no page does; simplify it.") from error
    return root


class _HtmlWriter:
    """Turns a tree into blocks: text is collected until a block element begins or ends."""

    def __init__(self, blocks: BlockList, styles: StyleSheet, element: Element) -> None:
        self._blocks = blocks
        self._styles = styles
        self._element = element
        """How the element shows its content that the text stands in."""
        self._text: list[str] = []
        self._unseen: dict[str, list[str]] = {}
        """Texts that are not seen, by the reason."""
        self._keeps_space = False
        self._kind: Kind = "paragraph"
        self._level: int | None = None
        self._marker: str | None = None
        """Number or bullet of the list item whose first text is still to come."""
        self._depth = 0
        """Number of lists that are open around the text."""
        self._images: list[str] = []

    def add(self, node: ET.Element) -> None:
        """Add the text of everything below `node` to the blocks."""
        self._add_children(node)
        self._flush()

    def _add_children(self, node: ET.Element) -> None:
        """Add the text of a node and its elements in order; what is not shown is kept as hidden."""
        self._append(node.text)
        outer = self._element
        for child in node:
            if self._enter(child, outer):
                self._add_element(child)
            self._element = outer
            self._append(child.tail)

    def _enter(self, node: ET.Element, outer: Element) -> bool:
        """Enter an element within another; if it is not shown, keep its text (no code) as hidden and return False."""
        if node.tag in _DROPPED:
            return False
        self._element = self._styles.enter(node, outer)
        if self._element.removed:
            self._hide(" ".join(_all_text(node)), self._element.removed)
        return self._element.removed is None

    def _hide(self, text: str, reason: str) -> None:
        self._unseen.setdefault(reason, []).append(text)

    def _append(self, text: str | None) -> None:
        if text and self._element.unseen:
            self._hide(text, self._element.unseen)
        elif text:
            self._text.append(text if self._keeps_space else text.replace("\n", " "))

    def _add_element(self, node: ET.Element) -> None:
        """Add an element: an inline one to the text of its block, any other as blocks of its own."""
        tag = node.tag
        if place := _PLACES.get(tag) or (self._element.place if tag in _INLINE else 0) or self._is_note_mark(node):
            start = len(self._text)
            self._add_children(node)
            before = self._text[start - 1] if start else ""
            self._text[start:] = [shift_signs("".join(self._text[start:]), place, before=before)]
        elif tag == "math":
            self._append(linearize_math(node))
            for unseen in cast(Any, node).iter("annotation", "annotation-xml", "mphantom"):
                self._hide(" ".join(_all_text(unseen)), f"<{unseen.tag}>")
        elif tag in _INLINE:
            self._add_children(node)
        elif tag == "br":
            self._text.append("\n")
        elif tag == "img":
            alt = (node.get("alt") or "").strip()
            self._images += [alt] if alt else []
        elif tag == "input":
            kind, value = (node.get("type") or "text").lower(), f" {node.get('value') or ''} "
            if kind in ("checkbox", "radio"):
                value = "☐ " if node.get("checked") is None else "☒ "
            self._append("" if kind in ("hidden", "password", "file", "image") else value)
        elif tag == "select":
            options = list(node.iter("option"))
            chosen = [option for option in options if option.get("selected") is not None] or options[:1]
            for option in options:
                text = " ".join(_all_text(option))
                self._append(f" {text} ") if option in chosen else self._hide(text, "an option that is not chosen")
        else:
            self._flush()
            if tag in ("ul", "ol", "menu"):
                self._add_list(node)
            elif tag == "table":
                self._add_table(node)
            elif tag in _HEADINGS:
                self._add_styled(node, "heading", int(tag[1]))
            elif tag in ("caption", "figcaption"):
                self._add_styled(node, "caption", None)
            else:
                self._keeps_space = self._keeps_space or tag == "pre"
                self.add(node)
                self._keeps_space = self._keeps_space and tag != "pre"

    def _is_note_mark(self, node: ET.Element) -> bool:
        """Return whether a link within the page is a mark directly behind a word or a number: that of a note."""
        mark = "".join(node.itertext()).strip() if node.tag == "a" and (node.get("href") or "")[:1] == "#" else ""
        is_mark = len(mark) == 1 or (mark.isdecimal() and len(mark) <= _MOST_DIGITS)
        beside = cast(Any, node).getprevious()  # behind another link it is a letter of an index, or a page
        is_apart = beside is None or beside.tag != "a" or bool(beside.tail)
        return is_mark and is_apart and bool(self._text) and self._text[-1][-1:].isalnum()

    def _add_styled(self, node: ET.Element, kind: Kind, level: int | None) -> None:
        before = self._kind, self._level
        self._kind, self._level = kind, level
        self.add(node)
        self._kind, self._level = before

    def _add_list(self, node: ET.Element) -> None:
        """Add the items of a list, one level deeper: numbered on from `start` in `ol`, else with a bullet."""
        outer = self._element
        before = self._kind, self._level
        self._depth += 1
        self._kind, self._level = "list", self._depth
        start = node.get("start", "1")
        number = int(start) if start.isdecimal() and len(start) < 10 else 1
        self._append(node.text)
        for child in node:
            self._flush()
            is_shown = self._enter(child, outer)
            if is_shown and child.tag == "li":
                self._marker = f"{number}{node.get('data-delimiter', '.')}" if node.tag == "ol" else "•"
                number += 1
                self.add(child)
            elif is_shown:
                self._add_element(child)
            self._element = outer
            self._append(child.tail)
        self._flush()
        self._depth -= 1
        self._kind, self._level = before
        self._marker = None

    def _add_table(self, table: ET.Element) -> None:
        """Add a table, its captions before it; the content alone of one that is a single cell, a box."""
        outer, rows = self._element, list[tuple[ET.Element | None, Element, list[ET.Element]]]()
        self._add_strays(table)
        self._flush()
        for caption in table.findall("caption"):
            if self._enter(caption, outer):
                self._add_styled(caption, "caption", None)
        for part in sorted((child for child in table if child.tag in _RANKS), key=lambda child: _RANKS[child.tag]):
            group = None if part.tag == "tr" else part
            if group is not None and not self._enter(group, outer):
                continue
            around = outer if group is None else self._element
            for row in [part] if group is None else group.findall("tr"):
                if self._enter(row, around):
                    rows.append((group, self._element, [cell for cell in row if cell.tag in ("td", "th")]))
        nodes = [(cell, shown) for _, shown, cells in rows for cell in cells]
        if len(nodes) != 1:
            self._blocks.add("table", "", cells=self._cells(rows))
        elif self._enter(*nodes[0]):
            self.add(nodes[0][0])

    def _add_strays(self, part: ET.Element) -> None:
        """Add what stands in a table outside of its cells, which browsers show before it."""
        outer = self._element
        self._append(f" {part.text or ''}")
        for child in part:
            if child.tag in _RANKS:
                self._element = self._styles.enter(child, outer)
                if self._element.removed is None:
                    self._add_strays(child)
            elif child.tag not in _IN_TABLES and self._enter(child, outer):
                self._add_element(child)
            self._element = outer
            self._append(f" {child.tail or ''}")

    def _cells(self, rows: list[tuple[ET.Element | None, Element, list[ET.Element]]]) -> list[Cell]:
        """Return the cells that are shown, at their columns: those that span down from above shift later ones right."""
        cells, free_from = list[Cell](), dict[int, int]()  # column → first row that is free again
        below_names = False
        last_rows = {id(group): number for number, (group, _, _) in enumerate(rows)}
        for number, (group, shown, nodes) in enumerate(rows):
            column = 0
            for node in nodes:
                if not self._enter(node, shown):
                    continue
                while free_from.get(column, 0) > number:
                    column += 1
                rows_left = last_rows[id(group)] - number + 1  # no cell spans out of its group of rows
                row_span = min(_span(node, "rowspan") or rows_left, rows_left)
                col_span = _span(node, "colspan") or 1
                if row_span > 1:
                    free_from.update(dict.fromkeys(range(column, column + col_span), number + row_span))
                inner, indent = BlockList(), self._find_indent(node)
                _HtmlWriter(inner, self._styles, self._element).add(node)
                self._blocks.keep_hidden_of(inner)
                text = "\n".join(block.text for block in inner)
                header = _names_columns(node, nodes, group, below_names=below_names)
                cell = Cell(
                    row=number, col=column, text=text, row_span=row_span, col_span=col_span, header=header,
                    indent=indent,
                )  # fmt: skip
                cells.append(cell)
                column += col_span
            below_names = below_names or len(nodes) > 1
        return cells

    def _find_indent(self, node: ET.Element) -> float:
        """Return how far a cell's first text is set in by its elements and by hard spaces, in widths of a space."""
        element, indent_px = self._element, self._element.indent_px
        while not (node.text or "").strip(" \t\r\n") and len(node) and node[0].tag not in _DROPPED:
            node = node[0]
            element = self._styles.enter(node, element)
            indent_px += element.indent_px
        text = (node.text or "").lstrip(" \t\r\n")
        hard = text[: len(text) - len(text.lstrip())]
        return indent_px / _PX_OF_SPACE + sum(_HARD_SPACES.get(sign, 1) for sign in hard)

    def _flush(self) -> None:
        """End the current block: add its text if it has any, then its images, then what is hidden in it."""
        text = "".join(self._text)
        if not self._keeps_space:
            text = "\n".join(" ".join(line.split()) for line in text.split("\n")).strip()
        self._text.clear()
        if text.strip():
            marked = f"{self._marker} {text}" if self._marker else text
            self._blocks.add(self._kind, marked, level=self._level, marker=self._marker)
            self._marker = None
        for alt in self._images:
            self._blocks.add("figure", alt)
        self._images.clear()
        for reason, texts in self._unseen.items():
            self._blocks.hide(" ".join(" ".join(texts).split()), reason)
        self._unseen.clear()


def _names_columns(node: ET.Element, row: list[ET.Element], group: ET.Element | None, *, below_names: bool) -> bool:
    """Return whether a cell names columns; a `th` beside a `td`, or alone below names of columns, names rows."""
    if group is not None and group.tag == "thead":
        return True
    scope = (node.get("scope") or "").lower()
    if node.tag != "th" or scope.startswith(("row", "col")):
        return scope.startswith("col") and node.tag == "th"
    if len(row) == 1:
        return not below_names or "".join(node.itertext()).strip().startswith("(")  # "(in thousands)"
    return all(cell.tag == "th" for cell in row)


def _all_text(node: ET.Element) -> Iterator[str]:
    """Yield the words below an element, without those of scripts, styles, titles and descriptions."""
    if node.tag not in _DROPPED:
        yield from (node.text or "").split()
        for child in node:
            yield from _all_text(child)
            yield from (child.tail or "").split()


def _span(node: ET.Element, name: str) -> int:
    """Return a number of rows or columns, 1 by default, up to HTML's limit; 0, for rows, is to their group's end."""
    value = node.get(name, "1").strip()
    if not value.isdecimal():
        return 1
    return min(int(value[:7]), _MOST_SPANNED[name])  # int() refuses thousands of digits
