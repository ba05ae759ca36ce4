"""The one table of model backends: where each kind runs, which arguments it takes, and how it is opened by its name.

A backend of another package is an entry point of the group `trivet.backends`: its name is the kind, its object a
`Backend`. `--model KIND` and `--llm`, `--vlm` and `--judge KIND:NAME` then take it like a built-in one.
"""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import entry_points
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, SecretStr, ValidationError

from models.model_errors import ModelUnavailable
from models.openai import AS_ASKED, BRIEFLY, CuratorChat, OpenAIChat, ProviderAccess, Thinking, find_access
from models.permissions import read_variable, require_code
from models.protocols import Chat
from models.weight_files import GENERATOR_FILES, digest_files, digest_folder, hub_folder, split_gguf

ENTRY_POINTS = "trivet.backends"
RATE_NAMES = {
    "concurrency": ("concurrency", "num_concurrent"),
    "requests_per_minute": ("requests_per_minute", "max_requests_per_minute"),
    "tokens_per_minute": ("tokens_per_minute", "max_tokens_per_minute"),
}
"""How hard a model may be pressed: fields of tasks.calls.CallSettings, and what evalchemy's command lines call them."""
IDENTITY_ARGS = ("identity", "assume_same_weights")
"""Arguments about which weights answer at an endpoint: their digest, and that its name is to be trusted."""
CALLER_ARGS = {"api_key_env", "max_retries", *IDENTITY_ARGS, *chain.from_iterable(RATE_NAMES.values())}
"""Arguments about keys, rates and identity, which whoever opens a backend reads; each kind leaves them alone."""
REMOVED_ARGS = {"response_format": "describe the format in the prompt"}
"""Arguments of earlier versions, and what to do instead."""
NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]\d+)?")  # not 0123, nor 1e5: a revision may look like that
WORDS: dict[str, JsonValue] = {"true": True, "false": False, "none": None, "null": None}


class BackendArgs(BaseModel):
    """Arguments that every backend takes in `--model_args`; a backend adds its own as fields of a subclass."""

    model_config = ConfigDict(extra="forbid", coerce_numbers_to_str=True, use_attribute_docstrings=True)
    # coerce: `revision=1234567` of a command line is read as a number

    batch_size: Annotated[int, Field(ge=1)] | Literal["auto"] = "auto"
    """Accepted by every backend, used by those that run in this process."""


def _plain_dtype(name: object) -> object:
    return name.removeprefix("torch.") if isinstance(name, str) else name


HFDtype = Annotated[Literal["auto", "float32", "bfloat16", "float16", "float64"], BeforeValidator(_plain_dtype)]
VLLMDtype = Annotated[Literal["auto", "float32", "bfloat16", "float16"], BeforeValidator(_plain_dtype)]
WHICH_WEIGHTS = ("revision", "gguf_file", "trust_remote_code")
"""Arguments that say which files of a folder or of the hub a model is."""
Args = TypeVar("Args", bound=BackendArgs)


class OpenAIArgs(BackendArgs):
    """Arguments of `openai`, `responses` and `curator`: endpoints that are asked over HTTP."""

    model: str | None = Field(default=None, validation_alias=AliasChoices("model", "pretrained"))
    base_url: str | None = Field(default=None, validation_alias=AliasChoices("base_url", "api_base"))
    api_key: SecretStr | None = None
    timeout_s: float | None = Field(default=None, gt=0, validation_alias=AliasChoices("timeout", "timeout_s"))
    reasoning_effort: str | None = None


class HFArgs(BackendArgs):
    """Arguments of `hf`, which loads weights with transformers in this process.

    Pixels bound the size of a picture (height · width); `max_length` is tokens of prompt and answer together.
    """

    pretrained: str | None = None
    revision: str | None = None
    gguf_file: str | None = None
    """Name of a GGUF file in the folder `pretrained`, not safetensors; `pretrained=FOLDER/FILE.gguf` is the same."""
    dtype: HFDtype = Field(default="auto", validation_alias=AliasChoices("dtype", "torch_dtype"))
    device: str | None = None
    device_map: str | dict[str, JsonValue] | None = None
    peft: str | None = None
    trust_remote_code: bool = False
    max_length: int | None = Field(default=None, ge=2)
    min_pixels: int | None = Field(default=None, ge=1)
    max_pixels: int | None = Field(default=None, ge=1)


