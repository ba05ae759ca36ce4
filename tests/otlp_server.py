"""An OpenTelemetry collector of the tests: it keeps the spans that it receives."""

from __future__ import annotations

import gzip
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue


@contextmanager
def collecting() -> Generator[tuple[str, list[Any]]]:
    """The address of a collector on loopback, and the spans (protobuf) that came."""
    spans: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            told = gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body
            if self.path == "/v1/traces":
                request = ExportTraceServiceRequest.FromString(told)
                spans.extend(
                    span for one in request.resource_spans for scope in one.scope_spans for span in scope.spans
                )
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", spans
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def attributes_of(span: Any) -> dict[str, Any]:
    """As plain values."""
    return {one.key: _plain(one.value) for one in span.attributes}


def _plain(value: AnyValue) -> Any:
    if value.HasField("array_value"):
        return [_plain(one) for one in value.array_value.values]
    return getattr(value, str(value.WhichOneof("value")))
