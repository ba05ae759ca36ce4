"""The parameters of the flow, from its defaults, a YAML file, options and `--set`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pydantic import ValidationError

from flows.cli.commands import Given, nested
from flows.cli.lever.stage_options import OF_REAL_DATA, OF_TEXTS
from flows.cli.output import REFUSED, fail

if TYPE_CHECKING:
    from flows.running.lever_config import LeverConfig


def config_of(given: Given, *, until: str, file: Path | None = None, settings: Sequence[str] = ()) -> LeverConfig:
    """The parameters of the flow: its defaults, then the YAML file, then the options, then each --set."""
    from flows.running.lever_config import LeverConfig
    from tasks.lever.data.folder_layout import dataset_of
    from tasks.lever.judge.demonstration_task import WORDINGS
    from tasks.lever.judge.judges import CPU_WORLDS, DIGITS

    typed: dict[str, Any] = {}
    for one in settings:
        _set(typed, one)
    in_file = _in_file(file)
    name = dataset_of(given.get("dataset.name") or _dataset_in(typed) or _dataset_in(in_file) or DIGITS)
    # all fields, so that an option or a line that sets one field of a model leaves its others as they are
    usual = {} if name in CPU_WORLDS else OF_TEXTS if name in WORDINGS else OF_REAL_DATA
    chosen = LeverConfig().model_dump() | deepcopy(usual)
    for more in (in_file, nested(_read(given) | {"dataset.name": name, "until": until}), typed):
        _merge(chosen, more)
    return LeverConfig.model_validate(chosen)


def _read(given: Given) -> dict[str, Any]:
    """The given options, with older names replaced; a switch that is off counts as not given."""
    from tasks.lever.data.folder_layout import judge_of, sampler_of, vectors_of

    readers = {"judge": judge_of, "sampler": sampler_of, "vectors": vectors_of}
    said = {path: value for path, value in given.items() if value is not None and value is not False}
    said = {path: readers[path](value) if path in readers else value for path, value in said.items()}
    return said | ({"network.gate": False} if "network.gate" in said else {})


def _dataset_in(chosen: dict[str, Any]) -> str | None:
    """The dataset that a file or `--set` names; a bare name is moved to `dataset.name`."""
    if isinstance(given := chosen.get("dataset"), str):
        chosen["dataset"] = {"name": given}
        return given
    return given.get("name") if isinstance(given, dict) else None


def _in_file(path: Path | None) -> dict[str, Any]:
    import yaml

    if path is None:
        return {}
    try:
        read = yaml.safe_load(path.read_text())
    except OSError as error:
        fail(f"--config {path}: {error.strerror}; name a YAML file", REFUSED)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        fail(f"--config {path} is no YAML: {error}", REFUSED)
    if not isinstance(read, dict):
        fail(f"--config {path} holds no parameters; write them as `name: value`", REFUSED)
    return cast("dict[str, Any]", read)


def _set(chosen: dict[str, Any], text: str) -> None:
    """Set the field of one `a.b=value`; values are YAML."""
    import yaml

    name, equals, value = text.partition("=")
    if not equals or not name:
        fail(f"--set {text!r} is not NAME=VALUE", REFUSED)
    *path, last = name.split(".")
    place = chosen
    for part in path:
        place = place.setdefault(part, {})
        if not isinstance(place, dict):
            fail(f"--set {name}: {part} has no parts", REFUSED)
    try:
        place[last] = yaml.safe_load(value)
    except yaml.YAMLError:
        fail(f"--set {name}: {value!r} is no YAML value", REFUSED)


def _merge(under: dict[str, Any], over: Mapping[str, Any]) -> None:
    for name, value in over.items():
        if isinstance(value, dict) and isinstance(under.get(name), dict):
            _merge(under[name], cast("dict[str, Any]", value))
        else:
            under[name] = value


def sentences_of(error: ValidationError) -> str:
    """Validation errors, one parameter per line, named as in `--set` and YAML files."""
    return "\n".join(
        str(item["ctx"]["error"])
        if item["type"] == "value_error" and "ctx" in item
        else f"{'.'.join(map(str, item['loc']))}: {item['msg']} (it is {str(item['input'])[:80]!r})"
        for item in error.errors()
    )
