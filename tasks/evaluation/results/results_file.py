"""Writes and reads results: tables of the database, and a file in evalchemy's form with the samples beside it."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, cast

from pydantic import JsonValue, ValidationError

from models.backends import kinds
from storage import files
from storage.artifacts import Artifacts
from storage.evaluated import EvalSettings, Evaluated, Model, Run, Task
from storage.records import Record
from tasks.evaluation.evaluation_errors import OptionUnusable, ResultsUnusable
from tasks.evaluation.evaluation_records import EvalReport, ModelFacts, RunFacts, Sample, TaskResult, mask_secrets
from tasks.evaluation.record_lines import RecordedTask, read_shards
from tasks.evaluation.results.foreign_results import SampleTexts, format_arguments, read_foreign_report

if TYPE_CHECKING:
    from storage.evaluations import Evaluations

UNSAFE = re.compile(r"[^\w.+=@-]+")
"""Matches the characters that a file name may not have."""
NAME_CHARS = 120
"""Most characters of a file name that is made of a model's or a task's name."""
REPORT_KEY = "trivet"
"""Key of the results file under which the whole report stands, beside evalchemy's keys."""
TEXT_FIELDS = ("prompt", "response")
"""Further fields of a line of the samples file: its prompts and replies, turn by turn."""


def write_files(report: EvalReport, artifacts: Artifacts, *, output_path: Path) -> Path:
    """Write the samples of each task, then the results file, and return its path. Raises StorageError.

    output_path: the file if it ends in .json, else the folder of `MODEL/results_TIME.json`.
    """
    path = output_path
    if path.suffix != ".json":
        path = output_path / safe_name(report.run.model.name) / f"results_{_format_time(report)}.json"
    for result in report.results:
        texts_of = RecordedTask(result, artifacts)
        with files.replacing(samples_path(path, report, result.task)) as file:
            for sample in read_shards(artifacts, result.samples, Sample):
                texts = texts_of(sample)
                turns = zip(TEXT_FIELDS, (texts.prompts, texts.replies), strict=True)
                file.write(_encode_json(sample.model_dump() | dict(turns)) + b"\n")
    files.write(path, _encode_json(build_content(report), indent=2) + b"\n")
    return path


def build_content(report: EvalReport) -> dict[str, Any]:
    """Return the content of the results file, as plain JSON without secrets."""
    run = report.run
    seconds = (run.ended_at - run.started_at).total_seconds() if run.ended_at else None
    # pydantic's own JSON cannot hold lone surrogates
    plain = json.loads(json.dumps(report.model_dump(), default=datetime.isoformat))
    plain["run"]["config"] = mask_secrets(plain["run"]["config"])
    plain["run"]["model"]["args"] = mask_secrets(plain["run"]["model"]["args"])
    return {
        "results": report.earlier | {result.task: result.metrics for result in report.results},
        "model_info": {
            "model_name": run.model.name,
            "model_args": mask_secrets(format_arguments(run.model.args)),
            "timestamp": run.started_at.isoformat(),
            "git_hash": run.git_commit,
            "total_evaluation_time": seconds,
        },
        REPORT_KEY: plain,
    }


def refuse_output(output_path: Path) -> None:
    """Refuse a path to which results cannot be written. Raises OptionUnusable."""
    folder = output_path.parent if output_path.suffix == ".json" else output_path
    if folder != output_path and output_path.is_dir():
        raise OptionUnusable(f"--output-path {output_path}: a folder; name a file, or a folder without .json")
    above = next(path for path in (folder, *folder.parents) if path.exists())
    if not above.is_dir():
        raise OptionUnusable(f"--output-path {output_path}: {above} is a file; choose a folder")
    absent = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):  # of a file system that is read-only or full the permissions say nothing
            pass
        for path in absent:
            path.rmdir()  # a run that ends before it has results leaves nothing
    except OSError as error:
        why = f"{folder} cannot be written to ({error.strerror})"
        raise OptionUnusable(f"--output-path {output_path}: {why}; choose another folder") from error


def samples_path(path: Path, report: EvalReport, task: str) -> Path:
    """Return the path of the samples of a task, which is beside the results file."""
    return path.parent / f"samples_{safe_name(task)}_{_format_time(report)}.jsonl"


def safe_name(name: str) -> str:
    """Return `name` as a file name, cut at NAME_CHARS: `org/model` becomes `org__model`; `model` if it is empty."""
    # without points before it: neither hidden nor `..`
    return UNSAFE.sub("_", name.replace("/", "__")).lstrip(".")[:NAME_CHARS] or "model"


