"""Blocks of a PDF page in reading order: headers, then paragraphs and tables by kind, comments, footers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Literal, NamedTuple

from tasks.rag.documents.blocks import BBox, Block, Cell, Kind, Place
from tasks.rag.documents.pdf_kinds import classify, list_levels, starts_item
from tasks.rag.documents.pdf_layout import Paragraph, arrange, join_rows, outline, rows_of
from tasks.rag.documents.pdf_margins import Running
from tasks.rag.documents.pdf_tables import Table, table_text
from tasks.rag.documents.pdf_text import Fragment


class BodyStyle(NamedTuple):
    """Font size (points) and weight of most of the text."""

    size: float
    bold: bool


class Content(NamedTuple):
    """All that stands on a page, in reading space."""

    fragments: Sequence[Fragment]
    """What is not in tables."""
    tables: Sequence[Table]
    running: Running
    comments: Sequence[tuple[str, BBox]] = ()
    """Remarks that are not part of the page."""


def body_style(fragments: Iterable[Fragment]) -> BodyStyle | None:
    """The commonest style, by characters; None without text."""
    styles: Counter[BodyStyle] = Counter()
    for fragment in fragments:
        styles[BodyStyle(round(fragment.size * 2) / 2, fragment.bold)] += len(fragment.text)
    return styles.most_common(1)[0][0] if styles else None


class _Draft(NamedTuple):
    kind: Kind
    text: str
    bbox: BBox
    level: int | None = None
    cells: tuple[Cell, ...] = ()
    left: float = 0.0
    """Where the first row begins."""


def page_blocks(
    content: Content, *, page: int, body: BodyStyle, to_page: Callable[[BBox], BBox] | None
) -> tuple[Block, ...]:
    """Blocks with their place on the page; to_page: from reading space to the shown page, where these differ."""
    header, footer = content.running
    own = [fragment for fragment in content.fragments if fragment.line not in header | footer]
    drafts = _edge_drafts(content.fragments, header, "header")
    drafts += _with_list_levels([_draft(item, body) for item in arrange(own, content.tables, starts_item=starts_item)])
    drafts += [_Draft("note", text, bbox) for text, bbox in content.comments]
    drafts += _edge_drafts(content.fragments, footer, "footer")
    return _blocks(drafts, page, to_page)


def _edge_drafts(
    fragments: Iterable[Fragment], lines: frozenset[tuple[int, int]], kind: Literal["header", "footer"]
) -> list[_Draft]:
    rows = rows_of([fragment for fragment in fragments if fragment.line in lines]) if lines else []
    return [
        _Draft(kind, " ".join(" ".join(f.text for f in row).split()), outline([f[:4] for f in row])) for row in rows
    ]


def _draft(item: Paragraph | Table, body: BodyStyle) -> _Draft:
    if isinstance(item, Table):
        return _Draft("table", table_text(item.cells), item.bbox, cells=item.cells)
    text = join_rows(item.rows)
    kind, level = classify(item, text, body_size=body.size, body_bold=body.bold)
    return _Draft(kind, text, outline([row[:4] for row in item.rows]), level, left=item.rows[0].x0)


def _with_list_levels(drafts: Sequence[_Draft]) -> list[_Draft]:
    """Items of a run of list items, with their depth."""
    leveled: list[_Draft] = []
    for is_list, run in groupby(drafts, key=lambda draft: draft.kind == "list"):
        items = list(run)
        if is_list:
            levels = list_levels([item.left for item in items])
            items = [item._replace(level=level) for item, level in zip(items, levels, strict=True)]
        leveled += items
    return leveled


def _blocks(drafts: Sequence[_Draft], page: int, to_page: Callable[[BBox], BBox] | None) -> tuple[Block, ...]:
    """Blocks numbered from 0, under the headings of their page."""
    headings: list[_Draft] = []
    blocks: list[Block] = []
    for number, draft in enumerate(drafts):
        if draft.kind == "heading":
            headings = [above for above in headings if (above.level or 0) < (draft.level or 0)]
        block = Block(
            kind=draft.kind,
            text=draft.text,
            page=page,
            bbox=to_page(draft.bbox) if to_page else draft.bbox,
            cells=draft.cells,
            level=draft.level,
            place=Place(block=number, heading_path=tuple(heading.text for heading in headings)),
        )
        blocks.append(block)
        if draft.kind == "heading":
            headings.append(draft)
    return tuple(blocks)
