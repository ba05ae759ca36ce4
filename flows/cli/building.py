"""Runs the flows behind `trivet rag index` and `batch`."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from flows.cli.engine import Outcome, prefect_for_a_command, progress_bars, run_flow
from flows.cli.output import plain_errors

if TYPE_CHECKING:
    from flows.cli.placing import TaskRunnerName
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
        return run_flow(placed(build_index, task_runner, cluster), config, Unfinished)


def run_batch(chosen: dict[str, Any], *, quiet: bool) -> Outcome[BatchReport]:
    """Run `answer_batch` here and now. Raises pydantic.ValidationError for options that do not fit."""
    from tasks.rag.errors import Unfinished

    with prefect_for_a_command(_expected_errors(), quiet=quiet):
        from flows.rag import AnswerConfig, answer_batch

        return run_flow(answer_batch, AnswerConfig.model_validate(chosen), Unfinished)


def plan_figures(chosen: dict[str, Any], *, quiet: bool) -> FigurePlan:
    """What describing the figures of a folder would take; asks no model, writes no index."""
    from flows.settings import configure_steps

    configure_steps()
    with _expected_errors(), progress_bars(quiet):
        from flows.rag import IndexConfig
        from models.registry import spelled
        from tasks.rag.indexing.figure_model import figure_model
        from tasks.rag.indexing.figure_planning import plan_folder
        from tasks.resources import artifacts, resources, responses, vision

        config = IndexConfig.model_validate(chosen)
        password = resources().secret(config.password_env) if config.password_env else None
        vlm = figure_model(spelled(config.vlm), config.figures) if config.vlm else None
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