class VLLMArgs(BackendArgs):
    """Arguments of `vllm`, an engine in this process.

    Pixels bound the size of a picture (height · width); `max_model_len` is tokens of prompt and answer together.
    """

    pretrained: str | None = Field(default=None, validation_alias=AliasChoices("pretrained", "model"))
    revision: str | None = None
    dtype: VLLMDtype = "auto"
    tensor_parallel_size: int = Field(default=1, ge=1)
    data_parallel_size: Literal[1] = 1
    """Run several engines with `vllm serve --data-parallel-size` and ask the endpoint."""
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


class ReplayArgs(BackendArgs):
    """Arguments of `replay`; `path`: a file or folder of recorded answers."""

    path: str | None = None


class ScriptedArgs(BackendArgs):
    """Arguments of `scripted`; `rules`: a JSON file, see models.scripted.read_rules."""

    rules: str | None = None


class BackendRequest(NamedTuple):
    """The kind, name and arguments that a backend is opened with."""

    kind: str
    name: str | None = None  # model name, unless the arguments give one
    args: Mapping[str, JsonValue] = {}  # `--model_args`; those about keys and rates are not for the backend
    base_url: str | None = None
    api_key: SecretStr | None = None
    timeout_s: float = 120.0
    pictures: bool = False  # True if requests will hold pictures
    thinking: Thinking = AS_ASKED


class Backend(NamedTuple):
    """A kind of model: the function that opens it, its arguments, and where it computes."""

    open: Callable[[BackendRequest], Chat]
    args: type[BackendArgs]
    place: Literal["endpoint", "process", "file"]
    """endpoint: an OpenAI-compatible API, with address and key. process: weights in the hub's layout, loaded by the
    process that asks, one model at a time. file: needs neither, such as recorded answers."""
    spelling: str  # how users write it after `--llm`, `--vlm` and `--judge`: `hf:FOLDER` and what it is
    subject: str  # the argument that `KIND:REST` sets to REST: `model`, `pretrained`, `path`
    needs_subject: bool = True  # False if the kind alone is a model


def open_backend(kind: str, **fields: Any) -> Chat:
    """Return the backend of a kind, or of the dotted path of an lm_eval LM class. Raises ModelUnavailable.

    fields: those of `BackendRequest`; what `args` says goes before the others.
    """
    request = BackendRequest(kind, **fields)
    if backend := backends().get(kind):
        return backend.open(request)
    if "." in kind:
        require_code(f"the class {kind}")
        from models.lm_eval_lm import HarnessLM

        return HarnessLM(kind, _backend_args(request.args))
    raise ModelUnavailable(
        f"There is no model backend called {kind!r}; there are {', '.join(backends())}, and any lm_eval model class by "
        "its dotted path (package.module.Class)."
    )


def check_args(kind: str, args: Mapping[str, JsonValue]) -> None:
    """Raises ModelUnavailable for arguments that a backend does not take; a kind that is none of ours takes any."""
    if backend := backends().get(kind):
        checked_args(backend.args, BackendRequest(kind, args=args))


def checked_args(kind: type[Args], request: BackendRequest) -> Args:
    """Return the arguments as `kind` has them. Raises ModelUnavailable for an unknown one or an unusable value."""
    try:
        args = kind.model_validate(_backend_args(request.args))
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        name = ".".join(str(part) for part in first["loc"][:1])
        if name in REMOVED_ARGS:
            raise ModelUnavailable(f"model_args: {name} was removed; {REMOVED_ARGS[name]}") from None
        if first["type"] == "extra_forbidden":
            arguments = ", ".join(sorted([*kind.model_fields, *CALLER_ARGS]))
            raise ModelUnavailable(f"model_args: {request.kind} has no argument {name}; it has {arguments}") from None
        raise ModelUnavailable(f"model_args: {name}: {first['msg']}") from None
    if getattr(args, "trust_remote_code", False):
        require_code("trust_remote_code")
    return args


