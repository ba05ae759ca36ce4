"""How the lines of a question are put together: their sum, their difference, a part of a whole."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Literal, NamedTuple

from tasks.rag.numbers.concepts import concepts
from tasks.rag.numbers.expressions import Constant, Expression, Line, Operation
from tasks.rag.numbers.question_shape import CLASSES, LINE, SPOKEN, WORDS

Shown = Literal["", "amount", "%", "times", "days", "per share"]
TIMES = re.compile(r"\btimes\b|\bratio\b|\bmultiple\b|(?<![가-힣])배|몇\s?배", re.IGNORECASE)
SMALL, JOINED, TOGETHER, MARGIN, MINUS, MINUS_REVERSED, PART_FIRST, WHOLE_FIRST, CAME_FROM, EXPLAINED = (
    re.compile(WORDS[name], re.IGNORECASE)
    for name in (
        "small",
        "joined",
        "together",
        "margin",
        "minus",
        "minus_reversed",
        "part_first",
        "whole_first",
        "came_from",
        "explained",
    )
)
PER_SHARE = re.compile(rf"{LINE}\s+per\s+(?:diluted\s+)?share\b", re.IGNORECASE)
PER = re.compile(rf"{LINE}\s+per\s+{LINE}", re.IGNORECASE)
UNITS: dict[str, Shown] = {"currency": "amount", "%": "%", "times": "times", "days": "days", "per share": "per share"}


class Combined(NamedTuple):
    """One figure, still without its years."""

    title: str
    expression: Expression
    shown: Shown


class _Term(NamedTuple):
    title: str
    expression: Expression
    unit: Shown


def combine(skeleton: str, lines: Sequence[Line], *, percent: bool) -> tuple[Combined, ...]:
    """The figures that a skeleton makes of its lines; empty where it does not say how they belong together.

    percent: whether the question speaks of percent.
    """
    plain = " ".join(SMALL.sub(" ", skeleton).split())
    plain, terms = _margins(plain, [_term(line) for line in lines])
    plain, terms = _explained(*_sums(plain, terms))
    if len(terms) == 1 and (found := CAME_FROM.search(plain)) and isinstance(whole := terms[0].expression, Line):
        return _of_part(whole, next(words for words in found.groups() if words))
    if len(terms) == 1:
        return tuple(Combined(*term) for term in _per_share(plain, terms))
    if len(terms) == 2:
        return _of_two(plain, terms, percent=percent) or _each(plain, terms)
    return _each(plain, terms)


def names_a_part(skeleton: str) -> bool:
    """Whether a question asks which share of its one line a part of the company has."""
    return CAME_FROM.search(" ".join(SMALL.sub(" ", skeleton).split())) is not None


def _term(line: Line) -> _Term:
    ratio = line.concept is not None and line.concept.statement is None
    return _Term(line.said, line, UNITS.get(line.concept.unit, "") if ratio and line.concept else "amount")


def _margins(plain: str, terms: list[_Term]) -> tuple[str, list[_Term]]:
    """ "Operating income margin" is a share of revenue."""
    for match in reversed(list(MARGIN.finditer(plain))):
        at = plain[: match.start()].count(LINE)
        said, line, unit = terms[at]
        if unit == "amount" and isinstance(line, Line):
            of = Line("revenue", concepts()["revenue"], of=line.of)
            terms[at] = _Term(f"{said} margin", Operation("/", line, of), "%")
        plain = f"{plain[: match.start()]}{LINE}{plain[match.end() :]}"
    return plain, terms


def _per_share(plain: str, terms: list[_Term]) -> list[_Term]:
    if not PER_SHARE.search(plain) or terms[0].unit != "amount":
        return terms
    shares = Line("diluted shares", concepts()["weighted_average_shares_diluted"])
    return [_Term(f"{terms[0].title} per share", Operation("/", terms[0].expression, shares), "per share")]


def _sums(plain: str, terms: list[_Term]) -> tuple[str, list[_Term]]:
    """ "Goodwill and intangible assets together" is one term."""
    if not TOGETHER.search(plain):
        return plain, terms
    for match in JOINED.finditer(plain):
        first, count = plain[: match.start()].count(LINE), match.group().count(LINE)
        added = terms[first]
        for term in terms[first + 1 : first + count]:
            added = _Term(
                f"{added.title} + {term.title}", Operation("+", added.expression, term.expression), added.unit
            )
        plain = f"{plain[: match.start()]}{LINE}{plain[match.end() :]}"
        return plain, [*terms[:first], added, *terms[first + count :]]
    return plain, terms


def _explained(plain: str, terms: list[_Term]) -> tuple[str, list[_Term]]:
    """ "Total debt, that is, bonds and loans together" is the second, with the name of the first."""
    match = EXPLAINED.search(plain)
    if not match or len(terms) < 2:
        return plain, terms
    first = plain[: match.start()].count(LINE)
    told = terms[first + 1]._replace(title=terms[first].title)
    return f"{plain[: match.start()]}{LINE}{plain[match.end() :]}", [*terms[:first], told, *terms[first + 2 :]]


def _of_part(whole: Line, words: str) -> tuple[Combined, ...]:
    """The share of a whole that a part of the company has: "what share of revenue came from Felt?" """
    of = " ".join(word for word in words.split() if word.lower() not in SPOKEN and CLASSES.get(word.lower()) != "s")
    if not of or whole.of:
        return ()
    part = whole._replace(of=of, said=f"{of} {whole.said}")
    return (Combined(f"{part.said} / {whole.said}", Operation("/", part, whole), "%"),)


def _of_two(plain: str, terms: Sequence[_Term], *, percent: bool) -> tuple[Combined, ...]:
    """The difference or the ratio of two terms."""
    for pattern, (left, right) in ((MINUS, (0, 1)), (MINUS_REVERSED, (1, 0))):
        if pattern.search(plain):
            return (_difference(terms[left], terms[right], percent=percent),)
    for pattern, (part, whole) in ((PART_FIRST, (0, 1)), (WHOLE_FIRST, (1, 0))):
        if pattern.search(plain):
            title = f"{terms[part].title} / {terms[whole].title}"
            ratio = Operation("/", terms[part].expression, terms[whole].expression)
            if PER.search(plain) and not percent:
                return (Combined(title, ratio, "amount"),)
            return (Combined(title, ratio, "times" if TIMES.search(plain) and not percent else "%"),)
    return ()


def _difference(more: _Term, less: _Term, *, percent: bool) -> Combined:
    title = f"{more.title} − {less.title}"
    if percent and more.unit == "amount":
        share = Operation("-", Operation("/", more.expression, less.expression), Constant(Decimal(1), "1"))
        return Combined(f"{more.title} / {less.title}", share, "%")
    return Combined(title, Operation("-", more.expression, less.expression), more.unit)


def _each(plain: str, terms: Sequence[_Term]) -> tuple[Combined, ...]:
    """Each of the terms that the question lists."""
    listed = JOINED.search(plain)
    return tuple(Combined(*term) for term in terms) if listed and listed.group().count(LINE) == len(terms) else ()
