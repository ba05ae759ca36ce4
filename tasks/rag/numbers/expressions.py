"""Formulas over lines of statements, as people and `concepts.toml` write them.

"365 * (average accounts payable between FY2016 and FY2017) / (FY2017 COGS + change in inventory)" is read as a tree.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Literal, NamedTuple

from tasks.rag.numbers.concepts import Concept, concepts, mentions
from tasks.rag.numbers.periods import Part, When

Aggregate = Literal["average", "change", "previous", "cagr", "sum", "highest", "lowest"]
YEARS = r"(?:FY|fiscal(?:\s+years?)?|years?)?\s?['’]?(?:19|20)\d\d(?:\s?(?:회계\s?연도|년도?))?"
RANGE = re.compile(
    rf"(?:\b(?:between|from|over|across|for|of|in|during)\s+)?(?:the\s+)?(?P<first>{YEARS})\s*(?:and|to|through|[-–~]|및|와|과|에서|부터)\s*(?P<last>{YEARS})(?:\s?까지)?",
    re.IGNORECASE,
)
ONE_YEAR = re.compile(
    rf"(?:\b(?:in|for|of|at|at the end of|year[- ]end)\s+)*\(?(?P<year>{YEARS})\)?(?:의)?", re.IGNORECASE
)
DIGITS = re.compile(r"(?<!\d)(?<!\d[,.])(?:19|20)\d\d(?!\d|[,.]\d)")
OVER: Mapping[Aggregate, re.Pattern[str]] = {
    "average": re.compile(
        r"\b(?:(?:\d|two|three|four|five)[\s-]years?\s)?(?:average|avg\.?|mean)\b(?:\s+of)?"
        r"(?:\s+(?:the\s+)?(?:opening|beginning|starting)\s+and\s+(?:closing|ending|year-end)\b)?"
        r"|(?:기초와?\s?기말의?\s?)?평균",
        re.IGNORECASE,
    ),
    "change": re.compile(r"\b(?:change|increase|decrease)s?\s+(?:in|of)\b|증감액?|변동액?", re.IGNORECASE),
    "previous": re.compile(r"\b(?:previous|prior)(?:[\s-]years?(?:['’]s?)?)?\b|전년도?의?|전기의?", re.IGNORECASE),
}
SIGNS = {
    "plus": "+", "minus": "-", "less": "-", "times": "*", "multiplied by": "*", "divided by": "/", "over": "/",
    "×": "*", "·": "*", "x": "*", "÷": "/", "−": "-", "–": "-", "/": "/", "*": "*", "+": "+", "-": "-",
    "나누기": "/", "곱하기": "*", "더하기": "+", "빼기": "-",
}  # fmt: skip
TOKENS = re.compile(
    r"(?P<number>(?<![\w.])\d+(?:,\d{3})*(?:\.\d+)?(?![\d년]|\s?-?(?:year|day|month)))"
    r"|(?P<word_sign>\b(?:plus|minus|less|times|multiplied by|divided by)\b|나누기|곱하기|더하기|빼기)"
    r"|(?P<sign>[×÷*+−]|(?<=[\s)])[-–x/·](?=[\s(\d])|(?<=\))[-/]|[-/](?=\()|(?<=[a-zA-Z가-힣])/(?=[a-zA-Z가-힣]{2}))"
    r"|(?P<bracket>[()\[\]])",
    re.IGNORECASE,
)
NAME_BRACKETS = re.compile(
    r"\((?:loss|losses|deficit|income|expense|benefit|provision|net|used in|usage|or [^)]*|[A-Z]{2,6})\)"
)
"""Brackets that belong to a name: "net income (loss)", "days payable outstanding (DPO)"."""
MOST_DEPTH = 8  # of brackets: the parser calls itself for each, and anybody may write a question
NEUTRAL_WORDS = re.compile(
    r"\b(?:the|total|its|their|of|and|for|company|net|year|end|ending|fiscal|consolidated|reported|to"
    r"|attributable|(?:share|stock)(?:owner|holder)s?)\b",
    re.IGNORECASE,
)
"""Words that may stand beside the name of a line without making it another line."""
SAYS_MORE = re.compile(r"[^\W\d_]{2,}")


class Constant(NamedTuple):
    """A number that a formula writes, and how it writes it."""

    value: Decimal
    text: str


class Line(NamedTuple):
    """A line of a statement, or a ratio, at a year."""

    name: str
    concept: Concept | None
    """The concept that it names; None for a line that is looked for by its words."""
    year: int | None = None
    """Fiscal year; None stands for the computation's."""
    of: str = ""
    """Words that qualify the concept: a segment, a country, a kind."""
    part: Part | None = None
    """Part of the year; None stands for the computation's."""
    preferred: str = ""
    """Other words of the question that labels hold: a cell with them is preferred."""


class Operation(NamedTuple):
    """Two expressions joined by a sign of arithmetic."""

    sign: Literal["+", "-", "*", "/"]
    left: Expression
    right: Expression


class Over(NamedTuple):
    """An expression over years: their average, the last minus the first, the first of two, the rate of growth."""

    aggregate: Aggregate
    operand: Expression
    years: tuple[int | When, ...] = ()
    """The periods; empty for that of the computation and the one before. A bare year stands for the computation's part
    of it."""


Expression = Constant | Line | Operation | Over


class NoExpression(ValueError):
    """A text is not a formula over lines; the message says why."""


class _Token(NamedTuple):
    kind: str
    text: str


