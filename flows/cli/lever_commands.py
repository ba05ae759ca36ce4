"""`trivet lever`: train a selector of demonstrations, whole or from stage to stage; use it, and hand it on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from flows.cli.commands import App, ConfigFile, Flag, Json, Options, OptionValues, Settings, command, report_invalid
from flows.cli.engine import prefect_for_command, run_flow
from flows.cli.output import REFUSED, Screen, emit, fail, harmless, make_table
from flows.cli.shared_options import refuse_unusable
from storage.storage_errors import list_some
from tasks.lever.lever_errors import Unfinished

if TYPE_CHECKING:
    from flows.running.judge_calls import CallCounts
    from tasks.lever.learning.lever_results import LeverReport

CONFIG = "flows.running.lever_config:LeverConfig"
Stage = Literal["embed", "rl-data", "sft", "rce", "grpo", "evaluate"]
SAMPLER = (
    "How candidates of a query are found: RetrievalSampler (nearest of all, and some at random), or Lever-Plus's "
    "RandSampler, TextSimSampler, ImgSimSampler or MixSampler."
)
OPTIONS = Options(
    CONFIG,
    {
        "dataset.name": Flag("--dataset", type=str),
        "dataset.data_dir": Flag(),
        "judge": Flag(
            "--judge --vqa-model",
            default_text="hf:Qwen/Qwen2.5-VL-3B-Instruct; {usual} for CPU worlds, smollm2 for texts",
        ),
        "sampler": Flag(type=str, help=SAMPLER),
        "device": Flag(),
        "begin_at": Flag("--from", type=Stage, metavar="STAGE", help="First stage, from files of earlier runs."),
        "until": Flag(type=Stage, metavar="STAGE", help="Last stage: embed, sft, rl-data, rce, grpo or evaluate."),
        "seeds": Flag(),
        "results": Flag(),
        # those of `lever_lm.models.v3.generate_rl_data`, and of the script that starts it
        "start.sft_checkpoint": Flag("--sft-ckpt"),
        "start.beam_data": Flag(),
        "start.query_embeddings": Flag("--query-emb"),
        "start.candidate_embeddings": Flag("--cand-emb"),
        "rl_data_copy": Flag("--output-path"),
    },
)
CHOICE = """nothing says what to learn from; choose one (minutes to hours of training; --dry-run counts first):
  trivet lever run --dataset digits                          drawn pictures and their judge, on this CPU (or crowded)
  trivet lever run --dataset trec --data-dir DIR             texts with classes (sst2, agnews too); smollm2 judges
  trivet lever run --dataset okvqa --data-dir DIR --judge M  pictures (vqav2, textvqa, vizwiz too); a model M judges
  trivet lever run --dataset FILE.jsonl --judge M            items of your own: pictures, questions or texts
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
    from flows.running.lever_config import read_lever_config
    from tasks.lever.judge.judges import DIGITS

    with report_invalid(OPTIONS):
        lever_config = read_lever_config(values, file=config, settings=settings or ())
    if dry_run:
        from flows.running.judge_calls import count_calls

        counts = count_calls(lever_config)
        emit(counts, as_json, lambda: show_calls(counts))
        return
    if (name := lever_config.judge) != DIGITS and lever_config.asks_judge:
        refuse_unusable(name, f"--judge {name}", pictures=not lever_config.is_text_task)
    lever_config.require_inputs()
    with prefect_for_command(quiet=as_json):
        from flows.lever import post_train

        outcome = run_flow(post_train, lever_config, Unfinished)
    emit(outcome.report.as_json(), as_json, lambda: show_report(outcome.report))
    outcome.end()


@command(app, "rl-data", OPTIONS, hidden=True)
def rl_data(values: OptionValues, config: ConfigFile = None, settings: Settings = None, as_json: Json = False) -> None:
    """Do `run --until rl-data`, by the name and the options of Lever-Plus's script."""
    run({**values, "until": "rl-data"}, config, settings, as_json=as_json)


def show_calls(counts: CallCounts) -> None:
    """Print what the stages would ask the judge."""
    for stage, count in [*counts.calls.items(), ("total", counts.total)]:
        screen.print(f"{stage:<10}{count:>12,}{'  at most' if stage in ('oracle', 'total') else ''}", markup=False)