def read_results(path: Path) -> EvalReport:
    """Return the report in a results file of ours, of evalchemy or of lm_eval. Raises ResultsUnusable."""
    try:
        content = path.read_bytes()
        data = json.loads(content)
    except OSError as error:
        raise ResultsUnusable(f"{path} cannot be read ({error.strerror}); name a results file") from error
    except (ValueError, RecursionError) as error:
        raise ResultsUnusable(f"{path} is not JSON ({error}); name a results file") from error
    if not isinstance(data, dict):
        raise ResultsUnusable(f"{path} holds no JSON object; name a results file")
    remedy = "the file is not as Trivet wrote it" if REPORT_KEY in data else "name a results file of an evaluation"
    try:
        if REPORT_KEY in data:
            return EvalReport.model_validate(data[REPORT_KEY])
        if not isinstance(cast("dict[str, Any]", data).get("results"), dict):
            raise ResultsUnusable(f"{path} has no `results` by task; {remedy}")
        return read_foreign_report(cast("dict[str, Any]", data), file=path, content=content)
    except ValidationError as error:
        raise ResultsUnusable(f"{path}: {_describe_first_error(error)}; {remedy}") from error


def read_samples(path: Path, task: str) -> Iterator[Sample]:
    """Return the samples of a task beside a results file; none without such a file. Raises ResultsUnusable."""
    return (line.sample for line in read_samples_with_texts(path, task))


def read_samples_with_texts(path: Path, task: str) -> Iterator[SampleTexts]:
    """Yield a task's samples beside a results file with their texts; none without that file. Raises ResultsUnusable."""
    samples_file = samples_path(path, read_results(path), task)
    remedy = "take the file as it was written"
    try:
        with files.reachable(path.parent), samples_file.open("rb") as file:
            for number, line in enumerate(file, start=1):
                place = f"{samples_file}, line {number}"
                try:
                    plain = json.loads(line)
                    if not isinstance(plain, dict):
                        raise ResultsUnusable(f"{place} is not a JSON object; {remedy}")
                    prompts, replies = (plain.pop(name, []) for name in TEXT_FIELDS)
                    yield SampleTexts(Sample.model_validate(plain), prompts, replies)
                except ValidationError as error:
                    raise ResultsUnusable(f"{place}: {_describe_first_error(error)}; {remedy}") from error
                except (ValueError, RecursionError) as error:
                    raise ResultsUnusable(f"{place} is not JSON ({error}); {remedy}") from error
    except FileNotFoundError:
        return


