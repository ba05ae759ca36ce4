"""Names a model so that any process can open it, without secrets; opens models in this process and asks them."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import chain
from threading import Lock
from typing import Any, cast

from pydantic import ConfigDict, Field, JsonValue, SecretStr, ValidationError, field_validator, model_validator

from models.backends import IDENTITY_ARGS, RATE_NAMES, kinds, open_backend
from models.local import release_model
from models.model_errors import ModelError, ModelUnavailable, RequestRefused, TransientModelError
from models.openai import ProviderAccess, find_access
from models.permissions import read_variable
from models.protocols import Chat, ChatRequest
from storage.records import Record
from tasks.budget import Budget, BudgetSpent, Prices, Tokens
from tasks.bulk import ask_all, refuses_all_alike
from tasks.calls import Answer, CallSettings, Limits, ResponseStore, identify_endpoint
from tasks.evaluation.evaluation_errors import OptionUnusable
from tasks.evaluation.evaluation_records import NAME, ModelFacts, Usage
from tasks.resources import optional_responses, resources

CALLS = {
    **{field: (field,) for field in CallSettings.model_fields},
    **RATE_NAMES,
    "tries": ("tries", "max_retries"),
    "timeout_s": ("timeout_s", "timeout", "request_timeout"),
}
"""Fields of `CallSettings`, each with the names that arguments of models give it; the last one given counts."""
CALL_ARGS = frozenset(chain.from_iterable(CALLS.values()))
"""Arguments about rates, retries and time-outs, which no backend takes."""
TRANSPORT = {
    *("api_base", "base_url", "api_key_env", "device", "device_map", "batch_size", "max_batch_size"),
    *("tensor_parallel_size", "data_parallel_size", "gpu_memory_utilization", "max_num_seqs"),
    *("enforce_eager", "enable_prefix_caching", "pretrained", "model", "path", "gguf_file"),
    *IDENTITY_ARGS,
    *CALL_ARGS,
}
"""Arguments that determine how a model is reached or named, not how it answers."""


class ModelSpec(Record):
    """A model with its backend and its request limits."""

    model_config = ConfigDict(
        # a schedule of an earlier version may hold a table `calls`, which no form offers any more
        json_schema_extra=lambda schema: schema.update(
            additionalProperties=True, propertyNames={"enum": [*cast("dict[str, Any]", schema["properties"]), "calls"]}
        )
    )

    backend: str
    """A kind of models.backends, or the dotted name of an lm_eval LM."""
    name: str | None = None
    """Name of the model for its server or the hub, and in results. Unset: the backend's own."""
    args: dict[str, JsonValue] = Field(default_factory=dict)
    """Arguments that open the model, such as pretrained=…,dtype=…,path=…; no secrets. Also how it is asked:
    num_concurrent (16 unless given), max_retries, timeout (seconds), requests_per_minute, tokens_per_minute."""
    base_url: str | None = None
    """OpenAI-compatible endpoint of the model; stored with the run, so without credentials."""
    base_url_env: str | None = None
    """Environment variable that holds an address with credentials; takes precedence over `base_url`."""
    api_key_env: str | None = None
    """Environment variable that holds the API key. Unset: the provider's, such as OPENAI_API_KEY."""

    @model_validator(mode="before")
    @classmethod
    def _reads_args(cls, values: Any) -> Any:
        """Take the key's variable from the arguments, and among them the rates of the table `calls` that once was."""
        fields = dict(cast("dict[str, Any]", values)) if isinstance(values, dict) else {}
        rates, args = fields.pop("calls", {}), fields.get("args", {})
        if not (fields and isinstance(rates, dict) and isinstance(args, dict)):
            return values
        args = cast("dict[str, Any]", rates | args)
        if variable := args.pop("api_key_env", None):
            fields["api_key_env"] = fields.get("api_key_env") or variable
        return fields | {"args": args}

    @field_validator("args")
    @classmethod
    def _can_be_kept(cls, args: dict[str, JsonValue]) -> dict[str, JsonValue]:
        """Return the arguments. Raises OptionUnusable where a name is that of a secret, ValueError for a bad rate."""
        if secrets := [name for name in args if NAME.fullmatch(name.replace("-", "_"))]:
            raise OptionUnusable(  # not a ValueError: pydantic would show the secret beside it
                f"{secrets[0]} in model_args would be stored with the run; name a variable instead: api_key_env=X"
            )
        try:
            read_calls(args)
        except ValidationError as error:
            first = error.errors()[0]
            name = next(name for name in reversed(CALLS[str(first["loc"][0])]) if name in args)
            raise ValueError(f"{name}: {first['msg']} (it is {args[name]!r})") from error
        return args

    @property
    def in_process(self) -> bool:
        """Whether the model's weights are loaded in this process and occupy a device."""
        return self.backend not in kinds("endpoint", "file")  # an lm_eval class loads weights too

    @property
    def opening_args(self) -> dict[str, JsonValue]:
        """The arguments that its backend takes."""
        return {name: value for name, value in self.args.items() if name not in CALL_ARGS}

    @property
    def shapes_answers(self) -> dict[str, JsonValue]:
        """The arguments that can change an answer."""
        return {name: value for name, value in self.args.items() if name not in TRANSPORT}

    def facts(self, chat: Chat) -> ModelFacts:
        """Return the model as results name it; the revision is the part of the backend's ID behind the name.

        A GGUF file is called as the file is, unless `pretrained` says where it lies and leaves `name` to be chosen.
        """
        _, _, rest = chat.id.partition(":")
        model_name, _, revision = rest.partition("@")
        if self.backend == "scripted":
            model_name, revision = "", rest  # the digest of its script
        revision = revision or str(self.args.get("revision", ""))
        by_file = "pretrained" not in self.args and ("gguf_file" in self.args or (self.name or "").endswith(".gguf"))
        name = (model_name if by_file else self.name) or model_name or self.backend
        args = {key: value for key, value in self.opening_args.items() if key != "identity"}  # that is the revision
        return ModelFacts(name=name, backend=self.backend, revision=revision, args=args)


