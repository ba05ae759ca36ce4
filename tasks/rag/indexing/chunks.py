"""Cuts documents into chunks.

Text is joined within a page and below a heading and cut at sentences; a table is a chunk of its own, with the
headings, caption and unit right above it. Headers and footers make one chunk: those of the first page that has any.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from os.path import commonprefix
from typing import Literal, NamedTuple

from storage.records import Record
from tasks.documents.blocks import BBox, Block, Document, Page
from tasks.language.marks import find_marks, mark_of_note
from tasks.language.tokens import BIGRAM, syllable_pairs, tokenize
from tasks.rag import CHUNK_CHARS, OVERLAP_CHARS
from tasks.rag.indexing.chunk_pieces import Table, cut_table, is_unit_line, read_table, split_text

SMALL_SHARE = 4
"""A section shorter than this part of a chunk joins its neighbour below the same heading."""
MOST_CAPTION_CHARS = 120
NOTES_SHARE = 4
"""At most this part of a table's chunk is kept free for its notes."""
_CAPTION = re.compile(
    r"[<\[(〈【]?\s*(?:표|별표|서식|Table|TABLE|Exhibit)\s*[\dⅠ-Ⅹ]+(?:[-.]\d+)*\s*[>\])〉】.:]", re.ASCII
)


class Chunk(Record):
    """A piece of one document on one page, with what leads to it."""

    id: str
    """`{document[:16]}-{ordinal:05d}`; the same document and settings always give the same ids."""
    document: str
    """SHA-256 of the document's bytes, hex: a renamed file keeps its chunks."""
    page: int | None
    """1-based page number; None where the format stores no pages."""
    bbox: BBox | None
    """Union of the boxes of the blocks (or lines) that the text comes from."""
    kind: Literal["text", "table", "figure"]
    text: str
    """Text of the chunk as shown; a part of a split table repeats header, caption and unit."""
    heading_path: tuple[str, ...] = ()
    section: int | None = None
    block: int = 0
    """0-based position of the first block in its document."""
    cells: str | None = None
    """The cells of a spreadsheet that it holds: `Sheet '예산', B3:D9`."""
    sentences: tuple[str, ...] = ()
    """Table rows as sentences (`row label — header: value; …`): searched, not shown."""
    table: int | None = None
    """0-based number of the table that it is of among those of its document; None for text and figures."""

    @property
    def search_text(self) -> str:
        """The text that is embedded: the headings above, where the text does not begin with them, and the text."""
        opening = {" ".join(line.split()) for line in self.text.splitlines()[: len(self.heading_path)]}
        above = [heading for heading in self.heading_path if heading not in opening]
        return "\n".join((" › ".join(above), self.text)) if above else self.text


class FigureText(Record):
    """Description of a picture by a vision model, with the picture's place in the document."""

    page: int | None
    """1-based page number; None where the format stores no pages."""
    n: int
    """1-based number of the picture on its page."""
    bbox: BBox | None
    text: str


