"""Libraries that the programs of an item need, and those that the sandbox's Python lacks."""

from __future__ import annotations

import ast
import json
import re
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from threading import Lock
from typing import NamedTuple, cast
from weakref import WeakKeyDictionary

from tasks.evaluation.evaluation_records import Sample
from tasks.evaluation.running.benchmark_data import Row
from tasks.sandbox import Program, Sandbox

REMEDY = "in the sandbox's Python (TRIVET_SANDBOX_PYTHON names another)"
REASON = re.compile(rf"librar(?:y|ies) (.+) (?:is|are) not {re.escape(REMEDY)}")
STANDARD, FOREIGN = "standard library", "third-party libraries"

LOOK_UP = """\
import importlib
import importlib.util
import json
import sys

standard = getattr(sys, "stdlib_module_names", sys.builtin_module_names)

def is_there(name):
    try:
        # turtle is a file of every Python, and of no use without Tk
        return bool(importlib.import_module(name) if name in standard else importlib.util.find_spec(name))
    except (ImportError, ValueError):
        return False

found = [name for name in json.load(sys.stdin) if is_there(name)]
print()
print(json.dumps(found))
"""


class LookUp(NamedTuple):
    """Libraries that the sandbox's Python lacks."""

    missing: tuple[str, ...]
    broken: str = ""
    """Why the lookup failed."""


class Libraries:
    """Libraries of each sandbox, looked up once each with importlib.util.find_spec."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._known = WeakKeyDictionary[Sandbox, dict[str, bool]]()

    def missing(self, names: Iterable[str], sandbox: Sandbox) -> LookUp:
        """Those of `names` that its programs cannot import."""
        wanted = tuple(dict.fromkeys(names))
        with self._lock:
            known = self._known.setdefault(sandbox, {})
            unknown = [name for name in wanted if name not in known]
            if unknown:
                execution = sandbox.run(Program(LOOK_UP, stdin=json.dumps(unknown).encode()))
                if not execution.passed:
                    return LookUp((), execution.reason or execution.status)
                found = json.loads(execution.stdout.splitlines()[-1])
                known.update({name: name in found for name in unknown})
            return LookUp(tuple(name for name in wanted if not known[name]))


def reason_of(missing: Iterable[str]) -> str:
    """Why a sample has no score."""
    names = tuple(missing)
    noun, verb = ("libraries", "are") if len(names) > 1 else ("library", "is")
    return f"{noun} {', '.join(names)} {verb} not {REMEDY}"


def counted(samples: Iterable[Sample], lacking: Counter[str]) -> Iterator[Sample]:
    """The samples, passed on; `lacking` counts unscored samples by missing library."""
    for sample in samples:
        if sample.status == "unscored" and (named := REASON.fullmatch(sample.reason)):
            lacking.update(named[1].split(", "))
        yield sample


def needed_by(row: Row) -> tuple[str, ...]:
    """Top-level names of what the item declares in `libs`, and of what its own solution and tests import."""
    imported = _imported(f"{row['code_prompt']}{row['canonical_solution']}\n{row['test']}")
    return tuple(sorted({name.partition(".")[0] for name in (*_declared(row), *imported)}))


def group_of(libraries: Iterable[str]) -> str:
    """`standard library` or `third-party libraries`."""
    return STANDARD if set(libraries) <= sys.stdlib_module_names else FOREIGN


def _declared(row: Row) -> list[str]:
    """`libs` is the text of a Python list."""
    libs = row.get("libs")
    try:
        names = ast.literal_eval(libs) if isinstance(libs, str) else libs
    except (ValueError, SyntaxError):
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in cast("list[object]", names)):
        row.unusable(f"libs: expected a list of names such as \"['json', 'pandas']\", found {libs!r:.80}")
    return cast("list[str]", names)


def _imported(source: str) -> Iterator[str]:
    """Modules that a source imports; none if it is not Python."""
    try:
        with warnings.catch_warnings(action="ignore"):  # of escapes such as "\d"
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
