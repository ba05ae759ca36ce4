"""How threads share an engine, and what ends its process with its opener; vLLM itself is in tests/engines."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from models import vllm_engine
from models.local import held, release_held
from models.vllm_engine import OPENER, EngineGone, Job, JobRefused, Setup, engine_of

SETUP = Setup(Path("model"), None, "float32", sees=False, pixels=())
STEPS = 3


class Refused(Exception):
    """What vLLM raises for a prompt that it does not take."""


class FakeLLM:
    """Answers every request after three steps with the sum of its tokens; a token 0 is refused, 13 ends the engine."""

    def __init__(self) -> None:
        self.llm_engine: Any = self
        self.renderer = SimpleNamespace(render_cmpl=lambda prompts: [prompts[0]["prompt_token_ids"]])
        self.vllm_config = SimpleNamespace(scheduler_config=SimpleNamespace(max_num_seqs=2))
        self.running: dict[str, list[int]] = {}
        self.together = 0  # most requests under way at once
        self.is_shut_down = False
        self.engine_core = SimpleNamespace(shutdown=lambda: setattr(self, "is_shut_down", True))

    def add_request(self, name: str, tokens: list[int], *_: Any, **__: Any) -> None:
        if 0 in tokens:
            raise Refused("longer than the context")
        self.running[name] = [sum(tokens), STEPS]
        self.together = max(self.together, len(self.running))

    def step(self) -> list[Any]:
        assert self.running, "a step without a request would wait for ever"
        time.sleep(0.001)
        outputs: list[Any] = []
        for name, state in list(self.running.items()):
            if state[0] == 13:
                raise RuntimeError("the engine died")
            state[1] -= 1
            if not state[1]:
                del self.running[name]
                outputs.append(SimpleNamespace(request_id=name, finished=True, answer=state[0]))
        return outputs

    def abort_request(self, names: list[str]) -> None:
        for name in names:
            del self.running[name]


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The engines that were opened, newest last."""
    opened = list[FakeLLM]()
    exceptions = ModuleType("vllm.exceptions")
    exceptions.VLLMClientError = Refused  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.setitem(sys.modules, "vllm", ModuleType("vllm"))
    monkeypatch.setitem(sys.modules, "vllm.exceptions", exceptions)
    monkeypatch.setattr(vllm_engine, "_tell_of_death", lambda core: None)
    monkeypatch.setattr(vllm_engine, "load_llm", lambda setup: (opened.append(FakeLLM()) or opened[-1], None))
    yield opened
    release_held()


def answers(*tokens: int) -> dict[int, Any]:
    outputs = engine_of(SETUP).run([Job([token], (), None) for token in tokens])
    return {number: output if isinstance(output, JobRefused) else output.answer for number, output in outputs}


def test_threads_share_the_batches_of_one_engine(engines: list[FakeLLM]):
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda start: answers(*range(start, start + 9)), (100, 200, 300, 400)))
    assert found == [dict(enumerate(range(start, start + 9))) for start in (100, 200, 300, 400)]
    [engine] = engines
    assert engine.together > 4, "a caller has four at once: the jobs of several have run together"


def test_a_refused_job_costs_the_others_nothing(engines: list[FakeLLM]):
    found = answers(1, 0, 2)
    assert (found[0], str(found[1]), found[2]) == (1, "longer than the context", 2)


def test_jobs_that_nobody_waits_for_are_taken_out(engines: list[FakeLLM]):
    outputs = engine_of(SETUP).run([Job([token], (), None) for token in (1, 2, 3)])
    next(outputs)
    outputs.close()
    assert engines[0].running == {}


def test_an_engine_that_died_says_so_to_all_and_the_next_is_opened(engines: list[FakeLLM]):
    with pytest.raises(EngineGone, match="the engine died"):
        answers(13)
    assert engines[0].is_shut_down
    assert answers(1) == {0: 1}
    assert len(engines) == 2


def test_another_model_ends_the_engine_and_its_jobs_are_to_be_asked_again(engines: list[FakeLLM]):
    outputs = engine_of(SETUP).run([Job([token], (), None) for token in (1, 2, 3, 4, 5, 6)])
    next(outputs)
    held("another model", object)
    assert engines[0].is_shut_down
    with pytest.raises(EngineGone) as gone:
        list(outputs)
    assert gone.value.cause is None


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
