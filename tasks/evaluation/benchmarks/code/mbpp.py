"""MBPP and MBPP+.

MBPP: 500 short Python problems, each with the asserts that a solution must pass; three solved ones are shown.

Data as in mlfoundations/evalchemy (eval/chat_benchmarks/MBPP/eval_instruct.py): google-research's mbpp.jsonl (task_id,
text, code, test_list, test_setup_code), whose second to fourth lines are the examples, and mbpp_test.jsonl, problems 11
to 510 of it with other names (task_id, prompt, code, test); either file may have either names. Prompt, length, greedy
decoding and ten seconds for a program are evalchemy's too. Unlike there, test_setup_code is executed, between solution
and asserts: only problem 367 has some, which uses the class of the solution and without which its gold fails.

MBPP+: 378 corrected problems of MBPP, each with some hundred inputs and the outputs of a right solution. Fields as in
evalplus/mbppplus on the hub and in evalchemy's mbppplus.jsonl (eval/chat_benchmarks/MBPPPlus/eval_instruct.py):
task_id, prompt, code, test_list (shown in the prompt), test (a program that needs NumPy). Not evalplus's
MbppPlus.jsonl, whose JSON inputs must be converted problem by problem. Prompt, length, greedy decoding, imports and
three seconds per program are evalchemy's, with two changes: an example is not shown in its own prompt, where the next
problem replaces it; and a few problems, whose canonical solutions are slow, have more time, as measured by
marin-community/evalchemy (same file).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from tasks.evaluation.benchmarks.base import CodeBenchmark, Summary, explain_missing
from tasks.evaluation.evaluation_errors import DataUnusable
from tasks.evaluation.evaluation_records import Item, Sample, Sampling
from tasks.evaluation.running.benchmark_data import Data, Row, published_files
from tasks.grading.code.code_extraction import extract_code, put_before
from tasks.grading.code.code_grading import Verdict, verdict_of
from tasks.sandbox import Limits, Program, Sandbox

TEST_IDS = range(11, 511)
"""IDs of the test problems; the others are for prompts and training."""
SHOTS = range(1, 4)
"""0-based lines of mbpp.jsonl with the examples."""
PROMPT = (
    "Please refer the given examples and generate a python function for my problem.\n"
    "Examples are listed as follows:\n{examples}\n\nHere is my problem:\n{problem}"
)
LIMITS = Limits(cpu_s=10, wall_s=10)
IMPORTS = "\n".join(
    (
        *(f"import {name}" for name in ("math", "re", "sys", "copy", "datetime", "itertools", "collections", "heapq")),
        *(f"import {name}" for name in ("functools", "hashlib", "numpy", "numpy as np", "string")),
        *(f"from {name} import *" for name in ("typing", "collections")),
    )
)
SECONDS = 3.0
"""Time limit in seconds of a program of MBPP+."""
LONGER_SECONDS = {"255": 120.0, "271": 30.0, "392": 30.0, "599": 30.0, "630": 30.0}
"""Time limits in seconds of those problems whose canonical solutions are slow, by ID."""
NUMPY = ("numpy",)


class MBPP(CodeBenchmark):
    """MBPP: a solution passes when it passes all asserts of its problem."""

    name = "MBPP"
    summary = "500 short Python problems, three examples in the prompt"
    files = published_files("MBPP")
    sampling = Sampling(temperature=0.0, max_tokens=512)

    def items(self, data: Data) -> Iterator[Item]:
        """Yield problems 11 to 510, each behind three solved ones. Raises DataUnusable where these are missing."""
        test_file, all_file = self.files
        rows = list(data.rows(all_file))
        if len(rows) < SHOTS.stop:
            raise DataUnusable(f"{all_file.file}: {len(rows)} problems; expected {SHOTS.stop} or more for the examples")
        examples = [render_solved_problem(rows[place]) for place in SHOTS]
        setups = {row.id: str(row.get("test_setup_code") or "") for row in rows}
        for row in data.rows(test_file):
            with data.leave_out_odd(row):
                if row.id.isdecimal() and int(row.id) in TEST_IDS:
                    setup = str(row.get("test_setup_code") or setups.get(row.id, ""))
                    tests = [*([setup] if setup else []), *row.texts(_field_name(row, "test", "test_list"))]
                    yield build_item(row, examples, tests="\n".join(tests))

    def try_out(self, item: Item, answer: str, sandbox: Sandbox) -> Verdict:
        code = extract_code(answer, "python")
        return verdict_of(sandbox.run(Program(code, tests=str(item.detail["tests"]), limits=LIMITS)), code)

    def summarise(self, samples: Iterable[Sample]) -> Summary:
        """Return pass@k and evalchemy's num_examples (the answers that came) and completion_rate (their share)."""
        summary = super().summarise(samples)
        total = summary.counts.samples
        answered = total - summary.counts.missing
        return summary._replace(
            metrics=summary.metrics | {"num_examples": answered, "completion_rate": answered / total if total else None}
        )

    def gold_response(self, item: Item) -> str | None:
        return fence(str(item.gold))


