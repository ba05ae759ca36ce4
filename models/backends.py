"""Opens the model that is measured: a kind of backend and its arguments, as `--model` and `--model_args` name them."""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, JsonValue, SecretStr, ValidationError

from models.errors import ModelUnavailable
from models.openai_sampling import AS_ASKED, Thinking
from models.protocols import Chat
from models.structured import ResponseFormat

KINDS = ("openai", "responses", "hf", "vllm", "curator", "replay", "scripted")
PRESS = {
    "concurrency": ("concurrency", "num_concurrent", "max_concurrent_requests"),
    "requests_per_minute": ("requests_per_minute", "max_requests_per_minute"),
    "tokens_per_minute": ("tokens_per_minute", "max_tokens_per_minute"),
}
"""How hard a model may be pressed: fields of tasks.calls.CallSettings, and what arguments call them (LiteLLM's and
lm_eval's names too)."""
OF_THE_CALLER = frozenset({"api_key_env", "max_retries", *(alias for names in PRESS.values() for alias in names)})
"""Arguments about keys and rates, which whoever opens a backend reads; each kind takes them and leaves them alone."""
WHOLE = re.compile(r"-?(0|[1-9]\d*)")
DECIMAL = re.compile(r"-?\d+\.\d*([eE][+-]?\d+)?|-?\d+[eE][+-]\d+")  # not 1e5: a revision may look like that
WORDS: dict[str, JsonValue] = {"true": True, "false": False, "none": None, "null": None}


class _Args(BaseModel):
    model_config = ConfigDict(extra="forbid", coerce_numbers_to_str=True, use_attribute_docstrings=True)

    batch_size: Annotated[int, Field(ge=1)] | Literal["auto"] = "auto"
    """Every kind takes it; only models in this process have batches."""


class OpenAIArgs(_Args):
    """Of `openai` and `responses`."""

    model: str | None = Field(default=None, validation_alias=AliasChoices("model", "pretrained"))
    base_url: str | None = Field(default=None, validation_alias=AliasChoices("base_url", "api_base"))
    api_key: SecretStr | None = None
    timeout_s: float | None = Field(default=None, gt=0, validation_alias=AliasChoices("timeout", "timeout_s"))
    reasoning_effort: str | None = None
    response_format: ResponseFormat = None
    """The format of each answer: models.structured."""


class HFArgs(_Args):
    """Of `hf`."""

    pretrained: str | None = None
    revision: str | None = None
    dtype: str = Field(default="auto", validation_alias=AliasChoices("dtype", "torch_dtype"))
    device: str | None = None
    device_map: str | dict[str, JsonValue] | None = None
    peft: str | None = None
    trust_remote_code: bool = False
    max_length: int | None = Field(default=None, ge=2)
    min_pixels: int | None = Field(default=None, ge=1)
    max_pixels: int | None = Field(default=None, ge=1)


class VLLMArgs(_Args):
    """Of `vllm`."""

    pretrained: str | None = Field(default=None, validation_alias=AliasChoices("pretrained", "model"))
    revision: str | None = None
    dtype: str = "auto"
    tensor_parallel_size: int = Field(default=1, ge=1)
    data_parallel_size: Literal[1] = 1
    """More engines than one are for `vllm serve --data-parallel-size`."""
    gpu_memory_utilization: float = Field(default=0.9, gt=0, le=1)
    max_model_len: int | None = Field(default=None, ge=2, validation_alias=AliasChoices("max_model_len", "max_length"))
    max_num_seqs: int | None = Field(default=None, ge=1)
    quantization: str | None = None
    peft: str | None = Field(default=None, validation_alias=AliasChoices("peft", "lora_local_path"))
    enable_prefix_caching: bool = True
    enforce_eager: bool = False
    trust_remote_code: bool = False
    min_pixels: int | None = Field(default=None, ge=1)
    max_pixels: int | None = Field(default=None, ge=1)
    response_format: ResponseFormat = None


