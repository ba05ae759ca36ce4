"""`trivet eval export` and `trivet eval import` as a user meets them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from flows.running.settings import configure_steps, settings
from storage import connections
from storage.evaluations import Evaluations
from tasks.evaluation.results.finding_runs import find_run
from tests.command import run_apart, run_here
from tests.evaluation.reports import SAMPLES, report, task_result, write_report

NOWHERE = "postgresql://me@127.0.0.1:9/trivet"


def file(folder: Path, id: str = "a1b2c3d4e5f60718") -> Path:
    made = report(task_result("Sums"), task_result("Terms"), id=id)
    return write_report(made, output_path=folder / f"{id}.json")


def test_a_run_is_exported_for_the_harness(tmp_path: Path) -> None:
    done = run_here("eval", "export", file(tmp_path), "--format", "lm-eval")
    assert json.loads(done.stdout)["results"]["Sums"]["accuracy_avg,none"] == 0.5


@pytest.mark.parametrize(
    ("name", "named"), [("model-card", "trivet eval results --format markdown"), ("pdf", "lm-eval")]
)
def test_another_format_is_refused_with_what_there_is(tmp_path: Path, name: str, named: str) -> None:
    done = run_here("eval", "export", file(tmp_path), "--format", name)
    assert (done.code, named in done.stderr) == (2, True)


@pytest.fixture
def kept() -> Iterator[Evaluations]:
    configure_steps()
    url = connections.locate(None, settings().home)
    yield Evaluations(lambda: url)
    connections.engine(url).dispose()


@pytest.mark.postgres
def test_an_imported_run_is_whole_in_the_database(tmp_path: Path, kept: Evaluations) -> None:
    path = file(tmp_path, "1a9011ed01")
    (told,) = run_here("eval", "import", path, "--json").json["imported"]
    found = find_run("1a9011ed01", kept)
    assert (told["run"], told["samples"], told["notes"]) == ("1a9011ed01", 8, [])
    assert found.report == find_run(str(path), None).report
    assert tuple(found.samples("Terms")) == SAMPLES


@pytest.mark.postgres
def test_a_repeated_import_changes_nothing(tmp_path: Path) -> None:
    path = file(tmp_path, "1a9011ed02")
    first, second = (run_here("eval", "import", path, "--json").json["imported"][0]["changed"] for _ in range(2))
    assert (first > 0, second) == (True, 0)
    assert "everything was there already" in run_here("eval", "import", path).stdout


@pytest.mark.postgres
def test_a_folder_is_imported_and_what_is_no_results_file_is_named(tmp_path: Path, kept: Evaluations) -> None:
    for id in ("1a9011ed03", "1a9011ed04"):
        file(tmp_path, id)
    (tmp_path / "config.json").write_text("{}")
    done = run_here("eval", "import", tmp_path, "--json")
    assert [one["run"] for one in done.json["imported"]] == ["1a9011ed03", "1a9011ed04"]
    assert (done.code, list(done.json["unusable"])) == (3, [str(tmp_path / "config.json")])
    assert kept.run("1a9011ed04").status == "completed"


@pytest.mark.postgres
def test_results_of_evalchemy_are_imported(tmp_path: Path, kept: Evaluations) -> None:
    foreign = {"results": {"AIME24": {"accuracy_avg": 0.5, "num_total": 30}}, "model_info": {"model_name": "deepseek"}}
    (tmp_path / "r.json").write_text(json.dumps(foreign))
    done = run_here("eval", "import", tmp_path / "r.json")
    assert "AIME24, 0 samples" in done.stdout
    assert [score.value for score in kept.scores(models=["deepseek"])] == [0.5]


@pytest.mark.postgres
def test_samples_that_are_not_beside_the_file_are_missed(tmp_path: Path) -> None:
    path = file(tmp_path, "1a9011ed05")
    next(tmp_path.glob("samples_Terms_*")).unlink()
    assert "Terms: 0 of its 4 samples stand beside the file" in run_here("eval", "import", path).stdout


@pytest.mark.parametrize("content", ["{", "{}", "[1]"])
def test_what_cannot_be_imported_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "r.json").write_text(content)
    done = run_here("eval", "import", tmp_path / "r.json")
    assert (done.code, "r.json" in done.stderr) == (2, True)


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    done = run_here("eval", "import", tmp_path)
    assert (done.code, "has no results file" in done.stderr) == (2, True)


def test_an_import_without_a_database_fails(tmp_path: Path) -> None:
    done = run_apart("eval", "import", file(tmp_path), DATABASE_URL=NOWHERE)
    assert (done.code, "127.0.0.1:9" in done.stderr) == (1, True)
