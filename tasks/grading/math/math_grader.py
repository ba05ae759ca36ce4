"""Grades mathematics by comparing the answer of a response with the gold of its item.

Text, numbers and structure are compared in process; what that leaves open goes to sympy in a worker process.
"""

from __future__ import annotations

import atexit
import json
import math
import os
import re
import selectors
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache, lru_cache, partial
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, Self

from tasks.grading.grading_records import Item, Response, Sample
from tasks.grading.math import math_reading
from tasks.grading.math.expressions import Undecided, evaluate, exact_value
from tasks.grading.math.math_comparison import is_same_answer
from tasks.grading.math.math_extraction import answer_in, read_answers
from tasks.grading.math.math_reading import Based, Formula, Percentage, Words
from tasks.grading.math.math_tokens import NotUnderstood
from tasks.grading.math.normalization import (
    MAX_CHARS,
    PLAIN_NUMBER,
    normalize,
    plain_words,
    remove_spaces,
    spell_for_sympy,
)
from tasks.grading.reading import STRICT, Rule, grade_readings, why_missing

DEADLINE_S = 10.0
CACHED = 20_000  # repeats of an item often give one answer
SHOWN_CHARS = 500
_read_gold = lru_cache(CACHED)(answer_in)  # of one item it is read with each answer
WORKER = Path(__file__).with_name("math_worker.py")
START_TIMEOUT_S = 120.0
PASSED_ON = ("PATH", "LANG", "LC_ALL", "SYSTEMROOT", "LD_LIBRARY_PATH", "TMPDIR")
"""Environment variables passed on; keys and tokens are not."""


class Verdict(NamedTuple):
    """Whether an answer equals the gold, and which stage decided it."""

    equal: bool
    stage: str
    """`string`, `choice`, `numeric`, `formula`, `structure`, `symbolic`; or why it was not compared: `missing`,
    `empty`, `too_long`, `unread`, `deadline`."""
    failed: str | None = None
    """Why the grader could not decide; the answer is then neither right nor wrong."""


