"""Cuts documents into chunks.

Text is joined within a page and below a heading and cut at sentences; a table is a chunk of its own, with the
headings, caption and unit right above it. Headers and footers make one chunk: those of the first page that has any.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from os.path import commonprefix
from typing import Literal, NamedTuple

from storage.records import Record
from tasks.documents.blocks import BBox, Block, Document, Page
from tasks.language.tokens import BIGRAM, syllable_pairs, tokenize
from tasks.rag import CHUNK_CHARS, OVERLAP_CHARS
from tasks.rag.indexing.chunk_pieces import Table, cut_table, is_unit_line, read_table, split_text

SMALL_SHARE = 4
"""A section shorter than this part of a chunk joins its neighbour below the same heading."""
MOST_CAPTION_CHARS = 120
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
    """1-based; None where the format stores no pages."""
    bbox: BBox | None
    """Union of the boxes of the blocks (or lines) that the text comes from."""
    kind: Literal["text", "table", "figure"]
    text: str
    """What a reader sees; a part of a split table repeats header, caption and unit."""
    heading_path: tuple[str, ...] = ()
    section: int | None = None
    block: int = 0
    """0-based position of the first block in its document."""
    cells: str | None = None
    """The cells of a spreadsheet that it holds: `Sheet '예산', B3:D9`."""
    sentences: tuple[str, ...] = ()
    """Table rows as sentences (`row label — header: value; …`): searched, not shown."""

    @property
    def search_text(self) -> str:
        """What the embedder reads: headings above that the text does not begin with, then text."""
        opening = {" ".join(line.split()) for line in self.text.splitlines()[: len(self.heading_path)]}
        above = [heading for heading in self.heading_path if heading not in opening]
        return "\n".join((" › ".join(above), self.text)) if above else self.text


class FigureText(Record):
    """What a vision model read from a picture."""

    page: int | None
    """1-based."""
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
    """The chunks of a document in reading order, those of a page's figures behind its text.

    No text chunk is longer than `chunk_chars`. Raises ValueError if `overlap_chars` is not below `chunk_chars`.
    """
    cutter = _Cutter(chunk_chars, overlap_chars)
    drafts: list[_Draft] = []
    above: Table | None = None
    # whether this document sets captions below its tables: the more frequent of the two neighbourhoods
    pairs = Counter(pair for page in document.pages for pair in pairwise([block.kind for block in page.blocks]))
    captions_follow = pairs["table", "caption"] > pairs["caption", "table"]
    for page in document.pages:
        parts = list(_parts(page, captions_follow=captions_follow, most_chars=chunk_chars))
        for number, part in enumerate(parts):
            if part.table is None:
                drafts += cutter.text(part)
                continue
            table = read_table(part.table.cells, above=above if number == 0 else None)
            drafts += cutter.table(part, table)
            above = table
        if parts and parts[-1].table is None:
            above = None  # a table goes on only from the foot of one page to the head of the next
        drafts += cutter.figures([figure for figure in figures if figure.page == page.number])
    drafts += cutter.margins(document)
    return [
        Chunk(id=f"{digest[:16]}-{ordinal:05d}", document=digest, **draft._asdict())
        for ordinal, draft in enumerate(drafts)
    ]


def tokenize_chunks(chunks: Sequence[Chunk], *, tokenizer: str) -> list[list[str]]:
    """The words of each chunk: of its headings, its text, and its table rows as sentences. Raises as `tokenize`.

    Beside Korean morphemes stand pairs of syllables, which `words` searches too.
    """
    texts = ["\n".join((chunk.search_text, *chunk.sentences)) for chunk in chunks]
    words = tokenize(texts, tokenizer=tokenizer)
    if tokenizer == BIGRAM:
        return words
    return [[*found, *syllable_pairs(text)] for found, text in zip(words, texts, strict=True)]


def figure_label(page: int | None, n: int) -> str:
    """`[PAGE n IMAGE m]`; without the page where the format has none."""
    return f"[IMAGE {n}]" if page is None else f"[PAGE {page} IMAGE {n}]"


class _Draft(NamedTuple):
    """A chunk before it has its number."""

    kind: Literal["text", "table", "figure"]
    text: str
    page: int | None
    bbox: BBox | None
    heading_path: tuple[str, ...] = ()
    section: int | None = None
    block: int = 0
    cells: str | None = None
    sentences: tuple[str, ...] = ()


class _Part(NamedTuple):
    """Blocks of a page that are chunked together: text, or a table and the lines that lead to it."""

    blocks: tuple[Block, ...]
    """Text; of a table, only what leads to it."""
    table: Block | None = None

    @property
    def heading_path(self) -> tuple[str, ...]:
        """The headings that all of it stands below."""
        if self.table:
            return self.table.place.heading_path
        bodies = [block for block in self.blocks if block.kind != "heading"]
        return _common([_path_below(block) for block in bodies or self.blocks[-1:]])

    @property
    def chars(self) -> int:
        """Length of its text, joined by line breaks."""
        return sum(len(block.text) + 1 for block in self.blocks) - 1

    @property
    def only_headings(self) -> bool:
        return all(block.kind == "heading" for block in self.blocks)


def _parts(page: Page, *, captions_follow: bool, most_chars: int) -> Iterator[_Part]:
    """The page's blocks, grouped; headers, footers and pictures without words are left out."""
    blocks = [block for block in page.blocks if block.kind not in ("header", "footer") and block.text.strip()]
    pending: list[Block] = []
    taken: Block | None = None
    for block, following in zip(blocks, [*blocks, None][1:], strict=True):
        if block.kind != "table":
            pending += [block] if block is not taken else []
            continue
        # headings, caption, unit and `as follows:` at the end of the text before a table lead to it
        start = len(pending)
        while start and _leads(pending[start - 1], captions_follow=captions_follow):
            start -= 1
        if sum(len(block.text) for block in pending[:start]) <= MOST_CAPTION_CHARS:
            start = 0  # a line that would make a chunk of its own
        lead = pending[start:]
        yield from _text_parts(pending[:start], most_chars)
        pending = []
        taken = following if captions_follow and following and following.kind == "caption" else None
        yield _Part((*lead, taken) if taken else tuple(lead), block)
    yield from _text_parts(pending, most_chars)