def _encode_json(value: Any, *, indent: int | None = None) -> bytes:
    """Return UTF-8 JSON, escaped to ASCII if it holds a lone surrogate. Raises ValueError for NaN and infinity."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent)
    try:
        return text.encode()
    except UnicodeEncodeError:  # half a surrogate pair, which JSON can only hold as an escape
        return json.dumps(value, ensure_ascii=True, allow_nan=False, indent=indent).encode()


def _format_time(report: EvalReport) -> str:
    """Return the end of the run in the form of file names, which all files of a run share."""
    return f"{report.run.ended_at or report.run.started_at:%Y-%m-%dT%H-%M-%S.%f}"


def _describe_first_error(error: ValidationError) -> str:
    problem = error.errors()[0]
    return f"{'.'.join(map(str, problem['loc']))}: {problem['msg'].lower()}"


def store_run(report: EvalReport, artifacts: Artifacts, evaluations: Evaluations) -> int:
    """Write a run; return how many rows changed. Raises DatabaseUnavailable, MissingArtifact, DamagedArtifact."""
    return store_run_with(report, lambda result: read_shards(artifacts, result.samples, Sample), evaluations)


def store_run_with(
    report: EvalReport, samples: Callable[[TaskResult], Iterable[Sample]], evaluations: Evaluations
) -> int:
    """Write a run to the database, with samples from any source, and return the number of changed rows."""
    changed = evaluations.write_run(build_run_row(report))
    for result in report.results:
        # a transaction for each task
        changed += evaluations.write([build_rows(report, result, partial(samples, result))])
    return changed


def build_rows(report: EvalReport, result: TaskResult, samples: Callable[[], Iterable[Sample]]) -> Evaluated:
    """Return a task of a run as the tables hold it. samples: makes them anew at each call, for a second attempt."""
    artifacts: dict[str, JsonValue] = {
        "samples": [ref.model_dump() for ref in result.samples],
        "items": result.items.model_dump() if result.items else None,
        "responses": [ref.model_dump() for ref in result.responses],
    }
    plain = {name: value for name, value in result.model_dump().items() if name in Task.model_fields}
    return Evaluated(
        run=build_run_row(report),
        dataset=result.data,
        settings=EvalSettings(name=result.task, parameters=result.settings),
        results=result.estimates,
        task=Task(**plain, artifacts=artifacts),
        more_samples=samples,
    )


def build_run_row(report: EvalReport) -> Run:
    """Return a run in the form of the tables, without secrets."""
    run, args = report.run, report.run.model.args
    weights, adapter = args.get("pretrained"), args.get("peft")
    weights = weights if isinstance(weights, str) and run.model.backend in kinds("process") else None
    adapter = adapter if isinstance(adapter, str) else None
    return Run(
        id=run.id,
        kind="benchmark",
        started_at=run.started_at,
        ended_at=run.ended_at,
        status=run.status,
        version=run.version,
        git_commit=run.git_commit,
        environment=run.environment,
        model=Model(
            name=run.model.name,
            revision=run.model.revision,
            backend=run.model.backend,
            is_external=run.model.backend in kinds("endpoint"),
            weights_location=adapter or weights,
            base_model=weights if adapter else None,
        ),
        model_args=mask_secrets(args),
        config=mask_secrets(run.config),
        skipped=report.skipped,
        notes=report.notes,
        calls=run.calls,
        cost=run.cost,
    )


def report_from_rows(run: Run, tasks: Sequence[Evaluated]) -> EvalReport:
    """Return a stored run, without lacking, earlier and regressions. Raises ValueError for a run of an index."""
    if run.model is None:
        raise ValueError(f"run {run.id} measured an index, not a model")
    facts = run.model_dump(include={"id", "started_at", "ended_at", "status", "version", "git_commit", "environment"})
    model = ModelFacts(name=run.model.name, backend=run.model.backend, revision=run.model.revision, args=run.model_args)
    results = [
        TaskResult.model_validate(
            {
                **row.task.model_dump(exclude={"artifacts"}),
                **row.task.artifacts,
                "data": row.dataset,
                "settings": row.settings.parameters,
                "estimates": row.results,
            }
        )
        for row in tasks
        if row.task
    ]
    return EvalReport(
        run=RunFacts(**facts, model=model, config=run.config, calls=run.calls or 0, cost=run.cost),
        results=tuple(results),
        skipped=run.skipped,
        notes=run.notes,
    )


class Imported(Record):
    """A run that was imported from a results file."""

    file: str
    run: str
    model: str
    tasks: tuple[str, ...]
    samples: int
    changed: int
    """New or changed rows; 0: it had been imported before."""
    notes: tuple[str, ...]


def import_all(path: Path, evaluations: Evaluations) -> tuple[list[Imported], dict[str, str]]:
    """Import results files; return the imported runs and, by file of a folder, why it cannot be used.

    Of a folder: results files at any depth, and all its own JSON files. Raises ResultsUnusable for one file or none.
    """
    if not path.is_dir():
        return [_import(path, evaluations)], {}
    files = sorted({*path.glob("*.json"), *path.rglob("results_*.json")})
    if not files:
        raise ResultsUnusable(f"{path} has no results file; name results_TIME.json or the folder it is in")
    imported: list[Imported] = []
    unusable: dict[str, str] = {}
    for file in files:
        try:
            imported.append(_import(file, evaluations))
        except ResultsUnusable as error:
            unusable[str(file)] = str(error)
    return imported, unusable


def _import(path: Path, evaluations: Evaluations) -> Imported:
    """Write a results file's run; return its counts, with notes on samples that are missing. Raises ResultsUnusable."""
    report = read_results(path)
    sample_counts: Counter[str] = Counter()

    def samples(result: TaskResult) -> Iterator[Sample]:
        sample_counts[result.task] = 0  # a database that came back is written to anew
        for sample in read_samples(path, result.task):
            sample_counts[result.task] += 1
            yield sample

    changed = store_run_with(report, samples, evaluations)
    notes = (
        f"{result.task}: {sample_counts[result.task]} of its {result.counts.samples} samples stand beside the file"
        for result in report.results
        if sample_counts[result.task] != result.counts.samples
    )
    return Imported(
        file=str(path),
        run=report.run.id,
        model=report.run.model.name,
        tasks=tuple(result.task for result in report.results),
        samples=sample_counts.total(),
        changed=changed,
        notes=tuple(notes),
    )
