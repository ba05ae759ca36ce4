"""Parameters of `flows.evaluate`: the Prefect UI draws its form from them, `trivet eval run` its options."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from storage.records import Record
from tasks.budget import Spending
from tasks.evaluation.running.open_models import ModelSpec
from tasks.evaluation.running.planning import Plan, RunSettings, TaskChoice


class EvaluateConfig(Record):
    """Parameters of `evaluate`."""

    model: ModelSpec
    """The model to measure."""
    tasks: tuple[TaskChoice, ...] = Field(min_length=1)
    """Benchmarks by name or path, and tasks of the lm-evaluation-harness."""
    data_dir: Path | None = None
    """Folder of the benchmarks' data. Unset: they are loaded from the hub."""
    include_path: Path | None = None
    """Folder of your own harness tasks, as YAML."""
    output_path: Path = Path("logs")
    """Results file `FILE.json`, or a folder for `MODEL/results_TIME.json`."""
    settings: RunSettings = RunSettings()
    """Settings for all tasks."""
    judge: ModelSpec | None = None
    """Model that grades where a benchmark wants a judge; with `auto_judge` only its endpoint and key are used."""
    auto_judge: bool = True
    """Use the judge that each benchmark names."""
    spending: Spending = Spending()
    """Limits on model calls."""
    save: Literal["file", "database", "both"] = "both"
    """Where results are kept."""
    overwrite: bool = False
    """Evaluate again what was evaluated before under the same settings."""
    data_parallel: int = Field(default=1, ge=1)
    """Number of parts that the items are split into, each a GPU step."""

    @property
    def title(self) -> str:
        """Name of the run in the Prefect UI: `evaluate qwen2.5-7b AIME24,MATH500`."""
        from flows.running.run_reporting import few  # which imports prefect

        return f"evaluate {few([self.model.name or self.model.backend])} {few(task.task for task in self.tasks)}"


def planned_of(config: EvaluateConfig) -> Plan:
    """The tasks of a run, as its step `plan` finds them, whether or not the model can be had here.

    Raises what tasks.evaluation.running.task_choice.choose does, but ModelUnavailable.
    """
    from tasks.evaluation.running.task_choice import choose
    from tasks.resources import artifacts, evaluations

    return choose(
        config.tasks,
        artifacts(),
        model=config.model,
        judge=config.judge,
        auto_judge=config.auto_judge,
        data_dir=config.data_dir,
        include_path=config.include_path,
        settings=config.settings,
        known=None if config.overwrite or config.settings.debug else evaluations(),
        opened=False,
    )
