"""A run of the evaluation on its way: what it found, what it could not finish, what could not be kept."""

from __future__ import annotations

import re

import pytest

from flows.running.run_state import EvaluationRun
from flows.running.settings import configure_steps
from storage.storage_errors import DatabaseUnavailable
from tasks import resources
from tasks.budget import Budget
from tasks.evaluation.evaluation_errors import DataMissing, NotKept, Unfinished
from tasks.evaluation.running.open_models import ModelSpec
from tasks.evaluation.running.planning import Plan
from tasks.step import Gathered
from tests.evaluation.reports import report, run_facts, task_result

PLAN = Plan(model=run_facts().model, spec=ModelSpec(backend="scripted"), tasks=(), harness=(), skipped={"Old": "run-1"})


@pytest.fixture(autouse=True)
def _resources() -> None:
    configure_steps()
    resources.forget()


@pytest.mark.parametrize("run", [None, "8b6f4f39-9b0e-4d3c-8a9a-0d0c7a0a3c11"])
def test_a_run_has_an_id_of_32_hex_digits(run: str | None) -> None:
    assert re.fullmatch("[0-9a-f]{32}", EvaluationRun.begin(run, {}).run)


def test_a_whole_run_is_reported_and_ends_in_peace() -> None:
    ongoing = EvaluationRun.begin(None, {"limit": 5})
    ongoing.results += ongoing.note(Gathered([task_result()], {}))
    made = ongoing.report(PLAN, spent=Budget())
    assert ongoing.end(made) is made
    assert (made.results, made.skipped, made.notes) == ((task_result(),), {"Old": "run-1"}, ())
    assert (made.run.status, made.run.config, made.run.model) == ("completed", {"limit": 5}, PLAN.model)
    assert made.run.ended_at
    assert made.run.started_at == ongoing.started <= made.run.ended_at


def unreachable() -> None:
    raise DatabaseUnavailable("the database is away")


def test_what_could_not_be_kept_is_told_with_the_remedy() -> None:
    ongoing = EvaluationRun.begin(None, {})
    assert ongoing.attempt(lambda: 5, "the answer") == 5
    assert ongoing.attempt(unreachable, "the database") is None
    ongoing.written = "/out/r.json"
    with pytest.raises(NotKept) as ended:
        ongoing.end(report())
    assert "results are in /out/r.json" in str(ended.value)
    assert "the database: the database is away" in str(ended.value)
    assert "`trivet eval import /out/r.json`" in str(ended.value)


def test_only_storage_may_be_away() -> None:
    with pytest.raises(ZeroDivisionError):
        EvaluationRun.begin(None, {}).attempt(lambda: 1 / 0, "a bug")


def test_unfinished_items_go_before_what_could_not_be_kept() -> None:
    ongoing = EvaluationRun.begin(None, {})
    ongoing.attempt(unreachable, "the database")
    ongoing.note(Gathered([], {"sum/7": "busy"}))
    with pytest.raises(Unfinished):
        ongoing.end(report())


def test_where_nothing_was_evaluated_the_first_cause_is_told_as_it_is() -> None:
    ongoing = EvaluationRun.begin(None, {})
    ongoing.failed["AIME24"] = DataMissing("no such file")
    with pytest.raises(DataMissing):
        ongoing.end(ongoing.report(PLAN, spent=Budget()))
