"""`trivet lever predict` and `vqa-score`: a selector applied to files of embeddings, and answers scored."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.cli.commands import Json
from flows.cli.output import Screen, emit, harmless, plain_errors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tasks.lever.data.vqa_files import VqaScores


def register(app: typer.Typer) -> None:
    """Add the commands of this file to `trivet lever`."""
    app.command("predict")(predict)
    app.command("vqa-score")(vqa_score)


def predict(
    checkpoint: Annotated[Path, typer.Argument(help="A trained selector: .safetensors, or .ckpt and .pt of the seed.")],
    query_emb: Annotated[Path, typer.Option(help="query_embeddings.pt, ids beside it.")],
    cand_emb: Annotated[Path, typer.Option(help="candidate_embeddings.pt, ids beside it.")],
    ids: Annotated[Path | None, typer.Option(help="Ids of the queries, where none lie beside them.")] = None,
    cand_ids: Annotated[Path | None, typer.Option(help="Ids of the candidates, where none lie beside them.")] = None,
    shots: Annotated[int, typer.Option("--shots", "--shot-num", min=1, help="Demonstrations of each query.")] = 2,
    pool_size: Annotated[
        int, typer.Option("--pool-size", "--candidate-num", min=1, help="Most similar candidates to choose from.")
    ] = 64,
    heads: Annotated[
        int | None,
        typer.Option(min=1, help="Number of attention heads, for a checkpoint of Lever-Plus that does not record it."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Choose demonstrations for every query of a file; `{query: {pointer, demonstrations, log_prob}}`."""
    from tasks.lever.lever_errors import LeverError

    with plain_errors(LeverError):
        from tasks.lever.compat.seed_checkpoints import open_selector
        from tasks.lever.data.embeddings import QueryPools, read_bank, read_embeddings
        from tasks.lever.learning.choosing import predict

        opened = open_selector(checkpoint, heads=heads)
        candidates = read_embeddings(cand_emb, ids=cand_ids)
        bank, pools = (candidates.bank, candidates.pools) if isinstance(candidates, QueryPools) else (candidates, None)
        queries = read_bank(query_emb, ids=ids)
        opened.refuse_other(queries.encoder, dimension=queries.dimension, path=checkpoint)
        found = predict(opened.selector, queries, bank, shots=shots, pools=pools, pool_size=pool_size)
    told = {query: one._asdict() for query, one in found.items()}
    emit(told, as_json, lambda: _show(told, opened.notes))


def _show(told: dict[str, dict[str, Any]], notes: Sequence[str]) -> None:
    screen = Screen(highlight=False)
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
    from tasks.lever.data.vqa_files import score_files
    from tasks.lever.lever_errors import LeverError

    with plain_errors(LeverError):
        scores = score_files(questions, annotations, results, stem=stem)
    emit(scores, as_json, lambda: _show_scores(scores))


def _show_scores(scores: VqaScores) -> None:
    screen = Screen(highlight=False, soft_wrap=True)
    screen.print(f"{scores.overall:.4f}  VQA accuracy over {len(scores.per_question):,} questions", markup=False)
    for name, accuracy in scores.per_answer_type.items():
        screen.print(f"{accuracy:.4f}  {name}", markup=False)
