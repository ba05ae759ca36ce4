"""Tasks as a user names them become a plan."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from storage.artifacts import Artifacts
from storage.evaluated import EvalSettings
from storage.evaluations import Evaluations
from storage.storage_errors import DatabaseUnavailable
from tasks.evaluation.benchmarks.benchmark_registry import find_benchmark
from tasks.evaluation.evaluation_errors import DataUnusable, PreflightFailed
from tasks.evaluation.running.open_models import ModelSpec
from tasks.evaluation.running.planning import EvaluationRequest, Plan, RunSettings, TaskChoice
from tasks.evaluation.running.shard_grading import collect_notes
from tasks.evaluation.running.task_choice import find_earlier_run, find_task, plan_run, select_judge
from tasks.grading.grading_records import Counts
from tests.evaluation.conftest import NOWHERE
from tests.evaluation.sums import plan_of, write_benchmark

SCRIPTED = ModelSpec(backend="scripted", name="m")
GRADER = ModelSpec(backend="openai", name="grader", base_url="http://127.0.0.1:1/v1", api_key_env="MY_KEY")
SAMPLES = Path(__file__).parents[1] / "samples" / "benchmarks"

pytestmark = pytest.mark.usefixtures("here")


def chosen(tasks: list[str], artifacts: Artifacts, *, model: ModelSpec = SCRIPTED, **changed: Any) -> Plan:
    known = changed.pop("known", None)
    named = [TaskChoice(task=task) for task in tasks]
    asked: dict[str, Any] = {"model": model, "tasks": named, "data_dir": SAMPLES} | changed
    return plan_run(EvaluationRequest.model_validate(asked), artifacts, known)


def test_tasks_are_planned_in_their_order(tmp_path: Path, artifacts: Artifacts) -> None:
    own = str(write_benchmark(tmp_path / "own"))
    plan = chosen(["MATH500", own, "IFEval"], artifacts)
    assert [task.task for task in plan.tasks] == ["MATH500", "Sums", "IFEval"]
    assert (plan.model.name, plan.model.backend, plan.harness, plan.skipped) == ("m", "scripted", (), {})


def test_a_task_of_the_harness_is_left_to_it(tmp_path: Path) -> None:
    path = tmp_path / "theirs.yaml"
    path.write_text("task: theirs\ndataset_path: json\n")
    assert find_task(str(path), None) is None


def test_what_has_no_data_is_skipped_by_name_and_the_others_are_asked(tmp_path: Path, artifacts: Artifacts) -> None:
    (tmp_path / "math500.jsonl").write_bytes((SAMPLES / "math500.jsonl").read_bytes())
    (tmp_path / "gsm8k_test.jsonl").write_text("{broken", "utf-8")
    plan = chosen(["MATH500", "WildBench", "GSM8K", "SWEbench", "mix_eval"], artifacts, data_dir=tmp_path)
    assert [task.task for task in plan.tasks] == ["MATH500"]
    words = {"SWEbench": "container", "MixEvalChoice": "multiple-choice.json of mix_eval/data", "GSM8K": "not JSON"}
    assert plan.lacking.keys() == words.keys() | {"WildBench"}
    assert all(word in plan.lacking[name] for name, word in words.items())


def test_a_family_of_evalchemy_is_all_its_benchmarks(artifacts: Artifacts) -> None:
    plan = chosen(["MultiPLE"], artifacts)
    assert [task.task for task in plan.tasks] == ["MultiPLE-js", "MultiPLE-sh"]
    assert "MultiPLE-cpp" in plan.lacking


def test_an_odd_row_is_left_out_by_name_and_a_file_of_odd_rows_refused(tmp_path: Path, artifacts: Artifacts) -> None:
    rows = [
        {"question_id": n, "question": "?", "options": ["a", "b"], "answer": "A", "category": "x"} for n in range(4)
    ]
    for odd, ok in ((1, True), (3, False)):
        odd_rows = [row | {"options": ["a"]} for row in rows[:odd]]
        lines = "".join(json.dumps(row) + "\n" for row in odd_rows + rows[odd:])
        (tmp_path / "mmlu_pro.jsonl").write_text(lines, "utf-8")
        if ok:
            (task,) = chosen(["MMLUPro"], artifacts, data_dir=tmp_path).tasks
            assert (task.count, list(task.left_out)) == (3, ["0"])
            (note,) = collect_notes(task, Counts(items=3, samples=3, scored=3))
            assert note.startswith("1 items of the data are left out (0: ")
        else:
            with pytest.raises(
                DataUnusable, match=r"3 of 4 items cannot be used \(.*expected 2 to 26 options, found 1\)"
            ):
                chosen(["MMLUPro"], artifacts, data_dir=tmp_path)


@pytest.mark.parametrize(
    ("judge", "auto", "backend", "name", "base_url"),
    [
        (None, True, "openai", "gpt-4-0613", None),
        (GRADER, True, "openai", "gpt-4-0613", "http://127.0.0.1:1/v1"),
        (GRADER, False, "openai", "grader", "http://127.0.0.1:1/v1"),
        (SCRIPTED, False, "scripted", "m", None),
    ],
)
def test_the_judge_is_the_benchmarks_own_unless_one_is_named(
    judge: ModelSpec | None, auto: bool, backend: str, name: str, base_url: str | None
) -> None:
    found = select_judge(find_benchmark("MTBench"), judge, auto=auto)
    assert found
    assert (found.backend, found.name, found.base_url) == (backend, name, base_url)


def recorded(folder: Path, repeats: int) -> ModelSpec:
    rows = [{"id": n, "responses": [str(2 * n)] * repeats} for n in range(3)]
    (folder / "Sums.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return ModelSpec(backend="replay", name="r", args={"path": str(folder)})


def test_recorded_answers_have_the_repeats_that_they_have(tmp_path: Path, artifacts: Artifacts) -> None:
    own = str(write_benchmark(tmp_path / "own"))
    model = recorded(tmp_path, repeats=4)
    assert chosen([own], artifacts, model=model).tasks[0].repeats == 4
    assert chosen([own], artifacts, model=model, settings=RunSettings(n_repeat=2)).tasks[0].repeats == 2


def test_a_benchmark_that_only_grades_asks_no_model(artifacts: Artifacts) -> None:
    with pytest.raises(PreflightFailed, match=r"TextVQA grades recorded answers and asks no model.*--model replay"):
        chosen(["TextVQA"], artifacts)


class Known:
    """Has one run, of one set of settings."""

    def __init__(self, digest: str) -> None:
        self.digest = digest
        self.asked: list[dict[str, str]] = []

    def evaluated_before(self, **asked: str) -> str | None:
        self.asked.append(asked)
        return "run-1" if asked["settings_digest"] == self.digest else None


def test_what_was_evaluated_before_is_skipped(tmp_path: Path, artifacts: Artifacts) -> None:
    own = write_benchmark(tmp_path / "own")
    task = plan_of(own, artifacts)
    known = Known(EvalSettings(name=task.task, parameters=task.settings).digest)
    plan = chosen([str(own), "MATH500"], artifacts, known=cast("Evaluations", known))
    assert (plan.skipped, [task.task for task in plan.tasks]) == ({"Sums": "run-1"}, ["MATH500"])
    assert known.asked[0] == {
        "model_name": "m",
        "model_revision": "",
        "backend": "scripted",
        "dataset_name": "Sums",
        "dataset_checksum": task.data.checksum,
        "settings_digest": EvalSettings(name=task.task, parameters=task.settings).digest,
    }


def test_a_database_that_is_away_knows_nothing(tmp_path: Path, artifacts: Artifacts) -> None:
    away = Evaluations(lambda: NOWHERE)
    with pytest.raises(DatabaseUnavailable):
        away.runs()
    task = plan_of(write_benchmark(tmp_path / "own"), artifacts)
    assert find_earlier_run(task, chosen(["MATH500"], artifacts).model, away) is None
