"""Inequalities of one variable as intervals."""

from __future__ import annotations

from tasks.grading.math.expressions import Apply, Symbol, Undecided, evaluate, symbols
from tasks.grading.math.math_answers import Answer, Bracketed, Formula, Joined, Listed, Relation
from tasks.grading.math.math_parsing import INFINITY

MIRRORED = {"<": ">", ">": "<", "le": "ge", "ge": "le", "=": "=", "ne": "ne", "equiv": "equiv"}
"""Signs read from the right."""


def symbols_of(side: Answer) -> set[str]:
    """Variables of a formula; nothing for all else."""
    return symbols(side.node) if isinstance(side, Formula) else set()


def variable(relation: Relation) -> str | None:
    """The one variable, or function, that a relation bounds."""
    found = [side for side in relation.sides if symbols_of(side) - {INFINITY.name}]
    if len(found) != 1:
        return None
    side = found[0]
    assert isinstance(side, Formula)
    return side.node.name if isinstance(side.node, Symbol) else None


def as_interval(relation: Relation) -> Answer | None:
    """`1 < x <= 2` as (1, 2]; None where it is not that simple."""
    if variable(relation) is None:
        return None
    middle = next(index for index, side in enumerate(relation.sides) if symbols_of(side) - {INFINITY.name})
    signs, sides = relation.signs, relation.sides
    if len(sides) == 3 and middle == 1:
        if {*signs} <= {">", "ge"}:
            signs, sides = tuple(MIRRORED[sign] for sign in signs[::-1]), sides[::-1]
        if not {*signs} <= {"<", "le"}:
            return None
        low, high = sides[0], sides[2]
        return Bracketed("[" if signs[0] == "le" else "(", (low, high), "]" if signs[1] == "le" else ")")
    if len(sides) != 2:
        return None
    sign = signs[0] if middle == 0 else MIRRORED.get(signs[0], "")
    bound = sides[1 - middle]
    if sign in ("<", "le"):
        return Bracketed("(", (Formula(Apply("neg", (INFINITY,))), bound), "]" if sign == "le" else ")")
    if sign in (">", "ge"):
        return Bracketed("[" if sign == "ge" else "(", (bound, Formula(INFINITY)), ")")
    return None


def solution_set(listed: Listed) -> Answer | None:
    """Inequalities of one variable as the set that they describe; None where some are none.

    Of two rays that overlap the common part is meant, `x > 2, x < 5`; all else is a union.
    """
    relations = [item for item in listed.items if isinstance(item, Relation)]
    intervals = [as_interval(relation) for relation in relations]
    parts = [interval for interval in intervals if isinstance(interval, Bracketed)]
    if len(parts) != len(listed.items) or len({variable(relation) for relation in relations}) != 1:
        return None
    return _overlap(parts) or Joined("cup", tuple(parts))


def _overlap(parts: list[Bracketed]) -> Answer | None:
    """What two rays in opposite directions share; None where that is nothing."""
    rising = [part for part in parts if part.items[1] == Formula(INFINITY)]
    falling = [part for part in parts if part.items[0] == Formula(Apply("neg", (INFINITY,)))]
    if len(parts) != 2 or len(rising) != 1 or len(falling) != 1:
        return None
    low, high = rising[0].items[0], falling[0].items[1]
    if not isinstance(low, Formula) or not isinstance(high, Formula):
        return None
    try:
        below = evaluate(low.node, {}).real < evaluate(high.node, {}).real
    except (Undecided, KeyError, ArithmeticError):
        return None
    return Bracketed(rising[0].opening, (low, high), falling[0].closing) if below else None