def chunk_document(
    document: Document,
    *,
    digest: str,
    figures: Sequence[FigureText] = (),
    chunk_chars: int = CHUNK_CHARS,
    overlap_chars: int = OVERLAP_CHARS,
) -> list[Chunk]:
    """Cut a document into chunks in reading order, figures of a page behind its text, headers and footers last.

    No text chunk is longer than `chunk_chars`. Raises ValueError if `overlap_chars` is not below `chunk_chars`.
    """
    cutter = _Cutter(chunk_chars, overlap_chars)
    drafts: list[Chunk] = []  # without id and document
    in_order = (block for page in document.pages for block in page.blocks if block.cells)
    numbers = {id(block): number for number, block in enumerate(in_order)}
    above: Table | None = None
    # whether this document sets captions below its tables: the more frequent of the two neighbourhoods
    pairs = Counter(pair for page in document.pages for pair in pairwise([block.kind for block in page.blocks]))
    captions_follow = pairs["table", "caption"] > pairs["caption", "table"]
    for page in document.pages:
        parts = list(_group_blocks(page, captions_follow=captions_follow, most_chars=chunk_chars))
        note_lines = _find_notes(page)
        for number, part in enumerate(parts):
            if part.table is None:
                drafts += cutter.draft_text(part)
                continue
            table = read_table(part.table.cells, above=above if number == 0 else None)
            number_of_table = {"table": numbers.get(id(part.table))}
            drafts += (
                draft.model_copy(update=number_of_table) for draft in cutter.draft_table(part, table, note_lines)
            )
            above = table
        if parts and parts[-1].table is None:
            above = None  # a table goes on only from the foot of one page to the head of the next
        drafts += cutter.draft_figures([figure for figure in figures if figure.page == page.number])
    drafts += cutter.draft_margins(document)
    names = ({"id": f"{digest[:16]}-{ordinal:05d}", "document": digest} for ordinal in range(len(drafts)))
    return [draft.model_copy(update=name) for draft, name in zip(drafts, names, strict=True)]


def tokenize_chunks(chunks: Sequence[Chunk], *, tokenizer: str) -> list[list[str]]:
    """Split each chunk's headings, text and table rows (as sentences) into words. Raises what `tokenize` raises.

    Korean morphemes are followed by pairs of syllables, which the ranking `words` searches too.
    """
    texts = ["\n".join((chunk.search_text, *chunk.sentences)) for chunk in chunks]
    words = tokenize(texts, tokenizer=tokenizer)
    if tokenizer == BIGRAM:
        return words
    return [[*chunk_words, *syllable_pairs(text)] for chunk_words, text in zip(words, texts, strict=True)]


def figure_label(page: int | None, n: int) -> str:
    """Return the label that begins a figure's chunk: `[PAGE n IMAGE m]`, or `[IMAGE m]` where there are no pages."""
    return f"[IMAGE {n}]" if page is None else f"[PAGE {page} IMAGE {n}]"


class _Part(NamedTuple):
    """Blocks of a page that are chunked together: text, or a table and the lines that lead to it."""

    blocks: tuple[Block, ...]
    """Blocks of running text; with a table, the lines that lead to it."""
    table: Block | None = None

    @property
    def heading_path(self) -> tuple[str, ...]:
        """The headings that all blocks of the part stand below, from the outermost."""
        if self.table:
            return self.table.place.heading_path
        bodies = [block for block in self.blocks if block.kind != "heading"]
        return _common_path([_path_below(block) for block in bodies or self.blocks[-1:]])

    @property
    def chars(self) -> int:
        """Number of characters of its text blocks, joined by line breaks."""
        return sum(len(block.text) + 1 for block in self.blocks) - 1

    @property
    def only_headings(self) -> bool:
        """Whether it has no text below its headings."""
        return all(block.kind == "heading" for block in self.blocks)


def _group_blocks(page: Page, *, captions_follow: bool, most_chars: int) -> Iterator[_Part]:
    """Group the blocks of a page into parts; headers, footers and pictures without words are left out."""
    blocks = [block for block in page.blocks if block.kind not in ("header", "footer") and block.text.strip()]
    pending: list[Block] = []
    caption_below: Block | None = None
    for block, following in zip(blocks, [*blocks, None][1:], strict=True):
        if block.kind != "table":
            pending += [block] if block is not caption_below else []
            continue
        # headings, caption, unit and `as follows:` at the end of the text before a table lead to it
        start = len(pending)
        while start and _leads_to_table(pending[start - 1], captions_follow=captions_follow):
            start -= 1
        if sum(len(block.text) for block in pending[:start]) <= MOST_CAPTION_CHARS:
            start = 0  # a line that would make a chunk of its own
        lead = pending[start:]
        yield from _group_text(pending[:start], most_chars)
        pending = []
        caption_below = following if captions_follow and following and following.kind == "caption" else None
        yield _Part((*lead, caption_below) if caption_below else tuple(lead), block)
    yield from _group_text(pending, most_chars)


