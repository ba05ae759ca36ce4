"""Finds benchmarks: ours, those of installed packages, and user files by path; makes new ones from a template."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import json
import logging
import re
import sys
import traceback
from collections.abc import Iterable
from difflib import get_close_matches
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from tasks.evaluation.benchmarks.base import BaseBenchmark
from tasks.evaluation.benchmarks.simple import SimpleBenchmark, open_yaml
from tasks.evaluation.evaluation_errors import BenchmarkUnusable, EvaluationError, UnknownTask

log = logging.getLogger(__name__)

ENTRY_POINTS = "trivet.benchmarks"
FOLDER = Path(__file__).parent
YAML = (".yaml", ".yml")
USERS_PACKAGE = "trivet_benchmark_"
"""Begins the name of the package that stands for a user's folder."""


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
    """SHA-256 (hex) of what defines a benchmark: the content of its YAML file, or the source of a user's class.

    Of a class of ours it is of name and `version`, which is raised when a prompt, a gold or the grading changes.
    """
    if isinstance(benchmark, SimpleBenchmark):
        content = benchmark.definition.model_dump(
            mode="json", exclude={"summary": True, "data": {"get"}, "examples": True}
        )
        grader = content["grader"] = {name: value for name, value in content["grader"].items() if value is not None}
        for step in grader["published"]:
            if isinstance(step, dict):
                cast("dict[str, Any]", step).pop("within_line")  # how fast an answer is found changes no figure
        if not grader["published"]:  # a definition that leaves these out has the digest of one that could not have them
            del grader["published"]
        if not content["ids"]:
            del content["ids"]
        return hashlib.sha256(json.dumps(content, sort_keys=True, ensure_ascii=False).encode()).hexdigest()
    kind = type(benchmark)
    defined = f"{benchmark.name} {benchmark.version}"
    if not kind.__module__.startswith(f"{__package__}."):
        try:
            defined += inspect.getsource(inspect.getmodule(kind) or kind)
        except (OSError, TypeError):  # it was not read from a file
            defined += f"{kind.__module__}.{kind.__qualname__}"
    return hashlib.sha256(defined.encode()).hexdigest()


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
    return [_set_name(one) for one in declared if isinstance(one, BaseBenchmark)]


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
        return _set_name(target)
    if not (isinstance(target, type) and issubclass(target, BaseBenchmark)):
        raise BenchmarkUnusable(f"{named}: expected a subclass of tasks.evaluation.benchmarks.base.BaseBenchmark")
    try:
        return _set_name(cast("Any", target)())
    except TypeError as error:
        raise BenchmarkUnusable(f"{named}: it cannot be made without arguments ({error})") from error
    except Exception as error:  # the user's own code runs here
        raise BenchmarkUnusable(f"{named}: it cannot be made ({error!r})") from error


def _set_name(benchmark: BaseBenchmark) -> BaseBenchmark:
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


def _listed(kinds: Iterable[type]) -> str:
    return ", ".join(kind.__name__ for kind in kinds) or "none"


def load_file(path: Path) -> ModuleType:
    """The module in a file, in a package for its folder, so that it can import modules beside it.

    Raises BenchmarkUnusable.
    """
    package = f"{USERS_PACKAGE}{hashlib.sha256(str(path.parent).encode()).hexdigest()[:12]}"
    if package not in sys.modules:
        parent = ModuleType(package)
        parent.__path__ = [str(path.parent)]
        sys.modules[package] = parent
    name = f"{package}.{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.path.insert(0, str(path.parent))  # `import utils` finds what stands beside it, as evalchemy's loader has it
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise BenchmarkUnusable(f"{error.filename}, line {error.lineno}: not Python ({error.msg})") from error
    except (Exception, SystemExit) as error:  # the user's own code runs here
        frames = traceback.extract_tb(error.__traceback__)
        lines = [f", line {frame.lineno}" for frame in frames if frame.filename == str(path)]
        raise BenchmarkUnusable(f"{path}{''.join(lines[-1:])}: cannot be imported ({error!r})") from error
    finally:
        sys.path.remove(str(path.parent))
    return module
