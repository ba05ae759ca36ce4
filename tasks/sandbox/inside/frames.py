"""Messages between the host and the sandbox: a JSON object followed by blobs; nothing in them is ever evaluated."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

_HEAD = struct.Struct("<I")


class Frame(NamedTuple):
    fields: dict[str, Any]
    blobs: list[bytes]


def send(channel: socket.socket, fields: dict[str, Any], blobs: Sequence[bytes] = ()) -> None:
    """Raises OSError when the other side is gone."""
    head = json.dumps({"fields": fields, "sizes": [len(blob) for blob in blobs]}).encode()
    channel.sendall(b"".join([_HEAD.pack(len(head)), head, *blobs]))


def receive(channel: socket.socket, *, most: int | None = None) -> Frame | None:
    """The next message; None when the other side is gone. most: bytes of its blobs together; None: any number.

    Raises OSError, also when the socket times out and for what is no message.
    """
    length = _exactly(channel, _HEAD.size)
    if length is None:
        return None
    head = _exactly(channel, _HEAD.unpack(length)[0])
    if head is None:
        return None
    try:
        told = json.loads(head)
        fields, sizes = told["fields"], told["sizes"]
    except (ValueError, KeyError, TypeError) as error:
        raise OSError(f"no message came: {error}") from error
    if most is not None and sum(sizes) > most:
        raise OSError(f"a message of {sum(sizes)} bytes came, and {most} are the most")
    blobs = [_exactly(channel, size) for size in sizes]
    whole = [blob for blob in blobs if blob is not None]
    return Frame(fields, whole) if len(whole) == len(blobs) else None


def _exactly(channel: socket.socket, size: int) -> bytes | None:
    parts: list[bytes] = []
    while size > 0:
        part = channel.recv(min(size, 1 << 20))
        if not part:
            return None
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
