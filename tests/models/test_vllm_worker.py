"""What ends an engine's process with its opener; the engine itself is in tests/engines."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE

import psutil
import pytest

from models.vllm_engine import OPENER, end_orphans

WORKER = """
import time
from models.vllm_engine import EndsWithItsOpener

class Worker:
    def __init__(self, rank):
        self.rank = rank

class CPUWorker(Worker):
    pass

CPUWorker.__bases__ += (EndsWithItsOpener,)  # as vLLM does it
print(CPUWorker(3).rank, flush=True)
time.sleep(3600)
"""


@pytest.mark.parametrize("reaped", [True, False], ids=["gone", "a zombie"])
def test_a_worker_ends_with_its_opener(reaped: bool):
    opener = subprocess.Popen(["sleep", "3600"])
    environment = {**os.environ, OPENER: str(opener.pid)}
    command = [sys.executable, "-c", WORKER]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout
        assert worker.stdout.readline() == "3\n"
        assert worker.poll() is None
        opener.kill()
        if reaped:
            opener.wait()
        assert worker.wait(60) == 1
    opener.wait()


ENGINE = """
import os, time
from multiprocessing import get_context

if __name__ == "__main__":
    worker = get_context("spawn").Process(target=time.sleep, args=(3600,))
    worker.start()
    print(worker.pid, flush=True)
    time.sleep(3600)
"""


def test_workers_without_their_engine_are_ended_and_others_left_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    (tmp_path / "engine.py").write_text(ENGINE)
    monkeypatch.setenv(OPENER, str(os.getpid()))
    pair = [subprocess.Popen([sys.executable, tmp_path / "engine.py"], stdout=PIPE, text=True) for _ in range(2)]
    with pair[0] as killed, pair[1] as other:
        workers = [psutil.Process(int((one.stdout or sys.stdin).readline())) for one in pair]
        killed.kill()
        killed.wait()
        end_orphans()
        assert psutil.wait_procs(workers, timeout=10)[1] == [workers[1]]
        workers[1].kill()
        other.kill()