def _backend_args(args: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    return {name: value for name, value in args.items() if name not in CALLER_ARGS}


def parse_model_args(text: str) -> dict[str, JsonValue]:
    """Return the arguments of `k=v,k2=v2` or JSON, with numbers, booleans and None. Raises ModelUnavailable."""
    if text.lstrip().startswith("{"):
        try:
            return json.loads(text)
        except ValueError as error:
            raise ModelUnavailable(f"model_args: this is no JSON object ({error})") from None
    args: dict[str, JsonValue] = {}
    for piece in (piece.strip() for piece in text.split(",")):
        if not piece:
            continue
        name, equals, value = piece.partition("=")
        if not equals or not name.strip():
            raise ModelUnavailable(f"model_args: {piece!r} is no name=value; write them as name=value,name=value")
        if name.strip() in args:
            raise ModelUnavailable(f"model_args: {name.strip()} is given twice")
        word = value.strip()
        args[name.strip()] = json.loads(word) if NUMBER.fullmatch(word) else WORDS.get(word.lower(), word)
    return args


def _model_name(name: str | None, kind: str, argument: str) -> str:
    if not name:
        raise ModelUnavailable(f"{kind} needs a model: give --model-name NAME or --model-args {argument}=NAME")
    return name


def _open_endpoint(request: BackendRequest) -> Chat:
    """Return the client of an endpoint's API; a value in `args` goes before the request's. Raises ModelUnavailable."""
    args = checked_args(OpenAIArgs, request)
    model, effort = _model_name(args.model or request.name, request.kind, "model"), args.reasoning_effort
    options: dict[str, Any] = {
        "base_url": args.base_url or request.base_url,
        "api_key": args.api_key or request.api_key,
        "timeout_s": args.timeout_s or request.timeout_s,
        "thinking": request.thinking._replace(effort=effort) if effort else request.thinking,
    }
    if request.kind == "curator":
        return CuratorChat(model, **options)
    return OpenAIChat(model, responses=request.kind == "responses", **options)


def _open_hf(request: BackendRequest) -> Chat:
    """Return transformers' model, without its eyes if no pictures come and it can load so. Raises ModelUnavailable."""
    from models.causal_weights import kind_of

    args = checked_args(HFArgs, request)
    name = _model_name(args.pretrained or request.name, request.kind, "pretrained")
    pretrained, gguf_file = split_gguf(name, args.gguf_file)
    kind = kind_of(pretrained, args.revision, gguf_file=gguf_file)
    sees = kind.sees and (request.pictures or not kind.reads_text_alone)
    lacking = ("trust_remote_code", "gguf_file") if sees else ("min_pixels", "max_pixels")
    if unusable := [name for name in lacking if getattr(args, name)]:
        manner = "with its eyes" if sees else "for text alone"
        raise ModelUnavailable(
            f"the model in {pretrained} is loaded {manner}, without {' and '.join(unusable)}; leave it out"
        )
    options = args.model_dump(exclude={"pretrained", "gguf_file", *lacking})
    from models.causal_lm import CausalLM, HFVision  # brings torch

    return HFVision(pretrained, **options) if sees else CausalLM(pretrained, gguf_file=gguf_file, **options)


def _open_vllm(request: BackendRequest) -> Chat:
    """Return vLLM's engine for the model of the request. Raises ModelUnavailable without a name, or without vLLM."""
    args = checked_args(VLLMArgs, request)
    model = _model_name(args.pretrained or request.name, request.kind, "pretrained")
    require_vllm(model)
    from models.vllm import VLLMChat

    return VLLMChat(model, **args.model_dump(exclude={"pretrained", "batch_size", "data_parallel_size"}))


def require_vllm(pretrained: str) -> None:
    """Raises ModelUnavailable, with the ways to run the model `pretrained`, where vLLM is not installed."""
    if importlib.util.find_spec("vllm") is None:
        raise ModelUnavailable(
            "vLLM is not installed here; install it (`pip install 'trivet[gpu]'`), or load the model with transformers "
            f"(hf:{pretrained}), or serve it (`vllm serve {pretrained}`) and name it openai:{pretrained} "
            f"(`--model openai --model_name {pretrained} --base-url http://127.0.0.1:8000/v1`)"
        )


def require_key(chat: Chat) -> None:
    """Raise ModelUnavailable for OpenAI's own endpoint without a key, which else the first request asks for."""
    if isinstance(chat, OpenAIChat):
        chat.endpoint.require_key()


def _open_replay(request: BackendRequest) -> Chat:
    from models.scripted import ReplayChat

    return ReplayChat(Path(_model_name(checked_args(ReplayArgs, request).path, request.kind, "path")))


def _open_scripted(request: BackendRequest) -> Chat:
    from models.scripted import ScriptedChat, read_rules

    rules = checked_args(ScriptedArgs, request).rules
    return ScriptedChat(read_rules(Path(rules)) if rules else ())


BACKENDS: dict[str, Backend] = {
    "openai": Backend(
        _open_endpoint, OpenAIArgs, "endpoint", "`openai:MODEL` (any OpenAI-compatible endpoint)", subject="model"
    ),
    "responses": Backend(
        _open_endpoint,
        OpenAIArgs,
        "endpoint",
        "`responses:MODEL` (the same through the Responses API, where there is one)",
        subject="model",
    ),
    "hf": Backend(
        _open_hf,
        HFArgs,
        "process",
        "`hf:FOLDER`, `hf:FILE.gguf` or `hf:NAME@REVISION` (transformers, in this process)",
        subject="pretrained",
    ),
    "vllm": Backend(_open_vllm, VLLMArgs, "process", "`vllm:FOLDER` (vLLM, in this process)", subject="pretrained"),
    "curator": Backend(_open_endpoint, OpenAIArgs, "endpoint", "`curator:BACKEND/MODEL`", subject="model"),
    "replay": Backend(_open_replay, ReplayArgs, "file", "`replay:FILE` (recorded answers)", subject="path"),
    "scripted": Backend(
        _open_scripted, ScriptedArgs, "file", "`scripted` or `scripted:FILE`", subject="rules", needs_subject=False
    ),
}
"""The built-in backends. To add one, write its module and a line here."""


@cache
def backends() -> Mapping[str, Backend]:
    """Return every backend by its kind, those of installed packages included.

    Raises ModelUnavailable for an entry point that is no backend, or takes a name that is taken.
    """
    by_kind = dict(BACKENDS)
    for point in entry_points(group=ENTRY_POINTS):
        try:
            if point.name in by_kind:
                raise ValueError("there is a backend of that name")
            backend = point.load()
            if not isinstance(backend, Backend):
                raise TypeError(f"{point.value} is a {type(backend).__name__}, and no models.backends.Backend")
        except Exception as error:
            package = point.dist.name if point.dist else "an installed package"
            raise ModelUnavailable(
                f"the model backend {point.name!r} of {package} cannot be used ({type(error).__name__}: {error}); "
                f"mend it, or uninstall {package}"
            ) from error
        by_kind[point.name] = backend
    return by_kind


def kinds(*places: str) -> tuple[str, ...]:
    """Return the names of the backends that run in one of the places; of all backends without any."""
    return tuple(kind for kind, backend in backends().items() if not places or backend.place in places)


class Local(NamedTuple):
    """A model that runs in the process that asks it, as its name says."""

    kind: str
    pretrained: str  # a folder, or a name of the hub
    args: Mapping[str, JsonValue]  # as `--model_args` of that backend

    @property
    def name(self) -> str:
        """The whole name as users write it, with the arguments as JSON behind a comma."""
        return f"{self.kind}:{self.pretrained}{spell_args(self.args)}"


def spell_args(args: Mapping[str, JsonValue]) -> str:
    """Return the arguments as they are written behind a model's name; nested fields keep their order."""
    return f",{json.dumps(dict(sorted(args.items())), ensure_ascii=False)}" if args else ""


def open_chat(
    name: str, *, base_url: str | None = None, api_key: SecretStr | None = None, timeout_s: float = 120.0
) -> Chat:
    """Return the backend called `name`, as users write it after `--vlm`, `--llm` or `--judge`. Raises ModelUnavailable.

    base_url, api_key, timeout_s: for endpoints whose name does not say; None is OpenAI's own, without a key.
    """
    if local := local_of(name):
        return open_backend(local.kind, name=local.pretrained, args=local.args, pictures=True)
    kind, _, rest = name.partition(":")
    backend = backends().get(kind)
    if backend is None or (backend.needs_subject and not rest):
        raise ModelUnavailable(f"There is no model backend called {name!r}; give {spellings()}.")
    args: dict[str, JsonValue] = {}
    if backend.place == "endpoint":
        rest, has_args, written = rest.partition(",{")  # JSON alone: a comma may be part of a model's name
        args = parse_model_args("{" + written) if has_args else {}
        variable = args.pop("api_key_env", None)
        if kind == "curator":
            base_url, api_key = find_access(rest, ProviderAccess(base_url, api_key))
        if variable:
            api_key = SecretStr(read_variable(str(variable)) or "")
            if not api_key:
                raise ModelUnavailable(f"{rest}: there is no environment variable {variable} here, which holds its key")
    args = ({backend.subject: rest} if rest else {}) | args
    endpoint: dict[str, Any] = {"base_url": base_url, "api_key": api_key, "timeout_s": timeout_s}
    return open_backend(kind, args=args, pictures=True, thinking=BRIEFLY, **endpoint)


def spellings() -> str:
    """Return how each backend is written after `--llm`, `--vlm` and `--judge`, as a list for error messages."""
    listed = ", ".join(backend.spelling for backend in backends().values())
    arguments = "with arguments behind a comma (`hf:FOLDER,dtype=float32`)"
    return f"{listed}, {arguments}, or a name of the file in TRIVET_MODELS"


def is_in_process(name: str) -> bool:
    """Return whether the weights of the backend called `name` are loaded in the process that asks it."""
    return name.partition(":")[0] in kinds("process")


def local_of(name: str) -> Local | None:
    """Return the parts of `hf:…` or `vllm:…`; None for another backend. Raises ModelUnavailable for broken arguments.

    A comma separates folder and arguments, unless it is part of the name of an existing folder.
    """
    kind, _, rest = name.partition(":")
    if not is_in_process(name) or not rest:
        return None
    pieces = rest.split(",")
    folder = next((end for end in range(len(pieces), 0, -1) if Path(",".join(pieces[:end])).is_dir()), 1)
    pretrained, args = ",".join(pieces[:folder]), parse_model_args(",".join(pieces[folder:]))
    if kind == "hf":
        named_file = args.get("gguf_file")
        pretrained, gguf_file = split_gguf(pretrained, named_file if isinstance(named_file, str) else None)
        args |= {"gguf_file": gguf_file} if gguf_file else {}
    return Local(kind, pretrained, args)


def require_weights(local: Local, *, pictures: bool = False) -> None:
    """Raises ModelUnavailable for a model without files, or `hf` of text alone if pictures come; loads nothing."""
    from models.causal_weights import kind_of

    check_args(local.kind, local.args)
    files = {name: str(value) for name in ("revision", "gguf_file") if (value := local.args.get(name))}
    if not kind_of(local.pretrained, **files).sees and pictures and local.kind == "hf":
        raise ModelUnavailable(
            f"the model in {local.pretrained} reads text alone, and it would be shown pictures; name one that sees, "
            "such as hf:Qwen/Qwen2.5-VL-3B-Instruct"
        )


def revision_of(name: str) -> str:
    """Return a fingerprint of the weights that lie on this disk under a backend's name; nothing is loaded.

    Empty where none lie there: an endpoint's name has to stand for it. Raises ModelUnavailable.
    """
    if local := local_of(name):
        from models.causal_weights import find_weights

        args: Any = {name: local.args[name] for name in WHICH_WEIGHTS if local.args.get(name)}
        weights = find_weights(local.pretrained, **args)
        adapter = local.args.get("peft") or local.args.get("lora_local_path")
        if not adapter:
            return weights.fingerprint
        return f"{weights.fingerprint}+{digest_folder(hub_folder(str(adapter), kind='LoRA', patterns=GENERATOR_FILES))}"
    kind, _, rest = name.partition(":")
    if kind in ("scripted", "replay") and rest:
        if not Path(rest).is_file():
            raise ModelUnavailable(f"{name!r}: there is no file {rest}; name one")
        return digest_files([Path(rest)])
    return ""
