"""Reads Markdown (CommonMark with GitHub's tables): headings, lists, tables, code, and HTML where it stands in it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token

from tasks.documents.assembly import BlockList, SimpleReader
from tasks.documents.blocks import Cell
from tasks.documents.read_options import Header, Reader, ReadOptions
from tasks.documents.text.html_reader import add_html
from tasks.documents.text.text_reader import decode, read_bytes

READER = "trivet markdown 1"
_FRONT_MATTER = re.compile(r"---[ \t]*\n(.*?)\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_BREAK_TAG = re.compile(r"<br\s*/?>", re.IGNORECASE)


def open_markdown(path: Path, *, password: str | None, options: ReadOptions) -> Reader:
    """A Markdown file, one page without a number."""
    del password, options  # Markdown has neither locks nor choices
    decoded = decode(read_bytes(path))
    metadata, body = _front_matter(decoded.text)
    blocks = BlockList()
    # the preset's limit of 20 would drop what is nested deeper
    parser = MarkdownIt("commonmark", {"maxNesting": 200}).enable(["table", "strikethrough"])
    _Writer(blocks).add(parser.parse(body))
    first = next((block.text for block in blocks if block.kind == "heading"), None)
    pages = blocks.unpaged()
    header = Header(
        format="md",
        reader=READER,
        page_source="none",
        page_count=len(pages),
        title=metadata.get("title") or first,
        metadata=metadata | {"encoding": decoded.encoding},
        notes=decoded.notes,
    )
    return SimpleReader(header, pages)


def _front_matter(text: str) -> tuple[dict[str, str], str]:
    """Plain `key: value` lines between `---` at the very top, and the text below them."""
    match = _FRONT_MATTER.match(text)
    lines = [line.partition(":") for line in match[1].splitlines()] if match else []
    if not match or not all(colon or key.startswith((" ", "-", "#")) or not key for key, colon, _ in lines):
        return {}, text
    pairs = {key.strip(): value.strip().strip("\"'") for key, _, value in lines if key[:1].isalpha() and value.strip()}
    return pairs, text[match.end() :]


class _OpenList(NamedTuple):
    """A list that is being read."""

    ordered: bool
    number: int
    """Number of the next item."""


class _Writer:
    """Turns tokens into blocks."""

    def __init__(self, blocks: BlockList) -> None:
        self._blocks = blocks
        self._lists: list[_OpenList] = []
        self._marker: str | None = None
        """Number or bullet of the list item whose first text is still to come."""
        self._heading: int | None = None

    def add(self, tokens: Sequence[Token]) -> None:
        index = 0
        while index < len(tokens):
            token = tokens[index]
            if token.type == "table_open":
                index = self._add_table(tokens, index)
            else:
                self._add_token(token)
            index += 1

    def _add_token(self, token: Token) -> None:
        match token.type:
            case "heading_open":
                self._heading = int(token.tag[1])
            case "heading_close":
                self._heading = None
            case "bullet_list_open" | "ordered_list_open":
                ordered = token.type == "ordered_list_open"
                self._lists.append(_OpenList(ordered, int(token.attrs.get("start", 1)) if ordered else 1))
            case "bullet_list_close" | "ordered_list_close":
                self._lists.pop()
            case "list_item_open":
                current = self._lists[-1]
                self._marker = f"{current.number}{token.markup}" if current.ordered else "•"
                self._lists[-1] = current._replace(number=current.number + 1)
            case "list_item_close":
                self._marker = None
            case "inline":
                self._add_text(_inline_text(token))
                self._add_images(token)
            case "fence" | "code_block":
                self._add_text(token.content)
            case "html_block":
                add_html(self._blocks, token.content)
            case _:
                pass  # rules, and the other ends of pairs

    def _add_text(self, text: str) -> None:
        if self._heading is not None:
            self._blocks.add("heading", text, level=self._heading)
        elif self._lists:
            marked = f"{self._marker} {text}" if self._marker else text
            self._blocks.add("list", marked, level=len(self._lists))
            self._marker = None
        else:
            self._blocks.add("paragraph", text)

    def _add_images(self, token: Token) -> None:
        for child in token.children or ():
            if child.type == "image" and child.content:
                self._blocks.add("figure", child.content)

    def _add_table(self, tokens: Sequence[Token], index: int) -> int:
        """Add the table that opens at `index`; gives the index of its end."""
        cells: list[Cell] = []
        row = column = -1
        header = False
        while (token := tokens[index]).type != "table_close":
            if token.type == "tr_open":
                row, column = row + 1, -1
            elif token.type in ("th_open", "td_open"):
                header, column = token.type == "th_open", column + 1
            elif token.type == "inline":
                cells.append(Cell(row=row, col=column, text=_inline_text(token), header=header))
            index += 1
        self._blocks.add("table", "", cells=cells)
        return index


def _inline_text(token: Token) -> str:
    """The words of a line without their markup; an image is a figure of its own."""
    return "".join(map(_child_text, token.children or ())).strip()


def _child_text(child: Token) -> str:
    match child.type:
        case "softbreak" | "hardbreak":
            return "\n"
        case "image":
            return ""
        case "html_inline":
            return _BREAK_TAG.sub("\n", child.content)
        case _:
            return child.content
