"""Finds benchmarks: ours, those of installed packages, and user files by path."""

from __future__ import annotations

import ast
import hashlib
import importlib
import inspect
import json
import logging
import re
import sys
from collections.abc import Iterator
from difflib import get_close_matches
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, cast

from tasks.evaluation.benchmarks.base import BaseBenchmark
from tasks.evaluation.benchmarks.simple import SimpleBenchmark, open_yaml
from tasks.evaluation.evaluation_errors import BenchmarkUnusable, EvaluationError, UnknownTask
from tasks.evaluation.user_files import load_file

log = logging.getLogger(__name__)

ENTRY_POINTS = "trivet.benchmarks"
FOLDER = Path(__file__).parent
PROGRAMS = "tasks.evaluation.benchmarks.code."
YAML = (".yaml", ".yml")


def benchmarks() -> dict[str, BaseBenchmark]:
    """All benchmarks of this folder and of installed packages, by name; broken ones are logged and left out."""
    found = dict(_built_in())
    for point in entry_points(group=ENTRY_POINTS):
        try:
            benchmark = _of_entry_point(point)
        except EvaluationError as error:
            log.warning("benchmark left out entry_point=%s error=%s", point.name, error)
            continue
        found.setdefault(benchmark.name, benchmark)
    return dict(sorted(found.items(), key=lambda pair: pair[0].casefold()))


def find_benchmark(name_or_path: str) -> BaseBenchmark:
    """A benchmark by name, YAML path, `file.py:Class` or `module:Class`. Raises UnknownTask, BenchmarkUnusable."""
    target, _, wanted = name_or_path.rpartition(":")
    if name_or_path.endswith(YAML):
        return open_yaml(_file(name_or_path))
    if name_or_path.endswith(".py"):
        return _of_module(load_file(_file(name_or_path)), None, name_or_path)
    if target.endswith(".py"):
        return _of_module(load_file(_file(target)), wanted, name_or_path)
    if target:
        try:
            return _of_module(importlib.import_module(target), wanted, name_or_path)
        except ImportError as error:
            raise BenchmarkUnusable(f"{name_or_path}: {target} cannot be imported ({error})") from error
    built_in = _built_in()
    if name_or_path in built_in:
        return built_in[name_or_path]
    for point in entry_points(group=ENTRY_POINTS):
        if point.name == name_or_path:
            return _of_entry_point(point)
    others = benchmarks()
    if name_or_path in others:
        return others[name_or_path]
    near = near_names(name_or_path, list(others))
    meant = f" Did you mean {' or '.join(near)}?" if near else ""
    raise UnknownTask(f"there is no benchmark {name_or_path!r}.{meant} There are: {', '.join(others)}")


def plainly_named(name: str) -> BaseBenchmark | None:
    """The benchmark whose name differs in nothing but case, dashes and underscores: `Arena-Hard`, `alpaca_eval`."""

    def plain(name: str) -> str:
        return re.sub(r"[^a-z0-9]", "", name.casefold())

    return {plain(known): benchmark for known, benchmark in benchmarks().items()}.get(plain(name))


def near_names(name: str, known: list[str]) -> list[str]:
    """Similar names, the most similar first."""
    lowered = {one.casefold(): one for one in known}
    close = get_close_matches(name.casefold(), lowered, n=4, cutoff=0.5)
    return [lowered[one] for one in close]


def definition_digest(benchmark: BaseBenchmark) -> str:
    """SHA-256 (hex) of what defines a benchmark: the content of its YAML file, or the code of its class's module.

    For a benchmark of programs also the code of the modules of their folder that it uses. Imports, comments,
    docstrings, formatting and the order of top-level statements do not count, so that moved code keeps its digest.
    """
    if isinstance(benchmark, SimpleBenchmark):
        told = benchmark.definition.model_dump(
            mode="json", exclude={"summary": True, "data": {"get"}, "examples": True}
        )
        told["grader"] = {name: value for name, value in told["grader"].items() if value is not None}
        if not told["grader"]["published"]:  # so that benchmarks from before there were rules keep their digest
            del told["grader"]["published"]
        if not told["ids"]:
            del told["ids"]
        for step in told["grader"].get("published", ()):
            if isinstance(step, dict):
                cast("dict[str, Any]", step).pop("within_line")  # how fast an answer is found changes no figure
        return hashlib.sha256(json.dumps(told, sort_keys=True, ensure_ascii=False).encode()).hexdigest()
    kind = type(benchmark)
    try:
        sources = [inspect.getsource(inspect.getmodule(kind) or kind)]
    except (OSError, TypeError):
        sources = [f"{kind.__module__}.{kind.__qualname__}"]
    if kind.__module__.startswith(PROGRAMS):
        sources = list(_used_by(sys.modules[kind.__module__], {}).values())
    statements = (statement for source in sources for statement in _code_of(source).statements)
    text = "\n".join([f"{benchmark.name} {benchmark.version}", *sorted(statements)])
    return hashlib.sha256(text.encode()).hexdigest()