def _leads(block: Block, *, captions_follow: bool) -> bool:
    if block.kind == "caption" or _CAPTION.match(block.text):
        return not captions_follow and len(block.text) <= MOST_CAPTION_CHARS
    introduces = block.text.endswith((":", "：")) and len(block.text) <= 2 * MOST_CAPTION_CHARS
    return block.kind == "heading" or introduces or is_unit_line(block.text)


def _text_parts(blocks: Sequence[Block], most_chars: int) -> list[_Part]:
    """Runs of blocks below the same heading; small ones are joined with their neighbour, headings with what follows."""
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


def _belong_together(one: _Part, other: _Part, most_chars: int) -> bool:
    if one.chars + 1 + other.chars > most_chars or one.blocks[0].page != other.blocks[0].page:
        return False
    if one.only_headings or other.only_headings:
        return True
    paths = [one.heading_path, other.heading_path]
    shared = _common(paths)
    related = bool(shared) or shared in paths  # below one heading, or one part above the heading of the other
    return related and min(one.chars, other.chars) < most_chars // SMALL_SHARE


def _path_below(block: Block) -> tuple[str, ...]:
    """Headings that text right below the block stands below."""
    path = block.place.heading_path
    return (*path, " ".join(block.text.split())) if block.kind == "heading" else path


def _common(paths: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """What all paths begin with."""
    return tuple(commonprefix(paths))  # noqa: RUF071 of tuples, not of paths


class _Cutter(NamedTuple):
    """Cuts parts into drafts."""

    chunk_chars: int
    overlap_chars: int

    def text(self, part: _Part) -> Iterator[_Draft]:
        """Chunks of running text, small sections joined before."""
        text = "\n".join(block.text for block in part.blocks)
        # where each block ends in the joined text
        ends = [end - 1 for end in accumulate(len(block.text) + 1 for block in part.blocks)]
        for start, end in split_text(text, most_chars=self.chunk_chars, overlap_chars=self.overlap_chars):
            used = part.blocks[bisect_right(ends, start) : bisect_left(ends, end) + 1]
            yield _draft("text", text[start:end], used, part.heading_path)

    def table(self, part: _Part, table: Table) -> Iterator[_Draft]:
        """Chunks of a table, each with what leads to it."""
        assert part.table is not None
        lead = [line for block in part.blocks for line in block.text.splitlines()]
        if not part.table.cells:
            lead += part.table.text.splitlines()
        cells = part.table.place.cells
        span = _RANGE.search(cells) if cells else None
        for piece in cut_table(table, lead=lead, most_chars=self.chunk_chars):
            draft = _draft("table", piece.text, (*part.blocks, part.table), part.heading_path)
            own = cells
            if cells and span and piece.rows and span["bottom"]:
                first, last = (int(span["top"]) + row for row in piece.rows)
                own = f"{cells[: span.start()]}{span['left']}{first}:{span['right']}{last}"
            yield draft._replace(cells=own, sentences=piece.sentences)

    def figures(self, figures: Sequence[FigureText]) -> Iterator[_Draft]:
        """Chunks of what was read from pictures; each begins with the label of its picture."""
        for figure in sorted(figures, key=lambda figure: figure.n):
            label = figure_label(figure.page, figure.n)
            room = max(self.chunk_chars - len(label) - 1, self.overlap_chars + 1)
            for start, end in split_text(figure.text, most_chars=room, overlap_chars=0):
                yield _Draft("figure", f"{label}\n{figure.text[start:end]}", figure.page, figure.bbox)

    def margins(self, document: Document) -> Iterator[_Draft]:
        """The headers and footers of the first page that has any, if they say more than a page number."""
        blocks = [block for page in document.pages for block in page.blocks if block.kind in ("header", "footer")]
        first = [block for block in blocks if block.page == blocks[0].page]
        told = {block.text: block for block in first if sum(sign.isalpha() for sign in block.text) > 3}
        if told:
            yield from self.text(_Part(tuple(told.values())))


def _draft(kind: Literal["text", "table"], text: str, blocks: Sequence[Block], heading_path: tuple[str, ...]) -> _Draft:
    first, boxes = blocks[0], [block.bbox for block in blocks if block.bbox]
    bbox = None
    if boxes:
        left, top, right, bottom = zip(*boxes, strict=True)
        bbox = (min(left), min(top), max(right), max(bottom))
    # in a spreadsheet, from the first block's cells to the last's
    named = [block.place.cells for block in blocks if block.place.cells]
    ranges = [match for cells in named if (match := _RANGE.search(cells))]
    cells = ranges[0].string if ranges else next(iter(named), None)
    if len(ranges) > 1:
        begin, end = ranges[0], ranges[-1]
        corner = f"{end['right'] or end['left']}{end['bottom'] or end['top']}"
        cells = f"{begin.string[: begin.start()]}{begin['left']}{begin['top']}:{corner}"
    return _Draft(kind, text, first.page, bbox, heading_path, first.place.section, first.place.block, cells)


_RANGE = re.compile(r"(?P<left>[A-Z]+)(?P<top>\d+)(?::(?P<right>[A-Z]+)(?P<bottom>\d+))?$")
"""What the name of the cells of a spreadsheet ends with."""
