"""A night: its suite becomes the configurations of its flows before any begins; its parts are collected as they end."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from flows.running.config_reading import explain_errors
from flows.running.evaluation_config import EvaluateConfig
from flows.running.evaluation_flags import explain_flag, read_evaluation
from flows.running.lever_config import LeverConfig, read_lever_config
from flows.running.rag_config import IndexConfig
from models.model_errors import RequestRefused
from storage.records import Record
from storage.storage_errors import EngineAway, IndexUnusable
from tasks.evaluation import evaluation_errors as of_evaluation
from tasks.evaluation.evaluation_errors import OptionUnusable
from tasks.evaluation.evaluation_records import EvalReport
from tasks.evaluation.yaml_file import read_yaml
from tasks.keys import content_key
from tasks.lever import lever_errors as of_lever
from tasks.lever.learning.lever_results import LeverReport
from tasks.nightly.night_records import Failure, IndexRun, ModelRun, SelectorRun, SuiteUnusable
from tasks.nightly.suite import Suite, SuiteModel
from tasks.rag import rag_errors as of_rag
from tasks.rag.indexing.index_report import IndexReport
from tasks.resources import results
from tasks.sandbox.sandbox_records import LanguageUnavailable, UnsafeCodeRefused
from tasks.step import Gathered

RESULTS, SELECTOR = "results", "selector"
"""Folders below the output of a suite: results files of models, and files of the selector."""
log = logging.getLogger(__name__)
R = TypeVar("R")
Part = TypeVar("Part", bound=Record)
LASTING = (
    *(of_evaluation.OptionUnusable, of_evaluation.UnknownTask, of_evaluation.BenchmarkUnusable),
    *(of_evaluation.DataUnusable, of_evaluation.PreflightFailed, of_evaluation.NeedsLogLikelihood),
    *(of_lever.OptionUnusable, of_lever.DatasetUnusable, of_lever.FileUnusable),
    *(of_lever.PoolTooSmall, of_lever.RewardUnusable, of_rag.FolderUnusable, of_rag.MetadataUnusable),
    *(UnsafeCodeRefused, LanguageUnavailable, RequestRefused, IndexUnusable, ValueError),
)
"""Errors that a retry cannot fix: the suite, its data or its documents must change first."""


@dataclass(frozen=True)
class Planned:
    """The configurations of all flows of a night; None where a suite does without a part."""

    models: dict[str, EvaluateConfig]
    """Label of a model → configuration of its evaluation."""
    index: IndexConfig | None
    selector: LeverConfig | None


def plan_of(suite: Suite) -> Planned:
    """Read the configurations of a suite. Raises SuiteUnusable with file and line, and as `read_lever_config` does."""
    models = {model.label: _evaluation_of(model, suite) for model in suite.models}
    index = selector = None
    if suite.index:
        try:
            index = IndexConfig.model_validate(suite.index.build)
        except ValidationError as error:
            why = explain_errors(error).splitlines()[0]
            raise SuiteUnusable(f"{suite.file}, line {suite.index.line}: index: {why}") from error
    if suite.selector:  # the configuration of `trivet lever run --config FILE`, with paths relative to that file
        file = suite.selector.config
        read = read_yaml(file, SuiteUnusable, expected="parameters of a `trivet lever run` as `name: value`").values
        try:
            selector_config = read_lever_config({}, file=file)
        except ValidationError as error:
            why = f"{file.name}: {explain_errors(error).splitlines()[0]}"
            raise SuiteUnusable(f"{suite.file}, line {suite.selector.line}: selector: {why}") from error
        plain = _below_folder(file.parent, selector_config.model_dump())
        if "results" not in read:
            plain["results"] = suite.output / SELECTOR
        selector = LeverConfig.model_validate(plain)
    return Planned(models=models, index=index, selector=selector)


def _evaluation_of(model: SuiteModel, suite: Suite) -> EvaluateConfig:
    """Build a model's evaluation from its flags. Raises SuiteUnusable, which names file and line."""

    def place(name: str) -> str:
        return f"{suite.file}, line {model.lines.get(name, model.line)}"

    for name, value in model.flags.items():
        if why := explain_flag(name, value):
            raise SuiteUnusable(f"{place(name)}: {why}")
    try:
        return read_evaluation(model.flags | {"output_path": suite.output / RESULTS})
    except OptionUnusable as error:
        message = str(error)
        flag = re.match(r"--([\w-]+)", message)
        where = place(flag[1].replace("-", "_") if flag else "")
        raise SuiteUnusable(f"{where}: {model.label}: {message.removeprefix('--')}") from error


def _below_folder(folder: Path, value: Any) -> Any:
    """Return `value` with all its relative paths below `folder`."""
    if isinstance(value, Path):
        return folder / value
    if isinstance(value, dict):
        return {name: _below_folder(folder, item) for name, item in value.items()}
    return value


@dataclass
class Parts:
    """Results and failures of the parts of a night."""

    night: str
    """Flow run ID of the night."""
    models: list[ModelRun] = field(default_factory=list[ModelRun])
    index: IndexRun | None = None
    selector: SelectorRun | None = None
    failures: list[Failure] = field(default_factory=list[Failure])

    def run_once(
        self,
        part_name: str,
        config: BaseModel,
        kind: type[Part],
        child: Callable[[Any], Any],
        convert: Callable[[Any], Part],
    ) -> Part | None:
        """Run a child flow once in a night, and return its report as `convert` makes it; None without a report.

        The result is stored, so that a retry of the night does not run the part again; a partial one is not.
        """
        inputs = {"night": self.night, "what": part_name, "config": config.model_dump(mode="json")}
        key = content_key("nightly part", 1, inputs)
        if record := results().read(key):
            return kind.model_validate_json(record)

        def whole() -> Part:
            part = convert(child(config))
            results().write(key, part.model_dump_json().encode())
            return part

        return self.attempt(part_name, whole, convert)

    def attempt(self, part_name: str, work: Callable[[], R], convert: Callable[[Any], R] | None = None) -> R | None:
        """Return the result of `work`. An error is recorded: None, or what `convert` makes of the report it carries."""
        try:
            return work()
        except Exception as error:  # noqa: BLE001 the night goes on, and its report names this
            log.warning("%s: %s", part_name, error)
            may_pass = not isinstance(error, LASTING) or isinstance(error, EngineAway)  # an IndexUnusable as well
            self.fail(part_name, str(error) or repr(error), may_pass=may_pass)
            report = getattr(error, "report", None)
            return convert(report) if convert and report is not None else None

    def note(self, part_name: str, gathered: Gathered[R]) -> R:
        """Return the result of one step, and record what it left unfinished."""
        for why in gathered.unfinished.values():
            self.fail(part_name, why, may_pass=True)
        return gathered.results[0]

    def fail(self, part_name: str, why: str, *, may_pass: bool = False) -> None:
        self.failures.append(Failure(what=part_name, why=why, may_pass=may_pass))


def model_run(label: str, report: EvalReport) -> ModelRun:
    """Describe a measured model for the report of a night; an unchanged task is that of an earlier run."""
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
    """Describe a refreshed index for the report of a night. run: ID of the night."""
    counts = report.documents
    return IndexRun(
        run=run, generation=report.generation, documents=counts.total, failed=counts.failed, chunks=report.chunks
    )


def selector_run(report: LeverReport) -> SelectorRun:
    return SelectorRun(run=report.run if report.summary else None)