def _used_by(module: ModuleType, found: dict[str, str]) -> dict[str, str]:
    """Sources by module name: `module`, and the modules of its folder that it imports or whose file it names."""
    source = found[module.__name__] = inspect.getsource(module)
    named = _code_of(source).named
    for path in (FOLDER / "code").glob("*.py"):
        name = f"{PROGRAMS}{path.stem}"
        if name not in found and {name, path.name} & named:
            _used_by(importlib.import_module(name), found)
    return found


class _Code(NamedTuple):
    """A module as its definition digest takes it."""

    statements: tuple[str, ...]
    named: frozenset[str]


@cache
def _code_of(source: str) -> _Code:
    tree = ast.parse(source)
    return _Code(tuple(_shape(node) for node in tree.body if not _is_neutral(node)), frozenset(_named_in(tree)))


def _named_in(tree: ast.Module) -> Iterator[str]:
    """Names of imported modules, and string constants."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{one.name}" for one in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _shape(node: object) -> str:
    """A syntax tree as text; unlike `ast.dump` equal on all versions of Python, and without neutral nodes."""
    if isinstance(node, list):
        return f"[{', '.join(_shape(one) for one in cast('list[object]', node) if not _is_neutral(one))}]"
    if not isinstance(node, ast.AST):
        return ascii(node)  # which characters repr escapes differs between versions
    fields = ((name, value) for name, value in ast.iter_fields(node) if name not in ("kind", "type_comment"))
    told = (f"{name}={_shape(value)}" for name, value in fields if value is not None and value != [])
    return f"{type(node).__name__}({', '.join(told)})"


def _is_neutral(node: object) -> bool:
    """An import, also one for type checkers only, or a docstring."""
    if isinstance(node, ast.If):
        return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    return isinstance(node, ast.Import | ast.ImportFrom)


@cache
def _built_in() -> dict[str, BaseBenchmark]:
    simple = (open_yaml(path) for path in sorted(FOLDER.glob("*.yaml")))
    found: dict[str, BaseBenchmark] = {benchmark.name: benchmark for benchmark in simple}
    for path in sorted(FOLDER.rglob("*.py")):
        if path.stem == "__init__":
            continue
        dotted = ".".join(path.relative_to(FOLDER).with_suffix("").parts)
        module = importlib.import_module(f"tasks.evaluation.benchmarks.{dotted}")
        found |= {benchmark.name: benchmark for benchmark in _declared(module)}
    return found


def _declared(module: ModuleType) -> list[BaseBenchmark]:
    """`BENCHMARK`, or the several of `BENCHMARKS`."""
    declared = [*getattr(module, "BENCHMARKS", ()), getattr(module, "BENCHMARK", None)]
    return [_named(one) for one in declared if isinstance(one, BaseBenchmark)]


def _of_entry_point(point: EntryPoint) -> BaseBenchmark:
    try:
        target = point.load()
    except Exception as error:  # it runs code of another package, which raises what it likes
        raise BenchmarkUnusable(f"entry point {point.name} = {point.value}: cannot be imported ({error!r})") from error
    if isinstance(target, ModuleType):
        return _of_module(target, None, point.value)
    if isinstance(target, str | Path) and str(target).endswith(YAML):
        return open_yaml(Path(target))
    return _instance(target, point.value)


def _of_module(module: ModuleType, wanted: str | None, named: str) -> BaseBenchmark:
    if wanted:
        if not hasattr(module, wanted):
            raise BenchmarkUnusable(f"{named}: there is no {wanted} in it; there are {_listed(_classes(module))}")
        return _instance(getattr(module, wanted), named)
    declared = _declared(module) or [_instance(kind, named) for kind in _classes(module)]
    if len(declared) != 1:
        listed = _listed([type(one) for one in declared])
        raise BenchmarkUnusable(f"{named}: name the class behind a colon, as in {named}:Class; there are {listed}")
    return declared[0]


def _classes(module: ModuleType) -> list[type[BaseBenchmark]]:
    found = [one for one in vars(module).values() if isinstance(one, type) and one.__module__ == module.__name__]
    return [one for one in found if issubclass(one, BaseBenchmark)]


def _instance(target: Any, named: str) -> BaseBenchmark:
    if isinstance(target, BaseBenchmark):
        return _named(target)
    if not (isinstance(target, type) and issubclass(target, BaseBenchmark)):
        raise BenchmarkUnusable(f"{named}: expected a subclass of tasks.evaluation.benchmarks.base.BaseBenchmark")
    try:
        return _named(cast("Any", target)())
    except TypeError as error:
        raise BenchmarkUnusable(f"{named}: it cannot be made without arguments ({error})") from error
    except Exception as error:  # the user's own code runs here
        raise BenchmarkUnusable(f"{named}: it cannot be made ({error!r})") from error


def _named(benchmark: BaseBenchmark) -> BaseBenchmark:
    """Set a missing name from the class, as evalchemy's benchmarks are named."""
    if not getattr(benchmark, "name", ""):
        benchmark.name = type(benchmark).__name__.removesuffix("Benchmark") or type(benchmark).__name__
    return benchmark


def _file(name: str) -> Path:
    path = Path(name).expanduser().resolve()
    if not path.is_file():
        raise UnknownTask(
            f"{name}: there is no such file; give the path of a benchmark, or a name of `trivet eval list`"
        )
    return path


def _listed(kinds: Any) -> str:
    return ", ".join(kind.__name__ for kind in kinds) or "none"
