"""Finds benchmarks: ours, those of installed packages, and user files by path."""

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

from models.permissions import require_code
from tasks.evaluation.benchmarks.base import BaseBenchmark
from tasks.evaluation.benchmarks.simple import SimpleBenchmark, open_yaml
from tasks.evaluation.evaluation_errors import BenchmarkUnusable, EvaluationError, UnknownTask

log = logging.getLogger(__name__)

ENTRY_POINTS = "trivet.benchmarks"
FOLDER = Path(__file__).parent
YAML = (".yaml", ".yml")
NOT_DEFINING = {"get", "also", "beside", "optional"}
"""Fields of a data file that change no item."""
USERS_PACKAGE = "trivet_benchmark_"
"""Prefix of the name of the package under which a user's folder is imported."""


def list_benchmarks() -> dict[str, BaseBenchmark]:
    """Return all benchmarks by name, sorted without case; broken ones of installed packages are logged and left out."""
    by_name = dict(_load_built_in())
    for point in entry_points(group=ENTRY_POINTS):
        try:
            benchmark = _load_entry_point(point)
        except EvaluationError as error:
            log.warning("benchmark left out entry_point=%s error=%s", point.name, error)
            continue
        by_name.setdefault(benchmark.name, benchmark)  # no package takes the name of one of ours
    return dict(sorted(by_name.items(), key=lambda pair: pair[0].casefold()))


def find_benchmark(name_or_path: str) -> BaseBenchmark:
    """Return the benchmark of a name (case matters), YAML path, `file.py`, `file.py:Class` or `module:Class`.

    Raises UnknownTask, BenchmarkUnusable; NotPermitted for code that a run may not name.
    """
    target, _, class_name = name_or_path.rpartition(":")
    if name_or_path.endswith(YAML):
        return open_yaml(_require_file(name_or_path))
    if name_or_path.endswith(".py"):
        target, class_name = name_or_path, ""
    if target:
        require_code(f"the task {name_or_path}")
        try:
            is_file = target.endswith(".py")
            module = load_file(_require_file(target)) if is_file else importlib.import_module(target)
        except ImportError as error:
            raise BenchmarkUnusable(f"{name_or_path}: {target} cannot be imported ({error})") from error
        return _select_benchmark(module, class_name, name_or_path)
    # cheapest first: only the last look-up imports every installed package
    built_in = _load_built_in()
    if name_or_path in built_in:
        return built_in[name_or_path]
    for point in entry_points(group=ENTRY_POINTS):
        if point.name == name_or_path:
            return _load_entry_point(point)
    by_name = list_benchmarks()
    if name_or_path in by_name:
        return by_name[name_or_path]
    lowered = {name.casefold(): name for name in by_name}
    near = get_close_matches(name_or_path.casefold(), lowered, n=4, cutoff=0.5)
    hint = f" Did you mean {' or '.join(lowered[name] for name in near)}?" if near else ""
    raise UnknownTask(f"there is no benchmark {name_or_path!r}.{hint} There are: {', '.join(by_name)}")


def find_by_plain_name(name: str) -> BaseBenchmark | None:
    """Return the benchmark whose name differs only in case and punctuation (`Arena-Hard`, `alpaca_eval`), or None."""
    by_plain_name = {plain_name(own): benchmark for own, benchmark in list_benchmarks().items()}
    return by_plain_name.get(plain_name(name))


def plain_name(name: str) -> str:
    """Return a name without case and punctuation."""
    return re.sub(r"[^a-z0-9]", "", name.casefold())


def definition_digest(benchmark: BaseBenchmark) -> str:
    """Return SHA-256 (hex) of what defines a benchmark: in its YAML file, the fields that can change a score.

    Of a class it is of name and `version`; of a user's class also of the source of its whole module.
    """
    if isinstance(benchmark, SimpleBenchmark):
        # without what changes no score
        content = benchmark.definition.model_dump(
            mode="json", exclude={"summary": True, "data": NOT_DEFINING, "examples": True}
        )
        grader = content["grader"] = {name: value for name, value in content["grader"].items() if value is not None}
        for step in grader["published"]:
            if isinstance(step, dict):
                cast("dict[str, Any]", step).pop("within_line")  # how fast an answer is found changes no score
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
def _load_built_in() -> dict[str, BaseBenchmark]:
    """Return the benchmarks of this package by name, from YAML files and modules. Raises BenchmarkUnusable."""
    simple = (open_yaml(path) for path in sorted(FOLDER.glob("*.yaml")))
    by_name: dict[str, BaseBenchmark] = {benchmark.name: benchmark for benchmark in simple}
    for path in sorted(FOLDER.rglob("*.py")):
        if path.stem == "__init__":
            continue
        dotted = ".".join(path.relative_to(FOLDER).with_suffix("").parts)
        module = importlib.import_module(f"tasks.evaluation.benchmarks.{dotted}")
        by_name |= {benchmark.name: benchmark for benchmark in _list_declared(module)}
    return by_name


