"""HumanEval and HumanEval+.

HumanEval: 164 functions of Python to complete, and their translations to Bash and JavaScript where they are there.

Python: fields as in openai/human-eval: task_id, prompt, entry_point, canonical_solution, test. The program is the
completed prompt, the item's tests, and `check(entry_point)`; lost indentation of a body is restored. Bash and
JavaScript: see `multipl_e`. Greedy, 1,024 tokens and 3 seconds as in mlfoundations/evalchemy
(eval/chat_benchmarks/HumanEval), but without its imports before each Python program.

HumanEval+: HumanEval with some 80 times the tests, as the hub's evalplus/humanevalplus has them: the same fields, with
EvalPlus's inputs and the outputs of the canonical solution in `test`. Prompt and 1,024 tokens as in
mlfoundations/evalchemy (eval/chat_benchmarks/HumanEvalPlus).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pydantic import JsonValue

from tasks.evaluation.benchmarks.base import CodeBenchmark, Tools
from tasks.evaluation.benchmarks.code.multipl_e import (
    empty_answer,
    missing_tools,
    own_answer,
    translated_item,
    try_translated,
)
from tasks.evaluation.evaluation_records import Item, Sampling
from tasks.evaluation.running.benchmark_data import Data, DataFile, Row
from tasks.grading.code.code_extraction import code_in, completed
from tasks.grading.code.code_grading import Verdict, verdict_of
from tasks.sandbox import Limits, Program, Sandbox
from tasks.sandbox.sandbox_records import MIB

PYTHON = DataFile(
    file="HumanEval.jsonl",
    hub="openai/openai_humaneval",
    hub_split="test",
    get="It is data/HumanEval.jsonl.gz of github.com/openai/human-eval (MIT), and is read packed too.",
)
TRANSLATED = {
    "sh": ("Bash", DataFile(file="humaneval_sh.jsonl", optional=True)),
    "js": ("JavaScript", DataFile(file="humaneval_js.jsonl", optional=True)),
}
"""Extension → the language's name in prompts, and its file."""
PROMPT = "Please provide a {language} solution to the following problem:\n{prompt}"
INSTRUCT = (
    "Please continue to complete the function. You are not allowed to modify the given code and do the completion "
    "only. Please return all completed function in a codeblock. Here is the given code to do completion:\n"
    "```{language}\n{prompt}\n```"
)
"""Source: build_deepseekcoder_instruction of evalchemy's HumanEval; language in lower case, prompt stripped."""
LIMITS = Limits(cpu_s=3.0, wall_s=3.0)
"""The 3 seconds of human-eval and evalchemy."""


PLUS = DataFile(
    file="HumanEvalPlus.jsonl",
    hub="evalplus/humanevalplus",
    hub_split="test",
)
PLUS_LIMITS = Limits(cpu_s=20.0, wall_s=60.0, memory_bytes=4096 * MIB)
"""Memory as evalplus allows (evalplus/eval/__init__.py); some inputs are lists of a million, and each is used twice."""


class HumanEval(CodeBenchmark):
    """All three languages in one; groups are `python`, `sh` and `js`, and so begin the keys of the figures."""

    name = "HumanEval"
    version = 2
    summary = "164 functions to complete in Python; in Bash and JavaScript too where humaneval_sh, _js.jsonl are there"
    files = (PYTHON, *(file for _, file in TRANSLATED.values()))
    sampling = Sampling(temperature=0.0, max_tokens=1024)
    template = PROMPT

    def items(self, data: Data) -> Iterator[Item]:
        """The Python items, then those of each language whose file is in the folder."""
        yield from (python_item(row, self.shown("Python", row.text("prompt"))) for row in data.rows(PYTHON))
        for extension, (language, file) in TRANSLATED.items():
            for row in data.rows(file) if data.find(file) else ():
                yield translated_item(row, extension, self.shown(language, row.text("prompt")))

    def shown(self, language: str, prompt: str) -> str:
        """What the model sees."""
        return self.template.format(language=language, prompt=prompt)

    def try_out(self, item: Item, answer: str, sandbox: Sandbox) -> Verdict:
        if item.group in TRANSLATED:
            return try_translated(item, answer, sandbox, LIMITS)
        return try_python(item, answer, sandbox, LIMITS)

    def gold_response(self, item: Item) -> str | None:
        return own_answer(item) if item.group in TRANSLATED else canonical_answer(item)

    def empty_response(self, item: Item) -> str | None:
        return empty_answer(item) if item.group in TRANSLATED else python_answer(item, "    pass\n")

    def check(self, items: Sequence[Item], tools: Tools) -> Iterator[str]:
        """As in the base class, if the languages of the items can be run; else why they cannot."""
        missing = list(missing_tools(items))
        yield from missing or super().check(items, tools)


class HumanEvalInstruct(HumanEval):
    """With the words of evalchemy's."""

    name = "HumanEvalInstruct"
    summary = "HumanEval with evalchemy's instruction"
    template = INSTRUCT

    def shown(self, language: str, prompt: str) -> str:
        return self.template.format(language=language.lower(), prompt=prompt.strip())


def python_item(row: Row, shown: str) -> Item:
    """A row of openai/human-eval; `test` defines `check`. Raises DataUnusable."""
    names = ("prompt", "entry_point", "canonical_solution", "test")
    detail: dict[str, JsonValue] = {name: row.text(name) for name in names}
    gold = detail.pop("canonical_solution")
    detail["task_id"] = row.id
    return Item(id=row.id, prompts=(shown,), gold=gold, group="python", detail=detail)


def try_python(item: Item, answer: str, sandbox: Sandbox, limits: Limits) -> Verdict:
    """Execute what an answer makes of its prompt, and then `check` of it."""
    code = code_in(answer, "python")
    entry_point = str(item.detail["entry_point"])
    source = completed(str(item.detail["prompt"]), code, entry_point, "python")
    test, call = str(item.detail["test"]), f"check({entry_point})"
    tests = test if test.rstrip().endswith(f"\n{call}") else f"{test}\n\n{call}\n"
    return verdict_of(sandbox.run(Program(source, tests=tests, limits=limits)), code)


def canonical_answer(item: Item) -> str:
    """The data's own solution, as a model may give it."""
    return python_answer(item, str(item.gold))


def python_answer(item: Item, body: str) -> str:
    """The whole function with this body."""
    return f"```python\n{item.detail['prompt']}{body}```\n"


class HumanEvalPlus(CodeBenchmark):
    """HumanEval with the tests of EvalPlus."""

    name = "HumanEvalPlus"
    summary = "HumanEval with some 80 times the tests, in Python"
    files = (PLUS,)
    sampling = Sampling(temperature=0.0, max_tokens=1024)
    format_checked_only = True

    def items(self, data: Data) -> Iterator[Item]:
        for row in data.rows(PLUS):
            if "base_input" in row:
                row.unusable("these are fields of EvalPlus's own file; take the hub's evalplus/humanevalplus instead")
            yield python_item(row, INSTRUCT.format(language="python", prompt=row.text("prompt").strip()))

    def try_out(self, item: Item, answer: str, sandbox: Sandbox) -> Verdict:
        return try_python(item, answer, sandbox, PLUS_LIMITS)

    def gold_response(self, item: Item) -> str | None:
        return canonical_answer(item)

    def empty_response(self, item: Item) -> str | None:
        return python_answer(item, "    pass\n")


BENCHMARKS = (HumanEval(), HumanEvalInstruct(), HumanEvalPlus())
