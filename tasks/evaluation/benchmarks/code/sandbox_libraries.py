"""Finds out which libraries the programs of a sandbox can import."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from tasks.grading.code.code_grading import BROKEN
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


def explain_missing(names: Iterable[str], sandbox: Sandbox) -> str | None:
    """Return why an item that needs these libraries has no score here, naming those that are missing; else None."""
    try:
        missing = [name for name in dict.fromkeys(names) if not _has_library(name, sandbox)]
    except _LookUpFailed as failed:
        return f"{BROKEN}its libraries could not be looked up: {failed}"
    noun, verb = ("libraries", "are") if len(missing) > 1 else ("library", "is")
    return f"{noun} {', '.join(missing)} {verb} not {REMEDY}" if missing else None


class _LookUpFailed(Exception):
    """The sandbox did not execute the look-up; an exception, so that the cache does not keep it."""


@lru_cache(maxsize=4096)  # each executes a program, and items share libraries
def _has_library(name: str, sandbox: Sandbox) -> bool:
    execution = sandbox.run(Program(LOOK_UP.format(name=name, lacks=LACKS)))
    if not execution.passed and execution.exit_code != LACKS:
        raise _LookUpFailed(execution.reason or execution.status)
    return execution.passed
