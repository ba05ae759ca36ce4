"""Parameters of `flows.evaluate`: the Prefect UI draws its form from them, `trivet eval run` its options."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from flows.running.config_reading import FlowConfig
from tasks.budget import Spending
from tasks.evaluation.running.planning import EvaluationRequest


class EvaluateConfig(FlowConfig, EvaluationRequest):
    """Parameters of the flow `evaluate`; the Prefect UI draws its form from them."""

    output_path: Path = Path("logs")
    """Results file `FILE.json`, or a folder for `MODEL/results_TIME.json`."""
    spending: Spending = Spending()
    """Limits on model calls."""
    save: Literal["file", "database", "both"] = "both"
    """Where results are kept."""
    data_parallel: int = Field(default=1, ge=1)
    """Number of parts that the items are split into, each a GPU step."""

    @property
    def title(self) -> str:
        """Name of the run in the Prefect UI: `evaluate qwen2.5-7b AIME24,MATH500`."""
        from flows.running.run_reporting import first_names  # which imports prefect

        model, tasks = self.model.name or self.model.backend, (task.task for task in self.tasks)
        return f"evaluate {first_names([model])} {first_names(tasks)}"
