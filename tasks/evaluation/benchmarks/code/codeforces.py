"""Problems of Codeforces: CodeForces, on the site's official tests, and CodeElo, on the examples of the statement.

Fields as in the data set cards of open-r1/codeforces and Qwen/CodeElo. Prompts, difficulties, temperature, length,
repeats, extraction and metric keys as in mlfoundations/evalchemy (eval/chat_benchmarks/CodeForces and CodeElo), which
leaves out problems that interact with the judge. Equality is of words, the site's default checker; problems with
several right outputs need a checker of their own, which evalchemy does not run either. A test has evalchemy's time: the
site's, and 50 s more for CodeForces, 1 s more for CodeElo. CodeElo's ratings need the site as judge; its examples
alone are far easier to pass.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, cast

from pydantic import JsonValue

from tasks.evaluation.benchmarks.base import CodeBenchmark, Summary
from tasks.evaluation.benchmarks.code.livecodebench_tests import LACKING, LIBRARIES
from tasks.evaluation.evaluation_records import Item, Sample, Sampling
from tasks.evaluation.running.benchmark_data import Data, DataFile, Row
from tasks.grading.code.code_grading import Verdict
from tasks.grading.sample_statistics import summarise_repeats
from tasks.sandbox import Execution, Limits, Program, Sandbox

BLOCK = re.compile(r"```[a-zA-Z]*\n(.*?)```", re.S)
MEDIUM, HARD, HARDEST = 1000, 1300, 3500
"""Ratings from which a problem is called so."""
LEVELS = ("Easy", "Medium", "Hard")
MEMORY_BYTES = 4 << 30
OUTPUT_BYTES = 4 << 20
SHOWN_CHARS = 60
INSTRUCTION = (
    "You are a coding expert. Given a competition-level coding problem, you need to write a Python program to solve "
    "it. You may start by outlining your thought process. In the end, please provide the complete code in a code block "
    "enclosed with ``` ```. The code should take stdin as input and print the output."
)
AS_FUNCTION = (
    " Your program should be a Python function generated from the given prompt. Simply call the function after the "
    "definition."
)


class CodeForces(CodeBenchmark):
    """Official tests; groups are levels of difficulty."""

    name = "CodeForces"
    summary = "problems of Codeforces in Python, on the site's tests"
    files = (DataFile(file="codeforces.jsonl", hub="open-r1/codeforces", hub_split="test"),)
    sampling = Sampling(temperature=0.7, max_tokens=32768)
    repeats = 3
    format_checked_only = True

    def items(self, data: Data) -> Iterator[Item]:
        """Problems without an interaction, and with tests."""
        for row in data.rows(self.files[0]):
            if not row.get("interaction_format") and row.get("official_tests"):
                yield self._item(row)

    def _item(self, row: Row) -> Item:
        tests = [_pair(row, "official_tests", one) for one in _list(row, "official_tests")]
        prompt = f"{INSTRUCTION}{AS_FUNCTION}\n\n{statement(row)}"
        return _item(row, row.text("id"), prompt=prompt, tests=tests, seconds=_number(row, "time_limit") + 50)

    def try_out(self, item: Item, answer: str, sandbox: Sandbox) -> Verdict:
        """All tests, until the first that fails; each in a process of its own."""
        blocks = BLOCK.findall(answer)
        if not blocks:
            return Verdict(0.0, "there is no code block", "")
        seconds = float(cast("float", item.detail["seconds"]))
        tests = cast("list[dict[str, str]]", item.detail["tests"])
        for number, test in enumerate(tests, start=1):
            limits = Limits(
                cpu_s=round(seconds),
                wall_s=seconds,
                memory_bytes=MEMORY_BYTES,
                output_bytes=OUTPUT_BYTES + 2 * len(test["output"]),
            )
            execution = sandbox.run(Program(blocks[-1], stdin=test["input"].encode("utf-8", "replace"), limits=limits))
            failed = _failure(execution, test["output"])
            if failed:
                return failed._replace(reason=f"test {number}: {failed.reason}", code=blocks[-1])
        return Verdict(1.0, f"passed {len(tests)} tests", blocks[-1])

    def gold_response(self, item: Item) -> str | None:
        """The data has no solutions in Python."""
        del item

    def empty_response(self, item: Item) -> str | None:
        del item
        return "```python\npass\n```"

    def summarise(self, samples: Iterable[Sample]) -> Summary:
        """pass@k and evalchemy's accuracies, over all problems and by difficulty."""
        kept = [sample.model_copy(update={"extracted": None, "reason": "", "detail": {}}) for sample in samples]
        by_group = {group: [sample for sample in kept if sample.group == group] for group in LEVELS}
        metrics = dict[str, JsonValue]()
        for name, some in (("accuracy", kept), *((f"accuracy_{group}", of) for group, of in by_group.items() if of)):
            found = summarise_repeats(some).metrics
            metrics |= {f"{name}_avg": found["accuracy_avg"], f"{name}_std_err": found["accuracy_std_err_sample"]}
        repeated = summarise_repeats(kept).metrics
        metrics |= {name: repeated[name] for name in ("num_total", "solved_avg", "run_stats", "num_repeat")}
        summary = super().summarise(kept)
        return summary._replace(metrics=metrics | summary.metrics)


