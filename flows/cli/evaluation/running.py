"""`trivet eval run`: a model on benchmarks, from the command line of the seed."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated

import typer

from flows.cli.evaluation import show_run
from flows.cli.evaluation.flags import EvalCommand
from flows.cli.opening import Json
from flows.cli.output import FAILED, REFUSED, emit, fail, sentences
from flows.cli.placing import ClusterOption, TaskRunnerOption

OF_THE_COMMAND = ("config", "dry_run", "task_runner", "cluster", "as_json")
"""Flags that say how the command runs; all others may stand in the YAML file."""


class Save(enum.StrEnum):
    """Where results are kept."""

    file = "file"
    database = "database"
    both = "both"


def register(app: typer.Typer) -> None:
    """Add `run` to `trivet eval`."""
    app.command("run", cls=EvalCommand)(run)


def run(
    model: Annotated[
        str,
        typer.Option(
            "--model",
            "-m",
            help="openai, responses, hf, vllm, curator, replay, scripted, package.module.Class, a name of the file in "
            "TRIVET_MODELS, or auto: what is at hand, which is said.",
        ),
    ] = "hf",
    tasks: Annotated[
        str, typer.Option("--tasks", "-t", help="Names or paths, parted by commas; see `eval list`.")
    ] = "",
    model_name: Annotated[str | None, typer.Option(help="The model, as its server or the hub knows it.")] = None,
    model_args: Annotated[
        str,
        typer.Option("--model-args", "-a", metavar="K=V,…", help="What opens the model: pretrained=…,dtype=…,path=…"),
    ] = "",
    base_url: Annotated[str | None, typer.Option(help="OpenAI-compatible endpoint of the model.")] = None,
    api_key_env: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Environment variable that holds the model's key; else its provider's, such as OPENAI_API_KEY.",
        ),
    ] = None,
    concurrency: Annotated[int | None, typer.Option(min=1, help="Requests under way at once; 16 unless said.")] = None,
    config: Annotated[Path | None, typer.Option(help="YAML with the same names; it goes before the flags.")] = None,
    output_path: Annotated[
        Path,
        typer.Option("--output-path", "-o", help="Where results go: FILE.json, or a folder for MODEL/results_*.json."),
    ] = Path("logs"),
    data_dir: Annotated[
        Path | None,
        typer.Option(envvar="TRIVET_DATA_DIR", help="Folder of the benchmarks' data; else the hub's."),
    ] = None,
    include_path: Annotated[Path | None, typer.Option(help="Folder of harness tasks of your own.")] = None,
    limit: Annotated[int | None, typer.Option("--limit", "-L", min=1, help="First items of each task only.")] = None,
    batch_size: Annotated[
        str,
        typer.Option(
            "--batch-size", "-b", metavar="N|auto", help="Requests that a model in this process answers together."
        ),
    ] = "auto",
    max_tokens: Annotated[
        int | None, typer.Option(min=1, help="Most tokens of an answer; else as the benchmark has it.")
    ] = None,
    n_repeat: Annotated[
        int | None, typer.Option(min=1, help="Answers to each item; else as the benchmark has it.")
    ] = None,
    k: Annotated[
        str | None, typer.Option(metavar="N,…", help="The k of pass@k; else 1,10,100, as far as items have answers.")
    ] = None,
    unsafe_code: Annotated[
        bool, typer.Option("--unsafe-code", help="Run programs that models write without a sandbox.")
    ] = False,
    gen_kwargs: Annotated[
        str, typer.Option(metavar="K=V,…", help="How answers are drawn: temperature=…,top_p=…,stop=…")
    ] = "",
    seed: Annotated[
        str, typer.Option(metavar="A,B,C,D", help="Seeds of python, numpy, torch, few-shot examples; or one for all.")
    ] = ("0,1234,1234,1234"),
    annotator_model: Annotated[
        str,
        typer.Option(metavar="auto|NAME", help="Model that grades open answers; auto: the benchmark's own choice."),
    ] = "auto",
    annotator_args: Annotated[
        str, typer.Option(metavar="K=V,…", help="What opens that model: base_url=…,api_key_env=…")
    ] = "",
    apply_chat_template: Annotated[
        str,
        typer.Option(
            "--apply-chat-template",
            metavar="[True|False|NAME]",
            help="False sends the prompt as it stands; NAME: one of the model's templates.",
        ),
    ] = "True",
    system_instruction: Annotated[str | None, typer.Option(help="System prompt in place of a task's own.")] = None,
    num_fewshot: Annotated[
        int | None,
        typer.Option(
            "--num-fewshot", "-f", min=0, help="Examples before a question of a harness task; else as the task has it."
        ),
    ] = None,
    fewshot_as_multiturn: Annotated[
        bool, typer.Option("--fewshot-as-multiturn", help="Examples as turns of a chat.")
    ] = False,
    device: Annotated[
        str | None, typer.Option(help="Where a model runs in this process: cpu, cuda:0 …; else a GPU if there is one.")
    ] = None,
    trust_remote_code: Annotated[
        bool, typer.Option("--trust-remote-code", help="Run code that comes with a model.")
    ] = False,
    data_parallel: Annotated[
        int, typer.Option(min=1, help="Parts that the items are split into, each a GPU step.")
    ] = 1,
    max_calls: Annotated[int | None, typer.Option(min=0, help="Stop after so many model calls; else no limit.")] = None,
    max_cost: Annotated[
        float | None,
        typer.Option(min=0, help="Stop before so much is spent, in the currency of --price; else no limit."),
    ] = None,
    price: Annotated[
        str | None,
        typer.Option(
            metavar="PROMPT,ANSWER", help="Per million tokens: 0.15,0.6; else as the file in TRIVET_MODELS has it."
        ),
    ] = None,
    save: Annotated[Save, typer.Option(help="Where results are kept.")] = Save.both,
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite",
            "--overwrite-database",
            help="Evaluate what was evaluated before again.",
        ),
    ] = False,
    task_runner: TaskRunnerOption = None,
    cluster: ClusterOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count the calls, tokens and cost.")] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Only the first two items of each task; nothing is kept.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Measure a model on benchmarks; killed anywhere and run again, it asks only for what is missing."""
    flags = {name: value for name, value in locals().items() if name not in OF_THE_COMMAND}
    from pydantic import ValidationError

    from flows.cli.evaluation.starting import dry_run_of, start

    try:
        if dry_run:
            estimate = dry_run_of(flags, config, quiet=as_json)
            emit(estimate, as_json, lambda: show_run.estimate(estimate))
            return
        outcome = start(flags, config, quiet=as_json, task_runner=task_runner, cluster=cluster)
    except ValidationError as error:
        fail(sentences(error), REFUSED)
    emit(outcome.report, as_json, lambda: show_run.report(outcome.report, kept=not debug and save is not Save.file))
    if outcome.unfinished:
        fail(outcome.unfinished, FAILED)
