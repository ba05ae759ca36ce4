"""`kill -9` of a process that asks for many answers, and a database that goes away: nothing is paid for twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from storage import connections
from storage.embedded import Cluster
from storage.responses import Responses
from tasks.calls import response_key
from tests.drills.asking import CONCURRENCY, requests
from tests.models.server import MODEL, Server, prompt_of

pytestmark = [pytest.mark.drill, pytest.mark.postgres]

COUNT = 200
KILLS_AFTER = (20, 45, 60)
"""Answers of each run before it is killed."""
ROOT = Path(__file__).parents[2]


@pytest.fixture
def server(server: Server) -> Server:
    """It takes its time, so that a kill hits requests under way."""
    server.answer = lambda body: (time.sleep(0.02), f"Answer to {prompt_of(body)}")[1]
    return server


@pytest.fixture
def cluster(home: Path) -> Cluster:
    return Cluster(home)


def test_three_kills_ask_for_nothing_twice_but_what_was_under_way(server: Server, cluster: Cluster):
    url = cluster.start()
    for answers in KILLS_AFTER:
        with run(server, url) as process:
            assert process.stdout
            for _ in range(answers):
                assert process.stdout.readline()
            os.kill(process.pid, signal.SIGKILL)
    with run(server, url) as process:
        assert process.stdout
        told = [json.loads(line) for line in process.stdout]
    asked = Counter(prompt_of(each["body"]) for each in server.requests)
    assert len(asked) == COUNT
    assert asked.total() - COUNT <= len(KILLS_AFTER) * CONCURRENCY
    assert sorted(line["tag"] for line in told if "tag" in line) == list(range(COUNT))
    assert stored(url) == COUNT
    connections.engine(url).dispose()


def test_a_run_goes_on_when_the_database_goes_away_in_the_middle(server: Server, cluster: Cluster):
    url = cluster.start()
    with run(server, url) as process:
        assert process.stdout
        for _ in range(50):
            assert process.stdout.readline()
        cluster.stop()
        *told, last = [json.loads(line) for line in process.stdout]
    assert process.returncode == 0
    assert (len(told), len(server.requests)) == (COUNT - 50, COUNT)
    url = cluster.start()
    assert f"{COUNT - stored(url)} answers are not in the response store" in last["trouble"]
    connections.engine(url).dispose()


def run(server: Server, url: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.drills.asking", server.base_url, url, str(COUNT)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def stored(url: str) -> int:
    keys = [response_key(f"openai:{MODEL}", request) for _, request in requests(COUNT)]
    return len(Responses(lambda: url).many(keys))
