"""Model calls as spans of OpenTelemetry, where a tracer is given; prompts and answers are not in them.

Source: OpenTelemetry, Semantic conventions for generative AI, client spans (`gen_ai.*`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from models.model_errors import ModelError
from models.protocols import ChatRequest, ChatResponse

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer

_tracers: list[Tracer] = []


def trace_with(tracer: Tracer | None) -> None:
    """Make a span of each model call of this process from now on; None: of none."""
    _tracers[:] = [tracer] if tracer else []


def here() -> Context | None:
    """What the spans of this thread are parts of, for those of another thread."""
    if not _tracers:
        return None
    from opentelemetry.context import get_current

    return get_current()


@contextmanager
def call_span(
    model: str, request: ChatRequest, *, within: Context | None
) -> Generator[Callable[[ChatResponse | ModelError], None]]:
    """A span around a call, its repeated tries included; call what is given with the answer. model: id of the Chat."""
    if not _tracers:
        yield _untold
        return
    span = _begun(model, request, within=within)
    try:
        yield lambda said: _say(span, said)
    except BaseException as error:
        _say(span, error)
        raise
    finally:
        span.end()


def note_call(model: str, request: ChatRequest, said: ChatResponse | ModelError, *, took_s: float) -> None:
    """A span of a call that has just ended, to an engine that answers many at once."""
    if _tracers:
        ended = time.time_ns()
        span = _begun(model, request, within=here(), started=ended - int(took_s * 1e9))
        _say(span, said)
        span.end(ended)


def _untold(said: ChatResponse | ModelError) -> None:
    del said


def _begun(model: str, request: ChatRequest, *, within: Context | None, started: int | None = None) -> Span:
    from opentelemetry.trace import SpanKind

    provider, _, name = model.partition(":")
    asked: Mapping[str, Any] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": provider,
        "gen_ai.request.model": name or provider,
        "gen_ai.request.temperature": request.temperature,
        "gen_ai.request.max_tokens": request.max_tokens,
        "gen_ai.request.seed": request.seed,
        "gen_ai.request.top_p": request.top_p,
        "gen_ai.request.stop_sequences": request.stop or None,
    }
    return _tracers[0].start_span(
        f"chat {name or provider}",
        context=within,
        kind=SpanKind.CLIENT,
        start_time=started,
        attributes={key: value for key, value in asked.items() if value is not None},
    )


def _say(span: Span, said: ChatResponse | BaseException) -> None:
    from opentelemetry.trace import Status, StatusCode

    if isinstance(said, BaseException):
        span.set_attribute("error.type", type(said).__name__)
        span.set_status(Status(StatusCode.ERROR))
        return
    span.set_attribute("gen_ai.response.finish_reasons", (said.finish_reason,))
    if said.prompt_tokens is not None:
        span.set_attribute("gen_ai.usage.input_tokens", said.prompt_tokens)
    if said.completion_tokens is not None:
        span.set_attribute("gen_ai.usage.output_tokens", said.completion_tokens)