def read_calls(args: Mapping[str, JsonValue]) -> CallSettings:
    """Return the rates, retries and time-out among the arguments of a model. Raises pydantic.ValidationError."""
    given = {field: args[name] for field, names in CALLS.items() for name in names if name in args}
    if isinstance(retries := args.get("max_retries"), int):
        given["tries"] = retries + 1  # the argument counts retries, `CallSettings` all tries
    return CallSettings.model_validate({"concurrency": 16} | given)


_opening = Lock()


def open_model(spec: ModelSpec) -> Chat:
    """Return the model, which is opened once for all threads of this process. Raises ModelUnavailable."""
    with _opening:
        return _open_cached(spec.model_dump_json())


@cache
def _open_cached(spec_json: str) -> Chat:
    """Return the backend of a spec, once per process. Raises ModelUnavailable, NotPermitted."""
    spec = ModelSpec.model_validate_json(spec_json)
    defaults = ProviderAccess(resources().openai_base_url, resources().api_key)
    # curator models use the address and key of their own provider
    name = spec.name or spec.args.get("model")
    if spec.backend == "curator" and name:
        defaults = find_access(str(name), defaults)
    base_url = _read_variable("base_url_env", spec.base_url_env) or spec.base_url or defaults.base_url
    key = _read_variable("api_key_env", spec.api_key_env)
    chat = open_backend(
        spec.backend,
        name=spec.name,
        args=spec.opening_args,
        base_url=base_url,
        api_key=SecretStr(key) if key else defaults.api_key,
        timeout_s=read_calls(spec.args).timeout_s,
    )
    if identity := spec.args.get("identity"):
        chat.id += f"@{identity}"
    return chat


