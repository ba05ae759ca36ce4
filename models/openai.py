"""OpenAI-compatible endpoints: OpenAI itself, vLLM, llama.cpp, Ollama, LM Studio, and providers by LiteLLM's names.

models.endpoint reaches them. Retries are left to tasks/calls.py. The names `provider/model` are those of curator;
bespokelabs-curator itself is not used: it pins older libraries, and every provider has an OpenAI-compatible endpoint.
"""

from __future__ import annotations

import base64
import logging
import os
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from pydantic import JsonValue, SecretStr

from models.endpoint import AnswerFailed, Endpoint
from models.model_errors import ModelUnavailable, NoSuchPath, RequestRefused
from models.prompts import Listener, cut_at_stops, picture_size, plain_text, raw_prompt, replace_surrogates
from models.protocols import ChatRequest, ChatResponse, Message, Text

REASONING_MODELS = re.compile(r"^(gpt-([5-9]|\d\d)(?![\d.]*-chat)|o\d)")  # gpt-5-chat-latest answers at once
MINIMAL_EFFORT = re.compile(r"^gpt-5(-mini|-nano)?(-\d{4}-\d\d-\d\d)?$")  # later ones, as gpt-5.1, refuse `minimal`
REASONING_TOKENS = 8192
"""Allowed for reasoning beyond the answer: both count against one limit. At low effort a question takes up to 2000."""
LIMITED_MODELS = re.compile(r"^(chat)?gpt-4o")
MOST_TOKENS = 16_384  # most output tokens of the gpt-4o family, which refuses a request for more
LEAST_OUTPUT_TOKENS = 16  # the Responses API refuses a lower limit; a request for fewer may get up to so many
MOST_STOPS = 4  # OpenAI refuses more; the others are cut here
LEAST = "least"
OLDER, NEWER = "max_tokens", "max_completion_tokens"
"""OpenAI's newer models take the second name alone, and many servers of others the first."""
ENDS = {"eos": "stop", "eos_token": "stop", "stop_sequence": "stop", "max_tokens": "length", "model_length": "length"}
"""Why an answer ended, in the words of Together, TGI and Mistral, and in OpenAI's."""
NOT_SAMPLING = (*("model", "messages", "prompt", "input", "instructions"), *("stream", "stream_options", "store"))
NO_SUCH_PATH = {
    "/completions": " A raw prompt needs the Completions API there; leave out `--apply_chat_template False`.",
    "/responses": " There is no Responses API there: name the model openai:{model}.",
}

log = logging.getLogger(__name__)


class Thinking(NamedTuple):
    """The effort and the extra tokens that a reasoning model gets for its thoughts before the answer."""

    effort: str | None = LEAST
    """`least`: the least that it is known to take; None: its own default; else as the API names it."""
    tokens: int = REASONING_TOKENS  # added to the limit of the answer, since both count against one


BRIEFLY = Thinking()  # for an answer from a given context, which needs no long thought
AS_ASKED = Thinking(effort=None, tokens=0)
"""For measuring: the limit is the one that was asked for, and the effort the model's own."""


def is_reasoning(model: str) -> bool:
    """Return whether an OpenAI model thinks before it answers: it then takes an effort and no temperature."""
    return bool(REASONING_MODELS.match(_plain_name(model)))


def reasoning_effort(model: str, thinking: Thinking = BRIEFLY) -> str | None:
    """Return the effort to send, `minimal`, `low` … as the API names it; None: no such field is sent."""
    if thinking.effort != LEAST:
        return thinking.effort
    if not is_reasoning(model):
        return None
    return "minimal" if MINIMAL_EFFORT.match(_plain_name(model)) else "low"


def _plain_name(model: str) -> str:
    return model.rsplit("/", 1)[-1].removeprefix("ft:")  # openai/gpt-5 of a router; ft:gpt-4o:… is a fine-tuned one