class CuratorArgs(_Args):
    """Of `curator`."""

    model: str | None = Field(default=None, validation_alias=AliasChoices("model", "pretrained"))
    api_base: str | None = Field(default=None, validation_alias=AliasChoices("api_base", "base_url"))
    api_key: SecretStr | None = None
    timeout_s: float | None = Field(default=None, gt=0, validation_alias=AliasChoices("timeout", "timeout_s"))
    reasoning_effort: str | None = None
    response_format: ResponseFormat = None


class ReplayArgs(_Args):
    """Of `replay`."""

    path: str | None = None


class ScriptedArgs(_Args):
    """Of `scripted`."""

    rules: str | None = None


class _Asked(NamedTuple):
    kind: str
    name: str | None
    args: Mapping[str, JsonValue]
    base_url: str | None
    api_key: SecretStr | None
    timeout_s: float
    pictures: bool
    thinking: Thinking


def open_backend(
    kind: str,
    *,
    name: str | None = None,
    args: Mapping[str, JsonValue] | None = None,
    base_url: str | None = None,
    api_key: SecretStr | None = None,
    timeout_s: float = 120.0,
    pictures: bool = False,
    thinking: Thinking = AS_ASKED,
) -> Chat:
    """The backend of a kind, or of the dotted path of an lm_eval LM class. Raises ModelUnavailable.

    name: the model, where the arguments do not name it. args: the model_args; they go before the other parameters.
    pictures: True where it will be shown some. thinking: of a reasoning model at an endpoint; unless said, as it does
    by itself, within the tokens asked.
    """
    own = {key: value for key, value in (args or {}).items() if key not in OF_THE_CALLER}
    asked = _Asked(kind, name, own, base_url, api_key, timeout_s, pictures, thinking)
    if kind in OPENERS:
        return OPENERS[kind](asked)
    if "." in kind:
        from models.lm_eval_lm import HarnessLM

        return HarnessLM(kind, asked.args)
    raise ModelUnavailable(
        f"There is no model backend called {kind!r}; there are {', '.join(KINDS)}, and any lm_eval model class by its "
        "dotted path (package.module.Class)."
    )


def check_args(kind: str, args: Mapping[str, JsonValue]) -> None:
    """Raises ModelUnavailable for arguments that a backend does not know; those of lm_eval classes are their own."""
    if kind in ARGS:
        own = {key: value for key, value in args.items() if key not in OF_THE_CALLER}
        _checked(ARGS[kind], _Asked(kind, None, own, None, None, 0, False, AS_ASKED))


def parse_model_args(text: str) -> dict[str, JsonValue]:
    """The arguments of `k=v,k2=v2`, or of a JSON object: numbers and booleans as such. Raises ModelUnavailable."""
    if text.lstrip().startswith("{"):
        return _parse_object(text)
    args: dict[str, JsonValue] = {}
    for piece in (piece.strip() for piece in text.split(",")):
        if not piece:
            continue
        name, equals, value = piece.partition("=")
        if not equals or not name.strip():
            raise ModelUnavailable(f"model_args: {piece!r} is no name=value; write them as name=value,name=value")
        if name.strip() in args:
            raise ModelUnavailable(f"model_args: {name.strip()} is given twice")
        args[name.strip()] = _value(value.strip())
    return args


def _parse_object(text: str) -> dict[str, JsonValue]:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ModelUnavailable(f"model_args: this is no JSON object ({error})") from None


def _value(text: str) -> JsonValue:
    if WHOLE.fullmatch(text):
        return int(text)
    if DECIMAL.fullmatch(text):
        return float(text)
    return WORDS.get(text.lower(), text)


def _open_openai(asked: _Asked) -> Chat:
    args = _checked(OpenAIArgs, asked)
    place = _place(args, args.base_url, asked)
    model = _named(args.model or asked.name, asked.kind, "model")
    if asked.kind == "responses":
        from models.openai_responses import OpenAIResponses

        return OpenAIResponses(model, **place)
    from models.openai import OpenAIChat

    return OpenAIChat(model, **place)


