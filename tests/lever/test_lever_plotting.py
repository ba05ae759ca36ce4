"""The pictures of a run."""

from __future__ import annotations

import io
from collections.abc import Sequence

import pytest
from PIL import Image

from storage.records import Ref
from tasks.lever.learning.lever_plots import draw_accuracy, draw_curves
from tasks.lever.learning.selector_comparison import Summary, summarise
from tasks.lever.lever_records import Curve, CurvePoint, SelectorResult, TrainedSelector
from tests.lever.outcomes import result, seed_of

ACCURACIES = {"random": 0.2, "similarity": 0.4, "sft": 0.4, "rce": 0.6, "grpo": 0.8, "oracle": 1.0}


def summary(
    *, seeds: int = 2, shots: Sequence[int] = (1, 2), selectors: Sequence[str] = tuple(ACCURACIES), judge: str = "j"
) -> Summary:
    found: list[SelectorResult] = []
    for count in shots:
        for name in selectors:
            right = round(5 * ACCURACIES.get(name, 0.6))
            found.append(result(name, [1.0] * right + [0.0] * (5 - right), shots=count))
    evaluated = [seed_of(number, {}).model_copy(update={"results": tuple(found)}) for number in range(seeds)]
    named = evaluated[0].conditions.model_copy(update={"judge": judge})
    return summarise([one.model_copy(update={"conditions": named}) for one in evaluated])


def training(*, points: int = 20, **figures: float) -> tuple[TrainedSelector, Curve]:
    curve = [CurvePoint(step=at + 1, epoch=at // 5 + 1, figures={"loss": 1.0} | figures) for at in range(points)]
    validation = {epoch: 0.5 + epoch / 10 for epoch in range(points // 5 + 1)}
    nowhere = Ref(kind="selector", digest="0" * 64, size=0)
    trained = TrainedSelector(stage="grpo", weights=nowhere, curve=nowhere, chosen_epoch=1, validation=validation)
    return trained, Curve(points=tuple(curve))


def assert_png(data: bytes) -> None:
    assert Image.open(io.BytesIO(data)).format == "PNG"


@pytest.mark.parametrize(
    ("seeds", "shots", "selectors"),
    [
        (1, (2,), ("sft",)),
        (1, (2,), ("random", "similarity")),
        (3, (2,), ("grpo, no gate", "random", "oracle")),
        (1, (1, 2, 3, 4), ("random", "grpo")),
        (1, (1,), ("grpo",)),
    ],
    ids=["one alone", "nothing trained", "an ablation", "four shots", "not the trained shots"],
)
def test_what_is_not_there_is_not_drawn(seeds: int, shots: Sequence[int], selectors: Sequence[str]) -> None:
    assert_png(draw_accuracy(summary(seeds=seeds, shots=shots, selectors=selectors)))


def test_an_interval_from_zero_is_drawn() -> None:
    whole = summary(seeds=1, shots=(2,), selectors=("grpo",))
    [score] = whole.figures
    ends = (score.accuracy.model_copy(update={"low": low}) for low in (0.0, score.accuracy.value))
    both = [whole.model_copy(update={"figures": (score.model_copy(update={"accuracy": one}),)}) for one in ends]
    assert draw_accuracy(both[0]) != draw_accuracy(both[1])


@pytest.mark.parametrize("name", ["한국어-모델-7B", r"$\frac{1}$ $x", "\x00\x1b[31m\n", "\ud800", "x" * 10_000, "<b>&"])
def test_any_judge_can_be_named(name: str) -> None:
    assert_png(draw_accuracy(summary(judge=name, seeds=1, shots=(2,), selectors=("sft",))))


@pytest.mark.parametrize(
    "trainings",
    [
        [],
        [training(points=0)],
        [training(points=1)],
        [training(kl=float("nan"), entropy=float("inf"))],
        [training(points=20), training(points=10)],
    ],
    ids=["none", "no update", "one update", "no numbers", "unequal seeds"],
)
def test_any_curve_can_be_drawn(trainings: list[tuple[TrainedSelector, Curve]]) -> None:
    assert_png(draw_curves(trainings, about="x"))
