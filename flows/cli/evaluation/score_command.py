"""`trivet eval score` and `grade`: score recorded answers, stored ones again, and compare predictions with golds."""

from __future__ import annotations

import json
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from io import StringIO
from itertools import tee
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TextIO

import typer

from flows.cli.commands import Flag, Given, Json, Options
from flows.cli.engine import expected_errors, interruptible
from flows.cli.evaluation import run_command
from flows.cli.output import DONE_WITH_FAILURES, FAILED, REFUSED, emit, fail, plain_errors
from flows.cli.shared_options import require_file
from tasks.budget import Budget

if TYPE_CHECKING:
    from tasks.evaluation.evaluation_records import Item, Response

FLAGS = run_command.OPTIONS.flags
KS = "Values of k for pass@k. Unset: 1,10,100, as far as there are samples."
MODEL = "Name of the model that answered, for the result."
OPTIONS = Options(
    run_command.OPTIONS.config,
    {
        **{path: FLAGS[path] for path in ("judge.name", "judge.args", "data_dir", "settings.unsafe_code")},
        "settings.limit": Flag(type=float, metavar="N|0.X", callback=run_command.check_limit),
        "settings.ks": FLAGS["settings.ks"]._replace(help=KS),
        "settings.extract": FLAGS["settings.extract"],
        "model.name": FLAGS["model.name"]._replace(shown="recorded", help=MODEL),
    },
)
ROWS = (
    "JSONL file of {id, response}, {id, responses: one per repeat}, {id, turns: one per turn} or {task_id, completion}."
)


