from __future__ import annotations

import io

import pytest
from PIL import Image

from tasks.evaluation.evaluation_records import Estimate
from tasks.evaluation.results.run_report import plot_results
from tasks.measure.plot_style import Bar, draw
from tests.evaluation.reports import report, task_result

RATING = Estimate(metric="Average", value=6.1, low=5.8, high=6.4, n=80, headline=True)


def test_a_run_is_drawn_as_png() -> None:
    made = plot_results(report(task_result(), task_result("MTBench", estimates=(RATING,))))
    image = Image.open(io.BytesIO(made))
    assert image.format == "PNG"
    assert image.width > 1000


def test_a_run_is_drawn_the_same_each_time() -> None:
    assert plot_results(report()) == plot_results(report())


@pytest.mark.parametrize(
    "name",
    ["한국어-모델-7B", r"$\frac{1}$ $x", "\x00\x1b[31m\n", "\ud800", "x" * 10_000, "", "<b>&", "‮gnp"],
    ids=["Korean", "TeX", "control", "surrogate", "long", "empty", "markup", "bidi"],
)
def test_any_name_can_be_drawn(name: str) -> None:
    bar = Bar(name, name, 0.5, 0.4, 0.6)
    assert draw([bar], title=name).startswith(b"\x89PNG")
