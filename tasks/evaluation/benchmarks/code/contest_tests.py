"""The tests of problems of contests: reads LiveCodeBench's published files, and runs a program on one test.

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

from tasks.evaluation.benchmarks.base import explain_missing
from tasks.grading.code.code_extraction import put_before
from tasks.grading.code.code_grading import BROKEN, Verdict
from tasks.sandbox import Limits, Program, Sandbox

MOST_BYTES = 1 << 30
"""Maximum bytes of one problem's unpacked tests; a packed text may expand a thousandfold."""
TEXT = ("SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8")
HARMLESS = ("PROTO", "FRAME", "MEMOIZE", "BINPUT", "STOP")

Kind = Literal["stdin", "functional"]


class Test(NamedTuple):
    """One test of a problem: an input and the output expected for it."""

    __test__ = False

    name: str
    """Name of the test in messages, such as `private test 3`."""
    input: str
    """Kind stdin: what the program reads. Kind functional: one argument as JSON per line."""
    output: str
    kind: Kind


def read_tests(public: str, private: str) -> Iterator[Test]:
    """Yield the tests in the order in which they are run; private ones are unpacked last. Raises ValueError."""
    yield from _parse_tests(public, "public")
    yield from _read_private_tests(private)


@lru_cache(maxsize=4)  # the repeats of an item come one after the other
def _read_private_tests(private: str) -> tuple[Test, ...]:
    return tuple(_parse_tests(private if private.lstrip().startswith("[") else unpack(private), "private"))


def check_kind(public: str, private: str) -> Kind:
    """Return the kind that all tests of a problem share. Raises ValueError for tests that cannot be run."""
    kinds = set[Kind]()
    for test in read_tests(public, private):
        kinds.add(test.kind)
        for text in (*test.input.split("\n"), test.output) if test.kind == "functional" else ():
            try:
                parse_value(text)
            except (ValueError, RecursionError) as error:
                raise ValueError(f"{test.name}: {text[:60]!r} is not JSON") from error
    if len(kinds) != 1:
        raise ValueError("its tests are both of stdin and of functions" if kinds else "it has no tests")
    return kinds.pop()


def unpack(packed: str) -> str:
    """Return the text that was pickled, compressed with zlib and encoded as base64. Raises ValueError."""
    try:
        compressed = base64.b64decode(packed, validate=True)
    except ValueError as error:
        raise ValueError(f"neither JSON nor base64 ({error})") from error
    # a decompressor with a limit: zlib.decompress would expand a hostile text in memory before its size is known
    inflating = zlib.decompressobj()
    try:
        pickled = inflating.decompress(compressed, MOST_BYTES + 1)  # one byte more shows that there is more
    except zlib.error as error:
        raise ValueError(f"not compressed with zlib ({error})") from error
    if len(pickled) > MOST_BYTES:
        raise ValueError(f"more than {MOST_BYTES >> 20} MiB when unpacked")
    if not inflating.eof or inflating.unused_data:
        raise ValueError("what zlib compressed is cut off, or something stands behind it")
    return read_pickled_text(pickled)


def read_pickled_text(pickled: bytes) -> str:
    """Return the text in a pickle that holds nothing else, without loading the pickle. Raises ValueError."""
    texts, names, length = list[str](), dict[str, None](), 0
    try:
        for opcode, argument, position in pickletools.genops(pickled):
            length = (position or 0) + 1  # the last opcode, STOP, is a single byte
            names[opcode.name] = None
            if opcode.name in TEXT:
                texts.append(cast("str", argument))
    except (ValueError, OverflowError, MemoryError, DeprecationWarning) as error:  # the last where warnings are errors
        raise ValueError(f"a damaged pickle ({error})") from error
    if odd := [name for name in names if name not in (*TEXT, *HARMLESS)]:
        raise ValueError(f"a pickle of something else than a text: {odd[0]}")
    if len(texts) != 1 or length != len(pickled):
        raise ValueError("not the pickle of one text")
    return texts[0]


def _parse_tests(text: str, whose: str) -> Iterator[Test]:
    """Yield the tests in a JSON list. whose: `public` or `private`, for names and messages. Raises ValueError."""
    try:
        tests: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the {whose} tests are not JSON ({error})") from error
    if not isinstance(tests, list):
        raise ValueError(f"the {whose} tests are no list")
    for number, test in enumerate(cast("list[Any]", tests), start=1):
        name = f"{whose} test {number}"
        try:
            test_input, expected, kind = test["input"], test["output"], test["testtype"]
        except (TypeError, KeyError, IndexError) as error:
            raise ValueError(f"{name} needs `input`, `output` and `testtype`") from error
        if not (isinstance(test_input, str) and isinstance(expected, str)):
            raise ValueError(f"{name}: `input` and `output` must be texts")
        if kind not in get_args(Kind):
            raise ValueError(f"{name}: the testtype {kind!r} is none of {', '.join(get_args(Kind))}")
        yield Test(name, test_input, expected, kind)


