"""The figures of a task, with everything that a reader needs to trust them."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage.artifacts import Artifacts
from tasks.evaluation.evaluation_records import Counts, Sample, Usage
from tasks.evaluation.record_lines import read_shards, write_lines
from tasks.evaluation.running.generation import Generated
from tasks.evaluation.running.shard_grading import Scored, build_result, collect_notes, measure_coverage
from tests.evaluation.sums import plan_of, task_of, write_benchmark

GENERATED = Generated(shards=(), responses=3, usage=Usage(calls=3, prompt_tokens=9))

ACCURACIES = ("accuracy", "accuracy_strict", "accuracy_flexible")


def scored(artifacts: Artifacts, *samples: Sample, usage: Usage | None = None) -> Scored:
    return Scored(
        samples=write_lines(artifacts, "samples", samples), judge="openai:judge" if usage else None, judge_usage=usage
    )


def right(item: str, score: float = 1.0, *, repeat: int = 0) -> Sample:
    return Sample(item=item, repeat=repeat, score=score, group="even")


def test_figures_are_over_all_shards(tmp_path: Path, artifacts: Artifacts) -> None:
    task = plan_of(write_benchmark(tmp_path / "own"), artifacts)
    shards = [scored(artifacts, right("0"), right("1", 0.0)), scored(artifacts, right("2"))]
    result = build_result(task, GENERATED, shards, artifacts)
    assert result.metrics == {"num_total": 3, "num_solved": 2} | dict.fromkeys(ACCURACIES, pytest.approx(2 / 3))
    assert result.headline
    assert result.headline.value == pytest.approx(2 / 3)
    assert [one.item for one in read_shards(artifacts, result.samples, Sample)] == ["0", "1", "2"]
    assert (result.usage.calls, result.judge, result.judge_usage, result.notes) == (3, None, None, ())
    assert (result.version, result.settings, result.items) == (task.version, task.settings, task.items)


@pytest.mark.parametrize(
    ("counts", "notes"),
    [
        (Counts(items=3, samples=6, scored=6), []),
        (
            Counts(items=2, samples=4, scored=4),
            [
                "4 of 6 have a score, and figures are over them; 2 failed; the score is 0.333 with all of these wrong, "
                "0.667 with all right"
            ],
        ),
        (
            Counts(items=3, samples=6, scored=3, refused=1, too_long=1, unscored=1, truncated=2, missing=1),
            [
                f"3 of 6 have a score, and figures are over them; 1 refused, 1 too long, 1 unscored (b: {'거절' * 80}…)"
                "; the score is 0.333 with all of these wrong, 0.833 with all right",
                "2 of 6 were cut off at max_tokens",
                "1 of 6 hold no answer and get the lowest score",
            ],
        ),
    ],
)
def test_notes_say_what_the_score_does_not(artifacts: Artifacts, counts: Counts, notes: list[str]) -> None:
    task = task_of([], artifacts, count=3, repeats=2)
    lacking = [Sample(item="b", status="unscored", reason="거절" * 81)] if counts.refused else []
    samples = [Sample(item="a", score=1.0), Sample(item="a", score=1.0), *lacking]
    coverage = measure_coverage(6, counts, samples, has_bounds=True)
    assert [*coverage.notes, *collect_notes(task, counts)] == notes
