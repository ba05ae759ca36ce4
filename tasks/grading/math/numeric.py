"""Compares two formulas: exactly, to the digits as written, or by their values at points."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import NamedTuple

from tasks.grading.math.expressions import Apply, Node, Number, Undecided, evaluate, has_decimal, rational, symbols

RATIONAL_DIGITS, IRRATIONAL_DIGITS, CUT_DIGITS = 3, 4, 5
"""Significant digits needed of a decimal rounded from a rational or an irrational value, and of a truncated one."""
FINITE_PLACES = 6
"""A value with at most this many decimals could have been written out: a rounded one is wrong."""
DECIMAL_TOLERANCE = Fraction(1, 10**6)
"""Relative, between two decimals, or inside formulas with decimals."""
CLEARLY_DIFFERENT = 1e-8


class Decimal(NamedTuple):
    """A number written with a point."""

    value: Fraction
    digits: int
    """Significant digits."""
    unit: Fraction
    """Unit of the last decimal place."""


def same_value(a: Node, b: Node) -> bool:
    """True if `a` and `b` are the same number or the same function. Raises Undecided.

    A decimal equals an exact value that rounds to it, if it has 3 significant digits (4 for an irrational value) and
    the value has no short decimal form: 0.667 is 2/3, 0.67 is not, 1.06 is not 17/16. Decimals agree to a millionth.
    """
    if a == b:
        return True
    left, right = rational(a), rational(b)
    if left is not None and right is not None:
        return left == right or _rounded(a, b, left, right)
    if symbols(a) or symbols(b):
        return _same_function(a, b)
    return _same_constant(a, b)


def written_decimal(node: Node) -> Decimal | None:
    """`node` as a decimal: 0.667, -4.5, 4.5e33, 6.02 \\times 10^{23}; None if it is none."""
    if isinstance(node, Number):
        if node.places is None:
            return None
        unit = Fraction(10) ** -node.places
        return Decimal(node.value, len(str(abs(int(node.value / unit)))) if node.value else 1, unit)
    if isinstance(node, Apply) and node.name == "neg":
        inner = written_decimal(node.args[0])
        return inner._replace(value=-inner.value) if inner else None
    if isinstance(node, Apply) and node.name == "mul" and len(node.args) == 2:
        inner, scale = written_decimal(node.args[0]), rational(node.args[1])
        power = node.args[1]
        if inner and scale and isinstance(power, Apply) and power.name == "pow" and rational(power.args[0]) == 10:
            return Decimal(inner.value * scale, inner.digits, inner.unit * scale)
    return None


def _rounded(a: Node, b: Node, left: Fraction, right: Fraction) -> bool:
    first, second = written_decimal(a), written_decimal(b)
    if first and not second:
        return not _is_short(right) and _rounds_to(right, first, RATIONAL_DIGITS)
    if second and not first:
        return not _is_short(left) and _rounds_to(left, second, RATIONAL_DIGITS)
    close = abs(left - right) <= DECIMAL_TOLERANCE * max(abs(left), abs(right))
    return close and (has_decimal(a) or has_decimal(b))


def _is_short(value: Fraction) -> bool:
    """True for a value with few decimals."""
    return (value * 10**FINITE_PLACES).denominator == 1


def _rounds_to(value: Fraction, decimal: Decimal, digits: int) -> bool:
    off = abs(value - decimal.value)
    if off * 2 <= decimal.unit * (1 + DECIMAL_TOLERANCE):
        return decimal.digits >= digits
    return off < decimal.unit and abs(decimal.value) < abs(value) and decimal.digits >= CUT_DIGITS


def _same_constant(a: Node, b: Node) -> bool:
    left, right = evaluate(a, {}), evaluate(b, {})
    off, scale = abs(left - right), max(abs(left), abs(right))
    if off <= CLEARLY_DIFFERENT * scale:
        if any(abs(value) >= 2**53 for node in (a, b) if (value := rational(node)) is not None):
            raise Undecided("more digits than a double has")
        return True
    decimal = written_decimal(a) or written_decimal(b)
    if decimal and abs(left.imag) < 1e-12 and abs(right.imag) < 1e-12:
        exact = right if written_decimal(a) else left
        return _rounds_to(Fraction(exact.real), decimal, IRRATIONAL_DIGITS)
    return (has_decimal(a) or has_decimal(b)) and off <= float(DECIMAL_TOLERANCE) * scale


def points(names: Iterable[str]) -> list[tuple[dict[str, Fraction], bool]]:
    """Fixed values for the variables `names`, each with whether all are positive."""
    found: list[tuple[dict[str, Fraction], bool]] = []
    for row in range(7):
        point: dict[str, Fraction] = {}
        for index, name in enumerate(sorted(names)):
            value = Fraction((389 * (row + 1) + 211 * (index + 2) * (row + 2) + 97 * index * index) % 997 + 3, 431)
            point[name] = -value if row >= 4 and (row + index) % 2 == 0 else value
        found.append((point, row < 4))
    return found


def _same_function(a: Node, b: Node) -> bool:
    """True where both have the same values at points with positive variables, and wherever both are real.

    sqrt(a/b) and sqrt(a)/sqrt(b) are the same, as for positive quantities of physics, but sqrt(x^2) and x are not.
    """
    names = symbols(a) | symbols(b)
    tolerance = float(DECIMAL_TOLERANCE) if has_decimal(a) or has_decimal(b) else CLEARLY_DIFFERENT
    agreed = 0
    for point, positive in points(names):
        try:
            left, right = evaluate(a, point), evaluate(b, point)
        except Undecided:
            continue
        real = abs(left.imag) <= 1e-12 * abs(left) and abs(right.imag) <= 1e-12 * abs(right)
        if not positive and not real:
            continue
        if abs(left - right) > tolerance * max(abs(left), abs(right), 1e-30):
            return False
        agreed += 1
    if agreed < 2:
        raise Undecided("defined at too few points")
    return True


def proportional(a: Node, b: Node) -> int | None:
    """The sign of the constant c with a = c·b; None where there is none. Raises Undecided."""
    names = symbols(a) | symbols(b)
    if not names:
        return None
    ratios: list[complex] = []
    for point, positive in points(names):
        try:
            left, right = evaluate(a, point), evaluate(b, point)
        except Undecided:
            continue
        real = abs(left.imag) <= 1e-9 and abs(right.imag) <= 1e-9
        if (positive or real) and abs(right) >= 1e-9 and abs(left) >= 1e-9:
            ratios.append(left / right)
    if len(ratios) < 3:
        raise Undecided("defined at too few points")
    tolerance = 1e-6 if has_decimal(a) or has_decimal(b) else 1e-9
    if any(abs(ratio - ratios[0]) > tolerance * abs(ratios[0]) for ratio in ratios) or abs(ratios[0].imag) > 1e-9:
        return None
    return 1 if ratios[0].real > 0 else -1