def _find_notes(page: Page) -> dict[str, str]:
    """Return the notes of a page by their marks; a raised mark tells them surely, a plain digit may begin a note."""
    notes: dict[str, str] = {}
    blocks = [block for block in page.blocks if block.kind in ("note", "paragraph", "list")]
    for block in sorted(blocks, key=lambda block: block.kind != "note"):
        for line in block.text.splitlines():
            if mark := mark_of_note(line):
                notes.setdefault(mark, line)
    return notes


def _leads_to_table(block: Block, *, captions_follow: bool) -> bool:
    if block.kind == "caption" or _CAPTION.match(block.text):
        return not captions_follow and len(block.text) <= MOST_CAPTION_CHARS
    introduces = block.text.endswith((":", "：")) and len(block.text) <= 2 * MOST_CAPTION_CHARS
    return block.kind == "heading" or introduces or is_unit_line(block.text)


def _group_text(blocks: Sequence[Block], most_chars: int) -> list[_Part]:
    """Group blocks below the same heading; small groups join their neighbour, headings what follows them."""
    runs: list[list[Block]] = []
    for block in blocks:
        before = runs[-1][-1] if runs else None
        if before is None or block.kind == "heading":
            begins = before is None or before.kind != "heading"
        else:
            apart = block.place.section != before.place.section or block.page != before.page
            begins = apart or _path_below(before) != block.place.heading_path
        if begins:
            runs.append([block])
        else:
            runs[-1].append(block)
    parts: list[_Part] = []
    for section in (_Part(tuple(run)) for run in runs):
        if parts and _belong_together(parts[-1], section, most_chars):
            parts[-1] = _Part(parts[-1].blocks + section.blocks)
        else:
            parts.append(section)
    return parts


def _belong_together(first: _Part, second: _Part, most_chars: int) -> bool:
    """Return whether two parts fit into one chunk, on one page, and are related by their headings."""
    if first.chars + 1 + second.chars > most_chars or first.blocks[0].page != second.blocks[0].page:
        return False
    if first.only_headings or second.only_headings:
        return True
    paths = [first.heading_path, second.heading_path]
    shared = _common_path(paths)
    related = bool(shared) or shared in paths  # below one heading, or one part above the heading of the other
    return related and min(first.chars, second.chars) < most_chars // SMALL_SHARE


def _path_below(block: Block) -> tuple[str, ...]:
    """Return the headings that text right below a block stands below."""
    path = block.place.heading_path
    return (*path, " ".join(block.text.split())) if block.kind == "heading" else path


