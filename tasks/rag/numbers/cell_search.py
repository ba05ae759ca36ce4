"""Finds the cell of a table that a question for one figure means: by the words around it, its period and its unit."""

from __future__ import annotations

import math
import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from datetime import date
from importlib.resources import files
from typing import Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from tasks.language.tokens import HANGUL, tokenize
from tasks.rag.numbers.concepts import words_of
from tasks.rag.numbers.line_lookup import AMOUNTS, NIL, PLAIN_HEADERS, TOTALS, Number, quarter_ends
from tasks.rag.numbers.periods import DAYS_APART, WHOLE_YEAR, Part, PeriodColumns

CELL_WORDS = tomllib.loads((files("tasks.rag.numbers") / "cell_words.toml").read_text("utf-8"))
FREE = frozenset[str](CELL_WORDS["free"].split())
"""Words of a label that may stand beside the name of the line."""
SAME: Mapping[str, frozenset[int]] = {
    word: frozenset(at for at, line in enumerate(CELL_WORDS["same"]) if word in line.split())
    for line in CELL_WORDS["same"]
    for word in line.split()
}
"""Word → the things that it may name."""
CHANGE = re.compile(CELL_WORDS["columns"]["change"], re.IGNORECASE)
"""A column that shows how a figure changed, and not the figure."""
UNITED_STATES = re.compile(r"\bU\.\s?S\.(?:\s?A\.)?|\bUnited States\b")
Unit = Literal["amount", "%", "count", ""]


class Word(NamedTuple):
    """A word of a question, as the index splits them."""

    text: str
    weight: float
    name: bool = False
    """Nothing else stands for it: it is a name."""
    focus: bool = False
    """It names what is asked for."""


class Alternative(NamedTuple):
    """Words of the question that name a line, and what that line may be called instead."""

    words: frozenset[str]
    phrases: tuple[frozenset[str], ...]


class CellQuestion(NamedTuple):
    """A question for one figure."""

    asked: str
    """The question as it is."""
    core: str
    """What is asked for, without documents, periods, units and words that ask."""
    words: tuple[Word, ...]
    alternatives: tuple[Alternative, ...] = ()
    year: int | None = None
    part: Part = WHOLE_YEAR
    term: str = ""
    """A business term of a Korean company, as periods are labelled: `제23기`."""
    unit: Unit = ""
    change: bool = False
    """It asks for a change."""


def spelled(text: str) -> str:
    """With names that are written in several ways in one."""
    return UNITED_STATES.sub("USA", text)


UNDATED, OTHER_YEAR = 0.9, 0.6
"""Share that is left in a table without periods, if the document is of the year that is asked for, and if not."""
OTHER_END = 0.85
"""Share that is left on a day that is no end of the year."""
EARLIER = 0.93
"""Share that is left for a period before the last of its line, where the question names none."""


def of_period(question: CellQuestion, numbers: Sequence[Number]) -> list[tuple[Number, float]]:
    """The cells of the period that is asked for, and how sure it is theirs; without one, the last of each line."""
    dated = [one for one in numbers if one.period.label]
    if question.term:
        return [(one, 1.0) for one in dated if one.period.label == question.term]
    if question.year is None:
        last: dict[tuple[str, int, int], int] = {}
        for one in dated:
            key = (one.document, one.table, one.row)
            last[key] = max(last.get(key, 0), one.period.year)
        latest = (last.get((one.document, one.table, one.row), 0) for one in numbers)
        return [
            (one, 1.0 if not one.period.label or one.period.year == year else EARLIER)
            for one, year in zip(numbers, latest, strict=True)
        ]
    wanted = PeriodColumns(question.year, question.part, quarter_ends(dated, question.part))
    tables = {(one.document, one.table) for one in dated}
    # for each document the year that most of its figures are of, and the day that most of the asked year end with
    years, days = defaultdict[str, Counter[int]](Counter), defaultdict[str, Counter[date]](Counter)
    for one in dated:
        years[one.document][one.period.year] += 1
        if one.period.end and one.period.year == question.year:
            days[one.document][one.period.end] += 1
    usual_year = {document: max(counts, key=lambda year: (counts[year], year)) for document, counts in years.items()}
    usual_end = {document: max(counts, key=lambda day: (counts[day], day)) for document, counts in days.items()}
    found: list[tuple[Number, float]] = []
    for one in numbers:
        if one.period.label:
            if wanted.holds(one.document, one.period, balance=None):
                end, usual = one.period.end, usual_end.get(one.document)
                is_other = question.part == WHOLE_YEAR and end and usual and abs((end - usual).days) > DAYS_APART
                found.append((one, OTHER_END if is_other else 1.0))
        elif (one.document, one.table) not in tables:
            own = usual_year.get(one.document, question.year)
            found.append((one, UNDATED if own == question.year else OTHER_YEAR))
    return found


