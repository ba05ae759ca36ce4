"""What commands that read an index share: their options, the search, and the errors of what a user names."""

from __future__ import annotations

import enum
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from weakref import WeakKeyDictionary

import typer

from flows.cli.output import REFUSED, fail

if TYPE_CHECKING:
    from storage.index import Index
    from tasks.rag.planning.routing import Router
    from tasks.rag.retrieval.search import Found


class Strategy(enum.StrEnum):
    """How chunks are found."""

    similarity = "similarity"
    mmr = "mmr"
    bm25 = "bm25"
    rrf = "rrf"


Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout; everything else goes to stderr.")]
IndexFolder = Annotated[Path, typer.Option("--index", help="Folder of the index.")]
TopK = Annotated[int, typer.Option(min=1, max=1000, help="How many chunks.")]
DocumentOption = Annotated[list[str] | None, typer.Option(help="Look only in this document; may be given again.")]
RouteOption = Annotated[
    bool, typer.Option("--route/--no-route", help="Look first in the documents that the question names.")
]
Bm25Weight = Annotated[float, typer.Option(min=0.0, help="How much words count in rrf beside meaning; 0: not.")]


def find(
    opened: Index,
    question: str,
    strategy: Strategy,
    *,
    top_k: int,
    bm25_weight: float | None,
    names: list[str] | None,
    route: bool = True,
    rerank: str | None = None,
) -> Found:
    """The chunks that answer `question`, in the documents of these names, or in those that it speaks of, or in all."""
    from flows.settings import configure_steps
    from tasks import resources
    from tasks.rag.answers import Filters
    from tasks.rag.planning.names import documents_named
    from tasks.rag.retrieval.search import search

    configure_steps()
    return search(
        opened,
        question,
        strategy=strategy.value,
        top_k=top_k,
        embedder=lambda: resources.embedder(str(opened.manifest.settings["embedder"])),
        bm25_weight=bm25_weight,
        documents=documents_named(names, opened.catalogue) if names else None,
        filters=_router(opened).route(question) if route and not names else Filters(),
        reranker=resources.reranker(rerank) if rerank else None,
    )


def _router(opened: Index) -> Router:
    """The router of this index, made once: it reads every name of the catalogue."""
    from tasks.rag.planning.routing import Router

    if opened not in _routers:
        _routers[opened] = Router(opened.catalogue)
    return _routers[opened]


_routers: WeakKeyDictionary[Index, Router] = WeakKeyDictionary()


def model_errors() -> tuple[type[Exception], ...]:
    """What a model raises that cannot answer."""
    from models.errors import ModelError

    return (ModelError,)


def require_file(path: Path, wanted: str) -> None:
    """End with one sentence unless `path` is a file that can be read."""
    if not path.exists():
        fail(f"there is no file {path}; name {wanted}", REFUSED)
    if not path.is_file():
        fail(f"{path} is not a file; name {wanted}", REFUSED)
    if not os.access(path, os.R_OK):
        fail(f"{path} may not be read; check its permissions", REFUSED)
