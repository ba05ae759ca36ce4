"""`trivet eval run`: measure a model on benchmarks, with the options of `python -m eval.eval`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from flows.cli.commands import ConfigCommand, Flag, Json, Options, OptionValues, Settings
from flows.cli.engine import prefect_for_command, progress_bars, run_flow
from flows.cli.output import Screen, emit, harmless, make_table
from flows.cli.shared_options import refuse_unusable_spec
from tasks.evaluation import evaluation_errors as errors

if TYPE_CHECKING:
    from flows.running.evaluation_config import EvaluateConfig
    from tasks.evaluation.evaluation_records import Estimate, EvalReport, TaskResult
    from tasks.evaluation.running.rescoring import RegradedRun
    from tasks.evaluation.running.task_choice import RunEstimate

TEMPLATE_FLAGS = ("--apply_chat_template", "--apply-chat-template")
LISTS = ("--tasks", "-t", "--model_args", "--model-args", "-a", "--gen_kwargs", "--gen-kwargs")
"""Flags that lm_eval takes with several words."""
PAIRS = "K=V,…"
MODEL = (
    "Backend: openai, hf, vllm, curator, replay, scripted or package.module.Class; or a name from the file that "
    "TRIVET_MODELS names."
)
BATCH = "Batch size of a model in this process."
JUDGE = "Model that grades open answers; auto: the benchmark's own choice."
SAME_WEIGHTS = (
    "Trust an endpoint's name: use answers that were stored under it, whatever weights gave them. Unset: it is probed."
)
JUDGE_ARGS = "Arguments that open that model: base_url=…,api_key_env=…"
DEVICE = "Device of a model in this process: cpu, cuda:0 …; unset: a GPU if there is one."


def check_limit(limit: float | None) -> float | None:
    """Return the value of `--limit`: a number of items, or below 1 a share of them. Raises BadParameter."""
    if limit is not None and not (0 < limit < 1 or (limit >= 1 and limit == int(limit))):
        raise typer.BadParameter(f"{limit:g} is neither a number of items, from 1, nor a part of them, below 1")
    return limit


OPTIONS = Options(
    "flows.running.evaluation_config:EvaluateConfig",
    {
        "model.backend": Flag("--model -m", default_text="hf", help=MODEL),
        "tasks": Flag("--tasks -t", type=str, help="Names or paths, separated by commas; see `eval list`."),
        "model.name": Flag("--model-name"),
        "model.args": Flag("--model-args -a", type=str, metavar=PAIRS),
        "model.base_url": Flag(),
        "model.api_key_env": Flag(metavar="NAME"),
        "output_path": Flag("--output-path -o"),
        "data_dir": Flag(envvar="TRIVET_DATA_DIR"),
        "include_path": Flag(),
        "settings.limit": Flag("--limit -L", type=float, metavar="N|0.X", callback=check_limit),
        "settings.samples": Flag(type=str, metavar="JSON"),
        "settings.metadata": Flag(type=str, metavar="JSON"),
        "model.args.batch_size": Flag("--batch-size -b", default_text="auto", metavar="N|auto", help=BATCH),
        "settings.max_tokens": Flag(),
        "settings.n_repeat": Flag(),
        "settings.ks": Flag("--k", type=str, metavar="N,…"),
        "settings.extract": Flag(),
        "settings.unsafe_code": Flag(),
        "settings.gen_kwargs": Flag(type=str, metavar=PAIRS),
        "settings.seed": Flag(type=str, metavar="A,B,C,D"),
        "judge.name": Flag("--annotator-model", type=str, default_text="auto", metavar="auto|NAME", help=JUDGE),
        "judge.args": Flag("--annotator-args", type=str, metavar=PAIRS, help=JUDGE_ARGS),
        "settings.apply_chat_template": Flag(type=str, metavar="[True|False|NAME]"),
        "settings.system_instruction": Flag(),
        "settings.num_fewshot": Flag("--num-fewshot -f"),
        "settings.fewshot_as_multiturn": Flag(),
        "model.args.assume_same_weights": Flag(type=bool, help=SAME_WEIGHTS),
        "model.args.device": Flag(help=DEVICE),
        "model.args.trust_remote_code": Flag(type=bool, help="Run code that comes with a model."),
        "data_parallel": Flag(),
        "spending.max_cost": Flag(),
        "spending.prices": Flag("--price", type=str, metavar="PROMPT,ANSWER"),
        "save": Flag(),
        "overwrite": Flag("--overwrite --overwrite-database"),
        "settings.debug": Flag(),
    },
)
"""All of them may also stand in the YAML file of --config, under their names in evalchemy or lm_eval."""


def run(
    values: OptionValues,
    config: Annotated[
        Path | None, typer.Option(help="YAML file of the same options; its values override the command line.")
    ] = None,
    settings: Settings = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only estimate calls, tokens and cost.")] = False,
    as_json: Json = False,
) -> None:
    """Measure a model on benchmarks; an interrupted run, started again, makes only the calls that are missing."""
    from flows.running.evaluation_flags import read_evaluation
    from tasks.evaluation.running.task_choice import find_tasks

    by_name = {OPTIONS.flags[path].name(path): value for path, value in values.items()}  # max_cost for --max-cost
    evaluation = read_evaluation(by_name, config, settings=settings or (), note=_note)
    if dry_run:
        with progress_bars(as_json):
            estimated = estimate_calls(evaluation)
        emit(estimated, as_json, lambda: show_estimate(estimated))
        return
    refuse_unusable_spec(evaluation.model, "model")
    if evaluation.judge and not evaluation.auto_judge:
        refuse_unusable_spec(evaluation.judge, "annotator_model")
    find_tasks(evaluation)
    with prefect_for_command(quiet=as_json):
        from flows.evaluate import evaluate

        debug_log = log_details(evaluation.output_path) if evaluation.settings.debug else None
        outcome = run_flow(evaluate, evaluation, errors.TasksFailed, errors.Unfinished, errors.NotKept)
    is_stored = evaluation.save != "file"
    name = str(evaluation.output_path) if debug_log else outcome.report.run.id[:8] if is_stored else None
    emit(outcome.report, as_json, lambda: show_report(outcome.report, name=name))
    if debug_log and not as_json:
        screen.print(f"[dim]log: {escape(str(debug_log))}[/dim]")
    outcome.end(has_failures=bool(outcome.report.lacking))


def estimate_calls(config: EvaluateConfig) -> RunEstimate:
    """Estimate the calls, tokens and cost of a run without calling a model."""
    from tasks.evaluation.running.task_choice import estimate_run, plan_run
    from tasks.resources import artifacts, evaluations, responses

    planned = plan_run(config, artifacts(), evaluations(), opened=False)  # whether or not the model can be had here
    return estimate_run(planned, planned.spec, artifacts(), responses(), prices=config.spending.prices)


def log_details(output_path: Path) -> Path:
    """Write what our packages log to a new file beside the results alone; return its path. Raises OptionUnusable."""
    import logging

    from prefect.logging.configuration import setup_logging

    from tasks.evaluation.results.results_file import refuse_output

    setup_logging()  # Prefect would remove the handler as the flow begins
    refuse_output(output_path)
    path = output_path.with_suffix(".log") if output_path.suffix == ".json" else output_path / "debug.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    handler = logging.FileHandler(path, mode="w", encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    for package in ("flows", "tasks", "models", "storage"):
        logging.getLogger(package).setLevel(logging.DEBUG)
        logging.getLogger(package).addHandler(handler)
        logging.getLogger(package).propagate = False
    return path


class RunCommand(ConfigCommand):
    """Reads `--apply_chat_template` without a value as True, and ignores flags without effect with a note."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments, after those of `python -m eval.eval` and `lm_eval` were brought into click's form."""
        from flows.running.evaluation_flags import complete_flag

        own_flags = {flag for parameter in self.params for flag in parameter.opts}
        words = [word if word.partition("=")[0] in own_flags else complete_flag(word) for word in args]
        return super().parse_args(ctx, normalize_arguments(words))


