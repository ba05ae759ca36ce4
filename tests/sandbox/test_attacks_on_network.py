"""Programs that call others: listeners of these tests, on loopback, which may hear nothing."""

from __future__ import annotations

import json

import pytest

from tasks.sandbox import Program
from tests.sandbox.attacking import PROGRAMS, SMALL, Arena, watchdog


@pytest.mark.parametrize("source", PROGRAMS["calling"].values(), ids=PROGRAMS["calling"])
def test_nobody_outside_is_called(arena: Arena, source: str):
    arena.attack("import socket\n" + source)


@pytest.mark.parametrize(
    "look_up",
    [
        "socket.getaddrinfo, 'trivet.invalid', 80",
        "socket.gethostbyname, 'trivet.invalid'",
        "socket.gethostbyname, 'trivet'",
        "socket.gethostbyaddr, '127.0.0.2'",
        "socket.getaddrinfo, 'trivet.local', 80, socket.AF_INET6",
    ],
)
def test_a_name_is_not_looked_up_outside(arena: Arena, look_up: str):
    """resolv.conf names a server on loopback: the sandbox's, where nobody listens; ours hears nothing."""
    source = "import socket\nprint(open('/etc/resolv.conf').read())\n"
    done = arena.attack(f"{source}attempt('name', {look_up})")
    assert "nameserver 127.0.0.1\n" in done.stdout


@pytest.mark.parametrize(
    ("family", "kind", "protocol"),
    [
        (17, 3, 3),
        (2, 3, 1),
        (10, 3, 58),
        (2, 3, 255),
        (16, 3, 0),
        (16, 3, 9),
        (38, 5, 0),
        (40, 1, 0),
        (31, 3, 1),
        (29, 3, 1),
        (44, 3, 0),
    ],
    ids=["packet", "icmp", "icmp6", "raw", "route", "audit", "crypto", "vsock", "bluetooth", "can", "xdp"],
)
def test_a_socket_of_another_kind_is_refused_or_leads_nowhere(arena: Arena, family: int, kind: int, protocol: int):
    source = f"import socket\nattempt('socket', socket.socket, {family}, {kind}, {protocol})"
    if family == 16 and not arena.is_filtered:
        pytest.skip("without a filter of system calls a program may ask its own network namespace")
    arena.attack(source)


def test_a_program_may_talk_to_itself_and_is_not_heard_outside(arena: Arena):
    """Many benchmarks' programs do; the port may be one that is taken here."""
    source = """
import json, socket, threading
for port in json.load(open('aims.json'))['ports']:
    server = socket.create_server(('127.0.0.1', port))
    thread = threading.Thread(target=lambda: server.accept()[0].sendall(b'hello'))
    thread.start()
    print(socket.create_connection(('127.0.0.1', port)).recv(5).decode())
    thread.join()
    server.close()
"""
    files = {"aims.json": json.dumps(arena.bystanders.aims).encode()}
    with watchdog(arena.sandbox):
        done = arena.sandbox.run(Program(source, files=files, limits=SMALL))
    arena.bystanders.assert_untouched()
    assert done.stdout.split() == ["hello"] * 3, done
