"""Finds the cell of a table that a question for one value means: by the words around it, its period and its unit."""

from __future__ import annotations

import math
import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from functools import lru_cache
from importlib.resources import files
from typing import Literal, NamedTuple

from tasks.language.tokens import HANGUL, Stems
from tasks.rag.numbers.concepts import words_of
from tasks.rag.numbers.line_lookup import AMOUNTS, NIL, PLAIN_HEADERS, TOTALS, Number, find_quarter_ends
from tasks.rag.numbers.periods import DAYS_APART, WHOLE_YEAR, Part, PeriodColumns

CELL_WORDS = tomllib.loads((files("tasks.rag.numbers") / "cell_words.toml").read_text("utf-8"))
FREE = frozenset[str](CELL_WORDS["free"].split())
"""Words of a label that may stand beside the name of the line."""
SYNONYMS: Mapping[str, frozenset[int]] = {
    word: frozenset(at for at, line in enumerate(CELL_WORDS["same"]) if word in line.split())
    for line in CELL_WORDS["same"]
    for word in line.split()
}
"""Word → the numbers of the lines of synonyms that hold it."""
CHANGE = re.compile(CELL_WORDS["columns"]["change"], re.IGNORECASE)
"""Header of a column that shows how a value changed, and not the value."""
UNITED_STATES = re.compile(r"\bU\.\s?S\.(?:\s?A\.)?|\bUnited States\b")
Unit = Literal["amount", "%", "count", ""]


class Word(NamedTuple):
    """A word of a question, as the index splits them."""

    text: str
    weight: float
    name: bool = False
    """Whether it is a name, which no synonym stands for."""
    focus: bool = False
    """Whether it names what is asked for."""


class Alternative(NamedTuple):
    """Words of the question that name a line, and what that line may be called instead."""

    words: frozenset[str]
    phrases: tuple[frozenset[str], ...]


class CellQuestion(NamedTuple):
    """A question for one value, read for the search."""

    text: str
    """The question as it was asked."""
    core: str
    """The question without documents, periods, units and words that ask."""
    words: tuple[Word, ...]
    alternatives: tuple[Alternative, ...] = ()
    year: int | None = None
    part: Part = WHOLE_YEAR
    term: str = ""
    """A business term of a Korean company, as periods are labelled (`제23기`); empty where none is named."""
    unit: Unit = ""
    change: bool = False
    """Whether it asks how a value changed."""


def unify_spellings(text: str) -> str:
    """Return a text with names of several spellings in one: `U.S.` is USA."""
    return UNITED_STATES.sub("USA", text)


UNDATED, OTHER_YEAR = 0.9, 0.6
"""Factors of a score in a table without periods, if its document is of the year that is asked for, and if not."""
OTHER_END = 0.85
"""Factor of a score on a day that is not the end of the year."""
EARLIER = 0.93
"""Factor of a score for a period before the last of its line, where the question names none."""


