"""A night: what changed is indexed, every model of a suite is measured, and a report says what moved beyond noise.

open_suite ─► index (flow) ─► measure_index ──┐
                        ┌──────────────────────┘
                        ▼
              evaluate model 1 (flow) ─► evaluate model 2 (flow) ─► … ─► train selector (flow)
                                                                                   │
collect (database, nights before) ◄────────────────────────────────────────────────┘
   └─► write_files ─► publish_report ─► Completed · CompletedWithFailures · Failed · Regressed

The order is one of dependency, not of the clock. A part that fails ends no other, and *Retry* does only what is
missing: a part that was whole left a record of its runs, and is not begun again.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import cast

from prefect import State, flow
from prefect.runtime import flow_run
from prefect.states import Completed, Failed

from flows.evaluate import evaluate
from flows.lever import post_train
from flows.rag import build_index
from flows.running.answer_models import models_of
from flows.running.config_reading import FlowConfig
from flows.running.environment import git_commit, program, program_version
from flows.running.nightly_plan import Parts, index_run, model_run, plan_of, selector_run
from flows.running.rag_config import IndexConfig
from flows.running.run_reporting import alert, as_part, first_names, watched
from storage.files import sha256_of
from tasks.evaluation.running.open_models import release_models
from tasks.nightly import steps
from tasks.nightly.night_records import (
    IndexRun,
    ModelRun,
    Night,
    NightFailed,
    NightRegressed,
    NightReport,
    NightUnfinished,
    SelectorRun,
    SuiteUnusable,
)
from tasks.nightly.night_report import summarise_night
from tasks.nightly.suite import NightBudget, SuiteIndex
from tasks.resources import artifacts
from tasks.step import gather

OVER_BUDGET = "trivet.night.over-budget"
"""Name of the event of a night that has spent more than its suite allows."""


class NightlyConfig(FlowConfig):
    """Parameters of the flow `nightly`; the Prefect UI draws its form from them."""

    suite: Path
    """YAML file of the suite: models, benchmarks, index, selector. A whole path where a worker runs it."""


@flow(name="nightly", flow_run_name="nightly {config.suite.stem}", version=program(), persist_result=False)
@watched
def nightly(config: NightlyConfig) -> NightReport | State[NightReport]:
    """Run a suite: refresh its index, measure models, train a selector, report what changed. Raises SuiteUnusable."""
    file = config.suite.absolute()
    if not file.is_file():
        raise SuiteUnusable(f"there is no file {file}; name the YAML file of a suite, by its whole path")
    started = steps.begin_night()
    suite = steps.open_suite(file, digest=sha256_of(file))
    planned = plan_of(suite)  # before anything begins: a mistake in the file is one of the night

    parts, budget_alerted = Parts(night=_run_id()), False
    if planned.index and suite.index:
        _refresh_index(suite.index, planned.index, parts, started=started)
    for label, model in planned.models.items():
        child = as_part(evaluate, f"evaluate {label} {first_names(task.task for task in model.tasks)}")
        if measured := parts.run_once(f"model {label}", model, ModelRun, child, partial(model_run, label)):
            parts.models.append(measured)
        release_models()  # the next one needs the device, and the next night may find other weights under its name
        budget_alerted = budget_alerted or _watch_budget(suite.budget, parts, started=started, after=label)
    if selector := planned.selector:
        parts.selector = parts.run_once(
            "selector", selector, SelectorRun, as_part(post_train, selector.title), selector_run
        )
    budget_alerted = budget_alerted or _watch_budget(suite.budget, parts, started=started, after="its last part")

    night = Night(
        run=_run_id(),
        suite=suite.name,
        file=str(suite.file),
        started_at=started,
        ended_at=datetime.now(UTC),
        version=program_version(),
        git_commit=git_commit(),
        models=tuple(parts.models),
        index=parts.index,
        selector=parts.selector.run if parts.selector else None,
        failures=tuple(parts.failures),
    )
    ref = steps.collect(night, nights=suite.nights, rules=suite.regression)
    written = steps.write_files(ref, output=suite.output)
    steps.publish_report(ref, written=sorted(written.files))
    return _end_state(artifacts().load(NightReport, ref))


def _refresh_index(suite_index: SuiteIndex, config: IndexConfig, parts: Parts, *, started: datetime) -> None:
    """Refresh the index and measure it where there are questions; `parts` gets the results and the failures."""
    refreshed = parts.run_once(
        "index", config, IndexRun, as_part(build_index, config.title), partial(index_run, run=_run_id())
    )
    if refreshed is None:
        return
    parts.index = refreshed
    if refreshed.failed:
        why = f"{refreshed.failed} of {refreshed.documents} documents could not be read; see `trivet rag status`"
        parts.fail("index", why)
    if not suite_index.questions:
        return

    def measure() -> str:
        """Return the ID of the run that measured the index with its questions."""
        future = steps.measure_index.submit(
            suite_index,
            index=config.index,
            generation=refreshed.generation,
            run=_run_id(),
            started=started,
            models=models_of(suite_index.llm),
            program=steps.Program(version=program_version(), git_commit=git_commit()),
        )
        return parts.note("index questions", gather([future]))

    parts.index = refreshed.model_copy(update={"measured": parts.attempt("index questions", measure)})


def _watch_budget(budget: NightBudget, parts: Parts, *, started: datetime, after: str) -> bool:
    """Alert that the night has spent more than its budget, of which an automation notifies people; return whether."""
    tokens = 0
    if budget.tokens is not None:
        tokens = parts.attempt("budget", lambda: steps.tokens_since(started, after=after)) or 0
    excess = budget.exceeded(cost=sum(model.cost or 0.0 for model in parts.models), tokens=tokens)
    if excess:
        parts.attempt("budget", partial(alert, OVER_BUDGET, f"{flow_run.name} is {excess}, after {after}."))
    return excess is not None


def _end_state(report: NightReport) -> NightReport | State[NightReport]:
    """Return the report if it is Completed, else a state with its name for automations and a message for people."""
    message = summarise_night(report)
    match report.state:
        case "Completed":
            return report
        case "CompletedWithFailures":
            return Completed(name=report.state, message=message, data=report)
        case "Regressed":
            error = NightRegressed(message, report=report)
        case "Failed":
            passing = any(failure.may_pass for failure in report.failures)
            error = (NightUnfinished if passing else NightFailed)(message, report=report)
    return cast("State[NightReport]", Failed(name=report.state, message=message, data=error))


def _run_id() -> str:
    return str(flow_run.id).replace("-", "")