class MathGrader:
    """Compares answers with golds; thread-safe and deterministic.

    The worker process is started when it is needed and replaced when it dies; threads take turns.
    deadline_s: for one comparison there; one that takes longer is not equal.
    """

    def __init__(self, *, deadline_s: float = DEADLINE_S) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._turn = Lock()
        self._deadline_s = deadline_s
        self._ask_worker_once = lru_cache(CACHED)(self._ask_worker)  # a method's own cache would keep the grader alive

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process in which sympy runs; a later comparison starts another one."""
        with self._turn:
            self._drop_worker()

    def compare(self, gold: str, answer: str, *, extracted: bool = False) -> Verdict:
        """Compare an answer with a gold, bare, in dollars, a box or a whole text. extracted: the answer is bare."""
        gold, answer = _read_gold(gold) or "", answer if extracted else answer_in(answer) or ""
        if not answer:
            return Verdict(False, "missing")
        if max(len(gold), len(answer)) > MAX_CHARS:
            return Verdict(False, "too_long")
        if verdict := decide_equality(gold, answer):
            return verdict
        try:
            return self._ask_worker_once(spell_for_sympy(normalize(gold)), spell_for_sympy(normalize(answer)))
        except WorkerUnavailable as error:
            return Verdict(False, "symbolic", failed=str(error))

    def _ask_worker(self, gold: str, answer: str) -> Verdict:
        """Return the verdict of sympy, `deadline` if it takes too long or dies. Raises WorkerUnavailable."""
        request = {"gold": gold, "answer": answer, "cpu_s": math.ceil(self._deadline_s) + 1}
        with self._turn:
            if self._process and self._process.poll() is not None:  # killed by someone while it was idle
                self._drop_worker()
            process = self._process = self._process or _start()
            try:
                assert process.stdin
                process.stdin.write(json.dumps(request).encode() + b"\n")
                process.stdin.flush()
                return Verdict(bool(json.loads(_read_line(process, self._deadline_s))["equal"]), "symbolic")
            except (DeadlinePassed, OSError, ValueError):  # it took too long, was gone, or wrote no verdict
                self._drop_worker()
                return Verdict(False, "deadline")
            except BaseException:  # it may still be at work on this
                self._drop_worker()
                raise

    def _drop_worker(self) -> None:
        process, self._process = self._process, None
        if process:
            _kill(process)


@cache
def shared_grader() -> MathGrader:
    """Return the grader of this process; its worker starts with the first answer that needs it."""
    grader = MathGrader()
    atexit.register(grader.close)
    return grader


_GROUPED = re.compile(r"\d,\d{3}(?!\d)")
_PLAIN_LOG = re.compile(r"\\log(?![a-zA-Z]|\s*_)")
"""A logarithm without a base, which is natural, or decimal where that makes both equal."""
_LOWER_CHOICE = dict(zip("abcde", "ABCDE", strict=True))
_MATHEMATICS = re.compile(r"\d|\\[a-zA-Z]|[-+*/^=<>|(\[]|^\s*\w\s*$")


@lru_cache(CACHED)
def decide_equality(gold: str, answer: str) -> Verdict | None:
    """Return whether two bare answers are equal; None where only sympy can decide."""
    if gold == answer and PLAIN_NUMBER.fullmatch(gold):
        return Verdict(True, "string")
    left, right = normalize(gold), normalize(answer)
    if not left or not right:
        return Verdict(False, "empty")
    words = plain_words(left)
    if remove_spaces(left) == remove_spaces(right) or (len(words) > 1 and words == plain_words(right)):
        return Verdict(True, "string")
    letter = math_reading.choice_letter(left)
    answer_letter = (math_reading.choice_letter(right) or _LOWER_CHOICE.get(right)) if letter else None
    if answer_letter and len(left) <= 12:  # as \text{(B)}: a longer gold has its option's text behind the letter
        return Verdict(letter == answer_letter, "choice")
    verdict = _compare_structure(left, right)
    if verdict and not verdict.equal and (_PLAIN_LOG.search(left) or _PLAIN_LOG.search(right)):
        decimal = _compare_structure(_PLAIN_LOG.sub(r"\\lg", left), _PLAIN_LOG.sub(r"\\lg", right))
        verdict = decimal if decimal and decimal.equal else verdict
    if verdict:
        return verdict
    # two texts that differ in their words need no sympy
    return None if all(_MATHEMATICS.search(side) for side in (gold, answer)) else Verdict(False, "unread")


def _compare_structure(left: str, right: str) -> Verdict | None:
    """Return the verdict on both answers as parsed; None where one cannot be parsed or evaluated."""
    stage = ""
    for thousands in (True, False) if _GROUPED.search(left) and _GROUPED.search(right) else (True,):
        try:
            gold = math_reading.read_answer(left, thousands=thousands)
            answer = math_reading.read_answer(right, thousands=thousands)
            equal = is_same_answer(gold, answer)
        except (NotUnderstood, Undecided, RecursionError, ArithmeticError, ValueError):
            return None
        if isinstance(gold, Words | Based) and isinstance(answer, Words | Based):
            stage = "string"
        elif isinstance(gold, Formula) and isinstance(answer, Formula):
            stage = (
                "numeric" if exact_value(gold.node) is not None and exact_value(answer.node) is not None else "formula"
            )
        else:
            stage = "structure"
        if equal:
            return Verdict(True, stage)
    return Verdict(True, "numeric") if _same_decimal_comma(left, right) else Verdict(False, stage)


def _same_decimal_comma(gold: str, answer: str) -> bool:
    """Return whether both differ by a decimal comma alone; a gold with one digit behind its comma is a list."""
    if re.fullmatch(r"-?\d+,\d{2,}", gold) and not re.fullmatch(r"-?[1-9]\d{0,2},\d{3}", gold):
        return gold.replace(",", ".") == answer
    return bool(re.fullmatch(r"-?\d+\.\d+", gold)) and answer == gold.replace(".", ",")


def grade_math(answered: Iterable[tuple[Item, Response]], grader: MathGrader, rule: Rule = STRICT) -> Iterator[Sample]:
    """Yield a sample for each response, in order; the reason names the stage that decided and what was compared.

    An item's gold is a text, or texts that are all needed, in any order, else ValueError. `detail["tolerance"]`: how
    far a number may be off. `detail["unit"]`: its unit; an answer in another unit is wrong, one without is not.
    """
    return grade_against(((item, response, join_golds(item)) for item, response in answered), grader, rule)


def grade_against(
    answered: Iterable[tuple[Item, Response, str]], grader: MathGrader, rule: Rule = STRICT
) -> Iterator[Sample]:
    """Yield a sample for each response to an item with this gold, in order."""
    for item, response, gold in answered:
        readings = read_answers(response.text, rule)
        yield grade_readings(rule, readings, item, response, partial(_grade, grader, item, response, gold))


def join_golds(item: Item) -> str:
    """Return the golds of an item joined by commas, a single one with its unit. Raises ValueError without any."""
    golds = item.gold if isinstance(item.gold, list) else [item.gold]
    texts = [str(gold).strip() for gold in golds if isinstance(gold, str | int | float) and str(gold).strip()]
    if not texts:
        raise ValueError(f"item {item.id} has no gold answer")
    gold = texts[0] if len(texts) == 1 else ", ".join(text.strip("$") for text in texts)
    unit = item.detail.get("unit")
    if isinstance(unit, str) and unit.isalpha() and len(texts) == 1:
        return f"{gold.strip('$')} \\text{{ {unit}}}"
    return gold


def _grade(grader: MathGrader, item: Item, response: Response, gold: str, answer: str | None) -> dict[str, Any]:
    """Return the fields of a sample for an answer; it is unscored where the grader cannot decide."""
    if not answer:
        why = why_missing(response, "no \\boxed{} and no phrase that announces one")
        why = f"no answer was found: {'the response was cut off at max_tokens' if response.truncated else why}"
        return {"score": 0.0, "extracted": None, "gold": _shorten(gold), "reason": why, "missing": True}
    verdict = grader.compare(gold, answer, extracted=True)
    texts = {"extracted": _shorten(answer), "gold": _shorten(gold)}
    if verdict.failed:
        return texts | {"score": None, "status": "unscored", "reason": verdict.failed}
    if not verdict.equal and _is_within_tolerance(item, gold, answer):
        verdict = Verdict(True, "tolerance")
    reason = f"{verdict.stage}: {texts['extracted']} {'=' if verdict.equal else '≠'} {texts['gold']}"
    return texts | {"score": float(verdict.equal), "reason": reason}


def _is_within_tolerance(item: Item, gold: str, answer: str) -> bool:
    """Return whether both are numbers at most the item's `tolerance`, an absolute one, apart; False without it."""
    tolerance = item.detail.get("tolerance")
    if not isinstance(tolerance, int | float | str) or not tolerance:
        return False
    expected, number = parse_number(gold), parse_number(answer)
    try:
        return expected is not None and number is not None and abs(expected - number) <= float(tolerance) * (1 + 1e-9)
    except ValueError:
        return False


