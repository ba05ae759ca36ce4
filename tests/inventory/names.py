"""What a user can name: commands with their options, parameters of flows, deployments, tables, variables, steps."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from enum import Enum
from importlib.metadata import distribution
from pathlib import Path
from typing import Any, get_args

import pytest
import typer
import yaml
from pydantic import SecretStr

from tasks.evaluation.benchmarks.benchmark_registry import list_benchmarks
from tests.inventory.schemas import described
from tests.inventory.source import ROOT, defined, dotted, sources


def commands() -> Iterator[str]:
    """`rag index | --chunk-chars --chunk_chars | integer 100..20000 | = 800`, a line per option."""
    from typer.main import get_command

    from flows.cli import app

    for words, command in _walk(get_command(app), ()):
        name = " ".join(("trivet", *words))
        hidden = " (hidden)" if getattr(command, "hidden", False) else ""
        yield f"{name}{hidden}"
        for param in command.params:
            yield f"{name} | {_spelled(command, param)} | {_type(param)} | {_given(param)}"
    for flag in defined("WITHOUT_EFFECT"):
        yield f"trivet eval run | --{flag} | taken from scripts of evalchemy, without effect"


def _walk(command: Any, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield words, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from _walk(inner, (*words, name))


def _spelled(command: Any, param: Any) -> str:
    """`--tables / --no-tables --no_tables`; arguments by their place."""
    if param.param_type_name == "argument":
        place = [one.name for one in command.params if one.param_type_name == "argument"].index(param.name)
        return f"argument {place + 1} {param.name}"
    flag = getattr(param, "is_flag", False)
    sides = ([*names, *_underscored(command, names, flag=flag)] for names in (param.opts, param.secondary_opts))
    return " / ".join(" ".join(side) for side in sides if side)


def _underscored(command: Any, names: list[str], *, flag: bool) -> Iterator[str]:
    """`--data_dir` for `--data-dir`, where the command takes it."""
    for name in names:
        if "-" in name[2:] and not hasattr(command, "commands"):
            typed = f"--{name[2:].replace('-', '_')}"
            yield from [typed] * _takes(command, typed, flag=flag)


def _takes(command: Any, option: str, *, flag: bool) -> bool:
    """Whether the command's parser knows `option`; what else may be wrong with such a command line does not matter."""
    try:
        command.parse_args(command.context_class(command), [option] if flag else [option, "1"])
    except (typer.Exit, Exception) as error:  # noqa: BLE001
        return type(error).__name__ != "NoSuchOption"
    return True


def _type(param: Any) -> str:
    low, high = param.min, param.max
    bounds = f" {_number(low)}..{_number(high)}" if (low, high) != (None, None) else ""
    many = " (many)" if param.multiple or param.nargs != 1 else ""
    variable = f" ${param.envvar}" if param.envvar else ""
    said = "flag" if getattr(param, "is_flag", False) else _value(param.type_descriptor.annotation)
    return f"{said}{bounds}{many}{variable}{' (hidden)' if param.hidden else ''}"


def _number(bound: float | None) -> str:
    return "" if bound is None else f"{bound:g}"


def _value(annotation: Any) -> str:
    """`rrf|bm25` for an enum or a Literal, `str` for str and for lists and options of it."""
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return "|".join(str(one.value) for one in annotation)
    inner = [one for one in get_args(annotation) if one not in (type(None), ...)]
    return "|".join(_value(one) if isinstance(one, type) else str(one) for one in inner) or annotation.__name__


def _given(param: Any) -> str:
    default = getattr(param.default, "value", param.default)
    return "required" if param.required else "= computed" if callable(default) else f"= {default}"


def flow_configs() -> Iterator[str]:
    """The parameters of the deployed flows, as Prefect's form shows them and deployments set them."""
    for deployment in _deployments():
        entrypoint = deployment["entrypoint"]
        module, _, name = entrypoint.rpartition(".")
        flow = getattr(importlib.import_module(module), name)
        yield f"{flow.name} | entrypoint {entrypoint}"
        yield from described(flow.name, flow.parameters.model_dump())


def deployments() -> Iterator[str]:
    """Names, pools, tags, parameters and schedules of the deployments; limits, pools and automations beside them."""
    folder = ROOT / "deployments"
    for one in _deployments():
        yield from (f"{one['name']} | {path} = {value}" for path, value in _leaves(one) if path != "description")
    yield from (f"file {file.relative_to(ROOT)}" for file in folder.rglob("*") if file.is_file())


def _deployments() -> list[dict[str, Any]]:
    return yaml.safe_load((ROOT / "deployments" / "prefect.yaml").read_text())["deployments"]


