"""Scores how well passages answer a question, by its words and by the kind of answer it asks for."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tasks.language.sentences import split_sentences
from tasks.language.tokens import BIGRAM, HANGUL, tokenize
from tasks.rag.answering.question_reading import DATE, NUMBER, NUMBER_WORDS, REASON, SIGNS, Question, Term
from tasks.rag.indexing.chunk_pieces import is_unit_line
from tasks.rag.indexing.chunks import Chunk
from tasks.rag.retrieval.search import Hit

MOST_CHUNK_CHARS = 20_000
"""Characters of a chunk, from its beginning, that are read for an answer."""
MOST_PASSAGES = 400
"""Passages read from one chunk."""
MOST_UNIT_CHARS = 60
MOST_NAME_CHARS = 20
"""Maximum length of a cell that names a column."""
MOST_LABEL_CHARS = 60
_DOTTED = re.compile(r"[.·…‥]{5,}\s*\d*\s*$|(?:\s\.){5,}")
_UNIT_WITHIN = re.compile(
    r"[(\[<（［]\s*((?:단위\s*[:：]|unit\s*[:：]|(?:amounts?|dollars|figures|\$|US\$|€|in|expressed)\b[^)\]]{0,40}?"
    r"\b(?:millions|thousands|billions))[^)\]>）］]{0,40})\s*[)\]>）］]",
    re.IGNORECASE,
)
"""A unit in brackets behind a caption: `Table 3. Net sales ($ in millions)`."""
_CELL = " | "
_BARE_ROW = re.compile(r"\D.*?(?:\s+[$₩€(△-]*\d[\d,.]*[)%]*){1,}", re.DOTALL)


class Passage(NamedTuple):
    """A sentence or a table row that may answer."""

    text: str
    """Verbatim: a part of the chunk's text, or one of its rows as a sentence."""
    is_row: bool = False
    before: str = ""
    """The sentence before, or the lines above the table."""
    unit: str = ""
    """What the numbers of its table count, as the document says: `단위: 천원`, `dollars in thousands`."""
    is_label: bool = False
    """A heading, caption, unit line or entry of a table of contents: it states nothing."""
    names: tuple[str, ...] = ()
    """Column names of a row whose table has no recognized header: the cells of the table's first row."""
    above: str = ""
    hit: int = 0
    place: int = 0


def read_passages(hits: Sequence[Hit]) -> list[Passage]:
    """All passages of the hits, in their order."""
    passages: list[Passage] = []
    for number, hit in enumerate(hits):
        read = _rows(hit.chunk) if hit.chunk.sentences else _sentences(hit.chunk)
        passages += [
            passage._replace(hit=number, place=place, above=" › ".join(hit.chunk.heading_path))
            for place, passage in enumerate(list(read)[:MOST_PASSAGES])
            if passage.text.strip()
        ]
    return passages


def _rows(chunk: Chunk) -> Iterator[Passage]:
    """The lines that lead to a table or stand beside it, then its rows."""
    lines = chunk.text[:MOST_CHUNK_CHARS].splitlines()
    lead = [line for line in lines if _CELL not in line]
    unit = _unit_of(lead)
    header = next((line for line in lines if _CELL in line), "")
    for line in lead:
        for start, end in split_sentences(line):
            yield Passage(line[start:end], is_label=_names_only(line, chunk))
    around = "\n".join((*(line for line in lead if len(line) <= 200), header))
    names = _column_names(chunk.sentences)
    for place, sentence in enumerate(chunk.sentences):
        is_label = (bool(names) and place == 0) or _without_words(sentence)
        yield Passage(sentence, True, around, unit, is_label, names)


def _sentences(chunk: Chunk) -> Iterator[Passage]:
    text = chunk.text[:MOST_CHUNK_CHARS]
    before, unit = "", ""
    for start, end in split_sentences(text):
        sentence = text[start:end]
        unit = _unit_of([sentence]) or unit
        # a row of a table that has lost its lines: a label, then bare numbers
        is_row = len(sentence) <= 160 and _BARE_ROW.fullmatch(sentence)
        yield Passage(sentence, False, before, unit if is_row else "", _names_only(sentence, chunk))
        before = sentence


