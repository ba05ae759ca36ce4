"""The files of `trivet eval new`: a benchmark that runs as it is, to be adapted."""

from __future__ import annotations

import json
import re

from tasks.evaluation.benchmarks.simple import NAME
from tasks.evaluation.evaluation_errors import BenchmarkUnusable

ITEMS = (
    {"id": "first", "question": "How many minutes are there in two and a half hours?", "answer": "150"},
    {"id": "second", "question": "What is $\\frac{1}{2}+\\frac{1}{3}$?", "answer": "\\frac{5}{6}"},
)
DEFINITION = """\
# Prove it with `trivet eval check FILE`, run it with `trivet eval run --tasks FILE`. Every key but these has a default.
name: "{name}"
version: 1  # raise it when a prompt, a gold or the grading changes: older results are not compared with newer ones
summary: what it measures, in one line
family: own
data:
  file: {stem}.jsonl  # beside this file, or in --data-dir; .json, .csv and .gz too
  # hub: owner/name  # on the Hugging Face hub; with `config` and `split`
prompt: "Problem: {{question}}\\nMark your solution with \\\\boxed\\nAnswer:"  # {{field}} of a row
gold: answer  # or {{field: answer, pattern: 'the (.*)'}}, or {{field: solution, boxed: true}}
# group: topic  # figures are also given for each value of this field
sampling: {{temperature: 0, max_tokens: 2048}}
repeats: 1
grader: {{kind: math}}  # math, exact, choice (with `options`), rules
# options: {{field: choices, answer: letter, shuffle: true}}  # the prompt shows them as {{options}}
"""
CLASS = '''\
"""{name}: prove it with `trivet eval check FILE`, run it with `trivet eval run --tasks FILE`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from tasks.evaluation.benchmarks.base import BaseBenchmark, Tools
from tasks.evaluation.running.benchmark_data import Data, DataFile
from tasks.evaluation.evaluation_records import Item, Response, Sample, Sampling


class {kind}(BaseBenchmark):
    """What it measures, in one line."""

    name = "{name}"
    version = 1  # raise it when a prompt, a gold or the grading changes
    summary = "what it measures, in one line"
    files = (DataFile(file="{stem}.jsonl", beside=str(Path(__file__).parent)),)
    sampling = Sampling(temperature=0, max_tokens=2048)
    repeats = 1

    def items(self, data: Data) -> Iterator[Item]:
        """One for each row; `gold_response` says what a right answer looks like, for the check."""
        for row in data.rows(self.files[0]):
            prompt = f"{{row['question']}}\\nEnd with a line `Answer: …`."
            yield Item(id=row.id, prompts=(prompt,), gold=row["answer"])

    def gold_response(self, item: Item) -> str:
        return f"Answer: {{item.gold}}"

    def grade(self, answered: Iterable[tuple[Item, Response]], tools: Tools) -> Iterator[Sample]:
        """A sample for each response, in order. `tools.math` compares mathematics, `tools.judge` asks a model."""
        for item, response in answered:
            _, announced, answer = response.text.rpartition("Answer:")
            said = answer.strip() if announced else None
            right = said is not None and tools.math.equal(str(item.gold), said).equal
            yield Sample(
                item=item.id,
                repeat=response.repeat,
                score=float(right),
                extracted=said,
                gold=str(item.gold),
                reason="equal" if right else "not equal",
                truncated=response.truncated,
                missing=said is None,
            )


BENCHMARK = {kind}()
'''


def files_of(name: str, *, python: bool) -> dict[str, str]:
    """File name → content, the definition first. Raises BenchmarkUnusable for an invalid name."""
    if not re.fullmatch(NAME, name):
        raise BenchmarkUnusable(f"{name!r} is no name of a benchmark: begin with a letter, then letters, digits, - _ .")
    stem = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
    data = "".join(json.dumps(item, ensure_ascii=False) + "\n" for item in ITEMS)
    kind = re.sub(r"[^A-Za-z0-9]+", "", name[:1].upper() + name[1:]) + "Benchmark"
    written = (CLASS if python else DEFINITION).format(name=name, stem=stem, kind=kind)
    return {f"{stem}.{'py' if python else 'yaml'}": written, f"{stem}.jsonl": data}
