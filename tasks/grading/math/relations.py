"""The meaning of a relation: an assignment to a name, an identity, or an interval."""

from __future__ import annotations

import re

from tasks.grading.math.expressions import Apply, Node, Symbol, Undecided, evaluate, symbols
from tasks.grading.math.math_parsing import INFINITY
from tasks.grading.math.math_reading import Answer, Based, Bracketed, Formula, Joined, Listed, Ratio, Relation, Words
from tasks.grading.math.numeric import same_value

_FUNCTION = re.compile(r"[A-Za-z]+'*(?:_\{?\w+\}?)?\((\w(?:,\w)*)\)|y")
MIRRORED = {"<": ">", ">": "<", "le": "ge", "ge": "le", "=": "=", "ne": "ne", "equiv": "equiv"}
"""Sign → the sign with its sides exchanged."""


def subject_of(item: Answer) -> str:
    """The left side of an equation as written; empty for other answers."""
    return item.subject if isinstance(item, Relation) and set(item.signs) == {"="} else ""


def is_assignment(relation: Relation) -> bool:
    """True for `x = …`, `f(x) = …`, `m_{max} = …`, `(p, q) = …`, `AB = …`: the left side is a name."""
    left = relation.sides[0]
    if isinstance(left, Words | Based):
        return True
    items = left.items if isinstance(left, Bracketed) else left.parts if isinstance(left, Ratio) else (left,)
    return all(isinstance(item, Formula) and _is_name(item.node) for item in items)


def _is_name(node: Node) -> bool:
    if isinstance(node, Symbol):
        return True
    return isinstance(node, Apply) and node.name in ("mul", "abs") and all(_is_name(arg) for arg in node.args)


def is_identity(relation: Relation) -> bool:
    """True where both ends are the same formula, `(x+1)^2 = x^2 + 2x + 1`, or a derivative is evaluated."""
    first, last = relation.sides[0], relation.sides[-1]
    if not isinstance(first, Formula) or not isinstance(last, Formula):
        return False
    return any("d/" in name for name in symbols_of(first)) or same_value(first.node, last.node)


def same_name(gold: Relation, answer: Relation) -> bool:
    """True for names written the same, and for two of one function: f(x) and y, but not f(x) and f(t)."""
    if re.sub(r"[{}\s]", "", gold.subject) == re.sub(r"[{}\s]", "", answer.subject):
        return True
    found = _FUNCTION.fullmatch(gold.subject), _FUNCTION.fullmatch(answer.subject)
    if not all(found):
        return False
    arguments = {match.group(1) for match in found if match and match.group(1)}
    names = {side.subject.partition("(")[0] for side in (gold, answer)} - {"y"}
    return len(arguments) <= 1 and len(names) <= 1


def as_difference(relation: Relation) -> Node | None:
    """The first side less the last; None where one is no formula."""
    first, last = relation.sides[0], relation.sides[-1]
    if not isinstance(first, Formula) or not isinstance(last, Formula):
        return None
    return Apply("add", (first.node, Apply("neg", (last.node,))))


def symbols_of(side: Answer) -> set[str]:
    """Variables of a formula; empty for other answers."""
    return symbols(side.node) if isinstance(side, Formula) else set()


def variable(relation: Relation) -> str | None:
    """The one variable, or function, that a relation bounds."""
    found = [side.node for side in relation.sides if isinstance(side, Formula) and symbols(side.node) - {INFINITY.name}]
    return found[0].name if len(found) == 1 and isinstance(found[0], Symbol) else None


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
    """Inequalities in one variable as a set: of two overlapping rays, `x > 2, x < 5`, the common part, else the union.

    None where an item is no such inequality.
    """
    relations = [item for item in listed.items if isinstance(item, Relation)]
    intervals = [as_interval(relation) for relation in relations]
    parts = [interval for interval in intervals if isinstance(interval, Bracketed)]
    if len(parts) != len(listed.items) or len({variable(relation) for relation in relations}) != 1:
        return None
    return _overlap(parts) or Joined("cup", tuple(parts))


def _overlap(parts: list[Bracketed]) -> Answer | None:
    """The intersection of two opposite rays; None where it is empty."""
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
