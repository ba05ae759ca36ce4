"""JSON for programs beside `POST /ask`: passages, numbers, results, runs of evaluations and of flows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query

from flows.service.served_collections import Collections
from flows.service.web import doors
from storage.evaluations import Evaluations


def routes(collections: Collections, evaluations: Callable[[], Evaluations], authorized: Sequence[Any]) -> APIRouter:
    """The routes, each with the auth string."""
    router = APIRouter(dependencies=list(authorized))

    @router.get("/search")
    def search(
        question: Annotated[str, Query(min_length=1, max_length=8_000)],
        top_k: Annotated[int, Query(ge=1, le=doors.MOST_HITS)] = 5,
        collection: str | None = None,
    ) -> dict[str, Any]:
        """The passages that answer a question best."""
        live = collections.named(collection).live
        return {"hits": _valid(lambda: doors.search(live, question, top_k=top_k))}

    @router.get("/numbers")
    def numbers(
        entity: str = "",
        line: str = "",
        period: str = "",
        first: Annotated[int, Query(ge=0)] = 0,
        most: Annotated[int, Query(ge=1, le=doors.MOST_NUMBERS)] = 100,
        collection: str | None = None,
    ) -> dict[str, Any]:
        """Numbers of tables in whole units, by words of document and row, and by years such as 2019..2021."""
        live = collections.named(collection).live
        return {
            "numbers": _valid(
                lambda: doors.numbers(live, entity=entity, line=line, period=period, first=first, most=most)
            )
        }

    @router.get("/results")
    def results(task: str | None = None, model: str | None = None) -> dict[str, Any]:
        """The leaderboard, a row for each model and board."""
        return {"results": doors.results(evaluations(), task=task, model=model)}

    @router.get("/runs")
    def runs(most: Annotated[int, Query(ge=1, le=doors.MOST_RUNS)] = 50) -> dict[str, Any]:
        """The latest runs of evaluations, the last one first."""
        return {"runs": doors.runs(evaluations(), most=most)}

    return router


def _valid(call: Callable[[], list[dict[str, Any]]]) -> list[dict[str, Any]]:
    try:
        return call()
    except ValueError as error:
        raise HTTPException(422, str(error)) from error