def _list_declared(module: ModuleType) -> list[BaseBenchmark]:
    """Return the benchmarks that a module lists in `BENCHMARKS` or names in `BENCHMARK`."""
    declared = [*getattr(module, "BENCHMARKS", ()), getattr(module, "BENCHMARK", None)]
    return [_set_name(benchmark) for benchmark in declared if isinstance(benchmark, BaseBenchmark)]


def _load_entry_point(point: EntryPoint) -> BaseBenchmark:
    """Return the benchmark of another package's entry point. Raises BenchmarkUnusable."""
    try:
        target = point.load()
    except Exception as error:  # it runs code of another package, which raises what it likes
        raise BenchmarkUnusable(f"entry point {point.name} = {point.value}: cannot be imported ({error!r})") from error
    if isinstance(target, ModuleType):
        return _select_benchmark(target, None, point.value)
    if isinstance(target, str | Path) and str(target).endswith(YAML):
        return open_yaml(Path(target))
    return _instantiate(target, point.value)


def _select_benchmark(module: ModuleType, class_name: str | None, source: str) -> BaseBenchmark:
    """Return the named class of a module, or its only benchmark, as an instance. Raises BenchmarkUnusable."""
    if class_name:
        if not hasattr(module, class_name):
            raise BenchmarkUnusable(
                f"{source}: there is no {class_name} in it; there are {_join_names(_list_classes(module))}"
            )
        return _instantiate(getattr(module, class_name), source)
    declared = _list_declared(module) or [_instantiate(kind, source) for kind in _list_classes(module)]
    if len(declared) != 1:
        listed = _join_names([type(benchmark) for benchmark in declared])
        raise BenchmarkUnusable(f"{source}: name the class behind a colon, as in {source}:Class; there are {listed}")
    return declared[0]


def _list_classes(module: ModuleType) -> list[type[BaseBenchmark]]:
    classes = [
        value for value in vars(module).values() if isinstance(value, type) and value.__module__ == module.__name__
    ]
    return [kind for kind in classes if issubclass(kind, BaseBenchmark)]


def _instantiate(target: Any, source: str) -> BaseBenchmark:
    """Return an instance of a class, or the instance that is given. Raises BenchmarkUnusable."""
    if isinstance(target, BaseBenchmark):
        return _set_name(target)
    if not (isinstance(target, type) and issubclass(target, BaseBenchmark)):
        raise BenchmarkUnusable(f"{source}: expected a subclass of tasks.evaluation.benchmarks.base.BaseBenchmark")
    try:
        return _set_name(cast("Any", target)())
    except TypeError as error:
        raise BenchmarkUnusable(f"{source}: it cannot be made without arguments ({error})") from error
    except Exception as error:  # the user's own code runs here
        raise BenchmarkUnusable(f"{source}: it cannot be made ({error!r})") from error


def _set_name(benchmark: BaseBenchmark) -> BaseBenchmark:
    """Set a missing name from the class, as evalchemy's benchmarks are named."""
    if not getattr(benchmark, "name", ""):
        benchmark.name = type(benchmark).__name__.removesuffix("Benchmark") or type(benchmark).__name__
    return benchmark


def _require_file(name: str) -> Path:
    """Return the absolute path of a file. Raises UnknownTask where there is none."""
    path = Path(name).expanduser().resolve()
    if not path.is_file():
        raise UnknownTask(
            f"{name}: there is no such file; give the path of a benchmark, or a name of `trivet eval list`"
        )
    return path


def _join_names(kinds: Iterable[type]) -> str:
    return ", ".join(kind.__name__ for kind in kinds) or "none"


def load_file(path: Path) -> ModuleType:
    """Import a file anew at each call; it may import the files beside it. Raises BenchmarkUnusable."""
    # named by the folder: two folders may hold modules of one name
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