def parse_value(text: str) -> Any:
    """Read JSON as LiveCodeBench does, NaN included; integers too long for int are Decimals. Raises ValueError."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise
    except ValueError:  # Python turns no text of more than 4,300 digits into an int, unless it is told to
        return json.loads(text, parse_int=lambda digits: int(digits) if len(digits) < 4_000 else Decimal(digits))


SECONDS = 6
"""Time limit of one test in seconds, as in evalchemy and LiveCodeBench."""
LIMITS = Limits(cpu_s=SECONDS, wall_s=SECONDS, memory_bytes=4 << 30)
"""CPU time, so that a busy machine fails no program; wall-clock time only against sleeping ones."""
STARRED = (
    *("string", "re", "datetime", "collections", "heapq", "bisect", "copy", "math", "random", "statistics"),
    *("itertools", "functools", "operator", "io", "sys", "json", "builtins", "typing"),
)
"""Modules whose names are predefined; later modules take precedence."""
IMPORTED_MODULES = tuple(name for name in STARRED if name not in ("builtins", "typing"))
PRELUDE = "; ".join(
    (
        *(f"from {name} import *" for name in STARRED),
        f"import {', '.join(IMPORTED_MODULES)}",
        "quit = exit",
        "sys.setrecursionlimit(50000)",
        "getattr(sys, 'set_int_max_str_digits', int)(50000)",
    )
)
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
MISSING_MODULE = re.compile(r"^ModuleNotFoundError: No module named '(\w+)", re.M)
UNCAUGHT = re.compile(r"Traceback \(most recent call last\):|^[A-Z]\w*Error:", re.M)
"""Output of Python for an uncaught error or a syntax error."""
SIGNAL_CODES = range(128, 193)
"""Exit codes of signals, as in a shell."""
SHOWN_CHARS = 60


def build_program(code: str, function: str | None) -> Program:
    """Return the program of the prelude, the code, and a call of `function` unless it is None."""
    tests = None if function is None else NAMES + FIND + CALL % function
    return Program(put_before(f"{PRELUDE}\n", code), tests=tests, limits=LIMITS)


def run_test(test: Test, program: Program, sandbox: Sandbox) -> Verdict:
    """Return the verdict on a program for one test, which is run in a process of its own."""
    limits = LIMITS._replace(output_bytes=LIMITS.output_bytes + 2 * len(test.output))
    program = program._replace(stdin=test.input.encode("utf-8", "replace"), limits=limits)
    describe = describe_value_difference if test.kind == "functional" else describe_output_difference
    # LiveCodeBench ignores the code of a program that ends by `sys.exit` (call_method of testing_util.py)
    may_exit = test.kind == "stdin"
    return run_and_compare(program, sandbox, differs=lambda printed: describe(printed, test.output), may_exit=may_exit)


def run_and_compare(
    program: Program, sandbox: Sandbox, *, differs: Callable[[str], str | None], may_exit: bool = False
) -> Verdict:
    """Execute a program and compare what it prints; no score where the sandbox fails or lacks a library of the judges.

    differs: how an output differs, None if it does not. may_exit: an exit code fails it only for a signal or traceback.
    """
    execution = sandbox.run(program)
    if execution.status == "broken":
        return Verdict(None, f"{BROKEN}{execution.reason}", "")
    code = execution.exit_code
    exited = may_exit and execution.status == "failed" and code is not None and code not in SIGNAL_CODES
    if not (execution.passed or (exited and not UNCAUGHT.search(execution.stderr))):
        library = MISSING_MODULE.findall(execution.stderr)[-1:]
        if library and library[0] in LIBRARIES and (why := explain_missing(library, sandbox)):
            return Verdict(None, why, "")
        return Verdict(0.0, execution.reason or execution.status, "", stderr=execution.stderr)
    why = differs(execution.stdout)
    return Verdict(float(why is None), why or "passed", "", stderr=execution.stderr if why else "")


def find_first_failure(code: str, runs: Iterable[tuple[str, Verdict]]) -> Verdict:
    """Return the first verdict whose score is not 1 (None too), else a pass; later runs do not start."""
    passed = 0
    for name, verdict in runs:
        if verdict.score != 1:
            return verdict._replace(reason=f"{name}: {verdict.reason}", code=code)
        passed += 1
    return Verdict(1.0, f"passed {passed} tests", code)


def describe_output_difference(printed: str, expected: str) -> str | None:
    """Return where a printed text differs from the expected one, in a few words; None where they count as equal.

    Line by line, without the space around the texts and their lines: the same text, or numbers that are equal as
    decimals, of which no digit is rounded away.
    """
    lines, expected_lines = (text.strip().split("\n") for text in (printed, expected))
    if len(lines) != len(expected_lines):
        return f"wrong answer: {len(lines)} {'line' if len(lines) == 1 else 'lines'}, expected {len(expected_lines)}"
    for number, (line, right) in enumerate(zip(lines, expected_lines, strict=True), start=1):
        printed_line, expected_line = line.strip(), right.strip()
        if printed_line != expected_line and not _are_equal_numbers(printed_line, expected_line):
            return f"wrong answer in line {number}: {shorten(printed_line)}, expected {shorten(expected_line)}"
    return None


def describe_value_difference(printed: str, expected: str) -> str | None:
    """Return how the JSON behind the last MARK in `printed` differs from the expected JSON; None if both are equal."""
    answer = printed.rpartition(MARK)[2].partition("\n")[0]
    try:
        equal = parse_value(answer) == parse_value(expected)
    except (ValueError, RecursionError):
        equal = False
    return None if equal else f"wrong answer: {shorten(answer)}, expected {shorten(expected)}"


def _are_equal_numbers(printed: str, expected: str) -> bool:
    try:
        return [Decimal(word) for word in printed.split()] == [Decimal(word) for word in expected.split()]
    except InvalidOperation:
        return False


def shorten(text: str) -> str:
    """Return the beginning of an output, as messages show it."""
    excerpt = text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}…"
    return "".join(char if char.isprintable() else "\ufffd" for char in excerpt)
