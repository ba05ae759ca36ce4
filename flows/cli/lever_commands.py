"""`trivet lever`: train a selector of demonstrations, whole or from stage to stage; `predict`, `vqa-score`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from flows.cli.commands import App, ConfigFile, Flag, Json, Options, OptionValues, Settings, command, report_invalid
from flows.cli.engine import prefect_for_command, run_flow
from flows.cli.output import FAILED, REFUSED, Screen, emit, fail, harmless, make_table, plain_errors
from flows.cli.shared_options import refuse_unusable
from tasks.lever import lever_errors as errors

if TYPE_CHECKING:
    from flows.running.judge_calls import CallCounts
    from flows.running.lever_config import LeverConfig
    from tasks.lever.learning.lever_results import LeverReport

CONFIG = "flows.running.lever_config:LeverConfig"
Stage = Literal["embed", "rl-data", "sft", "rce", "grpo", "evaluate"]
DATASET = (
    "digits or crowded (small, for CPUs), okvqa, vqav2, textvqa, vizwiz; texts: trec, sst2, agnews; or a file of your "
    "own, *.jsonl."
)
SAMPLER = (
    "How candidates of a query are found: RetrievalSampler (nearest of all, and some at random), or Lever-Plus's "
    "RandSampler, TextSimSampler, ImgSimSampler or MixSampler."
)
SHARED = {
    "dataset.name": Flag("--dataset", type=str, help=DATASET),
    "dataset.data_dir": Flag(),
    "judge": Flag(
        "--judge --vqa-model", default_text="hf:Qwen/Qwen2.5-VL-3B-Instruct; {usual} for CPU worlds, smollm2 for texts"
    ),
    "sampler": Flag(type=str, help=SAMPLER),
    "device": Flag(),
}
OPTIONS = Options(
    CONFIG,
    {
        **SHARED,
        "begin_at": Flag("--from", type=Stage, metavar="STAGE", help="First stage, from files of earlier runs."),
        "until": Flag(type=Stage, metavar="STAGE", help="Last stage: embed, sft, rl-data, rce, grpo or evaluate."),
        "seeds": Flag(),
        "results": Flag(),
    },
)
SEED_OPTIONS = Options(
    CONFIG,
    {
        **SHARED,
        "start.sft_checkpoint": Flag("--sft-ckpt"),
        "start.beam_data": Flag(),
        "start.query_embeddings": Flag("--query-emb"),
        "start.candidate_embeddings": Flag("--cand-emb"),
        "rl_data_copy": Flag("--output-path"),
    },
)
"""Options of `lever_lm.models.v3.generate_rl_data`, and of the script that starts it."""
CHOICE = """nothing says what to learn from; choose one (minutes to hours of training; --dry-run counts first):
  trivet lever run --dataset digits                          a small world of pictures and its judge, on this CPU
  trivet lever run --dataset crowded                         the same with near-duplicates among the candidates
  trivet lever run --dataset trec --data-dir DIR             texts with classes (sst2, agnews too); smollm2 judges
  trivet lever run --dataset okvqa --data-dir DIR --judge M  pictures (vqav2, textvqa, vizwiz too); a model M judges
  trivet lever run --config FILE.yaml                        any of it, with all parameters"""
screen = Screen()
FILES = 4
"""Most files of a folder that are named."""

app = App(help="Train a small network that selects demonstrations for a vision-language model.")


@command(app, "run", OPTIONS)
def run(
    values: OptionValues,
    config: ConfigFile = None,
    settings: Settings = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Count the judge's calls by stage, and do nothing.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Train a selector of demonstrations and measure it; an interrupted run continues when started again."""
    if not (config or settings or any(value is not None for value in values.values())):
        fail(CHOICE, REFUSED)
    lever_config = _read_config(values, OPTIONS, config, settings)
    if dry_run:
        from flows.running.judge_calls import count_calls

        counts = count_calls(lever_config)
        emit(counts, as_json, lambda: show_calls(counts))
    else:
        _run_training(lever_config, as_json)


@command(app, "rl-data", SEED_OPTIONS)
def rl_data(values: OptionValues, config: ConfigFile = None, settings: Settings = None, as_json: Json = False) -> None:
    """Let a trained selector draw demonstrations, and have the judge answer with them: `run --until rl-data`."""
    _run_training(_read_config({**values, "until": "rl-data"}, SEED_OPTIONS, config, settings), as_json)


def _read_config(
    values: OptionValues, options: Options, file: Path | None, settings: Sequence[str] | None
) -> LeverConfig:
    from flows.running.lever_config import read_lever_config

    with report_invalid(options):
        return read_lever_config(values, file=file, settings=settings or ())


def _run_training(config: LeverConfig, as_json: bool) -> None:
    with prefect_for_command(quiet=as_json):
        from flows.lever import post_train
        from tasks.lever.judge.judges import DIGITS

        if config.judge != DIGITS and config.asks_judge:
            refuse_unusable(config.judge, f"--judge {config.judge}", pictures=not config.is_text_task)
        outcome = run_flow(post_train, config, errors.Unfinished)
    emit(outcome.report.as_json(), as_json, lambda: show_report(outcome.report))
    if outcome.unfinished:
        fail(outcome.unfinished, FAILED)


def show_calls(counts: CallCounts) -> None:
    """Print what the stages would ask the judge."""
    for stage, count in [*counts.calls.items(), ("total", counts.total)]:
        screen.print(f"{stage:<10}{count:>12,}{'  at most' if stage in ('oracle', 'total') else ''}", markup=False)


