"""A collector of OpenTelemetry hears of every model call of a run, and one that is dead costs the run little."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from pathlib import Path

import pytest

from tests.drills.evaluating import adder, command, write_sums
from tests.models.server import Server, error_reply, serving
from tests.otlp_server import attributes_of, collecting

pytestmark = [pytest.mark.engine, pytest.mark.postgres, pytest.mark.slow]

COUNT = 6


def evaluate(folder: Path, server: Server, collector: str, *, first: int) -> float:
    """Seconds that the run took. first: number of the first sum, as earlier ones are not asked again."""
    data, began = write_sums(folder / "data", COUNT, first=first), time.monotonic()
    arguments = command(server, data, folder / "logs")
    environment = os.environ | {"OTEL_EXPORTER_OTLP_ENDPOINT": collector}
    done = subprocess.run(arguments, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("takes no spans") <= 1
    assert "opentelemetry" not in done.stderr
    return time.monotonic() - began


def test_each_call_has_a_span_with_its_tokens(tmp_path: Path) -> None:
    with serving() as server, collecting() as (collector, spans):
        server.answer = adder(0.01)
        server.script = [error_reply(500, "oops")]  # the first request is tried again: one call, one span
        evaluate(tmp_path, server, collector, first=7000)
        assert len(server.requests) == COUNT + 1
    calls = [span for span in spans if span.name == "chat small-vision"]
    assert len(calls) == COUNT
    for span in calls:
        told = attributes_of(span)
        assert told["gen_ai.operation.name"] == "chat"
        assert (told["gen_ai.provider.name"], told["gen_ai.request.model"]) == ("openai", "small-vision")
        assert told["gen_ai.request.max_tokens"] > 0
        assert told["gen_ai.usage.input_tokens"] > 0
        assert told["gen_ai.usage.output_tokens"] > 0
        assert told["gen_ai.response.finish_reasons"] == ["stop"]
        assert 0 < span.end_time_unix_nano - span.start_time_unix_nano < 60e9
        assert not any("sum" in str(value) for value in told.values())  # neither prompt nor answer


def test_a_collector_that_is_away_takes_no_run_with_it(tmp_path: Path) -> None:
    with socket.socket() as nobody, serving() as server:
        nobody.bind(("127.0.0.1", 0))
        server.answer = adder(0.01)
        assert evaluate(tmp_path, server, f"http://127.0.0.1:{nobody.getsockname()[1]}", first=8000) < 120
        assert len(server.requests) == COUNT
