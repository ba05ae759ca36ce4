"""Models by names of the user's own: a file names each once, with all that opens it, and every command takes its name.

qwen:                                # eval run --model qwen, rag index --vlm qwen, lever run --judge qwen …
  backend: hf                        # a kind of models/backends.py
  name: Qwen/Qwen2.5-VL-3B-Instruct  # name at its server or on the hub; a folder or a file, relative to this one
  revision: 66285546d2b8             # hub revision
  args: {dtype: bfloat16}            # its model_args
  price: {prompt: 0.15, answer: 0.6} # per million tokens
claude:
  backend: curator
  name: anthropic/claude-sonnet-4-5
  api_key_env: TEAM_KEY              # the variable that holds its key; `base_url`: where it is, if not where usual

Rates among `args` (requests_per_minute, tokens_per_minute, num_concurrent …) hold in every process that finds the file
and asks the model.
"""

from __future__ import annotations

import logging
import os
import re
from pathlib import Path
from typing import Any, Self, cast
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, model_validator

from models.backends import CALLER_ARGS, RATE_NAMES, backends, check_args, kinds, spell_args
from models.model_errors import ModelUnavailable
from models.weight_files import SMOLLM2, smollm2_file

log = logging.getLogger(__name__)

VARIABLE = "TRIVET_MODELS"  # names the file; steps do not need it: a flow hands spelled-out names on
WORDS = ("auto", "none", "local", "digits", "minilm")  # names that mean something without a file and are no backends
NAME = re.compile(r"\w[\w.-]*")
ENTRY_FIELDS = ("model", "pretrained", "path", "rules", "revision", "base_url", "api_base", "api_key_env")
"""Names of model_args that are fields of an entry."""
FILES = ("replay", "scripted")  # backends whose name is a file
PERHAPS_LOCAL = ("peft", "tokenizer")  # arguments that are a folder or a name of the hub
SECRET = re.compile(r"(\w+_)?(api_?key|key|token|password|passwd|secret|authorization)", re.I)
NO_SECRET = ("bos_token", "eos_token", "pad_token", "add_bos_token")  # of a vocabulary


class RegistryUnusable(ModelUnavailable):
    """The file of models cannot be used; the text names the file and the entry."""


