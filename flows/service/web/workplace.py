"""The pages under /ui: who may see them, their forms, and the errors that they show.

A page is a function from a `Visit` to a response. It is called in a thread, and only for a browser that has signed in;
a form must carry the token of its page and come from this origin. What changes documents asks for an operator.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from fastapi import FastAPI, HTTPException
from fastapi.concurrency import run_in_threadpool
from fastapi.requests import Request
from fastapi.responses import RedirectResponse, Response
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect
from starlette.routing import Route

from flows.service.answer_stream import CLIENT_GONE, Asking, Busy
from flows.service.indexing import Indexing
from flows.service.request_body import body_of
from flows.service.served_collections import Collection, Collections
from flows.service.serving_work import LiveIndex, refusal
from flows.service.web.rendering import Language, fill, html, language_of, spoken, static_file
from flows.service.web.signing_in import COOKIE, LASTS_S, OPERATING, Keys
from storage.evaluations import Evaluations
from storage.storage_errors import StorageError, UnknownRun
from tasks.evaluation.evaluation_errors import EvaluationError
from tasks.resources import evaluations

log = logging.getLogger(__name__)

ROOT = "/ui"
LANGUAGE_COOKIE = "trivet-language"
YEAR_S = 365 * 24 * 3600
Method = Literal["GET", "POST"]


class Problem(Exception):
    """A page cannot be shown, or a form not be taken; the sentence names the remedy."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


@dataclass(frozen=True)
class Workplace:
    """What the pages are about."""

    asking: Asking
    collections: Collections
    keys: Keys
    home: Path
    """Folder of the labelled questions."""
    evaluations: Callable[[], Evaluations]
    described: Callable[[], dict[str, Any]]
    """The OpenAPI description of the routes for programs."""


class Visit(NamedTuple):
    """One request of a page."""

    workplace: Workplace
    request: Request
    language: Language
    form: Mapping[str, str]
    collection: Collection
    """The one that is chosen, or the first."""

    @property
    def live(self) -> LiveIndex:
        return self.collection.live

    @property
    def indexing(self) -> Indexing | None:
        return self.collection.indexing

    @property
    def query(self) -> Mapping[str, str]:
        return self.request.query_params

    @property
    def path(self) -> Mapping[str, str]:
        """Variable parts of the address."""
        return self.request.path_params

    @property
    def is_part(self) -> bool:
        """Whether htmx asks for a part of a page."""
        return self.request.headers.get("HX-Request") == "true"

    @property
    def cookie(self) -> str:
        return self.request.cookies.get(COOKIE, "")

    @property
    def may_act(self) -> bool:
        """Whether who signed in may change something."""
        return self.workplace.keys.role_of(self.cookie) in OPERATING

    @property
    def operates(self) -> bool:
        """Whether this browser may change documents, and there is a folder to change."""
        return self.indexing is not None and self.may_act

    def to(self, path: str, **query: Any) -> str:
        """The address of a page about the same collection."""
        chosen = {"collection": self.collection.name} if self.workplace.collections.names else {}
        asked = urlencode(query | chosen)
        return f"{ROOT}{path}?{asked}" if asked else f"{ROOT}{path}"

    def where(self, holds: Callable[[Collection], bool]) -> Visit:
        """The same visit in the first collection of which this is so, the chosen one before others; else unchanged."""
        for one in (self.collection, *self.workplace.collections):
            with suppress(StorageError):
                if holds(one):
                    return self._replace(collection=one)
        return self

    def refuse_token(self, said: str) -> None:
        """Raise Problem unless this is the token of the forms of this browser."""
        if not self.workplace.keys.is_form_token(said, self.cookie):
            raise Problem(403, "this form is of another sign-in; load the page again and send it once more")

    def say(self, words: str) -> str:
        """Words of the pages in the language of the page."""
        return spoken(words, self.language)

    def fill(self, template: str, **values: Any) -> str:
        """The HTML of a template, with what every template has."""
        place = quote(f"{ROOT}{self.request.scope['path'].removeprefix(ROOT)}", safe="/")
        here = f"{place}?{self.request.url.query}" if self.request.url.query else place
        token = self.workplace.keys.form_token(self.cookie)
        frame = {"token": token, "here": here, "root": ROOT, "part": self.is_part, "operates": self.operates}
        names = self.workplace.collections.names
        frame |= {"may_act": self.may_act, "collections": names, "collection": self.collection.name, "stay": self.to}
        return fill(template, self.language, frame | values)

    def page(self, template: str, *, status: int = 200, **values: Any) -> Response:
        return html(self.fill(template, **values), status)


