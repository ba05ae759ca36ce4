"""`trivet eval show` as a user meets it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from flows.running.settings import configure_steps, settings
from storage import connections
from storage.responses import StoredResponse
from tasks import resources
from tasks.evaluation.evaluation_records import EvalReport
from tasks.evaluation.results.results_file import store_run, write_files
from tests.command import run_apart, run_here
from tests.evaluation.reports import KEY, report, task_result, with_artifacts

NOWHERE = "postgresql://me@127.0.0.1:9/trivet"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A run in a results file, whose artifacts are gone."""
    from storage.artifacts import Artifacts

    artifacts = Artifacts(tmp_path / "store")
    made = report(with_artifacts(task_result(), artifacts), with_artifacts(task_result("Terms"), artifacts))
    path = write_files(made, artifacts, output_path=tmp_path / "out" / "r.json")
    (tmp_path / "store").rename(tmp_path / "gone")
    return path


@pytest.fixture(scope="module")
def stored() -> Iterator[EvalReport]:
    """A run in the database, with its artifacts and an answer in the response store."""
    configure_steps()
    made = report(with_artifacts(task_result(), resources.artifacts()), id="5e0a11fe00")
    # other tests of the session keep runs of the usual model in the same database
    shown = made.run.model.model_copy(update={"name": "org/shown"})
    made = made.model_copy(update={"run": made.run.model_copy(update={"model": shown})})
    store_run(made, resources.artifacts(), resources.evaluations())
    answer = StoredResponse(
        backend="openai",
        model="org/tiny",
        request={"messages": [], "temperature": 0.7},
        response={"text": "It is 4.", "finish_reason": "stop", "sent": {"seed": 7}},
        prompt_tokens=10,
        completion_tokens=20,
        latency_s=1.25,
    )
    resources.responses().put_many({KEY: answer})
    yield made
    connections.engine(connections.locate(None, settings().home)).dispose()


def test_a_run_is_shown_with_its_error_bars_and_what_went_wrong(file: Path) -> None:
    shown = run_here("eval", "show", file).stdout
    for words in (
        *("org/tiny@abc", "a1b2c3d4e5f60718", "completed", "took 90.0 s", "commit ffffffffffff"),
        *("accuracy_avg", "0.1 … 0.9", "0.25", "1 unscored", "1 truncated", "1 missing"),
        *("own/sums", "temperature", "4 (1 recalled)", "cost 0.01", "openai:grader", "responses/", "a note"),
        *("Terms", "Old was evaluated before"),
    ):
        assert words in shown


def test_one_task_can_be_shown(file: Path) -> None:
    told = run_here("eval", "show", file, "--task", "Terms", "--json").json
    assert [result["task"] for result in told["results"]] == ["Terms"]


def test_an_item_is_shown_with_why(file: Path) -> None:
    shown = run_here("eval", "show", file, "--task", "Sums", "--item", "2").stdout
    for words in ("What is 2 + 3?", "unscored", "the grader died", "judgment", "[[7]]", "Turn 1", "7.5", "repeat 1"):
        assert words in shown


def test_an_item_without_an_answer_says_so(file: Path) -> None:
    shown = run_here("eval", "show", file, "--task", "Sums", "--item", "1").stdout
    assert "0, truncated, missing" in shown
    assert "(no answer was found)" in shown


def test_control_signs_of_a_model_do_not_reach_the_terminal(file: Path) -> None:
    done = run_here("eval", "show", file, "--task", "Sums", "--item", "2")
    assert "It is 5." in done.stdout
    assert "\x00" not in done.stdout
    told = run_here("eval", "show", file, "--task", "Sums", "--item", "2", "--json").json
    assert told["samples"][1]["sample"]["extracted"] == "5\x00"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--item", "1"), "Sums, Terms each have an item 1; say which with --task Sums|Terms"),
        (("--task", "MBPP"), "no task MBPP; it has Sums, Terms"),
        (("--task", "Sums", "--item", "9"), "no item 9; its items are 1, 2"),
    ],
)
def test_what_is_not_there_is_refused(file: Path, options: tuple[str, ...], says: str) -> None:
    done = run_here("eval", "show", file, *options)
    assert (done.code, says in done.stderr, done.stdout) == (2, True, "")


def test_a_results_file_needs_no_database(file: Path) -> None:
    done = run_apart("eval", "show", file, "--task", "Sums", "--item", "1", "--json", DATABASE_URL=NOWHERE)
    told = done.json["samples"][0]
    assert (told["prompts"], told["replies"]) == (["What is 1 + 3?"], ["It is 4."])


def test_a_database_that_is_away_is_said() -> None:
    done = run_apart("eval", "show", "5e0a11fe00", DATABASE_URL=NOWHERE)
    assert (done.code, "127.0.0.1:9" in done.stderr) == (1, True)


@pytest.mark.postgres
@pytest.mark.parametrize("which", ["5e0a11fe00", "5e0a11", "org/shown"])
def test_a_stored_run_is_found_by_id_beginning_or_model(stored: EvalReport, which: str) -> None:
    assert run_here("eval", "show", which, "--json").json == stored.model_dump(mode="json")


@pytest.mark.postgres
def test_a_stored_item_shows_what_was_asked_sent_and_answered(stored: EvalReport) -> None:
    shown = run_here("eval", "show", "5e0a11", "--item", "1").stdout
    for words in ("Be short.", "What is 1 + 3?", "It is 4.", "number", '{"seed": 7}', KEY, "10 + 20 tokens"):
        assert words in shown


@pytest.mark.postgres
def test_an_unknown_run_is_answered_with_the_latest(stored: EvalReport) -> None:
    done = run_here("eval", "show", "nobody/knows")
    assert (done.code, "the latest are" in done.stderr) == (2, True)
