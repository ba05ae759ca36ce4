"""What a reader sees of the passages that were found: cells of tables with their labels, and values of sentences."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from tasks.language.numbers import CALENDAR, Number, read_numbers, written_value
from tasks.language.sentences import split_sentences
from tasks.language.tokens import Stems
from tasks.rag.retrieval.search import Hit

MOST_SENTENCES = 120
"""Sentences that are read, those of the best passages first."""
MOST_CELLS = 3_000
YEARS = re.compile(r"(?<![\d,.])((?:19|20)\d\d)(?![\d,]|\.\d)|\b(?:FY|CY)\s?['’]?(\d\d)\b", re.IGNORECASE)
_ONE = Decimal(1)
AROUND_BEFORE, AROUND_BEHIND = 50, 40
"""Characters around a value of a sentence whose words and years are taken for its own."""


def words_of(text: str) -> list[str]:
    """Return the words of a text in small letters, without punctuation."""
    return "".join(char if char.isalnum() else " " for char in text.lower()).split()


def years_of(text: str) -> list[int]:
    """Return the years that a text names, each once, in their order: 2019, FY19."""
    return list(dict.fromkeys(int(full or f"20{short}") for full, short in YEARS.findall(text)))


class Amount(NamedTuple):
    """A number as a page prints it."""

    printed: Decimal
    """The number as printed: 4,822 of a table in millions is 4822; (868) is -868; 12 % is 12."""
    factor: Decimal
    """Factor that turns `printed` into whole units: 1000000 in a table in millions."""
    unit: str
    """`USD`, `KRW`, `%`, `shares` …; empty where nothing tells."""


def amount_of(number: Number) -> Amount:
    """Return a number of a text as an amount: 5.2 million is printed 5.2, its factor 1000000."""
    written = written_value(number)
    printed = abs(number.value) if written is None else abs(written)
    return Amount(printed.copy_sign(number.value), abs(number.value) / printed if printed else _ONE, number.unit)


class Cell(NamedTuple):
    """A cell of a table, or a value in a sentence."""

    row: int
    """Index of its row among the page's rows; of its sentence among the sentences."""
    column: int
    """Index of its column among the page's columns; -1 in a sentence."""
    text: str
    amount: Amount | None
    years: frozenset[int]
    words: frozenset[str]
    """Stems of its row path and column heads, or of its sentence."""
    near: frozenset[str]
    """Stems of its column heads, or of the words around a value of a sentence."""
    is_label: bool = False
    """Whether it names its row."""
    record: Mapping[str, Any] = {}
    """The row of storage.numbers that it comes from; empty for a value of a sentence."""


class Row(NamedTuple):
    """A row of a table: its number there, 0-based, its label with those above it, and its cells."""

    table: int
    number: int
    name: str
    path: tuple[str, ...]
    cells: tuple[int, ...]
    """Indices of its cells, from left to right."""


class Column(NamedTuple):
    """A column of a table: its number there, 0-based, its header cells and its cells."""

    table: int
    number: int
    heads: tuple[str, ...]
    cells: tuple[int, ...]
    """Indices of its cells, from top to bottom."""


class Sentence(NamedTuple):
    """A sentence of a passage, with the number of its hit and its offset there."""

    text: str
    hit: int
    start: int
    """Offset in the text of its chunk."""


class Standing(NamedTuple):
    """How a document stands among those that were found for a question."""

    is_named: bool = True
    """Whether the question names its documents, or the caller chose them."""
    place: float = 1.0
    """1 for the document that was found first, 1/2 for the second …"""
    share: float = 1.0
    """Share of the hits that are of this document, 0 … 1."""
    lead: float = 1.0
    """Share of the hits that stand before any of another document; below 0 the share that stands before its own."""
    distance: float = 1.0
    """How much higher its best hit scores than any of another document, as a share of the higher score: -1 … 1."""


ALONE = Standing()


def compare_documents(hits: Sequence[Hit], *, is_named: bool) -> dict[str, Standing]:
    """Return how each document of the hits stands among the others, those found first at the front."""
    documents = [hit.chunk.document for hit in hits]
    first = {document: documents.index(document) for document in dict.fromkeys(documents)}
    standings: dict[str, Standing] = {}
    for place, (document, start) in enumerate(first.items()):
        other = next((at for at, each in enumerate(documents) if each != document), None)
        if other is None:
            standings[document] = Standing(is_named)
            continue
        own, best = hits[start].score, hits[other].score
        top = max(abs(own), abs(best)) or 1.0
        standings[document] = Standing(
            is_named,
            1 / (1 + place),
            documents.count(document) / len(documents),
            (other if start == 0 else -start) / len(documents),
            max(-1.0, min(1.0, (own - best) / top)),
        )
    return standings


