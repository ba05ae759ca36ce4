"""Problems of Codeforces, on the site's official tests.

Fields as in the data set card of open-r1/codeforces. Prompt, difficulties, temperature, length, repeats, extraction and
metric keys as in mlfoundations/evalchemy (eval/chat_benchmarks/CodeForces), which leaves out problems that interact
with the judge. Equality is of words, the site's default checker; problems with several right outputs need a checker of
their own, which evalchemy does not run either. A test has evalchemy's time: the site's, and 50 s more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, cast

from pydantic import JsonValue

from tasks.evaluation.benchmarks.base import PUBLISHED
from tasks.evaluation.benchmarks.code.livecodebench import ContestBenchmark
from tasks.evaluation.benchmarks.code.livecodebench_tests import find_first_failure, run_and_compare, shorten
from tasks.evaluation.evaluation_records import Item, Sampling
from tasks.evaluation.running.benchmark_data import Row, published_files
from tasks.grading.code.code_grading import Verdict
from tasks.sandbox import Limits, Program, Sandbox

BLOCK = re.compile(r"```[a-zA-Z]*\n(.*?)```", re.S)
"""Matches a fenced block of code; the last one of an answer is executed."""
MEDIUM, HARD, HARDEST = 1000, 1300, 3500
"""Ratings from which a problem is called medium and hard, and above which it is called easy, as in evalchemy."""
MEMORY_BYTES = 4 << 30
OUTPUT_BYTES = 4 << 20
INSTRUCTION: str = PUBLISHED["codeforces"]["instruction"]


class CodeForces(ContestBenchmark):
    """Problems of Codeforces on the site's official tests; groups are levels of difficulty."""

    name = "CodeForces"
    summary = "problems of Codeforces in Python, on the site's tests"
    files = published_files("CodeForces")
    sampling = Sampling(temperature=0.7, max_tokens=32768)
    repeats = 3
    format_checked_only = True

    def read_row(self, row: Row) -> Iterator[Item]:
        """Yield the problem if it has tests and does not interact with the judge."""
        if row.get("interaction_format") or not row.get("official_tests"):
            return
        seconds = row.get("time_limit")
        if not isinstance(seconds, int | float) or seconds <= 0:
            row.unusable(f"`time_limit` must be a number above 0, found {seconds!r}")
        tests: list[JsonValue] = [dict(_read_test(row, "official_tests", test)) for test in row["official_tests"]]
        rating = row.get("rating")
        rating = rating if isinstance(rating, int | float) else 0  # a problem without one is called easy
        easy = rating < MEDIUM or rating > HARDEST
        yield Item(
            id=row.text("id"),
            prompts=(f"{INSTRUCTION}\n\n{render_statement(row)}",),
            group="Easy" if easy else "Medium" if rating < HARD else "Hard",
            detail={"tests": tests, "seconds": float(seconds) + 50},  # evalchemy's addition
        )

    def try_out(self, item: Item, answer: str, sandbox: Sandbox) -> Verdict:
        """Run the last block of code on all tests, each in a process of its own, until the first that fails."""
        blocks = BLOCK.findall(answer)
        if not blocks:
            return Verdict(0.0, "there is no code block", "")
        seconds = float(cast("float", item.detail["seconds"]))
        runs = (
            (f"test {number}", self._run_test(blocks[-1], test["input"], test["output"], seconds, sandbox))
            for number, test in enumerate(cast("list[dict[str, str]]", item.detail["tests"]), start=1)
        )
        return find_first_failure(blocks[-1], runs)

    def _run_test(self, code: str, stdin: str, expected: str, seconds: float, sandbox: Sandbox) -> Verdict:
        """Return the verdict on a program for one test, by the words that it prints."""

        def differs(printed: str) -> str | None:
            equal = printed.split() == expected.split()  # the checker wcmp of testlib
            words, right = (shorten(" ".join(text.split())) for text in (printed, expected))
            return None if equal else f"wrong answer: {words!r}, expected {right!r}"

        limits = Limits(
            cpu_s=round(seconds),
            wall_s=seconds,
            memory_bytes=MEMORY_BYTES,
            output_bytes=OUTPUT_BYTES + 2 * len(expected),  # the limit must cut no right output
        )
        program = Program(code, stdin=stdin.encode("utf-8", "replace"), limits=limits)
        return run_and_compare(program, sandbox, differs=differs)


def render_statement(row: Row) -> str:
    """Return the problem as an HTML page, in the form in which evalchemy shows it to the model."""
    page = f"<html><body><h1>{row.text('title')}</h1><div>Time limit per test: {row.get('time_limit')} s</div>"
    for title in ("Description", "Input Format", "Output Format"):
        page += f"<h2>{title}</h2><div>{row.get(title.lower().replace(' ', '_'))}</div>"
    for test in row.get("examples") or []:
        stdin, printed = _read_test(row, "examples", test).values()
        page += f"<h2>Example</h2><h3>Input</h3><div>{stdin}</div><h3>Output</h3><div>{printed}</div>"
    for title, name in (("Interaction", "interaction_format"), ("Note", "note"), ("Editorial", "editorial")):
        if row.get(name):
            page += f"<h2>{title}</h2><div>{row[name]}</div>"
    return page + "</body></html>"


def _read_test(row: Row, name: str, test: Any) -> dict[str, str]:
    """Return input and output of a test. Raises DataUnusable unless both are texts."""
    stdin, printed = (test.get("input"), test.get("output")) if isinstance(test, dict) else (None, None)
    if not (isinstance(stdin, str) and isinstance(printed, str)):
        row.unusable(f"`{name}`: `input` and `output` must be texts, found {str(test)[:80]}")
    return {"input": stdin, "output": printed}


BENCHMARK = CodeForces()
