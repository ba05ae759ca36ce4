"""How a run is told in a terminal."""

from __future__ import annotations

import pytest

from flows.cli import eval_run_command as run_command
from flows.cli.output import Screen
from tasks.evaluation.evaluation_records import Counts, Estimate, Sample, Usage
from tasks.evaluation.results.run_comparison import compare
from tasks.evaluation.running.rescoring import RegradedRun, RegradedTask
from tasks.evaluation.running.task_choice import RunEstimate, TaskEstimate
from tests.evaluation.reports import report, task_result


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_command, "screen", Screen(width=200))


def words(line: str) -> list[str]:
    return line.split()


def test_scores_have_intervals_counts_and_notes(capsys: pytest.CaptureFixture[str]) -> None:
    run_command.show_report(report(), name="a1b2c3d4")
    title, head, row, *notes = capsys.readouterr().out.splitlines()
    assert title.strip() == "org/tiny"
    assert words(head) == words("task metric score 95 % interval items samples tokens")
    assert words(row) == words("Sums accuracy_avg 0.500 0.100 – 0.900 2 4 120")
    assert [note.strip() for note in notes] == [
        "Sums: 1 of 4 are unscored",
        "Old: evaluated before, by run 00000000; --overwrite evaluates again",
        "a note",
        "trivet eval show a1b2c3d4",
    ]


def test_a_run_that_is_not_kept_cannot_be_shown(capsys: pytest.CaptureFixture[str]) -> None:
    run_command.show_report(report())
    assert "trivet eval show" not in capsys.readouterr().out


def test_where_nothing_was_scored_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    run_command.show_report(report(task_result(estimates=(), counts=Counts(), usage=Usage())))
    assert words(capsys.readouterr().out.splitlines()[2]) == words("Sums none scored — — · · ·")


@pytest.mark.parametrize(("value", "shown"), [(0.12345, "0.123"), (7.5, "7.500"), (47.123, "47.12"), (-12.5, "-12.50")])
def test_figures_have_as_many_digits_as_they_need(value: float, shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    run_command.show_report(report(task_result(estimates=(Estimate(metric="m", value=value, n=1, headline=True),))))
    assert words(capsys.readouterr().out.splitlines()[2])[2:4] == [shown, "—"]


@pytest.mark.parametrize(
    ("parts", "shown"),
    [
        (("group=js", "group=sh"), ["pass@2", "js pass@1", "js pass@2", "sh pass@1", "sh pass@2"]),
        (("group=js",), ["pass@2"]),
        ((), ["pass@2"]),
    ],
    ids=["two languages", "one language", "none"],
)
def test_programs_have_every_k_and_each_language(
    parts: tuple[str, ...], shown: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    figures = tuple(
        Estimate(metric=f"pass@{k}", part=part, value=0.5, n=3, headline=k == 1 and not part)
        for part in ("", *parts)
        for k in (1, 2)
    )
    run_command.show_report(report(task_result(family="code", estimates=figures, notes=())))
    rows = capsys.readouterr().out.splitlines()[3 : 3 + len(shown)]
    assert [words(row) for row in rows] == [[*words(name), "0.500", "—", "3"] for name in shown]


def test_names_from_outside_neither_format_nor_steer(capsys: pytest.CaptureFixture[str]) -> None:
    run_command.show_report(report(task_result("[red]x[/]\x1b[2J")))
    out = capsys.readouterr().out
    assert "[red]x[/]" in out
    assert "\x1b[2J" not in out


def test_an_estimate_counts_calls_tokens_and_cost(capsys: pytest.CaptureFixture[str]) -> None:
    plain = {"task": "Sums", "items": 30, "repeats": 10, "calls": 300, "stored": 5}
    tokens = {"prompt_tokens": 12_000, "completion_tokens": 9_830_400}
    tasks = tuple(TaskEstimate.model_validate({**plain, **tokens, "cost": cost}) for cost in (98.3, None))
    run_command.show_estimate(RunEstimate(tasks=tasks, harness=("hellaswag",), skipped={"Old": "0123456789"}))
    _, _, priced, unpriced, harness, skipped = capsys.readouterr().out.splitlines()
    assert words(priced) == words("Sums 30 10 300 5 12,000 9,830,400 98.30")
    assert words(unpriced)[-1] == "—"
    assert harness.strip() == "not counted, tasks of the harness: hellaswag"
    assert skipped.strip() == "Old: evaluated before, by run 01234567"


def test_a_rescore_shows_old_beside_new_and_what_changed(capsys: pytest.CaptureFixture[str]) -> None:
    def one(value: float | None):
        figures = () if value is None else (Estimate(metric="accuracy", value=value, n=2, headline=True),)
        return task_result(estimates=figures)

    old = [Sample(item=item, score=1.0) for item in ("a", "b")]
    new = [Sample(item="a", score=1.0), Sample(item="b", score=0.0)]
    changed = RegradedTask(old=one(1.0), new=one(0.5), compared=compare(old, new))
    lost = RegradedTask(old=one(1.0), new=one(None), compared=None)
    run_command.show_rescored(RegradedRun(run="0123456789", tasks=(changed, lost)))
    title, _, first, second, change = capsys.readouterr().out.splitlines()
    assert title.strip() == "run 01234567, graded again"
    assert words(first) == words("Sums accuracy 1.000 0.500 1")
    assert words(second) == words("Sums none scored 1.000 — 0")
    assert change.strip() == "Sums b: 1 → 0"


@pytest.mark.parametrize("others", [("sh",), ("js", "sh")], ids=lambda names: "+".join(names))
def test_python_stands_first_and_each_other_language_below(
    others: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    whole = (
        Estimate(metric="pass@1", value=0.5, n=7),
        Estimate(metric="python_pass@1", value=0.25, n=4, headline=True),
        Estimate(metric="python_pass@2", value=0.3, n=4),
    )
    parts = tuple(Estimate(metric="pass@1", part=f"group={name}", value=0.75, n=3) for name in others)
    run_command.show_report(report(task_result("Programs", family="code", estimates=(*whole, *parts), notes=())))
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[2 : 5 + len(others)]]
    assert rows[0][:3] == ["Programs", "python_pass@1", "0.250"]
    own, of_all = ["python_pass@2", "0.300", "—", "4"], ["pass@1", "0.500", "—", "7"]
    assert rows[1:] == [own, of_all, *([name, "pass@1", "0.750", "—", "3"] for name in others)]
