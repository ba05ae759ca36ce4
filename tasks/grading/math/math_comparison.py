"""Compares two parsed answers part by part; what cannot be decided raises Undecided."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from fractions import Fraction
from typing import Any

from tasks.grading.math.expressions import (
    Apply,
    Node,
    Number,
    Symbol,
    Undecided,
    evaluate,
    exact_value,
    find_symbols,
    is_same_value,
    proportionality_sign,
)
from tasks.grading.math.math_parsing import INFINITY
from tasks.grading.math.math_reading import (
    LOGICAL,
    Answer,
    Based,
    Bracketed,
    Formula,
    Listed,
    Matrix,
    Percentage,
    Ratio,
    Relation,
    SetOperation,
    Words,
)
from tasks.grading.math.math_tokens import Amount, convert, same_dimension

_HUNDREDTH = Apply("pow", (Number(Fraction(10)), Number(Fraction(-2))))
_MINUS_INFINITY = Formula(Apply("neg", (INFINITY,)))
_REAL_LINE = Bracketed("(", (_MINUS_INFINITY, Formula(INFINITY)), ")")
_REALS = frozenset(("all real numbers", "all reals", "real numbers", "the set of all real numbers", "the real numbers"))


def is_same_answer(gold: Answer, answer: Answer) -> bool:
    """Return whether `answer` equals `gold`. Raises Undecided where that cannot be decided."""
    gold, answer = _evaluate_sets(gold), _evaluate_sets(answer)
    if gold == answer:
        return True
    for kinds, compare in _BY_KIND:
        if isinstance(gold, kinds) or isinstance(answer, kinds):
            return compare(gold, answer)
    return False


def _same_formula(gold: Answer, answer: Answer) -> bool:
    """Return whether two formulas agree, in units that can be converted; a number without a unit has the other's."""
    if not isinstance(gold, Formula) or not isinstance(answer, Formula):
        return False
    if same_dimension(gold.unit, answer.unit) and gold.unit != answer.unit:
        return is_same_value(gold.node, convert(answer, gold.unit))
    return not (gold.unit and answer.unit and gold.unit != answer.unit) and is_same_value(gold.node, answer.node)


def _same_amount(gold: Answer, answer: Answer) -> bool:
    """Return whether an amount in several units agrees with another amount, or with a number in one of its units."""
    amount, compared = (gold, answer) if isinstance(gold, Amount) else (answer, gold)
    if not isinstance(amount, Amount) or not isinstance(compared, Formula | Amount):
        return False
    units = [part.unit for part in amount.parts]
    if isinstance(compared, Formula) and not compared.unit:
        return any(is_same_value(convert(amount, unit), compared.node) for unit in units)
    unit = compared.unit if isinstance(compared, Formula) else compared.parts[0].unit
    return same_dimension(units[0], unit) and is_same_value(convert(amount, unit), convert(compared, unit))


def _same_words(gold: Answer, answer: Answer) -> bool:
    if not (isinstance(gold, Words) and isinstance(answer, Words)):
        return False
    left, right = (re.sub(r"^(?:an?|the) |[\s.'-]+", " ", words.text).strip() for words in (gold, answer))
    return left == right or (left in LOGICAL and LOGICAL[left] == LOGICAL.get(right))


def _same_percentage(gold: Answer, answer: Answer) -> bool:
    """Return whether 28 % agrees with another percentage, 28 or .28; an answer of .28 % does not agree with .28."""
    if isinstance(gold, Percentage) and isinstance(answer, Percentage):
        return is_same_value(gold.node, answer.node)
    percentage, compared = (gold, answer) if isinstance(gold, Percentage) else (answer, gold)
    if not isinstance(percentage, Percentage) or not isinstance(compared, Formula) or compared.unit:
        return False
    if not is_same_value(percentage.node, compared.node):
        return is_same_value(Apply("mul", (percentage.node, _HUNDREDTH)), compared.node)
    value = exact_value(percentage.node)
    if answer is percentage and value is not None and 0 < abs(value) < 1:
        return False  # 1/4 is 25 %, but not 0.25 %
    return not isinstance(compared.node, Apply) or exact_value(compared.node) is not None


