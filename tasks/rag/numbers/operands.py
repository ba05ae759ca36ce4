"""Reads a question for arithmetic over any figures: which, in the question's own words, and what is done with them.

"본관과 분관의 열람석 차이는?" is the difference of two figures, whose words are partly shared: what each of them is
called is read in several ways, and the cells that are found decide which was meant.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from decimal import Decimal
from functools import reduce
from importlib.resources import files
from typing import NamedTuple

from tasks.rag.numbers.computations import Shown, at, operation
from tasks.rag.numbers.document_numbers import TERM
from tasks.rag.numbers.expressions import Constant, Expression, Line, Operation, lines_of
from tasks.rag.numbers.periods import PART_SAID, When
from tasks.rag.numbers.question_shape import YEAR_SAID, with_marks
from tasks.rag.numbers.written_formulas import defined

WORDS = tomllib.loads((files("tasks.rag.numbers") / "operand_words.toml").read_text("utf-8"))
PATTERN: dict[str, re.Pattern[str]] = {
    name: re.compile(text, re.IGNORECASE) for name, text in WORDS.items() if isinstance(text, str)
}
PATTERNS = [
    (one["how"], re.compile(one["pattern"], re.IGNORECASE), one.get("pair", False)) for one in WORDS["patterns"]
]
TIMES, PERCENT = PATTERN["times"], PATTERN["percent"]
MARKS = re.compile("[‡†]")
TOPIC = re.compile(r"(?<=[가-힣])(?:는|의|을|를)$|(?<=[가-힣]{2})은$")
"""A particle that ends the name of a figure."""
WHOLE = "합계"
"""The line that is the whole of a share, where the question only names the part."""
MOST_CORE = 3
"""Words that tell one figure of a pair from the other."""
MOST_READINGS = 12
MOST_CHARS = 300
"""A longer question tells more than figures."""


class Reading(NamedTuple):
    """A way to understand a question: its lines are words of the question, without concepts."""

    expression: Expression
    shown: Shown
    title: str


def readings(question: str, whens: Sequence[When], *, said: Sequence[str] = ()) -> list[Reading]:
    """The ways to read a question, those that are tried first; empty where it asks for no arithmetic over figures.

    whens: the periods that it names. said: what it calls the documents, as it writes them.
    """
    if len(question) > MOST_CHARS or PATTERN["reasons"].search(question):
        return []
    plain = plain_of(question, said)
    if task := defined(MARKS.sub(" ", with_marks(question, said))):
        words = all(line.concept is None for line in lines_of(task.expression))
        return [Reading(task.expression, task.shown, task.title)] if words else []
    short = PATTERN["lead"].sub("", plain)
    texts = dict.fromkeys((plain, short))
    found: list[Reading] = []
    ways = (one for text in texts for one in (*_over_periods(text, question, whens), *_read(text, question)))
    for reading in dict.fromkeys(ways):
        # its lines are names of figures, which differ
        said = [line.said for line in lines_of(reading.expression)]
        different = len({frozenset(line.split()) for line in said}) == len(set(lines_of(reading.expression)))
        named = all(said) and said[0] != WHOLE and not any(map(PATTERN["no_figure"].search, said))
        if named and (different or len(set(said)) == 1):
            found.append(reading)
    return found[:MOST_READINGS]


def plain_of(question: str, said: Sequence[str]) -> str:
    """The question without the names of documents, its periods, and what only says how to answer."""
    text = MARKS.sub(" ", with_marks(PATTERN["asides"].sub(" ", question), said))
    text = YEAR_SAID.sub(" ", PART_SAID.sub(" ", TERM.sub(" ", text)))
    return " ".join(text.split())


def _over_periods(text: str, question: str, whens: Sequence[When]) -> Iterator[Reading]:
    """A figure over the periods that are named: their sum, their mean, the change from the first to the last."""
    if len(whens) < 2:
        return
    span = f"{whens[0].label} … {whens[-1].label}"
    for pattern, mean in ((PATTERN["over_mean"], True), (PATTERN["over_sum"], False)):
        if match := pattern.search(text):
            words = TOPIC.sub("", _strip_loose_words(match["rest"]))
            total = _total([at(_line(words), when) for when in whens])
            count = Constant(Decimal(len(whens)), str(len(whens)))
            yield Reading(Operation("/", total, count) if mean else total, "amount", f"{words} {span}")
            return
    match = PATTERN["changes"].search(text)
    if match:
        words = _strip_loose_words(match["rest"] or match["rest2"] or "")
    elif TIMES.search(text):
        words = _strip_loose_words(TIMES.split(text)[0])
    elif operation(question) in ("growth", "difference"):
        words = _strip_loose_words(PATTERN["changes_en"].sub(" ", text))
    else:
        return
    words = TOPIC.sub("", words)
    first, last = (at(_line(words), when) for when in (whens[0], whens[-1]))
    span = f"{words} {whens[0].label} → {whens[-1].label}"
    if TIMES.search(text):
        yield Reading(Operation("/", last, first), "times", span)
    elif PATTERN["rate"].search(question) or operation(question) == "growth":
        yield Reading(Operation("-", Operation("/", last, first), Constant(Decimal(1), "1")), "%", span)
    else:
        yield Reading(Operation("-", last, first), "amount", span)


def _total(terms: Sequence[Expression]) -> Expression:
    return reduce(lambda left, right: Operation("+", left, right), terms[1:], terms[0])


def _read(text: str, question: str) -> Iterator[Reading]:
    for how, pattern, pair in PATTERNS:
        match = pattern.search(text)
        if match is None:
            continue
        groups = match.groupdict()
        if how == "share":
            yield _ratio(groups["a"], WHOLE, question)
        elif groups.get("all"):
            yield from _of_list(how, PATTERN["joins"].split(groups["all"]), pair=pair)
        else:
            yield from _of_two(how, groups["a"], groups["b"], groups.get("shared") or "", question)


def _of_two(how: str, one: str, other: str, shared: str, question: str) -> Iterator[Reading]:
    """What is said of both may follow them, or be said of the first alone: "본관 열람석은 분관보다 몇 석 많아?" """
    last = one.split()[-1] if len(one.split()) > 1 and not shared else ""
    alike = how != "ratio" or TIMES.search(question) or PERCENT.search(question)
    for tails in dict.fromkeys(((shared, shared), ("", ""), ("", last if alike else ""))):
        left, right = f"{one} {tails[0]}", f"{other} {tails[1]}"
        if how == "ratio":
            yield _ratio(left, right, question)
        else:
            yield from _difference(left, right, shared, question)
    if how == "ratio" and PATTERN["of_all"].search(_strip_loose_words(other)):
        yield _ratio(one, WHOLE, question)._replace(title=f"{_strip_loose_words(one)} / {_strip_loose_words(other)}")


def _ratio(part: str, whole: str, question: str) -> Reading:
    shown: Shown = "times" if TIMES.search(question) else "%" if PERCENT.search(question) else "amount"
    return Reading(
        Operation("/", _line(part), _line(whole)), shown, f"{_strip_loose_words(part)} / {_strip_loose_words(whole)}"
    )


def _difference(more: str, less: str, shared: str, question: str) -> Iterator[Reading]:
    if TIMES.search(question):
        yield _ratio(more, less, question)
        return
    if PATTERN["less"].search(question):
        more, less = less, more
    if PERCENT.search(shared) or PATTERN["relative"].search(question):
        relative = Operation("-", Operation("/", _line(more), _line(less)), Constant(Decimal(1), "1"))
        yield Reading(relative, "%", f"{_strip_loose_words(more)} / {_strip_loose_words(less)}")
    yield Reading(
        Operation("-", _line(more), _line(less)), "amount", f"{_strip_loose_words(more)} − {_strip_loose_words(less)}"
    )


def _of_list(how: str, named: Sequence[str], *, pair: bool) -> Iterator[Reading]:
    """The sum, the mean or the difference of figures that are named beside each other."""
    named = [one for one in map(str.strip, named) if one]
    if len(named) < 2 or (pair and len(named) != 2):
        return
    for lines in _shared(named):
        title = (" − " if pair else " + ").join(map(_strip_loose_words, lines))
        told = [_line(one) for one in lines]
        if pair:
            yield Reading(Operation("-", told[0], told[1]), "amount", title)
            continue
        total = _total(told)
        if how == "average":
            total = Operation("/", total, Constant(Decimal(len(told)), str(len(told))))
        yield Reading(total, "amount", title)


def _shared(named: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """The figures with the words that they share: what stands before the first, and what follows the last."""
    first, *middle, last = named
    before, after = first.split(), last.split()
    yield tuple(named)
    for left in range(1, min(MOST_CORE, len(before)) + 1):
        for right in range(1, min(MOST_CORE, len(after)) + 1):
            head, tail = " ".join(before[:-left]), " ".join(after[right:])
            if not (head or tail):
                continue
            cores = (" ".join(before[-left:]), *middle, " ".join(after[:right]))
            yield tuple(" ".join(f"{head} {core} {tail}".split()) for core in cores)


def _line(words: str) -> Line:
    said = _strip_loose_words(words)
    return Line(WHOLE if PATTERN["all_of_it"].search(said) else said, None)


def _strip_loose_words(words: str) -> str:
    plain = re.sub(r"[(),.;:?](?=\s|$)|(?<=\s)[(]", " ", words)
    return " ".join(PATTERN["loose"].sub(" ", " ".join(plain.split())).split()).strip(" -–")
