"""pass@k against numbers worked by hand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.evaluation.evaluation_records import Estimate, Sample
from tasks.grading.code.code_grading import summarise_code


def drawn(item: str, scores: Iterable[float | None], *, group: str | None = None) -> list[Sample]:
    """A sample for each score; None is one that could not be graded."""
    return [
        Sample(
            item=item,
            repeat=repeat,
            group=group,
            **({"score": score} if score is not None else {"status": "unscored", "reason": "sandbox: no pids"}),  # pyright: ignore[reportArgumentType]
        )
        for repeat, score in enumerate(scores)
    ]


FIVE = [*drawn("a", [1, 0, 0, 1, 0]), *drawn("b", [0] * 5)]


def estimated(samples: Sequence[Sample], metric: str, part: str = "", *, ks: Sequence[int] = ()) -> Estimate:
    [found] = [one for one in summarise_code(samples, ks=ks).estimates if (one.metric, one.part) == (metric, part)]
    return found


@pytest.mark.parametrize(
    ("k", "value"),
    [
        # item a has 2 right of 5: 1 - C(3, k) / C(5, k); item b has none
        (1, (2 / 5 + 0) / 2),
        (2, (1 - 3 / 10 + 0) / 2),
        (3, (1 - 1 / 10 + 0) / 2),
        (4, (1 + 0) / 2),
        (5, (1 + 0) / 2),
    ],
)
def test_pass_at_k_is_the_mean_over_items_of_the_chance_that_one_of_k_is_right(k: int, value: float) -> None:
    assert summarise_code(FIVE, ks=[k]).metrics[f"pass@{k}"] == pytest.approx(value, abs=1e-12)


def test_its_error_is_over_items_and_not_over_samples() -> None:
    found = estimated(FIVE, "pass@2", ks=[2])
    # the items have 0.7 and 0: a standard deviation of 0.7 / √2, over the root of 2 items
    assert (found.n, found.std_err) == (2, pytest.approx(0.35))
    assert (found.low, found.high) == (0, pytest.approx(0.7))


@pytest.mark.parametrize(
    ("fewest", "fitting"),
    [(1, ["pass@1"]), (9, ["pass@1"]), (10, ["pass@1", "pass@10"]), (100, ["pass@1", "pass@10", "pass@100"])],
)
def test_the_usual_k_are_there_when_every_item_has_as_many(fewest: int, fitting: list[str]) -> None:
    metrics = summarise_code([*drawn("a", [1] * 100), *drawn("b", [0] * fewest)]).metrics
    assert list(metrics) == [*fitting, "num_total"]


def test_of_several_languages_pythons_is_the_headline_and_the_others_are_parts() -> None:
    samples = [
        *drawn("HumanEval/0", [1, 0], group="python"),
        *drawn("HumanEval/1", [1, 1], group="python"),
        *drawn("HumanEval_0_x", [0], group="sh"),
        *drawn("js/HumanEval_0_x", [None], group="js"),
    ]
    summary = summarise_code(samples, ks=[1, 2])
    assert summary.metrics == {
        "pass@1": pytest.approx((0.5 + 1 + 0) / 3),
        "js_pass@1": None,
        "python_pass@1": 0.75,
        "python_pass@2": 1.0,
        "sh_pass@1": 0.0,
        "num_total": 4,
        "num_unscored": 1,
        "k_left_out": {
            "pass@2": "HumanEval_0_x has 1 scored sample",
            "sh_pass@2": "HumanEval_0_x has 1 scored sample",
        },
    }
    assert [(one.metric, one.part, one.value, one.n) for one in summary.estimates] == [
        ("pass@1", "", 0.5, 3),
        ("python_pass@1", "", 0.75, 2),
        ("python_pass@2", "", 1.0, 2),
        ("pass@1", "group=sh", 0.0, 1),
    ]
    assert [one.metric for one in summary.estimates if one.headline] == ["python_pass@1"]


@pytest.mark.parametrize(
    ("groups", "headline"),
    [
        (["python"], "pass@1"),
        (["py", "sh"], "py_pass@1"),
        (["sh", "js"], "pass@1"),
        (["easy", "python"], "pass@1"),
        (["easy", "hard"], "pass@1"),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, list) else value,
)
def test_the_headline_is_over_all_where_no_language_stands_beside_python(groups: list[str], headline: str) -> None:
    summary = summarise_code([sample for name in groups for sample in drawn(f"of {name}", [1, 0], group=name)])
    [found] = [one for one in summary.estimates if one.headline]
    assert (found.metric, found.part) == (headline, "")


@given(st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=8), min_size=1, max_size=5), st.integers(1, 8))
def test_it_is_the_share_of_draws_of_k_that_hold_a_right_one(items: list[list[int]], k: int) -> None:
    samples = [sample for name, scores in enumerate(items) for sample in drawn(str(name), scores)]
    metrics = summarise_code(samples, ks=[k]).metrics
    if k > min(map(len, items)):
        assert f"pass@{k}" not in metrics
        return
    shares = [1 - comb(scores.count(0), k) / comb(len(scores), k) for scores in items]
    assert metrics[f"pass@{k}"] == pytest.approx(sum(shares) / len(shares))