def _same_ratio(gold: Answer, answer: Answer) -> bool:
    """Return whether ratios agree: as times of day, part by part, in proportion, or 3:4 with 3/4."""
    if isinstance(gold, Ratio) and isinstance(answer, Ratio):
        golds, answers = _nodes(gold), _nodes(answer)
        if gold.clock and answer.clock:  # 20:34 and 20:34:00
            times = [[exact_value(node) for node in nodes] for nodes in (golds, answers)]
            return [*times[0], 0, 0][:3] == [*times[1], 0, 0][:3]
        if _same_items(gold.parts, answer.parts):
            return True
        # 3:4 and 6:8 are in proportion
        if not len(golds) == len(gold.parts) == len(answers) == len(answer.parts):
            return False
        return all(exact_value(node) != 0 for node in (*golds, *answers)) and all(
            is_same_value(Apply("mul", (golds[0], right)), Apply("mul", (answers[0], left)))
            for left, right in zip(golds[1:], answers[1:], strict=True)
        )
    ratio, compared = (gold, answer) if isinstance(gold, Ratio) else (answer, gold)
    if not isinstance(ratio, Ratio) or not isinstance(compared, Formula):
        return False
    nodes = _nodes(ratio)
    if ratio is answer and ratio.clock and (number := exact_value(compared.node)) is not None:
        # to a gold without minutes: 14:00 is 14, and 2 on a dial
        hour, *rest = (exact_value(node) for node in nodes)
        return hour is not None and not any(rest) and number in (hour, (hour - 1) % 12 + 1)
    if len(ratio.parts) != 2 or len(nodes) != 2 or isinstance(compared.node, Number):
        return False
    return is_same_value(Apply("div", (nodes[0], nodes[1])), compared.node)


def _nodes(ratio: Ratio) -> list[Node]:
    return [part.node for part in ratio.parts if isinstance(part, Formula)]


def _same_items(gold: Sequence[Answer], answer: Sequence[Answer]) -> bool:
    """Return whether both have equal items in the same order."""
    return len(gold) == len(answer) and all(
        is_same_answer(left, right) for left, right in zip(gold, answer, strict=True)
    )


def _same_set(gold: Sequence[Answer], answer: Sequence[Answer]) -> bool:
    """Return whether both have equal items in any order, each with one partner."""
    if len(gold) != len(answer):
        return False
    unmatched = list(answer)
    for item in gold:
        partner = next((index for index, candidate in enumerate(unmatched) if is_same_answer(item, candidate)), None)
        if partner is None:
            return False
        del unmatched[partner]
    return True


def _as_coordinates(items: Sequence[Answer]) -> Sequence[Answer]:
    """Return `y = 2, x = 1` in the order of coordinates."""
    return sorted(items, key=subject_of) if all(subject_of(item) in ("x", "y", "z") for item in items) else items


def _drop_equal(items: Sequence[Answer]) -> list[Answer]:
    """Return the first of each group of equal answers, in order."""
    distinct: list[Answer] = []
    for item in items:
        if not any(is_same_answer(earlier, item) for earlier in distinct):
            distinct.append(item)
    return distinct


def _same_list(gold: Answer, answer: Answer) -> bool:
    """Return whether lists agree: in order where names, tuples or coordinates ask for it, else as sets."""
    # `x < 1 or x > 2` beside a set is a set too
    if isinstance(gold, SetOperation | Bracketed) and isinstance(answer, Listed):
        answer = solution_set(answer) or answer
    elif isinstance(answer, SetOperation | Bracketed) and isinstance(gold, Listed):
        gold = solution_set(gold) or gold
    if not isinstance(gold, Listed) and not isinstance(answer, Listed):
        return is_same_answer(gold, answer)
    if isinstance(gold, SetOperation) or isinstance(answer, SetOperation):
        return False
    golds, answers = (side.items if isinstance(side, Listed | Bracketed) else (side,) for side in (gold, answer))
    if len(golds) == 1 < len(set(answers)) and all(is_same_answer(golds[0], item) for item in answers):
        return True  # one value in several spellings: 15 39/40, or 639/40
    # x = 1, y = 2 is 1, 2, but not 2, 1
    if _have_distinct_names(golds, compared=answers) or _have_distinct_names(answers, compared=golds):
        return _same_items(_as_coordinates(golds), _as_coordinates(answers))
    # a tuple beside a list is read in its order
    if any(isinstance(side, Bracketed) and side.opening in ("(", "[", "langle") for side in (gold, answer)):
        return _same_items(golds, answers)
    if len(golds) == len(answers):
        return _same_set(golds, answers)
    distinct = _drop_equal(golds), _drop_equal(answers)
    return _same_set(*distinct) and len(distinct[0]) > 1  # more than one value that is repeated