Key = TypeVar("Key", bound=Hashable)
OPPOSITES = [re.compile(pattern, re.IGNORECASE) for pattern in CELL_WORDS["columns"]["opposites"]]
UNIT_LINE = re.compile(r"^\s*[(\[]?\s*(?:dollars?\s+)?(?:in|단위)\b", re.IGNORECASE)
ABBREVIATED = re.compile(r"\(\s*[“\"]?[A-Z][A-Za-z]{1,7}[”\"]?\s*\)|\(\d+\)|\([a-z]\)")
"""A short form that a label explains itself, or the mark of a footnote."""
PERCENTS = frozenset(("%", "%p", "bp"))
OWN, COLUMN, HEAD, AROUND = 1.0, 0.95, 0.85, 0.6
"""What a word of the question counts that the row's label, its column, a heading or the text before the table holds."""
SAME_THING, OTHER_NAME = 0.8, 0.95
"""Share of that for another word for the same thing; what another name of the line counts."""
ASKED, LABELLED = 0.65, 0.35
"""Weights of what the cell holds of the question, and the question of the label."""
UNKNOWN = 0.6
"""Weight of a word that no label holds: it may only be the asker's."""
ON_FOUND_PAGE = 0.06
"""What a cell gains on the page of the best passage; less on those after it."""
OTHER_UNIT, UNIT_UNSAID = 0.5, 0.95
FEWEST_OF_MONEY = 1_000
"""A number without a unit below this, in whole units, is seldom money: it is of points, counts or shares."""
CHANGED = 0.6
NO_NAME, NO_FOCUS = 0.4, 0.35
"""What it takes away that none of the question's names, or nothing of what it asks for, stands around the cell."""
UNASKED_COLUMN, UNASKED_HEAD = 0.2, 0.06
"""What a column or a heading takes away of which the question holds nothing."""
OPPOSED = 0.75
"""Share that is left where the cell is of the beginning and the question is not, or of all but what it names."""
NO_STATEMENT = 0.97
BROKEN = 0.93


class Context(NamedTuple):
    """What a document says around a cell."""

    text: str = ""
    """Headings and lines before the table."""
    rank: int | None = None
    """0-based, of the best retrieved passage of its page."""


class Match(NamedTuple):
    """A cell and how well it fits."""

    number: Number
    score: float
    asked: float
    """Share of the question's words that stand around the cell."""
    focus: float
    """Share of the words that name what is asked for."""
    labelled: float
    """Share of the label's words that the question holds."""
    unheld: tuple[Word, ...]
    """Words of the question that nothing around the cell holds."""
    sure: float
    """How sure its period, its unit, its table and its document are, 0 … 1: a factor of the score."""
    rank: int | None = None
    alike: float | None = None
    """Cosine of question and label; None where nothing compared them."""


class Words(NamedTuple):
    """The words of a text."""

    words: frozenset[str]
    run: str
    """Its Hangul without spaces: tables and questions join words differently."""

    def holds(self, word: str) -> float:
        if word in self.words or (len(word) > 1 and HANGUL.search(word) and word in self.run):
            return 1.0
        things = SAME.get(word)
        return SAME_THING if things and any(things & SAME[other] for other in self.words if other in SAME) else 0.0


class LabelFit(NamedTuple):
    """How well the labels around cells fit a question."""

    score: float
    asked: float = 0.0
    focus: float = 0.0
    labelled: float = 0.0
    unheld: tuple[Word, ...] = ()


