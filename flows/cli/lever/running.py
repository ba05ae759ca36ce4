"""`trivet lever run`, and its stages one by one: the same flow, up to the stage that is named."""

from __future__ import annotations

import enum
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.cli.opening import Json
from flows.cli.output import FAILED, REFUSED, emit, fail

if TYPE_CHECKING:
    from pydantic import ValidationError

STAGES = {
    "run": (
        "evaluate",
        "Train a selector of demonstrations and measure it; killed anywhere, it goes on when run again.",
    ),
    "embed": ("embed", "Export the vectors of pictures and questions."),
    "pools": ("pools", "Choose the candidates of every query."),
    "sft": ("sft", "Train a selector that imitates the best demonstrations."),
    "rl-data": ("rl-data", "Let a trained selector draw demonstrations, and the judge answer with them."),
    "rce": ("rce", "Train on rewarded groups of demonstrations."),
    "grpo": ("grpo", "Train on comparisons within groups, judged as it goes."),
    "evaluate": ("evaluate", "Measure selectors beside chance, similarity and the best that there is."),
}
"""Command → the last stage of the flow, and what it says of itself."""


class Save(enum.StrEnum):
    """Where figures are kept."""

    file = "file"
    database = "database"
    both = "both"


class Start(enum.StrEnum):
    """Stages that can begin from files of the results folder."""

    sft = "sft"
    rl_data = "rl-data"
    rce = "rce"
    grpo = "grpo"
    evaluate = "evaluate"


def register(app: typer.Typer) -> None:
    """Add `run` and the stages to `trivet lever`."""
    for name, (until, about) in STAGES.items():
        app.command(name, help=about)(_command(until))


