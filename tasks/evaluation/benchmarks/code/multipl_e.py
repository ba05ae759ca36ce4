"""MultiPL-E: HumanEval in the languages of a table, a benchmark for each, named MultiPLE-sh, MultiPLE-cpp, …

Data: the hub's nuprl/MultiPL-E, configurations humaneval-sh, humaneval-cpp, …; fields: name, language, prompt (ends
within a function), doctests, original, prompt_terminology, tests, stop_tokens. The files of deepseek-ai/DeepSeek-Coder
and mlfoundations/evalchemy repeat name and tests as task_id and test. There are no solutions among them, so
`solutions/` has some of our own, which a preflight runs. Prompt, 1,024 tokens and 15 seconds as in
mlfoundations/evalchemy (eval/chat_benchmarks/MultiPLE), without the indentation of its fences. Tests need MultiPL-E's
libraries: Test::Deep for Perl, test/unit for Ruby, luaunit for Lua; the preflight runs our solutions to two items of
each language to detect whether they are installed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib import resources
from typing import cast

from pydantic import JsonValue

from tasks.evaluation.benchmarks.base import CodeBenchmark, Tools
from tasks.evaluation.evaluation_records import Item, Sampling
from tasks.evaluation.running.benchmark_data import Data, DataFile, Row
from tasks.grading.code.code_extraction import blocks_in, code_in
from tasks.grading.code.code_grading import Verdict, verdict_of
from tasks.grading.code.program_assembly import with_tests
from tasks.sandbox import Limits, Program, Sandbox
from tasks.sandbox.languages import find, unavailable

LANGUAGES = {
    "sh": "bash",
    "js": "javascript",
    "cpp": "cpp",
    "java": "java",
    "go": "go",
    "rs": "rust",
    "pl": "perl",
    "php": "php",
    "rb": "ruby",
    "lua": "lua",
    "r": "r",
}
"""Extension, as MultiPL-E names a language and as keys of figures begin → the language as evalchemy names it to the
model, LANGUAGE_MAP in its MultiPLE; `sandbox.languages` has them all."""
SYSTEM = "You are a helpful programming assistant designed to complete code snippets."
PROMPT = "Please generate code to complete the following problem:\n```{language}\n{prompt}\n```"
LIMITS = Limits(cpu_s=15.0, wall_s=15.0)
"""For the compiler, and again for the program."""


SIGNATURE = re.compile(r"([A-Za-z_]\w*)[ \t]*(?:\(|(?:<-|=)[ \t]*function\b)")
PERL_SIGNATURE = re.compile(r"^sub[ \t]+(\w+)", re.M)
EMPTY_BODIES = {"sh": "    :\n", "js": "    return;\n"}
"""Only for interpreted languages: compilers take long."""


class MultiPLE(CodeBenchmark):
    """One language."""

    sampling = Sampling(temperature=0.0, max_tokens=1024)
    format_checked_only = True

    def __init__(self, extension: str) -> None:
        super().__init__()
        self.extension = extension
        self.name = f"MultiPLE-{extension}"
        self.summary = f"HumanEval translated to {LANGUAGES[extension]}"
        self.files = (
            DataFile(
                file=f"humaneval_{extension}.jsonl",
                hub="nuprl/MultiPL-E",
                hub_config=f"humaneval-{extension}",
                hub_split="test",
            ),
        )

    def items(self, data: Data) -> Iterator[Item]:
        for row in data.rows(self.files[0]):
            prompt = row.text("prompt")
            shown = PROMPT.format(language=LANGUAGES[self.extension], prompt=prompt)
            yield translated_item(row, self.extension, shown).model_copy(update={"system": SYSTEM})

    def try_out(self, item: Item, answer: str, sandbox: Sandbox) -> Verdict:
        return try_translated(item, answer, sandbox, LIMITS)

    def gold_response(self, item: Item) -> str | None:
        return own_answer(item)

    def empty_response(self, item: Item) -> str | None:
        return empty_answer(item)

    def check(self, items: Sequence[Item], tools: Tools) -> Iterator[str]:
        """As in the base class, if the language can be run; else why it cannot."""
        missing = list(missing_tools(items))
        yield from missing or super().check(items, tools)


def translated_item(row: Row, extension: str, shown: str) -> Item:
    """An item of a data file; `extension` (`sh`) makes its id unique among languages. Raises DataUnusable."""
    name = str(row.get("task_id") or row.text("name"))
    prompt = row.text("prompt")
    detail: dict[str, JsonValue] = {
        "task_id": name,
        "prompt": prompt,
        "entry_point": _entry_point(row, prompt),
        "tests": row.text("tests" if "tests" in row else "test"),
        "stop_tokens": list[JsonValue](row.texts("stop_tokens")),
    }
    return Item(id=f"{extension}/{name}", prompts=(shown,), group=extension, detail=detail)


def try_translated(item: Item, answer: str, sandbox: Sandbox, limits: Limits) -> Verdict:
    """Execute what an answer makes of its prompt, with the item's tests."""
    extension, detail = str(item.group), item.detail
    code = code_in(answer, extension)
    fenced = any(block.code.strip() for block in blocks_in(answer))
    stops = [] if fenced else cast("list[str]", detail["stop_tokens"])
    source, tests = with_tests(
        str(detail["prompt"]), code, str(detail["entry_point"]), extension, tests=str(detail["tests"]), stops=stops
    )
    return verdict_of(sandbox.run(Program(source, extension, tests=tests, limits=limits)), code)


def missing_tools(items: Iterable[Item]) -> Iterator[str]:
    """A sentence for each language of the items whose programs cannot be run here."""
    for extension in dict.fromkeys(item.group for item in items if item.group):
        if why := unavailable(find(extension)):
            yield f"programs of {extension} cannot be run here: {why}"


def own_answer(item: Item) -> str | None:
    """A solution of our own; None where there is none."""
    body = own_solutions(str(item.group)).get(str(item.detail["task_id"]))
    return body and in_fence(item, body)


def empty_answer(item: Item) -> str | None:
    """A function that does nothing; None where no interpreter runs it."""
    body = EMPTY_BODIES.get(str(item.group))
    return body and in_fence(item, body)


def in_fence(item: Item, body: str) -> str:
    """The body of a function, as a model may give it."""
    return f"```{item.group}\n{body}```\n"


@cache
def own_solutions(extension: str) -> dict[str, str]:
    """Name of the item → body of the function."""
    file = resources.files("tasks.evaluation.benchmarks.code") / "solutions" / f"humaneval_{extension}.jsonl"
    if not file.is_file():
        return {}
    rows = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    return {row["task_id"]: row["body"] for row in rows}


def _entry_point(row: Row, prompt: str) -> str:
    """The name of the function whose first line ends the prompt."""
    perl = PERL_SIGNATURE.findall(prompt)
    last = prompt.rstrip().rpartition("\n")[2]
    found = SIGNATURE.search(last)
    if not perl and not found:
        row.unusable(f"`prompt` does not end with the first line of a function, but with {last[:80]!r}")
    return perl[-1] if perl else cast("re.Match[str]", found)[1]


BENCHMARKS = tuple(MultiPLE(extension) for extension in LANGUAGES)
