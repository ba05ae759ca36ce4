"""Messages arrive as they were sent, or not at all."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Iterator
from typing import Any

import pytest

from tasks.sandbox.inside import Frame, receive, send


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    one, other = socket.socketpair()
    with one, other:
        for end in (one, other):
            end.settimeout(20)
        yield one, other


def on_the_wire(fields: Any, *blobs: bytes, sizes: Any = None) -> bytes:
    """A message by the format's own words: length of the head, little-endian; head; blobs."""
    head = json.dumps({"fields": fields, "sizes": [len(blob) for blob in blobs] if sizes is None else sizes}).encode()
    return struct.pack("<I", len(head)) + head + b"".join(blobs)


def test_a_message_has_this_format(pair: tuple[socket.socket, socket.socket]):
    """Both ends are of one version, but the inner end is another Python."""
    one, other = pair
    send(one, {"a": 1}, [b"xy", b""])
    whole = b'\x25\x00\x00\x00{"fields": {"a": 1}, "sizes": [2, 0]}xy'
    assert other.recv(1000) == whole
    one.sendall(whole)
    assert receive(other) == Frame({"a": 1}, [b"xy", b""])


@pytest.mark.parametrize("sent", [0, 2, 4, 20, 41, 45])
def test_of_a_peer_that_goes_in_the_middle_nothing_is_taken(pair: tuple[socket.socket, socket.socket], sent: int):
    one, other = pair
    one.sendall(on_the_wire({"a": 1}, b"xyz", b"12")[:sent])
    one.close()
    assert receive(other) is None


@pytest.mark.parametrize(
    "head",
    [b"", b"\xff", b"[]", b'{"fields": {}}'],
    ids=["nothing", "no text", "a list", "no sizes"],
)
def test_what_is_no_message_is_an_error_of_the_channel(pair: tuple[socket.socket, socket.socket], head: bytes):
    """So that a zygote that talks nonsense is lost, as one that is gone."""
    one, other = pair
    one.sendall(struct.pack("<I", len(head)) + head)
    one.shutdown(socket.SHUT_WR)
    with pytest.raises(OSError, match="message"):
        receive(other)


def test_a_message_beyond_the_most_and_a_peer_that_says_nothing_are_errors(pair: tuple[socket.socket, socket.socket]):
    one, other = pair
    send(one, {}, [b"xyz"])
    with pytest.raises(OSError, match="3 bytes came, and 2 are the most"):
        receive(other, most=2)
    other.recv(3)
    other.settimeout(0.05)
    with pytest.raises(TimeoutError):
        receive(other)