def _command(until: str) -> Callable[..., None]:
    def command(
        dataset: Annotated[
            str | None,
            typer.Option(
                "--dataset", "--world", help="digits (the default: a world for CPUs), okvqa, vqav2, textvqa, vizwiz."
            ),
        ] = None,
        data_dir: Annotated[
            Path | None,
            typer.Option(help="Folder of questions, annotations and pictures; digits draws its own."),
        ] = None,
        judge: Annotated[
            str | None,
            typer.Option(
                "--judge",
                "--vqa-model",
                help="Model whose answers count: openai:MODEL; hf:FOLDER, vllm:FOLDER (in process; "
                "hf:FOLDER,dtype=bfloat16); a name of the file in TRIVET_MODELS; digits; scripted. Default: "
                "Qwen2.5-VL-3B; digits for the dataset digits.",
            ),
        ] = None,
        encoder: Annotated[
            str | None,
            typer.Option(
                help="clip, the name or path of another CLIP, or digits. Default: clip; digits for the dataset digits."
            ),
        ] = None,
        adapters: Annotated[
            Path | None, typer.Option(help="Folder of LoRA weights of the CLIP (v2_lora); else it goes without.")
        ] = None,
        vectors: Annotated[
            str | None, typer.Option(help="What the selector sees: joint (the default), image, text.")
        ] = None,
        sampler: Annotated[
            str | None, typer.Option(help="RandSampler (the default), TextSimSampler, ImgSimSampler, MixSampler.")
        ] = None,
        pool_size: Annotated[
            int | None,
            typer.Option(
                "--pool-size", "--candidate-num", min=2, help="Candidates of a query. Default: 64; 32 for digits."
            ),
        ] = None,
        shots: Annotated[
            int | None, typer.Option("--shots", "--shot-num", min=1, help="Demonstrations to choose; 2 unless said.")
        ] = None,
        seeds: Annotated[
            int | None, typer.Option(min=1, help="Runs whose figures are told together; 1 unless said.")
        ] = None,
        seed: Annotated[int | None, typer.Option(min=0, help="Seed of the first run; 0 unless said.")] = None,
        train_queries: Annotated[
            int | None,
            typer.Option(
                "--train-queries",
                "--sample-num",
                min=1,
                help="Training items to learn from. Default: 800; 4000 for digits.",
            ),
        ] = None,
        config: Annotated[Path | None, typer.Option(help="YAML of the flow's parameters; flags go before it.")] = None,
        settings: Annotated[
            list[str] | None,
            typer.Option("--set", metavar="NAME=VALUE", help="Any parameter, such as grpo.rounds=10; may be repeated."),
        ] = None,
        from_stage: Annotated[
            Start | None,
            typer.Option(
                "--from",
                metavar="STAGE",
                help="Begin with this stage, from files of the results folder: sft, rl-data, rce, grpo or evaluate.",
            ),
        ] = None,
        sft_ckpt: Annotated[Path | None, typer.Option(help="A trained v2 selector; ours or the seed's.")] = None,
        rce_ckpt: Annotated[Path | None, typer.Option(help="A selector that GRPO goes on with.")] = None,
        grpo_ckpt: Annotated[Path | None, typer.Option(help="A selector that is only measured.")] = None,
        beam_data: Annotated[Path | None, typer.Option(help="Beam data, in the old or the new format.")] = None,
        rl_data: Annotated[Path | None, typer.Option(help="rl_data_{Sampler}.json to learn from.")] = None,
        query_emb: Annotated[Path | None, typer.Option(help="query_embeddings.pt in place of an encoder.")] = None,
        cand_emb: Annotated[Path | None, typer.Option(help="candidate_embeddings.pt in place of an encoder.")] = None,
        output_path: Annotated[Path | None, typer.Option(help="A second place for the RL data.")] = None,
        results: Annotated[
            Path | None,
            typer.Option(help="Folder of what users see, `results` unless said; named as the seed names it."),
        ] = None,
        device: Annotated[
            str | None, typer.Option(help="Where networks run: cpu, cuda:0 …; unset: a GPU if there is one.")
        ] = None,
        offline_only: Annotated[
            bool, typer.Option("--offline-only", help="Ablation: GRPO learns from the stored pointers alone.")
        ] = False,
        rce_only: Annotated[bool, typer.Option("--rce-only", help="Ablation: no GRPO.")] = False,
        no_gate: Annotated[
            bool, typer.Option("--no-gate", help="Ablation: the state does not take in what was picked.")
        ] = False,
        dropout_in_ratio: Annotated[
            bool, typer.Option("--dropout-in-ratio", help="Ablation: dropout in the log-probabilities of a ratio.")
        ] = False,
        top_k: Annotated[
            int | None, typer.Option(min=1, help="Ablation: only the best of a group, before z-scoring.")
        ] = None,
        max_calls: Annotated[
            int | None, typer.Option(min=0, help="Stop after so many questions to the judge; else no limit.")
        ] = None,
        save: Annotated[Save | None, typer.Option(help="Where figures are kept; both unless said.")] = None,
        as_json: Json = False,
    ) -> None:
        flags = {name: value for name, value in locals().items() if name not in ("as_json", "until")}
        _run(until, flags, as_json=as_json)

    return command


def _run(until: str, flags: dict[str, Any], *, as_json: bool) -> None:
    from pydantic import ValidationError

    from flows.cli.lever import show_run
    from flows.cli.lever.starting import start

    try:
        outcome = start(flags, until=until, quiet=as_json)
    except ValidationError as error:
        fail(_sentences(error), REFUSED)
    emit(outcome.report.told(), as_json, lambda: show_run.report(outcome.report))
    if outcome.unfinished:
        fail(outcome.unfinished, FAILED)


def _sentences(error: ValidationError) -> str:
    """What pydantic refused, a parameter a line, named as `--set` and YAML files name it."""
    return "\n".join(
        str(item["ctx"]["error"])
        if item["type"] == "value_error" and "ctx" in item
        else f"{'.'.join(map(str, item['loc']))}: {item['msg']} (it is {str(item['input'])[:80]!r})"
        for item in error.errors()
    )
