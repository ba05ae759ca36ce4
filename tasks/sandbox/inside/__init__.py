"""Code that runs inside the sandbox, with the standard library alone, on any Python from 3.9.

Here: its messages with the host, a JSON object followed by blobs; nothing in them is ever evaluated.
"""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

_HEAD = struct.Struct("<I")


class Frame(NamedTuple):
    """A message between host and sandbox: a JSON object and blobs of bytes."""

    fields: dict[str, Any]
    blobs: list[bytes]


def send(channel: socket.socket, fields: dict[str, Any], blobs: Sequence[bytes] = ()) -> None:
    """Send a message to the other side. Raises OSError when that is gone."""
    head = json.dumps({"fields": fields, "sizes": [len(blob) for blob in blobs]}).encode()
    channel.sendall(b"".join([_HEAD.pack(len(head)), head, *blobs]))


def receive(channel: socket.socket, *, most: int | None = None) -> Frame | None:
    """Return the next message; None when the other side is gone.

    most: bytes of its blobs together; None: any number. Raises OSError, also when the socket times out and for what is
    no message.
    """
    try:
        head = _read_exactly(channel, _HEAD.unpack(_read_exactly(channel, _HEAD.size))[0])
        try:
            message = json.loads(head)
            fields, sizes = message["fields"], message["sizes"]
        except (ValueError, KeyError, TypeError) as error:
            raise OSError(f"no message came: {error}") from error
        if most is not None and sum(sizes) > most:
            raise OSError(f"a message of {sum(sizes)} bytes came, and {most} are the most")
        return Frame(fields, [_read_exactly(channel, size) for size in sizes])
    except EOFError:
        return None


def _read_exactly(channel: socket.socket, size: int) -> bytes:
    """Return the next `size` bytes. Raises EOFError if the channel ends before."""
    parts: list[bytes] = []
    while size > 0:
        part = channel.recv(min(size, 1 << 20))
        if not part:
            raise EOFError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
