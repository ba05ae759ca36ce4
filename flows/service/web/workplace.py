"""The application: pages under /ui, JSON, OpenAI's and MCP's doors; which browser may see a page, and its errors.

Every error of a door is {"error": sentence}; that of a page is a page. Only /health needs no auth string.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

from fastapi import FastAPI
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.requests import Request
from fastapi.responses import JSONResponse, RedirectResponse, Response
from pydantic import SecretStr
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Route

from flows.service.answering import CLIENT_GONE, Asking, Busy, body_of, refusal_of
from flows.service.api import ApiFailed
from flows.service.served_collections import Collection, Collections, UnknownCollection
from flows.service.web import (
    ask_pages,
    collection_pages,
    document_pages,
    doors,
    evaluation_pages,
    lineage_pages,
    openai_door,
    place_page,
)
from flows.service.web.visits import (
    COOKIE,
    LASTS_S,
    ROOT,
    Keys,
    Page,
    Pages,
    Problem,
    Visit,
    Workplace,
    WrongSignIns,
    language_of,
    sender_of,
    static_files,
)
from storage.storage_errors import StorageError
from tasks.resources import evaluations

log = logging.getLogger(__name__)

LANGUAGE_COOKIE = "trivet-language"
YEAR_S = 365 * 24 * 3600
pages = Pages()
"""To sign in and out, to choose a language, and what programs may ask; the last one takes every address."""
ROOMS = (ask_pages, place_page, evaluation_pages, document_pages, collection_pages, lineage_pages)


def create_app(
    served: Sequence[Collection],
    asking: Asking,
    *,
    auth: SecretStr,
    home: Path,
    owner: Callable[[], str | None] = lambda: None,
) -> FastAPI:
    """Return the application; its collections are closed when it ends.

    home: folder of the labelled questions. owner: the auth string of the service, which signs in to the pages too.
    """
    collections = Collections(served)
    mcp_lifespan: Callable[[], Any] = nullcontext  # what else runs as long as the server does

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        """Close the collections when the application ends."""
        async with mcp_lifespan():
            yield
        for collection in collections:
            if collection.indexing:
                await run_in_threadpool(collection.indexing.close)
            collection.live.close()

    # the pages of its documentation would load scripts from elsewhere
    app = FastAPI(title="Trivet", lifespan=lifespan, docs_url=None, redoc_url=None)
    workplace = Workplace(asking, collections, Keys(auth, owner=owner), WrongSignIns(), home, evaluations, app.openapi)

    async def refuse(request: Request, error: Exception) -> Response:
        if isinstance(error, RequestValidationError):
            name, why, found = (error.errors()[0][field] for field in ("loc", "msg", "input"))
            error = ValueError(f"{name[-1]}: {why}, not {str(found)[:80]!r}; see what it may be in /openapi.json")
        status, sentence = refusal_of(error)
        headers = {"Retry-After": "1"} if isinstance(error, Busy) else getattr(error, "headers", None)
        is_openai = request.url.path.startswith(f"{openai_door.PREFIX}/")
        return JSONResponse(
            openai_door.error_body(status, sentence) if is_openai else {"error": sentence}, status, headers
        )

    refused = (HTTPException, RequestValidationError, Busy, StorageError, UnknownCollection, ApiFailed, ValueError)
    for kind in (*refused, Exception):
        app.add_exception_handler(kind, refuse)
    app.include_router(doors.routes(workplace))
    app.include_router(openai_door.routes(workplace))

    for path in ("/", "/docs"):
        app.router.routes.append(Route(path, RedirectResponse(f"{ROOT}{path}", 303)))

    @app.get("/static/{name}", include_in_schema=False)
    def static(name: str) -> Response:
        """Return a static file, kept for a year under its digest; 404 for none."""
        if name not in static_files():
            return Response(status_code=404)
        headers = {"Cache-Control": "public, max-age=31536000, immutable", "X-Content-Type-Options": "nosniff"}
        file = static_files()[name]
        return Response(file.content, media_type=f"{file.kind}; charset=utf-8", headers=headers)

    @app.get(place_page.PICTURE)
    def picture(document: str, page: int, boxes: str = "", key: str = "") -> Response:
        """The picture of a page, by a link from an answer."""
        return place_page.show_picture(workplace.keys, document, page, boxes, key)

    try:
        from flows.service.web.mcp_door import McpDoor, create_mcp
    except ImportError:
        log.info("no MCP at /mcp: install trivet[mcp]")
    else:
        door = McpDoor(create_mcp(asking, collections, evaluations), workplace)
        mcp_lifespan = door.manager.run
        app.router.routes.append(Route("/mcp", door))

    routes = [_route(workplace, page) for listed in (*(room.pages for room in ROOMS), pages) for page in listed]
    app.mount(ROOT, Starlette(routes=routes))
    return app


def _route(workplace: Workplace, page: Page) -> Route:
    """Make the route of a page, which checks the sign-in and the form before it calls the handler."""

    async def endpoint(request: Request) -> Response:
        """Return the page of a visit that may see it; every error is a page."""
        language = language_of(request.headers.get("Accept-Language", ""), request.cookies.get(LANGUAGE_COOKIE))
        visit = Visit(workplace, request, language, {}, workplace.collections.first)
        try:
            if not page.public and not workplace.keys.identify(visit.cookie):
                if page.method == "POST" or visit.is_part:
                    raise Problem(401, "you are not signed in, or no longer; sign in again")
                return RedirectResponse(f"{ROOT}/sign-in?to={quote(visit.address, safe='')}", 303)
            if name := visit.query.get("collection"):
                visit = visit._replace(collection=workplace.collections.find(name))
            if page.method == "POST":
                origin, site = request.headers.get("Origin"), request.headers.get("Sec-Fetch-Site", "same-origin")
                is_foreign = origin is not None and urlsplit(origin).netloc != request.headers.get("Host")
                if is_foreign or site not in ("same-origin", "none"):  # none: typed by the user, or a bookmark
                    raise Problem(403, "this form comes from another site; open the page here and send it again")
            if page.method == "POST" and not page.multipart:
                form = dict(parse_qsl((await body_of(request)).decode(errors="replace"), keep_blank_values=True))
                visit.refuse_token(form.get("token", ""))
                visit = visit._replace(form=form)
            if inspect.iscoroutinefunction(page.handler):
                return await page.handler(visit)
            return await run_in_threadpool(page.handler, visit)  # pyright: ignore[reportReturnType, reportArgumentType]
        except ClientDisconnect:  # in the middle of a form
            return Response(status_code=CLIENT_GONE)
        except Exception as error:  # noqa: BLE001 every error is a page
            status, sentence = refusal_of(error)
            response = visit.page("error.html", status=status, number=status, sentence=sentence)
            if visit.is_part:
                response.headers["HX-Reselect"] = "main"  # a page that looks for its own part gets the sentence too
            return response

    return Route(page.path, endpoint, methods=[page.method])


def _local_address(address: str) -> str:
    """Return the address if it is a page of ours, else that of the first page."""
    parts = urlsplit(address)
    # browsers read \ as /, and // would begin another host
    ours = address.startswith(f"{ROOT}/") and not parts.netloc and "\\" not in address and address.isprintable()
    return address if ours else f"{ROOT}/"


@pages.get("/sign-in", public=True)
def show_sign_in(visit: Visit) -> Response:
    """Show the form of the sign-in, which leads on to the page that was asked for."""
    return visit.page("sign_in.html", to=_local_address(visit.query.get("to", "")), wrong=False)


@pages.post("/sign-in", public=True)
async def sign_in(visit: Visit) -> Response:
    """Set the cookie for one of the two secrets."""
    to = _local_address(visit.form.get("to", ""))
    cookie = visit.workplace.keys.cookie(visit.form.get("auth", "").strip())
    if cookie is None:
        await visit.workplace.wrong.delay(sender_of(visit.request))
        return visit.page("sign_in.html", status=403, to=to, wrong=True)
    visit.workplace.wrong.forget(sender_of(visit.request))
    visit.note_act("sign-in", cookie=cookie)
    response = RedirectResponse(to, 303)
    secure = visit.request.url.scheme == "https"
    response.set_cookie(COOKIE, cookie, LASTS_S, path=ROOT, httponly=True, samesite="strict", secure=secure)
    return response


@pages.post("/sign-out")
def sign_out(visit: Visit) -> Response:
    """Delete the cookie of the sign-in."""
    visit.note_act("sign-out")
    response = RedirectResponse(f"{ROOT}/sign-in", 303)
    response.delete_cookie(COOKIE, path=ROOT, httponly=True, samesite="strict")
    return response


@pages.get("/language", public=True)
def choose_language(visit: Visit) -> Response:
    """Keep the language of the pages in a cookie."""
    language = "ko" if visit.query.get("to") == "ko" else "en"
    response = RedirectResponse(_local_address(visit.query.get("back", "")), 303)
    response.set_cookie(LANGUAGE_COOKIE, language, YEAR_S, path=ROOT, httponly=True, samesite="strict")
    return response


@pages.get("/docs")
def show_docs(visit: Visit) -> Response:
    """Show the routes that programs may call."""
    return visit.page("docs.html", described=visit.workplace.described())


@pages.get("/{rest:path}")
def show_nowhere(visit: Visit) -> Response:
    """Refuse any other address. Raises Problem."""
    raise Problem(404, f"there is no page {visit.path['rest'][:80]}; the first page leads to all")
