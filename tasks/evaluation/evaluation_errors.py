"""The errors of an evaluation.

EvaluationError
├── OptionUnusable      a flag or a line of the YAML file that cannot be understood
├── UnknownTask         no benchmark or harness task of that name: lists what exists
├── DataMissing         the items of a benchmark are not at hand: says where to get them
├── DataUnusable        a file of items or responses is malformed: names file and line
│   └── OddRow          one row of it cannot be used, and the others can: it is left out by name
├── BenchmarkUnusable   a YAML file or class of the user's own that is not a benchmark: names file and line
├── PreflightFailed     golds do not match themselves, a prompt does not render, no judge: nothing was started
├── NeedsLogLikelihood  a task wants log-probabilities and the backend gives none
├── ResultsUnusable     a results file that cannot be read, or a run that is not there
├── NotKept             the results could not be stored in every place: says where they are
├── TasksFailed         some tasks could not be evaluated; the others are kept
└── Unfinished          some items got no answer or no grade, but may later: the rest is kept and published

Graders and the sandbox have errors of their own: `planning.EXPECTED_ERRORS` holds all three families.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from storage.storage_errors import list_reasons


class EvaluationError(Exception):
    """Root; its text is a full sentence with the remedy."""


class OptionUnusable(EvaluationError):
    """A flag or a line of the YAML file is invalid."""


class UnknownTask(EvaluationError):
    """No benchmark or harness task has that name."""


class DataMissing(EvaluationError):
    """The items of a benchmark are not available."""


class DataUnusable(EvaluationError):
    """A file of items or responses is malformed."""


class OddRow(DataUnusable):
    """One row of a file cannot be used."""


class BenchmarkUnusable(EvaluationError):
    """A YAML file or a class of the user's own is not a valid benchmark."""


class PreflightFailed(EvaluationError):
    """A benchmark fails the checks that precede every run, so nothing was started."""


class NeedsLogLikelihood(EvaluationError):
    """A task needs log-probabilities, and the backend of the model gives none."""


class ResultsUnusable(EvaluationError):
    """A results file cannot be read, or a run is not there."""


class NotKept(EvaluationError):
    """The run is complete, but could not be stored in every place."""

    def __init__(self, why: Sequence[str], *, report: Any, file: str | None, in_database: bool = False) -> None:
        if in_database:
            place = f"the results are in the database{f' and in {file}' if file else ''}"
            remedy = "the same command with --overwrite, once that is mended, asks nothing again"
        elif file:
            place, remedy = f"the results are in {file}", f"`trivet eval import {file}` writes them once that is mended"
        else:
            place = "the figures are nowhere but here; the answers are kept"
            remedy = "run the same command again once that is mended: nothing is asked twice"
        super().__init__(f"{place}; {'; '.join(why)}; {remedy}")
        self.report = report


class TasksFailed(EvaluationError):
    """Some tasks could not be evaluated; `report` holds the others, which are stored."""

    def __init__(self, why: dict[str, str], *, report: Any) -> None:
        super().__init__("; ".join(f"{task} was not evaluated: {reason}" for task, reason in why.items()))
        self.report = report


class Unfinished(EvaluationError):
    """Some items have no answer or grade yet; `report` holds the rest."""

    def __init__(self, items: dict[str, str], *, report: Any) -> None:
        retry = "run the same command again, or retry the run, to ask only for these"
        super().__init__(f"{len(items)} not finished ({list_reasons(items)}); {retry}")
        self.items = items
        self.report = report
