"""The tests of LiveCodeBench's problems: reads the published files, and runs a program on one test.

Private tests are base64 of zlib of a pickle of JSON text (lcb_runner/benchmarks/code_generation.py of
LiveCodeBench/LiveCodeBench). Loading a pickle executes it, so only the opcodes of a pickled text are read.
Expected outputs never enter the sandbox: outputs and returned values are compared outside, so a program cannot tamper
with the comparison. Equality is that of grade_stdio and grade_call_based in lcb_runner/evaluation/testing_util.py.
"""

from __future__ import annotations

import base64
import json
import pickletools
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any, Literal, NamedTuple, cast, get_args

from tasks.evaluation.benchmarks.code.sandbox_libraries import look_up
from tasks.grading.code.code_grading import BROKEN, Verdict
from tasks.sandbox import Limits, Program, Sandbox

MOST_BYTES = 1 << 30
"""Maximum bytes of one problem's unpacked tests; a packed text may expand a thousandfold."""
TEXT = ("SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8")
HARMLESS = ("PROTO", "FRAME", "MEMOIZE", "BINPUT", "STOP")

Kind = Literal["stdin", "functional"]


class Test(NamedTuple):
    """One input and what is expected of it."""

    __test__ = False

    name: str
    """`private test 3`."""
    input: str
    """Kind stdin: what the program reads. Kind functional: one argument as JSON per line."""
    output: str
    kind: Kind


def read_tests(public: str, private: str) -> Iterator[Test]:
    """The tests in the order in which they are run; private ones are unpacked last. Raises ValueError."""
    yield from _parsed(public, "public")
    yield from _private_tests(private)


@lru_cache(maxsize=4)  # the repeats of an item come one after the other
def _private_tests(private: str) -> tuple[Test, ...]:
    return tuple(_parsed(private if private.lstrip().startswith("[") else unpacked(private), "private"))


def checked_kind(public: str, private: str) -> Kind:
    """The kind of all tests. Raises ValueError for tests that cannot be run."""
    kinds = set[Kind]()
    for test in read_tests(public, private):
        kinds.add(test.kind)
        for text in (*test.input.split("\n"), test.output) if test.kind == "functional" else ():
            try:
                value_of(text)
            except (ValueError, RecursionError) as error:
                raise ValueError(f"{test.name}: {text[:60]!r} is not JSON") from error
    if len(kinds) != 1:
        raise ValueError("its tests are both of stdin and of functions" if kinds else "it has no tests")
    return kinds.pop()


def unpacked(packed: str) -> str:
    """The text in base64 of zlib of a pickle of it. Raises ValueError."""
    try:
        compressed = base64.b64decode(packed, validate=True)
    except ValueError as error:
        raise ValueError(f"neither JSON nor base64 ({error})") from error
    inflating = zlib.decompressobj()
    try:
        pickled = inflating.decompress(compressed, MOST_BYTES + 1)
    except zlib.error as error:
        raise ValueError(f"not compressed with zlib ({error})") from error
    if len(pickled) > MOST_BYTES:
        raise ValueError(f"more than {MOST_BYTES >> 20} MiB when unpacked")
    if not inflating.eof or inflating.unused_data:
        raise ValueError("what zlib compressed is cut off, or something stands behind it")
    return pickled_text(pickled)


def pickled_text(pickled: bytes) -> str:
    """The text in a pickle of a text and of nothing else, without loading it. Raises ValueError."""
    texts: list[str] = []
    length = 0
    for name, argument, position in _opcodes(pickled):
        length = position + 1  # the last opcode, STOP, is a single byte
        if name in TEXT:
            texts.append(cast("str", argument))
        elif name not in HARMLESS:
            raise ValueError(f"a pickle of something else than a text: {name}")
    if len(texts) != 1 or length != len(pickled):
        raise ValueError("not the pickle of one text")
    return texts[0]


def _opcodes(pickled: bytes) -> Iterator[tuple[str, object, int]]:
    """Name, argument and place of each, until the one that ends the pickle. Raises ValueError."""
    try:
        for opcode, argument, position in pickletools.genops(pickled):
            yield opcode.name, argument, position or 0
    except (ValueError, OverflowError, MemoryError, DeprecationWarning) as error:  # the last where warnings are errors
        raise ValueError(f"a damaged pickle ({error})") from error


