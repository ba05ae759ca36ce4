"""The grader as a whole: its stages, its workers, and what models may throw at it."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.grading.math import math_grader
from tasks.grading.math.math_grader import MathGrader, Verdict

NEEDS_SYMPY = (r"\int_0^1 2x\,dx", "1")
SLOW = (
    r"\sum_{k=1}^{30} \int_0^1 \frac{x^k \sin(x^2)}{\sqrt{1+x^3}} dx",
    r"\int_0^2 \frac{\cos(x^3)}{1+\ln(2+x^5)} dx",
)
HOSTILE = [
    "__import__('os').system('touch MARKER')",
    r"\boxed{__import__('os').system('touch MARKER')}",
    "().__class__.__bases__[0].__subclasses__()",
    r"\input{/etc/passwd}",
    "9**9**9**9",
    "9^{9^{9^{9^9}}}",
    "10^{10^{10^{10}}}",
    "(10^{10^{10}})!",
    "99999999!",
    "((((9999!)!)!)!)!",
    r"\binom{999999999}{499999999}",
    "1e999999999",
    "-1e-999999999",
    r"\int_0^{10^{10^{10}}} x! dx",
    r"\sum_{n=1}^{10^{100}} \frac{1}{n!}",
    "(" * 5_000 + "1" + ")" * 5_000,
    r"\frac{1}{" * 3_000 + "2" + "}" * 3_000,
    r"\sqrt{" * 900,
    "-" * 15_000 + "1",
    "1+" * 9_000 + "1",
    "x^" * 9_000 + "x",
    "|" * 10_000,
    "1," * 9_000,
    "\0",
    "\ud800\udfff",
    "\\" * 10_000,
    "{" * 10_000,
    "}" * 10_000,
    "\u202e5",
    "",
    " ",
    "a" * 10_000_000,
]


def _pids(grader: MathGrader) -> list[int]:
    process = grader._process
    return [process.pid] if process else []


def test_cheap_stages_start_no_process() -> None:
    with MathGrader() as grader:
        assert grader.compare("\\frac12", "0.5") == Verdict(True, "numeric")
        assert not _pids(grader)


@pytest.mark.parametrize(
    ("gold", "answer", "stage"),
    [
        ("5", "5", "string"),
        (r"\frac{1}{2}", "0.5", "numeric"),
        ("x+1", "1+x", "formula"),
        ("(1,2)", "(1,3)", "structure"),
        ("(A)", "B", "choice"),
        (*NEEDS_SYMPY, "symbolic"),
        ("5", "", "missing"),
        ("5", "<think>5", "missing"),
        ("5", f"\\boxed{{{'5' * 30_000}}}", "too_long"),
        ("5", "a flower", "structure"),
    ],
)
def test_stage_that_decides_is_named(gold: str, answer: str, stage: str) -> None:
    with MathGrader() as grader:
        assert grader.compare(gold, answer).stage == stage


def test_killed_worker_is_replaced() -> None:
    with MathGrader() as grader:
        grader.compare(*NEEDS_SYMPY)
        (pid,) = _pids(grader)
        os.kill(pid, signal.SIGKILL)
        while Path(f"/proc/{pid}/stat").exists() and ") Z " not in Path(f"/proc/{pid}/stat").read_text():
            time.sleep(0.01)
        assert grader.compare(r"\int_0^2 2x\,dx", "4") == Verdict(True, "symbolic")
        assert _pids(grader) != [pid]


def test_comparison_that_takes_too_long_is_not_equal_and_the_next_one_works() -> None:
    with MathGrader(deadline_s=0.2) as grader:
        assert grader.compare(*SLOW) == Verdict(False, "deadline")
        grader._deadline_s = 20
        assert grader.compare(*NEEDS_SYMPY) == Verdict(True, "symbolic")


def test_grader_without_workers_fails_only_what_needs_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(math_grader, "WORKER", tmp_path / "not there.py")
    with MathGrader() as grader:
        assert grader.compare("5", "5.0").equal
        failed = grader.compare(*NEEDS_SYMPY)
    assert failed.failed
    assert "did not" in failed.failed or "ended" in failed.failed


def test_workers_get_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    with MathGrader() as grader:
        grader.compare(*NEEDS_SYMPY)
        (pid,) = _pids(grader)
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    assert b"sk-1" not in environment


@pytest.mark.timeout(120)
@pytest.mark.slow
def test_hostile_answers_execute_nothing_and_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    marker = tmp_path / "marker"
    with MathGrader(deadline_s=2) as grader:
        for text in HOSTILE:
            answer = text.replace("MARKER", str(marker))
            for gold in ("5", "x", r"\int_0^1 x dx"):
                verdict = grader.compare(gold, answer)
                assert (verdict.equal, verdict.failed) == (False, None), text[:80]
            assert not grader.compare(answer, "5").equal
    assert not marker.exists()
    assert sys.getrecursionlimit() >= 1000


number = st.fractions(max_denominator=1000, min_value=-1000, max_value=1000)


@given(value=number)
@settings(max_examples=200)
def test_fractions_are_equal_however_they_are_written(value) -> None:
    sign = "-" if value < 0 else ""
    above, below = abs(value.numerator), value.denominator
    with MathGrader() as grader:
        for answer in (
            f"{sign}\\frac{{{above}}}{{{below}}}",
            f"{sign}{above}/{below}",
            f"{sign}\\dfrac{{{3 * above}}}{{{3 * below}}}",
            f"x={value}",
        ):
            assert grader.compare(str(value), answer).equal


@given(st.text(alphabet="xy12+-*/^(){}[]\\frac,.=<> ", max_size=25))
@settings(max_examples=150)
def test_any_formula_equals_itself_or_is_no_answer(text: str) -> None:
    with MathGrader() as grader:
        verdict = grader.compare(text, text)
        assert verdict.equal or verdict.stage in ("missing", "empty")
