"""Cuts chunks into passages that may answer: sentences, table rows and lists of items."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tasks.language.marks import drop_marks, find_marks, mark_of_note
from tasks.language.sentences import split_sentences
from tasks.rag.indexing.chunk_pieces import is_unit_line
from tasks.rag.indexing.chunks import Chunk
from tasks.rag.retrieval.search import Hit

MOST_CHUNK_CHARS = 20_000
"""Characters of a chunk, from its beginning, that are read for an answer."""
MOST_PASSAGES = 400
"""Most passages that are read from one chunk."""
MOST_UNIT_CHARS = 60
MOST_NAME_CHARS = 20
"""Most characters of a cell that names a column."""
MOST_LABEL_CHARS = 60
_DOTTED = re.compile(r"[.·…‥]{5,}\s*\d*\s*$|(?:\s\.){5,}")  # leaders of a table of contents
_UNIT_WITHIN = re.compile(
    r"[(\[<（［]\s*((?:단위\s*[:：]|unit\s*[:：]|(?:amounts?|dollars|figures|\$|US\$|€|in|expressed)\b[^)\]]{0,40}?"
    r"\b(?:millions|thousands|billions))[^)\]>）］]{0,40})\s*[)\]>）］]",
    re.IGNORECASE,
)
"""A unit in brackets behind a caption: `Table 3. Net sales ($ in millions)`."""
_ITEM = re.compile(r"^\s*(?:[-–○●□■▪▶◦·•*※❍◇◆▷]|[(（]?(?:\d{1,2}|[a-z]|[가-하])[.)）]|[①-⑳])\s+(?=\S)")
_REFERS = re.compile(
    r"(?:\(?(?:please |also )?(?:see|refer to|for (?:more|further|additional) (?:information|detail|discussion))"
    r".{0,120}?\b(?:notes?|items?|parts?|sections?|pages?|exhibits?|tables?|appendix|proxy statement)\b"
    r"|the information required by|.{0,160}\bincorporated (?:herein )?by reference\b"
    r"|.{0,60}(?:참조|참고)(?:하|한다|바랍니다|[).]*$))",
    re.IGNORECASE,
)
"""A sentence that only points to another place."""
_CELL = " | "
_BRACKETED = re.compile(r"\s*\(([a-z\d]\d?)\)$")
_BARE_ROW = re.compile(r"\D.*?(?:\s+[$₩€(△-]*\d[\d,.]*[)%]*){1,}", re.DOTALL)


class Passage(NamedTuple):
    """A sentence or a table row that may answer."""

    text: str
    """Verbatim: a part of the chunk's text, or one of its rows as a sentence; or a row's label and `note`."""
    is_row: bool = False
    """Whether it is a row of a table."""
    before: str = ""
    """The sentence before it; of a row the lines above the table, of a list the line that introduces it."""
    unit: str = ""
    """What the numbers of its table count, as the document says: `단위: 천원`, `dollars in thousands`."""
    is_label: bool = False
    """Whether it is a heading, caption, unit line or entry of a table of contents, which states nothing."""
    is_title: bool = False
    """Whether all of its words are capitalised: a title, or a line of a form such as `Medical Monitor Kwame Asante`."""
    is_list: bool = False
    """Whether it is a list, with all of its items; the line that introduces it is in `before`."""
    names: tuple[str, ...] = ()
    """Column names of a row whose table has no recognised header, the cells of its first row."""
    note: str = ""
    """The note that the mark of a row names, which its hit holds."""
    above: str = ""
    """The headings above it, joined by `›`."""
    hit: int = 0
    """Position of its hit."""
    place: int = 0
    """Position of the passage among those of its hit, from 0."""

    @property
    def text_with_context(self) -> str:
        """The passage with its context: a row with its column names, a list with the line that introduces it."""
        return " ".join((self.text, *self.names, self.before if self.is_list else ""))


def read_passages(hits: Sequence[Hit]) -> list[Passage]:
    """Return the passages of the hits, in their order, at most MOST_PASSAGES of each."""
    passages: list[Passage] = []
    notes: dict[tuple[str, int | None], dict[str, Passage]] = defaultdict(dict)
    for number, hit in enumerate(hits):
        for line in hit.chunk.text[:MOST_CHUNK_CHARS].splitlines():
            if _CELL not in line and (mark := mark_of_note(line)):
                note = Passage("", True, hit=number, place=MOST_PASSAGES, note=line.strip())
                notes[hit.chunk.document, hit.chunk.page].setdefault(mark, note)
    for number, hit in enumerate(hits):
        read = list(_rows(hit.chunk) if hit.chunk.sentences else _sentences(hit.chunk))[:MOST_PASSAGES]
        passages += [
            passage._replace(hit=number, place=place, above=" › ".join(hit.chunk.heading_path))
            for place, passage in enumerate(read)
            if passage.text.strip()
        ]
        # the note of a row tells of what the row is
        for label in [passage.text.partition(" — ")[0] for passage in read if passage.is_row]:
            marks = [mark[1] for mark in _BRACKETED.finditer(label)] or find_marks(label)
            for note in filter(None, map(notes[hit.chunk.document, hit.chunk.page].get, marks)):
                passages.append(note._replace(text=f"{_BRACKETED.sub('', label)} — {note.note}"))
    return passages


def is_of_numbers(passage: Passage) -> bool:
    """Return whether a passage is a row of a table without words behind its label: two of them in one cell."""
    values = [cell.rpartition(": ")[2] for cell in cells_of(passage.text)[1:]]
    return passage.is_row and not any(re.search(r"[^\W\d_]{2,}\s[^\W\d_]{2,}", value) for value in values)


def _rows(chunk: Chunk) -> Iterator[Passage]:
    """Yield the lines that introduce a table or stand beside it, then its rows."""
    lines = chunk.text[:MOST_CHUNK_CHARS].splitlines()
    lead = [line for line in lines if _CELL not in line]
    unit = _unit_of(lead)
    header = next((line for line in lines if _CELL in line), "")
    for line in lead:
        for start, end in split_sentences(line):
            yield Passage(line[start:end], is_label=_names_only(line, chunk), is_title=_is_title(line))
    context = "\n".join((*(line for line in lead if len(line) <= 200), header))
    names = _column_names(chunk.sentences)
    for place, sentence in enumerate(chunk.sentences):
        is_label = (bool(names) and place == 0) or _without_words(sentence)
        yield Passage(sentence, True, context, unit, is_label, names=names)


def _sentences(chunk: Chunk) -> Iterator[Passage]:
    """Yield the lists of a text, then its sentences, each with the one before it."""
    text = chunk.text[:MOST_CHUNK_CHARS]
    yield from _lists(text)
    before, unit = "", ""
    for start, end in split_sentences(text):
        sentence = text[start:end]
        unit = _unit_of([sentence]) or unit
        # a row of a table that has lost its lines: a label, then bare numbers
        is_row = len(sentence) <= 160 and _BARE_ROW.fullmatch(drop_marks(sentence))
        label, title = _names_only(sentence, chunk), _is_title(sentence)
        yield Passage(sentence, False, before, unit if is_row else "", label, title)
        before = sentence


def _lists(text: str) -> Iterator[Passage]:
    """Yield the items of each list, with the line that introduces it; a list of one item is none."""
    lead, start, end, count = "", 0, 0, 0
    for line in re.finditer(r"[^\n]+", text):
        item = _ITEM.match(line.group())
        if item and not _DOTTED.search(line.group()):
            start, end, count = (start if count else line.start()), line.end(), count + 1
            continue
        if count > 1:
            yield Passage(text[start:end].strip(), before=lead, is_list=True)
        lead, count = line.group().strip(), 0
    if count > 1:
        yield Passage(text[start:end].strip(), before=lead, is_list=True)


def items_of(text: str) -> list[str]:
    """Return the items of a list, without their marks."""
    return [" ".join(_ITEM.sub("", line).split()) for line in text.splitlines() if line.strip()]


def _column_names(rows: Sequence[str]) -> tuple[str, ...]:
    """Return the cells of the first row if it names columns and no row says those names itself; else nothing."""
    # rows of `name: value` have a header that was recognised; a first row with digits is none
    if len(rows) < 2 or any(": " in row for row in rows) or re.search(r"\d", rows[0]):
        return ()
    cells = cells_of(rows[0])
    equal_rows = [row for row in rows[1:] if len(cells_of(row)) == len(cells)]
    short = all(0 < len(cell) <= MOST_NAME_CHARS for cell in cells)  # names of columns, not sentences
    return cells if short and len(cells) > 2 and 2 * len(equal_rows) > len(rows) - 1 else ()


def cells_of(row: str) -> tuple[str, ...]:
    """Return the cells of a row that is written without names: `label — value; value`."""
    label, dash, rest = row.partition(" — ")
    return (label, *rest.split("; ")) if dash else (label,)


def _unit_of(lines: Sequence[str]) -> str:
    """Return what the last unit line among `lines` says, without its brackets; empty where there is none."""
    for line in reversed(lines):
        if within := _UNIT_WITHIN.search(line):
            return within[1].strip()
        if is_unit_line(line) and len(line) <= MOST_UNIT_CHARS:
            return line.strip().strip("()[]<>（）［］ ").strip()
    return ""


def _names_only(line: str, chunk: Chunk) -> bool:
    """Return whether a line states nothing: a heading, unit line, reference or entry of a table of contents."""
    flat = " ".join(line.split())
    return bool(
        flat in {" ".join(heading.split()) for heading in chunk.heading_path}
        or is_unit_line(line)
        or _without_words(flat)
        or (flat.endswith((",", ":")) and len(flat) <= MOST_LABEL_CHARS)
        or _DOTTED.search(flat)
        or _REFERS.match(flat)
        or re.match(r"[<\[(〈]\s*(?:표|그림|별표|서식)\s", flat)
    )


def _is_title(line: str) -> bool:
    """Return whether all words of a line are capitalised, and it states no number but a year or date."""
    words = re.findall(r"[^\W\d_]{4,}", line)
    cased = len(words) >= 3 and all(word[0].isupper() for word in words)
    return cased and not re.search(r"[.:;=|]\s|[.:;]$|[$₩€£%]|\d,\d", " ".join(line.split()))


def _without_words(line: str) -> bool:
    """Return whether a line holds only numbers, years and dates: the scale of a chart, a header, page numbers."""
    return not re.search(r"[^\W\d_]{2,}", re.sub(r"\d\s?(?:년|월|일|기|분기|%|Q|FY)", "", line))