def _common_path(paths: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the headings that all paths begin with."""
    return tuple(commonprefix(paths))  # noqa: RUF071 of tuples, not of paths


class _Cutter(NamedTuple):
    """Cuts parts of pages into drafts of chunks."""

    chunk_chars: int
    overlap_chars: int

    def draft_text(self, part: _Part) -> Iterator[Chunk]:
        """Yield chunks of running text, which overlap by whole sentences."""
        text = "\n".join(block.text for block in part.blocks)
        # where each block ends in the joined text
        ends = [end - 1 for end in accumulate(len(block.text) + 1 for block in part.blocks)]
        for start, end in split_text(text, most_chars=self.chunk_chars, overlap_chars=self.overlap_chars):
            used = part.blocks[bisect_right(ends, start) : bisect_left(ends, end) + 1]
            yield _make_draft("text", text[start:end], used, part.heading_path)

    def draft_table(self, part: _Part, table: Table, note_lines: Mapping[str, str]) -> Iterator[Chunk]:
        """Yield chunks of a table, which is cut between its rows, each with the lines that lead to the table.

        note_lines: the notes of its page by their marks; a part of the table carries those that its marks name.
        """
        assert part.table is not None
        lead = [line for block in part.blocks for line in block.text.splitlines()]
        if not part.table.cells:  # a table of which only the text was read
            lead += part.table.text.splitlines()
        cells = part.table.place.cells
        span = _RANGE.search(cells) if cells else None
        named = [note_lines[mark] for mark in find_marks(part.table.text) if mark in note_lines]
        room = min(sum(len(line) + 1 for line in named), self.chunk_chars // NOTES_SHARE)
        for piece in cut_table(table, lead=lead, most_chars=self.chunk_chars - room):
            text = piece.text
            for line in (note_lines[mark] for mark in find_marks(piece.text) if mark in note_lines):
                text += f"\n{line}" if len(text) + 1 + len(line) <= self.chunk_chars else ""
            draft = _make_draft("table", text, (*part.blocks, part.table), part.heading_path)
            piece_cells = cells
            if cells and span and piece.rows and span["bottom"]:
                first, last = (int(span["top"]) + row for row in piece.rows)
                piece_cells = f"{cells[: span.start()]}{span['left']}{first}:{span['right']}{last}"
            yield draft.model_copy(update={"cells": piece_cells, "sentences": piece.sentences})

    def draft_figures(self, figures: Sequence[FigureText]) -> Iterator[Chunk]:
        """Yield chunks of the descriptions of figures, each of which begins with the label of its figure."""
        for figure in sorted(figures, key=lambda figure: figure.n):
            label = figure_label(figure.page, figure.n)
            room = max(self.chunk_chars - len(label) - 1, self.overlap_chars + 1)
            for start, end in split_text(figure.text, most_chars=room, overlap_chars=0):
                text = f"{label}\n{figure.text[start:end]}"
                yield Chunk(id="", document="", kind="figure", text=text, page=figure.page, bbox=figure.bbox)

    def draft_margins(self, document: Document) -> Iterator[Chunk]:
        """Yield chunks of the headers and footers of the first page with any, if they say more than a page number."""
        blocks = [block for page in document.pages for block in page.blocks if block.kind in ("header", "footer")]
        first = [block for block in blocks if block.page == blocks[0].page]
        wordy_blocks = {block.text: block for block in first if sum(sign.isalpha() for sign in block.text) > 3}
        if wordy_blocks:
            yield from self.draft_text(_Part(tuple(wordy_blocks.values())))


def _make_draft(
    kind: Literal["text", "table"], text: str, blocks: Sequence[Block], heading_path: tuple[str, ...]
) -> Chunk:
    """Return a chunk without ID, at the place of its first block, with the box and the cells that hold them all."""
    first, boxes = blocks[0], [block.bbox for block in blocks if block.bbox]
    bbox = None
    if boxes:
        left, top, right, bottom = zip(*boxes, strict=True)
        bbox = (min(left), min(top), max(right), max(bottom))
    # in a spreadsheet, from the first block's cells to the last's
    cell_names = [block.place.cells for block in blocks if block.place.cells]
    ranges = [match for cells in cell_names if (match := _RANGE.search(cells))]
    cells = ranges[0].string if ranges else next(iter(cell_names), None)
    if len(ranges) > 1:
        begin, end = ranges[0], ranges[-1]
        corner = f"{end['right'] or end['left']}{end['bottom'] or end['top']}"
        cells = f"{begin.string[: begin.start()]}{begin['left']}{begin['top']}:{corner}"
    section, block = first.place.section, first.place.block
    chunk = Chunk(id="", document="", kind=kind, text=text, page=first.page, bbox=bbox, heading_path=heading_path)
    return chunk.model_copy(update={"section": section, "block": block, "cells": cells})


_RANGE = re.compile(r"(?P<left>[A-Z]+)(?P<top>\d+)(?::(?P<right>[A-Z]+)(?P<bottom>\d+))?$")
"""End of the name of the cells of a spreadsheet."""
