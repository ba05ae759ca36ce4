"""Serves the pages under /ui: which browser may see one, its forms, and the errors that it shows."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

from fastapi import FastAPI, HTTPException
from fastapi.concurrency import run_in_threadpool
from fastapi.requests import Request
from fastapi.responses import RedirectResponse, Response
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect
from starlette.routing import Route

from flows.service.answering import CLIENT_GONE, Asking, Busy, body_of, refusal
from flows.service.served_collections import Collections
from flows.service.web import (
    ask_pages,
    collection_pages,
    document_pages,
    doors,
    evaluation_pages,
    lineage_pages,
    night_pages,
    openai_door,
    page_pictures,
    place_page,
)
from flows.service.web.rendering import language_of, static_file
from flows.service.web.signing_in import COOKIE, LASTS_S, Keys
from flows.service.web.visits import ROOT, Page, Problem, Visit, Workplace
from storage.storage_errors import UnknownRun
from tasks.evaluation.evaluation_errors import EvaluationError
from tasks.resources import evaluations

log = logging.getLogger(__name__)

LANGUAGE_COOKIE = "trivet-language"
YEAR_S = 365 * 24 * 3600

ROOMS = (
    ask_pages,
    place_page,
    evaluation_pages,
    document_pages,
    collection_pages,
    lineage_pages,
    night_pages,
)


def add_pages(
    app: FastAPI, asking: Asking, collections: Collections, *, keys: Keys, home: Path, authorized: Sequence[Any]
) -> None:
    """Serve the pages, what they load, the pictures that links permit, and the doors for programs.

    authorized: dependencies of routes that ask for the auth string.
    """
    workplace = Workplace(asking, collections, keys, home, evaluations, app.openapi)
    pages = (one for room in ROOMS for one in room.PAGES)
    routes = [page(workplace, one) for one in (*pages, *OWN_PAGES)]
    app.include_router(doors.routes(collections, evaluations, authorized))
    app.include_router(openai_door.routes(asking, collections, workplace.keys))

    @app.get("/", include_in_schema=False)
    def root() -> Response:
        return RedirectResponse(f"{ROOT}/", 303)

    @app.get("/docs", include_in_schema=False)
    def docs() -> Response:
        return RedirectResponse(f"{ROOT}/docs", 303)

    @app.get("/openapi.json", include_in_schema=False)
    def described() -> dict[str, Any]:
        return app.openapi()

    @app.get("/static/{name}", include_in_schema=False)
    def static(name: str) -> Response:
        return static_file(name)

    @app.get(page_pictures.PATH)
    def picture(document: str, page: int, boxes: str = "", key: str = "") -> Response:
        """The picture of a page, by a link from an answer."""
        return page_pictures.respond(workplace.keys, document, page, boxes, key)

    _add_mcp(app, workplace)
    app.mount(ROOT, Starlette(routes=routes))


def _add_mcp(app: FastAPI, workplace: Workplace) -> None:
    """Serve MCP, if its extra is installed."""
    try:
        from flows.service.web.mcp_door import McpDoor, create_mcp
    except ImportError:
        log.info("no MCP at /mcp: install trivet[mcp]")
        return
    door = McpDoor(create_mcp(workplace.asking, workplace.collections, workplace.evaluations), workplace.keys)
    app.state.beside = door.manager.run
    app.router.routes.append(Route("/mcp", door))


def page(workplace: Workplace, shown: Page) -> Route:
    """The route of a page."""
    handler = shown.handler

    async def endpoint(request: Request) -> Response:
        language = language_of(request.headers.get("Accept-Language", ""), request.cookies.get(LANGUAGE_COOKIE))
        visit = Visit(workplace, request, language, {}, workplace.collections.first)
        try:
            if not shown.public and not workplace.keys.is_cookie(visit.cookie):
                return _to_sign_in(visit)
            if chosen := visit.query.get("collection"):
                visit = visit._replace(collection=workplace.collections.named(chosen))
            if shown.method == "POST":
                _refuse_foreign(request)
            if shown.needs_folder and visit.indexing is None:
                raise Problem(409, "this server has no folder of documents; start it with --documents DIR")
            if shown.method == "POST" and not shown.multipart:
                visit = visit._replace(form=await _form(visit))
            if inspect.iscoroutinefunction(handler):
                return await handler(visit)
            return await run_in_threadpool(handler, visit)  # pyright: ignore[reportReturnType, reportArgumentType]
        except ClientDisconnect:  # in the middle of a form
            return Response(status_code=CLIENT_GONE)
        except Exception as error:  # noqa: BLE001 every error is a page
            return _told(visit, error)

    return Route(shown.path, endpoint, methods=[shown.method])


def _told(visit: Visit, error: Exception) -> Response:
    match error:
        case Problem():
            status, sentence = error.status, str(error)
        case HTTPException():
            status, sentence = error.status_code, str(error.detail)
        case Busy():
            status, sentence = 503, str(error)
        case UnknownRun() | EvaluationError():
            status, sentence = 404, str(error)
        case _:
            status, sentence = refusal(error)
    told = visit.page("error.html", status=status, number=status, sentence=sentence)
    if visit.is_part:
        told.headers["HX-Reselect"] = "main"  # a page that looks for its own part gets the sentence too
    return told


def _to_sign_in(visit: Visit) -> Response:
    if visit.request.method == "GET" and not visit.is_part:
        path = visit.request.scope["path"].removeprefix(ROOT)
        wanted = f"{ROOT}{path}" + (f"?{visit.request.url.query}" if visit.request.url.query else "")
        return RedirectResponse(f"{ROOT}/sign-in?to={quote(wanted, safe='')}", 303)
    raise Problem(401, "you are not signed in, or no longer; sign in again")


def _refuse_foreign(request: Request) -> None:
    """Raise Problem for a form of another site."""
    origin, site = request.headers.get("Origin"), request.headers.get("Sec-Fetch-Site", "same-origin")
    foreign = origin is not None and urlsplit(origin).netloc != request.headers.get("Host")
    if foreign or site not in ("same-origin", "none"):
        raise Problem(403, "this form comes from another site; open the page here and send it again")


async def _form(visit: Visit) -> Mapping[str, str]:
    """The fields of a form from a page of ours. Raises Problem, HTTPException."""
    said = (await body_of(visit.request)).decode(errors="replace")
    form = dict(parse_qsl(said, keep_blank_values=True))
    visit.refuse_token(form.get("token", ""))
    return form


def _nowhere(visit: Visit) -> Response:
    raise Problem(404, f"there is no page {visit.path['rest'][:80]}; the first page leads to all")


def _local(address: str) -> str:
    """The address if it is a page of ours, else the first page."""
    parts = urlsplit(address)
    ours = address.startswith(f"{ROOT}/") and not parts.netloc and "\\" not in address and address.isprintable()
    return address if ours else f"{ROOT}/"


def _sign_in(visit: Visit) -> Response:
    return visit.page("sign_in.html", to=_local(visit.query.get("to", "")), wrong=False)


def _signed_in(visit: Visit) -> Response:
    to = _local(visit.form.get("to", ""))
    cookie = visit.workplace.keys.cookie(visit.form.get("auth", "").strip())
    if cookie is None:
        return visit.page("sign_in.html", status=403, to=to, wrong=True)
    response = RedirectResponse(to, 303)
    secure = visit.request.url.scheme == "https"
    response.set_cookie(COOKIE, cookie, LASTS_S, path=ROOT, httponly=True, samesite="strict", secure=secure)
    return response


def _sign_out(_: Visit) -> Response:
    response = RedirectResponse(f"{ROOT}/sign-in", 303)
    response.delete_cookie(COOKIE, path=ROOT, httponly=True, samesite="strict")
    return response


def _language(visit: Visit) -> Response:
    chosen = "ko" if visit.query.get("to") == "ko" else "en"
    response = RedirectResponse(_local(visit.query.get("back", "")), 303)
    response.set_cookie(LANGUAGE_COOKIE, chosen, YEAR_S, path=ROOT, httponly=True, samesite="strict")
    return response


OWN_PAGES = (
    Page("GET", "/sign-in", _sign_in, public=True),
    Page("POST", "/sign-in", _signed_in, public=True),
    Page("POST", "/sign-out", _sign_out),
    Page("GET", "/language", _language, public=True),
    Page("GET", "/docs", lambda visit: visit.page("docs.html", described=visit.workplace.described())),
    Page("GET", "/{rest:path}", _nowhere),  # last: it takes every address
)