def _parsed(text: str, whose: str) -> Iterator[Test]:
    try:
        tests: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the {whose} tests are not JSON ({error})") from error
    if not isinstance(tests, list):
        raise ValueError(f"the {whose} tests are no list")
    for number, test in enumerate(cast("list[Any]", tests), start=1):
        name = f"{whose} test {number}"
        try:
            given, expected, kind = test["input"], test["output"], test["testtype"]
        except (TypeError, KeyError, IndexError) as error:
            raise ValueError(f"{name} needs `input`, `output` and `testtype`") from error
        if not (isinstance(given, str) and isinstance(expected, str)):
            raise ValueError(f"{name}: `input` and `output` must be texts")
        if kind not in get_args(Kind):
            raise ValueError(f"{name}: the testtype {kind!r} is none of {', '.join(get_args(Kind))}")
        yield Test(name, given, expected, kind)


def value_of(text: str) -> Any:
    """JSON as LiveCodeBench reads it, NaN included; integers may be of any length. Raises ValueError."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise
    except ValueError:  # Python turns no text of more than 4,300 digits into an int, unless it is told to
        return json.loads(text, parse_int=lambda digits: int(digits) if len(digits) < 4_000 else Decimal(digits))


SECONDS = 6
"""Per test, as in evalchemy and LiveCodeBench."""
LIMITS = Limits(cpu_s=SECONDS, wall_s=SECONDS, memory_bytes=4 << 30)
"""CPU time, so that a busy machine fails no program; wall-clock time only against sleeping ones."""
STARRED = (
    *("string", "re", "datetime", "collections", "heapq", "bisect", "copy", "math", "random", "statistics"),
    *("itertools", "functools", "operator", "io", "sys", "json", "builtins", "typing"),
)
"""Modules whose names are predefined; later modules take precedence."""
NAMED = tuple(name for name in STARRED if name not in ("builtins", "typing"))
PRELUDE = "; ".join(
    (
        *(f"from {name} import *" for name in STARRED),
        f"import {', '.join(NAMED)}",
        "quit = exit",
        "sys.setrecursionlimit(50000)",
        "getattr(sys, 'set_int_max_str_digits', int)(50000)",
    )
)
FUTURE = re.compile(r"^from __future__ import (?:\([^)]*\)|[^\n]*)(?:\n|\Z)", re.M)
MARK = "\x1e"
"""Precedes the value that a function returned; JSON has no such character."""
NAMES = "names = {**globals()}\nfrom builtins import *\n"
"""The names that the code defines; it may define `min` or `list`, which the following code must not use."""
FIND = """
from inspect import isfunction, unwrap
def lines(some):
    own = {name: unwrap(one) for name, one in some.items() if not name.startswith("__")}
    own = {name: one for name, one in own.items() if isfunction(one) and one.__module__ == names["__name__"]}
    return {name: one.__code__.co_firstlineno for name, one in own.items()}
def called(name):
    solution, functions = names.get("Solution"), lines(names)
    if hasattr(solution, name):
        return getattr(solution(), name)
    if name in functions:
        return names[name]
    methods = lines(vars(solution)) if isinstance(solution, type) else {}
    if methods:
        return getattr(solution(), min(methods, key=methods.get))
    if functions:
        return names[min(functions, key=functions.get)]
    raise NameError("no function is defined")
"""
"""Finds the function, whose name the model was not told: a method of a class Solution or a function that has the name,
else the first method, else the first function that the code defines; what the prelude has is not meant."""
CALL = f"""
import json, os, sys
def plain(one):
    if getattr(one, "shape", None) == ():
        return one.item()
    raise TypeError("the answer holds a " + type(one).__name__)
arguments = [json.loads(line) for line in sys.stdin.read().split("\\n")]
sys.stdout = open(os.devnull, "w")
value = json.dumps(called(%r)(*arguments), default=plain)
with open(1, "w", closefd=False) as told:
    told.write({MARK!r} + value + "\\n")
"""
"""Calls the function, discards what it prints, and takes NumPy scalars for numbers."""
LIBRARIES = ("numpy", "scipy", "sympy", "networkx", "sortedcontainers")
"""The contests' judges have them, so a program that imports one is not wrong if this machine lacks it."""
LACKING = re.compile(r"^ModuleNotFoundError: No module named '(\w+)", re.M)
UNCAUGHT = re.compile(r"Traceback \(most recent call last\):|^[A-Z]\w*Error:", re.M)
"""Output of Python for an uncaught error or a syntax error."""
OF_SIGNALS = range(128, 193)
"""Exit codes of signals, as in a shell."""
SHOWN_CHARS = 60


