"""Describes each cell of a page by how well it fits a question: numbers that a fitted scorer reads."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tasks.rag.numbers.concepts import label_of, mentions, score_concepts
from tasks.rag.reading.pages import Cell, Page, Question, words_in_order, words_of

ROW_FEATURES = (
    "row coverage", "row precision", "row run", "path coverage", "parent coverage", "row words beyond", "noun in row",
    "row text coverage", "row position", "row rank of table",
)  # fmt: skip
COLUMN_FEATURES = (
    "column coverage", "column precision", "column run", "column words beyond", "noun in head", "column from left",
    "column from right",
)  # fmt: skip
OWN_FEATURES = (
    "years matched", "years clash", "question has years", "cell has years", "latest", "uncovered", "in sentence",
    "label", "number", "percent", "percent asked", "currency", "said in question", "how many x number",
    "who x text", "when x period", "rows", "words known", "hit rank", "document fit", "line asked", "another line",
    "lines asked", "statement of the line",
)  # fmt: skip
RELATIVE = ("uncovered", "row coverage", "row precision", "column coverage", "path coverage")
"""Features that come once more as the distance to the best of the page."""
CELL_FEATURES = (*ROW_FEATURES, *COLUMN_FEATURES, *OWN_FEATURES, *(f"{name} to best" for name in RELATIVE))
AT = {name: place for place, name in enumerate(CELL_FEATURES)}
Features = NDArray[np.float32]


class Weigher(NamedTuple):
    """Weighs words by their rarity on a page."""

    page: Page
    question: Question

    def weigh(self, words: Iterable[str]) -> float:
        """Return the sum of the words' rarities."""
        rarity, rarest = self.page.rarity, self.page.rarest
        return math.fsum(rarity.get(word, rarest) for word in words)  # whatever the order of a set

    @property
    def whole(self) -> float:
        """Sum of the weights of the question's words; 1 where it is 0, since shares are divided by it."""
        return self.weigh(self.question.bag) or 1.0

    def cover(self, words: frozenset[str], whole: float) -> float:
        """Return the share of the question that some words hold."""
        return self.weigh(self.question.bag & words) / whole

    def measure_fit(self, words: frozenset[str]) -> float:
        """Return the share of some words that the question holds."""
        return self.weigh(self.question.bag & words) / (self.weigh(words) or 1.0)


def longest_run(phrase: Sequence[str], question_run: str) -> float:
    """Return the share of a phrase's words in one run of the question; question_run: its words between spaces."""
    best = 0
    for start in range(len(phrase)):
        for end in range(start + best + 1, len(phrase) + 1):
            if f" {' '.join(phrase[start:end])} " not in question_run:
                break
            best = end - start
    return best / len(phrase) if phrase else 0.0


def describe_cells(page: Page, question: Question) -> Features:
    """Return the features of all cells, (cells, CELL_FEATURES)."""
    if not page.cells:
        return np.zeros((0, len(CELL_FEATURES)), np.float32)
    weigher = Weigher(page, question)
    page.rarity  # noqa: B018 (counts the words)
    whole = weigher.whole
    question_run = f" {' '.join(question.words)} "
    rows = np.array([_describe_row(page, at, weigher, whole, question_run) for at in range(len(page.rows))], np.float32)
    columns = np.array(
        [_describe_column(page, at, weigher, whole, question_run) for at in range(len(page.columns))], np.float32
    )
    sentence_rows = np.array(
        [_describe_sentence(page, at, weigher, whole, question_run) for at in range(len(page.sentences))], np.float32
    )
    count, width = len(page.cells), len(ROW_FEATURES)
    out = np.zeros((count, len(CELL_FEATURES)), np.float32)
    in_table = np.array([cell.column >= 0 for cell in page.cells])
    row_of = np.array([cell.row for cell in page.cells])
    column_of = np.array([cell.column for cell in page.cells])
    if in_table.any():
        out[in_table, :width] = rows[row_of[in_table]]
        out[in_table, width : width + len(COLUMN_FEATURES)] = columns[column_of[in_table]]
    if not in_table.all():
        out[~in_table, :width] = sentence_rows[row_of[~in_table]]
    own = width + len(COLUMN_FEATURES)
    said_words, years = set(question.words), frozenset(question.years)
    known_share = sum(word in page.rarity for word in question.bag) / max(1, len(question.bag))
    amounts = question.wh in ("how many", "how much")
    names = question.wh in ("who", "which", "where", "what")
    lines = {mention.concept.key: mention.concept.statement for mention in mentions(question.text)}
    row_words: dict[int, frozenset[str]] = {}
    for at, cell in enumerate(page.cells):
        if cell.column >= 0:
            if cell.row not in row_words:
                row_words[cell.row] = page.stems_of_row(page.rows[cell.row])
            words = cell.words | row_words[cell.row]
            head_asks = "%" in " ".join(page.columns[cell.column].heads)
        else:
            words, head_asks = cell.words, False
            out[at, width : width + 2] = weigher.cover(cell.near, whole), weigher.measure_fit(cell.near)
            out[at, width + 4] = question.noun in cell.near
        amount = cell.amount
        percent = amount is not None and amount.unit == "%"
        texts = words_in_order(cell.text)
        out[at, own : own + len(OWN_FEATURES)] = (
            len(years & cell.years) / max(1, len(years)),
            bool(years and cell.years and not years & cell.years),
            bool(years),
            bool(cell.years),
            page.latest in cell.years,
            weigher.weigh(question.bag - words) / whole,
            cell.column < 0,
            cell.is_label,
            amount is not None,
            percent,
            question.percent and (percent or head_asks),
            amount is not None and len(amount.unit) == 3 and amount.unit.isupper(),
            bool(texts) and said_words.issuperset(texts),
            amounts and amount is not None,
            names and amount is None,
            question.wh == "when" and (bool(cell.years) or amount is None),
            min(len(page.rows), 60) / 60,
            known_share,
            min(page.hit_of(cell), 8) / 8,
            page.document_fit,
            *_describe_lines(page, cell, lines),
        )
    for place, name in enumerate(RELATIVE):
        column = out[:, AT[name]]
        best = column.min() if name == "uncovered" else column.max()
        out[:, len(CELL_FEATURES) - len(RELATIVE) + place] = column - best
    return out