def normalize_arguments(args: list[str]) -> list[str]:
    """Return the arguments in click's form, without flags that mean nothing here: a note on stderr says why of each."""
    from flows.running.evaluation_flags import IDLE_SWITCHES, WITHOUT_EFFECT

    # `--tasks gsm8k ifeval` is `--tasks gsm8k,ifeval`
    joined: list[str] = []
    for word in args:
        if len(joined) > 1 and joined[-2] in LISTS and not word.startswith("-"):
            joined[-1] += f",{word}"
        else:
            joined.append(word)

    # a template flag without a value means True
    with_templates: list[str] = []
    for flag, following in zip(joined, [*joined[1:], "--"], strict=False):  # no arguments: nothing follows
        with_templates.append(flag)
        if flag in TEMPLATE_FLAGS and following.startswith("-"):
            with_templates.append("True")

    effective: list[str] = []
    idle = ""
    for word in with_templates:
        flag = word.partition("=")[0]
        name = flag.removeprefix("--").replace("-", "_") if flag.startswith("--") else ""
        if name in WITHOUT_EFFECT:
            _note(f"{flag} is not needed: {WITHOUT_EFFECT[name]}")
            idle = name if "=" not in word else ""
        elif idle and not word.startswith("-") and (idle not in IDLE_SWITCHES or word.lower() in ("true", "false")):
            idle = ""  # its value
        else:
            idle = ""
            effective.append(word)
    return effective


def _note(text: str) -> None:
    typer.secho(f"note: {harmless(text)}", err=True)


screen = Screen()