Handler = Callable[[Visit], Response | Awaitable[Response]]


class Page(NamedTuple):
    """A page, and who may see it."""

    method: Method
    path: str
    handler: Handler
    public: bool = False
    """A browser that has not signed in may see it too."""
    acts: bool = False
    """Viewers may not send it."""
    operator: bool = False
    """Only those see it who may change documents."""
    streamed: bool = False
    """The handler reads the form itself, and checks its token."""


def add_pages(
    app: FastAPI, asking: Asking, collections: Collections, *, keys: Keys, home: Path, authorized: Sequence[Any]
) -> None:
    """Serve the pages, what they load, the pictures that links permit, and the doors for programs.

    authorized: dependencies of routes that ask for the auth string.
    """
    from flows.service.web import (
        ask_pages,
        collection_pages,
        document_pages,
        evaluation_pages,
        json_door,
        lineage_pages,
        night_pages,
        openai_door,
        page_pictures,
        run_pages,
        selector_pages,
    )

    workplace = Workplace(asking, collections, keys, home, evaluations, app.openapi)
    rooms = (ask_pages, evaluation_pages, document_pages, collection_pages, run_pages, lineage_pages, night_pages)
    pages = (one for room in (*rooms, selector_pages) for one in room.PAGES)
    routes = [page(workplace, one) for one in (*OWN, *pages, NOWHERE)]
    app.include_router(json_door.routes(collections, evaluations, home, authorized))
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


def _docs(visit: Visit) -> Response:
    """The routes for programs, from the same description as /openapi.json."""
    return visit.page("docs.html", described=visit.workplace.described())


def page(workplace: Workplace, shown: Page) -> Route:
    """The route of a page."""
    handler = shown.handler

    async def endpoint(request: Request) -> Response:
        language = language_of(request.headers.get("Accept-Language", ""), request.cookies.get(LANGUAGE_COOKIE))
        visit = Visit(workplace, request, language, {}, workplace.collections.first)
        try:
            if not shown.public and workplace.keys.role_of(visit.cookie) is None:
                return _to_sign_in(visit)
            if chosen := visit.query.get("collection"):
                visit = visit._replace(collection=workplace.collections.named(chosen))
            if shown.method == "POST":
                _refuse_foreign(request)
            if shown.acts and not visit.may_act:
                raise Problem(403, "viewers read and ask; sign in with the auth string of an operator to do this")
            if shown.operator:
                _require_operator(visit)
            if shown.method == "POST" and not shown.streamed:
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


def _require_operator(visit: Visit) -> None:
    """Raise Problem unless this browser may change documents, and there is a folder to change."""
    if visit.indexing is None:
        raise Problem(409, "this server has no folder of documents; start it with --documents DIR to change them here")
    if not visit.operates:
        raise Problem(403, "a viewer does not change documents; sign in with the auth string of an operator")


async def _form(visit: Visit) -> Mapping[str, str]:
    """The fields of a form from a page of ours. Raises Problem, HTTPException."""
    said = (await body_of(visit.request)).decode(errors="replace")
    form = dict(parse_qsl(said, keep_blank_values=True))
    visit.refuse_token(form.get("token", ""))
    return form


def _local(address: str) -> str:
    """The address if it is a page of ours, else the first page."""
    parts = urlsplit(address)
    ours = address.startswith(f"{ROOT}/") and not parts.netloc and "\\" not in address and address.isprintable()
    return address if ours else f"{ROOT}/"


def _sign_in(visit: Visit) -> Response:
    return visit.page("sign_in.html", to=_local(visit.query.get("to", "")), wrong=False)


def _signed_in(visit: Visit) -> Response:
    to = _local(visit.form.get("to", ""))
    role = visit.workplace.keys.role_with(visit.form.get("auth", "").strip())
    if role is None:
        return visit.page("sign_in.html", status=403, to=to, wrong=True)
    response = RedirectResponse(to, 303)
    cookie = visit.workplace.keys.cookie(role)
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


def _nowhere(visit: Visit) -> Response:
    raise Problem(404, f"there is no page {visit.path['rest'][:80]}; the first page leads to all")


OWN = (
    Page("GET", "/sign-in", _sign_in, public=True),
    Page("POST", "/sign-in", _signed_in, public=True),
    Page("POST", "/sign-out", _sign_out),
    Page("GET", "/language", _language, public=True),
    Page("GET", "/docs", _docs),
)
NOWHERE = Page("GET", "/{rest:path}", _nowhere)
