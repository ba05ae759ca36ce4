"""What commands that measure with a file of questions share: reading it, the search, the bar."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, Protocol, TypeVar

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from flows.cli.output import Screen
from flows.cli.shared_options import Strategy

if TYPE_CHECKING:
    from storage.evaluations import Evaluated
    from storage.index import Index
    from tasks.rag.measuring.ranking_metrics import Place, Question

Item = TypeVar("Item")

QuestionsFile = Annotated[
    Path,
    typer.Argument(
        help="JSONL, a line each: {id, question, document, pages: [1-based], answer?, turns?, split?, kind?, lang?}; "
        "document null: no document tells."
    ),
]
SplitOption = Annotated[str | None, typer.Option(metavar="NAME", help="Only the lines whose `split` is this.")]


class Search(NamedTuple):
    """How the questions are looked up."""

    strategy: Strategy
    bm25_weight: float
    route: bool
    rerank: str | None


def places_in(opened: Index, search: Search) -> Callable[[Question], list[Place]]:
    """The search: it gives where the hits for a question stand, best first."""
    from tasks.rag.measuring import measured_figures

    return measured_figures.places_in(
        opened,
        strategy=search.strategy.value,
        bm25_weight=search.bm25_weight,
        route=search.route,
        rerank=search.rerank,
    )


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


StoreOption = Annotated[bool, typer.Option(help="Keep the figures in the evaluation tables of the database.")]


def keep(evaluated: Sequence[Evaluated]) -> str | None:
    """Write to the database of the settings; returns a note where that is not possible."""
    from storage.storage_errors import StorageError
    from tasks.resources import evaluations

    try:
        evaluations().write(evaluated)
    except StorageError as error:
        return f"the figures are not in the database: {error}"
    return None
