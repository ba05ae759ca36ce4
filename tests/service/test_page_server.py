"""Where the pages of a service listen, beside other programs of the machine."""

import socket
from pathlib import Path

from flows.service.page_server import listen_for_pages
from flows.service.place import Place, ServiceSettings


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
