"""A run of the lever as the database and the Prefect UI have it."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence

from storage import evaluated as rows
from storage.artifacts import Artifacts
from tasks.lever.learning.learning_curves import Training, draw_curves
from tasks.lever.learning.lever_report import LeverReport, SeedReport
from tasks.lever.learning.lever_results import rows_of, seed_json
from tasks.lever.learning.selector_comparison import Summary
from tasks.lever.learning.selector_evaluation import Evaluated
from tasks.lever.learning.selector_plot import draw_accuracy, draw_shots
from tasks.lever.lever_records import Curve, Dataset


def record(report: LeverReport, dataset: Dataset, artifacts: Artifacts) -> rows.Evaluated:
    """The rows of a run that was evaluated."""
    assert report.summary
    run = rows.Run(
        id=report.run,
        kind="lever",
        started_at=report.started_at,
        ended_at=report.ended_at,
        status="failed" if report.unfinished else "completed",
        version=report.version,
        git_commit=report.git_commit,
        environment=report.environment,
        config=report.config,
    )

    def evaluated() -> Iterator[Evaluated]:
        return (artifacts.load(Evaluated, one.evaluated) for one in report.seeds if one.evaluated)

    changing = {name: value for name, value in report.config.items() if name not in ("results", "device", "save")}
    return rows_of(
        report.summary, dataset, run=run, evaluated=evaluated, source="official VQA files", settings=changing
    )


def trainings_of(seeds: Sequence[SeedReport], artifacts: Artifacts) -> list[Training]:
    """All trainings of a run."""
    return [
        Training(
            stage=one.stage,
            seed=seed.seed,
            points=artifacts.load(Curve, one.curve).points,
            validation=one.validation,
            chosen_epoch=one.chosen_epoch,
        )
        for seed in seeds
        for one in seed.trained
    ]


def plots_of(summary: Summary, trainings: Sequence[Training]) -> dict[str, bytes]:
    """PNGs by name."""
    drawn = {"accuracy": draw_accuracy(summary), "shots": draw_shots(summary)}
    return drawn | ({"curves": draw_curves(trainings, about=summary.conditions.dataset)} if trainings else {})


def figures_of(summary: Summary) -> dict[str, bytes]:
    """Accuracies in the seed's JSON, and all figures with their intervals, by file name."""
    return {
        "accuracy.json": _json(seed_json(summary)),
        "figures.json": _json(summary.model_dump(mode="json")),
    }


def as_url(png: bytes) -> str:
    """A picture as the Prefect UI takes it."""
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


def _json(value: object) -> bytes:
    return json.dumps(value, indent=2, ensure_ascii=False).encode() + b"\n"
