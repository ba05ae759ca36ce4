"""Runs the flows behind `trivet rag index` and `batch`."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from flows.cli.engine import Outcome, prefect_for_a_command, progress_bars, run_flow
from flows.cli.output import plain_errors

if TYPE_CHECKING:
    from flows.cli.placing import TaskRunnerName
    from flows.rag import IndexConfig
    from tasks.rag.batching import BatchReport
    from tasks.rag.indexing.figures import FigurePlan
    from tasks.rag.indexing.report import IndexReport


def run_build(
    chosen: dict[str, Any], *, quiet: bool, task_runner: TaskRunnerName | None = None, cluster: str | None = None
) -> Outcome[IndexReport]:
    """Run `build_index` here and now. Raises pydantic.ValidationError for options that do not fit."""
    from tasks.rag.errors import Unfinished

    with prefect_for_a_command(_expected_errors(), quiet=quiet):
        from flows.rag import IndexConfig, build_index
        from flows.runners import placed

        config = IndexConfig.model_validate(chosen)
        _vlm(config)
        return run_flow(placed(build_index, task_runner, cluster), config, Unfinished)


def run_batch(chosen: dict[str, Any], *, quiet: bool) -> Outcome[BatchReport]:
    """Run `answer_batch` here and now. Raises pydantic.ValidationError for options that do not fit."""
    from tasks.rag.errors import Unfinished

    with prefect_for_a_command(_expected_errors(), quiet=quiet):
        from flows.answering import models_of
        from flows.cli.asking import WIRINGS
        from flows.rag import AnswerConfig, answer_batch
        from models.errors import ModelUnavailable

        config = AnswerConfig.model_validate(chosen)
        if config.llm in (None, *WIRINGS):  # any other name was checked as it was typed
            with plain_errors(ModelUnavailable):
                models_of(config.llm)
        return run_flow(answer_batch, config, Unfinished)


def plan_figures(chosen: dict[str, Any], *, quiet: bool) -> FigurePlan:
    """What describing the figures of a folder would take; asks no model, writes no index."""
    from flows.settings import configure_steps

    configure_steps()
    with _expected_errors(), progress_bars(quiet):
        from flows.rag import IndexConfig
        from tasks.rag.indexing.figure_planning import plan_folder
        from tasks.resources import artifacts, resources, responses, vision

        config = IndexConfig.model_validate(chosen)
        password = resources().secret(config.password_env) if config.password_env else None
        vlm = _vlm(config)
        return plan_folder(
            config.documents,
            artifacts(),
            include=config.include,
            exclude=config.exclude,
            settings=config.figures,
            limits=config.limits,
            password=password,
            chat=vision(vlm) if vlm else None,
            responses=responses(),
        )


def _vlm(config: IndexConfig) -> str | None:
    """The vision model by its whole name; ends where it is plain that it cannot be asked."""
    from flows.cli.refusing import refuse_unusable, refused
    from tasks.rag.indexing.figure_model import figure_model

    if config.vlm is None:
        return None
    said = f"--vlm {config.vlm}"
    with refused(said):
        vlm = figure_model(config.vlm, config.figures)
    if vlm:
        refuse_unusable(vlm, said, pictures=True)
    return vlm


@contextmanager
def _expected_errors() -> Generator[None]:
    from flows.runners import ClusterUnusable
    from flows.server import ServerDidNotStart
    from models.errors import ModelError
    from storage.errors import IndexUnusable, StorageError
    from tasks.rag.errors import FolderUnusable, MetadataUnusable, QuestionsUnusable, RagError

    refused = (FolderUnusable, MetadataUnusable, QuestionsUnusable, IndexUnusable)
    with plain_errors(*refused, failed=(RagError, StorageError, ModelError, ServerDidNotStart, ClusterUnusable)):
        yield
