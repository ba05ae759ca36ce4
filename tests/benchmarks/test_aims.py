"""The table of benchmarks, by hand."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from tests.benchmarks.aims import Row, append_history, draw_history, show_table

AT_MOST = {"work": "search beside a peer", "ours": "ours, ms", "peer": "theirs, ms", "at_most": 2}


@pytest.mark.parametrize(
    ("ours", "met", "failed"),
    [(10.0, "yes", False), (20.0, "yes", False), (21.0, "nearly", False), (30.0, "no", True), (None, "not run", True)],
)
def test_a_ratio_fails_when_it_misses_its_aim_by_more_than_its_noise(
    ours: float | None, met: str, failed: bool
) -> None:
    row = Row.of(AT_MOST, {"ours, ms": ours, "theirs, ms": 10.0})
    assert (row.met, row.failed) == (met, failed)


def test_a_ratio_without_its_peer_was_not_run() -> None:
    assert Row.of(AT_MOST, {"ours, ms": 1.0}).met == "not run"


def test_more_is_better_where_an_aim_is_a_least(capsys: pytest.CaptureFixture[str]) -> None:
    aim = {"work": "recall", "ours": "recall", "at_least": 0.9, "noise": 0}
    show_table([Row.of(aim, {"recall": value}) for value in (0.95, 0.89)])
    assert [line.split()[-1] for line in capsys.readouterr().out.splitlines()[2:]] == ["yes", "no"]


def test_history_keeps_each_run_and_draws_it(tmp_path: Path) -> None:
    for ours in (10.0, 30.0):
        append_history(tmp_path / "history.csv", [Row.of(AT_MOST, {"ours, ms": ours, "theirs, ms": 10.0})])
    draw_history(tmp_path / "history.csv")
    with (tmp_path / "history.csv").open() as lines:
        assert [line["share"] for line in csv.DictReader(lines)] == ["0.500", "1.500"]
    assert (tmp_path / "history.png").read_bytes().startswith(b"\x89PNG")
