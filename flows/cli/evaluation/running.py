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
            "TRIVET_MODELS, or auto: what is at hand.",
        ),
    ] = "hf",
    tasks: Annotated[
        str, typer.Option("--tasks", "-t", help="Names or paths, parted by commas; see `eval list`.")
    ] = "",
    model_name: Annotated[
        str | None, typer.Option("--model-name", "--model_name", help="The model, as its server or the hub knows it.")
    ] = None,
    model_args: Annotated[
        str,
        typer.Option("--model-args", "--model_args", "-a", metavar="K=V,…", help="pretrained=…,dtype=…,path=…"),
    ] = "",
    base_url: Annotated[
        str | None, typer.Option("--base-url", "--base_url", help="OpenAI-compatible endpoint of the model.")
    ] = None,
    api_key_env: Annotated[
        str | None,
        typer.Option("--api-key-env", "--api_key_env", metavar="NAME", help="Variable with its key."),
    ] = None,
    concurrency: Annotated[int | None, typer.Option(min=1, help="Requests under way at once; 16 unless said.")] = None,
    config: Annotated[Path | None, typer.Option(help="YAML with the same names; it goes before the flags.")] = None,
    output_path: Annotated[
        Path,
        typer.Option("--output-path", "--output_path", "-o", help="FILE.json, or a folder for MODEL/results_*.json."),
    ] = Path("logs"),
    data_dir: Annotated[
        Path | None,
        typer.Option("--data-dir", "--data_dir", envvar="TRIVET_DATA_DIR", help="Folder of the benchmarks' data."),
    ] = None,
    include_path: Annotated[
        Path | None, typer.Option("--include-path", "--include_path", help="Folder of harness tasks of your own.")
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", "-L", min=1, help="First items of each task only.")] = None,
    batch_size: Annotated[
        str, typer.Option("--batch-size", "--batch_size", "-b", metavar="N|auto", help="Of a model in this process.")
    ] = "auto",
    max_tokens: Annotated[
        int | None, typer.Option("--max-tokens", "--max_tokens", min=1, help="Most tokens of an answer.")
    ] = None,
    n_repeat: Annotated[
        int | None, typer.Option("--n-repeat", "--n_repeat", min=1, help="Answers to each item.")
    ] = None,
    k: Annotated[
        str | None, typer.Option("--k", metavar="N,…", help="Of pass@k; 1,10,100 where items have as many.")
    ] = None,
    unsafe_code: Annotated[
        bool, typer.Option("--unsafe-code", "--unsafe_code", help="Run programs that models write without a sandbox.")
    ] = False,
    gen_kwargs: Annotated[
        str, typer.Option("--gen-kwargs", "--gen_kwargs", metavar="K=V,…", help="temperature=…,top_p=…,stop=…")
    ] = "",
    seed: Annotated[str, typer.Option(metavar="A,B,C,D", help="Of python, numpy, torch, few-shot examples.")] = (
        "0,1234,1234,1234"
    ),
    annotator_model: Annotated[
        str,
        typer.Option("--annotator-model", "--annotator_model", metavar="auto|NAME", help="Grades open answers."),
    ] = "auto",
    annotator_args: Annotated[
        str, typer.Option("--annotator-args", "--annotator_args", metavar="K=V,…", help="base_url=…,api_key_env=…")
    ] = "",
    apply_chat_template: Annotated[
        str,
        typer.Option(
            "--apply-chat-template",
            "--apply_chat_template",
            metavar="[True|False|NAME]",
            help="False sends the prompt as it stands.",
        ),
    ] = "True",
    system_instruction: Annotated[
        str | None, typer.Option("--system-instruction", "--system_instruction", help="In place of a task's own.")
    ] = None,
    num_fewshot: Annotated[
        int | None, typer.Option("--num-fewshot", "--num_fewshot", "-f", min=0, help="Examples, for harness tasks.")
    ] = None,
    fewshot_as_multiturn: Annotated[
        bool, typer.Option("--fewshot-as-multiturn", "--fewshot_as_multiturn", help="Examples as turns of a chat.")
    ] = False,
    device: Annotated[str | None, typer.Option(help="Of a model in this process: cpu, cuda:0 …")] = None,
    trust_remote_code: Annotated[
        bool, typer.Option("--trust-remote-code", "--trust_remote_code", help="Run code that a model brings.")
    ] = False,
    data_parallel: Annotated[
        int, typer.Option("--data-parallel", "--data_parallel", min=1, help="Parts that the items are split into.")
    ] = 1,
    max_calls: Annotated[
        int | None, typer.Option("--max-calls", "--max_calls", min=0, help="Stop after so many model calls.")
    ] = None,
    max_cost: Annotated[
        float | None, typer.Option("--max-cost", "--max_cost", min=0, help="Stop before so much is spent.")
    ] = None,
    price: Annotated[
        str | None, typer.Option(metavar="PROMPT,ANSWER", help="Per million tokens, for --max-cost: 0.15,0.6")
    ] = None,
    save: Annotated[Save, typer.Option(help="Where results are kept.")] = Save.both,
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite",
            "--overwrite-database",
            "--overwrite_database",
            help="Evaluate what was evaluated before again.",
        ),
    ] = False,
    task_runner: TaskRunnerOption = None,
    cluster: ClusterOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", "--dry_run", help="Only count the calls, tokens and cost.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="First two items of each task; no stored result.")] = False,
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
