from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.evaluation.benchmarks.base import Summary
from tasks.evaluation.evaluation_records import Counts, Sample
from tasks.grading.math.math_grader import MathGrader
from tasks.grading.sample_statistics import shorten_vote, summarise_repeats, summarise_single, tally_samples


def samples(scores: Mapping[str, Sequence[float | None]], *, group: str | None = None) -> list[Sample]:
    """Items with a score per repeat; None is unscored."""
    return [
        Sample(item=item, repeat=repeat, score=score, group=group)
        if score is not None
        else Sample(item=item, repeat=repeat, status="unscored", reason="the judge was away")
        for item, of_item in scores.items()
        for repeat, score in enumerate(of_item)
    ]


def answered(item: str, *answers: tuple[str | None, float]) -> list[Sample]:
    return [
        Sample(item=item, repeat=repeat, score=score, extracted=text, missing=text is None)
        for repeat, (text, score) in enumerate(answers)
    ]


THREE_REPEATS = {"a": (1, 1, 1), "b": (1, 0, 0), "c": (0, 0, 1), "d": (0, 0, 0)}
"""Right by repeat: 2, 1, 2 of 4."""


def test_figures_over_repeats_are_the_seeds() -> None:
    accuracies = [0.5, 0.25, 0.5]
    metrics = summarise_repeats(samples(THREE_REPEATS)).metrics
    assert {name: metrics[name] for name in ("num_total", "num_repeat")} == {"num_total": 4, "num_repeat": 3}
    assert metrics["solved_avg"] == pytest.approx(5 / 3)
    assert metrics["accuracy_avg"] == pytest.approx(5 / 12)
    assert metrics["accuracy_std_err"] == pytest.approx(np.std(accuracies) / np.sqrt(3))
    assert metrics["accuracy_std_err_sample"] == pytest.approx(np.std(accuracies, ddof=1) / np.sqrt(3))
    assert "num_unscored" not in metrics
    lines = [(2, 0.5), (1, 0.25), (2, 0.5)]
    assert metrics["run_stats"] == [
        {"repetition": repetition, "num_total": 4, "num_solved": solved, "accuracy": accuracy}
        for repetition, (solved, accuracy) in enumerate(lines, start=1)
    ]


def test_one_repeat_has_no_sample_error_over_repeats() -> None:
    metrics = summarise_repeats(samples({"a": (1,), "b": (0,)})).metrics
    assert (metrics["accuracy_std_err"], metrics["accuracy_std_err_sample"]) == (0.0, None)
    assert not [name for name in metrics if name.startswith(("pass@", "maj@"))]


def test_figures_of_a_benchmark_asked_once() -> None:
    summary = summarise_single(samples({"a": (1,), "b": (0,), "c": (1,)}))
    assert summary.metrics == {"num_total": 3, "num_solved": 2, "accuracy": pytest.approx(2 / 3)}
    (headline,) = summary.estimates
    assert (headline.metric, headline.n, headline.headline) == ("accuracy", 3, True)


def test_unscored_samples_are_in_no_mean_and_are_counted() -> None:
    summary = summarise_single(samples({"a": (1,), "b": (None,), "c": (0,)}))
    assert summary.metrics == {"num_total": 3, "num_solved": 1, "accuracy": 0.5, "num_unscored": 1}
    assert summary.counts == Counts(items=3, samples=3, scored=2, unscored=1)
    assert summary.estimates[0].n == 2


def test_items_weigh_the_same_when_some_repeats_are_unscored() -> None:
    summary = summarise_repeats(samples({"a": (1, 1), "b": (0, None)}))
    assert summary.metrics["accuracy_avg"] == summary.estimates[0].value == 0.5
    assert [one["num_total"] for one in summary.metrics["run_stats"]] == [2, 1]  # pyright: ignore


@pytest.mark.parametrize("summarise", [summarise_repeats, summarise_single])
@pytest.mark.parametrize("given", [{}, {"a": (None,), "b": (None,)}], ids=["nothing", "all unscored"])
def test_nothing_scored_is_no_figure(summarise: object, given: dict[str, list[None]]) -> None:
    summary: Summary = summarise(samples(given))  # pyright: ignore
    assert summary.estimates == ()
    assert not [name for name, value in summary.metrics.items() if name.startswith("accuracy") and value is not None]
    json.dumps(summary.metrics, allow_nan=False)


def test_truncated_and_missing_are_counted() -> None:
    graded = [
        Sample(item="a", score=0, missing=True, truncated=True),
        Sample(item="b", score=1, truncated=True),
        Sample(item="c", status="unscored", reason="x", truncated=True, missing=True),
    ]
    assert tally_samples(graded).counts == Counts(items=3, samples=3, scored=2, unscored=1, truncated=3, missing=1)


def test_groups_have_figures_of_their_own() -> None:
    graded = [*samples({"a": (1,), "b": (0,)}, group="대수"), *samples({"c": (1,)}, group="geometry")]
    found = {one.part: (one.value, one.n, one.headline) for one in summarise_single(graded).estimates}
    assert found == {"": (2 / 3, 3, True), "group=geometry": (1, 1, False), "group=대수": (0.5, 2, False)}


