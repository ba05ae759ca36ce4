"""`trivet lever predict` and `vqa-score`: from files to files, without a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.cli.commands import Json
from flows.cli.lever.stage_options import SAMPLER
from flows.cli.output import Screen, emit, harmless, plain_errors
from tasks.lever import lever_errors as errors

if TYPE_CHECKING:
    from tasks.lever.data.vqa_files import VqaScores


def predict(
    checkpoint: Annotated[
        Path, typer.Argument(help="A trained selector: .safetensors, or .ckpt or .pt of Lever-Plus.")
    ],
    query_emb: Annotated[Path, typer.Option(help="File query_embeddings.pt, with its IDs beside it.")],
    cand_emb: Annotated[Path, typer.Option(help="File candidate_embeddings.pt, with its IDs beside it.")],
    ids: Annotated[Path | None, typer.Option(help="IDs of the queries, if not beside their file.")] = None,
    cand_ids: Annotated[Path | None, typer.Option(help="IDs of the candidates, if not beside their file.")] = None,
    shots: Annotated[int, typer.Option("--shots", "--shot-num", min=1, help="Number of demonstrations per query.")] = 2,
    sampler: Annotated[str | None, typer.Option(help=SAMPLER, show_default="that of the checkpoint's training")] = None,
    pool_size: Annotated[
        int | None,
        typer.Option(
            "--pool-size",
            "--candidate-num",
            min=1,
            help="Number of candidates to choose from.",
            show_default="that of the checkpoint's training",
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
    with plain_errors(errors.LeverError):
        from tasks.lever.data.folder_layout import sampler_of
        from tasks.lever.learning.checkpoints import open_selector
        from tasks.lever.learning.predicting import predict_files

        opened = open_selector(checkpoint, heads=heads)
        found = predict_files(
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
    for warning in found.warnings:
        typer.secho(f"note: {harmless(warning)}", fg="yellow", err=True)
    told = {query: one._asdict() for query, one in found.chosen.items()}
    emit(told, as_json, lambda: _show_prediction(told, opened.notes))


def _show_prediction(told: dict[str, dict[str, Any]], notes: Sequence[str]) -> None:
    screen = Screen()
    for note in notes:
        screen.print(f"[dim]{harmless(note)}[/]", markup=True)
    for query, one in told.items():
        screen.print(f"{query}  {', '.join(one['demonstrations'])}", markup=False)


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

    With --json also per question: {overall, per_answer_type, per_question, notes}.
    """
    from tasks.lever.data.vqa_files import score_files

    with plain_errors(errors.LeverError):
        scores = score_files(questions, annotations, results, stem=stem)
    emit(scores, as_json, lambda: _show_scores(scores))


def _show_scores(scores: VqaScores) -> None:
    screen = Screen(soft_wrap=True)
    screen.print(f"{scores.overall:.4f}  VQA accuracy over {len(scores.per_question):,} questions", markup=False)
    for name, accuracy in scores.per_answer_type.items():
        screen.print(f"{accuracy:.4f}  {name}", markup=False)
    for note in scores.notes:
        screen.print(f"note: {note}", markup=False, style="yellow")