def _column_names(rows: Sequence[str]) -> tuple[str, ...]:
    """The cells of the first row if it names columns and no row says those names itself."""
    if len(rows) < 2 or any(": " in row for row in rows) or re.search(r"\d", rows[0]):
        return ()
    cells = cells_of(rows[0])
    same = [row for row in rows[1:] if len(cells_of(row)) == len(cells)]
    short = all(0 < len(cell) <= MOST_NAME_CHARS for cell in cells)
    return cells if short and len(cells) > 2 and 2 * len(same) > len(rows) - 1 else ()


def cells_of(row: str) -> tuple[str, ...]:
    """The cells of a row that was said without names: `label — value; value`."""
    label, dash, rest = row.partition(" — ")
    return (label, *rest.split("; ")) if dash else (label,)


def _unit_of(lines: Sequence[str]) -> str:
    """What the unit line among `lines` says, without its brackets."""
    for line in reversed(lines):
        if within := _UNIT_WITHIN.search(line):
            return within[1].strip()
        if is_unit_line(line) and len(line) <= MOST_UNIT_CHARS:
            return line.strip().strip("()[]<>（）［］ ").strip()
    return ""


def _names_only(line: str, chunk: Chunk) -> bool:
    flat = " ".join(line.split())
    return bool(
        flat in {" ".join(heading.split()) for heading in chunk.heading_path}
        or is_unit_line(line)
        or _without_words(flat)
        or (flat.endswith((",", ":")) and len(flat) <= MOST_LABEL_CHARS)
        or _DOTTED.search(flat)
        or re.match(r"[<\[(〈]\s*(?:표|그림|별표|서식)\s", flat)
    )


def _without_words(line: str) -> bool:
    """Numbers alone, or a row of years and dates: the scale of a chart, a header, the numbers of a page."""
    return not re.search(r"[^\W\d_]{2,}", re.sub(r"\d\s?(?:년|월|일|기|분기|%|Q|FY)", "", line))


# how much of a word's weight counts by where it stands
IN_TEXT, ABOVE, BEFORE, IN_NAME, IN_CHUNK, IN_DOCUMENT = 1.0, 0.8, 0.7, 0.8, 0.5, 0.3

FOCUS_WEIGHT = 0.5
KIND_WEIGHT = 0.35
COUNTER_WEIGHT = 0.15
RANK_WEIGHT = 0.3
LABEL_WEIGHT = 0.5
LEAST_RARITY = 0.2
STRANGE_PENALTY = 0.3
"""For a passage without any word of the question: it answers only together with what stands around it."""
MISSING_PENALTY = 0.3
"""For a passage with a name, year or number of the question nowhere near it."""
LABEL_PENALTY = 1.0
LENGTH_PENALTY = 0.1
"""For each doubling of a passage beyond LONG_CHARS."""
LONG_CHARS = 200
MOST_LINE_CHARS = 80
"""Longest line of text that may be a row of a table that has lost its lines."""


class Scored(NamedTuple):
    """A passage with its scores."""

    passage: Passage
    score: float
    """Higher answers better; comparable within one question."""
    coverage: float
    """Share of the question's words, by weight, that stand in the passage or lead to it: 0 … 1."""
    focus: float
    """The same for the words that name what is asked for, or, where that is unknown, for all but names."""
    answers_kind: bool
    """Whether it holds what is asked for: a number, a date …, that the question does not say itself."""
    held: frozenset[int]
    """Which words of the question stand in the passage itself, by their position."""
    missing: tuple[str, ...]
    """Names, years and numbers of the question that stand nowhere around the passage."""


def score_passages(question: Question, hits: Sequence[Hit], passages: Sequence[Passage]) -> list[Scored]:
    """Every passage with its scores, in the order given."""
    reader = _Reader(question.terms)
    around = _Around(reader, hits, passages)
    held = [reader.held(passage.text) for passage in passages]
    # a word weighs more, the fewer passages and the fewer surroundings hold it
    weights = [
        term.weight * (LEAST_RARITY + (1 - LEAST_RARITY) * math.sqrt(_rarity(at, held) * _rarity(at, around.contexts)))
        for at, term in enumerate(question.terms)
    ]
    return [_score(question, passage, weights, around) for passage in passages]


