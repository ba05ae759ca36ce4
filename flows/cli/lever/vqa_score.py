"""`trivet lever vqa-score`: recorded answers against those of people, by the official metric."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.opening import Json
from flows.cli.output import Screen, emit, plain_errors

if TYPE_CHECKING:
    from tasks.lever.vqa import VqaScores


def register(app: typer.Typer) -> None:
    """Add `vqa-score` to `trivet lever`."""
    app.command("vqa-score")(vqa_score)


def vqa_score(
    questions: Annotated[Path, typer.Option(metavar="FILE", help='Official JSON: {"questions": [{question_id, …}]}.')],
    annotations: Annotated[
        Path, typer.Option(metavar="FILE", help='{"annotations": [{question_id, answers: [{answer}], answer_type}]}.')
    ],
    results: Annotated[
        Path, typer.Option(metavar="FILE", help="[{question_id, answer}], an answer for each question.")
    ],
    stem: Annotated[
        bool, typer.Option("--stem", help="Compare the stems of words, for OK-VQA; not quite as its authors do.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Score answers about pictures by the VQA accuracy: shares from 0 to 1, over all and by kind of answer.

    With --json also of each question: {overall, per_answer_type, per_question}.
    """
    from tasks.lever.errors import LeverError
    from tasks.lever.vqa import score_files

    with plain_errors(LeverError):
        scores = score_files(questions, annotations, results, stem=stem)
    emit(scores, as_json, lambda: _show(scores))


def _show(scores: VqaScores) -> None:
    screen = Screen(highlight=False, soft_wrap=True)
    screen.print(f"{scores.overall:.4f}  VQA accuracy over {len(scores.per_question):,} questions", markup=False)
    for name, accuracy in scores.per_answer_type.items():
        screen.print(f"{accuracy:.4f}  {name}", markup=False)
