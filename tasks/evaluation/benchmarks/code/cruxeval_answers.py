"""Reads answers to CruxEval. This file is executed in the sandbox, behind an item's program, and nowhere else.

The text of an answer is parsed, so that it cannot be true by itself (`f(1) or True`), and does not have the program do
the work: neither answer may use f inside. Any Python from 3.9 on executes it, with nothing but the standard library.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any


def output_in(answer: str) -> Any:
    """Return the literal in `assert f(…) == literal`, or the answer itself where it is a literal. Raises ValueError."""
    node = _expression(answer)
    if _is_comparison(node) and _is_call(node.left):
        node = node.comparators[0]
    return ast.literal_eval(node)


def output_of(answer: str, names: Mapping[str, Any]) -> Any:
    """Return f's value in `assert f(arguments) == …` or `f(arguments)`. Raises ValueError. names: of the program."""
    node = _expression(answer)
    call = node.left if _is_comparison(node) else node
    arguments = [*call.args, *call.keywords] if _is_call(call) else None
    parts = [part for argument in arguments or () for part in ast.walk(argument)]
    if arguments is None or any(isinstance(part, ast.Name) and part.id == "f" for part in parts):
        raise ValueError("the answer is no call of f, or one that uses f in an argument")
    value = eval(compile(ast.Expression(call), "<answer>", "eval"), {**names})  # noqa: S307 we are in the sandbox
    if type(value).__module__ not in ("builtins", "collections"):
        raise ValueError("the value is of a class that may equal anything")
    return value


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