class Price(BaseModel):
    """Price of a million tokens of prompts and of answers, in any one currency."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    prompt: float = Field(ge=0)
    answer: float = Field(ge=0)


class Entry(BaseModel):
    """A model of the file in TRIVET_MODELS: its backend, where it is, and its arguments."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    backend: str = Field(min_length=1)
    """A kind of models.backends, or an lm_eval class by its dotted path."""
    name: str | None = Field(default=None, min_length=1)
    """Name at its server or on the hub, or the absolute path of a folder or file."""
    revision: str | None = Field(default=None, min_length=1)
    """Hub revision, for models loaded in this process."""
    args: dict[str, JsonValue] = Field(default_factory=dict)
    """Arguments of the backend, as `--model_args` takes them."""
    base_url: str | None = None
    """Address of the OpenAI-compatible endpoint that serves the model; None for the backend's usual one."""
    api_key_env: str | None = Field(default=None, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    """Name of the environment variable that holds the key."""
    price: Price | None = None

    @model_validator(mode="after")
    def _can_be_opened(self) -> Self:
        """Return the entry. Raises ValueError where backend, name, args, address and rates do not go together."""
        if self.backend not in backends() and "." not in self.backend:
            raise ValueError(f"there is no backend {self.backend!r}; there are {', '.join(backends())}")
        if self.backend != "scripted" and not self.name:
            raise ValueError("`name` is missing; write the model's name, or its folder or file")
        if self.backend not in kinds("endpoint") and (self.base_url or self.api_key_env):
            raise ValueError(f"`base_url` and `api_key_env` are of endpoints, and {self.backend} is none")
        address = urlsplit(self.base_url or "")
        secret = [name for name in self.args if SECRET.fullmatch(name.replace("-", "_")) and name not in NO_SECRET]
        if secret or "@" in address.netloc or address.query:
            raise ValueError(
                f"{next(iter(secret), 'base_url')}: no secret belongs in this file; export it as an environment "
                "variable and name that: `api_key_env: NAME` (a whole address with a password: OPENAI_BASE_URL)"
            )
        if twice := [name for name in ENTRY_FIELDS if name in self.args]:
            raise ValueError(f"write `{twice[0]}` beside `args`, not in it: `name`, `revision`, `base_url` …")
        try:
            check_args(self.backend, self.own_args)
        except ModelUnavailable as error:
            raise ValueError(str(error)) from None
        for name, value in self.rates.items():
            if type(value) is not int or value < 1:  # `true` is an int to isinstance
                raise ValueError(f"{name}: expected a whole number from 1")
        return self

    @property
    def rates(self) -> dict[str, int]:
        """The rates and the concurrency among `args`, as fields of tasks.calls.CallSettings."""
        argument_of = {field: name for field, names in RATE_NAMES.items() for name in names if name in self.args}
        return {field: cast("int", self.args[name]) for field, name in argument_of.items()}

    @property
    def own_args(self) -> dict[str, JsonValue]:
        """The arguments of its backend, with the revision among them where one is given."""
        return self.args | ({"revision": self.revision} if self.revision else {})

    @property
    def spelled(self) -> str:
        """The name for models.backends.open_chat in a process without the file: `hf:NAME,{"dtype": …}`.

        Rates and sizes of batches stay here: they say how hard the model may be pressed, not what it answers.
        """
        left_out = {*CALLER_ARGS, "batch_size"}
        args = {name: value for name, value in self.own_args.items() if name not in left_out}
        places = {"base_url": self.base_url, "api_key_env": self.api_key_env}
        args |= {name: value for name, value in places.items() if value}
        return f"{self.backend}:{self.name or ''}{spell_args(args)}".removesuffix(":")  # `scripted` needs no name


def find_entry(name: str) -> Entry | None:
    """Return the model that the file calls `name`, or `smollm2`; None where there is no file, or none of that name.

    Raises RegistryUnusable for a file that cannot be read, ModelUnavailable where `smollm2` is not installed.
    """
    if name in WORDS or name in backends() or not NAME.fullmatch(name):
        return None
    entry = registered_models().get(name)
    if entry is None and name == SMOLLM2:
        file = smollm2_file()
        return Entry(backend="hf", name=str(file.parent), args={"gguf_file": file.name})
    return entry


def spelled(name: str) -> str:
    """Return `name`, or the full spelling of the model that `find_entry` finds by it. Raises ModelUnavailable."""
    entry = find_entry(name)
    return entry.spelled if entry else name


def rates_of(name: str) -> dict[str, int]:
    """Return the rates of the model with this spelled name; empty where this process finds no entry of it."""
    try:
        return next((entry.rates for entry in registered_models().values() if entry.spelled == name), {})
    except ModelUnavailable as error:
        log.warning("rates of models are not known here: %s", error)
        return {}


def registered_models() -> dict[str, Entry]:
    """Return every model of the file that TRIVET_MODELS names; empty where it names none. Raises RegistryUnusable."""
    file = os.environ.get(VARIABLE)
    return read_models(Path(file)) if file else {}


def read_models(file: Path) -> dict[str, Entry]:
    """Return the models of a file by their names. Raises RegistryUnusable."""
    import yaml

    try:
        content = yaml.safe_load(file.read_text("utf-8-sig"))  # editors on Windows begin with a BOM
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise RegistryUnusable(
            f"TRIVET_MODELS={file}: it cannot be read ({error}); name a YAML file of models, or unset the variable"
        ) from error
    if not isinstance(content, dict):
        raise RegistryUnusable(f"{file}: expected names of models, such as `qwen: {{backend: hf, name: …}}`")
    models: dict[str, Entry] = {}
    for key, fields_of_entry in cast("dict[Any, Any]", content).items():
        name = str(key)
        if name in WORDS or name in backends():
            raise RegistryUnusable(f"{file}: {name}: the name means something already; call the model otherwise")
        if not NAME.fullmatch(name):
            raise RegistryUnusable(f"{file}: {name!r}: a name has letters, digits, `-`, `_` and `.` only")
        try:
            entry = Entry.model_validate(fields_of_entry)
        except ValidationError as error:  # told without its value, which may be a key
            first = error.errors(include_input=False, include_url=False)[0]
            place = ".".join((name, *(str(part) for part in first["loc"])))
            fields = f"; an entry has {', '.join(Entry.model_fields)}" if first["type"] == "extra_forbidden" else ""
            raise RegistryUnusable(f"{file}: {place}: {first['msg'].removeprefix('Value error, ')}{fields}") from None
        if entry.backend not in kinds("endpoint"):
            # whole paths, whatever folder a command is started in
            args = dict(entry.args)
            for argument in PERHAPS_LOCAL:
                value = args.get(argument)
                if isinstance(value, str):
                    args[argument] = _whole_path(value, file, always=False)
            place = entry.name and _whole_path(entry.name, file, always=entry.backend in FILES)
            entry = entry.model_copy(update={"name": place, "args": args})
        models[name] = entry
    return models


def _whole_path(name: str, file: Path, *, always: bool) -> str:
    """Return `name` as a whole path; unless `always`, a name that is no path here stays as it stands."""
    path = file.absolute().parent / Path(name).expanduser()
    if not always and not path.exists():
        return name
    # without `..`, so that caches know it under one name; behind a link that is where the link leads
    return str(path.resolve() if ".." in path.parts else path)