def select_period(question: CellQuestion, numbers: Sequence[Number]) -> list[tuple[Number, float]]:
    """Return the cells of the period that is asked for, in their order, each with a factor of 0 to 1 of its score.

    Where a year is asked for, cells of tables without periods are kept with less than 1. Where the question names no
    period, all are kept: the last of each line with 1, the earlier ones with less.
    """
    dated = [number for number in numbers if number.period.label]
    if question.term:
        return [(number, 1.0) for number in dated if number.period.label == question.term]
    if question.year is None:
        last: dict[tuple[str, int, int], int] = {}
        for number in dated:
            key = (number.document, number.table, number.row)
            last[key] = max(last.get(key, 0), number.period.year)
        latest = (last.get((number.document, number.table, number.row), 0) for number in numbers)
        return [
            (number, 1.0 if not number.period.label or number.period.year == year else EARLIER)
            for number, year in zip(numbers, latest, strict=True)
        ]
    columns = PeriodColumns(question.year, question.part, find_quarter_ends(dated, question.part))
    tables = {(number.document, number.table) for number in dated}
    # for each document the year that most of its values are of, and the day that most of the asked year end with
    years, days = defaultdict[str, Counter[int]](Counter), defaultdict[str, Counter[date]](Counter)
    for number in dated:
        years[number.document][number.period.year] += 1
        if number.period.end and number.period.year == question.year:
            days[number.document][number.period.end] += 1
    usual_year = {document: max(counts, key=lambda year: (counts[year], year)) for document, counts in years.items()}
    usual_end = {document: max(counts, key=lambda day: (counts[day], day)) for document, counts in days.items()}
    of_year: list[tuple[Number, float]] = []
    for number in numbers:
        if number.period.label:
            if columns.includes(number.document, number.period, balance=None):
                end, usual = number.period.end, usual_end.get(number.document)
                is_other = question.part == WHOLE_YEAR and end and usual and abs((end - usual).days) > DAYS_APART
                of_year.append((number, OTHER_END if is_other else 1.0))
        elif (number.document, number.table) not in tables:
            own = usual_year.get(number.document, question.year)
            of_year.append((number, UNDATED if own == question.year else OTHER_YEAR))
    return of_year


OPPOSITES = [re.compile(pattern, re.IGNORECASE) for pattern in CELL_WORDS["columns"]["opposites"]]
UNIT_LINE = re.compile(r"^\s*[(\[]?\s*(?:dollars?\s+)?(?:in|단위)\b", re.IGNORECASE)
ABBREVIATED = re.compile(r"\(\s*[“\"]?[A-Z][A-Za-z]{1,7}[”\"]?\s*\)|\(\d+\)|\([a-z]\)")
"""A short form that a label explains itself, or the mark of a footnote."""
PERCENTS = frozenset(("%", "%p", "bp"))
OWN, COLUMN, HEAD, AROUND = 1.0, 0.95, 0.85, 0.6
"""Weights of a word of the question by where it stands: row label, column, heading, text before the table."""
SAME_THING, OTHER_NAME = 0.8, 0.95
"""Factor of that weight for a synonym; weight of another name of the line."""
OF_QUESTION, LABELLED = 0.65, 0.35
"""Weights of the share of the question that the cell holds, and of the share of the label that the question holds."""
UNKNOWN = 0.6
"""Weight of a word that no label holds: it may only be the asker's."""
ON_FOUND_PAGE = 0.06
"""Bonus of a cell on the page of the best passage; it falls with the rank of the page."""
OTHER_UNIT, UNIT_UNSAID = 0.5, 0.95
FEWEST_OF_MONEY = 1_000
"""A number without a unit below this, in whole units, is seldom money: it is of points, counts or shares."""
CHANGED = 0.6
NO_NAME, NO_FOCUS = 0.4, 0.35
"""Share of a score that is lost where none of the question's names, or nothing that it asks for, is near the cell."""
UNASKED_COLUMN, UNASKED_HEAD = 0.2, 0.06
"""Share of a score that is lost by a column or a heading of which the question holds nothing."""
OPPOSED = 0.75
"""Factor where only the question or only the cell is of an opposite: of the beginning, of all but what is named."""
NO_STATEMENT = 0.97
BROKEN = 0.93


class Context(NamedTuple):
    """The text before a cell's table, and the rank of its page."""

    text: str = ""
    """Headings and lines before the table."""
    rank: int | None = None
    """0-based rank of the best retrieved passage of the cell's page; None where none was retrieved."""


class Match(NamedTuple):
    """A cell and how well it fits a question."""

    number: Number
    score: float
    question_share: float
    """Share of the question's words that stand around the cell."""
    focus: float
    """Share of the words that name what is asked for."""
    labelled: float
    """Share of the label's words that the question holds."""
    unheld: tuple[Word, ...]
    """Words of the question that nothing around the cell holds."""
    certainty: float
    """How certain its period, unit, table and document are, 0 to 1: a factor of the score."""


