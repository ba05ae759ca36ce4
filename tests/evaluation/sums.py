"""A small benchmark of sums, planned and asked without an engine and without a database."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from models.model_errors import ModelError
from models.protocols import ChatRequest, ChatResponse, Text
from storage.artifacts import Artifacts
from tasks.calls import Answer, response_key
from tasks.evaluation.benchmarks.benchmark_registry import find_benchmark
from tasks.evaluation.evaluation_records import Dataset, Item, Sampling
from tasks.evaluation.record_lines import write_lines
from tasks.evaluation.running.benchmark_data import Data
from tasks.evaluation.running.open_models import ModelSpec
from tasks.evaluation.running.planning import PlannedTask, RunSettings, plan_task

MODEL = ModelSpec(backend="scripted", name="m")
SUMS = """
name: Sums
family: math
data: {file: sums.jsonl}
prompt: "What is {left} + {right}?"
gold: answer
group: kind
sampling: {temperature: 0.7, max_tokens: 100}
grader: {kind: math}
"""
TURNS = SUMS.replace('"What is {left} + {right}?"', '["What is {left} + {right}?", "Are you sure?"]')

Say = Callable[[ChatRequest], str | ModelError]


def write_benchmark(folder: Path, *, count: int = 3, text: str = SUMS) -> Path:
    """`sums.yaml` and its data beside it: item n asks for n + n, the even ones of one kind, the odd ones of another."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [
        {"id": n, "left": n, "right": n, "answer": str(2 * n), "kind": ("even", "odd")[n % 2]} for n in range(count)
    ]
    (folder / "sums.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "sums.yaml").write_text(text)
    return folder / "sums.yaml"


def plan_of(
    path: Path, artifacts: Artifacts, *, model: ModelSpec = MODEL, judge: ModelSpec | None = None, **settings: Any
) -> PlannedTask:
    """The benchmark at `path` under the settings of a run."""
    benchmark = find_benchmark(str(path))
    return plan_task(
        benchmark,
        Data(None),
        artifacts,
        benchmark_name=str(path),
        settings=RunSettings.model_validate(settings),
        model=model,
        judge=judge,
    )


def task_of(items: Iterable[Item], artifacts: Artifacts, **changed: Any) -> PlannedTask:
    """A plan that asks these items."""
    asked = list(items)
    plain: dict[str, Any] = {
        "task": "Sums",
        "benchmark": "Sums",
        "version": "1-abc",
        "family": "math",
        "data": Dataset(name="Sums", source="here", checksum="b" * 64, count=len(asked)),
        "items": write_lines(artifacts, "items", asked),
        "count": len(asked),
        "repeats": 1,
        "sampling": Sampling(),
        "settings": {},
    }
    return PlannedTask.model_validate(plain | changed)


class Model:
    """Answers all that is asked in an order of its own, and remembers the requests."""

    def __init__(self, say: Say = lambda request: f"to {last_words(request)}", *, seed: int = 0) -> None:
        self.say = say
        self.asked: list[ChatRequest] = []
        self._rng = random.Random(seed)

    def ask_all(self, requests: Iterable[tuple[Any, ChatRequest]]) -> Iterator[tuple[Any, Answer | ModelError]]:
        pending = list(requests)
        self._rng.shuffle(pending)
        for tag, request in pending:
            self.asked.append(request)
            said = self.say(request)
            yield tag, said if isinstance(said, ModelError) else answer_of(said, request)


def answer_of(text: str, request: ChatRequest, **changed: Any) -> Answer:
    """An answer of 10 + 5 tokens that took half a second."""
    plain: dict[str, Any] = {"text": text, "finish_reason": "stop", "prompt_tokens": 10, "completion_tokens": 5}
    response = ChatResponse.model_validate(plain | changed)
    return Answer(response, response_key("m", request), cached=False, latency_s=0.5)


def said_in(request: ChatRequest) -> list[tuple[str, str]]:
    """Role and words of each message."""
    return [
        (turn.role, "".join(part.text for part in turn.content if isinstance(part, Text))) for turn in request.messages
    ]


def last_words(request: ChatRequest) -> str:
    """What the model is to answer."""
    return said_in(request)[-1][1]