class Page:
    """The cells and sentences of the passages of one document that were found for a question."""

    def __init__(
        self,
        hits: Sequence[Hit],
        records: Sequence[Mapping[str, Any]],
        stems: Stems,
        *,
        documents: Sequence[str] = (),
        standing: Standing = ALONE,
    ) -> None:
        """hits: best first. records: rows of storage.numbers, of the tables that hits are of, and of further ones.

        documents: digests of those that the question means, the surest first; empty where it names none.
        """
        self.hits, self.stems, self.standing = hits, stems, standing
        self._fit = {document: 1 / (1 + place) for place, document in enumerate(documents)}
        self.sentences = _read_sentences(hits)
        ranks: dict[tuple[str, int], int] = {}
        for rank, hit in enumerate(hits):
            if hit.chunk.table is not None:
                ranks.setdefault((hit.chunk.document, hit.chunk.table), rank)
        for record in records:  # a statement that no passage is of
            if record["document"] == hits[0].chunk.document:
                ranks.setdefault((record["document"], record["table"]), len(hits))
        self.tables = list(ranks)
        """Document and number of each table, those of the best passages first."""
        self.ranks = list(ranks.values())
        order = {table: at for at, table in enumerate(self.tables)}
        rows = [record for record in records if (record["document"], record["table"]) in order]
        rows.sort(key=lambda record: (order[record["document"], record["table"]], record["row"], record["col"]))
        self._lay_out(rows[:MOST_CELLS], order)
        self._add_sentences()

    def _lay_out(self, records: Sequence[Mapping[str, Any]], order: Mapping[tuple[str, int], int]) -> None:
        """Set cells, rows and columns from the records of tables; order: the number of each (document, table)."""
        stems = self.stems
        heads_of = [tuple(record["column_path"] or ()) for record in records]
        paths_of = [tuple(record["row_path"] or ()) for record in records]
        stems.add([*(text for texts in (*heads_of, *paths_of) for text in texts), *(s.text for s in self.sentences)])
        rows: dict[tuple[int, int], list[int]] = {}
        columns: dict[tuple[int, int, tuple[str, ...]], list[int]] = {}
        at_row: list[tuple[int, int]] = []
        for at, record in enumerate(records):
            table = order[record["document"], record["table"]]
            rows.setdefault((table, record["row"]), []).append(at)
            # a table may name its columns anew further down
            columns.setdefault((table, record["col"], heads_of[at]), []).append(at)
            at_row.append((table, record["row"]))
        row_index = {key: index for index, key in enumerate(rows)}
        column_index = {key: index for index, key in enumerate(columns)}
        self.cells: list[Cell] = []
        for at, record in enumerate(records):
            table, number = at_row[at]
            path, heads = paths_of[at], heads_of[at]
            value = record["value"]
            amount = None
            if value is not None:
                factor = record["scale"] or _ONE
                amount = Amount(value / factor, factor, record["unit"] or "")
            period = record["period"]
            own = [period["year"]] if period else []
            years = frozenset(own or [*years_of(" ".join(heads)), *years_of(" ".join(path))])
            near = stems_of_all(stems, heads)
            is_label = value is None and bool(path) and record["shown"] == path[-1]
            words = stems_of_all(stems, path) | near
            row, column = row_index[table, number], column_index[table, record["col"], heads]
            self.cells.append(Cell(row, column, record["shown"], amount, years, words, near, is_label, record))
        self.rows = [
            Row(table, number, (paths_of[ats[0]] or ("",))[-1], paths_of[ats[0]], tuple(ats))
            for (table, number), ats in rows.items()
        ]
        self.columns = [Column(table, number, heads, tuple(ats)) for (table, number, heads), ats in columns.items()]

    def _add_sentences(self) -> None:
        """Append a cell without a column for each amount in the sentences, with the years around it."""
        for number, sentence in enumerate(self.sentences):
            text = sentence.text
            values = [each for each in read_numbers(text) if each.unit not in (*CALENDAR, "year", "time")]
            values = [each for each in values if not YEARS.fullmatch(each.text.strip())]
            stated = years_of(text)
            whole = frozenset(self.stems.of(text))
            for place, each in enumerate(values):
                around = text[max(0, each.start - AROUND_BEFORE) : each.end + AROUND_BEHIND]
                years = years_of(around) or stated[:1]
                if stated and "respectively" in text and len(values) % len(stated) == 0:
                    years = [stated[place % len(stated)]]
                near = frozenset(self.stems.of(around))
                self.cells.append(Cell(number, -1, each.text.strip(), amount_of(each), frozenset(years), whole, near))

    @cached_property
    def rarity(self) -> Mapping[str, float]:
        """Log of how rare each stem is among rows, columns and sentences."""
        units = [
            *(frozenset(self.stems_of_row(row)) for row in self.rows),
            *(stems_of_all(self.stems, column.heads) for column in self.columns),
            *(frozenset(self.stems.of(sentence.text)) for sentence in self.sentences),
        ]
        counts: dict[str, int] = {}
        for unit in units:
            for word in unit:
                counts[word] = counts.get(word, 0) + 1
        self.rarest = math.log(1 + len(units))
        return {word: math.log(1 + len(units) / count) for word, count in counts.items()}

    def stems_of_row(self, row: Row) -> frozenset[str]:
        """Return the stems of a row's path and of the words in its cells."""
        texts = [self.cells[at].text for at in row.cells if self.cells[at].amount is None]
        return stems_of_all(self.stems, (*row.path, *texts))

    @cached_property
    def label_stems(self) -> frozenset[str]:
        """Stems of all row paths and column heads."""
        labels = {
            *(text for row in self.rows for text in row.path),
            *(h for column in self.columns for h in column.heads),
        }
        return stems_of_all(self.stems, labels)

    @cached_property
    def latest(self) -> int:
        """The latest year of the tables; 0 without any."""
        return max((year for cell in self.cells if cell.column >= 0 for year in cell.years), default=0)

    @cached_property
    def document_fit(self) -> float:
        """How well its document fits the question: 1 for the surest one, less for others, 0 for none of them."""
        return self._fit.get(self.hits[0].chunk.document, 0.0) if self._fit else 1.0

    def hit_of(self, cell: Cell) -> int:
        """Return the rank of the hit that a cell is of, 0 for the best; the number of hits where it is of none."""
        return self.sentences[cell.row].hit if cell.column < 0 else self.ranks[self.rows[cell.row].table]


