"""The parameters of a flow, from a YAML file, the options of a command and `--set`; and what is wrong with them."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self, cast

import yaml
from pydantic import BeforeValidator, PlainSerializer, ValidationError, model_validator

from flows.running.settings import settings as read_settings
from storage.engines import index_name, is_address, place_of, read_address
from storage.files import AMONG_SECRETS, is_secret
from storage.records import Record, leaves_in
from tasks.evaluation.yaml_file import read_yaml

Kind = Literal["command", "option", "format", "configuration", "environment"]


class FlowConfig(Record):
    """Parameters of a flow: without secrets, since a run is stored with them, and without paths to secrets."""

    @model_validator(mode="after")
    def _keeps_no_secret(self) -> Self:
        """Return the configuration. Raises ConfigUnusable, with the field's path, for one that holds a secret."""
        from tasks.evaluation.evaluation_records import WITHOUT_SECRET, find_secret

        values = self.model_dump(mode="json")
        if place := find_secret(values):
            raise ConfigUnusable(f"{place}: {WITHOUT_SECRET}")
        for _, text in leaves_in(values):
            if isinstance(text, str) and is_secret(text):
                raise ConfigUnusable(f"{text}: {AMONG_SECRETS}")
        return self


class ConfigUnusable(RuntimeError):
    """Parameters that cannot be taken, with the remedy; no ValueError, beside which pydantic would show a secret."""


def merge_parameters(
    options: Mapping[str, Any], *, file: Path | None = None, settings: Sequence[str] = ()
) -> dict[str, Any]:
    """Merge parameters as the model takes them: those of the file, then the options, then each `a.b=value`.

    options: dotted path of the field → value of the option; None if it was not typed. Raises ConfigUnusable.
    """
    parameters = read_yaml(file, ConfigUnusable, expected="parameters as `name: value`").values if file else {}
    merge(parameters, nest_values(options))
    for text in settings:
        set_parameter(parameters, text)
    return parameters


def nest_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Nest values by their dotted paths, without unset ones: `spending.max_calls` becomes `{"spending": {…}}`."""
    tables: dict[str, Any] = {}
    for path, value in values.items():
        *outer, name = path.split(".")
        table = tables
        for part in outer if value is not None else ():
            table = table.setdefault(part, {})
        if value is not None:
            table[name] = value
    return tables


def set_parameter(parameters: dict[str, Any], text: str) -> None:
    """Set the field of one `a.b=value`, in tables that are made if need be; values are YAML. Raises ConfigUnusable."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ConfigUnusable(f"--set {text!r} is not NAME=VALUE")
    *path, last = name.split(".")
    place = parameters
    for part in path:
        place = place.setdefault(part, {})
        if not isinstance(place, dict):
            raise ConfigUnusable(f"--set {name}: {part} has no parts")
    try:
        place[last] = yaml.safe_load(value)
    except yaml.YAMLError as error:
        raise ConfigUnusable(f"--set {name}: {value!r} is no YAML value") from error


def merge(base: dict[str, Any], overrides: Mapping[str, Any]) -> None:
    """Put the values of `overrides` into `base`, table by table."""
    for name, value in overrides.items():
        if isinstance(value, dict) and isinstance(base.get(name), dict):
            merge(base[name], cast("dict[str, Any]", value))
        else:
            base[name] = value


def explain_errors(error: ValidationError, spell: Callable[[str], str] = str) -> str:
    """Say what is wrong with each parameter, one per line. spell: the name that the user typed, `--chunk-chars`."""
    lines: list[str] = []
    for item in error.errors():
        path, typed = ".".join(map(str, item["loc"])), item["input"]
        name = spell(path)
        if item["type"] == "extra_forbidden" and (sentence := explain_removal("configuration", path)):
            lines.append(sentence)
        elif item["type"] == "value_error":
            sentence = item["msg"].removeprefix("Value error, ")
            value = f" {typed}" if isinstance(typed, str) else ""
            lines.append(f"{name}{value}: {sentence}" if name else sentence)
        else:
            lines.append(f"{name}: {item['msg']} (it is {str(typed)[:80]!r})")
    return "\n".join(lines)


@cache
def replacements() -> dict[str, dict[str, str]]:
    """Return what replaces names that an earlier version had: kind → name → what to do instead."""
    return tomllib.loads(Path(__file__).with_name("replacements.toml").read_text("utf-8"))


def explain_removal(kind: Kind, name: str) -> str | None:
    """Return one sentence on what replaces `name`; None if no version ever had it."""
    instead = replacements()[kind].get(name)
    return instead and f"{name} was removed: {instead}"


def index_place(word: str) -> Path:
    """Return the folder for `DIR` or an address; its password goes to PGPASSWORD, for this process and its children.

    Raises NotAnIndex for an engine that there is not.
    """
    if not is_address(word):
        return Path(word)
    address = read_address(word)
    if address.password:
        os.environ["PGPASSWORD"] = address.password
    return place_of(address.url, read_settings().home)


_Place = BeforeValidator(lambda value: str(index_place(value)) if isinstance(value, str) else value)
IndexPlace = Annotated[Path, _Place, PlainSerializer(index_name, return_type=str)]
"""Field of a configuration: read from a folder or an address, and written as that, without a password."""
