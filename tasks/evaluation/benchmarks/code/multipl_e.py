"""MultiPL-E: HumanEval in the languages of a table, a benchmark for each, named MultiPLE-sh, MultiPLE-cpp, …

Data: the hub's nuprl/MultiPL-E, configurations humaneval-sh, humaneval-cpp, …; fields as in `translated`. Prompt,
1,024 tokens and 15 seconds as in mlfoundations/evalchemy (eval/chat_benchmarks/MultiPLE), without the indentation of
its fences. Tests need MultiPL-E's libraries: Test::Deep for Perl, test/unit for Ruby, luaunit for Lua; the preflight
runs our solutions to two items of each language to detect whether they are installed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tasks.evaluation.benchmarks import fields
from tasks.evaluation.benchmarks.base import CodeBenchmark, Tools
from tasks.evaluation.benchmarks.code.translated import (
    empty_answer,
    missing_tools,
    own_answer,
    translated_item,
    try_translated,
)
from tasks.evaluation.evaluation_records import Item, Sampling
from tasks.evaluation.running.benchmark_data import Data, DataFile
from tasks.grading.code.code_grading import Verdict
from tasks.sandbox import Limits, Sandbox

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
            prompt = fields.text(row, "prompt")
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


BENCHMARKS = tuple(MultiPLE(extension) for extension in LANGUAGES)
