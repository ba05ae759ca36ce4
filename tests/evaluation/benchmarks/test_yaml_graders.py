"""Scorers that a YAML names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tasks.evaluation.benchmarks.base import BaseBenchmark, Tools
from tasks.evaluation.benchmarks.benchmark_registry import find_benchmark
from tasks.evaluation.evaluation_errors import BenchmarkUnusable
from tasks.evaluation.evaluation_records import Reply, Response
from tasks.evaluation.running.benchmark_data import Data
from tasks.grading.math.math_grader import MathGrader

ROWS = [
    {"question": "The capital of France?", "answer": "Paris", "must": "names one city"},
    {"question": "Of Norway?", "answer": "Oslo", "must": "names one city"},
]


def benchmark(folder: Path, grader: str) -> BaseBenchmark:
    (folder / "own.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    text = f"name: Own\ndata: {{file: own.jsonl}}\nprompt: '{{question}}'\ngold: answer\ngrader: {grader}\n"
    (folder / "own.yaml").write_text(text)
    return find_benchmark(str(folder / "own.yaml"))


def tools() -> Tools:
    return Tools(MathGrader())


def figures(own: BaseBenchmark, said: list[str], with_tools: Tools) -> dict[str, Any]:
    answered = zip(own.items(Data(None)), said, strict=True)
    pairs = ((item, Response(item=item.id, turns=(Reply(text=text),))) for item, text in answered)
    return dict(own.summarise(own.grade(pairs, with_tools)).metrics)


@pytest.mark.parametrize(
    ("grader", "said", "metric", "value"),
    [
        ("{kind: includes}", ["It is Paris.", "Bergen"], "accuracy", 0.5),
        ("{kind: regex, pattern: 'is (\\w+)'}", ["It is Paris.", "It is Oslo"], "accuracy", 1),
        ("{kind: exact}", ["Answer: paris.", "Bergen"], "accuracy", 0.5),
        ("{kind: f1}", ["Paris France", "Oslo"], "f1", (2 / 3 + 1) / 2),
    ],
)
def test_a_scorer_gives_its_figure_and_golds_match_themselves(
    grader: str, said: list[str], metric: str, value: float, tmp_path: Path
) -> None:
    own = benchmark(tmp_path, grader)
    assert figures(own, said, tools())[metric] == pytest.approx(value)
    assert list(own.check(list(own.items(Data(None))), tools())) == []


@pytest.mark.parametrize(
    ("grader", "said"),
    [
        ("{kind: regex}", "a regex grader needs `pattern`"),
        ("{kind: regex, pattern: '('}", "not a regular expression"),
        ("{kind: rubric, rubric: x}", "was removed, as its judge's words were ours"),
        ("{kind: rouge}", "was removed: a YAML task of the lm-evaluation-harness has it"),
    ],
)
def test_a_scorer_without_what_it_needs_is_refused(grader: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(BenchmarkUnusable, match=said):
        benchmark(tmp_path, grader)