def _have_distinct_names(items: Sequence[Answer], *, compared: Sequence[Answer]) -> bool:
    """Return whether the items have several different names, and those that they are compared with have none."""
    names = [subject_of(item) for item in items]
    distinct = all(names) and len(set(names)) == len(names) and len({name.partition("_")[0] for name in names}) > 1
    return distinct and not any(map(subject_of, compared))


def _same_collection(gold: Answer, answer: Answer) -> bool:
    """Return whether tuples, intervals, sets or matrices agree; `{5}` agrees with 5. Raises Undecided."""
    if isinstance(gold, Matrix) and isinstance(answer, Matrix):
        same_shape = len(gold.rows) == len(answer.rows) and len(gold.rows[0]) == len(answer.rows[0])
        return same_shape and all(_same_items(left, right) for left, right in zip(gold.rows, answer.rows, strict=True))
    if isinstance(gold, Bracketed) and isinstance(answer, Bracketed):
        if gold.opening == answer.opening == "\\{":
            return _same_set(_drop_equal(gold.items), _drop_equal(answer.items))
        if "\\{" in (gold.opening, answer.opening):
            return False
        brackets = {(side.opening, side.closing) for side in (gold, answer)}
        vectors = brackets <= {("(", ")"), ("langle", "rangle")}
        vectors = vectors or (len(gold.items) > 2 and brackets <= {("(", ")"), ("[", "]")})  # [a, b] is an interval
        return (len(brackets) == 1 or vectors) and _same_items(gold.items, answer.items)
    if isinstance(gold, Matrix):
        return _same_vector(gold, answer)
    if isinstance(answer, Matrix):
        return _same_vector(answer, gold)
    bracketed, compared = (gold, answer) if isinstance(gold, Bracketed) else (answer, gold)
    assert isinstance(bracketed, Bracketed)
    if isinstance(compared, SetOperation):
        raise Undecided("a set and a union")
    braces = bracketed.opening == "\\{"
    return braces and len(bracketed.items) == 1 and is_same_answer(bracketed.items[0], compared)  # {5} is 5


def _same_vector(matrix: Matrix, compared: Answer) -> bool:
    """Return whether a row, a column or rows in brackets equal a matrix. Raises Undecided for a formula."""
    if not isinstance(compared, Bracketed):
        if isinstance(compared, Formula) and isinstance(compared.node, Number):
            return False
        raise Undecided("a matrix and a formula")
    if compared.opening == "\\{":
        return False
    rows = [row.items for row in compared.items if isinstance(row, Bracketed) and row.opening in ("[", "(")]
    if len(rows) == len(compared.items) == len(matrix.rows) and len(rows) > 1:
        return all(_same_items(left, right) for left, right in zip(matrix.rows, rows, strict=True))
    if len(matrix.rows) == 1:
        return _same_items(matrix.rows[0], compared.items)
    return len(matrix.rows[0]) == 1 and _same_items([row[0] for row in matrix.rows], compared.items)


def _evaluate_sets(side: Answer) -> Answer:
    """Return an answer with `\\{1\\} \\cup \\{2\\}` and other finite sets evaluated, and the reals in one spelling."""
    if side == _REAL_LINE or (isinstance(side, Words) and side.text in _REALS):
        return Words("set R")
    if not isinstance(side, SetOperation):
        return side
    sets: list[Sequence[Answer]] = []
    for part in side.parts:
        if not isinstance(part, Listed | Bracketed) or (isinstance(part, Bracketed) and part.opening != "\\{"):
            return side
        sets.append(part.items)
    if side.sign == "cup":
        return Bracketed("\\{", tuple(_drop_equal([item for items in sets for item in items])), "\\}")
    inside = side.sign == "cap"
    members = [
        item
        for item in sets[0]
        if all(any(is_same_answer(item, member) for member in further_set) == inside for further_set in sets[1:])
    ]
    return Bracketed("\\{", tuple(members), "\\}")


