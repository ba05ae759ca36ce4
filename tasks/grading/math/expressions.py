"""Formulas as trees, their values, and whether two of them are equal.

A value is exact where it is rational, else in double precision; formulas are compared exactly, to the digits as
written, or by their values at points.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from fractions import Fraction
from typing import NamedTuple, TypeAlias

MAX_BITS = 20_000
"""Most bits of an exact number: 2^1009 is one, 9^9^9 is not."""
MAX_EXPONENT = 10**9
MAX_FACTORIAL = 1_000


class Number(NamedTuple):
    """A rational number with the number of its written decimal places."""

    value: Fraction
    places: int | None = None
    """Digits after the point; None without a point, which means an exact number."""


class Symbol(NamedTuple):
    """A variable or an unknown function."""

    name: str


class Apply(NamedTuple):
    """A function or an operation applied to arguments."""

    name: str
    args: tuple[Node, ...]


Node: TypeAlias = Number | Symbol | Apply
CONSTANTS = {"pi": complex(math.pi), "e": complex(math.e), "i": 1j}


class Undecided(Exception):
    """The value cannot be determined here: too large, undefined or unknown."""


def find_symbols(node: Node) -> set[str]:
    """Return the names of the variables in `node`."""
    return {part.name for part in walk_nodes(node) if isinstance(part, Symbol)} - CONSTANTS.keys()


def walk_nodes(node: Node) -> Iterator[Node]:
    """Yield `node` and all nodes below it."""
    pending: list[Node] = [node]
    while pending:
        part = pending.pop()
        yield part
        if isinstance(part, Apply):
            pending.extend(part.args)


def has_decimal(node: Node) -> bool:
    """Return whether a number in `node` is written with a point."""
    return any(isinstance(part, Number) and part.places is not None for part in walk_nodes(node))


def exact_value(node: Node) -> Fraction | None:
    """Return the exact value of `node`; None if it is not rational or too large."""
    if isinstance(node, Number):
        return node.value
    if isinstance(node, Symbol):
        return None
    args: list[Fraction] = []
    for arg in node.args:
        value = exact_value(arg)
        if value is None:
            return None
        args.append(value)
    value = _EXACT[node.name](*args) if node.name in _EXACT else None
    return value if value is not None and _bits(value) <= MAX_BITS else None


def _bits(value: Fraction) -> int:
    return max(value.numerator.bit_length(), value.denominator.bit_length())


def _power(base: Fraction, exponent: Fraction) -> Fraction | None:
    """Return a power: 2^(-3) is 1/8, 27^(2/3) is 9; None where it is not rational, as 2^(1/2), or too large."""
    degree = exponent.denominator
    if degree == 1 and base in (0, 1, -1):
        return base ** int(exponent % 2 if base == -1 else exponent) if base or exponent > 0 else None
    if abs(exponent) * _bits(base) > MAX_BITS:
        return None
    if degree == 1:
        return base ** int(exponent)
    if base < 0 or degree > 64 or _bits(base) > 512:  # the guess of a root is a double, which ends at 1,024 bits
        return None
    above, below = _integer_root(base.numerator, degree), _integer_root(base.denominator, degree)
    if above is None or below is None or (above == 0 and exponent < 0):
        return None
    return Fraction(above, below) ** exponent.numerator


def _integer_root(value: int, degree: int) -> int | None:
    guess = math.isqrt(value) if degree == 2 else round(value ** (1 / degree))
    return next((root for root in (guess - 1, guess, guess + 1) if root >= 0 and root**degree == value), None)


def _factorial(value: Fraction) -> Fraction | None:
    whole = value.denominator == 1 and 0 <= value <= MAX_FACTORIAL
    return Fraction(math.factorial(int(value))) if whole else None


def _binomial(above: Fraction, below: Fraction) -> Fraction | None:
    whole = above.denominator == below.denominator == 1 and 0 <= below <= MAX_FACTORIAL and 0 <= above <= 10**6
    return Fraction(math.comb(int(above), int(below))) if whole else None


_EXACT: Mapping[str, Callable[..., Fraction | None]] = {
    "add": lambda *terms: sum(terms, Fraction(0)),
    "mul": lambda *factors: math.prod(factors, start=Fraction(1)),
    "div": lambda above, below: above / below if below else None,
    "neg": lambda value: -value,
    "pow": _power,
    "abs": lambda value: abs(value),
    "floor": lambda value: Fraction(math.floor(value)),
    "ceil": lambda value: Fraction(math.ceil(value)),
    "factorial": _factorial,
    "binomial": _binomial,
    "mod": lambda value, by: value % by if by else None,
    "gcd": lambda a, b: Fraction(math.gcd(int(a), int(b))) if a.denominator == b.denominator == 1 else None,
    "max": lambda *values: max(values),
    "min": lambda *values: min(values),
}


def evaluate(node: Node, point: Mapping[str, Fraction]) -> complex:
    """Return the value of `node` in double precision. Raises Undecided, KeyError for a variable not in `point`."""
    try:
        value = _value(node, point)
    except (ArithmeticError, ValueError, TypeError, RecursionError) as error:
        raise Undecided(str(error)) from error
    if not cmath.isfinite(value):
        raise Undecided("not finite")
    return value


def _value(node: Node, point: Mapping[str, Fraction]) -> complex:
    """Return the value of a tree at a point. Raises Undecided for an unknown function, KeyError, ArithmeticError."""
    if isinstance(node, Number):
        return complex(node.value.numerator / node.value.denominator)
    if isinstance(node, Symbol):
        value = point[node.name] if node.name not in CONSTANTS else None
        return CONSTANTS[node.name] if value is None else complex(value.numerator / value.denominator)
    args = [_value(arg, point) for arg in node.args]
    if node.name not in _VALUES:
        raise Undecided(node.name)
    return complex(_VALUES[node.name](*args))


def _general_power(base: complex, exponent: complex) -> complex:
    """Return a power. Raises Undecided for a large exponent, and for zero to one that is not positive."""
    if abs(exponent) > MAX_EXPONENT:
        raise Undecided("an exponent that large")
    if base == 0:
        if exponent.real <= 0:
            raise Undecided("zero to a power that is not positive")
        return base
    return base**exponent


def _general_root(base: complex, degree: complex) -> complex:
    """Return a root; one of odd degree of a negative number is real, as in schools."""
    if base.imag == 0 and base.real < 0 and degree.imag == 0 and degree.real % 2 == 1:
        return -((-base) ** (1 / degree))
    return _general_power(base, 1 / degree)


def _real(value: complex) -> float:
    if abs(value.imag) > 1e-12:
        raise Undecided("not real")
    return value.real


def _gamma(value: complex) -> float:
    if abs(value) > MAX_FACTORIAL:
        raise Undecided("a factorial that large")
    return math.gamma(_real(value) + 1)


_VALUES: dict[str, Callable[..., complex]] = {
    "add": lambda *args: sum(args[1:], args[0]),
    "mul": lambda *args: math.prod(args[1:], start=args[0]),
    "div": lambda above, below: above / below,
    "neg": lambda value: -value,
    "pow": _general_power,
    "root": _general_root,
    "abs": lambda value: abs(value),
    "floor": lambda value: math.floor(round(_real(value), 9)),  # 2.9999999999999996 is meant as 3
    "ceil": lambda value: math.ceil(round(_real(value), 9)),
    "factorial": _gamma,
    "binomial": lambda n, k: _gamma(n) / _gamma(k) / _gamma(n - k),
    "log": lambda base, value: cmath.log(value) / cmath.log(base),
    "ln": cmath.log,
    "exp": cmath.exp,
    "conjugate": lambda value: value.conjugate(),
    "re": lambda value: value.real,
    "im": lambda value: value.imag,
    "arg": cmath.phase,
    "max": lambda *args: max(args, key=lambda value: value.real),
    "min": lambda *args: min(args, key=lambda value: value.real),
    "cot": lambda value: cmath.cos(value) / cmath.sin(value),
    "sec": lambda value: 1 / cmath.cos(value),
    "csc": lambda value: 1 / cmath.sin(value),
    "coth": lambda value: 1 / cmath.tanh(value),
    "sech": lambda value: 1 / cmath.cosh(value),
    "csch": lambda value: 1 / cmath.sinh(value),
    "arccot": lambda value: cmath.atan(1 / value),
    "arcsec": lambda value: cmath.acos(1 / value),
    "arccsc": lambda value: cmath.asin(1 / value),
}
for _name in ("sin", "cos", "tan", "sinh", "cosh", "tanh"):
    _VALUES[_name], _VALUES[f"arc{_name}"] = getattr(cmath, _name), getattr(cmath, f"a{_name}")
FUNCTIONS = frozenset((*_VALUES, "lg")) - {"add", "mul", "div", "neg", "pow", "root", "factorial", "binomial"}
"""Operations that are written as a name before their argument."""

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
    """Number of significant digits."""
    unit: Fraction
    """Unit of the last decimal place."""


def is_same_value(a: Node, b: Node) -> bool:
    """Return whether `a` and `b` are the same number or the same function. Raises Undecided.

    A decimal equals an exact value that rounds to it, if it has 3 significant digits (4 for an irrational value) and
    the value has no short decimal form: 0.667 is 2/3, 0.67 is not, 1.06 is not 17/16. Decimals agree to a millionth.
    """
    if a == b:
        return True
    left, right = exact_value(a), exact_value(b)
    if left is not None and right is not None:
        if left == right:
            return True
        first, second = written_decimal(a), written_decimal(b)
        if first and not second:
            return not _is_short(right) and _is_rounded(right, first, RATIONAL_DIGITS)
        if second and not first:
            return not _is_short(left) and _is_rounded(left, second, RATIONAL_DIGITS)
        close = abs(left - right) <= DECIMAL_TOLERANCE * max(abs(left), abs(right))
        return close and (has_decimal(a) or has_decimal(b))
    return _same_function(a, b) if find_symbols(a) or find_symbols(b) else _same_constant(a, b)


def written_decimal(node: Node) -> Decimal | None:
    """Return `node` as a decimal: 0.667, -4.5, 4.5e33, 6.02 \\times 10^{23}; None if it is none."""
    if isinstance(node, Number):
        if node.places is None:
            return None
        unit = Fraction(10) ** -node.places
        return Decimal(node.value, len(str(abs(int(node.value / unit)))) if node.value else 1, unit)
    if isinstance(node, Apply) and node.name == "neg":
        inner = written_decimal(node.args[0])
        return inner._replace(value=-inner.value) if inner else None
    if isinstance(node, Apply) and node.name == "mul" and len(node.args) == 2:
        inner, scale = written_decimal(node.args[0]), exact_value(node.args[1])
        power = node.args[1]
        if inner and scale and isinstance(power, Apply) and power.name == "pow" and exact_value(power.args[0]) == 10:
            return Decimal(inner.value * scale, inner.digits, inner.unit * scale)
    return None


def _is_short(value: Fraction) -> bool:
    """Return whether a value has at most FINITE_PLACES decimals."""
    return (value * 10**FINITE_PLACES).denominator == 1


def _is_rounded(value: Fraction, decimal: Decimal, digits: int) -> bool:
    off = abs(value - decimal.value)
    if off * 2 <= decimal.unit * (1 + DECIMAL_TOLERANCE):
        return decimal.digits >= digits
    return off < decimal.unit and abs(decimal.value) < abs(value) and decimal.digits >= CUT_DIGITS


def _same_constant(a: Node, b: Node) -> bool:
    """Return whether two trees without variables are equal, as precisely as they are written. Raises Undecided."""
    left, right = evaluate(a, {}), evaluate(b, {})
    off, scale = abs(left - right), max(abs(left), abs(right))
    if off <= CLEARLY_DIFFERENT * scale:
        if any(abs(value) >= 2**53 for node in (a, b) if (value := exact_value(node)) is not None):
            raise Undecided("more digits than a double has")
        return True
    decimal = written_decimal(a) or written_decimal(b)
    if decimal and abs(left.imag) < 1e-12 and abs(right.imag) < 1e-12:
        exact = right if written_decimal(a) else left
        return _is_rounded(Fraction(exact.real), decimal, IRRATIONAL_DIGITS)
    return (has_decimal(a) or has_decimal(b)) and off <= float(DECIMAL_TOLERANCE) * scale


def _values_at_points(a: Node, b: Node) -> Iterator[tuple[complex, complex, bool]]:
    """Yield the values of both at points where they have one, each with whether all variables are positive there."""
    names = sorted(find_symbols(a) | find_symbols(b))
    for row in range(7):
        point: dict[str, Fraction] = {}
        for index, name in enumerate(names):
            # fixed, so that verdicts repeat, and uneven: from 3/431 to 999/431
            value = Fraction((389 * (row + 1) + 211 * (index + 2) * (row + 2) + 97 * index * index) % 997 + 3, 431)
            # four points with positive variables, then three with some below 0
            point[name] = -value if row >= 4 and (row + index) % 2 == 0 else value
        with suppress(Undecided):
            yield evaluate(a, point), evaluate(b, point), row < 4


def _same_function(a: Node, b: Node) -> bool:
    """Return whether values are equal at points with positive variables and where both are real. Raises Undecided.

    sqrt(a/b) and sqrt(a)/sqrt(b) are the same, as for positive quantities of physics, but sqrt(x^2) and x are not.
    """
    tolerance = float(DECIMAL_TOLERANCE) if has_decimal(a) or has_decimal(b) else CLEARLY_DIFFERENT
    agreed = 0
    for left, right, positive in _values_at_points(a, b):
        real = abs(left.imag) <= 1e-12 * abs(left) and abs(right.imag) <= 1e-12 * abs(right)
        if not positive and not real:
            continue
        if abs(left - right) > tolerance * max(abs(left), abs(right), 1e-30):
            return False
        agreed += 1
    if agreed < 2:
        raise Undecided("defined at too few points")
    return True


def proportionality_sign(a: Node, b: Node) -> int | None:
    """Return the sign of the constant c with a = c·b; None where there is none, or no variable. Raises Undecided."""
    if not (find_symbols(a) or find_symbols(b)):
        return None
    ratios: list[complex] = []
    for left, right, positive in _values_at_points(a, b):
        real = abs(left.imag) <= 1e-9 and abs(right.imag) <= 1e-9
        if (positive or real) and abs(right) >= 1e-9 and abs(left) >= 1e-9:
            ratios.append(left / right)
    if len(ratios) < 3:
        raise Undecided("defined at too few points")
    tolerance = 1e-6 if has_decimal(a) or has_decimal(b) else 1e-9
    if any(abs(ratio - ratios[0]) > tolerance * abs(ratios[0]) for ratio in ratios) or abs(ratios[0].imag) > 1e-9:
        return None
    return 1 if ratios[0].real > 0 else -1