class Words(NamedTuple):
    """The words of a text, for look-ups."""

    words: frozenset[str]
    run: str
    """The Hangul of the text without spaces: tables and questions join words differently."""

    def score_word(self, word: str) -> float:
        """Return 1 where the text holds a word, SAME_THING where it holds a synonym, else 0."""
        if word in self.words or (len(word) > 1 and word in self.run and HANGUL.search(word)):
            return 1.0
        meanings = SYNONYMS.get(word)
        if not meanings:
            return 0.0
        is_meant = any(meanings & SYNONYMS[synonym] for synonym in self.words if synonym in SYNONYMS)
        return SAME_THING if is_meant else 0.0


class LabelFit(NamedTuple):
    """How well the labels around cells fit a question."""

    score: float
    question_share: float = 0.0
    focus: float = 0.0
    labelled: float = 0.0
    unheld: tuple[Word, ...] = ()


class CellScorer:
    """Scores cells against one question by words; rarity is counted over the labels of the candidates."""

    def __init__(self, question: CellQuestion, numbers: Sequence[Number], tokenizer: str) -> None:
        self._question = question
        self._stems = Stems(tokenizer)
        self._labels: dict[tuple[str, ...], tuple[Words, Sequence[float]]] = {}
        self._fits: dict[tuple[tuple[str, ...], tuple[str, ...], str], LabelFit] = {}
        self._rarities: dict[str, float] = {}
        texts = {text for number in numbers for text in (*number.row_path, *number.column_path)}
        self._stems.add(_plain(text) for text in (*texts, *{column_words(number.column_path) for number in numbers}))
        labels = {label for number in numbers for label in number.row_path[-1:]}
        self._label_count = len(labels) + 1
        self._seen = Counter(word for label in labels for word in self._words_in(label))
        self._asking = Words(frozenset(word.text for word in question.words), join_hangul([question.core]))
        self._asked = tuple(dict.fromkeys(question.words))
        self._weights = [self._weight(word) for word in self._asked]
        self._opposed = [pattern.search(question.text) is None for pattern in OPPOSITES]

    def match(self, number: Number, context: Context, certainty: float) -> Match:
        """Score a cell; where no label holds a word of the question, only a bonus for a found page, or 0.

        The certainty that is passed in is that of its period and document.
        """
        key = (number.row_path, number.column_path, context.text)
        if key not in self._fits:
            self._fits[key] = self._score_labels(number, context.text)
        label_fit = self._fits[key]
        certainty *= _score_unit(self._question, number) * (BROKEN if number.broken else 1.0)
        certainty *= NO_STATEMENT if number.statement == "other" else 1.0
        score = label_fit.score * certainty
        if context.rank is not None:
            score += ON_FOUND_PAGE / (1 + context.rank / 3)
        return Match(number, score, *label_fit[1:], certainty)

    def _score_labels(self, number: Number, around: str) -> LabelFit:
        """Return how well a number's labels hold the question's words; score 0 if only text around holds any."""
        asked, weights = self._asked, self._weights
        # the label of a row, with its heading where it is a bare "Total"; and the headings above
        path = number.row_path
        at = -2 if len(path) > 1 and self._words_in(path[-1]) <= FREE else -1
        (own, in_own), (above, in_above) = self._hold(path[at:]), self._hold(path[:at])
        (column, in_column), (_, in_text) = self._hold(number.column_path), self._hold((around,))
        by_name, alternative_words = _find_alternatives(
            self._question.alternatives, own.words | above.words | column.words
        )
        shares = [
            max(
                OTHER_NAME * (word.text in by_name), OWN * own_share, COLUMN * share, HEAD * head_share, AROUND * beside
            )
            for word, own_share, share, head_share, beside in zip(
                asked, in_own, in_column, in_above, in_text, strict=True
            )
        ]
        question_share = _weighted_share(weights, shares)
        focus = self._share_where([word.focus for word in asked], shares)
        labelled = self._share_in_question(own.words - FREE, alternative_words)
        unheld = tuple(word for word, share in zip(asked, shares, strict=True) if not share)
        if max(shares) <= AROUND:  # only the text before the table holds any
            return LabelFit(0.0, question_share, focus, labelled, unheld)
        header_words = self._words_in(column_words(number.column_path))
        score = OF_QUESTION * question_share + LABELLED * labelled
        score *= 1 - UNASKED_COLUMN * (1 - self._share_in_question(header_words - FREE, alternative_words))
        score *= 1 - UNASKED_HEAD * (1 - self._share_in_question(above.words - FREE, alternative_words))
        name_share = self._share_where([word.name for word in asked], shares)
        score *= (1 - NO_NAME * (1 - name_share)) * (1 - NO_FOCUS * (1 - focus))
        if not self._question.change and CHANGE.search(" ".join(number.column_path)):
            score *= CHANGED
        labels = " ".join((*number.row_path[-2:], *number.column_path))
        # opposites that one of the two says and the other does not
        opposed = [
            lacks != (pattern.search(labels) is None) for lacks, pattern in zip(self._opposed, OPPOSITES, strict=True)
        ]
        score *= OPPOSED ** sum(opposed)
        return LabelFit(score, question_share, focus, labelled, unheld)

    def _words_in(self, text: str) -> frozenset[str]:
        return frozenset(self._stems.of(_plain(text)))

    def _hold(self, texts: tuple[str, ...]) -> tuple[Words, Sequence[float]]:
        """Return the words of some texts, and how well they hold each word of the question."""
        if texts not in self._labels:
            words = Words(frozenset[str]().union(*map(self._words_in, texts)), join_hangul(texts))
            self._labels[texts] = words, [words.score_word(word.text) for word in self._asked]
        return self._labels[texts]

    def _share_where(self, counts: Sequence[object], shares: Sequence[float]) -> float:
        """Return the weighted share over those words of the question that count; 1 where none does."""
        counted = [at for at, count in enumerate(counts) if count]
        return _weighted_share([self._weights[at] for at in counted], [shares[at] for at in counted])

    def _share_in_question(self, words: frozenset[str], alternative_words: frozenset[str]) -> float:
        """Return the share of a label's words that the question holds, weighed by rarity; 1 for no words."""
        shares = [max(self._asking.score_word(word), float(word in alternative_words)) for word in words]
        return _weighted_share([self._rarity(word) for word in words], shares)

    def _rarity(self, word: str) -> float:
        """Return 1 for a word that one label holds or none, and less the more labels hold it."""
        if word not in self._rarities:
            count = self._label_count
            self._rarities[word] = math.log(1 + count / (self._seen[word] or 1)) / math.log(1 + count)
        return self._rarities[word]

    def _weight(self, word: Word) -> float:
        """Return what a word of the question counts: its own weight for a name, else the weight by its rarity."""
        if word.name:
            return word.weight
        meanings = SYNONYMS.get(word.text)
        in_labels = self._seen[word.text] or (
            meanings and any(meanings & SYNONYMS[label_word] for label_word in self._seen if label_word in SYNONYMS)
        )
        return word.weight * (max(0.25, self._rarity(word.text)) if in_labels else UNKNOWN)


