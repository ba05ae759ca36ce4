"""Formulas as trees, and their values: exact where rational, else to many digits at given points."""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from functools import cache
from threading import Lock
from typing import Any, NamedTuple, TypeAlias

MAX_BITS = 20_000
"""Most bits of an exact number: 2^1009 is one, 9^9^9 is not."""
MAX_EXPONENT = 10**9
MAX_FACTORIAL = 1_000
DIGITS = 40
"""Digits of a value that confirms equality."""


class Number(NamedTuple):
    value: Fraction
    places: int | None = None
    """Digits after the point; None without a point, which means an exact number."""


class Symbol(NamedTuple):
    """A variable or an unknown function."""

    name: str


class Apply(NamedTuple):
    name: str
    args: tuple[Node, ...]


Node: TypeAlias = Number | Symbol | Apply
CONSTANTS = ("pi", "e", "i")


class Undecided(Exception):
    """The value cannot be determined here: too large, undefined or unknown."""


def symbols(node: Node) -> set[str]:
    """Names of the variables in `node`."""
    return {part.name for part in walk(node) if isinstance(part, Symbol)} - set(CONSTANTS)


def walk(node: Node) -> Iterator[Node]:
    """`node` and all below it."""
    pending: list[Node] = [node]
    while pending:
        part = pending.pop()
        yield part
        if isinstance(part, Apply):
            pending.extend(part.args)


def has_decimal(node: Node) -> bool:
    """True where a number is written with a point."""
    return any(isinstance(part, Number) and part.places is not None for part in walk(node))


def rational(node: Node) -> Fraction | None:
    """The exact value of `node`; None if it is not rational or too large."""
    if isinstance(node, Number):
        return node.value
    if isinstance(node, Symbol):
        return None
    args: list[Fraction] = []
    for arg in node.args:
        if (value := rational(arg)) is None:
            return None
        args.append(value)
    value = _EXACT[node.name](*args) if node.name in _EXACT else None
    return value if value is not None and _bits(value) <= MAX_BITS else None


def _bits(value: Fraction) -> int:
    return max(value.numerator.bit_length(), value.denominator.bit_length())


def _power(base: Fraction, exponent: Fraction) -> Fraction | None:
    if exponent.denominator != 1:
        return _root(base, exponent)
    if base in (0, 1, -1):
        return base ** int(exponent % 2 if base == -1 else exponent) if base or exponent > 0 else None
    if abs(exponent) * _bits(base) > MAX_BITS:
        return None
    return base ** int(exponent)


def _root(base: Fraction, exponent: Fraction) -> Fraction | None:
    """An exact root: 27^(2/3) is 9, 2^(1/2) is not rational."""
    degree = exponent.denominator
    if base < 0 or degree > 64 or _bits(base) > 512 or abs(exponent) * _bits(base) > MAX_BITS:
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


class _Doubles:
    """Arithmetic in double precision, which is quick and mostly tells two values apart."""

    number = staticmethod(lambda value: complex(value.numerator / value.denominator))
    pi, e = complex(math.pi), complex(math.e)
    i = 1j

    @staticmethod
    def call(name: str, *args: complex) -> complex:
        if name in ("gamma", "floor", "ceil") and abs(args[0].imag) > 1e-12:
            raise Undecided(name)
        if name == "gamma":
            return complex(math.gamma(args[0].real))
        if name in ("floor", "ceil"):
            return complex(getattr(math, name)(round(args[0].real, 9)))
        return complex(getattr(cmath, name)(*args))

    @staticmethod
    def power(base: complex, exponent: complex) -> complex:
        return base**exponent


class _ManyDigits:
    def __init__(self) -> None:
        from mpmath import MPContext

        self.context: Any = MPContext()
        self.context.dps = DIGITS
        self.pi, self.e = self.context.mpc(self.context.pi), self.context.mpc(self.context.e)
        self.i = self.context.mpc(0, 1)

    def number(self, value: Fraction) -> Any:
        return self.context.mpc(self.context.mpf(value.numerator) / value.denominator)

    def call(self, name: str, *args: Any) -> Any:
        if name in ("floor", "ceil"):
            real, nearest = args[0].real, self.context.nint(args[0].real)
            return self.context.mpc(nearest if abs(real - nearest) < 1e-30 else getattr(self.context, name)(real))
        return self.context.mpc(getattr(self.context, "arg" if name == "phase" else name)(*args))

    def power(self, base: Any, exponent: Any) -> Any:
        return self.context.mpc(self.context.power(base, exponent))


def evaluate(node: Node, point: Mapping[str, Fraction]) -> complex:
    """Value of `node` with variables as in `point`, in double precision. Raises Undecided."""
    return _checked(node, point, _Doubles)


