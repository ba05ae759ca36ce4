"""Reads a question as a computation over lines of statements: what, of which years, and how it is to be shown.

"What was Marlow's inventory turnover in FY2019, defined as COGS / average inventory?" needs no model: the formula is
written there, or stands in `concepts.toml`. What is read here is all of the question or nothing: a word that no rule
understands ("Domestic", "excluding") may change what is asked for, and then no computation is made.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from decimal import Decimal
from importlib.resources import files
from typing import Literal, NamedTuple

from tasks.language.sentences import Language, language_of
from tasks.rag.numbers.concepts import Mention, mentions, words_of
from tasks.rag.numbers.expressions import (
    ASIDE,
    YEARS,
    Constant,
    Expression,
    Line,
    NoExpression,
    Operation,
    Over,
    lines_of,
    parse,
    years_in,
)
from tasks.rag.numbers.year_parts import PART_SAID, Part, part_of_year
from tasks.rag.planning.type_words import without_particles
from tasks.rag.retrieval.expansion import expand

Shown = Literal["", "amount", "%", "times", "days", "per share"]
_WORDS = tomllib.loads((files("tasks.rag.numbers") / "computation_words.toml").read_text("utf-8"))


def _any_of(name: str) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{pattern})" for pattern in _WORDS[name]), re.IGNORECASE)


DEFINED = tuple(re.compile(pattern, re.IGNORECASE) for pattern in _WORDS["defined"])
"""What stands between the name of a ratio and its formula; group `body` is the formula."""
GROWTH, CAGR, DIFFERENCE, AVERAGE, SHARE, PERCENT = map(
    _any_of, ("growth", "cagr", "difference", "average", "share", "percent")
)
CLAUSE = re.compile(r"(?<=[,.;:?!])\s+")
INSTRUCTS = re.compile(_WORDS["instructs"], re.IGNORECASE)
FIGURE, OF_TWO = (re.compile(_WORDS[name], re.IGNORECASE) for name in ("figure", "of_two"))
IN_UNIT = re.compile(_WORDS["in_unit"], re.IGNORECASE)
DECIMALS = re.compile(_WORDS["decimals"], re.IGNORECASE)
COUNTS = {
    "zero": 0,
    "no": 0,
    "one": 1,
    "two": 2,
    "three": 3,
    "four": 4,
    "five": 5,
    "한": 1,
    "두": 2,
    "둘": 2,
    "세": 3,
    "셋": 3,
    "첫": 1,
}
SPOKEN = frozenset(word for line in _WORDS["spoken"].split("\n") for word in line.split())
"""Words that ask and change nothing."""
LOOKS_BACK = re.compile(_WORDS["looks_back"], re.IGNORECASE)
YEAR_SAID = re.compile(rf"(?<![a-z\d]){YEARS}(?!\d)", re.IGNORECASE)
YEARS_BACK = re.compile(r"\b(?P<count>\d|two|three|four|five)[\s-]years?\b|(?P<count_ko>\d)\s?개년", re.IGNORECASE)
SEVERAL_PARTS = re.compile(_WORDS["several_parts"], re.IGNORECASE)
SENTENCE_END = re.compile(r"(?<=[^\s.][.?!。])\s+(?=[A-Z가-힣\"“(])|[?!]")
MOST_CHARS = 2_000
"""A longer question is no question for a figure."""
MOST_YEARS = 12
MOST_LINE_WORDS = 9
ONE = Decimal(1)
TIMES = re.compile(r"\btimes\b|\bratio\b|\bmultiple\b|배", re.IGNORECASE)
CASH = "cash_and_cash_equivalents"


class Task(NamedTuple):
    """One figure to work out."""

    title: str
    expression: Expression
    year: int | None
    """Fiscal year of the lines that name none; None where all do."""
    label: str
    """The period as the answer names it: `FY2019`, `FY2017 … FY2019`."""
    shown: Shown = ""
    part: Part = Part()
    """Of the year; the default is all of it."""


class Computation(NamedTuple):
    """What a question asks to be worked out."""

    tasks: tuple[Task, ...]
    language: Language
    decimals: int | None = None
    """Asked for."""
    scale: str = ""
    """`thousands`, `millions`, `billions`: asked for."""
    defined: bool = False
    """The question gives the formula itself."""
    in_percent: bool = False
    """The question speaks of percent."""


def read_computation(question: str, *, said: Sequence[str] = (), names: Sequence[str] = ()) -> Computation | None:
    """The computation that a question asks for; None where it asks for something else, or not only for one.

    said: what the question calls the documents, as it writes them. names: their own names.
    """
    asked = " ".join(question.split())
    if len(asked) > MOST_CHARS or SEVERAL_PARTS.search(asked) or (part := part_of_year(asked)) is None:
        return None
    decimals = next((_count(match["count"] or match["count_ko"]) for match in DECIMALS.finditer(asked)), None)
    scale = next((f"{match['scale'].lower().rstrip('s')}s" for match in IN_UNIT.finditer(asked)), "")
    language = language_of(asked)
    if found := _defined(asked):
        tasks: tuple[Task, ...] = (found,)
    else:
        clauses = CLAUSE.split(DECIMALS.sub(" ", expand(asked).asked))
        plain = " ".join(part for part in clauses if not _instructs(part))
        for name in sorted(said, key=len, reverse=True):
            plain = re.sub(rf"{re.escape(name)}(?:['’]s\b)?", " ", plain, flags=re.IGNORECASE)
        tasks = _understood(plain, names)
    tasks = tuple(task._replace(part=part, label=part.labelled(task.label)) for task in tasks)
    percent = PERCENT.search(asked) is not None
    return Computation(tasks, language, decimals, scale, bool(found), percent) if tasks else None


def asks_to_work_out(question: str) -> bool:
    """Whether a question asks for a figure that takes arithmetic unless a document states it: growth, a ratio."""
    asked = " ".join(question.split())[:MOST_CHARS]
    named = mentions(asked)
    if defines(asked) or any(one.concept.statement is None for one in named):
        return True
    how = operation(asked)
    two = SHARE.search(asked) or OF_TWO.search(asked)
    return FIGURE.search(asked) is not None and bool(how in ("growth", "cagr") or two or (how and named))


def defines(question: str) -> bool:
    """Whether a question writes the formula of what it asks for."""
    return _defined(" ".join(question.split())[:MOST_CHARS]) is not None


def _instructs(clause: str) -> bool:
    """Whether a part of a question only says how to answer: "relying on the details of the balance sheet"."""
    return INSTRUCTS.search(clause) is not None and not years_in(clause)


def _count(text: str) -> int:
    return int(text) if text.isdigit() else COUNTS.get(text.lower(), 2)


def _defined(asked: str) -> Task | None:
    """The figure whose formula the question writes."""
    for match in (match for pattern in DEFINED for match in pattern.finditer(asked)):
        body = asked[match.start("body") :]
        ends = [len(body), *(end.start() for end in SENTENCE_END.finditer(body))]
        body = body[: min(ends)].rstrip(" .?!:;")
        try:
            expression = _from_words(body)
        except NoExpression:
            continue
        if not isinstance(expression, Operation | Over) or _unsaid(expression):
            continue
        rest = f"{asked[: match.start()]} . {asked[match.start('body') + min(ends) :]}"
        years = years_in(asked[: match.start()]) or years_in(rest) or years_in(body)
        year = years[-1] if years else None
        name = _title(asked[: match.start()])
        percent = (name and name.concept.unit) or ("%" if PERCENT.search(rest) else "")
        title = asked[name.start : name.end] if name else ""
        return Task(title, expression, year, f"FY{year}" if year else "", _shown(percent))
    return None


def _title(before: str) -> Mention | None:
    """The last ratio or line that is named before its definition."""
    found = mentions(before)
    return found[-1] if found else None


def _shown(unit: str) -> Shown:
    return {"currency": "amount", "%": "%", "times": "times", "days": "days", "per share": "per share"}.get(unit, "")  # type: ignore[return-value]


def _from_words(body: str) -> Expression:
    """The formula that words write: "A divided by B", "the ratio of A to B", "A as a percentage of B"."""
    if match := SHARE.search(body):
        parts = {name: part for name, part in match.groupdict().items() if part}
        part = next(value for name, value in parts.items() if name.startswith("part"))
        whole = next(value for name, value in parts.items() if name.startswith("whole"))
        return Operation("/", parse(part), parse(whole))
    return parse(body)


def _unsaid(expression: Expression) -> bool:
    """Whether the text was no formula: a line of it is a sentence, or none is known."""
    lines = list(lines_of(expression))
    return any(len(words_of(line.said)) > MOST_LINE_WORDS for line in lines) or not any(line.concept for line in lines)


def _understood(asked: str, names: Sequence[str]) -> tuple[Task, ...]:
    """The figures that a question asks for by the names of their lines, where it says nothing else."""
    named = _without_parts(mentions(asked))
    years = years_in(asked)
    if years and (back := YEARS_BACK.search(asked)):
        years = tuple(range(min(years[0], years[-1] - _count(back["count"] or back["count_ko"]) + 1), years[-1] + 1))
    if not named or not years or len(years) > MOST_YEARS:
        return ()
    left = _without(asked, [(one.start, one.end) for one in mentions(asked)])
    how = operation(left)
    if LOOKS_BACK.search(left) or _unread(left, names):
        return ()
    lines = [Line(asked[one.start : one.end], one.concept) for one in named]
    if len(lines) == 2:
        order = _share_order(asked, named)
        if order is None:
            return ()
        part, whole = (lines[at] for at in order)
        title = f"{part.said} / {whole.said}"
        ratio: Expression = Operation("/", part, whole)
        return tuple(_over_years(title, ratio, how, years, "times" if TIMES.search(left) else "%"))
    if len(lines) != 1:
        return ()
    line = lines[0]
    unit = line.concept.unit if line.concept and line.concept.statement is None else ""
    return tuple(_over_years(line.said, line, how, years, _shown(unit) if unit else "amount"))


def _without_parts(named: Sequence[Mention]) -> list[Mention]:
    """Without the lines of which a ratio is made that the question explains, and without "in cash" of a payment."""
    ratios = [one for one in named if one.concept.statement is None]
    if len(ratios) == 1:
        parts = {line.concept for line in lines_of(parse(ratios[0].concept.formula))}
        return ratios if parts == {one.concept for one in named if one not in ratios} else list(named)
    return [one for one in named if one.concept.key != CASH or len(named) == 1]


def _without(text: str, spans: Sequence[tuple[int, int]]) -> str:
    for start, end in sorted(spans, reverse=True):
        text = f"{text[:start]} ¤ {text[end:]}"
    return text


def operation(asked: str) -> str:
    """What a question asks to be done with a line; empty for the value itself."""
    patterns = {"cagr": CAGR, "growth": GROWTH, "average": AVERAGE, "difference": DIFFERENCE}
    return next((how for how, pattern in patterns.items() if pattern.search(asked)), "")


def _share_order(asked: str, named: Sequence[Mention]) -> tuple[int, int] | None:
    """Which of two lines is the part and which the whole."""
    before = asked[: named[0].start]
    between = asked[named[0].end : named[1].start]
    after = asked[named[1].end :]
    for pattern, order in ((_WORDS["part_first"], (0, 1)), (_WORDS["whole_first"], (1, 0))):
        if re.search(pattern, f"{before}¤{between}¤{after}", re.IGNORECASE):
            return order
    return None


def _unread(left: str, names: Sequence[str]) -> list[str]:
    """Words of the question that no rule knows, and that are of no document's name."""
    known = "".join(names).lower()
    plain = YEAR_SAID.sub(" ", PART_SAID.sub(" ", YEARS_BACK.sub(" ", ASIDE.sub(" ", left))))
    words = re.findall(r"[a-z][a-z&/]*|[가-힣]+|\d+", plain.lower().replace("’", "'").replace("'s", " "))
    return [word for word in words if not _is_spoken(word) and not (len(word) > 2 and word in known)]