@app.command()
def predict(
    checkpoint: Annotated[
        Path,
        typer.Argument(
            help="A trained selector: .safetensors, a folder of `lever export`, or .ckpt or .pt of Lever-Plus; or a "
            "rule, which nobody trains: similarity, distinct_questions, mmr:0.5 or dpp:0.05."
        ),
    ],
    query_emb: Annotated[Path | None, typer.Option(help="File query_embeddings.pt, with its IDs beside it.")] = None,
    cand_emb: Annotated[Path | None, typer.Option(help="File candidate_embeddings.pt, with its IDs beside it.")] = None,
    ids: Annotated[Path | None, typer.Option(help="IDs of the queries, if not beside their file.")] = None,
    cand_ids: Annotated[Path | None, typer.Option(help="IDs of the candidates, if not beside their file.")] = None,
    shots: Annotated[int, typer.Option(min=1, help="Number of demonstrations per query.")] = 2,
    sampler: Annotated[str | None, typer.Option(help=SAMPLER, show_default="that of the checkpoint's training")] = None,
    pool_size: Annotated[
        int | None, typer.Option(min=1, help="Candidates to choose from.", show_default="the checkpoint's")
    ] = None,
    heads: Annotated[int | None, typer.Option(min=1, help="Attention heads, where Lever-Plus recorded none.")] = None,
    check: Annotated[
        bool, typer.Option("--check", help="First see that encoder and weights choose as where they were trained.")
    ] = False,
    embedder: Annotated[str | None, typer.Option(help="Check with this encoder.", show_default="the card's")] = None,
    as_json: Json = False,
) -> None:
    """Choose demonstrations for every query of a file; prints {query: {pointer, demonstrations, log_prob}}."""
    from flows.running.settings import configure_steps
    from tasks.lever.data.folder_layout import sampler_of
    from tasks.lever.judge.judges import specify_encoder
    from tasks.lever.learning.checkpoints import open_selector
    from tasks.lever.learning.predicting import SELECTOR_FILE, check_anchors, predict_files
    from tasks.lever.lever_records import SelectionRule
    from tasks.resources import artifacts

    if checkpoint.is_dir():
        checkpoint /= SELECTOR_FILE
    if check or embedder:
        configure_steps()
        card = check_anchors(checkpoint, artifacts(), encoder=specify_encoder(embedder) if embedder else None)
        typer.secho(f"all {len(card.choices)} anchors have the demonstrations that they had", err=True)
        if not query_emb and not cand_emb:
            return
    if not query_emb or not cand_emb:
        fail("give --query-emb and --cand-emb: results/NAME/cache/{test,candidate}_embeddings.pt of a run", REFUSED)
    opened = SelectionRule.parse(str(checkpoint)) or open_selector(checkpoint, heads=heads)
    choices, warnings = predict_files(
        opened,
        checkpoint,
        queries=query_emb,
        candidates=cand_emb,
        ids=ids,
        candidate_ids=cand_ids,
        shots=shots,
        sampler=sampler_of(sampler) if sampler else None,
        pool_size=pool_size,
    )
    for warning in warnings:
        typer.secho(f"note: {harmless(warning)}", fg="yellow", err=True)

    def show() -> None:
        for note in () if isinstance(opened, SelectionRule) else opened.notes:
            screen.print(note, style="dim", markup=False)
        for query, choice in choices.items():
            screen.print(f"{query}  {', '.join(choice.demonstrations)}", markup=False)

    emit({query: choice._asdict() for query, choice in choices.items()}, as_json, show)


@app.command()
def export(
    selector: Annotated[Path, typer.Argument(help="A selector that a run has evaluated: …/grpo_….safetensors.")],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="New folder.")],
    as_json: Json = False,
) -> None:
    """Copy a selector and its card into a folder, to hand on; `lever predict DIR --check` proves it there."""
    from tasks.lever.learning.predicting import export_selector

    out = export_selector(selector, folder).parent
    emit({"folder": str(out)}, as_json, lambda: screen.print(f"{out}/", markup=False, soft_wrap=True))


@app.command("vqa-score")
def vqa_score(
    questions: Annotated[Path, typer.Argument(help='Official JSON: {"questions": [{question_id, …}]}.')],
    annotations: Annotated[
        Path, typer.Argument(help='{"annotations": [{question_id, answers: [{answer}], answer_type}]}.')
    ],
    results: Annotated[Path, typer.Argument(help="JSON: [{question_id, answer}], an answer for each question.")],
    stem: Annotated[
        bool, typer.Option("--stem", help="Compare stems of words, as OK-VQA does, with a slightly different stemmer.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Score answers about pictures by VQA accuracy, from 0 to 1: overall and per type of answer.

    With --json also per question: {overall, per_answer_type, per_question}.
    """
    from tasks.lever.data.vqa_files import score_files

    scores = score_files(questions, annotations, results, stem=stem)

    def show() -> None:
        lines = [f"{scores.overall:.4f}  VQA accuracy over {len(scores.per_question):,} questions"]
        lines += [f"{accuracy:.4f}  {name}" for name, accuracy in scores.per_answer_type.items()]
        screen.print("\n".join(lines), markup=False, soft_wrap=True)

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
        line = f"{folder}/{'' if len(names) == 1 else ' '}{list_some(names, FILES)}"
        screen.print(line, style="dim", markup=False, soft_wrap=True)
