"""`trivet eval results` and `trivet eval compare`, on results files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from flows.cli import app
from flows.running.run_state import EvaluationRun
from tasks.evaluation.evaluation_records import ModelFacts, Sample
from tasks.grading.sample_statistics import summarise_single
from tests.command import Done
from tests.evaluation.reports import report, task_result, write_report


def run(*arguments: object) -> Done:
    done = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["eval", *map(str, arguments)])
    return Done(done.exit_code, done.stdout, done.stderr)


def single(right: str, wrong: str) -> list[Sample]:
    """A letter is an item."""
    return [Sample(item=item, score=float(item in right), extracted=item.upper(), gold="X") for item in right + wrong]


def write(folder: Path, name: str, samples: list[Sample], task: str = "Sums", **changed: object) -> Path:
    """A results file of a model called `name`."""
    summary = summarise_single(samples)
    plain = {"metrics": summary.metrics, "estimates": summary.estimates, "counts": summary.counts, "judge": None}
    result = task_result(task, **(plain | changed))
    made = report(result, id=f"{name:0<16}", model=ModelFacts(name=name, backend="replay"))
    return write_report(made, samples, output_path=folder / name / "results.json")


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    """old is right on a to f, new on a, b, c and g to j; of ten."""
    return write(tmp_path, "old", single("abcdef", "ghij")), write(tmp_path, "new", single("abcghij", "def"))


@pytest.fixture
def drop(tmp_path: Path) -> tuple[Path, Path]:
    """Ten items of twenty became wrong."""
    items = "abcdefghijklmnopqrst"
    return write(tmp_path, "old", single(items, "")), write(tmp_path, "new", single(items[:10], items[10:]))


def test_models_are_ranked_in_a_table(two: tuple[Path, Path]) -> None:
    done = run("results", "--path", two[0].parents[1])
    assert done.code == 0
    assert done.stdout.index("new") < done.stdout.index("old")
    assert "0.700" in done.stdout
    assert "0.397–0.892" in done.stdout  # Wilson, 7 of 10


@pytest.mark.parametrize(
    ("format", "said"),
    [("csv", "Sums,1,new00000"), ("markdown", "| 1 | new | 0.700 |"), ("html", "<!doctype html>")],
)
def test_rankings_come_in_other_forms(two: tuple[Path, Path], tmp_path: Path, format: str, said: str) -> None:
    done = run("results", "--path", two[0].parents[1], "--format", format)
    assert (done.code, done.stderr) == (0, "")
    assert said in done.stdout


def test_json_ranks_each_model(two: tuple[Path, Path]) -> None:
    told = run("results", "--path", two[0].parents[1], "--format", "json").json["scores"]
    assert [(one["rank"], one["model"], one["value"]) for one in told] == [(1, "new", 0.7), (2, "old", 0.6)]


def test_a_ranking_is_written_to_a_file(two: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "page" / "board.html"
    done = run("results", "--path", two[0].parents[1], "--format", "html", "--out", out)
    assert (done.code, done.stdout) == (0, "")
    assert out.read_text().startswith("<!doctype html>")


def test_only_the_last_run_of_the_same_settings_is_ranked(two: tuple[Path, Path]) -> None:
    made = report(task_result(), id="b" * 16, model=ModelFacts(name="new", backend="replay"))
    write_report(made, [], output_path=two[0].parents[1] / "again.json")
    ranked = run("results", "--path", two[0].parents[1], "--format", "json").json["scores"]
    assert [one["model"] for one in ranked].count("new") == 1
    ranked = run("results", "--path", two[0].parents[1], "--format", "json", "--all").json["scores"]
    assert [one["model"] for one in ranked].count("new") == 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--task", "AIME24"), "no result for task AIME24; there are results for Sums"),
        (("--model", "gpt"), "no result for model gpt; there are results for new, old"),
    ],
)
def test_a_name_without_results_lists_what_there_is(
    two: tuple[Path, Path], options: tuple[str, str], said: str
) -> None:
    done = run("results", "--path", two[0].parents[1], *options)
    assert done.code == 2
    assert said in done.stderr


def test_a_folder_without_results_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("[1")
    for path in (tmp_path, tmp_path / "none"):
        done = run("results", "--path", path)
        assert (done.code, done.stdout) == (2, "")
        assert done.stderr.startswith("error: ")


def test_a_file_that_is_no_results_file_costs_a_note(two: tuple[Path, Path]) -> None:
    (two[0].parents[1] / "config.json").write_text("[1")
    done = run("results", "--path", two[0].parents[1])
    assert done.code == 0
    assert "note: " in done.stderr
    assert "config.json" in done.stderr


def test_two_runs_are_compared_by_item(two: tuple[Path, Path]) -> None:
    done = run("compare", *two)
    assert (done.code, done.stderr) == (0, "")
    assert "0.600 → 0.700   B - A +0.100   95 % -0.404 … +0.571" in done.stdout  # as worked by hand in test_comparing
    assert "p = 1.000 (McNemar, exact)   4 better, 3 equal, 3 worse of 10 items" in done.stdout
    assert "became wrong" in done.stdout
    assert "no difference beyond chance" in done.stdout


def test_flips_are_limited_in_words_and_whole_in_json(two: tuple[Path, Path]) -> None:
    assert "became right (2 of 4)" in run("compare", *two, "--flips", 2).stdout
    assert "became" not in run("compare", *two, "--flips", 0).stdout
    (task,) = run("compare", *two, "--json", "--flips", 2).json["tasks"]
    assert [change["item"] for change in task["comparison"]["better"]] == ["g", "h", "i", "j"]
    assert task["comparison"]["worse"][0] == {
        "item": "d", "before": 1.0, "after": 0.0, "answer_before": "D", "answer_after": "D", "gold": "X",
    }  # fmt: skip


def test_a_drop_beyond_chance_fails_when_asked_to(drop: tuple[Path, Path]) -> None:
    done = run("compare", *drop)
    assert done.code == 0
    assert "B is worse" in done.stdout
    assert run("compare", *drop, "--fail-on-regression").code == 1
    assert run("compare", *reversed(drop), "--fail_on_regression").code == 0


def test_other_data_and_settings_are_said_loudly(tmp_path: Path) -> None:
    old = write(tmp_path, "old", single("ab", "c"))
    new = write(tmp_path, "new", single("ab", "c"), settings={"sampling": {"temperature": 0}})
    done = run("compare", old, new)
    assert "not the same sampling.temperature: 0.7 and 0" in done.stdout
    assert "limit" not in done.stdout  # not set is not set


def test_runs_without_a_common_item_or_task_are_refused(tmp_path: Path) -> None:
    one = write(tmp_path, "one", single("ab", "c"))
    other = write(tmp_path, "other", single("x", "y"))
    elsewhere = write(tmp_path, "elsewhere", single("ab", "c"), task="Others")
    for second, said in ((other, "no item in common"), (elsewhere, "no task in common: Sums, and Others")):
        done = run("compare", one, second)
        assert (done.code, done.stdout) == (2, "")
        assert said in done.stderr


def test_a_task_that_a_run_lacks_is_named(two: tuple[Path, Path]) -> None:
    done = run("compare", *two, "--task", "AIME24")
    assert done.code == 2
    assert "has no task AIME24; it has Sums" in done.stderr


def test_what_steers_a_terminal_is_not_printed(tmp_path: Path) -> None:
    evil = [Sample(item="\x1b[31m[bold]", score=0, extracted="\x1b]0;owned\x07[red]", gold="\x00")]
    good = [one.model_copy(update={"score": 1.0}) for one in evil]
    done = run("compare", write(tmp_path, "old", good), write(tmp_path, "new", evil))
    assert done.code == 0
    assert not {"\x1b", "\x07", "\x00"} & set(done.stdout)
    assert "[31m[bold]" in done.stdout


def test_results_are_json_that_any_reader_takes(two: tuple[Path, Path]) -> None:
    told = json.loads(run("compare", *two, "--json").stdout, parse_constant=lambda name: pytest.fail(f"{name} in JSON"))
    assert told["tasks"]


@pytest.mark.postgres
def test_runs_are_found_in_the_database(two: tuple[Path, Path]) -> None:
    from flows.running.settings import configure_steps
    from tasks.evaluation.results.finding_runs import find_run
    from tasks.evaluation.results.results_file import store_run_with
    from tasks.resources import evaluations

    configure_steps()
    for path in two:
        found = find_run(str(path), None)
        store_run_with(found.report, lambda result, found=found: found.samples(result.task), evaluations())
    ranked = run("results", "--model", "old", "--model", "new", "--task", "Sums", "--format", "json").json["scores"]
    assert [(one["rank"], one["model"], one["value"]) for one in ranked] == [(1, "new", 0.7), (2, "old", 0.6)]
    assert run("compare", "old", "new", "--json").json["tasks"] == run("compare", *two, "--json").json["tasks"]


def test_an_address_with_a_password_is_not_kept() -> None:
    kept = EvaluationRun.begin(None, {"model": {"base_url": "http://bob:hunter2@127.0.0.1/v1"}})
    assert "hunter2" not in str(kept.config)
