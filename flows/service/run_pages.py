"""The pages of a service, for its supervisor: `python -m flows.service.run_pages PORT [HOST CERTIFICATE KEY]`.

The auth string of the service signs in to them as an operator, beside those of `trivet ui`.
"""

from __future__ import annotations

import os
import sys
import time
from typing import NoReturn

from flows.running.environment import AUTHORITY, LOOPBACK
from flows.running.settings import prepare_environment, settings
from flows.service.api import Api, Refused
from flows.service.page_server import PemFiles, listen, run
from flows.service.place import Place
from flows.service.run_server import AUTH

PATIENCE_S, LOOK_S = 60.0, 0.5


def main(port: str, host: str = "127.0.0.1", certificate: str | None = None, key: str | None = None) -> None:
    """Serve the pages until a signal. Raises Refused."""
    if host not in LOOPBACK and not certificate:
        raise Refused(f"the pages listen on {host} with a certificate only; name CERTIFICATE and KEY")
    listening = listen(host, int(port))
    _let_the_server_begin()
    prepare_environment()
    from flows.service.index_server import auth_string, create_app
    from flows.service.role_doors import Keys
    from flows.service.serving_work import LiveIndex
    from flows.service.web.signing_in import SERVICE
    from tasks.resources import sessions

    home = settings().home
    keys = Keys(Place(home))
    run(
        lambda stopping: create_app(
            LiveIndex(home / "no-index", _no_index),
            auth=auth_string(home, configured=settings().serve_token).secret,
            sessions=sessions(),
            stopping=stopping,
            home=home,
            of_role=lambda role: os.environ.get(AUTH) if role == SERVICE else keys.of(role),
        ),
        listening,
        tls=PemFiles(certificate, key) if certificate and key else None,
    )


def _let_the_server_begin() -> None:
    """Wait for Prefect's server, whose start is what `trivet up` waits for; browsers wait at the open port."""
    url, end = os.environ.get("PREFECT_API_URL"), time.monotonic() + PATIENCE_S
    while url and not Api(url, None, os.environ.get(AUTHORITY)).ready() and time.monotonic() < end:
        time.sleep(LOOK_S)


def _no_index() -> NoReturn:
    from storage.storage_errors import IndexUnusable

    raise IndexUnusable("no index is served here")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Refused as error:
        sys.exit(str(error))
