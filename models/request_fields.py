"""What a request asks of OpenAI's APIs beyond its messages: fields, limits, and what reasoning models refuse."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from typing import Annotated, Any, NamedTuple, cast

from pydantic import BeforeValidator, JsonValue

from models.model_errors import ContextOverflow, ModelUnavailable, RequestRefused
from models.prompts import cut
from models.protocols import ChatRequest, ChatResponse

REASONING_MODELS = re.compile(r"^(gpt-([5-9]|\d\d)(?![\d.]*-chat)|o\d)")
MINIMAL_EFFORT = re.compile(r"^gpt-5(-mini|-nano)?(-\d{4}-\d\d-\d\d)?$")
REASONING_TOKENS = 8192
"""Allowed for reasoning beyond the answer: both count against one limit. At low effort a question takes up to 2000."""
LIMITED_MODELS = re.compile(r"^(chat)?gpt-4o")
MOST_TOKENS = 16_384  # most output tokens of the gpt-4o family, which refuses a request for more
MOST_STOPS = 4  # OpenAI refuses more; the others are cut here
LEAST = "least"
SAMPLING = (
    *("temperature", "top_p", "max_tokens", "max_completion_tokens", "max_output_tokens"),
    *("seed", "stop", "reasoning_effort", "reasoning", "response_format", "text", "top_logprobs"),
)


class Thinking(NamedTuple):
    """How a reasoning model thinks before it answers."""

    effort: str | None = LEAST
    """`least`: the least that it is known to take; None: its own default; else as the API names it."""
    tokens: int = REASONING_TOKENS  # added to the limit of the answer, since both count against one


BRIEFLY = Thinking()  # for an answer from a given context, which needs no long thought
AS_ASKED = Thinking(effort=None, tokens=0)
"""For measuring: the limit is the one that was asked for, and the effort the model's own."""


def is_reasoning(model: str) -> bool:
    """True for OpenAI's models that think before they answer: they take an effort and no temperature."""
    return bool(REASONING_MODELS.match(_plain_name(model)))


def reasoning_effort(model: str, thinking: Thinking = BRIEFLY) -> str | None:
    """The effort to send, `minimal`, `low` … as the API names it; None: no such field is sent."""
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
    """The fields of Chat Completions; a reasoning model refuses temperature, top_p, stop and log-probabilities."""
    most = most_tokens(model, request, thinking)
    if is_reasoning(model):
        fields: dict[str, Any] = {"max_completion_tokens": most}
    else:
        fields = {"max_tokens": most, **freedom(request), **_stop(request), **_likelihoods(request)}
    if effort := reasoning_effort(model, thinking):
        fields["reasoning_effort"] = effort
    return fields | ({} if request.seed is None else {"seed": request.seed})


def raw_sampling(model: str, request: ChatRequest) -> dict[str, Any]:
    """The fields of Completions, which knows no thinking."""
    seed = {} if request.seed is None else {"seed": request.seed}
    return {"max_tokens": limited(model, request.max_tokens), **freedom(request), **_stop(request), **seed}


def freedom(request: ChatRequest) -> dict[str, Any]:
    """The fields `temperature` and, where the request has one, `top_p`."""
    return {"temperature": request.temperature} | ({} if request.top_p is None else {"top_p": request.top_p})


def most_tokens(model: str, request: ChatRequest, thinking: Thinking) -> int:
    """The limit of the answer, with room for thought where the model thinks."""
    return limited(model, request.max_tokens) + (thinking.tokens if is_reasoning(model) else 0)


def limited(model: str, tokens: int) -> int:
    """`tokens`, or as many as the model accepts in a request, if these are fewer."""
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


def _likelihoods(request: ChatRequest) -> dict[str, Any]:
    return {} if request.top_logprobs is None else {"logprobs": True, "top_logprobs": request.top_logprobs}


def _plain_name(model: str) -> str:
    return model.rsplit("/", 1)[-1].removeprefix("ft:")


NAMED = re.compile(r"response_format|\btext\.format|['\"`]text['\"`]|json.?schema|structured.?output|grammar", re.I)
"""How endpoints name the format when they refuse it; in the Responses API it is the field `text`."""
NAME = "answer"  # name of a schema that has none; the APIs require one
EXAMPLE = '{"type": "json_schema", "json_schema": {"schema": {…}}} or {"type": "json_object"}'


def schema_of(response_format: object) -> dict[str, JsonValue] | None:
    """The JSON schema that each answer keeps to; None where any JSON object will do.

    Raises ModelUnavailable for what is no response_format; whether the schema is a good one, the engine says.
    """
    if not isinstance(response_format, Mapping):
        raise _unusable(f"{str(response_format)[:80]!r} is no JSON object")
    said = cast("Mapping[str, Any]", response_format)
    match said.get("type"):
        case "json_object":
            return None
        case "json_schema":
            about = said.get("json_schema")
            schema: object = cast("Mapping[str, Any]", about).get("schema") if isinstance(about, Mapping) else None
            if not isinstance(schema, dict):
                raise _unusable("there is no schema in it, under json_schema.schema")
            return cast("dict[str, JsonValue]", schema)
        case other:
            raise _unusable(f"there is no type {other!r}")


def with_name(response_format: Mapping[str, JsonValue]) -> dict[str, Any]:
    """The format as Chat Completions takes it, the schema named. Raises ModelUnavailable."""
    if schema_of(response_format) is None:
        return dict(response_format)
    about = cast("Mapping[str, JsonValue]", response_format["json_schema"])
    return {**response_format, "json_schema": {"name": NAME, **about}}


@contextmanager
def advised(asked: object) -> Generator[None]:
    """Where a format is `asked` for, an endpoint's refusal that names it says what to do as well."""
    try:
        yield
    except RequestRefused as error:
        if not asked or isinstance(error, ContextOverflow) or not NAMED.search(str(error)):
            raise
        raise RequestRefused(
            f"{error} Change response_format as the endpoint says, take the other of json_schema and json_object, or "
            "leave it out."
        ) from None


def format_in_id(response_format: Mapping[str, JsonValue] | None) -> str:
    """What an id says about the format: nothing where there is none."""
    if response_format is None:
        return ""
    return f"@format={hashlib.sha256(json.dumps(response_format).encode()).hexdigest()[:8]}"


def _checked(said: object) -> object:
    if isinstance(said, str):
        with suppress(ValueError):
            said = json.loads(said)
    if said is not None:
        schema_of(said)
    return said


ResponseFormat = Annotated[dict[str, JsonValue] | None, BeforeValidator(_checked)]
"""The field of a backend's model_args; its JSON will do too, whose order no store and no key changes."""


def _unusable(why: str) -> ModelUnavailable:
    return ModelUnavailable(
        f"response_format: {why}; write {EXAMPLE}. On a command line, give all of model_args as one JSON object."
    )