@lru_cache(maxsize=65_536)
def _plain(text: str) -> str:
    return ABBREVIATED.sub(" ", unify_spellings(text))


def _weighted_share(weights: Sequence[float], shares: Sequence[float]) -> float:
    whole = sum(weights)
    return sum(weight * share for weight, share in zip(weights, shares, strict=True)) / whole if whole else 1.0


def join_hangul(texts: Iterable[str]) -> str:
    """Return the Hangul of texts without what stands between."""
    return "".join(re.findall("[가-힣]+", " ".join(texts)))


@lru_cache(maxsize=65_536)
def column_words(column_path: tuple[str, ...]) -> str:
    """Return the words of a column's headers without digits, units and months, in lower case; empty for a total."""
    words = [word for header in column_path if not UNIT_LINE.search(header) for word in words_of(header)]
    if TOTALS.intersection(words):
        return ""
    return " ".join(word for word in words if word.isalpha() and word not in PLAIN_HEADERS)


def _find_alternatives(
    alternatives: Sequence[Alternative], words: frozenset[str]
) -> tuple[frozenset[str], frozenset[str]]:
    """Return the words of the question for which another name stands around the cell, and the words of that name."""
    pairs = [
        (alternative.words, phrase)
        for alternative in alternatives
        for phrase in alternative.phrases
        if phrase and phrase <= words | FREE
    ]
    pairs = [(words_named, phrase) for words_named, phrase in pairs if phrase - FREE]
    return (
        frozenset(word for words_named, _ in pairs for word in words_named),
        frozenset(word for _, phrase in pairs for word in phrase),
    )


