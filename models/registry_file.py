"""Reads the file of models.registry; what is wrong with it is said with file and line, and no secret is repeated."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from pydantic import JsonValue, ValidationError

from models.backends import is_endpoint
from models.model_errors import ModelUnavailable
from models.registry import NAME, Entry, is_taken

Place = tuple[str, ...]
"""Where in the file a value is: `("qwen", "args", "dtype")`."""
DEPTH = 3
"""Models, their fields, and what is in these."""
FILES = ("replay", "scripted")
"""Backends whose name is a file."""
PERHAPS_LOCAL = ("peft", "tokenizer")
"""Arguments that are a folder or a name of the hub."""
SECRET_NAME = re.compile(r"(\w+_)?(api_?key|key|token|password|passwd|secret|authorization)", re.I)
NO_SECRET = ("bos_token", "eos_token", "pad_token", "add_bos_token")
SECRET = re.compile(r"\b(sk-[\w-]{16,}|(hf_|gsk_|xai-|AIza)[\w-]{30,}|Bearer \S{8,})")


class RegistryUnusable(ModelUnavailable):
    """The file cannot be taken as it is; its text names file and line."""


def read_models(file: Path) -> dict[str, Entry]:
    """The models of a file by their names. Raises RegistryUnusable."""
    plain, lines = _parsed(file)
    models: dict[str, Entry] = {}
    for name, given in plain.items():
        models[name] = _entry(name, given, file, lines)
    if len(defaults := [name for name, entry in models.items() if entry.default]) > 1:
        where = f"{file}, line {_line((defaults[1], 'default'), lines)}"
        raise RegistryUnusable(f"{where}: {defaults[0]!r} is the default already; mark one model only")
    return models


def _parsed(file: Path) -> tuple[dict[str, Any], dict[Place, int]]:
    """The file's values, and the line of each."""
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
            raise RegistryUnusable(
                f"{file}, line {line}: {'.'.join(place)!r} is in line {lines[place]} too; write it once"
            )
        lines[place] = line
    return {str(name): value for name, value in cast("dict[Any, Any]", plain).items()}, lines


def _places(node: Any, at: Place) -> Iterator[tuple[Place, int]]:
    import yaml

    if not isinstance(node, yaml.MappingNode) or len(at) == DEPTH:
        return
    for name, value in node.value:
        below = (*at, str(name.value))
        yield below, name.start_mark.line + 1
        yield from _places(value, below)


def _line(place: Place, lines: Mapping[Place, int]) -> int:
    """The line of a place, or of the nearest one around it."""
    while place and place not in lines:
        place = place[:-1]
    return lines.get(place, 1)


def _entry(name: str, given: Any, file: Path, lines: Mapping[Place, int]) -> Entry:
    where = f"{file}, line {_line((name,), lines)}: {name}"
    if is_taken(name):
        raise RegistryUnusable(f"{where}: the name means something already; call the model otherwise")
    if not NAME.fullmatch(name):
        raise RegistryUnusable(
            f"{where!r}: a name has letters, digits, `-`, `_` and `.` only; call the model otherwise"
        )
    if not isinstance(given, dict):
        raise RegistryUnusable(f"{where}: expected `backend` and `name`, such as {{backend: hf, name: …}}")
    _refuse_secrets((name,), cast("dict[Any, Any]", given), file, lines)
    try:
        entry = Entry.model_validate(given)
    except ValidationError as error:
        raise _refused(name, error, file, lines) from None
    if SECRET.search(json.dumps(entry.model_dump(mode="json"))) or _with_login(entry.base_url):
        raise RegistryUnusable(
            f"{where}: a value of it looks like a key or a password; export that as an environment variable and name "
            "the variable: api_key_env (a whole address with a password: OPENAI_BASE_URL)"
        )
    return _anchored(entry, file.absolute().parent)


def _refuse_secrets(at: Place, given: Mapping[Any, Any], file: Path, lines: Mapping[Place, int]) -> None:
    for name, value in given.items():
        place = (*at, str(name))
        if SECRET_NAME.fullmatch(place[-1].replace("-", "_")) and place[-1] not in NO_SECRET:
            raise RegistryUnusable(
                f"{file}, line {_line(place, lines)}: {'.'.join(place)}: no secret belongs in this file; export it as "
                "an environment variable and name that: `api_key_env: NAME`"
            )
        if name == "args" and isinstance(value, dict):
            _refuse_secrets(place, cast("dict[Any, Any]", value), file, lines)


def _refused(name: str, error: ValidationError, file: Path, lines: Mapping[Place, int]) -> RegistryUnusable:
    """What pydantic refused first, without its value."""
    first = error.errors(include_input=False, include_url=False)[0]
    place = (name, *(str(part) for part in first["loc"]))
    where = f"{file}, line {_line(place, lines)}: {'.'.join(place)}"
    if first["type"] == "extra_forbidden":
        return RegistryUnusable(f"{where} is not known; give {', '.join(Entry.model_fields)}")
    if first["type"] == "missing":
        return RegistryUnusable(f"{where} is missing; a model has at least `backend` and `name`")
    if place[-1] == "api_key_env":
        return RegistryUnusable(f"{where}: write the name of an environment variable, such as TEAM_KEY, and no key")
    return RegistryUnusable(f"{where}: {first['msg'].removeprefix('Value error, ')}")


def _with_login(address: str | None) -> bool:
    parts = urlsplit(address or "")
    return "@" in parts.netloc or bool(parts.query)


def _anchored(entry: Entry, folder: Path) -> Entry:
    """The entry with whole paths, whatever folder a command is started in."""
    if is_endpoint(entry.backend):
        return entry
    args: dict[str, JsonValue] = {
        name: _whole(value, folder, always=False) if name in PERHAPS_LOCAL and isinstance(value, str) else value
        for name, value in entry.args.items()
    }
    name = entry.name and _whole(entry.name, folder, always=entry.backend in FILES)
    return entry.model_copy(update={"name": name, "args": args})


def _whole(name: str, folder: Path, *, always: bool) -> str:
    """`name` as a whole path, where it is one; otherwise as it stands.

    Written without `..`, so that caches and results know it under one name; behind a link that may be another place.
    """
    path = folder / Path(name).expanduser()
    if not path.exists():
        return os.path.normpath(path) if always else name
    plain = Path(os.path.normpath(path))
    return str(plain if plain.exists() and plain.samefile(path) else path)
