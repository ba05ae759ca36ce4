"""Loads Python files of users; what stands beside a file is imported by its own name, also where we have that name."""

from __future__ import annotations

import builtins
import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, ModuleSpec, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

from tasks.evaluation.evaluation_errors import BenchmarkUnusable

PREFIX = "trivet_benchmark_"
"""Begins the name of the package that stands for a user's folder."""
OURS = ("flows", "models", "storage", "tasks")
"""Our own packages, whose names a user may use too."""


def load_file(path: Path) -> ModuleType:
    """The module in a file, in a package for its folder, so that it can import modules beside it.

    Raises BenchmarkUnusable.
    """
    package = f"{PREFIX}{hashlib.sha256(str(path.parent).encode()).hexdigest()[:12]}"
    if package not in sys.modules:
        parent = ModuleType(package)
        parent.__path__ = [str(path.parent)]
        sys.modules[package] = parent
    if not any(isinstance(finder, _UsersFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _UsersFinder())
    name = f"{package}.{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path, loader=_UsersLoader(name, str(path)))
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
        raise BenchmarkUnusable(f"{path}{_line_in(path, error)}: cannot be imported ({error!r})") from error
    finally:
        sys.path.remove(str(path.parent))
    return module


class _UsersLoader(SourceFileLoader):
    """Gives a module an `import` that finds the user's packages before ours of the same name."""

    def exec_module(self, module: ModuleType) -> None:
        """Execute the module with that `import`."""
        package = module.__name__.partition(".")[0]
        module.__dict__["__builtins__"] = vars(builtins) | {"__import__": _UsersImport(package)}
        super().exec_module(module)


class _UsersFinder(MetaPathFinder):
    """Finds modules in a user's folder, for that loader."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """The spec of a module of a user's package; None for others."""
        del target
        if not name.startswith(PREFIX):
            return None
        specs = (FileFinder(folder, (_UsersLoader, SOURCE_SUFFIXES)).find_spec(name) for folder in path or ())
        return next((spec for spec in specs if spec and spec.loader), None)


class _UsersImport:
    """`__import__` of a user's modules."""

    def __init__(self, package: str) -> None:
        self._package = package

    def __call__(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        """As `__import__`; of our names, the user's module is imported where there is one."""
        top = name.partition(".")[0]
        own = f"{self._package}.{name}"
        if level or top not in OURS or not _is_there(own):
            return builtins.__import__(name, globals, locals, fromlist or (), level)
        module = importlib.import_module(own)
        for part in fromlist or ():
            if not hasattr(module, part) and _is_there(f"{own}.{part}"):
                importlib.import_module(f"{own}.{part}")
        return module if fromlist else sys.modules[f"{self._package}.{top}"]


def _is_there(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # a package above it is not there
        return False


def _line_in(path: Path, error: BaseException) -> str:
    """The last executed line of the file."""
    lines, trace = list[int](), error.__traceback__
    while trace:
        if trace.tb_frame.f_code.co_filename == str(path):
            lines.append(trace.tb_lineno)
        trace = trace.tb_next
    return f", line {lines[-1]}" if lines else ""
