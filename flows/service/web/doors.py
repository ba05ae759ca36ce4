"""What programs ask for besides answers: passages, numbers, runs. One function each, behind JSON and behind MCP."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from flows.service.live_index import LiveIndex
from storage.evaluations import Evaluations
from storage.numbers import Filters as NumberFilters
from storage.storage_errors import StorageError
from tasks.rag.numbers.cell_facts import name_of_cell

if TYPE_CHECKING:
    from tasks.rag.indexing.index_report import DocumentStatus

MOST_HITS, MOST_NUMBERS, MOST_RUNS = 50, 1_000, 200


def search(live: LiveIndex, question: str, *, top_k: int) -> list[dict[str, Any]]:
    """The passages that answer a question best. Raises StorageError, ValueError."""
    from tasks import resources
    from tasks.rag import STRATEGY
    from tasks.rag.planning.routing import open_router
    from tasks.rag.retrieval.search import search as found_by

    with live.borrow() as current:
        index = current.index
        found = found_by(
            index,
            question,
            strategy=STRATEGY,
            top_k=min(top_k, MOST_HITS),
            embedder=lambda: resources.embedder(str(index.manifest.settings["embedder"])),
            filters=open_router(index).route(question),
        )
    return [
        {
            "document": hit.document_name,
            "page": hit.chunk.page,
            "cells": hit.chunk.cells,
            "bbox": hit.chunk.bbox,
            "score": round(hit.score, 6),
            "text": hit.chunk.text,
        }
        for hit in found.hits
    ]


def years_of(period: str) -> tuple[int, int] | None:
    """`2019..2021` or `2021` as the first and the last year. Raises ValueError."""
    if not period.strip():
        return None
    first, _, last = (part.strip() for part in period.partition(".."))
    years = (first or "1900", (last or "2099") if ".." in period else first)
    if not all(len(year) == 4 and year.isdecimal() for year in years) or years[0] > years[1]:
        raise ValueError(f"{period[:40]} is no period; write years such as 2021 or 2019..2021")
    return int(years[0]), int(years[1])


def number_filters(entity: str, line: str, period: str) -> NumberFilters:
    """Filters as the words of `trivet rag numbers`. Raises ValueError."""
    return {"entity": entity.split(), "line": line.split(), "years": years_of(period)}


def numbers(
    live: LiveIndex, *, entity: str = "", line: str = "", period: str = "", first: int = 0, most: int = MOST_NUMBERS
) -> list[dict[str, Any]]:
    """Numbers of the tables in reading order, in whole units. Raises StorageError, ValueError."""
    from storage.numbers import select_numbers

    filters = number_filters(entity, line, period)
    with live.borrow() as current:
        names = current.index.names
        rows = select_numbers(
            current.index.numbers, names, first=first, most=min(most, MOST_NUMBERS), **filters
        ).records()
    return [_number(row) for row in rows]


def _number(row: dict[str, Any]) -> dict[str, Any]:
    period = cast("dict[str, Any]", row["period"] or {})
    return {
        "document": row["name"],
        "digest": row["document"],
        "page": row["page"],
        "bbox": row["bbox"],
        "line": " › ".join(row["row_path"]),
        "column": " / ".join(row["column_path"]),
        "period": period.get("label"),
        "value": _exact(row["value"]),
        "shown": row["shown"],
        "unit": row["unit"],
        "cells": row["cells"],
        "cell": name_of_cell(row["document"], table=row["table"], row=row["row"], col=row["col"]),
        "doubt": row["doubt"],
    }


def _exact(value: Decimal) -> str:
    """A decimal as text, without zeros at its end."""
    return f"{value:f}".rstrip("0").rstrip(".") if "." in f"{value:f}" else f"{value:f}"


def results(evaluations: Evaluations, *, task: str | None = None, model: str | None = None) -> list[dict[str, Any]]:
    """The leaderboard, a row for each model and board. Raises DatabaseUnavailable."""
    from tasks.evaluation.results.ranking import as_rows, rank

    found = evaluations.scores(models=[model] if model else None, tasks=[task] if task else None)
    return as_rows(rank(found))


def runs(evaluations: Evaluations, *, most: int) -> list[dict[str, Any]]:
    """The latest runs, the last one first. Raises DatabaseUnavailable."""
    named = {"id", "kind", "status", "started_at", "ended_at", "version", "cost", "calls", "model"}
    return [run.model_dump(mode="json", include=named) for run in evaluations.runs(limit=min(most, MOST_RUNS))]


def statuses_of(folder: Path) -> Mapping[str, DocumentStatus]:
    """What the last build told of each document, by digest, or by name where nothing of it was kept."""
    from tasks.rag.indexing.index_report import STATUS_FILE

    try:
        return _statuses(folder, (folder / STATUS_FILE).stat().st_mtime_ns)
    except (OSError, StorageError):
        return {}


@lru_cache(maxsize=2)
def _statuses(folder: Path, changed: int) -> Mapping[str, DocumentStatus]:
    """changed: when the file did; another time is another content."""
    from tasks.rag.indexing.index_report import read_status

    del changed
    status = read_status(folder)
    return {one.digest or one.document: one for one in (status.documents if status else ())}


def reason_of(status: DocumentStatus | None) -> str:
    """Why a document could not be read, or what of it was not; empty where nothing is wrong."""
    if status is None:
        return ""
    return "; ".join(
        filter(None, (status.message or status.reason, _troubled(len(status.troubled_pages)), *status.notes))
    )


def _troubled(pages: int) -> str:
    return f"{pages} page{'s were' if pages > 1 else ' was'} not read completely" if pages else ""