def tables() -> Iterator[str]:
    """Tables, columns, constraints, indexes and views, and the revision of the migrations."""
    from alembic.script import ScriptDirectory
    from sqlalchemy.dialects import postgresql

    from storage import tables

    dialect = postgresql.dialect()
    for table in tables.metadata.sorted_tables:
        for column in table.columns:
            default = f" default {_sql(column.server_default)}" if column.server_default is not None else ""
            null = "null" if column.nullable else "not null"
            yield f"{table.name}.{column.name} | {column.type.compile(dialect)} {null}{default}"
            yield from (f"{table.name}.{column.name} | → {key.target_fullname}" for key in column.foreign_keys)
            yield from (f"{table.name} | constraint {one.name}" for one in column.constraints if one.name)
        yield f"{table.name} | primary key {', '.join(column.name for column in table.primary_key)}"
        yield from (f"{table.name} | index {one.name}" for one in table.indexes)
        yield from (f"{table.name} | constraint {one.name}" for one in table.constraints if one.name)
    views = importlib.import_module("storage.migrations.versions.0009_initial").VIEWS
    yield from (f"view {name}.{column}" for name, (*_, columns) in views.items() for column in columns)
    scripts = ScriptDirectory(str(Path(tables.__file__).parent / "migrations"))
    yield from (f"migration {one.revision} after {one.down_revision}" for one in scripts.walk_revisions())


def _sql(default: Any) -> str:
    return str(getattr(default, "arg", type(default).__name__))


def environment() -> Iterator[str]:
    """Variables that are read or set: ours with type and default, and every one that the source names."""
    from flows.running.settings import Settings

    yield from described("settings", Settings.model_json_schema())
    names = re.compile(r"\bTRIVET_[A-Z_{}]*[A-Z]\b|(?<=[\"'])[A-Z][A-Z0-9]*_[A-Z0-9_]*(?=[\"']\s*[:,)\]=])")
    kept = re.compile("TRIVET|PREFECT|OPENAI|DATABASE_URL|HF_|VLLM|RAY_|DASK|CUDA|LANGSMITH|TOKENIZERS|DO_NOT|PROXY")
    for place in (*sources(), *(file for file in (ROOT / "deployments").rglob("*") if file.is_file())):
        yield from (f"named {name}" for name in names.findall(place.read_text("utf-8")) if kept.match(name))


def steps() -> Iterator[str]:
    """Steps with version, marks and parameters: cache keys and queued GPU work depend on each."""
    from prefect import Task

    importlib.import_module("flows.rag")  # steps are defined for a process whose resources are configured
    for file in sorted((ROOT / "tasks").rglob("*steps.py")):
        module = importlib.import_module(dotted(file))
        for name, task in vars(module).items():
            if not isinstance(task, Task) or task.fn.__module__ != module.__name__:
                continue
            key: Any = task.cache_policy
            marks = [" gpu"] * ("gpu=True" in inspect.getsource(task.fn).partition("\ndef ")[0])  # of its decorator
            marks += [" reads_world"] * key.reads_world + [" verify"] * bool(key.verify)
            marks += [f" aside={','.join(key.unkeyed)}"] if key.unkeyed else []
            parameters = ", ".join(map(_parameter, inspect.signature(task.fn).parameters.values()))
            yield f"{key.name} | version {key.version}{''.join(marks)} | {name}({parameters})"


def _parameter(one: inspect.Parameter) -> str:
    return one.name if one.default is one.empty else f"{one.name}={one.default!r}"


def extensions() -> Iterator[str]:
    """Scripts, extras, groups of entry points, and the names of what there is several of."""
    ours = distribution("trivet")
    yield from (f"script {one.group} {one.name} = {one.value}" for one in ours.entry_points)
    yield from (f"extra {name}" for name in ours.metadata.get_all("Provides-Extra") or ())
    for file in sources():
        if "entry_points" in (text := file.read_text("utf-8")):
            yield from (f"group {name}" for name in re.findall(r'"(trivet\.[a-z_]+)"', text))
    yield from (f"benchmark {name}" for name in list_benchmarks())
    yield from (f"suffix {suffix} is {one.name}" for one in defined("formats")() for suffix in one.suffixes)
    with pytest.raises(ValueError, match="there are openai") as refusal:
        defined("Entry")(backend="no such")
    yield from (f"backend {name}" for name in re.findall(r"there are ([^\[]+) \[", str(refusal.value))[0].split(", "))
    app = defined("create_app")([], defined("Asking._start")(None), auth=SecretStr(""), home=Path())
    for path, methods in app.openapi()["paths"].items():
        yield from (f"route {method.upper()} {path}" for method in methods)


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _leaves(inner, f"{path}.{name}".lstrip("."))
    else:
        yield path, value