def _open_hf(asked: _Asked) -> Chat:
    from models.local import open_local

    args = _checked(HFArgs, asked)
    pretrained = _named(args.pretrained or asked.name, asked.kind, "pretrained")
    return open_local(pretrained, pictures=asked.pictures, **args.model_dump(exclude={"pretrained"}))


def _open_vllm(asked: _Asked) -> Chat:
    args = _checked(VLLMArgs, asked)
    model = _named(args.pretrained or asked.name, asked.kind, "pretrained")
    if importlib.util.find_spec("vllm") is None:
        raise ModelUnavailable(
            f"vLLM is not installed here; serve the model (`vllm serve {model}`) and give `--model openai --model_name "
            f"{model} --base-url http://127.0.0.1:8000/v1`, or run it with `--model hf --model_args pretrained={model}`"
        )
    from models.vllm import VLLMChat

    return VLLMChat(model, **args.model_dump(exclude={"pretrained", "batch_size", "data_parallel_size"}))


def _open_curator(asked: _Asked) -> Chat:
    args = _checked(CuratorArgs, asked)
    name = _named(args.model or asked.name, asked.kind, "model")
    from models.curator import CuratorChat

    return CuratorChat(name, **_place(args, args.api_base, asked))


def _place(args: OpenAIArgs | CuratorArgs, base_url: str | None, asked: _Asked) -> dict[str, Any]:
    """Where an endpoint is, and how it is asked."""
    effort = args.reasoning_effort
    return {
        "base_url": base_url or asked.base_url,
        "api_key": args.api_key or asked.api_key,
        "timeout_s": args.timeout_s or asked.timeout_s,
        "thinking": asked.thinking._replace(effort=effort) if effort else asked.thinking,
        "response_format": args.response_format,
    }


def _open_replay(asked: _Asked) -> Chat:
    from models.replay import ReplayChat

    args = _checked(ReplayArgs, asked)
    return ReplayChat(Path(_named(args.path, asked.kind, "path")))


def _open_scripted(asked: _Asked) -> Chat:
    from models.scripted import ScriptedChat, read_rules

    args = _checked(ScriptedArgs, asked)
    return ScriptedChat(read_rules(Path(args.rules)) if args.rules else ())


OPENERS: dict[str, Callable[[_Asked], Chat]] = {
    "openai": _open_openai,
    "responses": _open_openai,
    "hf": _open_hf,
    "vllm": _open_vllm,
    "curator": _open_curator,
    "replay": _open_replay,
    "scripted": _open_scripted,
}

ARGS: dict[str, type[_Args]] = {
    "openai": OpenAIArgs,
    "responses": OpenAIArgs,
    "hf": HFArgs,
    "vllm": VLLMArgs,
    "curator": CuratorArgs,
    "replay": ReplayArgs,
    "scripted": ScriptedArgs,
}
Args = TypeVar("Args", bound=_Args)


def _checked(kind: type[Args], asked: _Asked) -> Args:
    try:
        return kind.model_validate(dict(asked.args))
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        name = ".".join(str(part) for part in first["loc"][:1])
        if first["type"] == "extra_forbidden":
            known = ", ".join(sorted([*kind.model_fields, *OF_THE_CALLER]))
            others = [other for other, args in ARGS.items() if name in args.model_fields]
            said = f" ({', '.join(others)} {'has' if len(others) == 1 else 'have'} it)" if others else ""
            raise ModelUnavailable(f"model_args: {asked.kind} has no argument {name}{said}; it has {known}") from None
        raise ModelUnavailable(f"model_args: {name}: {first['msg']}") from None


def _named(name: str | None, kind: str, argument: str) -> str:
    if not name:
        raise ModelUnavailable(f"{kind} needs a model: give --model_name NAME or --model_args {argument}=NAME")
    return name
