"""A small benchmark of programs, judged by a word in them, and samples of it as openai/human-eval writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

PROGRAMS = """
from pathlib import Path

from tasks.evaluation.benchmarks.base import BaseBenchmark
from tasks.evaluation.running.benchmark_data import DataFile
from tasks.evaluation.evaluation_records import Item, Sample
from tasks.grading.code.code_grading import summarise_code


class Programs(BaseBenchmark):
    name = "Programs"
    family = "code"
    files = (DataFile(file="programs.jsonl", beside=str(Path(__file__).parent)),)

    def items(self, data):
        for row in data.rows(self.files[0]):
            yield Item(id=row.id, prompts=("Write it.",), group=row["language"])

    def grade(self, answered, tools):
        for item, response in answered:
            score, broken = float("right" in response.text), "broken" in response.text
            found = {"status": "unscored", "reason": "sandbox: no pids"} if broken else {"score": score}
            yield Sample(item=item.id, repeat=response.repeat, group=item.group, extracted=response.text, **found)

    def summarise(self, samples):
        return summarise_code(samples, ks=self.ks)
"""
RIGHT, WRONG, BROKEN = "    return right\n", "    return 0\n", "    broken\n"


def write_programs(folder: Path) -> Path:
    """`programs.py` and its data: two items of Python and one of a shell."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [("HumanEval/0", "python"), ("HumanEval/1", "python"), ("HumanEval_0_x", "sh")]
    write_lines(folder / "programs.jsonl", *({"task_id": item, "language": language} for item, language in rows))
    path = folder / "programs.py"
    path.write_text(PROGRAMS)
    return path


def samples_of(**programs: list[str]) -> list[dict[str, Any]]:
    """A line for each program, the first ones of all items first: `python_0` is HumanEval/0, `sh_0` HumanEval_0_x."""
    names = {"python_0": "HumanEval/0", "python_1": "HumanEval/1", "sh_0": "HumanEval_0_x"}
    numbered = [(turn, names[item], text) for item, own in programs.items() for turn, text in enumerate(own)]
    return [{"task_id": item, "completion": text} for _, item, text in sorted(numbered, key=lambda one: one[0])]


def write_lines(path: Path, *rows: dict[str, Any]) -> Path:
    """A file of JSONL."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path