def score(
    given: Given,
    responses: Annotated[Path | None, typer.Argument(help=ROWS)] = None,
    task: Annotated[
        str | None, typer.Option(help="The benchmark that was answered; with --run: only this benchmark.")
    ] = None,
    run: Annotated[
        str | None, typer.Option(metavar="ID", help="Grade the stored answers of this run again, and show old and new.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "--output-path", help="File for the JSON; samples are written beside it.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Score recorded answers; nothing is generated, and nothing is written to the database.

    A terminal gets a table; a pipe or a file gets the JSON, as with --json.
    """
    from flows.running.evaluation_flags import judge_of, ks_of
    from tasks.evaluation.results.finding_runs import find_run
    from tasks.evaluation.results.results_file import refuse_output
    from tasks.evaluation.running.planning import RunSettings
    from tasks.evaluation.running.rescoring import score_again
    from tasks.resources import artifacts, evaluations
    from tasks.sandbox.bubblewrap import refuse_unsafe

    as_json = as_json or not sys.stdout.isatty()
    left = "nothing is told before all answers are graded, run the same command again"
    with expected_errors(), interruptible(left=left):
        if given["settings.unsafe_code"]:
            refuse_unsafe()
        judge = given["judge.name"] or "auto"
        grading: dict[str, Any] = {
            "ks": ks_of(given["settings.ks"]),
            "extract": given["settings.extract"] or RunSettings().extract,
            "unsafe_code": bool(given["settings.unsafe_code"]),
            "judge": judge_of(judge, given["judge.args"]),
        }
        if run is not None:
            grading |= {"judge": None} if judge == "auto" else {}
            rescored = score_again(find_run(run, evaluations()), artifacts(), task=task, **grading)
            emit(rescored, as_json, lambda: run_command.show_rescored(rescored))
            return
        if responses is None or task is None:
            fail("give the file of responses and --task NAME, or --run ID to grade a run again", REFUSED)
        require_file(responses, "a JSONL file of responses")
        if out:
            refuse_output(out.absolute())
        grading |= {"auto_judge": judge == "auto", "limit": given["settings.limit"], "data_dir": given["data_dir"]}
        grading["model_name"] = given["model.name"] or "recorded"
        _score_first(responses, task, grading, out=out, as_json=as_json)


def _score_first(responses: Path, task: str, grading: dict[str, Any], *, out: Path | None, as_json: bool) -> None:
    """Score a file of responses. grading: arguments of `score_file`."""
    from flows.running.ongoing import EvaluationRun
    from tasks.evaluation.evaluation_records import Sample
    from tasks.evaluation.record_lines import read_shards
    from tasks.evaluation.results.result_rows import write_files
    from tasks.evaluation.results.results_file import content_of
    from tasks.evaluation.running.rescoring import score_file
    from tasks.evaluation.running.shard_grading import left_by_sandbox
    from tasks.resources import artifacts

    judge = grading["judge"] and grading["judge"].model_dump(mode="json")
    asked = {"responses": str(responses), "tasks": [{"task": task}], "auto_judge": grading["auto_judge"]}
    ongoing = EvaluationRun.begin(None, asked | {"judge": judge})
    planned, result = score_file(responses.absolute(), task, artifacts(), **grading)
    ongoing.results.append(result)
    if result.family == "code":
        ongoing.unfinished |= left_by_sandbox(result.task, read_shards(artifacts(), result.samples, Sample))
    report = ongoing.report(planned, spent=Budget())
    emit(content_of(report), as_json, lambda: run_command.show_report(report, kept=False))
    if out:  # after the output, since a disk may be full
        write_files(report, artifacts(), output_path=out.absolute())
    ongoing.end(report)


FIELDS = ("id", "gold", "prediction")


class Case(NamedTuple):
    """A line of the file."""

    id: Any
    gold: str
    prediction: str


class MalformedLine(ValueError):
    """A line that is not {id, gold, prediction}."""


def grade(
    cases: Annotated[Path, typer.Argument(metavar="CASES.jsonl", help="JSONL file: lines {id, gold, prediction}.")],
    kind: Annotated[Literal["math"], typer.Option(help="Kind of answers.")] = "math",
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File for the lines {id, equal, stage}. Unset: stdout.")
    ] = None,
    extract: Annotated[
        Literal["published", "strict", "flexible"],
        typer.Option(help="How predictions are read; published: the last box, as the sources of most benchmarks do."),
    ] = "flexible",
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes for symbolic comparison. Default: half of the processors.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of lines.")] = False,
) -> None:
    """Compare predictions with gold answers: bare, in $…$, \\(…\\) or \\boxed{…}, or whole responses."""
    from tasks.grading.math.math_grader import MathGrader, grade_against
    from tasks.grading.reading import Rule

    del kind  # math is the only kind so far
    if out and out.exists() and cases.exists() and out.samefile(cases):
        fail(f"{out} holds the cases themselves; name another file with --out", REFUSED)
    failed, told = 0, list[dict[str, Any]]()
    with (
        plain_errors(MalformedLine, failed=(OSError,)),
        MathGrader(workers=workers) as grader,
        _writing(out, as_json) as lines,
    ):
        for_ids, for_samples = tee(read_cases(cases))
        answered = (_answered(case) for case in for_samples)
        samples = grade_against(answered, grader, Rule(("last_box",), headline=extract))
        for case, sample in zip(for_ids, samples, strict=True):
            unscored = sample.status == "unscored"
            failed += unscored
            stage = "missing" if sample.missing else "symbolic" if unscored else sample.reason.partition(":")[0]
            graded = {"id": case.id, "equal": None if unscored else bool(sample.score), "stage": stage}
            graded |= {"failed": sample.reason} if unscored else {}
            lines.write(json.dumps(graded) + "\n")
            told += [graded] if as_json else []
    if as_json:
        sys.stdout.write(json.dumps({"verdicts": told}) + "\n")
    if failed:
        fail(f"{failed} comparisons could not be made; their lines say why", DONE_WITH_FAILURES)


def _answered(case: Case) -> tuple[Item, Response, str]:
    """A case as the graders of a benchmark take it."""
    from tasks.evaluation.evaluation_records import Item, Reply, Response

    said = case.prediction.encode("utf-8", "replace").decode()  # JSON may hold halves of surrogate pairs
    return Item(id="", prompts=("",)), Response(item="", turns=(Reply(text=said),)), case.gold


def read_cases(path: Path) -> Iterator[Case]:
    """The cases of a JSONL file. Raises MalformedLine with file and line."""
    try:
        opened = path.open("rb")
    except FileNotFoundError as error:
        raise MalformedLine(f"{path} is not there; give a JSONL file of lines {{id, gold, prediction}}") from error
    with opened as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                yield _case(line, f"{path}:{number}")


def _case(line: bytes, place: str) -> Case:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise MalformedLine(f"{place}: not JSON ({error})") from error
    if not isinstance(value, dict):
        raise MalformedLine(f"{place}: expected an object {{id, gold, prediction}}, found {type(value).__name__}")
    missing = [field for field in FIELDS if field not in value]
    if missing:
        raise MalformedLine(f"{place}: {', '.join(missing)} missing; a line is {{id, gold, prediction}}")
    texts: list[str] = []
    for field in FIELDS[1:]:
        given = value[field]
        if given is None and field == "prediction":
            given = ""
        if isinstance(given, bool) or not isinstance(given, str | int | float):
            raise MalformedLine(f"{place}: `{field}` is {type(given).__name__}, expected a text or a number")
        texts.append(str(given))
    return Case(value["id"], *texts)


@contextmanager
def _writing(out: Path | None, quiet: bool) -> Generator[TextIO]:
    """A stream for the lines: a file, written completely or not at all; else stdout, or nothing where `quiet`."""
    if out is None:
        yield StringIO() if quiet else sys.stdout
        return
    if not out.parent.is_dir():
        fail(f"{out.parent} is not a folder; make it, or write elsewhere", FAILED)
    part = out.with_name(f".{out.name}.part")
    try:
        with part.open("w", encoding="utf-8") as file:
            yield file
        part.replace(out)
    finally:
        part.unlink(missing_ok=True)
