"""Items of HumanEval in other languages, as MultiPL-E translates them: prompts end within a function, tests go on.

Fields: name, language, prompt, doctests, original, prompt_terminology, tests, stop_tokens (hub: nuprl/MultiPL-E); the
files of deepseek-ai/DeepSeek-Coder and mlfoundations/evalchemy repeat name and tests as task_id and test.
There are no solutions among them, so `solutions/` has some of our own, which a preflight runs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import resources
from typing import cast

from pydantic import JsonValue

from tasks.evaluation.benchmarks import fields
from tasks.evaluation.evaluation_records import Item
from tasks.evaluation.running.benchmark_data import Row
from tasks.grading.code.code_extraction import blocks_in, code_in
from tasks.grading.code.code_grading import Verdict, verdict_of
from tasks.grading.code.program_assembly import with_tests
from tasks.sandbox import Limits, Program, Sandbox
from tasks.sandbox.languages import find, unavailable

SIGNATURE = re.compile(r"([A-Za-z_]\w*)[ \t]*(?:\(|(?:<-|=)[ \t]*function\b)")
PERL_SIGNATURE = re.compile(r"^sub[ \t]+(\w+)", re.M)
EMPTY_BODIES = {"sh": "    :\n", "js": "    return;\n"}
"""Only for interpreted languages: compilers take long."""


def translated_item(row: Row, extension: str, shown: str) -> Item:
    """An item of a data file; `extension` (`sh`) makes its id unique among languages. Raises DataUnusable."""
    name = str(row.get("task_id") or fields.text(row, "name"))
    prompt = fields.text(row, "prompt")
    detail: dict[str, JsonValue] = {
        "task_id": name,
        "prompt": prompt,
        "entry_point": _entry_point(row, prompt),
        "tests": fields.text(row, "tests" if "tests" in row else "test"),
        "stop_tokens": list[JsonValue](fields.texts(row, "stop_tokens")),
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