def _score(question: Question, passage: Passage, weights: Sequence[float], around: _Around) -> Scored:
    shares = around.shares(passage)
    everywhere = range(len(weights))
    focus = [at for at in everywhere if question.terms[at].focus]
    focus = focus or [at for at in everywhere if not question.terms[at].literal]
    coverage = _share(weights, shares, everywhere)
    asked = _share(weights, shares, focus)
    kind = not passage.is_label and _answers_kind(question, passage)
    score = coverage + FOCUS_WEIGHT * asked + KIND_WEIGHT * kind + COUNTER_WEIGHT * _counts(question, passage)
    held = around.reader.held(passage.text)
    score += LABEL_WEIGHT * around.label_share(passage, weights) - STRANGE_PENALTY * (not held)
    score += RANK_WEIGHT / (1 + 0.3 * passage.hit)
    score -= LABEL_PENALTY * passage.is_label + LENGTH_PENALTY * math.log2(
        max(len(passage.text), LONG_CHARS) / LONG_CHARS
    )
    # a number must stand in the chunk or its head, a name anywhere in the document
    missing = tuple(
        term.word
        for term, share in zip(question.terms, shares, strict=True)
        if term.literal and share < (IN_CHUNK if any(sign.isdigit() for sign in term.word) else IN_DOCUMENT)
    )
    score -= MISSING_PENALTY * bool(missing)
    return Scored(passage, score, coverage, asked, kind, held, missing)


def _share(weights: Sequence[float], shares: Sequence[float], chosen: Sequence[int]) -> float:
    total = sum(weights[at] for at in chosen)
    return sum(weights[at] * shares[at] for at in chosen) / total if total else 0.0


def _rarity(at: int, held: Sequence[frozenset[int]]) -> float:
    """0 for a word that all hold, 1 for a word that none does."""
    count, holding = len(held), sum(at in words for words in held)
    return math.log(1 + (count - holding + 0.5) / (holding + 0.5)) / math.log(1 + (count + 0.5) / 0.5)


class _Around:
    """Where the words of a question stand, seen from a passage."""

    def __init__(self, reader: _Reader, hits: Sequence[Hit], passages: Sequence[Passage]) -> None:
        self.reader, self._hits = reader, hits
        self._in_chunk: dict[int, frozenset[int]] = defaultdict(frozenset)
        self._in_document: dict[str, frozenset[int]] = defaultdict(frozenset)
        for passage in passages:
            held = reader.held(passage.text) | reader.held(passage.before) | reader.held(passage.above)
            self._in_chunk[passage.hit] |= held
            self._in_document[hits[passage.hit].chunk.document] |= held
        self.contexts = [held | reader.held_by_name(hits[hit].document_name) for hit, held in self._in_chunk.items()]
        """For each chunk, the words that it, its headings or its document's name hold."""

    def shares(self, passage: Passage) -> list[float]:
        """For each word, the share of its weight that counts here."""
        hit = self._hits[passage.hit]
        levels = (
            (IN_TEXT, self.reader.held(passage.text)),
            (ABOVE, self.reader.held(passage.above)),
            (BEFORE, self.reader.held(passage.before)),
            (IN_NAME, self.reader.held_by_name(hit.document_name)),
            (IN_CHUNK, self._in_chunk[passage.hit]),
            (IN_DOCUMENT, self._in_document[hit.chunk.document]),
        )
        return [next((share for share, held in levels if at in held), 0.0) for at in range(self.reader.count)]

    def label_share(self, passage: Passage, weights: Sequence[float]) -> float:
        """How much a row's label says of the question, and nothing else: `Total assets`, not `Total current assets`."""
        words = re.findall(r"[^\W_]+", _label(passage))
        if not words:
            return 0.0
        known = [held for word in words if (held := self.reader.held(word))]
        said = sum(weights[at] for at in frozenset[int]().union(*known))
        return len(known) / len(words) * said / (sum(weights) or 1.0)