def parse(text: str) -> Expression:
    """Parse the formula that a text writes. Raises NoExpression."""
    # the dash of "2017 - 2018" is no minus
    spelled = RANGE.sub(lambda match: f" from {match['first']} to {match['last']} ", NAME_BRACKETS.sub(" ", text))
    tokens = list(_tokenize(spelled))
    if spelled.rstrip(" .").endswith(tuple("+-−*×/÷")):
        raise NoExpression(f"{text!r} ends with a sign")
    expression, rest = _parse_sum(tokens, 0)
    if rest:
        raise NoExpression(f"{text!r}: {rest[0].text!r} is left over")
    return expression


def lines_of(expression: Expression) -> Iterator[Line]:
    """Yield the lines that a formula names, from left to right."""
    match expression:
        case Line():
            yield expression
        case Operation(_, left, right):
            yield from lines_of(left)
            yield from lines_of(right)
        case Over(_, operand, _):
            yield from lines_of(operand)
        case Constant():
            return


def find_years(text: str) -> tuple[int, ...]:
    """Return the years that a text names, and those within a range of up to 30, in order of time."""
    years: set[int] = set()
    for match in RANGE.finditer(text):
        first, last = (int(DIGITS.search(match[name])[0]) for name in ("first", "last"))  # type: ignore[index]
        years.update(range(first, last + 1) if last - first < 30 else (first, last))
    years.update(int(digits) for digits in DIGITS.findall(text))
    return tuple(sorted(years))


def _tokenize(text: str) -> Iterator[_Token]:
    """Yield the numbers, signs and brackets of a formula and the words between them, in order."""
    end = 0
    for match in TOKENS.finditer(text):
        if words := text[end : match.start()].strip(" ,;:"):
            yield _Token("words", words)
        end = match.end()
        kind, sign = match.lastgroup or "", match.group().lower()
        if kind == "bracket":
            yield _Token("(" if sign in "([" else ")", sign)
        elif kind == "number":
            yield _Token("number", sign)
        else:
            yield _Token("sign", SIGNS[sign])
    if words := text[end:].strip(" ,;:"):
        yield _Token("words", words)


def _parse_sum(tokens: Sequence[_Token], depth: int) -> tuple[Expression, Sequence[_Token]]:
    """Return the sum that the tokens begin with, and the tokens behind it. Raises NoExpression."""
    if depth > MOST_DEPTH:
        raise NoExpression(f"brackets are nested more than {MOST_DEPTH} deep")
    left, rest = _parse_product(tokens, depth)
    while rest and rest[0].kind == "sign" and rest[0].text in "+-":
        right, after = _parse_product(rest[1:], depth)
        left, rest = Operation("+" if rest[0].text == "+" else "-", left, right), after
    return left, rest


def _parse_product(tokens: Sequence[_Token], depth: int) -> tuple[Expression, Sequence[_Token]]:
    """Return the product that the tokens begin with, and the tokens behind it. Raises NoExpression."""
    left, rest = _parse_factor(tokens, depth)
    while rest and rest[0].kind == "sign" and rest[0].text in "*/":
        right, after = _parse_factor(rest[1:], depth)
        left, rest = Operation("*" if rest[0].text == "*" else "/", left, right), after
    return left, rest


def _parse_factor(tokens: Sequence[_Token], depth: int) -> tuple[Expression, Sequence[_Token]]:
    """Return the number, line, bracket or aggregate at the front, and the tokens behind it. Raises NoExpression."""
    if not tokens:
        raise NoExpression("the formula ends where a line is expected")
    first, rest = tokens[0], tokens[1:]
    if first.kind == "number":
        return Constant(Decimal(first.text.replace(",", "")), first.text), rest
    if first.kind == "(":
        return _parse_bracketed(rest, depth)
    if first.kind == "words":
        if rest and rest[0].kind == "(":  # average(…), "the average of (…)"
            for aggregate, pattern in OVER.items():
                if aggregate == first.text.lower() or pattern.fullmatch(first.text.removeprefix("the ")):
                    inside, after = _parse_bracketed(rest[1:], depth)
                    return Over(aggregate, inside), after
        return _parse_line(first.text), rest
    raise NoExpression(f"{first.text!r} stands where a line is expected")


def _parse_bracketed(tokens: Sequence[_Token], depth: int) -> tuple[Expression, Sequence[_Token]]:
    inside, after = _parse_sum(tokens, depth + 1)
    if not after or after[0].kind != ")":
        raise NoExpression("a bracket is not closed")
    return inside, after[1:]


def _parse_line(text: str) -> Expression:
    """Read words as a line with its years: "FY2018 COGS", "average PP&E between 2017 and 2018". Raises NoExpression."""
    years = find_years(text)
    words = ONE_YEAR.sub(" ", RANGE.sub(" ", text))
    aggregate: Aggregate | None = next((kind for kind, pattern in OVER.items() if pattern.search(words)), None)
    if aggregate:
        words = OVER[aggregate].sub(" ", words)
    name = " ".join(words.split()).strip(" ,;:.’'")
    name = name.removeprefix("the ")
    if not any(sign.isalpha() for sign in name):
        raise NoExpression(f"{text!r} names no line")
    concept = find_concept(name)
    line = Line(concept.names[0] if concept and name == concept.key else name, concept)  # formulas name keys
    if aggregate:
        return Over(aggregate, line, years)
    if len(years) > 1:
        raise NoExpression(f"{text!r} names several years")
    return line._replace(year=years[0] if years else None)


def find_concept(words: str) -> Concept | None:
    """Return the concept that words name, by its key or a name beside neutral words only; None for none or several."""
    if words in concepts():
        return concepts()[words]
    mentioned = mentions(words)
    if len(mentioned) != 1:
        return None
    outside = f"{words[: mentioned[0].start]} {words[mentioned[0].end :]}"
    return None if SAYS_MORE.search(NEUTRAL_WORDS.sub(" ", outside)) else mentioned[0].concept
