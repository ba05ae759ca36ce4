"""`trivet eval run`: a model on benchmarks, from the command line of `python -m eval.eval`."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.cli.commands import Command, Json
from flows.cli.engine import Outcome, prefect_for_a_command, progress_bars, run_flow
from flows.cli.evaluation import show_eval_run
from flows.cli.options import ConfigCommand, Flag, Given, Options, command
from flows.cli.output import FAILED, REFUSED, emit, fail, plain_errors, sentences
from flows.cli.shared_options import ClusterOption, TaskRunnerOption

if TYPE_CHECKING:
    from flows.cli.shared_options import TaskRunnerName
    from flows.running.evaluation_config import EvaluateConfig
    from tasks.evaluation.evaluation_records import EvalReport
    from tasks.evaluation.running.run_estimate import RunEstimate

PAIRS = "K=V,…"
MODEL = (
    "Backend: openai, responses, hf, vllm, curator, replay, scripted or package.module.Class; a name from the file "
    "that TRIVET_MODELS names; or auto: what is available here, which is printed."
)
BATCH = "Requests that a model in this process answers together."
JUDGE = "Model that grades open answers; auto: the benchmark's own choice."
JUDGE_ARGS = "Arguments that open that model: base_url=…,api_key_env=…"
DEVICE = "Device of a model in this process: cpu, cuda:0 …; unset: a GPU if there is one."
OPTIONS = Options(
    "flows.running.evaluation_config:EvaluateConfig",
    {
        "model.backend": Flag("--model -m", default="hf", help=MODEL),
        "tasks": Flag("--tasks -t", type=str, default="", help="Names or paths, separated by commas; see `eval list`."),
        "model.name": Flag("--model-name"),
        "model.args": Flag("--model-args -a", type=str, default="", metavar=PAIRS),
        "model.base_url": Flag(),
        "model.api_key_env": Flag(metavar="NAME"),
        "model.calls.concurrency": Flag(default=None),
        "output_path": Flag("--output-path -o", default=Path("logs")),
        "data_dir": Flag(envvar="TRIVET_DATA_DIR"),
        "include_path": Flag(),
        "settings.limit": Flag("--limit -L"),
        "model.args.batch_size": Flag("--batch-size -b", default="auto", metavar="N|auto", help=BATCH),
        "settings.max_tokens": Flag(),
        "settings.n_repeat": Flag(),
        "settings.ks": Flag("--k", type=str, default=None, metavar="N,…"),
        "settings.unsafe_code": Flag(),
        "settings.gen_kwargs": Flag(type=str, default="", metavar=PAIRS),
        "settings.seed": Flag(type=str, metavar="A,B,C,D"),
        "judge.name": Flag("--annotator-model", type=str, default="auto", metavar="auto|NAME", help=JUDGE),
        "judge.args": Flag("--annotator-args", type=str, default="", metavar=PAIRS, help=JUDGE_ARGS),
        "settings.apply_chat_template": Flag(type=str, default="True", metavar="[True|False|NAME]"),
        "settings.system_instruction": Flag(),
        "settings.num_fewshot": Flag("--num-fewshot -f"),
        "settings.fewshot_as_multiturn": Flag(),
        "model.args.device": Flag(default=None, help=DEVICE),
        "model.args.trust_remote_code": Flag(type=bool, default=False, help="Run code that comes with a model."),
        "data_parallel": Flag(),
        "spending.max_calls": Flag(),
        "spending.max_cost": Flag(),
        "spending.prices": Flag("--price", type=str, metavar="PROMPT,ANSWER"),
        "save": Flag(),
        "overwrite": Flag("--overwrite --overwrite-database"),
        "settings.debug": Flag(),
    },
)
"""Every one of them may stand in the YAML file of --config, too."""
TEMPLATE_FLAGS = ("--apply_chat_template", "--apply-chat-template")
WITHOUT_EFFECT = {
    "--use_cache": "answers are always kept in the response store",
    "--cache_requests": "requests are always kept in the response store",
    "--log_samples": "samples are always kept",
    "--check_integrity": "every run checks its benchmarks before it starts",
    "--show_config": "`trivet eval show RUN` shows it",
    "--verbosity": "`trivet --debug eval run …` says more",
    "--wandb_args": "Prefect shows the run",
    "--wandb_config_args": "Prefect shows the run",
    "--hf_hub_log_args": "`trivet eval export` writes what a model card needs",
    "--use_database": "results always go to the database, unless --save file",
    "--is_external_model": "the model's backend says it",
    "--creation_location": "`trivet eval show RUN` says where a run was made",
    "--created_by": "`trivet eval show RUN` says who made a run",
    "--model_id": "a model is known by its name and revision",
    "--write_out": "`trivet eval show RUN --item ID` shows prompts and answers",
    "--max_batch_size": "batches shrink by themselves when memory runs out",
}
"""Flags of `python -m eval.eval` that ask for what is done anyway, and where to look instead."""
SWITCHES = {
    "--log_samples",
    "--check_integrity",
    "--show_config",
    "--use_database",
    "--is_external_model",
    "--write_out",
}
"""Those of them that take no value, or True and False."""


def register(app: typer.Typer) -> None:
    """Add `run` to `trivet eval`."""
    command(app, "run", OPTIONS, cls=RunCommand)(run)


def run(
    given: Given,
    config: Annotated[
        Path | None, typer.Option(help="YAML file with the same names; its values override the options.")
    ] = None,
    task_runner: TaskRunnerOption = None,
    cluster: ClusterOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count the calls, tokens and cost.")] = False,
    as_json: Json = False,
) -> None:
    """Measure a model on benchmarks; killed anywhere and run again, it asks only for what is missing."""
    from pydantic import ValidationError

    flags = OPTIONS.named(given)
    try:
        if dry_run:
            estimate = dry_run_of(flags, config, quiet=as_json)
            emit(estimate, as_json, lambda: show_eval_run.estimate(estimate))
            return
        outcome = start(flags, config, quiet=as_json, task_runner=task_runner, cluster=cluster)
    except ValidationError as error:
        fail(sentences(error), REFUSED)
    kept = not flags["debug"] and flags["save"] != "file"
    emit(outcome.report, as_json, lambda: show_eval_run.report(outcome.report, kept=kept))
    if outcome.unfinished:
        fail(outcome.unfinished, FAILED)


def start(
    flags: Mapping[str, Any],
    file: Path | None,
    *,
    quiet: bool,
    task_runner: TaskRunnerName | None = None,
    cluster: str | None = None,
) -> Outcome[EvalReport]:
    """Run `evaluate` here and now. Raises pydantic.ValidationError for options that do not fit."""
    with prefect_for_a_command(expected_errors(), quiet=quiet):
        from flows.cli.evaluation.eval_config import config_of
        from flows.evaluate import evaluate
        from flows.running.task_runners import placed
        from tasks.evaluation.evaluation_errors import NotKept, TasksFailed, Unfinished

        config = config_of(flags, file)
        _refuse_unusable(config)
        return run_flow(placed(evaluate, task_runner, cluster), config, TasksFailed, Unfinished, NotKept)


def dry_run_of(flags: Mapping[str, Any], file: Path | None, *, quiet: bool) -> RunEstimate:
    """What a run would ask, how many tokens that may take and what it may cost; asks nobody."""

    with expected_errors(), progress_bars(quiet):
        from flows.cli.evaluation.eval_config import config_of
        from tasks.evaluation.running.run_estimate import estimate_run
        from tasks.evaluation.running.task_choice import choose
        from tasks.resources import artifacts, evaluations, responses

        config = config_of(flags, file)
        _refuse_unusable(config)
        planned = choose(
            config.tasks,
            artifacts(),
            model=config.model,
            judge=config.judge,
            auto_judge=config.auto_judge,
            data_dir=config.data_dir,
            include_path=config.include_path,
            settings=config.settings,
            known=None if config.overwrite else evaluations(),
        )
        return estimate_run(planned, config.model, artifacts(), responses(), prices=config.spending.prices)


def _refuse_unusable(config: EvaluateConfig) -> None:
    """End where it is plain that the model, or the judge that was named, cannot be asked."""
    from flows.cli.refusing import refuse_unusable_spec

    refuse_unusable_spec(config.model, "model")
    if config.judge and not config.auto_judge:
        refuse_unusable_spec(config.judge, "annotator_model")


@contextmanager
def expected_errors() -> Generator[None]:
    """What an evaluation may refuse or miss, as a sentence."""
    from flows.running.command_server import ServerDidNotStart
    from flows.running.task_runners import ClusterUnusable
    from models.model_errors import ModelError
    from storage.storage_errors import StorageError
    from tasks.evaluation.evaluation_errors import (
        BenchmarkUnusable,
        DataMissing,
        DataUnusable,
        NeedsLogLikelihood,
        OptionUnusable,
        PreflightFailed,
        ResultsUnusable,
        UnknownTask,
    )
    from tasks.evaluation.expected_errors import EXPECTED_ERRORS
    from tasks.grading.grading_records import TemplateUnusable
    from tasks.sandbox.sandbox_errors import LanguageUnavailable, UnsafeCodeRefused

    asked = (OptionUnusable, UnknownTask, PreflightFailed, NeedsLogLikelihood, TemplateUnusable)
    unsafe = (LanguageUnavailable, UnsafeCodeRefused)
    read = (DataMissing, DataUnusable, BenchmarkUnusable, ResultsUnusable)
    broken = (*EXPECTED_ERRORS, StorageError, ModelError, ServerDidNotStart, ClusterUnusable)
    with plain_errors(*asked, *unsafe, *read, failed=broken):
        yield


class EvalCommand(Command):
    """Takes `--apply_chat_template` without a value as True, and explains flags that need not be given."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As click has it, after the flags of the seed's command line were brought into its form."""
        return super().parse_args(ctx, _without_idle_flags(_with_template_value(args)))


class RunCommand(EvalCommand, ConfigCommand):
    """With the options of the configuration."""


def _with_template_value(args: list[str]) -> list[str]:
    given: list[str] = []
    for flag, following in zip(args, [*args[1:], "--"], strict=False):  # no arguments: nothing follows
        given.append(flag)
        if flag in TEMPLATE_FLAGS and following.startswith("-"):
            given.append("True")
    return given


def _without_idle_flags(args: list[str]) -> list[str]:
    kept: list[str] = []
    idle = ""
    for word in args:
        flag = word.partition("=")[0]
        known = f"--{flag.removeprefix('--').replace('-', '_')}" if flag.startswith("--") else flag
        if known in WITHOUT_EFFECT:
            typer.secho(f"note: {flag} is not needed: {WITHOUT_EFFECT[known]}", err=True)
            idle = known if "=" not in word else ""
        elif idle and not word.startswith("-") and (idle not in SWITCHES or word.lower() in ("true", "false")):
            idle = ""  # its value
        else:
            idle = ""
            kept.append(word)
    return kept
