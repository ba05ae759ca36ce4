"""Reads a question as a computation over lines of statements: what, of which years, and how it is to be shown.

"What was Marlow's inventory turnover in FY2019, defined as COGS / average inventory?" needs no model: the formula is
written there, or stands in `concepts.toml`. What names a part of the company ("Domestic") goes with its line; a word
that nothing explains makes the reading less sure, and several of them make it none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from decimal import Decimal
from typing import Literal, NamedTuple

from tasks.language.sentences import Language, language_of
from tasks.rag.numbers.combining import UNITS, Combined, Shown, combine
from tasks.rag.numbers.concepts import Concept, Mention, concepts, mentions, words_of
from tasks.rag.numbers.expressions import (
    Constant,
    Expression,
    How,
    Line,
    NoExpression,
    Operation,
    Over,
    lines_of,
    parse,
    years_in,
)
from tasks.rag.numbers.question_shape import NAME, OWNER, WORDS, Shape, shape_of, with_marks, without_instructions
from tasks.rag.numbers.ranking import LEAST, MEMBERS
from tasks.rag.numbers.year_parts import WHOLE_YEAR, Part, When, parts_in, spelled_out
from tasks.rag.retrieval.expansion import expand


def _any_of(name: str) -> re.Pattern[str]:
    patterns = "|".join(f"(?:{pattern})" for pattern in WORDS[name])
    return re.compile(patterns.replace("@VERBS@", WORDS["verbs"]), re.IGNORECASE)


DEFINED = tuple(re.compile(pattern, re.IGNORECASE) for pattern in WORDS["defined"])
"""What stands between the name of a ratio and its formula; group `body` is the formula."""
OPERATIONS = {name: _any_of(name) for name in ("cagr", "highest", "lowest", "growth", "average", "difference", "total")}
SHARE, PERCENT = map(_any_of, ("share", "percent"))
FIGURE, OF_TWO, IN_UNIT, DECIMALS, POINTS, ASKS_TEXT, ASKS_SHARE, SUBTRACTION = (
    re.compile(WORDS[name], re.IGNORECASE)
    for name in ("figure", "of_two", "in_unit", "decimals", "points", "asks_text", "asks_share", "subtraction")
)
PREVIOUS_YEAR, PREVIOUS_QUARTER, CURRENT, LAST_YEARS, BOTH_ENDS, YEAR_END, FORMULA_END = (
    re.compile(WORDS[name], re.IGNORECASE)
    for name in (
        "previous_year",
        "previous_quarter",
        "current",
        "last_years",
        "both_ends",
        "year_end",
        "formula_end",
    )
)
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
YEARS_BACK = re.compile(r"\b(?P<count>\d|two|three|four|five)[\s-]years?\b|(?P<count_ko>\d)\s?개년", re.IGNORECASE)
SENTENCE_END = re.compile(r"(?<=[^\s.][.?!。])\s+(?=[A-Z가-힣\"“(])|[?!]")
ASKS_FIGURE = re.compile(WORDS["asks_figure"], re.IGNORECASE)
MOST_CHARS = 2_000
"""A longer question is no question for a figure."""
MOST_YEARS = 12
MOST_LINE_WORDS = 9
GENERIC = frozenset(("value", "amount", "number", "year", "period", "figure", "price", "cost"))
"""Words of formulas in the abstract: "ending value / beginning value"."""
MOST_FREE_WORDS = 3
"""Of a line of a formula of which no line is known."""
MOST_UNREAD = 3
"""Words that nothing explains; a question with more is not understood."""
ONE, HUNDRED = Decimal(1), Decimal(100)
MARKED = re.compile(rf"[{NAME}{OWNER}](?:\s+의(?=\s))?\s*")
CASH = "cash_and_cash_equivalents"
PAID = {"income_tax": "income_taxes_paid", "interest_expense": "interest_paid", "dividends_declared": "dividends_paid"}
"""Costs of a year, and what is paid for them."""


class Task(NamedTuple):
    """One figure to work out."""

    title: str
    expression: Expression
    year: int | None
    """Fiscal year of the lines that name none; None where all do."""
    label: str
    """The period as the answer names it: `FY2019`, `FY2017 … FY2019`."""
    shown: Shown = ""
    part: Part = WHOLE_YEAR
    """Of the year."""
    rank: Literal["", "most", "least"] = ""
    """Of the parts of a company the one that has most of the line, or least."""

    @property
    def when(self) -> When | None:
        """The period of the lines that name none."""
        return When(self.year, self.part) if self.year else None


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
    unread: tuple[str, ...] = ()
    """Words of the question that nothing explains."""
    assumed: bool = False
    """The question names no year: that of the documents is taken."""


Latest = Callable[[], When | None]
"""The period that the documents are of."""
Labels = Callable[[], Collection[str]]
"""Words of the labels of their tables."""


def read_computation(
    question: str,
    *,
    said: Sequence[str] = (),
    names: Sequence[str] = (),
    latest: Latest = lambda: None,
    labels: Labels = frozenset,
) -> Computation | None:
    """The computation that a question asks for; None where it asks for something else, or not only for one.

    said: what the question calls the documents, as it writes them. names: their own names.
    """
    asked = spelled_out(" ".join(question.split()))
    if len(asked) > MOST_CHARS:
        return None
    how = shown_as(asked)
    if found := _defined(MARKED.sub(" ", with_marks(asked, said)), latest):
        return how._replace(tasks=(found,), defined=True, assumed=not (years_in(asked) or parts_in(asked)))
    if ASKS_TEXT.search(asked):
        return None
    plain = without_instructions(DECIMALS.sub(" ", BOTH_ENDS.sub(" ", expand(asked).asked)))
    found = _understood(plain, how, said=said, names=names, latest=latest, labels=labels)
    if found and YEAR_END.search(asked) and not BOTH_ENDS.search(asked):
        return found._replace(tasks=tuple(_at_year_end(task) for task in found.tasks))
    return found


def shown_as(question: str) -> Computation:
    """How the answer is to be shown, without what is worked out: language, decimals, scale."""
    decimals = next((_count(match["count"] or match["count_ko"]) for match in DECIMALS.finditer(question)), None)
    scale = next((f"{match['scale'].lower().rstrip('s')}s" for match in IN_UNIT.finditer(question)), "")
    percent = PERCENT.search(question) is not None
    return Computation((), language_of(question), decimals, scale, in_percent=percent)


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


def _count(text: str) -> int:
    return int(text) if text.isdigit() else COUNTS.get(text.lower(), 2)


def _defined(asked: str, latest: Latest = lambda: None) -> Task | None:
    """The figure whose formula the question writes."""
    for match in (match for pattern in DEFINED for match in pattern.finditer(asked)):
        start, end = _formula(asked, match)
        body = asked[start:end].rstrip(" .?!:;")
        try:
            expression = _from_words(body)
        except NoExpression:
            continue
        if not isinstance(expression, Operation | Over) or _unsaid(expression):
            continue
        rest = f"{asked[: match.start()]} . {asked[end:]}"
        whens = _named_in(asked[: match.start()]) or _named_in(rest) or _named_in(body)
        when = whens[-1] if whens else None if any(line.year for line in lines_of(expression)) else latest()
        name = _title(asked[: match.start()])
        percent = (name and name.concept.unit) or ("%" if PERCENT.search(rest) else "")
        title = asked[name.start : name.end] if name else ""
        if in_percent := _without_hundred(expression):
            expression, percent = in_percent, "%"
        how, asked_of = operation(rest), _named_in(rest)
        if how and len(asked_of) > 1 and not any(line.year for line in lines_of(expression)):
            (only,) = over_periods(Combined(title, expression, _shown(percent)), how, asked_of)
            return only
        if when is None:
            return Task(title, expression, None, "", _shown(percent))
        return Task(title, expression, when.year, when.label, _shown(percent), when.part)
    return None


def _without_hundred(expression: Expression) -> Expression | None:
    """What is multiplied by 100 to be shown in percent; None for other formulas."""
    match expression:
        case Operation("*", inner, Constant(value)) | Operation("*", Constant(value), inner) if value == HUNDRED:
            return inner
        case _:
            return None


def _formula(asked: str, match: re.Match[str]) -> tuple[int, int]:
    """Where the formula stands: up to the end of its sentence, or what the pattern holds of it."""
    if "whole" in match.groupdict():
        return match.span("whole")
    start = match.start("body")
    ends = (end.start() for pattern in (SENTENCE_END, FORMULA_END) for end in pattern.finditer(asked, start))
    return start, min(ends, default=len(asked))


def _named_in(text: str) -> tuple[When, ...]:
    """The periods that a text names by years."""
    if years := years_in(text):
        parts = parts_in(text)
        return parts if len(parts) == 1 else tuple(When(year) for year in years)
    return ()


def _title(before: str) -> Mention | None:
    """The last ratio or line that is named before its definition."""
    found = mentions(before)
    return found[-1] if found else None


def _shown(unit: str) -> Shown:
    return UNITS.get(unit, "")


def _from_words(body: str) -> Expression:
    """The formula that words write: "A divided by B", "the ratio of A to B", "A as a percentage of B"."""
    if match := SHARE.search(body):
        parts = {name: part for name, part in match.groupdict().items() if part}
        part = next(value for name, value in parts.items() if name.startswith("part"))
        whole = next(value for name, value in parts.items() if name.startswith("whole"))
        return Operation("/", parse(part), parse(whole))
    if match := SUBTRACTION.search(body):
        return Operation("-", parse(match["more"]), parse(match["less"]))
    before, comma, after = body.rpartition(", divided by ")  # "a minus b, divided by c" divides the difference
    return Operation("/", parse(before), parse(after)) if comma else parse(body)


def _unsaid(expression: Expression) -> bool:
    """Whether the text was no formula: a line of it is a sentence, or none is known."""
    lines = list(lines_of(expression))
    if any(line.concept for line in lines):
        return any(len(words_of(line.said)) > MOST_LINE_WORDS for line in lines)
    words = [words_of(line.said) for line in lines]
    return not all(0 < len(one) <= MOST_FREE_WORDS and not GENERIC.intersection(one) for one in words)


def _understood(
    plain: str, how: Computation, *, said: Sequence[str], names: Sequence[str], latest: Latest, labels: Labels
) -> Computation | None:
    """The figures that a question asks for by the names of their lines."""
    whens, assumed = _whens(plain, latest)
    if not whens or len(whens) > MOST_YEARS:
        return None
    if found := MEMBERS.search(plain):
        return _ranking(found[0], shape_of(plain, said=said, names=names), whens[-1], how._replace(assumed=assumed))
    for shape in _shapes(plain, how, said=said, names=names, labels=labels):
        tasks = tuple(_tasks(shape, whens, how, plain))
        if tasks and _is_read(shape, plain):
            return how._replace(tasks=tasks, unread=shape.unread, assumed=assumed)
    return None


def _at_year_end(task: Task) -> Task:
    """A ratio whose balances are of the end of the year, and not the mean of both ends."""
    ratio = task.expression
    if isinstance(ratio, Line) and ratio.concept and _is_ratio(ratio) and not ratio.of:
        return task._replace(expression=_without_means(parse(ratio.concept.formula)))
    return task


def _without_means(expression: Expression) -> Expression:
    match expression:
        case Operation(sign, left, right):
            return Operation(sign, _without_means(left), _without_means(right))
        case Over("average", what, ()):
            return what
        case _:
            return expression


def _ranking(asked: str, shape: Shape, when: When, how: Computation) -> Computation | None:
    """Which part of the company has most of a line; without a line it is revenue that makes a segment large."""
    lines = [line for line in shape.lines if line.concept and line.concept.statement]
    if len(shape.lines) > 1 or len(lines) != len(shape.lines) or any(line.of for line in lines):
        return None
    line = lines[0] if lines else Line("revenue", concepts()["revenue"])
    rank = "least" if LEAST.search(asked) else "most"
    task = Task(line.said, line, when.year, when.label, "amount", when.part, rank)
    return how._replace(tasks=(task,), unread=shape.unread)


def _shapes(
    plain: str, how: Computation, *, said: Sequence[str], names: Sequence[str], labels: Labels
) -> Iterator[Shape]:
    """The ways to read a question, the surest first: by concepts alone, or by other words of tables too."""
    known, free = (_without_parts(shape_of(plain, said=said, names=names, free=free)) for free in (False, True))
    named_more = any(_in_labels(one, labels) for one in known.unread) and len(free.lines) > len(known.lines)
    if known.lines and not named_more:
        yield _with_loose(known, labels)
    if len(free.lines) > len(known.lines) and _asks_arithmetic(free, how):
        yield free


def _is_read(shape: Shape, plain: str) -> bool:
    """Whether enough of a question is understood, and it asks for a figure."""
    return (
        sum(len(one.split()) for one in shape.unread) <= MOST_UNREAD
        and not shape.loose
        and ASKS_FIGURE.search(plain) is not None
    )


def _asks_arithmetic(shape: Shape, how: Computation) -> bool:
    """Whether an operation is asked for: lines of no concept are only guessed at where one is."""
    figures = combine(shape.skeleton, shape.lines, percent=how.in_percent)
    return len(figures) == 1 and (len(shape.lines) > 1 or bool(operation(shape.skeleton)))


def _with_loose(shape: Shape, labels: Labels) -> Shape:
    """The lines of the part of the company that is named away from them; loose words stay where no label has them."""
    if len(shape.loose) != 1 or not _in_labels(shape.loose[0], labels) or any(line.of for line in shape.lines):
        return shape
    of = shape.loose[0]
    lines = (line._replace(of=of, said=f"{of} {line.said}") if line.concept else line for line in shape.lines)
    return shape._replace(lines=tuple(lines), loose=())


def _in_labels(said: str, labels: Labels) -> bool:
    found = labels()
    return bool(words_of(said)) and all(word in found for word in words_of(said))


def _without_parts(shape: Shape) -> Shape:
    """Without the lines of which a ratio is made that the question explains, and without "in cash" of a payment."""
    lines = list(enumerate(shape.lines))
    ratios = [at for at, line in lines if line.concept and line.concept.statement is None]
    dropped: set[int] = set()
    if len(ratios) == 1:
        ratio = shape.lines[ratios[0]].concept
        parts = set(_inputs(ratio)) if ratio else set()
        if parts >= {line.concept for at, line in lines if at not in ratios}:
            dropped = {at for at, _ in lines} - set(ratios)
    elif len(lines) > 1:
        dropped = {at for at, line in lines if line.concept and line.concept.key == CASH}
        dropped = dropped if len(dropped) < len(lines) else set()
        shape = shape._replace(lines=tuple(map(_paid, shape.lines))) if dropped else shape
    if not dropped:
        return shape
    pieces = re.split("(¤)", shape.skeleton)
    kept = [piece for at, piece in enumerate(pieces) if at % 2 == 0 or at // 2 not in dropped]
    left = tuple(line for at, line in enumerate(shape.lines) if at not in dropped)
    return shape._replace(skeleton=" ".join(kept), lines=left)


def _paid(line: Line) -> Line:
    """What is paid in cash for a cost is a line of its own."""
    paid = PAID.get(line.concept.key) if line.concept else None
    return line._replace(said=f"{line.said} paid", concept=concepts()[paid]) if paid else line


def _is_ratio(line: Line) -> bool:
    return line.concept is not None and line.concept.statement is None


def _inputs(ratio: Concept, above: tuple[str, ...] = ()) -> Iterator[Concept]:
    """The lines that a ratio is made of, through other ratios; above: those that lead to it."""
    for line in lines_of(parse(ratio.formula)):
        if line.concept and line.concept.statement:
            yield line.concept
        elif line.concept and line.concept.key not in (*above, ratio.key):
            yield from _inputs(line.concept, (*above, ratio.key))


def _whens(asked: str, latest: Latest) -> tuple[tuple[When, ...], bool]:
    """The periods that a question names, in order of time; and whether it leaves them to the documents."""
    parts = parts_in(asked)
    years = years_in(asked)
    if parts and not years:  # "in the second quarter"
        now = latest()
        whens = tuple(one._replace(year=now.year) for one in parts) if now else ()
        assumed = True
    elif parts:
        whens, assumed = parts, False
    elif years:
        if back := YEARS_BACK.search(asked):
            first = years[-1] - _count(back["count"] or back["count_ko"]) + 1
            years = tuple(range(min(years[0], first), years[-1] + 1))
        whens, assumed = tuple(When(year) for year in years), False
    else:
        now = latest()
        whens, assumed = ((now,) if now else ()), True
    whens = _with_earlier(asked, whens, assumed=assumed)
    return tuple(sorted(whens, key=_time)), assumed


def _time(when: When) -> tuple[int, int, tuple[int, int]]:
    return when.year, when.part.quarter or 0, when.part.month_and_day or (0, 0)


def _with_earlier(asked: str, whens: tuple[When, ...], *, assumed: bool) -> tuple[When, ...]:
    """With the periods that are named by their place: the year before, the quarter before, the last three years."""
    if len(whens) != 1:
        return whens
    if several := LAST_YEARS.search(asked):
        count = _count(several["count"] or several["count_ko"])
        return tuple(whens[0]._replace(year=whens[0].year - back) for back in reversed(range(count)))
    for pattern, quarters in ((PREVIOUS_QUARTER, True), (PREVIOUS_YEAR, False)):
        if pattern.search(asked):
            earlier = whens[0].before(quarters=quarters)
            # "revenue of last year" alone is of that year, and a comparison is of both
            return (earlier, *whens) if operation(asked) or not assumed or CURRENT.search(asked) else (earlier,)
    return whens


def operation(asked: str) -> str:
    """What a question asks to be done with a line over its periods; empty for the value itself."""
    if POINTS.search(asked):
        return "difference"
    return next((how for how, pattern in OPERATIONS.items() if pattern.search(asked)), "")


def _extreme(plain: str) -> str:
    """Whether the highest or the lowest of several years is asked for: the skeleton has no years."""
    return next((how for how in ("highest", "lowest") if OPERATIONS[how].search(plain)), "")


def _tasks(shape: Shape, whens: Sequence[When], how: Computation, plain: str) -> Iterator[Task]:
    figures = combine(shape.skeleton, shape.lines, percent=how.in_percent)
    only = figures[0].expression if len(figures) == 1 else None
    if isinstance(only, Line) and not _is_ratio(only) and ASKS_SHARE.search(shape.skeleton):
        return  # of two lines, of which one is not known
    for figure in figures:
        two = isinstance(figure.expression, Operation) and len(shape.lines) > 1
        done = _extreme(plain) or operation(shape.skeleton)
        if two and len(whens) == 1 and done in ("growth", "difference", "total"):
            done = ""  # of the two lines, and not of two years
        yield from over_periods(figure, done, whens)


def over_periods(figure: Combined, how: str, whens: Sequence[When]) -> Iterator[Task]:
    """The operation over the periods of a question; a value is asked for each of them."""
    title, what, shown = figure
    first, last = whens[0], whens[-1]
    if how == "" or (how == "total" and len(whens) == 1):
        yield from (Task(title, what, one.year, one.label, shown, one.part) for one in whens)
        return
    span = f"{first.label} … {last.label}" if len(whens) > 1 else last.label
    if how in ("highest", "lowest", "total", "average"):
        over: How = {"total": "sum"}.get(how, how)  # type: ignore[assignment]
        yield _task(title, Over(over, what, _years(whens) if len(whens) > 1 else ()), last, span, shown)
        return
    if len(whens) == 1:
        first = last.before()
    span = f"{first.label} → {last.label}"
    if how == "cagr":
        yield _task(title, Over("cagr", what, _years((first, last))), last, span, "%")
    elif how == "difference" or shown == "%":  # of a margin people name the points, not the growth of a percentage
        yield _task(title, Over("change", what, _years((first, last))), last, span, shown)
    else:
        growth = Operation("-", Operation("/", at(what, last), at(what, first)), Constant(ONE, "1"))
        yield _task(title, growth, last, span, "%")


def _task(title: str, what: Expression, last: When, label: str, shown: Shown) -> Task:
    return Task(title, what, last.year, label, shown, last.part)


def _years(whens: Sequence[When]) -> tuple[int | When, ...]:
    return tuple(one.year if one.part == WHOLE_YEAR else one for one in whens)


def at(expression: Expression, when: When) -> Expression:
    """An expression whose lines are of one period."""
    match expression:
        case Line():
            part = None if when.part == WHOLE_YEAR else when.part
            return expression._replace(year=expression.year or when.year, part=expression.part or part)
        case Operation(sign, left, right):
            return Operation(sign, at(left, when), at(right, when))
        case _:
            return expression