def _describe_lines(page: Page, cell: Cell, asked: Mapping[str, str | None]) -> tuple[float, float, float, float]:
    """Return how well a cell's labels name a line of statements that is asked, and how well they name another one.

    asked: concepts that the question names, with the statement that each stands in. Behind them: whether there are
    any, and whether the table is the statement that the line belongs to.
    """
    if not asked or cell.column < 0:
        return 0.0, 0.0, float(bool(asked)), 0.0
    labels = [label_of(page.rows[cell.row].path), *page.columns[cell.column].heads[-1:]]
    scores = [score_concepts(label) for label in labels]
    fits = {key: max(each.get(key, 0.0) for each in scores) for key in asked}
    best = max(fits, key=lambda key: fits[key])
    other = max((score for each in scores for key, score in each.items() if key not in asked), default=0.0)
    statement = cell.record.get("statement") or "other"
    return fits[best], other, 1.0, float(fits[best] > 0 and asked[best] == statement)


def _describe_row(page: Page, at: int, weigher: Weigher, whole: float, question_run: str) -> tuple[float, ...]:
    """Return ten features of a row: how its name, path and texts fit the question, and its place."""
    row, stems, bag = page.rows[at], page.stems, weigher.question.bag
    name = frozenset(stems.of(row.name))
    path = name.union(*(stems.of(text) for text in row.path))
    texts = page.stems_of_row(row) - path
    return (
        weigher.cover(name, whole),
        weigher.measure_fit(name),
        longest_run(words_in_order(row.name), question_run),
        weigher.cover(path, whole),
        weigher.cover(path - name, whole),
        weigher.weigh(name - bag) / 10,
        weigher.question.noun in path,
        weigher.cover(texts, whole),
        min(row.number, 40) / 40,
        min(row.table, 5) / 5,
    )


def _describe_column(page: Page, at: int, weigher: Weigher, whole: float, question_run: str) -> tuple[float, ...]:
    """Return seven features of a column: how its headers fit the question, and its place from left and right."""
    column, bag = page.columns[at], weigher.question.bag
    heads = frozenset(stem for head in column.heads for stem in page.stems.of(head))
    last = max(other.number for other in page.columns if other.table == column.table)
    return (
        weigher.cover(heads, whole),
        weigher.measure_fit(heads),
        longest_run(words_of(" ".join(column.heads)), question_run),
        weigher.weigh(heads - bag) / 10,
        weigher.question.noun in heads,
        min(column.number, 20) / 20,
        min(last - column.number, 20) / 20,
    )


def _describe_sentence(page: Page, at: int, weigher: Weigher, whole: float, question_run: str) -> tuple[float, ...]:
    """Return ten features of a sentence at the positions of a row's (`_describe_row`)."""
    text = page.sentences[at].text
    words = frozenset(page.stems.of(text))
    cover = weigher.cover(words, whole)
    content = [word for word in words_in_order(text) if len(word) > 2][:40]
    return (
        cover, weigher.measure_fit(words), longest_run(content, question_run), cover, 0.0, 1.0,
        weigher.question.noun in words, 0.0, at / max(1, len(page.sentences)), min(page.sentences[at].hit, 5) / 5,
    )  # fmt: skip


HAND = {
    "row coverage": 2.0, "row precision": 1.0, "row run": 0.7, "row text coverage": 1.5, "column coverage": 2.0,
    "column precision": 0.7, "noun in head": 1.0, "years matched": 1.5, "years clash": -1.5, "uncovered": -2.0,
    "in sentence": -0.5, "label": -0.7, "said in question": -1.5, "how many x number": 0.7, "latest": 0.2,
    "line asked": 1.5,
}  # fmt: skip
HAND_WEIGHTS = np.array([HAND.get(name, 0.0) for name in CELL_FEATURES], np.float32)
"""Weights by hand: they choose which cells are combined, and stand in where nothing is fitted."""
