"""What programs ask for: answers, passages, numbers, runs; one function each, behind JSON and behind MCP.

POST /ask  {question, history?, session?, documents?, collection?, stream?} → Answered, as of `trivet rag ask --json`
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

from fastapi import APIRouter, Depends, HTTPException, Query, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ValidationError

from flows.service.answering import Question, body_of, respond
from flows.service.live_index import LiveIndex
from flows.service.served_collections import NO_INDEX
from flows.service.web.visits import Workplace
from storage.evaluations import Evaluations
from storage.index import is_published
from storage.storage_errors import StorageError
from tasks.rag.answers import Answered
from tasks.rag.numbers.cell_facts import name_of_cell

if TYPE_CHECKING:
    from tasks.rag.indexing.index_report import DocumentStatus

MOST_HITS, MOST_NUMBERS, MOST_RUNS = 50, 1_000, 200
Body = TypeVar("Body", bound=BaseModel)


def search(live: LiveIndex, question: str, *, top_k: int) -> list[dict[str, Any]]:
    """Return the passages that answer best, by falling score, MOST_HITS at most. Raises StorageError, ValueError."""
    from tasks import resources
    from tasks.rag import STRATEGY
    from tasks.rag.planning.routing import open_router
    from tasks.rag.retrieval.search import search as search_index

    with live.borrow() as current:
        index = current.index
        result = search_index(
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
        for hit in result.hits
    ]


def numbers(
    live: LiveIndex, *, entity: str = "", line: str = "", period: str = "", first: int = 0, most: int = MOST_NUMBERS
) -> list[dict[str, Any]]:
    """Return up to MOST_NUMBERS table numbers, in reading order and whole units. Raises StorageError, ValueError."""
    from storage.numbers import read_filters, select_numbers

    filters = read_filters(entity, line, period)
    with live.borrow() as current:
        names = current.index.names
        rows = select_numbers(
            current.index.numbers, names, first=first, most=min(most, MOST_NUMBERS), **filters
        ).records()
    return [_number(row) for row in rows]


def _number(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row of numbers as JSON shows it: `value` is an exact decimal, `cell` an ID for `trivet why`."""
    period, value = cast("dict[str, Any]", row["period"] or {}), f"{row['value']:f}"
    return {
        "document": row["name"],
        "digest": row["document"],
        "page": row["page"],
        "bbox": row["bbox"],
        "line": " › ".join(row["row_path"]),
        "column": " / ".join(row["column_path"]),
        "period": period.get("label"),
        # without zeros at its end
        "value": value.rstrip("0").rstrip(".") if "." in value else value,
        "shown": row["shown"],
        "unit": row["unit"],
        "cells": row["cells"],
        "cell": name_of_cell(row["document"], table=row["table"], row=row["row"], col=row["col"]),
        "doubt": row["doubt"],
    }


def results(evaluations: Evaluations, *, task: str | None = None, model: str | None = None) -> list[dict[str, Any]]:
    """Return the leaderboard, a row for each model and board. Raises DatabaseUnavailable."""
    from tasks.evaluation.results.ranking import as_rows, rank

    scores = evaluations.scores(models=[model] if model else None, tasks=[task] if task else None)
    return as_rows(rank(scores))


def statuses_of(folder: Path) -> Mapping[str, DocumentStatus]:
    """Return the status of each document in the last build, by digest, or name if nothing was kept; {} if no build."""
    from tasks.rag.indexing.index_report import STATUS_FILE

    try:
        return _read_statuses(folder, (folder / STATUS_FILE).stat().st_mtime_ns)
    except (OSError, StorageError):
        return {}


@lru_cache(maxsize=2)
def _read_statuses(folder: Path, changed: int) -> Mapping[str, DocumentStatus]:
    """Read the statuses of a build. changed: time of the file in ns, which makes a changed file another cache entry."""
    from tasks.rag.indexing.index_report import read_status

    del changed
    status = read_status(folder)
    return {document.digest or document.document: document for document in (status.documents if status else ())}


