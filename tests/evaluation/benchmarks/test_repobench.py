"""RepoBench on lines of our own in the published schema."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.evaluation.benchmarks.base import Tools
from tasks.evaluation.benchmarks.repobench import BENCHMARK, extract_next_line
from tasks.evaluation.evaluation_records import Reply, Response
from tasks.evaluation.running.benchmark_data import Data
from tasks.grading.math.math_grader import MathGrader

DATA = Data(Path(__file__).parents[2] / "samples" / "benchmarks")


def test_the_prompt_is_the_repository_then_the_file() -> None:
    assert next(iter(BENCHMARK.items(DATA))).prompts[0] == (
        "# Repo Name: harbour/ferry\n# Path: ferry/zones.py\ndef zone_of(stop):\n    return len(stop)\n\n"
        "# Path: ferry/fares.py\nfrom ferry.zones import zone_of\ndef fare(stop):\n    zone = zone_of(stop)\n"
    )


@pytest.mark.parametrize(
    ("completion", "language", "line"),
    [
        ("\n\n    return 2 * zone\n", "python", "    return 2 * zone"),
        ("# double\n    return 2 * zone", "python", "    return 2 * zone"),
        ('"""\nDoubles.\n"""\nreturn 1', "python", "return 1"),
        ("```python\nreturn 1\n```", "python", "return 1"),
        ("/* doubled\n */\n// so\nreturn 2;", "java", "return 2;"),
        ("# all\n# comments", "python", "# all"),
        ("", "java", ""),
    ],
)
def test_the_first_line_that_is_no_comment_counts(completion: str, language: str, line: str) -> None:
    assert extract_next_line(completion, language) == line


def test_figures_are_percentages_by_language_and_subset() -> None:
    items = list(BENCHMARK.items(DATA))
    # of `return 2 * zone` and `return 3 * zone`, 14 of 15 signs are in common: 93 %
    said = [str(item.gold) for item in items]
    said[0] = said[0].strip().replace("2", "3")
    said[1] = said[1].replace(" * ", "   *  ")
    pairs = [(item, Response(item=item.id, turns=(Reply(text=line),))) for item, line in zip(items, said, strict=True)]
    with MathGrader() as math:
        samples = list(BENCHMARK.grade(pairs, Tools(math)))
    metrics = BENCHMARK.summarise(samples).metrics
    assert [sample.score for sample in samples] == [0, 1, 1, 1, 1, 1]
    assert metrics["python_cross_file_first_EM"] == 0
    assert metrics["python_cross_file_random_EM"] == 100
    assert metrics["java_in_file_ES"] == 100
    assert metrics["weighted_avg_EM"] == pytest.approx(83.33)
    assert samples[0].values["edit_similarity"] == round(100 * 2 * 14 / (15 + 19))
