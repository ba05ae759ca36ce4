"""HumanEval, HumanEval+ and MultiPL-E.

HumanEval: 164 functions of Python to complete, and their translations to Bash and JavaScript where they are there.
Fields of Python items as in openai/human-eval: task_id, prompt, entry_point, canonical_solution, test. The program is
the completed prompt, the item's tests, and `check(entry_point)`; lost indentation of a body is restored. Greedy, 1,024
tokens and 3 seconds as in mlfoundations/evalchemy (eval/chat_benchmarks/HumanEval), but without its imports before each
Python program.

HumanEval+: HumanEval with some 80 times the tests, as the hub's evalplus/humanevalplus has them: the same fields, with
EvalPlus's inputs and the outputs of the canonical solution in `test`. Prompt and 1,024 tokens as in
mlfoundations/evalchemy (eval/chat_benchmarks/HumanEvalPlus).

MultiPL-E: HumanEval in four languages whose programs were run here, a benchmark for each: MultiPLE-sh, -js, -cpp and
-java. Data: the hub's nuprl/MultiPL-E, configurations humaneval-sh, …; fields: name, language, prompt (ends within a
function), doctests, original, prompt_terminology, tests, stop_tokens. The files of deepseek-ai/DeepSeek-Coder and
mlfoundations/evalchemy have task_id and test beside or instead of name and tests, and some no stop_tokens. There are no
solutions among them, so `solutions/` has some of our own, which a preflight runs. Prompt, 1,024 tokens and 15 seconds
as in mlfoundations/evalchemy (eval/chat_benchmarks/MultiPLE), without the indentation of its fences.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from importlib import resources
from typing import cast

from pydantic import JsonValue

from tasks.evaluation.benchmarks.base import PUBLISHED, CodeBenchmark
from tasks.evaluation.evaluation_records import Item, Sampling
from tasks.evaluation.running.benchmark_data import Data, DataFile, Row, published_files
from tasks.grading.code.code_extraction import complete_program, extract_code, find_blocks
from tasks.grading.code.code_grading import PLAIN_RESULTS, Verdict, verdict_of
from tasks.grading.code.program_assembly import assemble_program
from tasks.sandbox import Limits, Program, Sandbox
from tasks.sandbox.languages import find_language, why_unavailable
from tasks.sandbox.sandbox_records import MIB

PYTHON, *TRANSLATED = published_files("HumanEval")
TRANSLATIONS = {"sh": "Bash", "js": "JavaScript"}
"""Extensions of the translated files, in their order, with the language's name in prompts."""
LANGUAGES: dict[str, str] = PUBLISHED["multiple"]["languages"]
"""The language by extension: MultiPL-E names languages and metrics by extension, and evalchemy tells the model the name
(LANGUAGE_MAP in its MultiPLE); `sandbox.languages` has all languages."""
PROMPT = "Please provide a {language} solution to the following problem:\n{prompt}"
INSTRUCT = (
    "Please continue to complete the function. You are not allowed to modify the given code and do the completion "
    "only. Please return all completed function in a codeblock. Here is the given code to do completion:\n"
    "```{language}\n{prompt}\n```"
)
"""Source: build_deepseekcoder_instruction of evalchemy's HumanEval; language in lower case, prompt stripped."""
MULTIPLE_SYSTEM = "You are a helpful programming assistant designed to complete code snippets."
MULTIPLE_PROMPT = "Please generate code to complete the following problem:\n```{language}\n{prompt}\n```"
SIGNATURE = re.compile(r"([A-Za-z_]\w*)[ \t]*\(")


class FunctionBenchmark(CodeBenchmark):
    """A benchmark of functions to complete; the group of an item is its language."""

    sampling = Sampling(temperature=0.0, max_tokens=1024)
    limits: Limits

    def try_out(self, item: Item, answer: str, sandbox: Sandbox) -> Verdict:
        """Execute the prompt as the answer completes it, with the item's tests."""
        language, detail = str(item.group), item.detail
        prompt, entry_point = str(detail["prompt"]), str(detail["entry_point"])
        code = extract_code(answer, language, entry_point)
        if language == "python":
            source = complete_program(prompt, code, entry_point, language)
            tests, call = str(detail["test"]), f"check({entry_point})"
            # the tests of some files call `check` themselves
            tests = f"{PLAIN_RESULTS}\n{tests.rstrip().removesuffix(call)}\n\ncheck(plain_results({entry_point}))\n"
        else:
            is_fenced = any(block.code.strip() for block in find_blocks(answer))
            stops = [] if is_fenced else cast("list[str]", detail["stop_tokens"])
            source, tests = assemble_program(
                prompt, code, entry_point, language, tests=str(detail["tests"]), stops=stops
            )
        return verdict_of(sandbox.run(Program(source, language, tests=tests, limits=self.limits)), code)

    def gold_response(self, item: Item) -> str | None:
        """Return the data's own solution or, for a translated item, one of ours; None where there is none."""
        if item.group == "python":
            return f"```python\n{item.detail['prompt']}{item.gold}```\n"
        body = read_own_solutions(str(item.group)).get(str(item.detail["task_id"]))
        return body and f"```{item.group}\n{body}```\n"

    def why_unscorable(self, item: Item, sandbox: Sandbox) -> str | None:
        del sandbox
        why = why_unavailable(find_language(str(item.group)))
        return f"programs of {item.group} cannot be run here: {why}" if why else None


