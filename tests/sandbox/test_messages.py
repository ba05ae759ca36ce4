"""Messages arrive as they were sent, or not at all."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.sandbox.inside import Frame, receive, send

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
messages = st.tuples(
    st.dictionaries(st.text(max_size=8), json_values, max_size=4), st.lists(st.binary(max_size=200), max_size=5)
)


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


@given(st.lists(messages, min_size=1, max_size=4))
def test_messages_arrive_as_they_were_sent(sent: list[tuple[dict[str, Any], list[bytes]]]):
    one, other = socket.socketpair()
    with one, other:
        for fields, blobs in sent:
            send(one, fields, blobs)
        one.close()
        assert [receive(other) for _ in sent] == [Frame(fields, blobs) for fields, blobs in sent]
        assert receive(other) is None


def test_a_message_has_this_format(pair: tuple[socket.socket, socket.socket]):
    """Both ends are of one version, but the inner end is another Python."""
    one, other = pair
    send(one, {"a": 1}, [b"xy", b""])
    whole = b'\x25\x00\x00\x00{"fields": {"a": 1}, "sizes": [2, 0]}xy'
    assert other.recv(1000) == whole
    one.sendall(whole)
    assert receive(other) == Frame({"a": 1}, [b"xy", b""])


def test_a_message_larger_than_what_a_socket_holds_arrives_whole(pair: tuple[socket.socket, socket.socket]):
    one, other = pair
    blob = bytes(range(256)) * (1 << 14)  # 4 MiB
    sender = threading.Thread(target=send, args=(one, {}, [blob, b"end"]))
    sender.start()
    found = receive(other)
    sender.join()
    assert found == Frame({}, [blob, b"end"])


@pytest.mark.parametrize("sent", [0, 2, 4, 20, 41, 45])
def test_of_a_peer_that_goes_in_the_middle_nothing_is_taken(pair: tuple[socket.socket, socket.socket], sent: int):
    one, other = pair
    one.sendall(on_the_wire({"a": 1}, b"xyz", b"12")[:sent])
    one.close()
    assert receive(other) is None


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(struct.pack("<I", 0xFFFFFFFF) + b"{}", id="a head of 4 GiB"),
        pytest.param(on_the_wire({}, b"xy", sizes=[1 << 60]), id="a blob of an exbibyte"),
        pytest.param(on_the_wire({}, b"xy", sizes=[2, 1]), id="a blob more than there are"),
    ],
)
def test_a_length_beyond_what_comes_takes_no_memory_and_is_no_message(
    pair: tuple[socket.socket, socket.socket], sent: bytes
):
    one, other = pair
    one.sendall(sent)
    one.shutdown(socket.SHUT_WR)
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