def show_report(report: EvalReport, *, name: str | None = None) -> None:
    """Print the scores of a run with their intervals, and its notes. name: by which `eval show` finds it."""
    if report.results:
        columns = ("task", "metric", ">score", ">95 % interval", ">items", ">samples", ">tokens")
        rows = [row for result in report.results for row in _score_rows(result)]
        screen.print(make_table(*columns, rows=rows, title=escape(report.run.model.name)))
    for result in report.results:
        for note in result.notes:
            screen.print(f"[yellow]{escape(result.task)}[/]: {escape(note)}")
    for task, run in report.skipped.items():
        screen.print(f"{escape(task)}: evaluated before, by run {run[:8]}; --overwrite evaluates again")
    for note in report.notes:
        screen.print(escape(note))
    if report.results and name:
        screen.print(f"[dim]trivet eval show {escape(name)}[/]")


def _score_rows(result: TaskResult) -> Iterator[tuple[str, ...]]:
    """Yield rows (task, metric, score, interval, items, samples, tokens): the main metric, then policies that read
    answers otherwise and each requested k; of code every pass@k, by language or difficulty where there are several."""
    from tasks.grading.reading import POLICIES
    from tasks.grading.sample_statistics import AT_K

    headline, usage, counts = result.headline, result.usage, result.counts
    counted = (counts.items, counts.samples, usage.prompt_tokens + usage.completion_tokens)
    score, interval = ("—", "—") if headline is None else (_format_score(headline.value), _format_interval(headline))
    metric = headline.metric if headline else "none scored"
    yield result.name, metric, score, interval, *(f"{count:,}" if count else "·" for count in counted)
    requested_ks = result.settings.get("k")
    further_metrics = (
        {f"{name}@{k}" for k in requested_ks for name in AT_K} if isinstance(requested_ks, list) else set[str]()
    )
    further_metrics |= {f"accuracy_{policy}" for policy in POLICIES} if result.counts.differing else set[str]()
    further = [estimate for estimate in result.estimates if estimate.metric in further_metrics]
    if result.family == "code":
        language = metric.partition("pass@")[0] if headline else ""  # `python_`, or nothing
        has_several_parts = len({estimate.part for estimate in result.estimates if estimate.part}) + bool(language) > 1
        below_headline = (
            estimate
            for estimate in result.estimates
            if not estimate.headline and (has_several_parts or not estimate.part)
        )
        further = sorted(below_headline, key=lambda estimate: not estimate.metric.startswith(language))
    for estimate in further:
        name = f"{estimate.part.removeprefix('group=')} {estimate.metric}".lstrip()
        yield "", name, _format_score(estimate.value), _format_interval(estimate), f"{estimate.n:,}", "", ""


def _format_score(value: float) -> str:
    return f"{value:.3f}" if abs(value) < 10 else f"{value:.2f}"


def _format_interval(estimate: Estimate) -> str:
    if estimate.low is None or estimate.high is None:
        return "—"
    return f"{_format_score(estimate.low)} – {_format_score(estimate.high)}"


def show_estimate(estimated: RunEstimate, *, title: str = "nothing was asked") -> None:
    """Print how many calls, tokens and how much money a run would take, a row for each task; `--dry-run` does."""
    names = ("items", "repeats", "calls", "stored", "prompt tokens", "answer tokens, at most", "cost, at most")
    rows = [
        (
            task.task,
            *(f"{count:,}" for count in (task.items, task.repeats, task.calls, task.stored)),
            *(f"{count:,}" for count in (task.prompt_tokens, task.completion_tokens)),
            "—" if task.cost is None else f"{task.cost:.2f}",
        )
        for task in estimated.tasks
    ]
    if rows:
        screen.print(make_table("task", *(f">{name}" for name in names), rows=rows, title=escape(title)))
    if estimated.harness:
        screen.print(f"not counted, tasks of the harness: {escape(', '.join(estimated.harness))}")
    for task, run in estimated.skipped.items():
        screen.print(f"{escape(task)}: evaluated before, by run {run[:8]}")
    for note in estimated.notes:
        screen.print(escape(note))


def show_rescored(rescored: RegradedRun) -> None:
    """Print old scores beside new ones, and the items whose score changed."""
    rows: list[tuple[str, ...]] = []
    for regraded in rescored.tasks:
        old, new = regraded.old.headline, regraded.new.headline
        scores = (_format_score(headline.value) if headline else "—" for headline in (old, new))
        rows.append((regraded.old.task, new.metric if new else "none scored", *scores, str(len(regraded.changes))))
    title = f"run {rescored.run[:8]}, graded again"
    screen.print(make_table("task", "metric", ">then", ">now", ">items changed", rows=rows, title=title))
    for regraded in rescored.tasks:
        for change in regraded.changes:
            screen.print(escape(f"{regraded.old.task} {change.item}: {change.before:g} → {change.after:g}"))