def test_pass_at_k_stands_beside_the_accuracy() -> None:
    metrics = summarise_repeats(samples(THREE_REPEATS)).metrics
    # right of three: 3, 1, 1, 0
    assert metrics["pass@1"] == pytest.approx(5 / 12)
    assert metrics["pass@2"] == pytest.approx((1 + 2 / 3 + 2 / 3 + 0) / 4)
    assert metrics["pass@3"] == pytest.approx(3 / 4)


@pytest.mark.parametrize(
    ("repeats", "sizes"),
    [(2, [1, 2]), (4, [1, 2, 4]), (10, [1, 2, 4, 8, 10]), (64, [1, 2, 4, 8, 16, 32, 64])],
)
def test_k_doubles_up_to_all_repeats(repeats: int, sizes: list[int]) -> None:
    metrics = summarise_repeats(samples({"a": [1.0] * repeats, "b": [0.0] * repeats})).metrics
    assert [name for name in metrics if name.startswith("pass@")] == [f"pass@{k}" for k in sizes]


def test_an_item_with_too_few_scored_repeats_is_not_in_pass_at_k() -> None:
    found = summarise_repeats(samples({"a": (1, 0), "b": (1, None)})).estimates
    assert {one.metric: one.n for one in found} == {"accuracy_avg": 2, "pass@1": 2, "pass@2": 1, "maj@2": 1}


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ([("7", 0), ("8", 1), ("8", 1)], 1),
        ([("7", 0), ("7", 0), ("8", 1)], 0),
        ([("8", 1), ("7", 0)], 1),
        ([("7", 0), ("8", 1)], 0),
        ([(None, 0), (None, 0), ("8", 1)], 1),
        ([(None, 0), (None, 0)], 0),
        ([("7", 0), ("$ 8 $", 1), ("8.", 1)], 1),
    ],
    ids=["most", "most are wrong", "tie: first", "tie: first is wrong", "no answer, no vote", "none", "written apart"],
)
def test_the_majority_votes(answers: list[tuple[str | None, float]], expected: float) -> None:
    assert summarise_repeats(answered("a", *answers)).metrics[f"maj@{len(answers)}"] == expected


def test_votes_are_grouped_by_equality_and_not_by_spelling() -> None:
    wrong = [(answer, 0) for answer in ("1/2", "0.5", "\\frac{1}{2}", "50\\%")]
    right = [("2", 1), ("2.0", 1), ("4/2", 1)]
    graded = answered("a", *wrong[:2], *right, *wrong[2:])
    assert summarise_repeats(graded).metrics["maj@7"] == 1  # by spelling, right answers alone are known to be equal
    with MathGrader() as grader:
        found = summarise_repeats(graded, are_equal=lambda one, other: grader.compare(one, other).equal, ks=(1, 4, 8))
    # four votes against three; of the first four, two against two, and the wrong answer appeared first
    assert {name: found.metrics[name] for name in ("maj@7", "cons@4", "cons@1", "avg@1", "avg@4")} == {
        "maj@7": 0,
        "cons@4": 0,
        "cons@1": 0,
        "avg@1": 0,
        "avg@4": 0.5,
    }
    assert found.metrics["pass@4"] == pytest.approx(1 - 1 / 35)  # C(4, 4) / C(7, 4)
    assert found.metrics["k_left_out"] == dict.fromkeys(
        ("pass@8", "cons@8", "avg@8"), "no item has more than 7 scored repeats"
    )


def test_accuracy_under_other_policies_stands_beside_the_headline() -> None:
    graded = samples({"a": (1,), "b": (0,), "c": (0,), "d": (1,)})
    graded[1] = graded[1].model_copy(update={"detail": {"readings": {"flexible": {"extracted": "7", "score": 1.0}}}})
    graded[3] = graded[3].model_copy(update={"detail": {"readings": {"strict": {"extracted": None, "score": 0.0}}}})
    found = summarise_single(graded, policies=("strict", "flexible"))
    assert (found.metrics["accuracy"], found.metrics["accuracy_strict"], found.metrics["accuracy_flexible"]) == (
        0.5,
        0.25,
        0.75,
    )
    assert found.counts.differing == 2
    assert found.notes == (
        "read strict, 1 of 4 items score otherwise (0 higher, 1 lower): d",
        "read flexible, 1 of 4 items score otherwise (1 higher, 0 lower): b",
    )


@pytest.mark.parametrize("answer", ["9" * 10_000_000, "\x00" * 300, "\ud800" * 300], ids=["10 MB", "NUL", "halves"])
def test_a_hostile_answer_is_a_short_vote(answer: str) -> None:
    assert len(shorten_vote(answer) or "") <= 64


@given(st.dictionaries(st.text(max_size=2), st.lists(st.sampled_from([0.0, 1.0, None]), min_size=1, max_size=5)))
def test_every_sample_is_either_scored_or_unscored(given_scores: dict[str, list[float | None]]) -> None:
    summary = summarise_repeats(samples(given_scores))
    assert summary.counts.scored + summary.counts.unscored == summary.counts.samples
    assert sum(one.headline for one in summary.estimates) == bool(summary.counts.scored)
    json.dumps(summary.metrics, allow_nan=False)


def test_samples_are_read_once_and_not_held() -> None:
    def endless() -> Iterable[Sample]:
        for item in range(20_000):
            yield Sample(item=str(item), score=item % 2, extracted="x" * 10_000)

    found = tally_samples(endless())
    assert found.counts.scored == 20_000
    assert max(len(one or "") for of_item in found.votes.values() for one in of_item) <= 64
