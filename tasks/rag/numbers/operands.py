"""Reads a question as arithmetic over any values: which ones, in its own words, and the operation on them.

"본관과 분관의 열람석 차이는?" is the difference of two values, whose words are partly shared: their names are read in
several ways, and the cells that these find decide which one was meant.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from decimal import Decimal
from functools import reduce
from importlib.resources import files
from typing import NamedTuple

from tasks.rag.numbers.computations import DisplayUnit, operation, set_period
from tasks.rag.numbers.document_numbers import TERM
from tasks.rag.numbers.expressions import Constant, Expression, Line, Operation, lines_of
from tasks.rag.numbers.periods import PART_SAID, When
from tasks.rag.numbers.question_shape import YEAR_SAID, mark_names
from tasks.rag.numbers.written_formulas import read_written_formula
from tasks.rag.planning.type_words import compile_filled

WORDS = tomllib.loads((files("tasks.rag.numbers") / "operand_words.toml").read_text("utf-8"))


def _compile(pattern: str) -> re.Pattern[str]:
    return compile_filled(pattern, WORDS["parts"], re.IGNORECASE)


PATTERN = {name: _compile(text) for name, text in WORDS["words"].items()}
PATTERNS = [(entry["how"], _compile(entry["pattern"]), entry.get("pair", False)) for entry in WORDS["patterns"]]
TIMES, PERCENT = PATTERN["times"], PATTERN["percent"]
MARKS = re.compile("[‡†]")
TOPIC = re.compile(r"(?<=[가-힣])(?:는|의|을|를)$|(?<=[가-힣]{2})은$")
"""A particle that ends the name of a value."""
WHOLE = "합계"
"""Name of the line that a share is taken of, where the question only names the part."""
MOST_CORE = 3
"""Most words that tell one value of a pair from the other."""
MOST_READINGS = 12
MOST_CHARS = 300
"""Most characters of a question that is read as arithmetic; a longer one says more than that."""


class Reading(NamedTuple):
    """One way to read a question: an expression whose lines are words of the question, without concepts."""

    expression: Expression
    display_unit: DisplayUnit
    title: str


def list_readings(question: str, whens: Sequence[When], *, spoken_names: Sequence[str] = ()) -> list[Reading]:
    """Return up to 12 ways to read a question, in the order to try them; none if it is long or asks for no arithmetic.

    whens: the periods that it names. spoken_names: what it calls the documents, as it writes them.
    """
    if len(question) > MOST_CHARS:
        return []
    plain = strip_question(question, spoken_names)
    if task := read_written_formula(MARKS.sub(" ", mark_names(question, spoken_names))):
        words = all(line.concept is None for line in lines_of(task.expression))
        return [Reading(task.expression, task.display_unit, task.title)] if words else []
    short = PATTERN["lead"].sub("", plain)
    texts = dict.fromkeys((plain, short))
    accepted: list[Reading] = []
    candidates = (
        reading
        for text in texts
        for reading in (*_read_over_periods(text, question, whens), *_read_patterns(text, question))
    )
    for reading in dict.fromkeys(candidates):
        # its lines are names of values, which differ
        line_names = [line.name for line in lines_of(reading.expression)]
        different = len({frozenset(line.split()) for line in line_names}) == len(set(lines_of(reading.expression)))
        are_named = all(line_names) and line_names[0] != WHOLE and not any(map(PATTERN["no_figure"].search, line_names))
        if are_named and (different or len(set(line_names)) == 1):
            accepted.append(reading)
    return accepted[:MOST_READINGS]


def strip_question(question: str, spoken_names: Sequence[str]) -> str:
    """Return a question without the names of documents, its periods, and what only says how to answer."""
    text = MARKS.sub(" ", mark_names(PATTERN["asides"].sub(" ", question), spoken_names))
    text = YEAR_SAID.sub(" ", PART_SAID.sub(" ", TERM.sub(" ", text)))
    return " ".join(text.split())


def _read_over_periods(text: str, question: str, whens: Sequence[When]) -> Iterator[Reading]:
    """Yield one reading of a value over two periods or more: its sum, mean, change, ratio or growth; else none."""
    if len(whens) < 2:
        return
    span = f"{whens[0].label} … {whens[-1].label}"
    for pattern, mean in ((PATTERN["over_mean"], True), (PATTERN["over_sum"], False)):
        if match := pattern.search(text):
            words = TOPIC.sub("", _strip_loose_words(match["rest"]))
            total = _add_terms([set_period(_make_line(words), when) for when in whens])
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
    first, last = (set_period(_make_line(words), when) for when in (whens[0], whens[-1]))
    span = f"{words} {whens[0].label} → {whens[-1].label}"
    if TIMES.search(text):
        yield Reading(Operation("/", last, first), "times", span)
    elif PATTERN["rate"].search(question) or operation(question) == "growth":
        yield Reading(Operation("-", Operation("/", last, first), Constant(Decimal(1), "1")), "%", span)
    else:
        yield Reading(Operation("-", last, first), "amount", span)


def _add_terms(terms: Sequence[Expression]) -> Expression:
    return reduce(lambda left, right: Operation("+", left, right), terms[1:], terms[0])


def _read_patterns(text: str, question: str) -> Iterator[Reading]:
    """Yield readings by the patterns of sentences that match: a share, a list of values, or a pair of them."""
    for operation_name, pattern, pair in PATTERNS:
        match = pattern.search(text)
        if match is None:
            continue
        groups = match.groupdict()
        if operation_name == "share":
            yield _make_ratio(groups["a"], WHOLE, question)
        elif groups.get("all"):
            yield from _read_list(operation_name, PATTERN["joins"].split(groups["all"]), pair=pair)
        else:
            yield from _read_pair(operation_name, groups["a"], groups["b"], groups.get("shared") or "", question)


def _read_pair(operation_name: str, first: str, second: str, shared: str, question: str) -> Iterator[Reading]:
    """Yield readings of two values; words for both may follow them, or the first: "본관 열람석은 분관보다 많아?" """
    last = first.split()[-1] if len(first.split()) > 1 and not shared else ""
    alike = operation_name != "ratio" or TIMES.search(question) or PERCENT.search(question)
    for tails in dict.fromkeys(((shared, shared), ("", ""), ("", last if alike else ""))):
        left, right = f"{first} {tails[0]}", f"{second} {tails[1]}"
        if operation_name == "ratio":
            yield _make_ratio(left, right, question)
        else:
            yield from _make_differences(left, right, shared, question)
    if operation_name == "ratio" and PATTERN["of_all"].search(_strip_loose_words(second)):
        yield _make_ratio(first, WHOLE, question)._replace(
            title=f"{_strip_loose_words(first)} / {_strip_loose_words(second)}"
        )


def _make_ratio(part: str, whole: str, question: str) -> Reading:
    """Return part ÷ whole, shown as times, percent or an amount as the question says."""
    display_unit: DisplayUnit = "times" if TIMES.search(question) else "%" if PERCENT.search(question) else "amount"
    return Reading(
        Operation("/", _make_line(part), _make_line(whole)),
        display_unit,
        f"{_strip_loose_words(part)} / {_strip_loose_words(whole)}",
    )


def _make_differences(more: str, less: str, shared: str, question: str) -> Iterator[Reading]:
    """Yield a ratio if times are asked; else a relative change if it may be, and `more − less`, swapped for “less”."""
    if TIMES.search(question):
        yield _make_ratio(more, less, question)
        return
    if PATTERN["less"].search(question):
        more, less = less, more
    names = [_strip_loose_words(more), _strip_loose_words(less)]
    if PERCENT.search(shared):
        relative = Operation("-", Operation("/", _make_line(more), _make_line(less)), Constant(Decimal(1), "1"))
        yield Reading(relative, "%", " / ".join(names))
    yield Reading(Operation("-", _make_line(more), _make_line(less)), "amount", " − ".join(names))


def _read_list(operation_name: str, names: Sequence[str], *, pair: bool) -> Iterator[Reading]:
    """Yield sums or means (`pair`: differences) of listed values, for each way to share words; none of one name."""
    names = [name for name in map(str.strip, names) if name]
    if len(names) < 2 or (pair and len(names) != 2):
        return
    for lines in _share_words(names):
        title = (" − " if pair else " + ").join(map(_strip_loose_words, lines))
        terms = [_make_line(name) for name in lines]
        if pair:
            yield Reading(Operation("-", terms[0], terms[1]), "amount", title)
            continue
        total = _add_terms(terms)
        if operation_name == "average":
            total = Operation("/", total, Constant(Decimal(len(terms)), str(len(terms))))
        yield Reading(total, "amount", title)


def _share_words(names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield the names as listed, then with words that they may share: those before the first, those after the last."""
    first, *middle, last = names
    before, after = first.split(), last.split()
    yield tuple(names)
    for left in range(1, min(MOST_CORE, len(before)) + 1):
        for right in range(1, min(MOST_CORE, len(after)) + 1):
            head, tail = " ".join(before[:-left]), " ".join(after[right:])
            if not (head or tail):
                continue
            cores = (" ".join(before[-left:]), *middle, " ".join(after[:right]))
            yield tuple(" ".join(f"{head} {core} {tail}".split()) for core in cores)


def _make_line(words: str) -> Line:
    name = _strip_loose_words(words)
    return Line(WHOLE if PATTERN["all_of_it"].search(name) else name, None)


def _strip_loose_words(words: str) -> str:
    plain = re.sub(r"[(),.;:?](?=\s|$)|(?<=\s)[(]", " ", words)
    return " ".join(PATTERN["loose"].sub(" ", " ".join(plain.split())).split()).strip(" -–")