def _is_spoken(word: str) -> bool:
    return word in SPOKEN or (not word.isascii() and any(form in SPOKEN for form in without_particles(word)))


def _over_years(title: str, what: Expression, how: str, years: Sequence[int], shown: Shown) -> Iterator[Task]:
    """The operation over the years of the question; a value is asked for each of them."""
    first, last = years[0], years[-1]
    label = f"FY{first} … FY{last}" if len(years) > 1 else f"FY{last}"
    if how == "":
        yield from (Task(title, what, year, f"FY{year}", shown) for year in years)
        return
    if how == "average":
        yield Task(title, Over("average", what, tuple(years) if len(years) > 1 else ()), last, label, shown)
        return
    if len(years) == 1:
        first, label = last - 1, f"FY{last - 1} → FY{last}"
    else:
        label = f"FY{first} → FY{last}"
    if how == "difference":
        yield Task(title, Over("change", what, (first, last)), last, label, shown)
        return
    if how == "cagr":
        yield Task(title, Over("cagr", what, (first, last)), last, label, "%")
        return
    if shown == "%":  # of a margin people name the points, not the growth of a percentage
        yield Task(title, Over("change", what, (first, last)), last, label, "%")
        return
    growth = Operation("-", Operation("/", _at(what, last), _at(what, first)), Constant(ONE, "1"))
    yield Task(title, growth, last, label, "%")


def _at(expression: Expression, year: int) -> Expression:
    """An expression whose lines are of one year."""
    match expression:
        case Line():
            return expression._replace(year=expression.year or year)
        case Operation(sign, left, right):
            return Operation(sign, _at(left, year), _at(right, year))
        case _:
            return expression
