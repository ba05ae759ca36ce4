from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.evaluation.evaluation_errors import ResultsUnusable
from tasks.evaluation.evaluation_records import Counts, Dataset, Estimate, Sample, TaskResult
from tasks.evaluation.results.run_comparison import compare, find_differences, is_regression
from tasks.measure.estimates import bootstrap, wilson
from tasks.measure.paired_tests import newcombe


def graded(scores: Mapping[str, Sequence[float | None]]) -> list[Sample]:
    return [
        Sample(item=item, repeat=repeat, score=score, extracted=f"{item}:{score:g}", gold=f"{item}:1")
        if score is not None
        else Sample(item=item, repeat=repeat, status="unscored", reason="the judge was away")
        for item, of_item in scores.items()
        for repeat, score in enumerate(of_item)
    ]


def once(right: str, wrong: str) -> list[Sample]:
    """Single answers; a letter is an item."""
    return graded({item: [1] for item in right} | {item: [0] for item in wrong})


def result(**changed: object) -> TaskResult:
    facts: dict[str, object] = {
        "task": "AIME24",
        "version": "1",
        "family": "math",
        "data": Dataset(name="aime24.json", source="x", checksum="a" * 64, count=30),
        "settings": {"sampling": {"temperature": 0.7, "top_p": 1}, "repeats": 10},
        "metrics": {},
        "estimates": (),
        "counts": Counts(),
    }
    return TaskResult.model_validate(facts | changed)


def test_two_runs_by_hand() -> None:
    # ten items: right before abcdef (6), right after abcghij (7); lost d, e, f; gained g, h, i, j
    found = compare(once("abcdef", "ghij"), once("abcghij", "def"))
    assert (found.n, found.before, found.after) == (10, 0.6, 0.7)
    assert found.difference == pytest.approx(0.1)
    assert (found.wins, found.ties, found.losses) == (4, 3, 3)
    # p: 7 flips, 3 or fewer one way: (1 + 7 + 21 + 35) / 128 = 1/2, twice that is 1
    assert (found.p, found.method) == (1.0, "McNemar, exact")
    # Bonett and Price: (5/12 - 4/12) ± 1.96 √((9/12 - (1/12)²) / 12)
    half = 1.959964 * sqrt((9 / 12 - 1 / 144) / 12)
    assert (found.low, found.high) == pytest.approx((1 / 12 - half, 1 / 12 + half))


def test_repeats_are_paired_by_their_mean_over_an_item() -> None:
    # differences -1/2, -1/2, 0, -1: of the eight flips of three items only +++ and --- are as far from zero
    before = graded({"a": (1, 1), "b": (1, 0), "c": (0, 1), "d": (1, 1)})
    after = graded({"a": (1, 0), "b": (0, 0), "c": (1, 0), "d": (0, 0)})
    found = compare(before, after)
    assert (found.n, found.difference, found.p, found.method) == (4, -0.5, 0.25, "sign flips, exact")
    assert (found.low, found.high) == bootstrap([-1, -0.5, -0.5, 0], seed=0)
    assert [(change.item, change.before, change.after) for change in found.worse] == [
        ("d", 1, 0),
        ("a", 1, 0.5),
        ("b", 0.5, 0),
    ]


def test_items_that_only_one_run_has_are_named_and_not_compared() -> None:
    found = compare(once("abx", ""), once("aby", ""))
    assert (found.n, found.only_before, found.only_after) == (2, ("x",), ("y",))


def test_unscored_items_are_named_and_not_compared() -> None:
    found = compare(graded({"a": [1], "b": [None], "c": [1, None]}), graded({"a": [1], "b": [0], "c": [0, 0]}))
    assert (found.n, found.unscored) == (2, ("b",))
    assert (found.before, found.after) == (1, 0.5)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (once("a", ""), once("b", ""), "no item in common"),
        ([], [], "no item in common"),
        (graded({"a": [None]}), once("a", ""), "none of the 1 items that both runs have was scored in both"),
    ],
    ids=["other items", "nothing", "unscored"],
)
def test_runs_without_a_common_item_are_refused(before: list[Sample], after: list[Sample], said: str) -> None:
    with pytest.raises(ResultsUnusable, match=said):
        compare(before, after)


def test_where_lower_is_better_a_drop_is_a_win() -> None:
    found = compare(graded({"a": [9.5], "b": [3]}), graded({"a": [8.5], "b": [3]}), higher_is_better=False)
    assert (found.difference, found.wins, found.losses) == (-0.5, 1, 0)


SCORES = st.dictionaries(
    st.text(max_size=2), st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from([0.0, 0.5, 1.0])), min_size=1
)


@given(SCORES)
def test_turning_two_runs_round_turns_the_difference_round(scores: dict[str, tuple[float, float]]) -> None:
    before = graded({item: [one] for item, (one, _) in scores.items()})
    after = graded({item: [other] for item, (_, other) in scores.items()})
    there, back = compare(before, after), compare(after, before)
    assert (there.difference, there.p, there.wins) == pytest.approx((-back.difference, back.p, back.losses))
    assert there.wins + there.ties + there.losses == there.n == len(scores)
    json.dumps(there.model_dump(mode="json"), allow_nan=False)


def test_what_besides_the_model_differs_is_said() -> None:
    other = result(
        data=Dataset(name="aime24.json", source="x", checksum="b" * 64, count=30),
        version="2",
        judge="gpt-4",
        settings={"sampling": {"temperature": 0.0, "top_p": 1}, "repeats": 10, "limit": 5},
    )
    assert find_differences(result(), result()) == ()
    assert find_differences(result(), other) == (
        "data: aaaaaaaaaaaa and bbbbbbbbbbbb",
        "version: 1 and 2",
        "judge: not set and gpt-4",
        "sampling.temperature: 0.7 and 0.0",
        "limit: not set and 5",
    )


def of(solved: int, n: int, *, higher_is_better: bool = True) -> Estimate:
    low, high = wilson(solved, n)
    return Estimate(metric="m", value=solved / n, low=low, high=high, n=n, higher_is_better=higher_is_better)


@pytest.mark.parametrize(
    ("new", "last", "worse"),
    [
        (of(50, 100), of(80, 100), True),
        (of(80, 100), of(50, 100), False),
        (of(78, 100), of(80, 100), False),
        (of(80, 100, higher_is_better=False), of(50, 100, higher_is_better=False), True),
        (Estimate(metric="m", value=1, n=1), Estimate(metric="m", value=9, n=1), False),
    ],
    ids=["drop", "rise", "by chance", "lower is better", "no interval"],
)
def test_a_drop_beyond_chance_is_a_regression(new: Estimate, last: Estimate, worse: bool) -> None:
    up = new.higher_is_better
    assert is_regression(new.value - last.value, newcombe(new, last), higher_is_better=up) is worse


def test_pairing_shows_a_drop_that_two_intervals_hide() -> None:
    before, after = once("abcdefghijklmnopqrst", "uvwxyz"), once("ghijklmnopqrst", "abcdefuvwxyz")
    assert not is_regression(-6 / 26, newcombe(of(14, 26), of(20, 26)), higher_is_better=True)
    paired = compare(before, after)
    assert paired.p == 0.03125
    assert is_regression(paired.difference, paired.p, higher_is_better=True)
