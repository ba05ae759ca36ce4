"""Finds out which libraries the programs of a sandbox can import."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from tasks.sandbox import Program, Sandbox

REMEDY = "in the sandbox's Python (TRIVET_SANDBOX_PYTHON names another; the extra `bigcodebench` has them)"
LACKS = 3
"""Exit code of the look-up where the library is missing."""
LOOK_UP = """\
import importlib
import importlib.util
import sys

name = {name!r}
standard = getattr(sys, "stdlib_module_names", sys.builtin_module_names)
try:
    # turtle is a file of every Python, and of no use without Tk
    found = importlib.import_module(name) if name in standard else importlib.util.find_spec(name)
except (ImportError, ValueError):
    found = None
if not found:
    raise SystemExit({lacks})
"""


class LookUp(NamedTuple):
    """The result of a look-up: the libraries that the sandbox's Python lacks."""

    missing: tuple[str, ...]
    broken: str = ""
    """Why the look-up itself failed; empty where it was done."""


def look_up(names: Iterable[str], sandbox: Sandbox) -> LookUp:
    """Return those of `names` that the programs of a sandbox cannot import."""
    try:
        return LookUp(tuple(name for name in dict.fromkeys(names) if not _has_library(name, sandbox)))
    except _LookUpFailed as failed:
        return LookUp((), str(failed))


def explain_missing(missing: Iterable[str]) -> str:
    """Return the reason why a sample has no score, naming the missing libraries."""
    names = tuple(missing)
    noun, verb = ("libraries", "are") if len(names) > 1 else ("library", "is")
    return f"{noun} {', '.join(names)} {verb} not {REMEDY}"


class _LookUpFailed(Exception):
    """The sandbox did not execute the look-up; an exception, so that the cache does not keep it."""


@lru_cache(maxsize=4096)  # each executes a program, and items share libraries
def _has_library(name: str, sandbox: Sandbox) -> bool:
    execution = sandbox.run(Program(LOOK_UP.format(name=name, lacks=LACKS)))
    if not execution.passed and execution.exit_code != LACKS:
        raise _LookUpFailed(execution.reason or execution.status)
    return execution.passed
