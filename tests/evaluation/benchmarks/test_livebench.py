"""LiveBench's rules on questions of our own in the published schema."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from tasks.evaluation.benchmarks.base import Tools
from tasks.evaluation.benchmarks.livebench import BENCHMARK, GRADERS
from tasks.evaluation.evaluation_records import Reply, Response
from tasks.evaluation.running.benchmark_data import Data

DATA = Data(Path(__file__).parents[2] / "samples" / "benchmarks")
NONE: Any = None
TOOLS = Tools(math=NONE)
QUESTION = r"$\textbf{(A) }17\qquad\textbf{(B) }28\qquad\textbf{(C) }42$"


def test_tasks_without_a_grader_are_skipped_by_name(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        groups = [item.group for item in BENCHMARK.items(DATA)]
    assert groups == [
        *("math/math_comp", "math/math_comp", "math/olympiad", "reasoning/web_of_lies_v2", "reasoning/spatial"),
        *("data_analysis/cta", "instruction_following/paraphrase"),
    ]
    assert "math/AMPS_Hard (1), reasoning/zebra_puzzle (1)" in caplog.text


def test_golds_pass_the_check() -> None:
    assert list(BENCHMARK.check(list(BENCHMARK.items(DATA)), TOOLS)) == []


@pytest.mark.parametrize(
    ("kind", "gold", "answer", "score", "read"),
    [
        ("letter", "C", "So it is 42.\n\nCCCCC", 1, "C"),
        ("letter", "C", "<solution>ccccc</solution>", 1, "C"),
        ("letter", "C", "Three times fourteen seats make 42", 1, "C"),
        ("letter", "C", "42 at first, but no: it is the second of them, I think. BBBBB", 0, "B"),
        ("number", "003", "So the remainder is 003.", 1, "003"),
        ("steps", "3,1,2,4", "Answer: 3, 1, 2, 4", 1, "3,1,2,4"),
        ("steps", "3,1,2,4", "**Answer:**\n3,1,4", 0.75, "3,1,4"),
        ("steps", "3,1,2,4", r"\boxed{3,1,4,2}", 0.5, "3,1,4,2"),
        ("cta", "City", " city.", 1, "city."),
        ("web_of_lies_v2", "yes, no, unknown", "**yes, no, unknown**", 1, "yes, no, unknown"),
        ("web_of_lies_v2", "yes, no, unknown", "Ada **yes**, Bo **no**, Cy **unknown**.", 1, "yes, no, unknown"),
        ("web_of_lies_v2", "yes, no, unknown", "no, no, no? It is yes, no, unknown", 1, "yes, no, unknown"),
        ("web_of_lies_v2", "yes, no, unknown", "**yes, yes, no**", 0, "yes, yes, no"),
        ("spatial", "4", "It has **four** pieces.", 1, "4"),
        ("spatial", "triangle", "A **circle, a square and a triangle**", 0, "circle, a square and a triangle"),
        ("spatial", "4", "It has 4 pieces.", 0, None),
    ],
)
def test_answers_are_read_as_the_published_graders_do(
    kind: str, gold: str, answer: str, score: float, read: str | None
) -> None:
    assert GRADERS[kind](answer, gold, QUESTION) == (score, read)


def test_instructions_count_half_by_prompt_and_half_each_and_categories_weigh_the_same() -> None:
    items = list(BENCHMARK.items(DATA))
    answers = ["CCCCC", "?", "Answer: 3,1,2,4", "**no, no, no**", "**4**", "City", "Late, I fear"]
    samples = [
        *BENCHMARK.grade(
            ((i, Response(item=i.id, turns=(Reply(text=a),))) for i, a in zip(items, answers, strict=True)), TOOLS
        )
    ]
    assert [one.score for one in samples] == [1, 0, 1, 0, 1, 1, 0]
    found = BENCHMARK.summarise(samples).metrics
    assert (found["math"], found["reasoning"], found["data_analysis"], found["instruction_following"]) == (
        75,
        50,
        100,
        0,
    )
    assert found["average"] == 56.25
    late = Response(item=items[-1].id, turns=(Reply(text="late, the ferry is"),))
    assert next(BENCHMARK.grade([(items[-1], late)], TOOLS)).score == 0.25
