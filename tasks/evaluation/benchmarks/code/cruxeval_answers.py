"""Reads answers to CruxEval. This file is executed in the sandbox, behind an item's program, and nowhere else.

The text of an answer is parsed, and only what is an answer is ever evaluated. So it cannot stand for everything (an
object that equals all others), cannot be true by itself (`f(1) or True`), and does not have the program do the work:
neither answer may hold a call of f inside. Any Python from 3.9 on executes it, with nothing but the standard library.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

_KINDS = (str, bytes, bytearray, int, float, complex, bool, list, tuple, dict, set, frozenset, range, type(None))
"""Types of values that can be written down; none of them overrides equality."""
_FUNCTIONS = {
    function.__name__: function
    for functions in (
        (bool, bytearray, bytes, complex, dict, float, frozenset, int, list, range, set, slice, str, tuple),
        (abs, ascii, bin, chr, divmod, hex, len, max, min, oct, ord, pow, repr, round, sorted, sum),
        (all, any, enumerate, filter, map, reversed, zip),
    )
    for function in functions
}
"""Builtins that an answer may call, since they only return values."""
_METHODS = frozenset(name for kind in _KINDS for name in dir(kind) if not name.startswith("_"))


def output_in(answer: str) -> Any:
    """Return the literal in `assert f(…) == literal`, or the answer itself where it is a literal. Raises ValueError."""
    node = _expression(answer)
    if _is_comparison(node) and _is_call(node.left):
        node = node.comparators[0]
    return ast.literal_eval(node)


def output_of(answer: str, names: Mapping[str, Any]) -> Any:
    """Return what f returns for the arguments in `assert f(arguments) == …` or `f(arguments)`. Raises ValueError.

    names: those of the item's program. Arguments are made of literals, operators, comprehensions, lambdas, builtins
    that give values, methods of such values, and the program's own values.
    """
    node = _expression(answer)
    call = node.left if _is_comparison(node) else node
    if not _is_call(call):
        raise ValueError("the answer is no call of f")
    program_values = {
        name: value for name, value in names.items() if isinstance(value, _KINDS) and not name.startswith("_")
    }
    for part in (*call.args, *call.keywords):
        _refuse_tricks(part)
    scope = {"__builtins__": {}, **_FUNCTIONS, **program_values, "f": names["f"]}
    return eval(compile(ast.Expression(call), "<answer>", "eval"), scope)  # noqa: S307 we are in the sandbox


def _expression(answer: str) -> Any:
    """Return the only expression of an answer, or the condition of its only assert. Raises ValueError."""
    body = ast.parse(answer.strip()).body
    node = body[0] if len(body) == 1 else None
    if isinstance(node, ast.Assert) and node.msg is None:
        return node.test
    if isinstance(node, ast.Expr):
        return node.value
    raise ValueError("the answer is not one assertion or expression")


def _is_comparison(node: Any) -> bool:
    return isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq)


def _is_call(node: Any) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "f"


def _refuse_tricks(part: ast.AST) -> None:
    """Refuse f itself, and attributes that are no method of a value; other names are not there when it is evaluated."""
    for node in ast.walk(part):
        if isinstance(node, ast.Attribute) and node.attr not in _METHODS:
            raise ValueError(f"{node.attr} is no method of a builtin value")
        if isinstance(node, ast.Name) and node.id == "f":
            raise ValueError("f is not to be used in an argument")
