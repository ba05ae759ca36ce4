"""`trivet eval score`: score recorded answers, stored ones again, or predictions beside their golds."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import BaseModel, StrictFloat, StrictInt, StrictStr

from flows.cli.commands import Flag, Json, Options, OptionValues
from flows.cli.engine import interruptible
from flows.cli.eval_run_command import OPTIONS as RUN_OPTIONS
from flows.cli.eval_run_command import check_limit, show_report, show_rescored
from flows.cli.output import DONE_WITH_FAILURES, REFUSED, emit, fail
from flows.cli.shared_options import require_file
from storage.files import write
from tasks.budget import Budget

if TYPE_CHECKING:
    from tasks.evaluation.running.planning import EvaluationRequest
    from tasks.grading.reading import Policy

FLAGS = RUN_OPTIONS.flags
KS = "Values of k for pass@k. Unset: 1,10,100, as far as there are samples."
MODEL = "Name of the model that answered, for the result."
OPTIONS = Options(
    RUN_OPTIONS.config,
    {
        **{path: FLAGS[path] for path in ("judge.name", "judge.args", "data_dir", "settings.unsafe_code")},
        "settings.limit": Flag(type=float, metavar="N|0.X", callback=check_limit),
        "settings.ks": FLAGS["settings.ks"]._replace(help=KS),
        "settings.extract": FLAGS["settings.extract"],
        "model.name": FLAGS["model.name"]._replace(default_text="recorded", help=MODEL),
    },
)
ROWS = (
    "JSONL file of {id, response}, {id, responses: one per repeat}, {id, turns: one per turn} or {task_id, completion}."
)


def score(
    values: OptionValues,
    responses: Annotated[Path | None, typer.Argument(help=ROWS)] = None,
    task: Annotated[
        str | None,
        typer.Option(
            help="The benchmark that was answered, or math for lines of {id, gold, prediction}; with --run: only this "
            "benchmark."
        ),
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
    from tasks.evaluation.running.open_models import ModelSpec
    from tasks.evaluation.running.planning import EvaluationRequest, RunSettings, TaskChoice
    from tasks.evaluation.running.rescoring import score_again
    from tasks.resources import artifacts, evaluations
    from tasks.sandbox.bubblewrap import refuse_unsafe

    as_json = as_json or not sys.stdout.isatty()
    with interruptible(outcome="nothing is told before all answers are graded, run the same command again"):
        if values["settings.unsafe_code"]:
            refuse_unsafe()
        judge = values["judge.name"] or "auto"
        settings = RunSettings.model_validate(
            {
                "limit": values["settings.limit"],
                "ks": ks_of(values["settings.ks"]),
                "extract": values["settings.extract"],
                "unsafe_code": bool(values["settings.unsafe_code"]),
            }
        )
        judge_spec = judge_of(judge, values["judge.args"])
        if run is not None:
            new_judge = None if judge == "auto" else judge_spec
            stored_run = find_run(run, evaluations())
            rescored = score_again(stored_run, artifacts(), task=task, judge=new_judge, settings=settings)
            emit(rescored, as_json, lambda: show_rescored(rescored))
            return
        if responses is None or task is None:
            fail("give the file of responses and --task NAME, or --run ID to grade a run again", REFUSED)
        require_file(responses, "a JSONL file of responses")
        if task == PAIRS:
            _grade_pairs(responses, extract=values["settings.extract"] or "flexible", out=out, as_json=as_json)
            return
        if out:
            refuse_output(out.absolute())
        request = EvaluationRequest(
            model=ModelSpec(
                backend="replay", name=values["model.name"] or "recorded", args={"path": str(responses.absolute())}
            ),
            tasks=(TaskChoice(task=task),),
            data_dir=values["data_dir"],
            settings=settings,
            judge=judge_spec,
            auto_judge=judge == "auto",
        )
        _score_responses(request, out=out, as_json=as_json)


def _score_responses(request: EvaluationRequest, *, out: Path | None, as_json: bool) -> None:
    """Score recorded responses, print the report, write it to `out` if given. Raises what `EvaluationRun.end` does."""
    from flows.running.run_state import EvaluationRun
    from tasks.evaluation.evaluation_records import Sample
    from tasks.evaluation.record_lines import read_shards
    from tasks.evaluation.results.results_file import build_content, write_files
    from tasks.evaluation.running.rescoring import score_file
    from tasks.evaluation.running.shard_grading import find_unfinished
    from tasks.resources import artifacts

    judge = request.judge and request.judge.model_dump(mode="json")
    settings = {"responses": request.model.args["path"], "tasks": [{"task": request.tasks[0].task}]}
    run_state = EvaluationRun.begin(None, settings | {"auto_judge": request.auto_judge, "judge": judge})
    planned, result = score_file(request, artifacts())
    run_state.results.append(result)
    if result.family == "code":
        run_state.unfinished |= find_unfinished(result.task, read_shards(artifacts(), result.samples, Sample), ())
    report = run_state.report(planned, spent=Budget())
    emit(build_content(report), as_json, lambda: show_report(report))
    if out:  # after the output, since a disk may be full
        write_files(report, artifacts(), output_path=out.absolute())
    run_state.end(report)


PAIRS = "math"
"""Value of `--task` for files whose lines bring their own gold answers."""


class Case(BaseModel):
    """A line of the file: a prediction and the gold answer that it is compared with."""

    id: Any
    gold: StrictStr | StrictInt | StrictFloat
    prediction: StrictStr | StrictInt | StrictFloat | None


def _grade_pairs(file: Path, *, extract: Policy, out: Path | None, as_json: bool) -> None:
    """Compare predictions, which may be bare, in $…$, \\(…\\) or \\boxed{…}, or whole responses, with gold answers."""
    from tasks.evaluation.evaluation_records import Item, Reply, Response
    from tasks.grading.math.math_grader import grade_against, shared_grader
    from tasks.grading.reading import Rule

    cases: list[Case] = []
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            try:
                cases += [Case.model_validate(json.loads(line))] if line.strip() else []
            except (ValueError, RecursionError) as error:  # the latter: JSON that nests too deep
                fail(f"{file}:{number}: expected {{id, gold, prediction}}: {error}", REFUSED)
    answered: list[tuple[Item, Response, str]] = []
    for case in cases:
        text = str("" if case.prediction is None else case.prediction)
        turn = Reply(text=text.encode("utf-8", "replace").decode())  # JSON may hold halves of surrogate pairs
        answered.append((Item(id="", prompts=("",)), Response(item="", turns=(turn,)), str(case.gold)))
    verdicts: list[dict[str, Any]] = []
    samples = grade_against(answered, shared_grader(), Rule(("last_box",), headline=extract))
    for case, sample in zip(cases, samples, strict=True):
        unscored = sample.status == "unscored"
        stage = "missing" if sample.missing else "symbolic" if unscored else sample.reason.partition(":")[0]
        verdict = {"id": case.id, "equal": None if unscored else bool(sample.score), "stage": stage}
        verdicts.append(verdict | ({"failed": sample.reason} if unscored else {}))
    equal = sum(bool(verdict["equal"]) for verdict in verdicts)
    emit({"verdicts": verdicts}, as_json, lambda: typer.echo(f"{equal:,} of {len(verdicts):,} are equal"))
    if out:
        write(out.absolute(), "".join(f"{json.dumps(verdict)}\n" for verdict in verdicts).encode())
    if failed := sum(verdict["equal"] is None for verdict in verdicts):
        fail(f"{failed} comparisons could not be made; their lines say why", DONE_WITH_FAILURES)
