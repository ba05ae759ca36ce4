"""The server of answers and pages as a process: what it shows, where it listens, who signs in, its life until a signal.

`python -m flows.service.page_server [PORT [HOST] [--index [NAME=]DIR]… [--documents [NAME=]DIR]…]`, for a supervisor,
systemd or a container; without arguments it is as `trivet up` was asked for it.

questions ─► models are loaded ─► nobody asks for `IDLE_S` ─► the process becomes a new one, without models, at the port
"""

from __future__ import annotations

import argparse
import gc
import logging
import os
import re
import secrets
import socket
import stat
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import psutil
from pydantic import SecretStr

from flows.running.environment import prepare_environment
from flows.running.settings import settings
from flows.service.api import Api, Refused, auth_of, listen, run_program
from flows.service.place import DEFAULT_PORT, LOOPBACK, Place, read_last_settings
from flows.service.served_collections import (
    NO_INDEX,
    Collection,
    Folders,
    folders_of,
    make_absolute,
    require_own_folders,
)
from models.registry import registered_models
from storage import files
from storage.storage_errors import IndexUnusable

if TYPE_CHECKING:
    from tasks.rag.answers import AnswerSettings

IDLE_S, MOST_IDLE_BYTES = 180.0, 250_000_000
"""Seconds without a request after which a process that takes more memory gives its models up: 850 MB with Korean."""
AGAIN = "--listening"
"""First word of such a process's command, before the descriptor of its socket."""
HEADERS_S = 10.0
"""Longest wait for the headers of a request, and longest silence in the middle of its body."""
PATIENCE_S, LOOK_S = 60.0, 0.5
"""Seconds to wait for Prefect's server, and between two checks whether it answers."""
FILE = "serve-token"
USABLE = re.compile(r"[!-~]{16,512}")
"""Characters that a header carries unchanged; too long to be guessed."""


class Auth(NamedTuple):
    """The auth string of the server, and where it is kept."""

    secret: SecretStr
    place: str