class OpenAIChat:
    """A model behind the Chat Completions or the Responses API; raw prompts go to Completions.

    The address is no part of `id`, nor are the weights: models.endpoint_identity tells them apart. The Responses API
    takes neither seed nor stops, and stores nothing at the endpoint (`store`).
    """

    def __init__(
        self,
        model: str,
        *,
        responses: bool = False,
        thinking: Thinking = BRIEFLY,
        **endpoint: Any,
    ) -> None:
        """thinking: by default the least effort that a reasoning model (gpt-5, o3 …) takes. endpoint: of Endpoint."""
        brief = thinking == BRIEFLY or (thinking.effort in (None, LEAST) and not is_reasoning(model))
        effort = "" if brief else f"@effort={thinking.effort or 'own'}"
        self.id = f"{'responses' if responses else 'openai'}:{model}{effort}"
        self._model, self._thinking, self._responses = model, thinking, responses
        self._optional = {"stream", "stream_options", "logprobs", "top_logprobs"}
        """Fields that are left out once the endpoint has refused them by name."""
        if thinking.effort == LEAST:  # an effort that somebody chose is not left out
            self._optional |= {"reasoning_effort", "reasoning"}
        self._refused, self._wants_newer = set[str](), False  # as this endpoint has said so far
        self.endpoint = Endpoint(model, **endpoint)

    def complete(self, request: ChatRequest, *, on_text: Callable[[str], None] | None = None) -> ChatResponse:
        """Answer one request. Raises models.model_errors.ModelError; half a stream is a TransientModelError.

        timeout_s holds for each wait: for the first words, and between two pieces of a stream.
        """
        if isinstance(request.template, str):
            raise RequestRefused(
                f"An endpoint cannot be asked for the chat template {request.template!r}; it uses its model's own. "
                "Give `--apply_chat_template` without a name, or `False` for raw prompts."
            )
        listener = Listener(on_text, request.stop) if on_text else None
        path, body = self._request_body(request)
        if listener is not None:
            body |= {"stream": True} | ({} if "store" in body else {"stream_options": {"include_usage": True}})
        answer, sent = self._send(path, body, listener)
        text = cut_at_stops(answer.words, request.stop)
        finish_reason = answer.finish_reason or "stop"
        if len(text) < len(answer.words):
            finish_reason = "stop"
        elif answer.refusal and not answer.text:
            finish_reason = "refusal"
        if listener:
            listener.end(text)
        return ChatResponse(
            text=text,
            finish_reason=ENDS.get(finish_reason, finish_reason),
            prompt_tokens=answer.prompt_tokens,
            completion_tokens=answer.completion_tokens,
            top_logprobs=dict(answer.top_logprobs),
            sent=sent,
        )

    def _request_body(self, request: ChatRequest) -> tuple[str, dict[str, Any]]:
        """Return a request's path and body; reasoning models refuse temperature, top_p, stop and log-probabilities."""
        thinks = is_reasoning(self._model) and request.template is not False
        max_tokens, sampling, stop = request.max_tokens, dict[str, Any](), dict[str, Any]()
        if LIMITED_MODELS.match(_plain_name(self._model)):
            max_tokens = min(max_tokens, MOST_TOKENS)
        if thinks:
            max_tokens += self._thinking.tokens
        else:
            sampling["temperature"] = request.temperature
            if request.top_p is not None:
                sampling["top_p"] = request.top_p
            if request.stop:
                stop["stop"] = list(request.stop[:MOST_STOPS])
        seed = {} if request.seed is None else {"seed": request.seed}
        body: dict[str, Any] = {"model": self._model}
        if request.template is False:
            return "/completions", body | {"prompt": raw_prompt(request), OLDER: max_tokens} | sampling | stop | seed
        effort = reasoning_effort(self._model, self._thinking)
        if self._responses:
            turns = [message for message in request.messages if message.role != "system"]
            body |= {"input": [_message_fields(turn, words="input_text") for turn in turns], "store": False}
            if instructions := [plain_text(message) for message in request.messages if message.role == "system"]:
                body["instructions"] = "\n\n".join(instructions)
            body |= {"max_output_tokens": max(max_tokens, LEAST_OUTPUT_TOKENS)} | sampling
            return "/responses", body | ({"reasoning": {"effort": effort}} if effort else {})
        body |= {"messages": [_message_fields(message, words="text") for message in request.messages]}
        body |= {NEWER if thinks else OLDER: max_tokens} | sampling | stop | seed
        if request.top_logprobs is not None and not thinks:
            body |= {"logprobs": True, "top_logprobs": request.top_logprobs}
        return "/chat/completions", body | ({"reasoning_effort": effort} if effort else {})

    def _send(self, path: str, body: dict[str, Any], listener: Listener | None) -> tuple[_Part, dict[str, JsonValue]]:
        """Return the answer, and the sampling fields of its body; refused fields are left out. Raises ModelError."""
        is_chat = path == "/chat/completions"
        while True:  # once more after each refusal that names a field
            sent = {name: value for name, value in body.items() if name not in self._refused}
            if "stream" not in sent:  # OpenAI streams some models to verified accounts only
                sent.pop("stream_options", None)
            if self._wants_newer and is_chat and OLDER in sent:
                sent = {NEWER if name == OLDER else name: value for name, value in sent.items()}
            answer = _Part()
            try:
                # what the listener raises comes through as it is, and closes the stream
                with closing(self._stream_answer(path, sent)) as parts:
                    for answer in parts:
                        if listener and "stream" in sent and not answer.is_whole:
                            listener(answer.words)
            except NoSuchPath as error:
                raise NoSuchPath(f"{error}{NO_SUCH_PATH.get(path, '').format(model=self._model)}") from None
            except RequestRefused as error:
                refused = {name for name in self._optional & sent.keys() if _mentions(error, name)}
                wants_newer = is_chat and OLDER in sent and _mentions(error, OLDER, NEWER)
                if not refused and not wants_newer:
                    raise
                log.info("asked again without=%s model=%s", refused or OLDER, self._model)
                self._refused |= refused
                self._wants_newer |= wants_newer
            else:
                return answer, {name: value for name, value in sent.items() if name not in NOT_SAMPLING}

    def _stream_answer(self, path: str, body: dict[str, Any]) -> Generator[_Part]:
        """Yield the answer so far after each piece; the last one is the whole. Raises AnswerFailed, ValueError."""
        read, so_far = _read_responses if path == "/responses" else _read_completion, _Part()
        with self.endpoint.name_failures():
            for event in self.endpoint.events(path, body):
                so_far = so_far.followed_by(read(event))
                yield so_far
            if "stream" in body and so_far.finish_reason is None and not so_far.is_whole:
                raise AnswerFailed({"message": "the stream ended before the answer did"})
            if not (so_far.finish_reason or so_far.words):
                raise ValueError("there is no message in it")


