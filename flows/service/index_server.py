"""Indexes over HTTP: `POST /ask` gives the JSON of `trivet rag ask --json`, whole, or as server-sent events.

    POST /ask        {question, history?, session?, documents?, collection?, stream?} → Answered
    GET  /documents  what the current generation holds
    GET  /health     whether it can be used; the only path without the auth string

With a home the pages stand beside it under /ui, and the doors of web/ for programs. Every error is {"error": sentence}.
"""

from __future__ import annotations

import hmac
import os
import re
import secrets
import stat
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from fastapi import Depends, FastAPI, Header, HTTPException, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse, Response
from pydantic import SecretStr, ValidationError
from starlette.exceptions import HTTPException as StarletteHTTPException

from flows.service.answering import MOST_WAITING, Asking, Busy, Places, Question, body_of, refusal, respond
from flows.service.api import ApiFailed
from flows.service.served_collections import Collection, Collections, UnknownCollection
from storage import files
from storage.sessions import Sessions
from storage.storage_errors import StorageError
from tasks.rag.answers import Answered

QUESTIONS_AT_ONCE = 4
FILE = "serve-token"
VARIABLE = "TRIVET_SERVE_TOKEN"
USABLE = re.compile(r"[!-~]{16,512}")
"""Characters that a header carries unchanged; too long to be guessed."""


def create_app(
    served: Sequence[Collection],
    *,
    auth: SecretStr,
    sessions: Sessions,
    stopping: Callable[[], bool],
    at_once: int = QUESTIONS_AT_ONCE,
    waiting: int = MOST_WAITING,
    home: Path | None = None,
    owner: Callable[[], str | None] = lambda: None,
) -> FastAPI:
    """The application; its collections are closed when it ends.

    stopping: asked while a question is answered; once it is True, clients are told and let go.
    at_once, waiting: questions that are answered side by side, and that wait; one more is refused with 503.
    home: serves the pages too, which keep labelled questions in this folder; None: JSON alone.
    owner: the auth string of the service, which signs in to the pages too.
    """
    asking, collections = Asking(sessions, stopping, Places(at_once, waiting)), Collections(served)
    # the pages of its documentation would load scripts from elsewhere
    app = FastAPI(title="Trivet", lifespan=_lifespan(collections), docs_url=None, redoc_url=None, openapi_url=None)
    app.state.beside = nullcontext  # what else runs as long as the server does
    for kind in (StarletteHTTPException, Busy, StorageError, UnknownCollection, ApiFailed, Exception):
        app.add_exception_handler(kind, _error)
    authorized = [Depends(_authorization(auth))]
    _add_routes(app, asking, collections, authorized)
    if home is not None:
        from flows.service.web.signing_in import Keys
        from flows.service.web.workplace import add_pages

        keys = Keys(auth, owner=owner)
        add_pages(app, asking, collections, keys=keys, home=home, authorized=authorized)
    return app


def _lifespan(collections: Collections) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    """What runs beside the server, and the end of its collections."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        async with app.state.beside():
            yield
        for one in collections:
            if one.indexing:
                await run_in_threadpool(one.indexing.close)
            one.live.close()

    return lifespan


def _add_routes(app: FastAPI, asking: Asking, collections: Collections, authorized: Sequence[Any]) -> None:
    @app.get("/health")
    def health() -> JSONResponse:
        """Whether every index can be used."""
        try:
            for one in collections:
                with one.live.borrow():
                    pass
            return JSONResponse({"status": "ok"})
        except StorageError:
            return JSONResponse({"status": "the index cannot be used; see the server's log"}, 503)

    @app.get("/documents", dependencies=authorized)
    def documents(collection: str | None = None) -> dict[str, Any]:
        """What the current generation of an index holds."""
        with collections.named(collection).live.borrow() as current:
            listed = [entry.model_dump(mode="json", exclude={"facts"}) for entry in current.index.catalogue]
            return {"generation": current.index.generation, "documents": listed}

    body = {"requestBody": {"content": {"application/json": {"schema": Question.model_json_schema()}}}}

    @app.post("/ask", dependencies=authorized, openapi_extra=body, responses={200: {"model": Answered}})
    async def ask(request: Request) -> Response:
        """Answer a question, whole or as server-sent events."""
        question = _parsed(await body_of(request))
        live = collections.named(question.collection).live
        return await respond(await asking.items(request, question, live), stream=question.stream)


def _authorization(auth: SecretStr) -> Any:
    """A dependency that refuses requests without the auth string."""
    expected = f"Bearer {auth.get_secret_value()}".encode()

    async def check(authorization: Annotated[str, Header()] = "") -> None:
        # bytes: compare_digest takes no text beyond ASCII
        if not hmac.compare_digest(authorization.encode(), expected):
            said = "send the server's auth string as `Authorization: Bearer …`; the server says where it is kept"
            raise HTTPException(401, said, {"WWW-Authenticate": "Bearer"})

    return check


def _parsed(body: bytes) -> Question:
    try:
        question = Question.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "the body"
        raise HTTPException(422, f'{where}: {first["msg"]}; send JSON such as {{"question": "…"}}') from error
    if not question.question.strip():
        raise HTTPException(422, "the question is empty; ask with at least one word")
    if question.session and question.history:
        raise HTTPException(422, "a session has its own history; send `session` or `history`, not both")
    return question


async def _error(_: Request, error: Exception) -> Response:
    if isinstance(error, StarletteHTTPException):
        return JSONResponse({"error": error.detail}, error.status_code, error.headers)
    if isinstance(error, Busy):
        return JSONResponse({"error": str(error)}, 503, {"Retry-After": "1"})
    told = refusal(error)
    return JSONResponse({"error": told.sentence}, told.status)


class AuthUnusable(Exception):
    """The auth string is missing, too weak or readable by others; the message names the remedy."""


class Auth(NamedTuple):
    """The auth string of the server, and where it is kept."""

    secret: SecretStr
    place: str


def auth_string(home: Path, *, configured: SecretStr | None) -> Auth:
    """The configured auth string, or that of the home, which is made at the first start. Raises AuthUnusable."""
    path, where = home / FILE, f"the variable {VARIABLE}" if configured else str(home / FILE)
    try:
        value = configured.get_secret_value() if configured else _read_or_make(path)
    except (OSError, UnicodeDecodeError) as error:
        raise AuthUnusable(f"the auth string cannot be kept in {path} ({error}); set {VARIABLE} instead") from error
    if not USABLE.fullmatch(value):
        said = "it takes 16 to 512 letters, digits or signs, no spaces"
        raise AuthUnusable(f"{where} holds no usable auth string; {said}")
    return Auth(SecretStr(value), where)


def _read_or_make(path: Path) -> str:
    files.make_folder(path.parent)
    with files.alone(path.parent, FILE, wait=lambda: time.sleep(0.05)):  # two servers may begin at once
        if not path.exists():
            with files.scratch(path.parent) as temporary:
                temporary.touch(mode=0o600)
                temporary.write_text(secrets.token_urlsafe(32) + "\n")
                files.settle(temporary, path)
    facts = path.lstat()
    if not stat.S_ISREG(facts.st_mode) or facts.st_uid != os.geteuid() or stat.S_IMODE(facts.st_mode) & 0o077:
        raise AuthUnusable(f"{path} may be read or written by others; remove it, and the next start makes a new one")
    return path.read_text("ascii").strip()
