"""The server's side of a join: settings for whoever has the secret of a token and runs the same version.

POST /trivet/join          {secret, trivet} → Settings; 403: another secret, 409: another version, which it names
POST /trivet/join/written  {secret, marker} → whether the other machine's object is in our store
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from secrets import token_bytes
from typing import TYPE_CHECKING

from pydantic import ValidationError

from flows.running.environment import program
from flows.running.settings import settings
from flows.service.api import Address, address_of
from flows.service.joining.tokens import opens
from flows.service.place import Place
from storage.artifacts import Artifacts
from storage.records import Record, Ref
from storage.storage_errors import StorageError

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

PATH = "/trivet/join"
WRITTEN = f"{PATH}/written"
MARKER = "join"
"""Kind of the objects that show that a store is shared."""
MARKER_BYTES = 32


class Asking(Record):
    """The first request."""

    secret: str
    trivet: str
    """Version of the machine that joins, `0.1.0+6c1f2ab9`."""


class Written(Record):
    """The second request."""

    secret: str
    marker: Ref


class Given(Record):
    """The settings of workers elsewhere."""

    auth: str
    """Auth string of workers."""
    authority: str | None
    """PEM of what clients of the server trust; None: the system's authorities."""
    store: str
    database_url: str | None
    """None: the tables are in the embedded PostgreSQL, which only its own machine reaches."""
    models: str | None
    """Text of the file of models."""
    gpu_deployment: str | None
    marker: Ref
    """An object that the server has just written into its store."""


def is_same(one: str, other: str) -> bool:
    """Whether two versions are the same; a wheel has no commit, and is compared by its number."""
    (number, _, commit), (its_number, _, its_commit) = one.partition("+"), other.partition("+")
    return number == its_number and (commit == its_commit or not commit or not its_commit)


def offering(place: Place, *, auth: Callable[[], str], models: str | None) -> Starlette:
    """The application that answers. auth: gives the auth string of workers; models: the file's name."""
    from starlette.applications import Starlette
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route

    def refused(status: int) -> Response:
        return JSONResponse({"trivet": program() if status == 409 else None}, status_code=status)

    async def join(request: Request) -> Response:
        try:
            asked = Asking.model_validate_json(await request.body())
        except ValidationError:
            return refused(400)
        if not opens(place, asked.secret):
            return refused(403)
        if not is_same(program(), asked.trivet):
            return refused(409)
        try:
            given = _given(place, auth=auth(), models=models)
        except (StorageError, OSError) as error:
            return JSONResponse({"why": str(error)}, status_code=503)
        return Response(given.model_dump_json(), media_type="application/json")

    async def written(request: Request) -> Response:
        try:
            asked = Written.model_validate_json(await request.body())
        except ValidationError:
            return refused(400)
        if not opens(place, asked.secret):
            return refused(403)
        return JSONResponse({"seen": _store().verify(asked.marker)})

    return Starlette(routes=[Route(PATH, join, methods=["POST"]), Route(WRITTEN, written, methods=["POST"])])


def _given(place: Place, *, auth: str, models: str | None) -> Given:
    read = settings()
    address = address_of(place.home) or Address(api_url="", ui_url="")
    return Given(
        auth=auth,
        authority=Path(address.authority).read_text() if address.authority else None,
        store=_where(),
        database_url=read.database_address,
        models=Path(models).read_text("utf-8") if models else None,
        gpu_deployment=read.gpu_deployment,
        marker=_store().put(MARKER, token_bytes(MARKER_BYTES)),
    )


def _where() -> str:
    store = settings().store or str(settings().home / "store")
    return store if "://" in store else str(Path(store).absolute())


def _store() -> Artifacts:
    return Artifacts.open(_where(), cache=settings().home / "cache" / "objects")
