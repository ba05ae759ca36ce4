"""What commands that measure with a file of questions share: reading it, its gold names, the search, the bar."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, Protocol, TypeVar

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from flows.cli.opening import Strategy, find
from flows.cli.output import Screen

if TYPE_CHECKING:
    from storage.index import Index
    from tasks.rag.measuring.metrics import Place, Question

Item = TypeVar("Item")

EVALUATED_CHUNKS = 50
"""Chunks asked for, so that ten different pages are among them."""

QuestionsFile = Annotated[
    Path,
    typer.Argument(
        help="JSONL, a line each: {id, question, document, pages: [1-based], answer?, turns?, split?, kind?, lang?}; "
        "document null: no document tells."
    ),
]
SplitOption = Annotated[str | None, typer.Option(metavar="NAME", help="Only the lines whose `split` is this.")]


class Gold(NamedTuple):
    """The gold documents of questions, in one index."""

    name_of: Callable[[str], str]
    """The name that hits carry: a file with the same content may come first in the catalogue."""
    notes: tuple[str, ...]
    """Gold documents that the index lacks."""


class Search(NamedTuple):
    """How the questions are looked up."""

    strategy: Strategy
    bm25_weight: float
    route: bool
    rerank: str | None


def gold_in(opened: Index, questions: Sequence[Question]) -> Gold:
    """The gold documents as the catalogue has them."""
    from tasks.rag.measuring.figures import unknown_documents

    first = {
        unicodedata.normalize("NFC", name): entry.name
        for entry in opened.catalogue
        for name in (*entry.aliases, entry.name)
    }
    unknown = unknown_documents(questions, set(first))
    return Gold(lambda name: first.get(name, name), (unknown,) if unknown else ())


def places_in(opened: Index, search: Search, question: Question) -> list[Place]:
    """Where the hits of a search stand, best first."""
    from tasks.rag.measuring.metrics import Place

    found = find(
        opened,
        question.question,
        search.strategy,
        top_k=EVALUATED_CHUNKS,
        bm25_weight=search.bm25_weight,
        names=None,
        route=search.route,
        rerank=search.rerank,
    )
    return [Place(hit.document_name, hit.chunk.page) for hit in found.hits]


class Counted(Protocol):
    """Gives the items as they are taken, and moves a bar."""

    def __call__(self, items: Iterable[Item], name: str, count: int) -> Iterable[Item]: ...


@contextmanager
def counting(quiet: bool) -> Generator[Counted]:
    """A bar on stderr for each name; none when nobody watches."""
    console = Screen(stderr=True)
    if quiet or not console.is_terminal:
        yield _uncounted
        return
    columns = (TextColumn("{task.description:<36}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:

        def counted(items: Iterable[Item], name: str, count: int) -> Iterable[Item]:
            return progress.track(items, total=count, description=name)

        yield counted


def _uncounted(items: Iterable[Item], name: str, count: int) -> Iterable[Item]:
    del name, count
    return items
