"""`trivet join TOKEN`: take the settings of a server, check each, and keep them.

token ─► server ─► certificate ─► secret, version ─► auth ─► store, both ways ─► database ─► Joined
"""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Callable
from pathlib import Path
from secrets import token_bytes
from typing import Any
from urllib.parse import urlsplit

from flows.running.environment import program
from flows.service.api import Api, ApiFailed, Refused
from flows.service.joining.certificates import pin_of
from flows.service.joining.joined import AUTHORITY_FILE, FILE, MODELS_FILE, Joined
from flows.service.joining.offering import MARKER, MARKER_BYTES, PATH, WRITTEN, Asking, Given, Written
from flows.service.joining.tokens import Token
from flows.service.place import Place
from storage.artifacts import Artifacts
from storage.records import Record
from storage.storage_errors import StorageError

ANSWER_S = 30


class JoinReport(Record):
    """What `trivet join` prints."""

    api_url: str
    store: str
    checks: dict[str, str]
    """What each check has found: server, certificate, version, auth, store, database."""


def join(place: Place, token: Token, *, store: str | None, say: Callable[[str, str], None]) -> Joined:
    """Check and keep the settings that a token opens. `say`: called with the name of each check that went well.

    store: where the shared folder is on this machine. Raises Refused, which begins with the name of the check.
    """
    given = _ask_for(token, say)
    place.prepare()
    joined = _keep_files(place, token, given, store)
    _check_auth(joined)
    say("auth", "accepted")
    _check_store(place, token, given, joined)
    say("store", f"{joined.store}, shared")
    _check_database(joined.database_url)
    say("database", "reached")
    place.keep(place.folder / FILE, joined.model_dump_json())
    return joined


def _ask_for(token: Token, say: Callable[[str, str], None]) -> Given:
    asking = Asking(secret=token.secret, trivet=program())
    status, told = _ask(token, PATH, asking)
    say("server", token.address)
    say("certificate", f"SHA-256 {token.pin[:16]}…, as the token says")
    if status == 403:
        raise Refused("token: it is not the last one, or older than an hour; `trivet up --listen` prints a new one")
    if status == 409:
        raise Refused(f"version: the server runs trivet {told['trivet']}, and here is {program()}; install the same")
    if status != 200:
        raise Refused(f"server: {token.address} answers {status}: {told.get('why', '')}; see `trivet logs` there")
    say("version", program())
    return Given.model_validate(told)


def _ask(token: Token, path: str, body: Record) -> tuple[int, dict[str, Any]]:
    """Ask over a connection whose certificate is the one of the token. Raises Refused."""
    address = urlsplit(token.address)
    trust = ssl.create_default_context()
    trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE  # the pin says more than an authority
    connection = http.client.HTTPSConnection(address.hostname or "", address.port, timeout=ANSWER_S, context=trust)
    try:
        connection.connect()
        if (pin := pin_of(connection.sock.getpeercert(binary_form=True) or b"")) != token.pin:
            raise Refused(
                f"certificate: {token.address} shows {pin[:16]}…, and the token names {token.pin[:16]}…: it is another "
                "server, or somebody stands between; nothing was sent. A new token is needed after a new certificate"
            )
        connection.request("POST", path, body.model_dump_json(), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        said = answer.read()
    except (OSError, http.client.HTTPException) as error:
        raise Refused(f"server: nothing answers at {token.address} ({error}); is it up, and not walled off?") from error
    finally:
        connection.close()
    try:
        return answer.status, json.loads(said)
    except ValueError:
        return answer.status, {}


def _keep_files(place: Place, token: Token, given: Given, store: str | None) -> Joined:
    if given.database_url is None:
        raise Refused(
            "database: the server keeps its tables in the embedded PostgreSQL, which only its own machine reaches; "
            "start it with DATABASE_URL=postgresql://… that both reach"
        )
    authority, models = place.folder / AUTHORITY_FILE, place.folder / MODELS_FILE
    for file, text in ((authority, given.authority), (models, given.models)):
        if text:
            place.keep(file, text)
    return Joined(
        api_url=f"{token.address}/api",
        auth=given.auth,
        authority=str(authority) if given.authority else None,
        store=store or given.store,
        database_url=given.database_url,
        models=str(models) if given.models else None,
        gpu_deployment=given.gpu_deployment,
    )


def _check_auth(joined: Joined) -> None:
    try:
        Api(joined.api_url, joined.auth, joined.authority).post("/work_pools/filter", {"limit": 1})
    except ApiFailed as error:
        raise Refused(
            f"auth: {error}; if its certificate is signed by an authority of your own, add that to the file of "
            "`trivet up --certificate`"
        ) from error


def _check_store(place: Place, token: Token, given: Given, joined: Joined) -> None:
    """Read here what the server wrote, and have it read what is written here."""
    remedy = (
        "what workers here make would be lost to the others: share the folder and name it with --store, or start the "
        "server with TRIVET_STORE=s3://…"
    )
    try:
        if "://" not in joined.store and not Path(joined.store).is_dir():
            raise Refused(f"store: there is no folder {joined.store} here; {remedy}")
        here = Artifacts.open(joined.store, cache=place.home / "cache" / "objects")
        if not here.verify(given.marker):
            raise Refused(f"store: {joined.store} here is not the server's {given.store}; {remedy}")
        marker = here.put(MARKER, token_bytes(MARKER_BYTES))
    except (StorageError, OSError) as error:
        raise Refused(f"store: {joined.store}: {error}; {remedy}") from error
    status, told = _ask(token, WRITTEN, Written(secret=token.secret, marker=marker))
    if status != 200 or not told.get("seen"):
        raise Refused(f"store: the server does not find what was written into {joined.store} here; {remedy}")


def _check_database(url: str) -> None:
    from storage.connections import server_major

    try:
        server_major(url)
    except StorageError as error:
        raise Refused(f"database: {error}, and lets this machine in (pg_hba.conf)") from error
