"""The tests of LiveCodeBench's problems, as the published files keep them: JSON, or JSON in a pickle, packed.

The private tests are base64 of zlib of a pickle of the JSON text (lcb_runner/benchmarks/code_generation.py of
LiveCodeBench/LiveCodeBench loads them so). A pickle is a program, and a data file comes from elsewhere, so none is ever
loaded here: the one shape that a pickled text has is read, and anything else is refused.
"""

from __future__ import annotations

import base64
import json
import pickletools
import zlib
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Literal, NamedTuple, cast, get_args

MOST_BYTES = 1 << 30
"""Most bytes of one problem's unpacked tests. A packed text may expand a thousandfold."""
TEXT = ("SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8")
HARMLESS = ("PROTO", "FRAME", "MEMOIZE", "BINPUT", "STOP")

Kind = Literal["stdin", "functional"]


class Test(NamedTuple):
    """One input and what is expected of it."""

    __test__ = False

    name: str
    """For people who look: `private test 3`."""
    input: str
    """Kind stdin: what the program reads. Kind functional: one argument as JSON per line."""
    output: str
    kind: Kind


def read_tests(public: str, private: str) -> Iterator[Test]:
    """The tests in the order in which they are run; the private ones are unpacked when the public ones are through.

    Raises ValueError saying what is wrong.
    """
    yield from _parsed(public, "public")
    yield from _remembered(private)


def checked_kind(public: str, private: str) -> Kind:
    """What all tests are of; raises ValueError for tests that cannot be run."""
    kinds = set[Kind]()
    for test in (*_parsed(public, "public"), *_private(private)):
        kinds.add(test.kind)
        if test.kind == "functional":
            _check_json(test)
    if len(kinds) != 1:
        raise ValueError("its tests are both of stdin and of functions" if kinds else "it has no tests")
    return kinds.pop()


@lru_cache(maxsize=4)  # the repeats of an item come one after the other
def _remembered(private: str) -> tuple[Test, ...]:
    return tuple(_private(private))


def _private(private: str) -> Iterator[Test]:
    return _parsed(private if private.lstrip().startswith("[") else unpacked(private), "private")


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
    except (ValueError, OverflowError, MemoryError) as error:
        raise ValueError(f"a damaged pickle ({error})") from error


def _parsed(text: str, whose: str) -> Iterator[Test]:
    try:
        tests: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the {whose} tests are not JSON ({error})") from error
    if not isinstance(tests, list):
        raise ValueError(f"the {whose} tests are no list")
    for number, test in enumerate(cast("list[Any]", tests), start=1):
        yield _test(test, f"{whose} test {number}")


def _test(test: Any, name: str) -> Test:
    try:
        given, expected, kind = test["input"], test["output"], test["testtype"]
    except (TypeError, KeyError, IndexError) as error:
        raise ValueError(f"{name} needs `input`, `output` and `testtype`") from error
    if not (isinstance(given, str) and isinstance(expected, str)):
        raise ValueError(f"{name}: `input` and `output` must be texts")
    if kind not in get_args(Kind):
        raise ValueError(f"{name}: the testtype {kind!r} is none of {', '.join(get_args(Kind))}")
    return Test(name, given, expected, kind)


def _check_json(test: Test) -> None:
    for text in (*test.input.split("\n"), test.output):
        try:
            value_of(text)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{test.name}: {text[:60]!r} is not JSON") from error


def value_of(text: str) -> Any:
    """JSON as LiveCodeBench reads it, NaN included; integers may be of any length. Raises ValueError."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise
    except ValueError:  # Python turns no text of more than 4,300 digits into an int, unless it is told to
        return json.loads(text, parse_int=_whole_number)


def _whole_number(digits: str) -> object:
    from decimal import Decimal

    return int(digits) if len(digits) < 4_000 else Decimal(digits)
