"""Problems of programming contests: LiveCodeBench's code generation, by the date of the contest, and Codeforces.

LiveCodeBench: fields as in the data set card of livecodebench/code_generation_lite, whose loading script the hub's
client no longer runs; copies in Parquet are lighteval/code_generation_lite and mlfoundations-dev/LCBv5-v2. Windows,
prompts, temperature, length, repeats and metric keys as in mlfoundations/evalchemy (eval_instruct.py of
eval/chat_benchmarks/LiveCodeBench: release_v2, and LiveCodeBenchv5: release_v5 without release_v2). Predefined imports,
inputs, equality and the choice of all tests as in LiveCodeBench/LiveCodeBench (lcb_runner/evaluation/testing_util.py);
evalchemy runs only private tests. evalchemy's prompt does not name the function, so a class Solution with the method of
the data, or a function of its name, goes before the first function of the code. The code of an answer is its last
fenced block of Python, else its last fenced block, else the answer.

Codeforces, on the site's official tests: fields as in the data set card of open-r1/codeforces. Prompt, difficulties,
temperature, length, repeats, extraction and metric keys as in mlfoundations/evalchemy's
eval/chat_benchmarks/CodeForces, which leaves out problems that interact with the judge. Equality is of words, the
site's default checker; problems with several right outputs need a checker of their own, which evalchemy does not run
either. A test has evalchemy's time: the site's, and 50 s more.
"""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from pydantic import JsonValue

from tasks.evaluation.benchmarks.base import PUBLISHED, CodeBenchmark, Summary, Tools
from tasks.evaluation.benchmarks.code.contest_tests import (
    Kind,
    build_program,
    check_kind,
    find_first_failure,
    parse_value,
    read_tests,
    run_and_compare,
    run_test,
    shorten,
)
from tasks.evaluation.evaluation_records import Item, Sample, Sampling
from tasks.evaluation.running.benchmark_data import Row, published_files
from tasks.grading.code.code_extraction import find_blocks, normalize_line_ends
from tasks.grading.code.code_grading import Verdict
from tasks.grading.sample_statistics import summarise_repeats
from tasks.sandbox import Limits, Program, Sandbox, shared_sandbox
from tasks.sandbox.languages import find_language_name

EVALCHEMY: dict[Kind, str] = PUBLISHED["livecodebench"]
DIFFICULTIES = ("easy", "medium", "hard")
DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
TRIAL_FILE = "livecodebench_trials.json"
TRIALS: list[dict[str, Any]] = json.loads(Path(__file__).with_name(TRIAL_FILE).read_text("utf-8"))
"""Problems of our own with a right and a wrong program, to prove a machine: the data has no solutions."""


class ContestBenchmark(CodeBenchmark):
    """Problems of programming contests, whose data has no solutions; groups are levels of difficulty."""

    def gold_response(self, item: Item) -> str | None:
        """Return None, since the data of contests has no solutions."""
        del item

    def summarise(self, samples: Iterable[Sample]) -> Summary:
        """Return pass@k and evalchemy's metrics; `accuracy_std_err` divides by n - 1 here, unlike that of AIME."""
        # both summaries need all samples at once, so their long texts are dropped first
        light_samples = [
            sample.model_copy(update={"extracted": None, "reason": "", "detail": {}}) for sample in samples
        ]
        summary = super().summarise(light_samples)
        repeated = summarise_repeats(light_samples).metrics
        metrics = {name: repeated[name] for name in ("num_total", "solved_avg", "run_stats", "num_repeat")}
        metrics |= _select_accuracy(repeated, "accuracy")
        for group in dict.fromkeys(sample.group for sample in light_samples):
            group_summary = summarise_repeats(sample for sample in light_samples if sample.group == group)
            metrics |= _select_accuracy(group_summary.metrics, f"accuracy_{group}")
        return summary._replace(metrics=metrics | summary.metrics)