def _message_fields(message: Message, *, words: str) -> dict[str, Any]:
    """Return a message as an API takes it. words: type of text parts. Raises RequestRefused for a broken picture."""
    # plain text where it can be: some servers take parts only where there is an image
    if all(isinstance(part, Text) for part in message.content):
        return {"role": message.role, "content": plain_text(message)}
    content: list[dict[str, Any]] = []
    for part in message.content:
        if isinstance(part, Text):
            content.append({"type": words, "text": replace_surrogates(part.text)})
            continue
        picture_size(part.png)
        url = "data:image/png;base64," + base64.b64encode(part.png).decode()
        if words == "input_text":
            content.append({"type": "input_image", "image_url": url, "detail": "auto"})  # `detail` is required here
        else:
            content.append({"type": "image_url", "image_url": {"url": url}})
    return {"role": message.role, "content": content}


class _Part(NamedTuple):
    """The text, refusal and counts that one event of a stream adds to an answer, or a whole answer."""

    text: str = ""
    refusal: str = ""
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    top_logprobs: Mapping[str, float] = {}
    is_whole: bool = False

    @property
    def words(self) -> str:
        """The text of the answer, or the model's words of refusal where there is no text."""
        return self.text or self.refusal

    def followed_by(self, part: _Part) -> _Part:
        """Return the answer so far with the next part appended; a whole answer replaces what came before it."""
        if part.is_whole:  # some do not repeat at the end what they have said
            return part._replace(text=part.text or self.text, refusal=part.refusal or self.refusal)
        counts = self if part.completion_tokens is None else part
        text, refusal = self.text + part.text, self.refusal + part.refusal
        finish_reason = part.finish_reason or self.finish_reason
        return _Part(text, refusal, finish_reason, counts.prompt_tokens, counts.completion_tokens)


def _read_completion(answer: Any) -> _Part:
    """Return the first choice of (Chat) Completions, or a piece of its stream; reasoning is part of neither."""
    counts = answer.get("usage") if isinstance(answer.get("usage"), dict) else {}
    usage = (counts.get("prompt_tokens"), counts.get("completion_tokens"))
    choices = answer.get("choices")
    if not choices:  # the piece with the usage has none
        return _Part("", "", None, *usage)
    choice: dict[str, Any] = choices[0]
    message = choice.get("message") or choice.get("delta") or {"content": choice.get("text")}
    content = message.get("content")
    if isinstance(content, list):  # a few servers send parts, with reasoning in separate ones
        content = "".join(part["text"] for part in content if part.get("type") in ("text", "output_text"))
    # of a whole chat answer alone: Completions spells them otherwise
    first = ((choice.get("logprobs") or {}).get("content") or [{}])[0] if "message" in choice else {}
    likely = {token["token"]: token["logprob"] for token in first.get("top_logprobs") or ()}
    text, refusal, is_whole = content or "", message.get("refusal") or "", "message" in choice
    return _Part(text, refusal, choice.get("finish_reason"), *usage, top_logprobs=likely, is_whole=is_whole)