class CellScorer:
    """Scores cells against one question by words; rarity is counted over the labels of the candidates."""

    def __init__(self, question: CellQuestion, numbers: Sequence[Number], tokenizer: str) -> None:
        self._question = question
        self._tokenizer = tokenizer
        self._tokens: dict[str, frozenset[str]] = {}
        self._fits: dict[tuple[tuple[str, ...], tuple[str, ...], str], LabelFit] = {}
        self._read({text for one in numbers for text in (*one.row_path, *one.column_path)})
        self._read({telling(one.column_path) for one in numbers})
        labels = {label for one in numbers for label in one.row_path[-1:]}
        self._labels = len(labels) + 1
        self._seen = Counter(word for label in labels for word in self._tokens[label])
        self._asking = Words(frozenset(word.text for word in question.words), hangul_run([question.core]))
        self._weights = {word: self._weight(word) for word in question.words}

    def match(self, number: Number, context: Context, sure: float) -> Match:
        """The cell with its score; of 0 where none of its labels holds a word of the question."""
        key = (number.row_path, number.column_path, context.text)
        if key not in self._fits:
            self._fits[key] = self._score_labels(number, context.text)
        fit = self._fits[key]
        sure *= _unit_fits(self._question, number) * (BROKEN if number.broken else 1.0)
        sure *= NO_STATEMENT if number.statement == "other" else 1.0
        score = fit.score * sure
        if context.rank is not None:
            score += ON_FOUND_PAGE / (1 + context.rank / 3)
        return Match(number, score, fit.asked, fit.focus, fit.labelled, fit.unheld, sure, context.rank)

    def _score_labels(self, number: Number, around: str) -> LabelFit:
        question = self._question
        # the label of a row, with its heading where it is a bare "Total"; and the headings above
        path = number.row_path
        at = -2 if len(path) > 1 and self._tokens[path[-1]] <= FREE else -1
        label, heads = path[at:], path[:at]
        own, above, column = self._of(label), self._of(heads), self._of(number.column_path)
        self._read([around])
        places = ((own, OWN), (column, COLUMN), (above, HEAD), (self._of([around]), AROUND))
        by_name, named = _through(question.alternatives, own.words | above.words | column.words)
        held = {
            word: max(
                (OTHER_NAME * (word.text in by_name), *(share * words.holds(word.text) for words, share in places))
            )
            for word in question.words
        }
        asked = _share(self._weights, held)
        focus = _share({word: weight for word, weight in self._weights.items() if word.focus}, held)
        labelled = self._asked_of(own.words - FREE, named)
        unheld = tuple(word for word, share in held.items() if not share)
        if max(held.values()) <= AROUND:  # only the text before the table holds any
            return LabelFit(0.0, asked, focus, labelled, unheld)
        told = self._tokens[telling(number.column_path)]
        score = ASKED * asked + LABELLED * labelled
        score *= 1 - UNASKED_COLUMN * (1 - self._asked_of(told - FREE, named))
        score *= 1 - UNASKED_HEAD * (1 - self._asked_of(above.words - FREE, named))
        names = {word: weight for word, weight in self._weights.items() if word.name}
        score *= (1 - NO_NAME * (1 - _share(names, held))) * (1 - NO_FOCUS * (1 - focus))
        if not question.change and CHANGE.search(" ".join(number.column_path)):
            score *= CHANGED
        labels = " ".join((*number.row_path[-2:], *number.column_path))
        # whether one of the two says it and the other does not
        score *= math.prod(
            OPPOSED
            for pattern in OPPOSITES
            if ((pattern.search(question.asked) is None) != (pattern.search(labels) is None))
        )
        return LabelFit(score, asked, focus, labelled, unheld)

    def _read(self, texts: Iterable[str]) -> None:
        new = [text for text in texts if text not in self._tokens]
        plain = [ABBREVIATED.sub(" ", spelled(text)) for text in new]
        self._tokens.update(zip(new, map(frozenset, tokenize(plain, tokenizer=self._tokenizer)), strict=True))

    def _of(self, texts: Sequence[str]) -> Words:
        return Words(frozenset[str]().union(*(self._tokens[text] for text in texts)), hangul_run(texts))

    def _asked_of(self, words: frozenset[str], named: frozenset[str]) -> float:
        """Share of the words of a label that the question holds; all of none."""
        weights = {word: self._rarity(word) for word in words}
        return _share(weights, {word: max(self._asking.holds(word), float(word in named)) for word in words})

    def _rarity(self, word: str) -> float:
        return math.log(1 + self._labels / (self._seen[word] or 1)) / math.log(1 + self._labels)

    def _weight(self, word: Word) -> float:
        if word.name:
            return word.weight
        things = SAME.get(word.text)
        known = self._seen[word.text] or (things and any(things & SAME[seen] for seen in self._seen if seen in SAME))
        return word.weight * (max(0.25, self._rarity(word.text)) if known else UNKNOWN)


def _share(weights: Mapping[Key, float], held: Mapping[Key, float]) -> float:
    whole = sum(weights.values())
    return sum(weight * held[key] for key, weight in weights.items()) / whole if whole else 1.0


def hangul_run(texts: Iterable[str]) -> str:
    return "".join(re.findall("[가-힣]+", " ".join(texts)))


