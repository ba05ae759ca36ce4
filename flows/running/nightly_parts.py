"""The parts of a night on its way: what each gave, and what ended it; none of them ends another."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import BaseModel

from models.model_errors import RequestRefused
from storage.records import Record
from storage.storage_errors import IndexUnusable
from tasks.evaluation import evaluation_errors as of_evaluation
from tasks.evaluation.evaluation_records import EvalReport
from tasks.keys import content_key
from tasks.lever import lever_errors as of_lever
from tasks.lever.learning.lever_results import LeverReport
from tasks.nightly.night_records import Failure, IndexRun, ModelRun, SelectorRun
from tasks.rag import rag_errors as of_rag
from tasks.rag.indexing.index_report import IndexReport
from tasks.resources import results
from tasks.sandbox.sandbox_errors import LanguageUnavailable, UnsafeCodeRefused
from tasks.step import Gathered

log = logging.getLogger(__name__)
R = TypeVar("R")
Part = TypeVar("Part", bound=Record)

LASTING = (
    of_evaluation.OptionUnusable,
    of_evaluation.UnknownTask,
    of_evaluation.BenchmarkUnusable,
    of_evaluation.DataUnusable,
    of_evaluation.PreflightFailed,
    of_evaluation.NeedsLogLikelihood,
    of_lever.OptionUnusable,
    of_lever.DatasetUnusable,
    of_lever.FileUnusable,
    of_lever.PoolTooSmall,
    of_lever.RewardUnusable,
    of_rag.FolderUnusable,
    of_rag.MetadataUnusable,
    UnsafeCodeRefused,
    LanguageUnavailable,
    RequestRefused,
    IndexUnusable,
    ValueError,
)
"""What no retry mends: the suite, its data or its documents have to change first."""


@dataclass
class Parts:
    """Gathers what the parts give."""

    night: str
    """Id of the night's run."""
    models: list[ModelRun] = field(default_factory=list[ModelRun])
    index: IndexRun | None = None
    selector: SelectorRun | None = None
    failures: list[Failure] = field(default_factory=list[Failure])

    def once(
        self, what: str, config: BaseModel, kind: type[Part], child: Callable[[], Any], told: Callable[[Any], Part]
    ) -> Part | None:
        """What a child flow gives, as `told` says it; a retry of this night finds the record of one that was whole.

        Of a child that is not whole this is what it has, and None where it has nothing.
        """
        inputs = {"night": self.night, "what": what, "config": config.model_dump(mode="json")}
        key = content_key("nightly part", 1, inputs)
        if record := results().read(key):
            return kind.model_validate_json(record)

        def whole() -> Part:
            part = told(child())
            results().write(key, part.model_dump_json().encode())
            return part

        return self.attempt(what, whole, told)

    def attempt(self, what: str, work: Callable[[], R], told: Callable[[Any], R] | None = None) -> R | None:
        """What `work` gives. Whatever ends it ends nothing else; told: makes something of the report it leaves."""
        try:
            return work()
        except Exception as error:  # noqa: BLE001 the night goes on, and its report names this
            log.warning("%s: %s", what, error)
            self.fail(what, str(error) or repr(error), may_pass=not isinstance(error, LASTING))
            report = getattr(error, "report", None)
            return told(report) if told and report is not None else None

    def note(self, what: str, gathered: Gathered[R]) -> R:
        """The result of one step; what it left unfinished is remembered."""
        for why in gathered.unfinished.values():
            self.fail(what, why, may_pass=True)
        return gathered.results[0]

    def fail(self, what: str, why: str, *, may_pass: bool = False) -> None:
        """A part that is missing, or something of it."""
        self.failures.append(Failure(what=what, why=why, may_pass=may_pass))


def model_run(label: str, report: EvalReport) -> ModelRun:
    """A model, by the runs whose figures count: its own, and earlier ones where nothing had changed."""
    run = report.run
    return ModelRun(
        label=label,
        run=run.id,
        tasks={result.task: run.id for result in report.results} | report.skipped,
        calls=run.calls,
        cost=run.cost,
        seconds=(run.ended_at - run.started_at).total_seconds() if run.ended_at else None,
    )


def index_run(report: IndexReport, *, run: str) -> IndexRun:
    """A refreshed index; run: of the night."""
    counts = report.documents
    return IndexRun(
        run=run, generation=report.generation, documents=counts.total, failed=counts.failed, chunks=report.chunks
    )


def selector_run(report: LeverReport) -> SelectorRun:
    """A trained selector."""
    return SelectorRun(run=report.run if report.summary else None)
