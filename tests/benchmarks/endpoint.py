"""A chat endpoint that answers everything after a fixed time: `python -m tests.benchmarks.endpoint LATENCY_MS`.

Runs in a process of its own, so that its work is not counted with the client's. Prints its port; ends with its stdin.
GET /v1/times tells when each question came, in seconds, and forgets it.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

TEXT = "The remainder is 3, so the answer is \\boxed{3}. " * 20
ANSWER = json.dumps(
    {
        "id": "chat-1",
        "object": "chat.completion",
        "created": 0,
        "model": "bench",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": TEXT}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 150, "completion_tokens": 240, "total_tokens": 390},
    }
).encode()
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
REPLY = HEAD % (len(ANSWER), ANSWER)
MODELS = json.dumps({"object": "list", "data": [{"id": "bench", "object": "model", "created": 0}]}).encode()

_times: list[float] = []


class _Connection(asyncio.Protocol):
    def __init__(self, latency_s: float) -> None:
        self._latency_s = latency_s
        self._got = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if data.startswith(b"GET "):
            body = json.dumps(_times).encode() if data.startswith(b"GET /v1/times") else MODELS
            _times.clear()
            self._transport.write(HEAD % (len(body), body))
            return
        self._got += data
        head, blank, body = self._got.partition(b"\r\n\r\n")
        if blank and len(body) >= int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0]):
            self._got = b""
            _times.append(time.perf_counter())
            asyncio.get_running_loop().call_later(self._latency_s, self._reply)

    def _reply(self) -> None:
        if not self._transport.is_closing():
            self._transport.write(REPLY)


async def serve(latency_s: float) -> None:
    """Answer until nobody holds the other end of stdin any more."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Connection(latency_s), "127.0.0.1", 0, backlog=512)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(serve(float(sys.argv[1]) / 1000))
