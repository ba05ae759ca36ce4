"""Compares two answers that were read, part by part; what cannot be told here is Undecided."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction

from tasks.grading.math.assignments import (
    as_difference,
    both_functions,
    is_assignment,
    is_identity,
    root_of,
    same_name,
    subject_of,
)
from tasks.grading.math.expressions import Apply, Node, Number, Symbol, Undecided, rational, symbols
from tasks.grading.math.intervals import MIRRORED, as_interval, solution_set, symbols_of, variable
from tasks.grading.math.math_answers import (
    Answer,
    Based,
    Bracketed,
    Choice,
    Formula,
    Joined,
    Listed,
    Matrix,
    Percentage,
    Ratio,
    Relation,
    Words,
)
from tasks.grading.math.math_parsing import INFINITY
from tasks.grading.math.math_words import LOGICAL
from tasks.grading.math.numeric import proportional, same_value

_HUNDREDTH = Apply("pow", (Number(Fraction(10)), Number(Fraction(-2))))
_LINE = Bracketed("(", (Formula(Apply("neg", (INFINITY,))), Formula(INFINITY)), ")")
_REALS = frozenset(("all real numbers", "all reals", "real numbers", "the set of all real numbers", "the real numbers"))


def same_answer(gold: Answer, answer: Answer) -> bool:
    """True if `answer` says what `gold` says. Raises Undecided."""
    gold, answer = _evaluated(gold), _evaluated(answer)
    if gold == answer:
        return True
    if isinstance(gold, Relation) or isinstance(answer, Relation):
        return _same_relation(gold, answer)
    if isinstance(gold, Listed) or isinstance(answer, Listed):
        return _same_list(*_inequalities_as_sets(gold, answer))
    if (
        isinstance(gold, Bracketed)
        or isinstance(answer, Bracketed)
        or isinstance(gold, Matrix)
        or isinstance(answer, Matrix)
    ):
        return _same_collection(gold, answer)
    if isinstance(gold, Joined) or isinstance(answer, Joined):
        return _same_union(gold, answer)
    if isinstance(gold, Percentage) or isinstance(answer, Percentage):
        return _same_percentage(gold, answer)
    if isinstance(gold, Ratio) or isinstance(answer, Ratio):
        return _same_ratio(gold, answer)
    if isinstance(gold, Words) or isinstance(answer, Words):
        return _same_words(gold, answer)
    if isinstance(gold, Based | Choice) or isinstance(answer, Based | Choice):
        return False
    return _same_formula(gold, answer)


def _same_formula(gold: Formula, answer: Formula) -> bool:
    if gold.unit and answer.unit and gold.unit != answer.unit:
        return False
    return same_value(gold.node, answer.node)


def _same_words(gold: Answer, answer: Answer) -> bool:
    if not (isinstance(gold, Words) and isinstance(answer, Words)):
        return False
    left, right = (re.sub(r"^(?:an?|the) |[\s.'-]+", " ", words.text).strip() for words in (gold, answer))
    return left == right or (left in LOGICAL and LOGICAL[left] == LOGICAL.get(right))


def _same_percentage(gold: Answer, answer: Answer) -> bool:
    if isinstance(gold, Percentage) and isinstance(answer, Percentage):
        return same_value(gold.node, answer.node)
    percentage, other = (gold, answer) if isinstance(gold, Percentage) else (answer, gold)
    if not isinstance(percentage, Percentage) or not isinstance(other, Formula):
        return False
    if answer is percentage and same_value(percentage.node, other.node) and _below_one(percentage.node):
        return False  # 1/4 is 25 %, but not 0.25 %
    if same_value(percentage.node, other.node):
        return not isinstance(other.node, Apply) or rational(other.node) is not None
    return same_value(Apply("mul", (percentage.node, _HUNDREDTH)), other.node)


def _below_one(node: Node) -> bool:
    value = rational(node)
    return value is not None and 0 < abs(value) < 1


def _same_ratio(gold: Answer, answer: Answer) -> bool:
    if isinstance(gold, Ratio) and isinstance(answer, Ratio):
        if gold.clock and answer.clock:
            return _same_clock(gold, answer)
        if len(gold.parts) != len(answer.parts):
            return False
        pairs = list(zip(gold.parts, answer.parts, strict=True))
        if all(same_answer(left, right) for left, right in pairs):
            return True
        return _in_proportion(gold, answer)
    ratio, other = (gold, answer) if isinstance(gold, Ratio) else (answer, gold)
    if not isinstance(ratio, Ratio) or not isinstance(other, Formula) or len(ratio.parts) != 2:
        return False
    nodes = [part.node for part in ratio.parts if isinstance(part, Formula)]
    if len(nodes) != 2 or isinstance(other.node, Number):
        return False
    return same_value(Apply("div", (nodes[0], nodes[1])), other.node)


def _same_clock(gold: Ratio, answer: Ratio) -> bool:
    """20:34 and 20:34:00."""
    times = [[rational(part.node) for part in side.parts if isinstance(part, Formula)] for side in (gold, answer)]
    padded = [([*time, 0, 0])[:3] for time in times]
    return padded[0] == padded[1]


def _in_proportion(gold: Ratio, answer: Ratio) -> bool:
    first, *_ = zip(gold.parts, answer.parts, strict=True)
    if not all(isinstance(part, Formula) and rational(part.node) != 0 for part in (*gold.parts, *answer.parts)):
        return False
    for left, right in list(zip(gold.parts, answer.parts, strict=True))[1:]:
        assert isinstance(left, Formula)
        assert isinstance(right, Formula)
        assert isinstance(first[0], Formula)
        assert isinstance(first[1], Formula)
        if not same_value(Apply("mul", (first[0].node, right.node)), Apply("mul", (first[1].node, left.node))):
            return False
    return True


def _same_items(gold: Sequence[Answer], answer: Sequence[Answer]) -> bool:
    """In order."""
    return len(gold) == len(answer) and all(same_answer(left, right) for left, right in zip(gold, answer, strict=True))


def _same_set(gold: Sequence[Answer], answer: Sequence[Answer]) -> bool:
    """In any order, each item with one partner."""
    if len(gold) != len(answer):
        return False
    left = list(answer)
    for item in gold:
        partner = next((index for index, other in enumerate(left) if same_answer(item, other)), None)
        if partner is None:
            return False
        del left[partner]
    return True


def _in_custom(items: Sequence[Answer], names: Sequence[str]) -> Sequence[Answer]:
    """`y = 2, x = 1` in the order in which coordinates are written."""
    if not all(names) or not set(names) <= set("xyz"):
        return items
    return [item for _, item in sorted(zip(names, items, strict=True), key=lambda pair: pair[0])]


def _inequalities_as_sets(gold: Answer, answer: Answer) -> tuple[Answer, Answer]:
    """`x < 1 or x > 2` beside a set as a set too."""
    if isinstance(gold, Joined | Bracketed) and isinstance(answer, Listed):
        return gold, solution_set(answer) or answer
    if isinstance(answer, Joined | Bracketed) and isinstance(gold, Listed):
        return solution_set(gold) or gold, answer
    return gold, answer


def _distinct(items: Sequence[Answer]) -> list[Answer]:
    kept: list[Answer] = []
    for item in items:
        if not any(same_answer(other, item) for other in kept):
            kept.append(item)
    return kept


def _same_list(gold: Answer, answer: Answer) -> bool:
    if not isinstance(gold, Listed) and not isinstance(answer, Listed):
        return same_answer(gold, answer)
    golds, answers = _items(gold), _items(answer)
    if golds is None or answers is None:
        return False
    if len(golds) == 1 < len(set(answers)) and all(same_answer(golds[0], item) for item in answers):
        return True  # one value in several spellings: 15 39/40, or 639/40
    named = [subject_of(item) for item in golds], [subject_of(item) for item in answers]
    for names, others in ((named[0], answers), (named[1], golds)):
        distinct = all(names) and len(set(names)) == len(names) > 1 and len({root_of(name) for name in names}) > 1
        if distinct and not any(subject_of(other) for other in others):
            # x = 1, y = 2 is 1, 2, but not 2, 1
            return _same_items(_in_custom(golds, named[0]), _in_custom(answers, named[1]))
    # a tuple beside a list is read in its order
    if any(isinstance(side, Bracketed) and side.opening in ("(", "[", "langle") for side in (gold, answer)):
        return _same_items(golds, answers)
    return _same_set(golds, answers) or (
        len(golds) != len(answers) and _same_set(_distinct(golds), _distinct(answers)) and _plain(golds, answers)
    )


def _plain(*sides: Sequence[Answer]) -> bool:
    """True where no side is a mere repetition of one value."""
    return all(len(_distinct(side)) > 1 for side in sides)


def _items(side: Answer) -> tuple[Answer, ...] | None:
    if isinstance(side, Listed):
        return side.items
    if isinstance(side, Bracketed):
        return side.items
    if isinstance(side, Relation):
        return (side,)
    return None if isinstance(side, Joined) else (side,)


def _same_collection(gold: Answer, answer: Answer) -> bool:
    if isinstance(gold, Matrix) and isinstance(answer, Matrix):
        same_shape = len(gold.rows) == len(answer.rows) and len(gold.rows[0]) == len(answer.rows[0])
        return same_shape and all(_same_items(left, right) for left, right in zip(gold.rows, answer.rows, strict=True))
    if isinstance(gold, Bracketed) and isinstance(answer, Bracketed):
        return _same_brackets(gold, answer)
    if isinstance(gold, Matrix) or isinstance(answer, Matrix):
        return _same_vector(gold, answer)
    bracketed, other = (gold, answer) if isinstance(gold, Bracketed) else (answer, gold)
    assert isinstance(bracketed, Bracketed)
    if isinstance(other, Joined):
        raise Undecided("a set and a union")
    if isinstance(other, Formula) and other.node == Symbol("emptyset"):
        return not bracketed.items
    braces = bracketed.opening == "\\{"
    return braces and len(bracketed.items) == 1 and same_answer(bracketed.items[0], other)


def _same_brackets(gold: Bracketed, answer: Bracketed) -> bool:
    if gold.opening == answer.opening == "\\{":
        return _same_set(_distinct(gold.items), _distinct(answer.items))
    brackets = {(side.opening, side.closing) for side in (gold, answer)}
    if "\\{" in (gold.opening, answer.opening):
        return False
    vectors = {("(", ")"), ("langle", "rangle")}
    if (
        len(brackets) > 1
        and not brackets <= vectors
        and not (len(gold.items) > 2 and brackets <= {("(", ")"), ("[", "]")})
    ):
        return False
    return _same_items(gold.items, answer.items)


def _same_vector(gold: Answer, answer: Answer) -> bool:
    """A row or column beside a tuple of the same values."""
    matrix, other = (gold, answer) if isinstance(gold, Matrix) else (answer, gold)
    assert isinstance(matrix, Matrix)
    if not isinstance(other, Bracketed):
        if isinstance(other, Formula) and isinstance(other.node, Number):
            return False
        raise Undecided("a matrix and a formula")
    if other.opening == "\\{":
        return False
    rows = [row.items for row in other.items if isinstance(row, Bracketed) and row.opening in ("[", "(")]
    if len(rows) == len(other.items) == len(matrix.rows) and len(rows) > 1:
        return all(_same_items(left, right) for left, right in zip(matrix.rows, rows, strict=True))
    if len(matrix.rows) == 1:
        return _same_items(matrix.rows[0], other.items)
    return len(matrix.rows[0]) == 1 and _same_items([row[0] for row in matrix.rows], other.items)


def _evaluated(side: Answer) -> Answer:
    """Finite sets with signs between them as one set: `\\{1\\} \\cup \\{2\\}`; all real numbers in one spelling."""
    if side == _LINE or (isinstance(side, Words) and side.text in _REALS):
        return Words("set R")
    if not isinstance(side, Joined):
        return side
    sets: list[Sequence[Answer]] = []
    for part in side.parts:
        if not isinstance(part, Listed | Bracketed) or (isinstance(part, Bracketed) and part.opening != "\\{"):
            return side
        sets.append(part.items)
    if side.sign == "cup":
        return Bracketed("\\{", tuple(_distinct([item for items in sets for item in items])), "\\}")
    inside = side.sign == "cap"
    kept = [item for item in sets[0] if all(_holds(others, item) == inside for others in sets[1:])]
    return Bracketed("\\{", tuple(kept), "\\}")


def _holds(items: Sequence[Answer], item: Answer) -> bool:
    return any(same_answer(item, other) for other in items)


def _same_union(gold: Answer, answer: Answer) -> bool:
    if isinstance(gold, Joined) and isinstance(answer, Joined) and gold.sign == answer.sign:
        same = _same_items if gold.sign == "setminus" else _same_set
        if same(gold.parts, answer.parts):
            return True
    if isinstance(gold, Formula | Words) or isinstance(answer, Formula | Words | Percentage):
        return False
    raise Undecided("unions that are not the same part by part")


def _same_relation(gold: Answer, answer: Answer) -> bool:
    if isinstance(gold, Relation) and isinstance(answer, Relation):
        return _both_relations(gold, answer)
    relation, other = (gold, answer) if isinstance(gold, Relation) else (answer, gold)
    assert isinstance(relation, Relation)
    if set(relation.signs) == {"="}:
        if (
            isinstance(other, Listed)
            and len(relation.sides) == 2
            and not isinstance(relation.sides[1], Bracketed | Listed)
        ):
            return False
        if relation is gold and not is_assignment(relation):
            return False
        if relation is answer and not is_assignment(relation) and symbols_of(relation.sides[-1]):
            return is_identity(relation) and same_answer(other, relation.sides[-1])
        return _compare_sides(relation.sides[-1], other, swapped=relation is answer)
    interval = as_interval(relation)
    if interval is None:
        if isinstance(other, Bracketed | Joined):
            raise Undecided("a relation and a set")
        return False
    if isinstance(other, Bracketed):
        return same_answer(interval, other)
    if isinstance(other, Joined):
        raise Undecided("a relation and a union")
    return False


def _compare_sides(value: Answer, other: Answer, *, swapped: bool) -> bool:
    return same_answer(other, value) if swapped else same_answer(value, other)


def _both_relations(gold: Relation, answer: Relation) -> bool:
    golds, answers = set(gold.signs), set(answer.signs)
    if golds == answers == {"="}:
        return _same_equation(gold, answer)
    if "=" in golds & answers and len(golds | answers) > 1:
        return False
    left, right = as_interval(gold), as_interval(answer)
    if left is not None and right is not None and variable(gold) == variable(answer):
        return same_answer(left, right)
    if len(gold.signs) == len(answer.signs) == 1:
        return _same_inequality(gold, answer)
    if len(gold.signs) == len(answer.signs):
        mirrored = Relation(answer.sides[::-1], tuple(MIRRORED.get(sign, sign) for sign in answer.signs[::-1]))
        return any(side.signs == gold.signs and _same_items(gold.sides, side.sides) for side in (answer, mirrored))
    return False


def _same_equation(gold: Relation, answer: Relation) -> bool:
    if is_assignment(gold) and is_assignment(answer):
        if same_name(gold, answer):
            return same_answer(gold.sides[-1], answer.sides[-1])
        if both_functions(gold, answer):
            return same_answer(gold.sides[-1], answer.sides[-1])
    if isinstance(gold.sides[0], Bracketed) or isinstance(answer.sides[0], Bracketed):
        return False
    left, right = as_difference(gold), as_difference(answer)
    if left is None or right is None:
        return False
    if symbols(left) != symbols(right):
        return False
    return proportional(left, right) is not None


def _same_inequality(gold: Relation, answer: Relation) -> bool:
    left, right = as_difference(gold), as_difference(answer)
    if left is None or right is None or symbols(left) != symbols(right):
        return False
    sign = proportional(left, right)
    if sign is None:
        return False
    expected = gold.signs[0] if sign > 0 else MIRRORED.get(gold.signs[0], gold.signs[0])
    return answer.signs[0] == expected
