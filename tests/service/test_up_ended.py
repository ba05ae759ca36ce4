"""`trivet up` that is ended while it starts leaves nothing behind."""

from __future__ import annotations

import signal
import subprocess

import pytest

from flows.service.server_database import cluster_of
from tests.command import TRIVET
from tests.service.serviced import ROOT, service_home

pytestmark = [pytest.mark.engine, pytest.mark.postgres, pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)], ids=["SIGTERM", "Ctrl-C"])
def test_a_start_that_is_ended_stops_what_it_has_started(number: signal.Signals, code: int) -> None:
    with service_home() as running:
        starts = subprocess.Popen(
            [*TRIVET, "up", "--port", str(running.port)],
            env=running.environment(),
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        running.until(lambda: any("supervisor.supervisord" in each.command for each in running.processes()), "a part")

        starts.send_signal(number)
        _, said = starts.communicate(timeout=120)

        assert (starts.returncode, "what had started was stopped" in said) == (code, True), said
        assert [each.command for each in running.processes()] == []
        assert cluster_of(running.place).status().state == "stopped"
        assert not running.place.address.exists()