def identify_model(spec: ModelSpec, responses: ResponseStore, *, ask: bool = True) -> tuple[ModelSpec, tuple[str, ...]]:
    """Return the model with the identity of the weights behind its endpoint, and remarks on it; others as they are.

    ask: whether the endpoint may be asked; else its weights are those seen last. Raises ModelError.
    """
    chat = open_model(spec)
    if any(spec.args.get(name) for name in IDENTITY_ARGS):
        return spec, ()
    identity, remarks = identify_endpoint(chat, responses, ask=ask)
    return (spec.model_copy(update={"args": spec.args | {"identity": identity}}) if identity else spec), remarks


def release_models() -> None:
    """Drop the models of this process, so that the device is free for the next model."""
    with _opening:
        _open_cached.cache_clear()
        release_model()


def _read_variable(field: str, name: str | None) -> str | None:
    """Return the value of the environment variable that a field names; None for no name. Raises ModelUnavailable."""
    if name is None:
        return None
    value = read_variable(name)
    if not value:
        raise ModelUnavailable(
            f"{field}={name}: there is no such environment variable here; export it where the run is"
        )
    return value


@cache
def open_limits(spec_json: str) -> Limits:
    """Return the limits of rates and retries of a model, which all threads share."""
    spec = ModelSpec.model_validate_json(spec_json)
    return Limits(read_calls(spec.args), rng=random.Random())  # unseeded: processes must not retry in step


class Asking:
    """Asks one model for one step, through the response store and within its limits, and counts usage."""

    def __init__(
        self,
        spec: ModelSpec,
        *,
        budget: Budget | None = None,
        prices: Prices | None = None,
        batch_size: int | None = None,
    ) -> None:
        self.chat: Any = open_model(spec)
        if hasattr(self.chat, "use_batches"):  # each time: the same model answers the next task, which may say nothing
            self.chat.use_batches(batch_size or spec.args.get("batch_size") or "auto")
        self.usage = Usage()
        self.away: list[str] = []
        """Messages of failed calls that may succeed on a retry."""
        self._refusals: list[RequestRefused] = []
        self._limits = open_limits(spec.model_dump_json())
        self._budget = budget
        self._prices = prices

    def ask_all(self, requests: Iterable[tuple[Any, ChatRequest]]) -> Iterator[tuple[Any, Answer | ModelError]]:
        """Yield the answers as they come; beyond the budget a TransientModelError for each request.

        Raises ModelUnavailable, and RequestRefused where an endpoint refuses all alike.
        """
        remaining = iter(requests)
        waiting: dict[int, Any] = {}

        def numbered() -> Iterator[tuple[int, ChatRequest]]:
            for number, (tag, request) in enumerate(remaining):
                waiting[number] = tag
                yield number, request

        bounds: Any = {"limits": self._limits, "budget": self._budget}
        try:
            for number, answer in ask_all(self.chat, numbered(), responses=optional_responses(), **bounds):
                if not isinstance(answer, ModelError):
                    self.usage = self.usage.plus(count_usage(answer, self._prices))
                elif isinstance(answer, RequestRefused):
                    self._refusals.append(answer)
                else:
                    self.away.append(str(answer))
                yield waiting.pop(number), answer
        except BudgetSpent as spent:
            for tag in chain(list(waiting.values()), (tag for tag, _ in remaining)):  # under way, then those not sent
                self.away.append(str(spent))
                yield tag, TransientModelError(str(spent))

    def require_answers(self) -> None:
        """Raise the first RequestRefused where the model has refused all that it was asked, and for no item's sake."""
        if not self.usage.calls and not self.away and all(map(refuses_all_alike, self._refusals)):
            for error in self._refusals:
                raise error


def count_usage(answer: Answer, prices: Prices | None) -> Usage:
    """Return the usage of one answer; a recalled one counts as a call with its tokens, at a cost of 0 if priced."""
    response = answer.response
    tokens = Tokens(response.prompt_tokens or 0, response.completion_tokens or 0)
    return Usage(
        calls=1,
        recalled=int(answer.cached),
        prompt_tokens=tokens.prompt,
        completion_tokens=tokens.answer,
        latency_s=answer.latency_s,
        cost=None if prices is None else 0.0 if answer.cached else prices.cost(tokens),
    )