def telling(column_path: Sequence[str]) -> str:
    """What the headers of a column say beside its period and its unit; nothing of the one that is the whole."""
    words = [word for header in column_path if not UNIT_LINE.search(header) for word in words_of(header)]
    if TOTALS.intersection(words):
        return ""
    return " ".join(word for word in words if word.isalpha() and word not in PLAIN_HEADERS)


def _through(alternatives: Sequence[Alternative], words: frozenset[str]) -> tuple[frozenset[str], frozenset[str]]:
    """The words of the question of which another name stands around the cell, and the words of that name."""
    told = [(one.words, phrase) for one in alternatives for phrase in one.phrases if phrase and phrase <= words | FREE]
    told = [(asked, phrase) for asked, phrase in told if phrase - FREE]
    return (
        frozenset(word for asked, _ in told for word in asked),
        frozenset(word for _, phrase in told for word in phrase),
    )


def _unit_fits(question: CellQuestion, number: Number) -> float:
    """How far the unit of a cell is what the question asks for."""
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


Embed = Callable[[Sequence[str]], NDArray[np.float32]]
"""Texts → unit vectors."""
BY_WORDS, BY_MEANING = 0.7, 0.3
LEAST_ALIKE, MOST_ALIKE = 0.25, 0.8
"""Cosines that say nothing, and all."""
MOST_EMBEDDED = 16
AS_GOOD = 0.1
"""A cell with the same digits that fits this much less is the same figure."""
OTHER_DOCUMENT = 0.97


class CellMatch(NamedTuple):
    """The best cell of a question."""

    best: Match
    margin: float
    """To the best cell with other digits."""


def search_cells(
    question: CellQuestion,
    numbers: Sequence[Number],
    *,
    tokenizer: str,
    documents: Sequence[str] = (),
    context: Callable[[Number], Context] = lambda _: Context(),
    embed: Embed | None = None,
) -> CellMatch | None:
    """The best cell; None where no cell of the asked period holds a word of the question.

    documents: digests, those that fit the question best first. Raises WrongTokenizer.
    """
    dated = of_period(question, [one for one in numbers if one.shown not in NIL])
    reader = CellScorer(question, [number for number, _ in dated], tokenizer)
    rank = {document: at for at, document in enumerate(documents)}
    matches = [
        reader.match(number, context(number), share * OTHER_DOCUMENT ** rank.get(number.document, 0))
        for number, share in dated
    ]
    matches = sorted((one for one in matches if one.score), key=lambda one: -one.score)
    if embed and matches:
        matches = _by_meaning(question, matches, embed)
    if not matches:
        return None
    first = matches[0]
    alike = [one for one in matches if one.score >= first.score - AS_GOOD and digits_of(one) == digits_of(first)]
    best = max(alike, key=lambda one: one.number.scale)  # a table may have lost the line with its unit
    other = next((one.score for one in matches if digits_of(one) != digits_of(first)), 0.0)
    return CellMatch(best._replace(score=first.score), first.score - other)


def digits_of(match: Match) -> str:
    return re.sub(r"[^\d.]", "", match.number.shown)


def _by_meaning(question: CellQuestion, matches: Sequence[Match], embed: Embed) -> list[Match]:
    """The matches ordered by words and by closeness of meaning; only the labels of the best are compared."""
    phrases = list(dict.fromkeys(phrase_of(one.number) for one in matches))
    near = sorted((one for one in matches if one.rank is not None), key=lambda one: one.rank or 0)
    most = MOST_EMBEDDED * 2 // 3
    phrases = list(dict.fromkeys((*phrases[:most], *(phrase_of(one.number) for one in near), *phrases)))[:MOST_EMBEDDED]
    vectors = embed([question.core, *phrases])
    alike = dict(zip(phrases, (vectors[1:] @ vectors[0]).tolist(), strict=True))
    ordered: list[Match] = []
    for one in matches:
        cosine = alike.get(phrase_of(one.number))
        scaled = min(1.0, max(0.0, ((cosine or 0.0) - LEAST_ALIKE) / (MOST_ALIKE - LEAST_ALIKE)))
        score = BY_WORDS * one.score + BY_MEANING * scaled * one.sure
        ordered.append(one._replace(score=score, alike=cosine))
    return sorted(ordered, key=lambda one: -one.score)


def phrase_of(number: Number) -> str:
    """A row and a column as one phrase."""
    return " ".join((*number.row_path[-2:], telling(number.column_path))).strip()
