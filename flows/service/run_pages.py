"""The pages of a service, for a supervisor, systemd or a container.

`python -m flows.service.run_pages [PORT [HOST] [--index [NAME=]DIR]… [--documents [NAME=]DIR]…]`; without arguments
they are as `trivet up` was asked for them. The auth string of the service signs in to them as an operator, beside
those of `trivet ui`.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from flows.running.environment import AUTHORITY, prepare_environment
from flows.running.settings import settings
from flows.service.api import Api, Refused
from flows.service.asked_service import LOOPBACK, remembered
from flows.service.page_server import DEFAULT_PORT, PemFiles, listen, no_collection, open_collection, run
from flows.service.place import Place
from flows.service.run_server import AUTH
from flows.service.served_collections import Folders, absolute, folders_of

PATIENCE_S, LOOK_S = 60.0, 0.5


class Shown(NamedTuple):
    """What the pages show, and where they listen."""

    listening: socket.socket
    collections: Mapping[str, Folders]
    tls: PemFiles | None = None


def main(words: Sequence[str]) -> None:
    """Serve the pages until a signal. Raises Refused."""
    place = Place(settings().home)
    shown = told(words) if words else as_asked(place)
    _let_the_server_begin()
    prepare_environment()
    from flows.service.index_server import auth_string, create_app
    from flows.service.role_doors import Keys
    from flows.service.web.signing_in import SERVICE
    from tasks.resources import sessions

    keys = Keys(place)
    collections = [open_collection(name, folders) for name, folders in shown.collections.items()]
    for one in collections:
        if one.indexing:
            one.indexing.watch()
    run(
        lambda stopping: create_app(
            collections or [no_collection(place.home)],
            auth=auth_string(place.home, configured=settings().serve_token).secret,
            sessions=sessions(),
            stopping=stopping,
            home=place.home,
            of_role=lambda role: os.environ.get(AUTH) if role == SERVICE else keys.of(role),
        ),
        shown.listening,
        tls=shown.tls,
    )


def told(words: Sequence[str]) -> Shown:
    """What the arguments say. Raises Refused, also where another program has the port."""
    parser = argparse.ArgumentParser(prog="python -m flows.service.run_pages")
    parser.add_argument("port", type=int)
    parser.add_argument("host", nargs="?", default=LOOPBACK)
    for option in ("--index", "--documents"):
        parser.add_argument(option, action="append", default=[], metavar="[NAME=]DIR")
    said = parser.parse_args(words)
    return Shown(listen(said.host, said.port), absolute(folders_of(said.index, said.documents)))


def as_asked(place: Place) -> Shown:
    """What the last `trivet up` of this home was asked for. Raises Refused."""
    asked = remembered(place)
    if asked is None or asked.server:
        raise Refused("no pages were asked for here; `trivet up` starts them")
    tls = PemFiles(asked.tls.certificate, asked.tls.key) if asked.tls else None
    return Shown(listen_for_pages(place, asked.host), asked.collections, tls)


def listen_for_pages(place: Place, host: str) -> socket.socket:
    """At the port that the pages had before, or their usual one; where another program has it, at any that is free.

    Raises Refused.
    """
    usual = int(place.pages_port.read_text()) if place.pages_port.exists() else DEFAULT_PORT
    try:
        listening = listen(host, usual)
    except Refused:
        listening = listen(host, 0)
    place.keep(place.pages_port, str(listening.getsockname()[1]))
    return listening


def _let_the_server_begin() -> None:
    """Wait for Prefect's server, whose start is what `trivet up` waits for; browsers wait at the open port."""
    url, end = os.environ.get("PREFECT_API_URL"), time.monotonic() + PATIENCE_S
    while url and not Api(url, None, os.environ.get(AUTHORITY)).ready() and time.monotonic() < end:
        time.sleep(LOOK_S)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except Refused as error:
        sys.exit(str(error))
