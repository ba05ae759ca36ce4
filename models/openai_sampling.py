"""What a request asks of OpenAI's APIs beyond its messages: fields, limits, and what reasoning models refuse."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from pydantic import JsonValue

from models.model_errors import RequestRefused
from models.protocols import ChatRequest, ChatResponse
from models.stops import cut

REASONING_MODELS = re.compile(r"^(gpt-([5-9]|\d\d)(?![\d.]*-chat)|o\d)")
MINIMAL_EFFORT = re.compile(r"^gpt-5(-mini|-nano)?(-\d{4}-\d\d-\d\d)?$")
REASONING_TOKENS = 8192
"""Kept for reasoning beyond the tokens of the answer: both count against one limit, and what is not used costs nothing.
At low effort a question takes some hundreds to two thousand."""
LIMITED_MODELS = re.compile(r"^(chat)?gpt-4o")
MOST_TOKENS = 16_384
"""Most output tokens of the gpt-4o family, which refuses a request for more."""
MOST_STOPS = 4
"""OpenAI refuses more; the others are cut here."""
LEAST = "least"
SAMPLING = (
    *("temperature", "top_p", "max_tokens", "max_completion_tokens", "max_output_tokens"),
    *("seed", "stop", "reasoning_effort", "reasoning", "response_format", "text"),
)


class Thinking(NamedTuple):
    """How a reasoning model thinks before it answers."""

    effort: str | None = LEAST
    """`least`: the least that it is known to take; None: its own default; else as the API names it."""
    tokens: int = REASONING_TOKENS
    """Added to the limit of the answer, since both count against one."""


BRIEFLY = Thinking()
"""For an answer from a given context, which needs no long thought."""
AS_ASKED = Thinking(effort=None, tokens=0)
"""For measuring: the limit is the one that was asked for, and the effort the model's own."""


def is_reasoning(model: str) -> bool:
    """True for OpenAI's models that think before they answer: they take an effort and no temperature."""
    return bool(REASONING_MODELS.match(_plain_name(model)))


def reasoning_effort(model: str, thinking: Thinking = BRIEFLY) -> str | None:
    """The effort to ask for; None where none is sent."""
    if thinking.effort != LEAST:
        return thinking.effort
    if not is_reasoning(model):
        return None
    return "minimal" if MINIMAL_EFFORT.match(_plain_name(model)) else "low"


def thinking_in_id(model: str, thinking: Thinking) -> str:
    """What an id says about the thinking: nothing where the model does not think, or as briefly as it can."""
    if thinking == BRIEFLY or (thinking.effort in (None, LEAST) and not is_reasoning(model)):
        return ""
    return f"@effort={thinking.effort or 'own'}"


def sampling(model: str, request: ChatRequest, thinking: Thinking) -> dict[str, Any]:
    """The fields of Chat Completions; a reasoning model gets no temperature, top_p and stop: it refuses them."""
    most = most_tokens(model, request, thinking)
    if is_reasoning(model):
        fields: dict[str, Any] = {"max_completion_tokens": most}
    else:
        fields = {"max_tokens": most, **freedom(request), **_stop(request)}
    if effort := reasoning_effort(model, thinking):
        fields["reasoning_effort"] = effort
    return fields | ({} if request.seed is None else {"seed": request.seed})


def raw_sampling(model: str, request: ChatRequest) -> dict[str, Any]:
    """The fields of Completions, which knows no thinking."""
    seed = {} if request.seed is None else {"seed": request.seed}
    return {"max_tokens": limited(model, request.max_tokens), **freedom(request), **_stop(request), **seed}


def freedom(request: ChatRequest) -> dict[str, Any]:
    """How far from the likeliest words an answer may go."""
    return {"temperature": request.temperature} | ({} if request.top_p is None else {"top_p": request.top_p})


def most_tokens(model: str, request: ChatRequest, thinking: Thinking) -> int:
    """The limit of the answer, with room for thought where the model thinks."""
    return limited(model, request.max_tokens) + (thinking.tokens if is_reasoning(model) else 0)


def limited(model: str, tokens: int) -> int:
    """The tokens that the model may be asked for."""
    return min(tokens, MOST_TOKENS) if LIMITED_MODELS.match(_plain_name(model)) else tokens


def refuse_named_template(request: ChatRequest) -> None:
    """Raises RequestRefused if a chat template is asked for by name: an endpoint uses its own."""
    if isinstance(request.template, str):
        raise RequestRefused(
            f"An endpoint cannot be asked for the chat template {request.template!r}; it uses its model's own. Give "
            "`--apply_chat_template` without a name, or `False` for raw prompts."
        )


def as_answered(answer: ChatResponse, request: ChatRequest, body: Mapping[str, Any]) -> ChatResponse:
    """The answer without its stop, beside the sampling fields of the body that was sent for it."""
    text = cut(answer.text, request.stop)
    sent: dict[str, JsonValue] = {name: body[name] for name in SAMPLING if name in body}
    ended = "stop" if len(text) < len(answer.text) else answer.finish_reason
    return answer.model_copy(update={"text": text, "finish_reason": ended, "sent": sent})


def _stop(request: ChatRequest) -> dict[str, Any]:
    return {"stop": list(request.stop[:MOST_STOPS])} if request.stop else {}


def _plain_name(model: str) -> str:
    return model.rsplit("/", 1)[-1].removeprefix("ft:")
