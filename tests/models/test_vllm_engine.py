"""What becomes of batches, refusals and the engine's end, with a stand-in for vLLM; vLLM itself is in tests/engines."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from models import vllm_engine
from models.local import load_once, release_model
from models.model_errors import TransientModelError
from models.vllm_engine import OPENER, Job, JobRefused, Setup, ask_engine

SETUP = Setup(Path("model"), None, "float32", sees=False, pixels=())


class Refused(Exception):
    """What vLLM raises for a prompt that it does not take."""


class FakeLLM:
    """Answers every prompt with the sum of its tokens; a token 0 is refused with its batch, 13 ends the engine."""

    def __init__(self) -> None:
        self.asked = list[int]()  # sizes of the batches that were answered
        self.is_shut_down = False
        core = SimpleNamespace(
            shutdown=lambda: setattr(self, "is_shut_down", True),
            resources=SimpleNamespace(engine_manager=SimpleNamespace(monitor_engine_liveness=lambda: None)),
            outputs_queue=SimpleNamespace(put=lambda error: None),
        )
        self.llm_engine = SimpleNamespace(engine_core=core, has_unfinished_requests=lambda: False)

    def generate(self, prompts: list[dict[str, Any]], *_: Any, **__: Any) -> list[int]:
        tokens = [prompt["prompt_token_ids"][0] for prompt in prompts]
        if 0 in tokens:
            raise Refused("longer than the context")
        if 13 in tokens:
            raise RuntimeError("the engine died")
        self.asked.append(len(tokens))
        return tokens


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[FakeLLM]]:
    """The engines that were opened, newest last."""
    opened = list[FakeLLM]()
    for name, error in (("vllm.exceptions", "VLLMClientError"), ("vllm.v1.engine.exceptions", "EngineDeadError")):
        module = ModuleType(name)
        setattr(module, error, Refused)
        monkeypatch.setitem(sys.modules, name, module)
    for package in ("vllm", "vllm.v1", "vllm.v1.engine"):
        monkeypatch.setitem(sys.modules, package, ModuleType(package))
    monkeypatch.setattr(vllm_engine, "load_llm", lambda setup: (opened.append(FakeLLM()) or opened[-1], None))
    yield opened
    release_model()


def answers(*tokens: int) -> list[Any]:
    return ask_engine(SETUP, [Job([token], (), None) for token in tokens])


def test_threads_share_one_engine(engines: list[FakeLLM]):
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda start: answers(*range(start, start + 9)), (100, 200, 300, 400)))
    assert found == [list(range(start, start + 9)) for start in (100, 200, 300, 400)]
    [engine] = engines
    assert engine.asked == [9, 9, 9, 9]


def test_a_refused_job_costs_the_others_nothing(engines: list[FakeLLM]):
    found = answers(1, 2, 0, 3, 4)
    assert [one if isinstance(one, int) else str(one) for one in found] == [1, 2, "longer than the context", 3, 4]
    assert isinstance(found[2], JobRefused)


def test_an_engine_that_died_says_so_and_the_next_is_opened(engines: list[FakeLLM]):
    with pytest.raises(TransientModelError, match=r"with 2 requests unanswered.*the engine died"):
        answers(1, 13)
    assert engines[0].is_shut_down
    assert answers(1) == [1]
    assert len(engines) == 2


def test_another_model_ends_the_engine_and_the_next_question_opens_it_again(engines: list[FakeLLM]):
    answers(1)
    load_once("another model", object)
    assert engines[0].is_shut_down
    assert answers(2) == [2]


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


def test_a_worker_ends_with_its_opener():
    opener = subprocess.Popen(["sleep", "3600"])
    environment = {**os.environ, OPENER: str(opener.pid)}
    command = [sys.executable, "-c", WORKER]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout
        assert worker.stdout.readline() == "3\n"
        assert worker.poll() is None
        opener.kill()  # and nobody has waited for it: it is a zombie
        assert worker.wait(60) == 1
    opener.wait()