_many_digits = cache(_ManyDigits)
_one_at_a_time = Lock()  # an mpmath context changes its precision inside a call


def same_to_many_digits(a: Node, b: Node, point: Mapping[str, Fraction]) -> bool:
    """True if two formulas have the same value to 30 digits at `point`. Raises Undecided."""
    with _one_at_a_time:
        arithmetic = _many_digits()
        left, right = _checked(a, point, arithmetic), _checked(b, point, arithmetic)
        scale = max(abs(left), abs(right))
        return bool(abs(left - right) <= scale * 10**-30 or scale <= 10**-30)


def _checked(node: Node, point: Mapping[str, Fraction], arithmetic: Any) -> Any:
    try:
        value = _value(node, point, arithmetic)
    except (ArithmeticError, ValueError, TypeError, RecursionError, NotImplementedError) as error:
        raise Undecided(str(error)) from error
    if not (cmath.isfinite(complex(value)) if arithmetic is _Doubles else arithmetic.context.isfinite(value)):
        raise Undecided("not finite")
    return value


def _value(node: Node, point: Mapping[str, Fraction], do: Any) -> Any:
    if isinstance(node, Number):
        return do.number(node.value)
    if isinstance(node, Symbol):
        return getattr(do, node.name) if node.name in CONSTANTS else do.number(point[node.name])
    args = [_value(arg, point, do) for arg in node.args]
    if node.name not in _VALUES:
        raise Undecided(node.name)
    return _VALUES[node.name](do, *args)


def _general_power(do: Any, base: Any, exponent: Any) -> Any:
    if abs(exponent) > MAX_EXPONENT:
        raise Undecided("an exponent that large")
    if base == 0:
        if exponent.real <= 0:
            raise Undecided("zero to a power that is not positive")
        return base
    return do.power(base, exponent)


def _general_root(do: Any, base: Any, degree: Any) -> Any:
    """A root; one of odd degree of a negative number is real, as in schools."""
    if base.imag == 0 and base.real < 0 and degree.imag == 0 and degree.real % 2 == 1:
        return -do.power(-base, 1 / degree)
    return _general_power(do, base, 1 / degree)


def _gamma(do: Any, value: Any) -> Any:
    if abs(value) > MAX_FACTORIAL:
        raise Undecided("a factorial that large")
    return do.call("gamma", value + 1)


_VALUES: dict[str, Callable[..., Any]] = {
    "add": lambda _, *args: sum(args[1:], args[0]),
    "mul": lambda _, *args: math.prod(args[1:], start=args[0]),
    "div": lambda _, above, below: above / below,
    "neg": lambda _, value: -value,
    "pow": _general_power,
    "root": _general_root,
    "abs": lambda _, value: abs(value) * (1 + 0j),
    "floor": lambda do, value: do.call("floor", value),
    "ceil": lambda do, value: do.call("ceil", value),
    "factorial": _gamma,
    "binomial": lambda do, n, k: _gamma(do, n) / _gamma(do, k) / _gamma(do, n - k),
    "log": lambda do, base, value: do.call("log", value) / do.call("log", base),
    "ln": lambda do, value: do.call("log", value),
    "exp": lambda do, value: _general_power(do, do.e, value),
    "conjugate": lambda _, value: value.conjugate(),
    "re": lambda _, value: value.real * (1 + 0j),
    "im": lambda _, value: value.imag * (1 + 0j),
    "arg": lambda do, value: do.call("phase", value),
    "max": lambda _, *args: max(args, key=lambda value: value.real),
    "min": lambda _, *args: min(args, key=lambda value: value.real),
    "cot": lambda do, value: do.call("cos", value) / do.call("sin", value),
}
for _name, _of in {"sec": "cos", "csc": "sin", "coth": "tanh", "sech": "cosh", "csch": "sinh"}.items():
    _VALUES[_name] = lambda do, value, _of=_of: 1 / do.call(_of, value)
for _name, _of in {"arccot": "atan", "arcsec": "acos", "arccsc": "asin"}.items():
    _VALUES[_name] = lambda do, value, _of=_of: do.call(_of, 1 / value)
for _name in ("sin", "cos", "tan", "sinh", "cosh", "tanh"):
    _VALUES[_name] = lambda do, value, _name=_name: do.call(_name, value)
    _VALUES[f"arc{_name}"] = lambda do, value, _name=f"a{_name}": do.call(_name, value)
FUNCTIONS = frozenset((*_VALUES, "lg")) - {"add", "mul", "div", "neg", "pow", "root", "factorial", "binomial"}
"""Operations that are written as a name before their argument."""