@app.command()
def predict(
    checkpoint: Annotated[
        Path,
        typer.Argument(
            help="A trained selector: .safetensors, or .ckpt or .pt of Lever-Plus; or a rule, which nobody trains: "
            "similarity, distinct_questions, mmr:0.5 or dpp:0.05."
        ),
    ],
    query_emb: Annotated[Path, typer.Option(help="File query_embeddings.pt, with its IDs beside it.")],
    cand_emb: Annotated[Path, typer.Option(help="File candidate_embeddings.pt, with its IDs beside it.")],
    ids: Annotated[Path | None, typer.Option(help="IDs of the queries, if not beside their file.")] = None,
    cand_ids: Annotated[Path | None, typer.Option(help="IDs of the candidates, if not beside their file.")] = None,
    shots: Annotated[int, typer.Option(min=1, help="Number of demonstrations per query.")] = 2,
    sampler: Annotated[str | None, typer.Option(help=SAMPLER, show_default="that of the checkpoint's training")] = None,
    pool_size: Annotated[
        int | None,
        typer.Option(
            min=1, help="Number of candidates to choose from.", show_default="that of the checkpoint's training"
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of candidates that are drawn at random.")] = 0,
    heads: Annotated[
        int | None,
        typer.Option(min=1, help="Number of attention heads, for a checkpoint of Lever-Plus that does not record it."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Choose demonstrations for every query of a file; prints {query: {pointer, demonstrations, log_prob}}."""
    from tasks.lever.data.folder_layout import sampler_of
    from tasks.lever.learning.checkpoints import open_selector
    from tasks.lever.learning.predicting import predict_files
    from tasks.lever.lever_records import SelectionRule

    with plain_errors(errors.LeverError):
        rule = SelectionRule.parse(str(checkpoint))
        opened = rule or open_selector(checkpoint, heads=heads)
        predicted = predict_files(
            opened,
            checkpoint,
            queries=query_emb,
            candidates=cand_emb,
            ids=ids,
            candidate_ids=cand_ids,
            shots=shots,
            sampler=sampler_of(sampler) if sampler else None,
            pool_size=pool_size,
            seed=seed,
        )
    for warning in predicted.warnings:
        typer.secho(f"note: {harmless(warning)}", fg="yellow", err=True)

    def show() -> None:
        for note in () if isinstance(opened, SelectionRule) else opened.notes:
            screen.print(note, style="dim", markup=False)
        for query, choice in predicted.choices.items():
            screen.print(f"{query}  {', '.join(choice.demonstrations)}", markup=False)

    emit({query: choice._asdict() for query, choice in predicted.choices.items()}, as_json, show)


@app.command("vqa-score")
def vqa_score(
    questions: Annotated[Path, typer.Option(metavar="FILE", help='Official JSON: {"questions": [{question_id, …}]}.')],
    annotations: Annotated[
        Path, typer.Option(metavar="FILE", help='{"annotations": [{question_id, answers: [{answer}], answer_type}]}.')
    ],
    results: Annotated[
        Path, typer.Option(metavar="FILE", help="JSON: [{question_id, answer}], an answer for each question.")
    ],
    stem: Annotated[
        bool, typer.Option("--stem", help="Compare stems of words, as OK-VQA does, with a slightly different stemmer.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Score answers about pictures by VQA accuracy, from 0 to 1: overall and per type of answer.

    With --json also per question: {overall, per_answer_type, per_question}.
    """
    from tasks.lever.data.vqa_files import score_files

    with plain_errors(errors.LeverError):
        scores = score_files(questions, annotations, results, stem=stem)

    def show() -> None:
        lines = [f"{scores.overall:.4f}  VQA accuracy over {len(scores.per_question):,} questions"]
        lines += [f"{accuracy:.4f}  {name}" for name, accuracy in scores.per_answer_type.items()]
        for line in lines:
            screen.print(line, markup=False, soft_wrap=True)

    emit(scores, as_json, show)


def show_report(report: LeverReport) -> None:
    """Print accuracies with their intervals, gains, and the files."""
    from tasks.lever.learning.lever_results import accuracy_table, describe_gains, describe_verdicts

    if summary := report.summary:
        about, seeds = summary.conditions, len(summary.seeds)
        questions = max(score.accuracy.n for score in summary.figures)
        title = f"{about.dataset}, {about.sampler}, pools of {about.pool_size}, {seeds} seed{'s' if seeds > 1 else ''}"
        screen.print(f"{title}, {questions:,} questions: accuracy", style="bold", markup=False)
        header, *rows = accuracy_table(summary)
        screen.print(make_table(header[0], *(f">{name}" for name in header[1:]), rows=rows))
        for line in [*describe_gains(summary), *describe_verdicts(summary)]:
            screen.print(line, soft_wrap=True)
    else:
        screen.print(f"done: {', '.join(report.stages)}")
    for note in report.notes:
        screen.print(note, style="yellow", markup=False, soft_wrap=True)
    folders: dict[str, list[str]] = {}
    for path in report.files:
        folder, _, name = path.rpartition("/")
        folders.setdefault(folder, []).append(name)
    for folder, names in folders.items():  # a file that is alone in its folder by its whole path
        more = f" and {len(names) - FILES} more" if len(names) > FILES else ""
        line = f"{folder}/{'' if len(names) == 1 else ' '}{', '.join(names[:FILES])}{more}"
        screen.print(line, style="dim", markup=False, soft_wrap=True)