def _same_union(gold: Answer, answer: Answer) -> bool:
    """Return whether unions are equal part by part, False for other kinds. Raises Undecided where they may be."""
    if isinstance(gold, SetOperation) and isinstance(answer, SetOperation) and gold.sign == answer.sign:
        are_same_parts = _same_items if gold.sign == "setminus" else _same_set
        if are_same_parts(gold.parts, answer.parts):
            return True
    if isinstance(gold, Formula | Words) or isinstance(answer, Formula | Words | Percentage):
        return False
    raise Undecided("unions that are not the same part by part")


def _same_relation(gold: Answer, answer: Answer) -> bool:
    """Return whether two relations agree, or one and the value or interval that it stands for. Raises Undecided."""
    if isinstance(gold, Relation) and isinstance(answer, Relation):
        return _same_relations(gold, answer)
    relation, compared = (gold, answer) if isinstance(gold, Relation) else (answer, gold)
    assert isinstance(relation, Relation)
    if set(relation.signs) == {"="}:  # its last side is compared
        last = relation.sides[-1]
        if isinstance(compared, Listed) and len(relation.sides) == 2 and not isinstance(last, Bracketed | Listed):
            return False
        if relation is gold:
            return is_assignment(relation) and is_same_answer(last, compared)
        if not is_assignment(relation) and symbols_of(last) and not is_identity(relation):
            return False
        return is_same_answer(compared, last)
    if not isinstance(compared, Bracketed | SetOperation):
        return False
    interval = as_interval(relation)
    if interval is None or isinstance(compared, SetOperation):
        raise Undecided("a relation and a set")
    return is_same_answer(interval, compared)


def _same_relations(gold: Relation, answer: Relation) -> bool:
    """Return whether two relations say the same: assignment, equation, interval or inequality."""
    golds, answers = set(gold.signs), set(answer.signs)
    if golds == answers == {"="}:
        if is_assignment(gold) and is_assignment(answer) and same_name(gold, answer):
            return is_same_answer(gold.sides[-1], answer.sides[-1])
        points = isinstance(gold.sides[0], Bracketed) or isinstance(answer.sides[0], Bracketed)
        return not points and _proportion(gold, answer) is not None
    if "=" in golds & answers and len(golds | answers) > 1:
        return False
    left, right = as_interval(gold), as_interval(answer)
    if left is not None and right is not None and bounded_variable(gold) == bounded_variable(answer):
        return is_same_answer(left, right)
    if len(gold.signs) == len(answer.signs) == 1:
        factor = _proportion(gold, answer)
        expected = gold.signs[0] if factor and factor > 0 else MIRRORED.get(gold.signs[0], gold.signs[0])
        return factor is not None and answer.signs[0] == expected
    turned = answer, _exchange_sides(answer)
    return any(side.signs == gold.signs and _same_items(gold.sides, side.sides) for side in turned)


def _proportion(gold: Relation, answer: Relation) -> int | None:
    """Return the sign of the factor between the side differences of two relations; None without one."""
    left, right = as_difference(gold), as_difference(answer)
    if left is None or right is None or find_symbols(left) != find_symbols(right):
        return None
    return proportionality_sign(left, right)


_BY_KIND: tuple[tuple[Any, Callable[[Answer, Answer], bool]], ...] = (
    (Relation, _same_relation),
    (Listed, _same_list),
    ((Bracketed, Matrix), _same_collection),
    (SetOperation, _same_union),
    (Amount, _same_amount),
    (Percentage, _same_percentage),
    (Ratio, _same_ratio),
    (Words, _same_words),
    (Formula, _same_formula),
)
"""Kind of answer → how it is compared with any other; the first that matches either side decides."""

_FUNCTION = re.compile(r"[A-Za-z]+'*(?:_\{?\w+\}?)?\((\w(?:,\w)*)\)|y")
MIRRORED = {"<": ">", ">": "<", "le": "ge", "ge": "le", "=": "=", "ne": "ne", "equiv": "equiv"}
"""Sign → the sign with its sides exchanged."""


def subject_of(item: Answer) -> str:
    """Return the left side of an equation as written; empty for other answers."""
    return item.subject if isinstance(item, Relation) and set(item.signs) == {"="} else ""


