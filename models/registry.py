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

import json
import logging
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self, cast
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, model_validator

from models.backends import OF_THE_CALLER, PRESS, backends, check_args, is_endpoint
from models.model_errors import ModelUnavailable
from models.weight_files import SMOLLM2, smollm2_file

log = logging.getLogger(__name__)

VARIABLE = "TRIVET_MODELS"  # names the file; steps do not need it: a flow hands spelled-out names on
WORDS = ("auto", "none", "local", "digits", "minilm")  # names that mean something without a file and are no backends
BESIDE = {
    "name": {"model", "pretrained", "path", "rules"},
    "revision": {"revision"},
    "base_url": {"base_url", "api_base"},
    "api_key_env": {"api_key_env"},
}
"""Fields of an entry, and what model_args call them."""
NAME = re.compile(r"\w[\w.-]*")
VARIABLE_NAME = r"^[A-Za-z_][A-Za-z0-9_]*$"
Place = tuple[str, ...]  # where in the file a value is: `("qwen", "args", "dtype")`
DEPTH = 3  # levels whose lines are noted: models, their fields, and what is in these
FILES = ("replay", "scripted")  # backends whose name is a file
PERHAPS_LOCAL = ("peft", "tokenizer")  # arguments that are a folder or a name of the hub
SECRET_NAME = re.compile(r"(\w+_)?(api_?key|key|token|password|passwd|secret|authorization)", re.I)
NO_SECRET = ("bos_token", "eos_token", "pad_token", "add_bos_token")
SECRET = re.compile(r"\b(sk-[\w-]{16,}|(hf_|gsk_|xai-|AIza)[\w-]{30,}|Bearer \S{8,})")


class RegistryUnusable(ModelUnavailable):
    """The file cannot be taken as it is; its text names file and line."""


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
    """As `--model_args`."""
    base_url: str | None = None
    """OpenAI-compatible endpoint."""
    api_key_env: str | None = Field(default=None, pattern=VARIABLE_NAME)
    """Name of the environment variable that holds the key."""
    price: Price | None = None

    @model_validator(mode="after")
    def _can_be_opened(self) -> Self:
        if self.backend not in backends() and "." not in self.backend:
            raise ValueError(f"there is no backend {self.backend!r}; there are {', '.join(backends())}")
        if self.backend != "scripted" and not self.name:
            raise ValueError("`name` is missing; write the model's name, or its folder or file")
        if not is_endpoint(self.backend) and (self.base_url or self.api_key_env):
            raise ValueError(f"`base_url` and `api_key_env` are of endpoints, and {self.backend} is none")
        if twice := [field for field, names in BESIDE.items() if names & self.args.keys()]:
            raise ValueError(f"write `{twice[0]}` beside `args`, not in it")
        try:
            check_args(self.backend, self.own_args)
        except ModelUnavailable as error:
            raise ValueError(str(error)) from None
        for names in PRESS.values():
            given = [name for name in names if name in self.args]
            if len(given) > 1:
                raise ValueError(f"{' and '.join(given)} mean the same; write one of them")
            if given and (type(value := self.args[given[0]]) is not int or value < 1):
                raise ValueError(f"{given[0]}: expected a whole number from 1")
        return self

    @property
    def press(self) -> dict[str, int]:
        """How hard it may be pressed: fields of tasks.calls.CallSettings."""
        given = {field: name for field, names in PRESS.items() for name in names if name in self.args}
        return {field: cast("int", self.args[name]) for field, name in given.items()}

    @property
    def own_args(self) -> dict[str, JsonValue]:
        """The arguments of its backend, with the revision among them where one is given."""
        return self.args | ({"revision": self.revision} if self.revision else {})

    @property
    def spelled(self) -> str:
        """The model for models.backends.open_chat, in a process that has no such file: `hf:NAME,{"dtype": …}`.

        Rates and sizes of batches stay here: they say how hard the model may be pressed, not what it answers.
        """
        left_out = {*OF_THE_CALLER, "batch_size"}
        args = {name: value for name, value in self.own_args.items() if name not in left_out}
        places = {"base_url": self.base_url, "api_key_env": self.api_key_env}
        args |= {name: value for name, value in places.items() if value}
        said = f",{json.dumps(dict(sorted(args.items())), ensure_ascii=False)}" if args else ""
        return f"{self.backend}:{self.name or ''}{said}".removesuffix(":")


def named(name: str) -> Entry | None:
    """The model that the file calls `name`, or `smollm2`; None where there is no file, or none of that name.

    Raises RegistryUnusable for a file that cannot be read, ModelUnavailable where `smollm2` is not installed.
    """
    if is_taken(name) or not NAME.fullmatch(name):
        return None
    entry = registered().get(name)
    if entry is None and name == SMOLLM2:
        file = smollm2_file()
        return Entry(backend="hf", name=str(file.parent), args={"gguf_file": file.name})
    return entry


def is_taken(name: str) -> bool:
    """True for a name that means something without a file: a backend's, or a word such as `none`."""
    return name in WORDS or name in backends()


def spelled(name: str) -> str:
    """`name`, or what it stands for in the file. Raises RegistryUnusable."""
    entry = named(name)
    return entry.spelled if entry else name


def press_of(name: str) -> dict[str, int]:
    """How hard the model of a spelled name may be pressed, as its entry says where this process finds the file."""
    try:
        return next((entry.press for entry in registered().values() if entry.spelled == name), {})
    except ModelUnavailable as error:
        log.warning("rates of models are not known here: %s", error)
        return {}