def _label(passage: Passage) -> str:
    """What a row begins with, before its values; empty for a sentence."""
    label, dash, _ = passage.text.partition(" — ")
    if passage.is_row:
        return label if dash else passage.text.partition(": ")[0]
    value = re.search(r"\s[$₩€£(△-]*\d", passage.text)
    return passage.text[: value.start()] if value and len(passage.text) <= MOST_LINE_CHARS else ""


class _Reader:
    """Finds the words of a question in texts, as the index splits words but without its Korean tokenizer.

    Splitting twelve chunks with kiwi takes longer than all else; a Korean noun is found by its syllables, a verb by
    the letters of its stem at the start of a word.
    """

    def __init__(self, terms: Sequence[Term]) -> None:
        self.count = len(terms)
        self._split = {term.word: at for at, term in enumerate(terms) if not HANGUL.search(term.word)}
        self._korean = [(at, term.word) for at, term in enumerate(terms) if HANGUL.search(term.word)]
        self._stems = [(at, re.compile(rf"(?<!\w){re.escape(_letters(word))}")) for at, word in self._korean]
        self._signs = [(at, sign) for at, term in enumerate(terms) for names, sign in SIGNS if term.word in names]
        self._known: dict[str, frozenset[int]] = {}

    def held(self, text: str) -> frozenset[int]:
        """Which words of the question `text` holds, by their position."""
        if text not in self._known:
            self._known[text] = frozenset(self._find(text)) if text else frozenset()
        return self._known[text]

    def held_by_name(self, name: str) -> frozenset[int]:
        """The same for the name of a document, which may run words together: `BESTBUY_2023_10K.pdf`."""
        lowered = name.lower()
        within = (at for word, at in self._split.items() if len(word) >= 3 and word.isalpha() and word in lowered)
        return self.held(name) | frozenset(within)

    def _find(self, text: str) -> Iterator[int]:
        if self._split:
            (words,) = tokenize([text], tokenizer=BIGRAM)
            yield from (self._split[word] for word in words if word in self._split)
        yield from (at for at, sign in self._signs if sign.search(text))
        if self._korean and HANGUL.search(text):
            plain = re.sub(r"(?<=\d),(?=\d)", "", unicodedata.normalize("NFC", text))
            spaceless = plain.replace(" ", "")
            letters = _letters(plain)
            for (at, word), (_, stem) in zip(self._korean, self._stems, strict=True):
                if len(word) == 1:
                    found = re.search(rf"(?<![가-힣]){word}", plain)
                else:
                    found = word in plain or word in spaceless or stem.search(letters)
                if found:
                    yield at


def _letters(text: str) -> str:
    """Syllables taken apart, so that the stem 걸리 is found in 걸린다."""
    return unicodedata.normalize("NFD", text)


def _answers_kind(question: Question, passage: Passage) -> bool:
    text = passage.text
    match question.wants:
        case "number":
            return bool(_new_numbers(question, text)) or bool(NUMBER_WORDS.search(text))
        case "date":
            return bool(DATE.search(text)) and bool(_new_numbers(question, text) or NUMBER_WORDS.search(text))
        case "why":
            return bool(REASON.search(text))
        case _:
            return True


def _new_numbers(question: Question, text: str) -> list[str]:
    """Numbers of the text that the question does not say; one that opens a list item or numbers a section is none."""
    body = re.sub(r"^\s*(?:[-○●□■▪▶◦·•*※]\s*)?[(（]?\d{1,3}(?:[.-]\d{1,3})*[.)）]+\s", "", text)
    numbers = (match.group().replace(",", "") for match in NUMBER.finditer(body))
    return [number for number in numbers if number not in question.numbers]


def _counts(question: Question, passage: Passage) -> bool:
    """Whether a number of what is counted stands in the passage: `158개소` for 몇 개소."""
    counter = question.counter
    if not counter or (not HANGUL.search(counter) and counter.isascii()):
        return False
    counted = rf"(?:\d|[십백천만억])\s?(?:여\s?)?{re.escape(counter)}"
    return bool(re.search(counted, passage.text)) or counter in passage.unit or counter in passage.before
