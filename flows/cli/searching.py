"""`trivet rag search`: the chunks that answer best, without an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli import show
from flows.cli.opening import (
    Bm25Weight,
    DocumentOption,
    IndexFolder,
    Json,
    RouteOption,
    Strategy,
    TopK,
    find,
    model_errors,
)
from flows.cli.output import emit, plain_errors

if TYPE_CHECKING:
    from storage.index import Index
    from tasks.rag.answers import Filters


def register(app: typer.Typer) -> None:
    """Add the commands of this file to `trivet rag`."""
    app.command()(search)


def search(
    question: Annotated[str, typer.Argument(help="What to look for.")],
    index: IndexFolder,
    strategy: Annotated[Strategy, typer.Option(help="How chunks are found.")] = Strategy.rrf,
    top_k: TopK = 5,
    bm25_weight: Bm25Weight = 1.0,
    document: DocumentOption = None,
    route: RouteOption = True,
    as_json: Json = False,
) -> None:
    """Find the chunks that answer a question best."""
    from storage.errors import StorageError
    from storage.index import open_index

    with plain_errors(StorageError, ValueError, failed=model_errors()), open_index(index) as opened:
        found = find(opened, question, strategy, top_k=top_k, bm25_weight=bm25_weight, names=document, route=route)
        found = found._replace(notes=(*found.notes, *_routed(opened, found.filters)))
    hits = [
        {
            "document": hit.document_name,
            "page": hit.chunk.page,
            "bbox": hit.chunk.bbox,
            "score": round(hit.score, 6),
            "text": hit.chunk.text,
            "chunk_id": hit.chunk.id,
            "heading_path": hit.chunk.heading_path,
            "ranks": hit.ranks,
        }
        for hit in found.hits
    ]
    emit({"hits": hits, "notes": found.notes}, as_json, lambda: show.hits(found))


NAMED = 3
"""Documents that a note lists."""


def _routed(opened: Index, filters: Filters) -> list[str]:
    """Where the search looked, if the question named documents, and which of its words did."""
    if filters.mode == "all":
        return []
    names = [entry.name for entry in opened.catalogue if entry.document in filters.documents]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    said = ", ".join(dict.fromkeys(match.said for match in filters.matches))
    where = "only" if filters.mode == "only" else "first"
    return [
        f"looked {where} in {', '.join(names[:NAMED])}{more}, which the question names: {said} (--no-route for all)"
    ]