class LiveCodeBench(ContestBenchmark):
    """LiveCodeBench, release v2; groups are levels of difficulty."""

    name = "LiveCodeBench"
    version = 2
    summary = "511 contest problems of May 2023 to May 2024 in Python (release v2)"
    files = published_files("LiveCodeBench")
    window = ("2023-05-01", "2024-06-01")
    """Contests count from the first day on and before the second."""
    sampling = Sampling(temperature=0.7, max_tokens=32768)
    repeats = 6
    format_checked_only = True

    def read_row(self, row: Row) -> Iterator[Item]:
        if self.window[0] <= _read_date(row) < self.window[1]:  # ISO dates sort as texts do
            yield _build_item(row)

    def try_out(self, item: Item, answer: str, sandbox: Sandbox) -> Verdict:
        """Run all tests, each in a process of its own, until the first that fails; without code the score is 0."""
        code = extract_last_block(answer)
        if not code.strip():
            return Verdict(0.0, "no code was found", "")
        function = item.detail["function"]
        program = build_program(code, None if function is None else str(function))
        tests = read_tests(str(item.detail["public"]), str(item.detail["private"]))
        return find_first_failure(code, ((test.name, run_test(test, program, sandbox)) for test in tests))

    def check(self, items: Sequence[Item], tools: Tools) -> Iterator[str]:
        """Yield the problems that the base class finds, and trial programs of our own that are graded wrongly."""
        yield from super().check(items, tools)
        sandbox = tools.sandbox or shared_sandbox()
        for trial in TRIALS:
            item = _build_item(Row(trial["row"], file=TRIAL_FILE, line=1, number=0))
            right, wrong = (self.try_out(item, answer, sandbox) for answer in (trial["right"], trial["wrong"]))
            if right.score != 1:
                yield f"item {item.id}, of our own: a right program does not pass ({right.reason})"
            if wrong.score != 0:
                yield f"item {item.id}, of our own: a wrong program is not graded as wrong ({wrong.reason})"


class LiveCodeBenchV5(LiveCodeBench):
    """LiveCodeBench, the problems that release v5 has beyond release v2."""

    name = "LiveCodeBenchv5"
    summary = "369 contest problems of June 2024 to January 2025 in Python (release v5 without v2)"
    files = published_files("LiveCodeBenchv5")
    window = ("2024-06-01", "2025-02-01")
    repeats = 3


def extract_last_block(answer: str) -> str:
    """Return the last fenced block of Python, else the last fenced block, else the answer itself."""
    blocks = list(find_blocks(normalize_line_ends(answer)))
    python_blocks = [block.code for block in blocks if find_language_name(block.tag) == "python"]
    return (python_blocks or [block.code for block in blocks] or [answer])[-1]


def _build_item(row: Row) -> Item:
    """Return the item of a row, whose tests can be run. Raises DataUnusable."""
    public, private = row.text("public_test_cases"), row.text("private_test_cases")
    difficulty = row.get("difficulty")
    if difficulty not in DIFFICULTIES:
        row.unusable(f"`difficulty` must be one of {', '.join(DIFFICULTIES)}, found {difficulty!r}")
    try:
        kind = check_kind(public, private)
    except ValueError as error:
        row.unusable(f"its tests cannot be used: {error}")
    function: str | None = None
    if kind == "functional":  # the name of the function that is called, from the metadata
        try:
            function = parse_value(row.text("metadata"))["func_name"]
        except (ValueError, TypeError, KeyError, RecursionError):
            row.unusable("its tests call a function, and `metadata` is not JSON with its `func_name`")
        if not isinstance(function, str) or not function.isidentifier() or keyword.iskeyword(function):
            row.unusable(f"`func_name` must be the name of a function, found {function!r}")
    detail: dict[str, JsonValue] = {
        "title": str(row.get("question_title", "")),
        "platform": str(row.get("platform", "")),
        "contest_date": _read_date(row),
        "function": function,
        "public": public,
        "private": private,
    }
    # without a space between, as evalchemy sends it
    prompt = EVALCHEMY[kind] + row.text("question_content")
    return Item(id=row.text("question_id"), prompts=(prompt,), group=difficulty, detail=detail)


def _read_date(row: Row) -> str:
    match = DATE.match(str(row.get("contest_date")))
    if not match:
        row.unusable(f"`contest_date` must begin as 2024-05-31, found {row.get('contest_date')!r}")
    return match[0]


def _select_accuracy(metrics: dict[str, JsonValue], prefix: str) -> dict[str, JsonValue]:
    return {f"{prefix}_avg": metrics["accuracy_avg"], f"{prefix}_std_err": metrics["accuracy_std_err_sample"]}


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
        """Yield the problem if it has tests and does not interact with the judge; without a rating it is Easy."""
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
        """Run the last block of code on all tests until the first that fails; without a block the score is 0."""
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


V2, V5, FORCES = BENCHMARKS = (LiveCodeBench(), LiveCodeBenchV5(), CodeForces())