class CodeElo(CodeForces):
    """The examples of the statement as tests."""

    name = "CodeElo"
    summary = "problems of Codeforces in Python, on the examples of their statements; no Elo rating"
    files = (DataFile(file="codeelo.jsonl", hub="Qwen/CodeElo", hub_split="test"),)

    def items(self, data: Data) -> Iterator[Item]:
        return (self._item(row) for row in data.rows(self.files[0]) if not row.get("interaction"))

    def _item(self, row: Row) -> Item:
        tests = [_pair(row, "examples", one) for one in _list(row, "examples")]
        if not tests:
            row.unusable("`examples` is empty, and there is nothing else to test with")
        # the quotation mark stands in evalchemy's prompt
        prompt = f'"{INSTRUCTION}\n\n{elo_statement(row, tests)}'
        seconds = _number(row, "time_limit_ms") / 1000 + 1
        return _item(row, str(row.get("problem_id") or row.id), prompt=prompt, tests=tests, seconds=seconds)


def _failure(execution: Execution, expected: str) -> Verdict | None:
    """Why a test is not passed; None where it is."""
    if execution.status == "broken":
        return Verdict(None, f"sandbox: {execution.reason}", "")
    if not execution.passed:
        named = LACKING.findall(execution.stderr)
        if named and named[-1] in LIBRARIES:
            return Verdict(
                None, f"the library {named[-1]} is not to be had in the sandbox", "", stderr=execution.stderr
            )
        return Verdict(0.0, execution.reason or execution.status, "", stderr=execution.stderr)
    if execution.stdout.split() != expected.split():
        return Verdict(0.0, f"wrong answer: {_short(execution.stdout)}, expected {_short(expected)}", "")
    return None


def _short(text: str) -> str:
    words = " ".join(text.split())
    return repr(words if len(words) <= SHOWN_CHARS else f"{words[:SHOWN_CHARS]}…")


def difficulty(rating: object) -> str:
    """The level of a rating; a problem without one is called easy."""
    value = rating if isinstance(rating, int | float) else 0
    return "Easy" if value < MEDIUM or value > HARDEST else "Medium" if value < HARD else "Hard"


def statement(row: Row) -> str:
    """The problem as a page, as evalchemy shows it."""
    parts = [("Description", row.get("description")), ("Input Format", row.get("input_format"))]
    page = _page(row, f"{row.get('time_limit')} s", [*parts, ("Output Format", row.get("output_format"))])
    for given, printed in (_pair(row, "examples", one).values() for one in row.get("examples") or []):
        page += _example(given, printed)
    more = (("Interaction", "interaction_format"), ("Note", "note"), ("Editorial", "editorial"))
    return page + _sections((title, row[name]) for title, name in more if row.get(name)) + "</body></html>"


def elo_statement(row: Row, examples: list[dict[str, str]]) -> str:
    """The problem as a page with its first example, as evalchemy shows it."""
    parts = [("Description", row.get("description")), ("Input", row.get("input")), ("Output", row.get("output"))]
    page = _page(row, f"{row.get('time_limit_ms')} ms", parts) + _example(*examples[0].values())
    note = row.get("note")
    return page + _sections([("Note", note)] if note else []) + "</body></html>"


def _page(row: Row, limit: str, parts: Iterable[tuple[str, Any]]) -> str:
    head = f"<html><body><h1>{row.text('title')}</h1><div>Time limit per test: {limit}</div>"
    return head + _sections(parts)


def _sections(parts: Iterable[tuple[str, Any]]) -> str:
    return "".join(f"<h2>{title}</h2><div>{content}</div>" for title, content in parts)


def _example(given: str, printed: str) -> str:
    return f"<h2>Example</h2><h3>Input</h3><div>{given}</div><h3>Output</h3><div>{printed}</div>"


def _item(row: Row, item_id: str, *, prompt: str, tests: list[dict[str, str]], seconds: float) -> Item:
    detail: dict[str, JsonValue] = {"tests": cast("list[JsonValue]", tests), "seconds": seconds}
    return Item(id=item_id, prompts=(prompt,), group=difficulty(row.get("rating")), detail=detail)


def _list(row: Row, name: str) -> list[Any]:
    value = row.get(name)
    return cast("list[Any]", value) if isinstance(value, list) else row.unusable(f"`{name}` must be a list of tests")


def _pair(row: Row, name: str, test: Any) -> dict[str, str]:
    """A test as an object or as a pair, with both its texts."""
    both = (test.get("input"), test.get("output")) if isinstance(test, dict) else test
    if not isinstance(both, list | tuple) or len(cast("list[Any]", both)) != 2:
        row.unusable(f"`{name}`: a test needs `input` and `output`, found {str(test)[:80]}")
    given, printed = cast("tuple[Any, Any]", both)
    if not (isinstance(given, str) and isinstance(printed, str)):
        row.unusable(f"`{name}`: `input` and `output` must be texts, found {str(test)[:80]}")
    return {"input": given, "output": printed}


def _number(row: Row, name: str) -> float:
    value = row.get(name)
    if not isinstance(value, int | float) or value <= 0:
        row.unusable(f"`{name}` must be a number above 0, found {value!r}")
    return float(value)


BENCHMARKS = (CodeForces(), CodeElo())
