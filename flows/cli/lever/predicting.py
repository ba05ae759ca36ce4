"""`trivet lever predict`: which demonstrations a trained selector shows for new queries."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.cli.opening import Json
from flows.cli.output import Screen, emit, harmless, plain_errors

if TYPE_CHECKING:
    from collections.abc import Sequence


def register(app: typer.Typer) -> None:
    """Add `predict` to `trivet lever`."""
    app.command("predict")(predict)


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
    heads: Annotated[int | None, typer.Option(min=1, help="Of a checkpoint of the seed that does not tell.")] = None,
    as_json: Json = False,
) -> None:
    """Choose demonstrations for every query of a file; `{query: {pointer, demonstrations, log_prob}}`."""
    from tasks.lever.errors import LeverError

    with plain_errors(LeverError):
        from tasks.lever import predicting
        from tasks.lever.embedding_files import QueryPools, read_bank, read_embeddings
        from tasks.lever.seed_checkpoints import open_selector

        opened = open_selector(checkpoint, heads=heads)
        candidates = read_embeddings(cand_emb, ids=cand_ids)
        bank, pools = (candidates.bank, candidates.pools) if isinstance(candidates, QueryPools) else (candidates, None)
        queries = read_bank(query_emb, ids=ids)
        opened.refuse_other(queries.encoder, dimension=queries.dimension, path=checkpoint)
        found = predicting.predict(opened.selector, queries, bank, shots=shots, pools=pools, pool_size=pool_size)
    told = {query: one._asdict() for query, one in found.items()}
    emit(told, as_json, lambda: _show(told, opened.notes))


def _show(told: dict[str, dict[str, Any]], notes: Sequence[str]) -> None:
    screen = Screen(highlight=False)
    for note in notes:
        screen.print(f"[dim]{harmless(note)}[/]", markup=True)
    for query, one in told.items():
        screen.print(f"{query}  {', '.join(one['demonstrations'])}", markup=False)
