"""MBPP: 500 short Python problems, each with the asserts that a solution must pass; three solved ones are shown.

Data as in mlfoundations/evalchemy (eval/chat_benchmarks/MBPP/eval_instruct.py): google-research's mbpp.jsonl (task_id,
text, code, test_list, test_setup_code), whose second to fourth lines are the examples, and mbpp_test.jsonl, problems 11
to 510 of it with other names (task_id, prompt, code, test); either file may have either names. Prompt, length, greedy
decoding and ten seconds for a program are evalchemy's too. Unlike there, test_setup_code is executed, between solution
and asserts: only problem 367 has some, which uses the class of the solution and without which its gold fails.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from tasks.evaluation.benchmarks.base import CodeBenchmark, Summary
from tasks.evaluation.benchmarks.fields import distinct, text, texts
from tasks.evaluation.evaluation_errors import DataUnusable
from tasks.evaluation.evaluation_records import Item, Sample, Sampling
from tasks.evaluation.running.benchmark_data import Data, DataFile, Row
from tasks.grading.code.code_extraction import code_in
from tasks.grading.code.code_grading import Verdict, verdict_of
from tasks.sandbox import Limits, Program, Sandbox

HUB = "google-research-datasets/mbpp"
ASKED = range(11, 511)
"""IDs of the problems that are asked; the others are for prompts and training."""
SHOTS = range(1, 4)
"""0-based lines of mbpp.jsonl with the examples."""
PROMPT = (
    "Please refer the given examples and generate a python function for my problem.\n"
    "Examples are listed as follows:\n{examples}\n\nHere is my problem:\n{problem}"
)
LIMITS = Limits(cpu_s=10, wall_s=10)
FUNCTION = re.compile(r"(?:async\s+)?def\s+(\w+)")
GOES_ON = (" ", "\t", ")", "#")
"""First characters of the lines of a top-level function after its first."""


class MBPP(CodeBenchmark):
    """A solution passes when all of its problem's asserts do."""

    name = "MBPP"
    summary = "500 short Python problems, three examples in the prompt"
    files = (
        DataFile(
            file="mbpp_test.jsonl",
            hub=HUB,
            hub_config="full",
            hub_split="test",
            get="google-research's mbpp.jsonl under this name does as well: only its problems 11 to 510 are asked.",
        ),
        DataFile(
            file="mbpp.jsonl",
            hub=HUB,
            hub_config="full",
            hub_split="prompt",
            get="google-research/google-research has it in the folder mbpp; the examples in the prompt are from it.",
        ),
    )
    sampling = Sampling(temperature=0.0, max_tokens=512)

    def items(self, data: Data) -> Iterator[Item]:
        asked, whole = self.files
        rows = list(data.rows(whole))
        if len(rows) < SHOTS.stop:
            raise DataUnusable(f"{whole.file}: {len(rows)} problems; expected {SHOTS.stop} or more for the examples")
        examples = [solved(rows[place]) for place in SHOTS]
        setups = {row.id: str(row.get("test_setup_code") or "") for row in rows}
        for row in distinct(data.rows(asked)):
            if row.id.isdecimal() and int(row.id) in ASKED:
                yield _item(row, examples, str(row.get("test_setup_code") or setups.get(row.id, "")))

    def try_out(self, item: Item, answer: str, sandbox: Sandbox) -> Verdict:
        code = code_in(answer, "python")
        return verdict_of(sandbox.run(Program(code, tests=str(item.detail["tests"]), limits=LIMITS)), code)

    def summarise(self, samples: Iterable[Sample]) -> Summary:
        """With evalchemy's num_examples and completion_rate: answers that came, and their share of those asked for."""
        found = super().summarise(samples)
        asked = found.counts.samples
        came = asked - found.counts.missing
        return found._replace(
            metrics=found.metrics | {"num_examples": came, "completion_rate": came / asked if asked else None}
        )

    def gold_response(self, item: Item) -> str | None:
        return fenced(str(item.gold))

    def empty_response(self, item: Item) -> str | None:
        empty = emptied(str(item.gold))
        return fenced(empty) if empty is not None else None


def _item(row: Row, examples: Sequence[str], setup: str) -> Item:
    tests = texts(row, _named(row, "test", "test_list"))
    return Item(
        id=row.id,
        prompts=(few_shot(examples, unsolved(row)),),
        gold=text(row, "code"),
        detail={"tests": "\n".join([setup, *tests] if setup else tests)},
    )


def few_shot(examples: Iterable[str], problem: str) -> str:
    """The prompt of a problem; examples are solved ones."""
    listed = "\n\n".join(f"- Example {number}:\n{example}" for number, example in enumerate(examples, start=1))
    return PROMPT.format(examples=listed, problem=problem)


def unsolved(row: Row) -> str:
    """A problem as it stands in a prompt."""
    question, tests = text(row, _named(row, "prompt", "text")), texts(row, _named(row, "test_list", "test"))
    return ">>> Problem:\n{}\n>>> Test Cases:\n{}\n".format(question.strip(), "\n".join(tests))


def solved(row: Row) -> str:
    """A problem with its solution, as it stands in a prompt."""
    code = text(row, "code").replace("\r", "").replace("\t", "    ")
    return f"{unsolved(row)}\n>>> Code:\n{fenced(code)}"


def fenced(code: str) -> str:
    """A program as a model writes it."""
    return f"```python\n{code}\n```"


def emptied(code: str) -> str | None:
    """A program with `pass` as the body of each of its top-level functions; None where it has none."""
    kept, inside, found = list[str](), False, False
    for line in code.splitlines():
        if function := FUNCTION.match(line):
            kept.append(f"def {function[1]}(*args, **kwargs): pass")
            inside = found = True
        elif not inside or (line.strip() and not line.startswith(GOES_ON)):
            kept.append(line)
            inside = False
    return "\n".join(kept) if found else None


def _named(row: Row, *names: str) -> str:
    """The name of a field that is in the row; the first if none is."""
    return next((name for name in names if name in row), names[0])


BENCHMARK = MBPP()