def _read_responses(event: Any) -> _Part:
    """Return what a response, or an event of its stream, adds, perhaps nothing. Raises AnswerFailed, ValueError."""
    match event.get("type"):
        case "response.output_text.delta":
            return _Part(text=event["delta"])
        case "response.refusal.delta":
            return _Part(refusal=event["delta"])
        case "error":
            raise AnswerFailed(event)
        case "response.completed" | "response.incomplete" | "response.failed":
            event = event["response"]
        case str():
            return _Part()  # created, in progress, parts that begin and end, reasoning
        case _:
            pass
    match event.get("status"):
        case "failed":
            raise AnswerFailed(event.get("error") or {"message": "no reason given"})
        case "completed":
            finish_reason = "stop" if event["output"] else None
        case "incomplete":
            reason = (event.get("incomplete_details") or {}).get("reason") or "incomplete"
            finish_reason = "length" if reason == "max_output_tokens" else reason
        case status:
            raise ValueError(f"its status is {status!r}")
    parts = [part for item in event["output"] if item["type"] == "message" for part in item["content"]]
    text = "".join(part["text"] for part in parts if part["type"] == "output_text")
    refusal = "".join(part["refusal"] for part in parts if part["type"] == "refusal")
    counts = event.get("usage") or {}
    tokens = counts.get("input_tokens"), counts.get("output_tokens")
    return _Part(text, refusal, finish_reason, *tokens, is_whole=True)


def _mentions(error: Exception, *fields: str) -> bool:
    return all(re.search(rf"\b{field}\b", str(error)) for field in fields)


class Provider(NamedTuple):
    """The address of a provider's endpoint, and the environment variables that hold its key."""

    base_url: str
    variables: Sequence[str]  # environment variables that may hold its key, the usual one first
    asks_for_a_key: bool = True
    ignores_effort: bool = False  # it takes reasoning_effort and does not heed it


_by_provider = yaml.safe_load(Path(__file__).with_name("providers.yaml").read_text("utf-8"))
PROVIDERS = {name: Provider(**about) for name, about in _by_provider.items()}


def parse_litellm_name(name: str) -> tuple[str, str]:
    """Return provider and model of `lm_studio/NAME`, `hosted_vllm/NAME` …; a name without a provider is OpenAI's.

    Raises ModelUnavailable for a provider that is not known here.
    """
    provider, slash, model = name.partition("/")
    if not slash:
        provider, model = "openai", name
    if provider not in PROVIDERS or not model:
        raise ModelUnavailable(
            f"{name!r} is no provider/model; the providers are {', '.join(sorted(PROVIDERS))}. At a server of your "
            "own, write hosted_vllm/ or openai/ before the model's name, and api_base in model_args."
        )
    return provider, model


class ProviderAccess(NamedTuple):
    """Address and key by which a model is reached when neither arguments nor options name them."""

    base_url: str | None  # None: where its provider listens
    api_key: SecretStr | None


def find_access(name: str, of_openai: ProviderAccess) -> ProviderAccess:
    """Return the address and key of a model's provider; a key is sent to its own provider alone.

    of_openai: holds for `openai/…` alone. Raises ModelUnavailable.
    """
    provider, _ = parse_litellm_name(name)
    if provider == "openai":
        return of_openai
    keys = (os.environ.get(variable) for variable in PROVIDERS[provider].variables)
    return ProviderAccess(None, next((SecretStr(value) for value in keys if value), None))


class CuratorChat(OpenAIChat):
    """A model by LiteLLM's name, at its provider or at `base_url`.

    endpoint: timeout_s.
    A seed is left out where the server has refused it by name (Gemini does), and `sent` shows that.
    Raises ModelUnavailable where the provider asks for a key and there is none, and for what it would not heed.
    """

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None = None,
        api_key: SecretStr | None = None,
        thinking: Thinking = AS_ASKED,
        **endpoint: Any,
    ) -> None:
        provider, model = parse_litellm_name(name)
        settings = PROVIDERS[provider]
        if base_url in (None, settings.base_url):  # a server of one's own may heed what the provider does not
            if settings.ignores_effort and thinking.effort not in (None, LEAST):
                raise ModelUnavailable(
                    f"{name}: the OpenAI endpoint of {provider} takes reasoning_effort and does not heed it; "
                    "leave it out"
                )
            if settings.asks_for_a_key and not api_key:
                raise ModelUnavailable(
                    f"{name}: {provider} asks for a key and none is set; set {' or '.join(settings.variables)}, or "
                    "name the variable that has it: --model_args api_key_env=NAME"
                )
        self.base_url = base_url or settings.base_url
        endpoint |= {"base_url": self.base_url, "api_key": api_key}
        super().__init__(model, thinking=thinking, **endpoint)
        self.id = f"curator:{name}{self.id.removeprefix(f'openai:{model}')}"
        self._optional.add("seed")
