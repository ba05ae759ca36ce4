"""`trivet eval score`: recorded answers are graded, and stored ones are graded again by today's grader."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.cli.commands import Json
from flows.cli.evaluation import show_eval_run
from flows.cli.evaluation.run_command import EvalCommand
from flows.cli.output import REFUSED, emit, fail
from flows.cli.shared_options import require_file

if TYPE_CHECKING:
    from tasks.evaluation.running.rescoring import Rescored


def register(app: typer.Typer) -> None:
    """Add `score` to `trivet eval`."""
    app.command("score", cls=EvalCommand)(score)


def score(
    responses: Annotated[
        Path | None,
        typer.Argument(
            help="JSONL: {id, response}, or responses: repeats, or turns: turns of one answer; {task_id, completion}."
        ),
    ] = None,
    task: Annotated[
        str | None, typer.Option(help="The benchmark that was answered; with --run: only this one.")
    ] = None,
    run: Annotated[
        str | None, typer.Option(metavar="ID", help="Grade the stored answers of this run again; old beside new.")
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(envvar="TRIVET_DATA_DIR", help="Folder of the benchmarks' data. Unset: loaded from the hub."),
    ] = None,
    model_name: Annotated[str, typer.Option(help="Who answered, as the result names it.")] = "recorded",
    annotator_model: Annotated[
        str, typer.Option(metavar="auto|NAME", help="Model that grades open answers; auto: the benchmark's own choice.")
    ] = "auto",
    annotator_args: Annotated[
        str, typer.Option(metavar="K=V,…", help="What opens that model: base_url=…,api_key_env=…")
    ] = "",
    out: Annotated[
        Path | None,
        typer.Option("--out", "--output-path", help="Write the JSON here; samples go beside it."),
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="First items only.")] = None,
    k: Annotated[
        str | None,
        typer.Option(metavar="N,…", help="Values of k for pass@k. Unset: 1,10,100, as far as there are samples."),
    ] = None,
    unsafe_code: Annotated[
        bool, typer.Option("--unsafe-code", help="Run programs that models write without a sandbox.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Score answers that exist; nothing is generated, and nothing is written to the database.

    A terminal gets a table; a pipe or a file gets the JSON, as with --json.
    """
    from flows.cli.engine import interruptible
    from flows.cli.evaluation.run_command import expected_errors
    from tasks.evaluation.results.results_file import refuse_output

    as_json = as_json or not sys.stdout.isatty()
    left = "nothing is told before all answers are graded, run the same command again"
    with expected_errors(), interruptible(left=left):
        judge: dict[str, Any] = {"annotator": annotator_model, "annotator_args": annotator_args}
        programs = _programs(k, unsafe_code=unsafe_code)
        if run is not None:
            rescored = _again(run, task, judge, programs)
            emit(rescored, as_json, lambda: show_eval_run.rescored(rescored))
            return
        if responses is None or task is None:
            fail("give the file of responses and --task NAME, or --run ID to grade a run again", REFUSED)
        require_file(responses, "a JSONL file of responses")
        if out:
            refuse_output(out.absolute())
        _first(responses, task, judge, programs, data_dir, model_name, out, limit, as_json)


def _programs(k: str | None, *, unsafe_code: bool) -> dict[str, Any]:
    """How programs are executed and counted. Raises OptionUnusable, SandboxUnavailable."""
    from flows.cli.evaluation.eval_config import ks_of
    from tasks.sandbox.engines import refuse_unsafe

    if unsafe_code:
        refuse_unsafe()
    return {"ks": ks_of(k), "unsafe_code": unsafe_code}


def _first(
    responses: Path,
    task: str,
    judge: dict[str, Any],
    programs: dict[str, Any],
    data_dir: Path | None,
    model_name: str,
    out: Path | None,
    limit: int | None,
    as_json: bool,
) -> None:
    from flows.cli.evaluation.eval_config import judge_of
    from flows.running.evaluation_run import begin
    from tasks.budget import Budget
    from tasks.evaluation.evaluation_records import Sample
    from tasks.evaluation.record_lines import read_shards
    from tasks.evaluation.results.result_rows import write_files
    from tasks.evaluation.results.results_file import content_of
    from tasks.evaluation.running.rescoring import score_file
    from tasks.evaluation.running.shard_grading import left_by_sandbox
    from tasks.resources import artifacts

    auto, grader = judge["annotator"] == "auto", judge_of(judge["annotator"], judge["annotator_args"])
    asked = {"responses": str(responses), "tasks": [{"task": task}], "auto_judge": auto}
    ongoing = begin(None, asked | {"judge": grader and grader.model_dump(mode="json")})
    planned, result = score_file(
        responses.absolute(),
        task,
        artifacts(),
        data_dir=data_dir,
        model_name=model_name,
        judge=grader,
        auto_judge=auto,
        limit=limit,
        **programs,
    )
    ongoing.results.append(result)
    if result.family == "code":
        ongoing.unfinished |= left_by_sandbox(result.task, read_shards(artifacts(), result.samples, Sample))
    report = ongoing.report(planned, spent=Budget())
    emit(content_of(report), as_json, lambda: show_eval_run.report(report, kept=False))
    if out:  # told before, since a disk may be full
        write_files(report, artifacts(), output_path=out.absolute())
    ongoing.end(report)


def _again(run: str, task: str | None, judge: dict[str, Any], programs: dict[str, Any]) -> Rescored:
    from flows.cli.evaluation.eval_config import judge_of
    from tasks.evaluation.results.finding_runs import find_run
    from tasks.evaluation.running.rescoring import score_again
    from tasks.resources import artifacts, evaluations

    auto = judge["annotator"] == "auto"
    grader = None if auto else judge_of(judge["annotator"], judge["annotator_args"])
    return score_again(find_run(run, evaluations()), artifacts(), task=task, judge=grader, **programs)
