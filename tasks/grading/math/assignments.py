"""What a relation is about: the names on its left, assignments, functions, identities."""

from __future__ import annotations

import re

from tasks.grading.math.expressions import Apply, Node, Symbol
from tasks.grading.math.intervals import symbols_of
from tasks.grading.math.math_answers import Answer, Based, Bracketed, Formula, Ratio, Relation, Words
from tasks.grading.math.numeric import difference, same_value

_FUNCTION = re.compile(r"[A-Za-z]+'*(?:_\{?\w+\}?)?\((\w(?:,\w)*)\)|y")


def subject_of(item: Answer) -> str:
    return item.subject if isinstance(item, Relation) and item.signs == ("=",) * len(item.signs) else ""


def root_of(name: str) -> str:
    return re.sub(r"_.*", "", name)


def is_assignment(relation: Relation) -> bool:
    """True for `x = …`, `f(x) = …`, `m_{max} = …`, `(p, q) = …`, `AB = …`: the left side is a name."""
    left = relation.sides[0]
    if isinstance(left, Words):
        return True
    if isinstance(left, Formula):
        return _is_name(left.node)
    if isinstance(left, Bracketed):
        return all(isinstance(item, Formula) and _is_name(item.node) for item in left.items)
    if isinstance(left, Ratio):
        return all(isinstance(item, Formula) and _is_name(item.node) for item in left.parts)
    return isinstance(left, Based)


def is_identity(relation: Relation) -> bool:
    """True where both ends are the same formula, or a derivative and what it comes to: `(x+1)^2 = x^2 + 2x + 1`."""
    first, last = relation.sides[0], relation.sides[-1]
    if not isinstance(first, Formula) or not isinstance(last, Formula):
        return False
    return any("d/" in name for name in symbols_of(first)) or same_value(first.node, last.node)


def same_name(gold: Relation, answer: Relation) -> bool:
    return _plain_name(gold.subject) == _plain_name(answer.subject)


def both_functions(gold: Relation, answer: Relation) -> bool:
    """f(x) = … and y = … name the same function; f(x) and f(t) do not."""
    found = _FUNCTION.fullmatch(gold.subject), _FUNCTION.fullmatch(answer.subject)
    if not all(found):
        return False
    arguments = {match.group(1) for match in found if match and match.group(1)}
    names = {side.subject.partition("(")[0] for side in (gold, answer)} - {"y"}
    return len(arguments) <= 1 and len(names) <= 1


def as_difference(relation: Relation) -> Node | None:
    first, last = relation.sides[0], relation.sides[-1]
    if not isinstance(first, Formula) or not isinstance(last, Formula):
        return None
    return difference(first.node, last.node)


def _is_name(node: Node) -> bool:
    if isinstance(node, Symbol):
        return True
    return isinstance(node, Apply) and node.name in ("mul", "abs") and all(_is_name(arg) for arg in node.args)


def _plain_name(subject: str) -> str:
    return re.sub(r"[{}\s]", "", subject)