def stems_of_all(stems: Stems, texts: Iterable[str]) -> frozenset[str]:
    """Return the stems of several texts."""
    return frozenset(stem for text in texts for stem in stems.of(text))


def _read_sentences(hits: Sequence[Hit]) -> list[Sentence]:
    """Return the first MOST_SENTENCES sentences of the hits, each once; of a table the lines around it."""
    sentences: dict[str, Sentence] = {}
    for number, hit in enumerate(hits):
        text = hit.chunk.text
        for start, end in split_sentences(text):
            part = text[start:end].strip()
            if hit.chunk.table is not None and (" | " in part or "\n" in part):
                continue
            if part and any(char.isalnum() for char in part):
                sentences.setdefault(part, Sentence(part, number, start))
    return list(sentences.values())[:MOST_SENTENCES]


_ASKING = {
    "얼마 동안": "how long", "얼마": "how much", "몇": "how many", "누구": "who", "언제": "when", "어디": "where",
    "어느": "which", "어떤": "which", "무엇": "what", "무슨": "what", "왜": "why",
}  # fmt: skip
_WH = frozenset(["what", "which", "how", "who", "when", "where", "why"])
_LIGHT_WORDS = """
a an the of to in on at for from by with and or as is are was were be been did does do has have had it its their there
this that these those what which who when where why how many much respectively between than during
"""
_LIGHT = frozenset(_LIGHT_WORDS.split())
"""Closed-class words that are skipped between a question word and the noun behind it."""


class Question:
    """A question with the words that decide what it asks for."""

    def __init__(self, text: str, stems: Stems, names: Iterable[str] = ()) -> None:
        """names: how the question names its documents; their words are asked of no cell."""
        self.text = text
        self.words = words_of(text)
        self.years = years_of(text)
        stated = {*map(str, self.years), *(stem for name in names for stem in stems.of(name))}
        self.stems = [stem for stem in stems.of(text) if stem not in stated]
        self.bag = frozenset(self.stems)
        stems.add(self.words)
        self.word_stems = [stems.of(word) for word in self.words]
        self.wh = next((word for word in self.words if word in _WH), "")
        behind = self.words[self.words.index(self.wh) + 1 :] if self.wh else []
        if self.wh == "how" and behind:
            self.wh, behind = f"how {behind[0]}", behind[1:]
        if not self.wh:
            self.wh = next((asking for word, asking in _ASKING.items() if word in text), "")
        noun = next((word for word in behind if word not in _LIGHT), "")
        self.noun = next(iter(stems.of(noun)), noun) if noun else ""
        values = [each for each in read_numbers(text) if each.unit not in (*CALENDAR, "year", "time")]
        self.amounts = [amount_of(each) for each in values if not YEARS.fullmatch(each.text.strip())]
        shares = ("percent", "proportion", "퍼센트", "비율", "비중")
        self.percent = "%" in text or any(word.startswith(shares) for word in self.words)


@lru_cache(200_000)
def words_in_order(text: str) -> tuple[str, ...]:
    """Return `words_of` as a tuple, computed once for a text."""
    return tuple(words_of(text))