class HumanEval(FunctionBenchmark):
    """HumanEval in up to three languages; metrics begin with those of the groups, `python`, `sh` and `js`."""

    name = "HumanEval"
    version = 2
    summary = "164 functions to complete in Python; in Bash and JavaScript too where humaneval_sh, _js.jsonl are there"
    files = (PYTHON, *TRANSLATED)
    limits = Limits(cpu_s=3.0, wall_s=3.0)
    """The 3 seconds of human-eval and evalchemy."""

    def items(self, data: Data) -> Iterator[Item]:
        """Yield the Python items, then those of each language whose file is in the data folder."""
        for row in data.rows(PYTHON):
            with data.leave_out_odd(row):
                yield build_python_item(row, self.render_prompt("Python", row.text("prompt")))
        for (extension, language), file in zip(TRANSLATIONS.items(), TRANSLATED, strict=True):
            for row in data.rows(file) if data.find(file) else ():
                with data.leave_out_odd(row):
                    yield build_translated_item(row, extension, self.render_prompt(language, row.text("prompt")))

    def render_prompt(self, language: str, prompt: str) -> str:
        """Return the prompt that the model sees."""
        return PROMPT.format(language=language, prompt=prompt)


class HumanEvalInstruct(HumanEval):
    """HumanEval with the instruction of evalchemy's benchmark."""

    name = "HumanEvalInstruct"
    summary = "HumanEval with evalchemy's instruction"

    def render_prompt(self, language: str, prompt: str) -> str:
        return INSTRUCT.format(language=language.lower(), prompt=prompt.strip())


class HumanEvalPlus(FunctionBenchmark):
    """HumanEval+: HumanEval in Python with the far more numerous tests of EvalPlus."""

    name = "HumanEvalPlus"
    summary = "HumanEval with some 80 times the tests, in Python"
    files = published_files("HumanEvalPlus")
    format_checked_only = True
    limits = Limits(cpu_s=20.0, wall_s=60.0, memory_bytes=4096 * MIB)
    """Memory as evalplus allows (evalplus/eval/__init__.py); some inputs are lists of a million, each used twice."""

    def read_row(self, row: Row) -> Iterator[Item]:
        if "base_input" in row:
            row.unusable("these are fields of EvalPlus's own file; take the hub's evalplus/humanevalplus instead")
        yield build_python_item(row, INSTRUCT.format(language="python", prompt=row.text("prompt").strip()))


class MultiPLE(FunctionBenchmark):
    """MultiPL-E, which is HumanEval translated, in one language."""

    format_checked_only = True
    limits = Limits(cpu_s=15.0, wall_s=15.0)
    """Limits of the compiler, and again of the program; 15 seconds as in evalchemy."""

    def __init__(self, extension: str) -> None:
        super().__init__()
        self.extension = extension
        self.name = f"MultiPLE-{extension}"
        self.summary = f"HumanEval translated to {LANGUAGES[extension]}"
        self.files = (
            DataFile(
                file=f"humaneval_{extension}.jsonl",
                also=(f"multipl-e-{extension}.json",),
                hub="nuprl/MultiPL-E",
                config=f"humaneval-{extension}",
                split="test",
            ),
        )

    def read_row(self, row: Row) -> Iterator[Item]:
        prompt = MULTIPLE_PROMPT.format(language=LANGUAGES[self.extension], prompt=row.text("prompt"))
        yield build_translated_item(row, self.extension, prompt).model_copy(update={"system": MULTIPLE_SYSTEM})


def build_python_item(row: Row, prompt: str) -> Item:
    """Return the item of a row of openai/human-eval, whose field `test` defines `check`. Raises DataUnusable."""
    names = ("prompt", "entry_point", "canonical_solution", "test")
    detail: dict[str, JsonValue] = {name: row.text(name) for name in names}
    gold = detail.pop("canonical_solution")
    detail["task_id"] = row.id
    return Item(id=row.id, prompts=(prompt,), gold=gold, group="python", detail=detail)


def build_translated_item(row: Row, extension: str, model_prompt: str) -> Item:
    """Return the item of a row of MultiPL-E, with the ID `sh/NAME` for the extension `sh`. Raises DataUnusable."""
    name = str(row.get("task_id") or row.text("name"))
    prompt = row.text("prompt")
    # the function whose first line ends the prompt
    last_line = prompt.rstrip().rpartition("\n")[2]
    signature = SIGNATURE.search(last_line)
    if not signature:
        row.unusable(f"`prompt` does not end with the first line of a function, but with {last_line[:80]!r}")
    detail: dict[str, JsonValue] = {
        "task_id": name,
        "prompt": prompt,
        "entry_point": signature[1],
        "tests": row.text("tests" if "tests" in row else "test"),
        "stop_tokens": list[JsonValue](row.texts("stop_tokens") if "stop_tokens" in row else []),
    }
    return Item(id=f"{extension}/{name}", prompts=(model_prompt,), group=extension, detail=detail)


@cache
def read_own_solutions(extension: str) -> dict[str, str]:
    """Return our own solutions for an extension: the function body by `task_id`; empty where there are none."""
    file = resources.files("tasks.evaluation.benchmarks.code") / "solutions" / f"humaneval_{extension}.jsonl"
    if not file.is_file():
        return {}
    rows = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    return {row["task_id"]: row["body"] for row in rows}


BENCHMARKS = (
    HumanEval(),
    HumanEvalInstruct(),
    HumanEvalPlus(),
    *(MultiPLE(extension) for extension in LANGUAGES),
)
