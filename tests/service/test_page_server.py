"""Where the pages of a service listen, beside other programs of the machine, and what they hold while nobody asks."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import psutil

from flows.service.page_server import listen_for_pages
from flows.service.place import Place, ServiceSettings
from tests.command import until


def test_two_homes_that_begin_at_once_have_pages_at_two_ports_and_keep_them(tmp_path: Path) -> None:
    first, second = Place(tmp_path / "first"), Place(tmp_path / "second")
    asked = ServiceSettings(folder=str(tmp_path))
    for place in (first, second):
        place.prepare()
        assert asked.pages_url(place) is None

    with listen_for_pages(first) as one, listen_for_pages(second) as other:
        port = one.getsockname()[1]
        assert port != other.getsockname()[1]
        assert asked.pages_url(first) == f"http://127.0.0.1:{port}"
    with listen_for_pages(first) as again:
        assert again.getsockname()[1] == port


def test_a_port_that_another_program_took_meanwhile_is_given_up_and_the_new_one_told(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.prepare()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place.keep(place.pages_port, str(taken.getsockname()[1]))
        with listen_for_pages(place) as listening:
            port = listening.getsockname()[1]

            assert port != taken.getsockname()[1]
            assert ServiceSettings(folder="/").pages_url(place) == f"http://127.0.0.1:{port}"


def test_pages_that_nobody_asks_become_a_process_without_models_at_the_same_port(tmp_path: Path) -> None:
    begin = "from flows.service import page_server as p; p.IDLE_S, p.MOST_IDLE_BYTES = 0.0, 0; p.main({words!r})"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {**os.environ, "TRIVET_HOME": str(tmp_path)}
    environment.pop("PREFECT_API_URL", None)
    command = [sys.executable, "-P", "-c", begin.format(words=[str(port)])]
    transport = httpx.HTTPTransport(retries=60)
    with (
        subprocess.Popen(command, env=environment) as server,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", transport=transport, timeout=60) as page,
    ):
        try:
            until(lambda: page.get("/ui/sign-in").status_code == 200)
            until(lambda: "--listening" in psutil.Process(server.pid).cmdline())
            assert page.get("/ui/sign-in").status_code == 200
        finally:
            server.terminate()