def program_of(code: str, function: str | None) -> Program:
    """The code behind the prelude, with a call of `function`."""
    future = "".join(FUTURE.findall(code))
    source = f"{future.rstrip()}\n{PRELUDE}\n{FUTURE.sub('', code)}".lstrip("\n")
    tests = None if function is None else NAMES + FIND + CALL % function
    return Program(source, tests=tests, limits=LIMITS)


def run_test(test: Test, program: Program, sandbox: Sandbox) -> Verdict:
    """What the program makes of the input of a test, in a process of its own."""
    limits = LIMITS._replace(output_bytes=LIMITS.output_bytes + 2 * len(test.output))
    program = program._replace(stdin=test.input.encode("utf-8", "replace"), limits=limits)
    if test.kind == "functional":
        return compared(program, sandbox, differs=lambda printed: other_value(printed, test.output))
    # LiveCodeBench ignores the code of a program that ends by `sys.exit` (call_method of testing_util.py)
    return compared(program, sandbox, differs=lambda printed: other_output(printed, test.output), may_exit=True)


def compared(
    program: Program, sandbox: Sandbox, *, differs: Callable[[str], str | None], may_exit: bool = False
) -> Verdict:
    """Execute a program and compare what it prints; a library that judges have and this machine lacks is not wrong.

    differs: how an output differs from the expected one; None where it does not. may_exit: with any exit code.
    """
    execution = sandbox.run(program)
    if execution.status == "broken":
        return Verdict(None, f"{BROKEN}{execution.reason}", "")
    code = execution.exit_code
    exited = may_exit and execution.status == "failed" and code is not None and code not in OF_SIGNALS
    if not (execution.passed or (exited and not UNCAUGHT.search(execution.stderr))):
        library = LACKING.findall(execution.stderr)[-1:]
        if library and library[0] in LIBRARIES and look_up(library, sandbox).missing:
            return Verdict(None, f"the library {library[0]} is not to be had in the sandbox", "")
        return Verdict(0.0, execution.reason or execution.status, "", stderr=execution.stderr)
    why = differs(execution.stdout)
    return Verdict(float(why is None), why or "passed", "", stderr=execution.stderr if why else "")


def first_failure(code: str, runs: Iterable[tuple[str, Verdict]]) -> Verdict:
    """The verdict on a program: of the first test that it does not pass, by name, after which none is run."""
    passed = 0
    for name, verdict in runs:
        if verdict.score != 1:
            return verdict._replace(reason=f"{name}: {verdict.reason}", code=code)
        passed += 1
    return Verdict(1.0, f"passed {passed} tests", code)


def other_output(printed: str, expected: str) -> str | None:
    """Where two texts differ, in a few words; None where they count as equal.

    Line by line, without the space around the texts and their lines: the same text, or numbers that are equal as
    decimals, of which no digit is rounded away.
    """
    lines, wanted = (text.strip().split("\n") for text in (printed, expected))
    if len(lines) != len(wanted):
        return f"wrong answer: {len(lines)} {'line' if len(lines) == 1 else 'lines'}, expected {len(wanted)}"
    for number, (line, right) in enumerate(zip(lines, wanted, strict=True), start=1):
        one, other = line.strip(), right.strip()
        if one != other and not _equal_numbers(one, other):
            return f"wrong answer in line {number}: {_short(one)}, expected {_short(other)}"
    return None


def other_value(told: str, expected: str) -> str | None:
    """How a returned value differs from the expected one, both as JSON; None where Python holds them equal."""
    answer = told.rpartition(MARK)[2].partition("\n")[0]
    try:
        equal = value_of(answer) == value_of(expected)
    except (ValueError, RecursionError):
        equal = False
    return None if equal else f"wrong answer: {_short(answer)}, expected {_short(expected)}"


def _equal_numbers(one: str, other: str) -> bool:
    try:
        return [Decimal(word) for word in one.split()] == [Decimal(word) for word in other.split()]
    except InvalidOperation:
        return False


def _short(text: str) -> str:
    shown = text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}…"
    return "".join(char if char.isprintable() else "\ufffd" for char in shown)
