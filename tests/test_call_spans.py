"""Spans of model calls, by what an exporter in memory gets."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode, Tracer

from models.model_errors import RequestRefused
from models.protocols import ChatRequest, ChatResponse
from tasks.bulk import ask_all
from tasks.call_spans import trace_with
from tasks.calls import CallSettings, Limits, ask
from tests.test_bulk import Batched, Kept, Scripted, questions
from tests.test_calls import Flaky, request


class Traced:
    def __init__(self) -> None:
        self.memory = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self.memory))
        self.tracer: Tracer = provider.get_tracer("test")


@pytest.fixture
def traced() -> Iterator[Traced]:
    made = Traced()
    trace_with(made.tracer)
    yield made
    trace_with(None)


def limits() -> Limits:
    return Limits(CallSettings(concurrency=4), rng=random.Random(1))


def test_a_call_tells_what_was_asked_and_what_it_took(traced: Traced) -> None:
    ask(Flaky(), request(temperature=0.5, seed=7, stop=("END",)), responses=Kept(), limits=limits())
    [span] = traced.memory.get_finished_spans()
    assert span.name == "chat 1"
    assert dict(span.attributes or {}) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "flaky",
        "gen_ai.request.model": "1",
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.max_tokens": 512,
        "gen_ai.request.seed": 7,
        "gen_ai.request.stop_sequences": ("END",),
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 50,
    }


def test_an_error_is_told_by_its_kind_alone(traced: Traced) -> None:
    with pytest.raises(RequestRefused):
        ask(Flaky(RequestRefused("a prompt that nobody may read")), request(), responses=Kept(), limits=limits())
    [span] = traced.memory.get_finished_spans()
    assert (span.status.status_code, (span.attributes or {})["error.type"]) == (StatusCode.ERROR, "RequestRefused")
    assert "nobody may read" not in span.to_json()


def test_a_kept_answer_is_no_call(traced: Traced) -> None:
    store = Kept()
    for _ in range(3):
        ask(Flaky(), request(), responses=store, limits=limits())
    assert len(traced.memory.get_finished_spans()) == 1


@pytest.mark.parametrize("chat", [Scripted(), Batched()], ids=["threads", "engine"])
def test_calls_of_many_threads_are_parts_of_what_asked(traced: Traced, chat: Scripted) -> None:
    with traced.tracer.start_as_current_span("the step") as step:
        list(ask_all(chat, questions(20), responses=Kept(), limits=limits()))
    spans = [span for span in traced.memory.get_finished_spans() if span.name.startswith("chat")]
    assert len(spans) == 20
    assert {span.parent and span.parent.span_id for span in spans} == {step.get_span_context().span_id}
    assert all((span.end_time or 0) >= (span.start_time or 0) for span in spans)


def test_without_a_collector_nothing_is_traced() -> None:
    class Sees:
        id = "sees"

        def complete(self, request: ChatRequest, **_: object) -> ChatResponse:
            from opentelemetry.trace import get_current_span

            assert not get_current_span().is_recording()
            return ChatResponse(text="fine", finish_reason="stop")

    assert ask(Sees(), request(), responses=Kept(), limits=limits()).response.text == "fine"