def is_assignment(relation: Relation) -> bool:
    """Return whether the left side is a name: `x = …`, `f(x) = …`, `m_{max} = …`, `(p, q) = …`, `AB = …`."""
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
    """Return whether both ends are one formula, `(x+1)^2 = x^2 + 2x + 1`, or a derivative is evaluated."""
    first, last = relation.sides[0], relation.sides[-1]
    if not isinstance(first, Formula) or not isinstance(last, Formula):
        return False
    return any("d/" in name for name in symbols_of(first)) or is_same_value(first.node, last.node)


def same_name(gold: Relation, answer: Relation) -> bool:
    """Return whether the left sides are one name, or two of one function: f(x) and y, but not f(x) and f(t)."""
    if re.sub(r"[{}\s]", "", gold.subject) == re.sub(r"[{}\s]", "", answer.subject):
        return True
    functions = _FUNCTION.fullmatch(gold.subject), _FUNCTION.fullmatch(answer.subject)
    if not all(functions):
        return False
    arguments = {match.group(1) for match in functions if match and match.group(1)}
    names = {side.subject.partition("(")[0] for side in (gold, answer)} - {"y"}
    return len(arguments) <= 1 and len(names) <= 1


def as_difference(relation: Relation) -> Node | None:
    """Return the first side less the last; None where one is no formula."""
    first, last = relation.sides[0], relation.sides[-1]
    if not isinstance(first, Formula) or not isinstance(last, Formula):
        return None
    return Apply("add", (first.node, Apply("neg", (last.node,))))


def symbols_of(side: Answer) -> set[str]:
    """Return the variables of a formula; empty for other answers."""
    return find_symbols(side.node) if isinstance(side, Formula) else set()


def bounded_variable(relation: Relation) -> str | None:
    """Return the one variable or function that a relation bounds; None where it bounds none or several."""
    nodes = [
        side.node for side in relation.sides if isinstance(side, Formula) and find_symbols(side.node) - {INFINITY.name}
    ]
    return nodes[0].name if len(nodes) == 1 and isinstance(nodes[0], Symbol) else None


def as_interval(relation: Relation) -> Answer | None:
    """Return `1 < x <= 2` as (1, 2]; None for a relation that is no interval."""
    if bounded_variable(relation) is None:
        return None
    if {*relation.signs} <= {">", "ge"}:
        relation = _exchange_sides(relation)
    signs, sides = relation.signs, relation.sides
    below = next(index for index, side in enumerate(sides) if symbols_of(side) - {INFINITY.name})
    above = len(sides) - 1 - below
    if not {*signs} <= {"<", "le"} or max(below, above) > 1:
        return None
    low, high = sides[0] if below else _MINUS_INFINITY, sides[-1] if above else Formula(INFINITY)
    opening, closing = "[" if below and signs[0] == "le" else "(", "]" if above and signs[-1] == "le" else ")"
    return Bracketed(opening, (low, high), closing)


def _exchange_sides(relation: Relation) -> Relation:
    return Relation(relation.sides[::-1], tuple(MIRRORED.get(sign, sign) for sign in relation.signs[::-1]))


def solution_set(listed: Listed) -> Answer | None:
    """Return inequalities in one variable as a set, overlapping rays as their common part; None for other items."""
    relations = [item for item in listed.items if isinstance(item, Relation)]
    intervals = [as_interval(relation) for relation in relations]
    parts = [interval for interval in intervals if isinstance(interval, Bracketed)]
    if len(parts) != len(listed.items) or len({bounded_variable(relation) for relation in relations}) != 1:
        return None
    rising = [part for part in parts if part.items[1] == Formula(INFINITY)]
    falling = [part for part in parts if part.items[0] == _MINUS_INFINITY]
    if len(parts) == 2 and len(rising) == len(falling) == 1:
        low, high = rising[0].items[0], falling[0].items[1]
        if isinstance(low, Formula) and isinstance(high, Formula):
            with suppress(Undecided, KeyError, ArithmeticError):
                if evaluate(low.node, {}).real < evaluate(high.node, {}).real:
                    return Bracketed(rising[0].opening, (low, high), falling[0].closing)
    return SetOperation("cup", tuple(parts))
