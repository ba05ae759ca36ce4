"""The results file of a run, in evalchemy's shape with our report in it, and the JSONL files of its samples."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError

from storage import files
from tasks.evaluation.evaluation_errors import OptionUnusable, ResultsUnusable
from tasks.evaluation.evaluation_records import EvalReport, Sample, TaskResult, masked
from tasks.evaluation.record_lines import Texts
from tasks.evaluation.results.foreign_results import arguments, report_of

UNSAFE = re.compile(r"[^\w.+=@-]+")
NAME_CHARS = 120
OURS = "trivet"
JUDGMENTS = ("annotations.json", "_single.jsonl", "_pair.jsonl")
"""Ends of the names of judgments of AlpacaEval and FastChat, which an earlier version imported."""
TEXTS = ("prompt", "response")
"""Further fields of a line of the samples file: the texts turn by turn."""


def write_results(
    report: EvalReport,
    samples: Callable[[TaskResult], Iterable[Sample]],
    *,
    output_path: Path,
    asked: Callable[[TaskResult], Callable[[Sample], Texts]] | None = None,
) -> Path:
    """Write the samples of each task, then the results file; gives its path. Raises StoreUnreachable.

    output_path: the file if it ends in .json, else the folder of `MODEL/results_TIME.json`.
    asked: gives the texts behind the samples of a task.
    """
    path = output_path
    if path.suffix != ".json":
        path = output_path / safe_name(report.run.model.name) / f"results_{_time(report)}.json"
    for result in report.results:
        texts = asked(result) if asked else None
        with files.replacing(samples_path(path, report, result.task)) as file:
            for sample in samples(result):
                item, response = texts(sample) if texts else Texts(None, None)
                said = (list(item.prompts) if item else [], [one.text for one in response.turns] if response else [])
                file.write(_json(sample.model_dump() | dict(zip(TEXTS, said, strict=True))) + b"\n")
    files.write(path, _json(content_of(report), indent=2) + b"\n")
    return path


def content_of(report: EvalReport) -> dict[str, Any]:
    """Content of the results file, as plain JSON without secrets."""
    run = report.run
    seconds = (run.ended_at - run.started_at).total_seconds() if run.ended_at else None
    # pydantic's own JSON cannot hold lone surrogates
    plain = json.loads(json.dumps(report.model_dump(), default=datetime.isoformat))
    plain["run"]["config"] = masked(plain["run"]["config"])
    plain["run"]["model"]["args"] = masked(plain["run"]["model"]["args"])
    return {
        "results": report.earlier | {result.task: result.metrics for result in report.results},
        "model_info": {
            "model_name": run.model.name,
            "model_args": masked(arguments(run.model.args)),
            "timestamp": run.started_at.isoformat(),
            "git_hash": run.git_commit,
            "total_evaluation_time": seconds,
        },
        OURS: plain,
    }


def refuse_output(output_path: Path) -> None:
    """Raises OptionUnusable if results cannot be written there."""
    folder = output_path.parent if output_path.suffix == ".json" else output_path
    if folder != output_path and output_path.is_dir():
        raise OptionUnusable(f"--output-path {output_path}: a folder; name a file, or a folder without .json")
    above = next(path for path in (folder, *folder.parents) if path.exists())
    if not above.is_dir():
        raise OptionUnusable(f"--output-path {output_path}: {above} is a file; choose a folder")
    if not os.access(above, os.W_OK | os.X_OK):
        raise OptionUnusable(f"--output-path {output_path}: {above} may not be written to; choose another folder")


def samples_path(path: Path, report: EvalReport, task: str) -> Path:
    """Path of the samples of a task, beside the results file."""
    return path.parent / f"samples_{safe_name(task)}_{_time(report)}.jsonl"


def safe_name(name: str) -> str:
    """`name` as a file name: `org/model` becomes `org__model`."""
    return UNSAFE.sub("_", name.replace("/", "__")).lstrip(".")[:NAME_CHARS] or "model"


def read_results(path: Path) -> EvalReport:
    """The report in a results file, ours or one of evalchemy or the lm-evaluation-harness. Raises ResultsUnusable."""
    if path.name.endswith(JUDGMENTS):
        why = "the import of judgments of AlpacaEval and FastChat was removed"
        raise ResultsUnusable(f"{path}: {why}; import results files of Trivet, evalchemy or lm_eval")
    data, text = _object(path)
    if OURS in data:
        try:
            return EvalReport.model_validate(data[OURS])
        except ValidationError as error:
            raise ResultsUnusable(f"{path}: {_first(error)}; the file is not as Trivet wrote it") from error
    if not isinstance(data.get("results"), dict):
        raise ResultsUnusable(f"{path} has no `results` by task; name a results file of an evaluation")
    try:
        return report_of(data, file=path, content=text)
    except ValidationError as error:
        raise ResultsUnusable(f"{path}: {_first(error)}; name a results file of an evaluation") from error


def samples_beside(path: Path, task: str) -> Iterator[Sample]:
    """The samples of a task beside a results file; none without such a file. Raises ResultsUnusable."""
    return (sample for sample, _ in lines_beside(path, task))


def lines_beside(path: Path, task: str) -> Iterator[tuple[Sample, dict[str, list[str]]]]:
    """As `samples_beside`, each with its texts under `prompt` and `response`."""
    beside = samples_path(path, read_results(path), task)
    try:
        with files.reachable(path.parent), beside.open("rb") as file:
            for number, line in enumerate(file, start=1):
                yield _read_line(beside, number, line)
    except FileNotFoundError:
        return


def _read_line(file: Path, number: int, line: bytes) -> tuple[Sample, dict[str, list[str]]]:
    try:
        plain = json.loads(line)
        if not isinstance(plain, dict):
            raise ResultsUnusable(f"{file}, line {number} is not a JSON object; take the file as it was written")
        texts = {name: plain.pop(name, []) for name in TEXTS}
        return Sample.model_validate(plain), texts
    except ValidationError as error:
        raise ResultsUnusable(f"{file}, line {number}: {_first(error)}; take the file as it was written") from error
    except (ValueError, RecursionError) as error:
        raise ResultsUnusable(
            f"{file}, line {number} is not JSON ({error}); take the file as it was written"
        ) from error


def _object(path: Path) -> tuple[dict[str, Any], bytes]:
    """The JSON object in a file, and the file's bytes. Raises ResultsUnusable."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise ResultsUnusable(f"{path} cannot be read ({error.strerror}); name a results file") from error
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ResultsUnusable(f"{path} is not JSON ({error}); name a results file") from error
    if not isinstance(data, dict):
        raise ResultsUnusable(f"{path} holds no JSON object; name a results file")
    return cast("dict[str, Any]", data), text


def _json(value: Any, *, indent: int | None = None) -> bytes:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent)
    try:
        return text.encode()
    except UnicodeEncodeError:  # half a surrogate pair, which JSON can only hold as an escape
        return json.dumps(value, ensure_ascii=True, allow_nan=False, indent=indent).encode()


def _time(report: EvalReport) -> str:
    """End of the run in the form used in file names; all files of a run share it."""
    return f"{report.run.ended_at or report.run.started_at:%Y-%m-%dT%H-%M-%S.%f}"


def _first(error: ValidationError) -> str:
    found = error.errors()[0]
    return f"{'.'.join(map(str, found['loc']))}: {found['msg'].lower()}"