def _score_unit(question: CellQuestion, number: Number) -> float:
    """Return a factor, never 0: 1 where the unit of a cell fits the question, 0.95 where that is open, else 0.5."""
    match question.unit:
        case "%":
            return 1.0 if number.unit in PERCENTS else UNIT_UNSAID if not number.unit else OTHER_UNIT
        case "amount":
            if not number.unit and abs(number.value) < FEWEST_OF_MONEY:
                return OTHER_UNIT
            return 1.0 if number.unit in AMOUNTS else UNIT_UNSAID if not number.unit else OTHER_UNIT
        case "count":
            return OTHER_UNIT if number.unit in AMOUNTS or number.unit in PERCENTS else 1.0
        case _:
            return UNIT_UNSAID if number.unit in PERCENTS else 1.0


AS_GOOD = 0.1
"""A cell with the same digits whose score is this much lower shows the same value."""
OTHER_DOCUMENT = 0.97


class CellMatch(NamedTuple):
    """The best cell of a question, with its lead over the next value."""

    best: Match
    margin: float
    """Difference of its score to that of the best cell with other digits."""


def compare_cells(matches: Sequence[Match]) -> CellMatch | None:
    """Return the best of cells, given best first, in the largest scale that its digits have; None for no cells."""
    if not matches:
        return None
    first = matches[0]
    digits = digits_of(first.number.shown)
    alike = [
        match for match in matches if match.score >= first.score - AS_GOOD and digits_of(match.number.shown) == digits
    ]
    best = max(alike, key=lambda match: match.number.scale)  # a table may have lost the line with its unit
    rival_score = next((match.score for match in matches if digits_of(match.number.shown) != digits), 0.0)
    return CellMatch(best._replace(score=first.score), first.score - rival_score)


def rank_cells(
    question: CellQuestion,
    numbers: Sequence[Number],
    *,
    tokenizer: str,
    documents: Sequence[str] = (),
    context: Callable[[Number], Context],
) -> list[Match]:
    """Return the cells of the question's period that have a word of it or a found page, no dashes, best first.

    documents: digests, those that fit the question best first. Raises WrongTokenizer.
    """
    dated = select_period(question, [number for number in numbers if not NIL.fullmatch(number.shown)])
    scorer = CellScorer(question, [number for number, _ in dated], tokenizer)
    rank = {document: at for at, document in enumerate(documents)}
    matches = [
        scorer.match(number, context(number), share * OTHER_DOCUMENT ** rank.get(number.document, 0))
        for number, share in dated
    ]
    return sorted((match for match in matches if match.score), key=lambda match: -match.score)


@lru_cache(maxsize=65_536)
def digits_of(shown: str) -> str:
    """Return the digits and the point of a cell: equal for one value in several tables, whatever its sign or unit."""
    return re.sub(r"[^\d.]", "", shown)