def parse_number(text: str) -> float | None:
    """Return the number of a bare answer, whatever its unit, 28 for 28 %; None for all else, complex ones included."""
    if len(text) > MAX_CHARS:
        return None
    try:
        answer = math_reading.read_answer(normalize(text))
        if not isinstance(answer, Formula | Percentage):
            return None
        exact = exact_value(answer.node)
        value = complex(float(exact)) if exact is not None else evaluate(answer.node, {})
    except (NotUnderstood, Undecided, KeyError, OverflowError, RecursionError):
        return None
    return value.real if abs(value.imag) < 1e-12 else None


def _shorten(text: str) -> str:
    """Return the beginning of a long answer, without halves of surrogate pairs, which no JSON of ours holds."""
    clean = text.encode("utf-8", "replace").decode()
    return clean if len(clean) <= SHOWN_CHARS else clean[:SHOWN_CHARS] + " …"


class DeadlinePassed(Exception):
    """The comparison took too long, or more memory than a worker has."""


class WorkerUnavailable(Exception):
    """No worker could be started, so that the answer cannot be graded."""


def _start() -> subprocess.Popen[bytes]:
    """Return a worker that is ready to compare. Raises WorkerUnavailable."""
    environment = {name: os.environ[name] for name in PASSED_ON if name in os.environ} | {"PYTHONHASHSEED": "0"}
    try:
        process = subprocess.Popen(
            [sys.executable, "-I", str(WORKER)],  # -I: neither PYTHONPATH nor the current folder is searched
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            cwd=os.sep,
            start_new_session=True,  # Ctrl-C is for us; a worker ends when its input does
        )
    except OSError as error:
        raise WorkerUnavailable(f"the process that compares formulas did not start: {error}") from error
    try:
        _read_line(process, START_TIMEOUT_S)
    except DeadlinePassed as error:
        _kill(process)
        raise WorkerUnavailable(
            f"the process that compares formulas ended, or was not ready in {START_TIMEOUT_S:g} s (status "
            f"{process.returncode}); are sympy and math-verify installed?"
        ) from error
    return process


def _read_line(process: subprocess.Popen[bytes], timeout_s: float) -> bytes:
    """Return the worker's next line. Raises DeadlinePassed, also where the worker has ended."""
    assert process.stdout
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        # the worker writes a line at once; an empty one is the end of its output
        line = process.stdout.readline() if selector.select(timeout_s) else b""
    if not line:
        raise DeadlinePassed(f"no verdict in {timeout_s:g} s, or the worker ended")
    return line


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    with suppress(OSError), process:  # closes its pipes; a dead worker's input may hold what was not written
        pass