class MBPPPlus(MBPP):
    """MBPP+: a solution passes when it returns the right output for every input."""

    name = "MBPPPlus"
    summary = "378 problems of MBPP with many more tests (EvalPlus)"
    files = published_files("MBPPPlus")
    sampling = Sampling(temperature=0.0, max_tokens=1024)
    format_checked_only = True

    def items(self, data: Data) -> Iterator[Item]:
        """Yield the problems, each behind three solved others. Raises DataUnusable where these are missing."""
        (file,) = self.files
        first = list(islice(data.rows(file), SHOTS.stop + 1))
        for row in first:
            if "base_input" in row:
                row.unusable(
                    "these are fields of EvalPlus's own MbppPlus.jsonl; take the hub's evalplus/mbppplus instead"
                )
        if len(first) < SHOTS.stop + 1:
            raise DataUnusable(
                f"{file.file}: {len(first)} problems; expected {SHOTS.stop + 1} or more for the examples"
            )
        examples = [(row.id, render_solved_problem(row)) for row in first[SHOTS.start :]]
        for row in data.rows(file):
            with data.leave_out_odd(row):
                shots = [example for own, example in examples if own != row.id]
                yield build_item(row, shots[: len(SHOTS)], tests=row.text("test"))

    def summarise(self, samples: Iterable[Sample]) -> Summary:
        return CodeBenchmark.summarise(self, samples)

    def why_unscorable(self, item: Item, sandbox: Sandbox) -> str | None:
        del item
        return explain_missing(NUMPY, sandbox)

    def try_out(self, item: Item, answer: str, sandbox: Sandbox) -> Verdict:
        """Return the verdict of a problem's tests on the code of an answer."""
        code = extract_code(answer, "python")
        seconds = LONGER_SECONDS.get(item.id, SECONDS)
        limits = Limits(cpu_s=seconds, wall_s=3 * seconds + 20)  # the clock only ends what sleeps
        program = Program(put_before(f"{IMPORTS}\n", code), tests=str(item.detail["tests"]), limits=limits)
        return verdict_of(sandbox.run(program), code)


def build_item(row: Row, examples: Sequence[str], *, tests: str) -> Item:
    """Return the item of a row, whose prompt shows solved examples before the problem."""
    listed = "\n\n".join(f"- Example {number}:\n{example}" for number, example in enumerate(examples, start=1))
    prompt = PROMPT.format(examples=listed, problem=render_problem(row))
    return Item(id=row.id, prompts=(prompt,), gold=row.text("code"), detail={"tests": tests})


def render_problem(row: Row) -> str:
    """Return a problem with its tests as it stands in a prompt."""
    question, tests = row.text(_field_name(row, "prompt", "text")), row.texts(_field_name(row, "test_list", "test"))
    return ">>> Problem:\n{}\n>>> Test Cases:\n{}\n".format(question.strip(), "\n".join(tests))


def render_solved_problem(row: Row) -> str:
    """Return a problem with its tests and its solution as it stands in a prompt."""
    code = row.text("code").replace("\r", "").replace("\t", "    ")
    return f"{render_problem(row)}\n>>> Code:\n{fence(code)}"


def fence(code: str) -> str:
    """Return a program in a fenced block, as a model writes it."""
    return f"```python\n{code}\n```"


def _field_name(row: Row, *names: str) -> str:
    """Return the first of the names that is a field of the row, else the first name."""
    return next((name for name in names if name in row), names[0])


BENCHMARKS = (MBPP(), MBPPPlus())
