"""What an answer is besides a formula: lists, sets, tuples, intervals, relations, matrices, words, percentages."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from tasks.grading.math.expressions import Node


class Formula(NamedTuple):
    """A number or an expression."""

    node: Node
    unit: str = ""
    """Canonical, empty where there is none or one that is not known."""


class Percentage(NamedTuple):
    """`28\\%`: as a value it is 28 or 0.28, as the other side has it."""

    node: Node


class Words(NamedTuple):
    """Text, lower case."""

    text: str


class Choice(NamedTuple):
    """A letter of multiple choice: `(C)`."""

    letter: str


class Based(NamedTuple):
    """A number written to a base: `204_5`."""

    digits: str
    base: str


class Ratio(NamedTuple):
    """`3:4`, or a time of day `12:05`."""

    parts: tuple[Answer, ...]
    clock: bool


class Bracketed(NamedTuple):
    """A tuple, a point, an interval or a set, by its brackets."""

    opening: str
    items: tuple[Answer, ...]
    closing: str


class Listed(NamedTuple):
    """Values with commas, `and` or `or` between them; in any order."""

    items: tuple[Answer, ...]


class Joined(NamedTuple):
    """Sets with `\\cup`, `\\cap` or `\\setminus` between them."""

    sign: str
    parts: tuple[Answer, ...]


class Matrix(NamedTuple):
    """Rows of values."""

    rows: tuple[tuple[Answer, ...], ...]


class Relation(NamedTuple):
    """`a = b`, `a < x <= b`: sides with signs between them."""

    sides: tuple[Answer, ...]
    signs: tuple[str, ...]
    subject: str = ""
    """The left side as it is written."""


Answer: TypeAlias = (
    Formula | Percentage | Words | Choice | Based | Ratio | Bracketed | Listed | Joined | Matrix | Relation
)