def auth_string(home: Path, *, configured: SecretStr | None) -> Auth:
    """Return the configured auth string, or that of the home, which is made at the first start. Raises Refused."""
    if configured:
        where, value = "the variable TRIVET_SERVE_TOKEN", configured.get_secret_value()
    else:
        path = home / FILE
        where = str(path)
        try:
            files.make_folder(home)
            with files.alone(home, FILE, wait=lambda: time.sleep(0.05)):  # two servers may begin at once
                if not path.exists():
                    with files.scratch(home) as temporary:
                        temporary.touch(mode=0o600)
                        temporary.write_text(secrets.token_urlsafe(32) + "\n")
                        files.settle(temporary, path)
            facts = path.lstat()
            if not stat.S_ISREG(facts.st_mode) or facts.st_uid != os.geteuid() or stat.S_IMODE(facts.st_mode) & 0o077:
                raise Refused(f"{path} may be read or written by others; remove it, and the next start makes a new one")
            value = path.read_text("ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            message = f"the auth string cannot be kept in {path} ({error}); set TRIVET_SERVE_TOKEN instead"
            raise Refused(message) from error
    if not USABLE.fullmatch(value):
        message = "it takes 16 to 512 letters, digits or signs, no spaces"
        raise Refused(f"{where} holds no usable auth string; {message}")
    return Auth(SecretStr(value), where)


def main(words: Sequence[str]) -> None:
    """Serve the pages until a signal. Raises Refused, also where another program has the port."""
    place = Place(settings().home)
    listening = None
    if words[:1] == [AGAIN]:
        listening, words = socket.socket(fileno=int(words[1])), words[2:]
    if words:
        parser = argparse.ArgumentParser(prog="python -m flows.service.page_server")
        parser.add_argument("port", type=int)
        parser.add_argument("host", nargs="?", default=LOOPBACK)
        for option in ("--index", "--documents"):
            parser.add_argument(option, action="append", default=[], metavar="[NAME=]DIR")
        options = parser.parse_args(words)
        listening = listening or listen(options.host, options.port)
        folders = make_absolute(folders_of(options.index, options.documents))
    else:
        service = read_last_settings(place)
        if service is None or service.server:
            raise Refused("no pages were asked for here; `trivet up` starts them")
        listening, folders = listening or listen_for_pages(place), service.collections
    # `trivet up` waits for Prefect's server, which starts sooner alone; browsers wait at the open port
    url, end = os.environ.get("PREFECT_API_URL"), time.monotonic() + PATIENCE_S
    while url and not Api(url, None).is_ready() and time.monotonic() < end:
        time.sleep(LOOK_S)
    prepare_environment()
    collections = [open_collection(name, folder) for name, folder in folders.items()]
    auth = auth_string(place.home, configured=settings().serve_token).secret
    backlog = listening.dup()  # connections wait at it while this process becomes a new one
    if serve_pages(collections, auth, listening, home=place.home, ends_when_idle=True):
        backlog.set_inheritable(True)
        own = (sys.executable, "-P", "-m", "flows.service.page_server", AGAIN, str(backlog.fileno()), *words)
        for child in psutil.Process().children(recursive=True):
            child.kill()
            child.wait()
        os.execv(own[0], own)


def open_collection(
    name: str,
    folders: Folders,
    *,
    llm: str | None = None,
    reranker: str | None = None,
    answers: AnswerSettings | None = None,
) -> Collection:
    """Return a collection, whose index is opened when it is first asked. Raises Refused, StorageError.

    Its folder of documents is made where it is not there, and has to be the one that the index was made of.
    """
    from flows.running.answer_models import open_assistant
    from flows.service.live_index import Indexing, LiveIndex

    index, indexing = folders.index, None
    if folders.documents:
        require_own_folders(make_absolute({name: folders}))
        indexing = Indexing(folders.documents.absolute(), index.absolute())
        files.make_folder(folders.documents)
    models = tuple(dict.fromkeys((llm or settings().llm, *registered_models(), "none")))
    live = LiveIndex(index, lambda: open_assistant(index, llm=llm, reranker=reranker, answers=answers), models=models)
    return Collection(name, live, indexing)


def listen_for_pages(place: Place) -> socket.socket:
    """Listen at the port that the pages had before, or their default one, else at any free port; note its number."""
    usual = int(place.pages_port.read_text()) if place.pages_port.exists() else DEFAULT_PORT
    try:
        listening = listen(LOOPBACK, usual)
    except Refused:
        listening = listen(LOOPBACK, 0)
    place.keep(place.pages_port, str(listening.getsockname()[1]))
    return listening


def punctual_protocol() -> Any:
    """Return uvicorn's protocol with limits on the time for the headers and the body of a request: it has none."""
    from uvicorn.protocols.http.auto import AutoHTTPProtocol

    base: Any = AutoHTTPProtocol

    class PunctualProtocol(base):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self.mark = None
            self.loop.call_later(HEADERS_S, self.close_late, None)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self.mark = object() if self.cycle and self.cycle.more_body else self.cycle

        def close_late(self, mark: Any) -> None:
            """Close the connection if neither a request nor more of its body has come since `mark`."""
            # where reading is paused, it is the application that does not read
            reads = self.cycle is None or self.cycle.response_complete or self.cycle.more_body
            if reads and not self.flow.read_paused and self.mark is mark:
                self.transport.close()
            elif not self.transport.is_closing():
                self.loop.call_later(HEADERS_S, self.close_late, self.mark)

    return PunctualProtocol


class IdleWatch:
    """An ASGI application around that of the pages, which knows since when nobody has asked for anything."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._active = 0
        self._last: float | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        is_request = scope["type"] == "http" and scope["path"] != "/health"  # which whoever watches asks for
        self._active += is_request
        try:
            await self._app(scope, receive, send)
        finally:
            self._active -= is_request
            self._last = time.monotonic() if is_request else self._last

    def is_idle(self) -> bool:
        """Return whether it was used, but not for `IDLE_S`."""
        return self._last is not None and not self._active and time.monotonic() - self._last > IDLE_S


def serve_pages(
    collections: Sequence[Collection],
    auth: SecretStr,
    listening: socket.socket,
    *,
    home: Path,
    verbose: bool = False,
    ends_when_idle: bool = False,
) -> bool:
    """Serve answers and pages until a signal; `auth` and the auth string of the home's service sign in to them.

    ends_when_idle: end too when nobody asks and models take memory. Returns whether it ended for that.
    """
    import uvicorn

    from flows.service.answering import Asking
    from flows.service.live_index import LiveIndex
    from flows.service.web.visits import acts
    from flows.service.web.workplace import create_app
    from tasks.resources import sessions

    def refuse() -> NoReturn:
        raise IndexUnusable("no index is served here; start again with --index DIR, which `trivet rag index` writes")

    for collection in collections:
        if collection.indexing:
            collection.indexing.watch()
    app = create_app(
        collections or [Collection("none", LiveIndex(home / NO_INDEX, refuse))],
        Asking(sessions(), stopping=lambda: server.should_exit),
        auth=auth,
        home=home,
        owner=lambda: os.environ.get("PREFECT_SERVER_API_AUTH_STRING") or auth_of(home),
    )
    sys.stdout.flush()  # a program may wait for the address on a pipe
    logging.getLogger("flows").setLevel(logging.INFO if verbose else logging.WARNING)
    each_act = logging.StreamHandler()  # a line of its own, which the handler of the MCP SDK would break
    each_act.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    acts.addHandler(each_act)
    acts.setLevel(logging.INFO)
    acts.propagate = False
    watch = IdleWatch(app)
    config = uvicorn.Config(
        watch,
        http=punctual_protocol(),
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=3,  # for answers in progress
    )
    server = uvicorn.Server(config)
    gc.collect()
    gc.freeze()  # what is loaded now stays: to look at it again and again would cost pages tenths of a second

    def end_when_idle() -> None:
        """Have the server exit, to be restarted small, when it is idle, large, and indexes nothing."""
        while not server.should_exit:
            time.sleep(LOOK_S)
            if not watch.is_idle() or psutil.Process().memory_info().rss < MOST_IDLE_BYTES:
                continue
            if not any(collection.indexing and collection.indexing.state().running for collection in collections):
                idle.set()
                server.should_exit = True

    idle = Event()
    if ends_when_idle:
        Thread(target=end_when_idle, daemon=True, name="idle").start()
    with suppress(KeyboardInterrupt):  # uvicorn passes the signal on after a clean end
        server.run(sockets=[listening])
    return idle.is_set()


if __name__ == "__main__":
    run_program(main, sys.argv[1:])