def reason_of(status: DocumentStatus | None) -> str:
    """Return why a document could not be read, or what of it was not; empty where nothing is wrong."""
    if status is None:
        return ""
    pages = len(status.troubled_pages)
    troubled = f"{pages} page{'s were' if pages > 1 else ' was'} not read completely" if pages else ""
    return "; ".join(filter(None, (status.message or status.reason, troubled, *status.notes)))


def routes(workplace: Workplace) -> APIRouter:
    """Return the JSON routes; all but /health ask for the auth string."""
    collections, evaluations = workplace.collections, workplace.evaluations

    public, router = APIRouter(), APIRouter(dependencies=[Depends(workplace.authorize)])

    @public.get("/health")
    def health() -> JSONResponse:
        """Whether every index can be used that there is, or that nobody is making."""
        try:
            for collection in collections:
                folder = collection.live.folder
                if folder != workplace.home / NO_INDEX and (collection.indexing is None or is_published(folder)):
                    with collection.live.borrow():
                        pass
            return JSONResponse({"status": "ok"})
        except StorageError:
            return JSONResponse({"status": "the index cannot be used; see the server's log"}, 503)

    @router.get("/documents", name="documents")
    def catalogue(collection: str | None = None) -> dict[str, Any]:
        """Return the documents of the current index version, and the version's name."""
        with collections.find(collection).live.borrow() as current:
            listed = [entry.model_dump(mode="json", exclude={"facts"}) for entry in current.index.catalogue]
            return {"generation": current.index.generation, "documents": listed}

    body = {"requestBody": {"content": {"application/json": {"schema": Question.model_json_schema()}}}}

    @router.post("/ask", openapi_extra=body, responses={200: {"model": Answered}})
    async def ask(request: Request) -> Response:
        """Answer a question, whole or as server-sent events."""
        question = await read_body(request, Question)
        if not question.question.strip():
            raise HTTPException(422, "the question is empty; ask with at least one word")
        if question.session and question.history:
            raise HTTPException(422, "a session has its own history; send `session` or `history`, not both")
        live = collections.find(question.collection).live
        return await respond(await workplace.asking.items(request, question, live), stream=question.stream)

    @router.get("/search", name="search")
    def search_passages(
        question: Annotated[str, Query(min_length=1, max_length=8_000)],
        top_k: Annotated[int, Query(ge=1, le=MOST_HITS)] = 5,
        collection: str | None = None,
    ) -> dict[str, Any]:
        """The passages that answer a question best."""
        return {"hits": search(collections.find(collection).live, question, top_k=top_k)}

    @router.get("/numbers", name="numbers")
    def list_numbers(
        entity: str = "",
        line: str = "",
        period: str = "",
        first: Annotated[int, Query(ge=0)] = 0,
        most: Annotated[int, Query(ge=1, le=MOST_NUMBERS)] = 100,
        collection: str | None = None,
    ) -> dict[str, Any]:
        """Numbers of tables in whole units, by words of document and row, and by years such as 2019..2021."""
        live = collections.find(collection).live
        return {"numbers": numbers(live, entity=entity, line=line, period=period, first=first, most=most)}

    @router.get("/results", name="results")
    def show_results(task: str | None = None, model: str | None = None) -> dict[str, Any]:
        """The leaderboard, a row for each model and board."""
        return {"results": results(evaluations(), task=task, model=model)}

    @router.get("/runs", name="runs")
    def list_runs(most: Annotated[int, Query(ge=1, le=MOST_RUNS)] = 50) -> dict[str, Any]:
        """The latest runs of evaluations, the last one first."""
        fields = {"id", "kind", "status", "started_at", "ended_at", "version", "cost", "calls", "model"}
        return {"runs": [run.model_dump(mode="json", include=fields) for run in evaluations().runs(limit=most)]}

    public.include_router(router)
    return public


async def read_body(request: Request, model: type[Body], *, status: int = 422) -> Body:
    """Return the JSON body of a request as a value. Raises HTTPException, with `status` where the body does not fit."""
    try:
        return model.model_validate_json(await body_of(request))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"])) or "the body"
        needed = ", ".join(name for name, field in model.model_fields.items() if field.is_required())
        raise HTTPException(status, f"{place}: {first['msg']}; send JSON with {needed}") from error