def registered() -> dict[str, Entry]:
    """All models of the file that TRIVET_MODELS names; empty where it names none. Raises RegistryUnusable."""
    file = os.environ.get(VARIABLE)
    return read_models(Path(file)) if file else {}


class _Source(NamedTuple):
    """A file, and the line of each value in it."""

    file: Path
    lines: Mapping[Place, int]

    def at(self, *place: str) -> str:
        """Where a value is, for messages: its line, or that of the nearest one around it."""
        known = next((place[:end] for end in range(len(place), 0, -1) if place[:end] in self.lines), ())
        return f"{self.file}, line {self.lines.get(known, 1)}: {'.'.join(place)}"


def read_models(file: Path) -> dict[str, Entry]:
    """The models of a file by their names. Raises RegistryUnusable."""
    import yaml

    try:
        text = file.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise RegistryUnusable(
            f"TRIVET_MODELS={file}: it cannot be read ({error}); name a YAML file of models, or unset the variable"
        ) from error
    try:
        node, plain = yaml.compose(text, Loader=yaml.SafeLoader), yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise RegistryUnusable(f"{file}, line {line}: not YAML: {error.problem}") from None
    except yaml.YAMLError:
        raise RegistryUnusable(f"{file} is not YAML: it holds signs that no text has") from None
    if not isinstance(plain, dict):
        raise RegistryUnusable(f"{file}, line 1: expected names of models, such as `qwen: {{backend: hf, name: …}}`")
    lines: dict[Place, int] = {}
    for place, line in _places(node, ()):
        if place in lines:
            name = ".".join(place)
            raise RegistryUnusable(f"{file}, line {line}: {name!r} is in line {lines[place]} too; write it once")
        lines[place] = line
    source = _Source(file, lines)
    return {str(name): _entry(str(name), given, source) for name, given in cast("dict[Any, Any]", plain).items()}


def _places(node: Any, at: Place) -> Iterator[tuple[Place, int]]:
    import yaml

    if not isinstance(node, yaml.MappingNode) or len(at) == DEPTH:
        return
    for name, value in node.value:
        below = (*at, str(name.value))
        yield below, name.start_mark.line + 1
        yield from _places(value, below)


def _entry(name: str, given: Any, source: _Source) -> Entry:
    where = source.at(name)
    if is_taken(name):
        raise RegistryUnusable(f"{where}: the name means something already; call the model otherwise")
    if not NAME.fullmatch(name):
        raise RegistryUnusable(
            f"{where!r}: a name has letters, digits, `-`, `_` and `.` only; call the model otherwise"
        )
    if not isinstance(given, dict):
        raise RegistryUnusable(f"{where}: expected `backend` and `name`, such as {{backend: hf, name: …}}")
    _refuse_secrets((name,), cast("dict[Any, Any]", given), source)
    try:
        entry = Entry.model_validate(given)
    except ValidationError as error:
        raise _refused(name, error, source) from None
    address = urlsplit(entry.base_url or "")
    hidden = "@" in address.netloc or address.query
    if hidden or SECRET.search(json.dumps(entry.model_dump(mode="json"))):
        raise RegistryUnusable(
            f"{where}: a value of it looks like a key or a password; export that as an environment variable and name "
            "the variable: api_key_env (a whole address with a password: OPENAI_BASE_URL)"
        )
    if is_endpoint(entry.backend):
        return entry
    # whole paths, whatever folder a command is started in
    folder = source.file.absolute().parent
    args: dict[str, JsonValue] = {
        name: _whole(value, folder, always=False) if name in PERHAPS_LOCAL and isinstance(value, str) else value
        for name, value in entry.args.items()
    }
    own = entry.name and _whole(entry.name, folder, always=entry.backend in FILES)
    return entry.model_copy(update={"name": own, "args": args})


def _refuse_secrets(at: Place, given: Mapping[Any, Any], source: _Source) -> None:
    for name, value in given.items():
        place = (*at, str(name))
        if SECRET_NAME.fullmatch(place[-1].replace("-", "_")) and place[-1] not in NO_SECRET:
            raise RegistryUnusable(
                f"{source.at(*place)}: no secret belongs in this file; export it as an environment variable and name "
                "that: `api_key_env: NAME`"
            )
        if name == "args" and isinstance(value, dict):
            _refuse_secrets(place, cast("dict[Any, Any]", value), source)


def _refused(name: str, error: ValidationError, source: _Source) -> RegistryUnusable:
    """What pydantic refused first, without its value."""
    first = error.errors(include_input=False, include_url=False)[0]
    place = (name, *(str(part) for part in first["loc"]))
    where = source.at(*place)
    if place[1:] == ("default",):
        return RegistryUnusable(f"{where}: `--model auto` is gone, and no model is taken by default; leave it out")
    if first["type"] == "extra_forbidden":
        return RegistryUnusable(f"{where} is not known; give {', '.join(Entry.model_fields)}")
    if first["type"] == "missing":
        return RegistryUnusable(f"{where} is missing; a model has at least `backend` and `name`")
    if place[-1] == "api_key_env":
        return RegistryUnusable(f"{where}: write the name of an environment variable, such as TEAM_KEY, and no key")
    return RegistryUnusable(f"{where}: {first['msg'].removeprefix('Value error, ')}")


def _whole(name: str, folder: Path, *, always: bool) -> str:
    """`name` as a whole path, where it is one; otherwise as it stands.

    Written without `..`, so that caches and results know it under one name; behind a link that may be another place.
    """
    path = folder / Path(name).expanduser()
    if not path.exists():
        return os.path.normpath(path) if always else name
    plain = Path(os.path.normpath(path))
    return str(plain if plain.exists() and plain.samefile(path) else path)
