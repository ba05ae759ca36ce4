"""Amounts: a number with its unit, `15 cm^2`, `3 \\text{ hours}`, `40개`, and several that are one, `6 h 30 min`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from tasks.grading.math.expressions import Apply, Node, Number
from tasks.grading.math.math_tokens import OTHER_UNITS, UNITS, Token, listed_words, word_set

_BY_NAME = {unit.name: unit for unit in UNITS.values()}
_SHORT = word_set("m s g h L N J K W V A C F T l")
"""Letters that are a unit only behind a number and a space, where the other answer has no variable."""
_LIMITS = listed_words("limits")
"""Words beside a number that make another one of it: `at least 5`, `5개 이상`, `not 5`."""


class Formula(NamedTuple):
    """A number or an expression, with its unit."""

    node: Node
    unit: str = ""
    """Unit in canonical form; empty where there is none, or an unknown one."""


class Amount(NamedTuple):
    """A number written in several units of one dimension: `6 h 30 min`, which is 6.5 h and 390 min, and never 6."""

    parts: tuple[Formula, ...]


def join_amount(parts: Sequence[object]) -> Amount | None:
    """Return parts in ever smaller units of one dimension as one amount; None for any others."""
    formulas = [part for part in parts if isinstance(part, Formula) and part.unit in _BY_NAME]
    units = [_BY_NAME[formula.unit] for formula in formulas]
    descending = all(larger.size > smaller.size for larger, smaller in pairwise(units))
    one = len(parts) == len(formulas) > 1 and len({unit.dimension for unit in units}) == 1
    return Amount(tuple(formulas)) if one and descending else None


def same_dimension(first: str, second: str) -> bool:
    """Return whether amounts in two units can be converted into each other."""
    return first in _BY_NAME and second in _BY_NAME and _BY_NAME[first].dimension == _BY_NAME[second].dimension


def convert(amount: Amount | Formula, unit: str) -> Node:
    """Return an amount in a unit of its dimension."""
    parts = amount.parts if isinstance(amount, Amount) else (amount,)
    size = _BY_NAME[unit].size
    terms = [Apply("mul", (part.node, Number(_BY_NAME[part.unit].size / size))) for part in parts]
    return terms[0] if len(terms) == 1 else Apply("add", tuple(terms))


def split_unit(tokens: list[Token]) -> tuple[list[Token], str] | None:
    """Return a formula without the unit after it, and that unit in canonical form, empty for an unknown one.

    None where words beside the formula make another number of it.
    """
    end, units = len(tokens), list[str]()
    while end:
        token = tokens[end - 1]
        if token.kind == "text":
            units = [*_words(token), *units]
            end -= 1
        elif exponent := _unit_exponent(tokens, end):
            units = [f"^{exponent}", *units]
            end -= 4 if token.text == "}" else 2
        elif _is_short(tokens, end) or (units and token.text in ("/", "*", "^") and _is_unit(tokens, end - 1)):
            units = [token.text, *units]
            end -= 1
        else:
            break
    if end == 0:  # words only before a formula, or nothing but words
        return tokens, ""
    start = 0
    while start < end and tokens[start].kind == "text":
        start += 1
    if not _LIMITS.isdisjoint((*units, *(word for token in tokens[:start] for word in _words(token)))):
        return None
    formula = tokens[start:end]
    if any(unit not in UNITS and unit not in OTHER_UNITS and unit[0] not in "^/" for unit in units):
        return formula, ""
    unit_names = [UNITS[unit].name if unit in UNITS else unit for unit in units if unit not in OTHER_UNITS]
    if not unit_names or unit_names[0].startswith("^"):
        return formula, ""
    squared, cubed = {"square", "sq"} & set(units), {"cubic", "cu"} & set(units)
    return formula, "".join(unit_names) + ("^2" if squared else "^3" if cubed else "")


def _words(token: Token) -> list[str]:
    return [word for word in re.split(r"[\s/^~\d{}.]+", token.text.lower()) if word]


def _unit_exponent(tokens: list[Token], end: int) -> str | None:
    """Return the exponent of the unit that ends at `end`, `cm^2` or `cm^{2}`; None where there is none."""
    texts = [token.text for token in tokens[max(0, end - 4) : end]]
    power = [texts[-4], texts[-2]] if len(texts) == 4 and texts[-3::2] == ["{", "}"] else texts[-2:]
    if len(power) < 2 or power[0] != "^" or power[1] not in ("2", "3"):
        return None
    return power[1] if _is_unit(tokens, end - (4 if texts[-1] == "}" else 2)) else None


def _is_unit(tokens: list[Token], end: int) -> bool:
    return end > 0 and (tokens[end - 1].kind == "text" or _is_short(tokens, end))


def _is_short(tokens: list[Token], end: int) -> bool:
    """Return whether a letter is a unit: one behind a number and a space, `10 m`, or behind a slash, `km/h`."""
    token = tokens[end - 1]
    if end < 2 or token.kind != "symbol" or token.text not in _SHORT:
        return False
    before = tokens[end - 2]
    if before.text == "/" and end > 3:
        return _is_unit(tokens, end - 2)
    return token.spaced and before.kind == "number" and end == 2 + (tokens[0].text == "-")
