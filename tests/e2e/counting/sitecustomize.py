"""A counter outside Prefect: each step that really runs leaves its name in the file TRIVET_STEPS_RUN.

Python imports this as it starts, in every process that has this folder on PYTHONPATH. The function of a step tells
itself, in the process that does it; a step that is found by its key leaves nothing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

LOG = os.environ.get("TRIVET_STEPS_RUN")
STEPS = "tasks.step"


class AfterSteps(MetaPathFinder):
    """Has `step` count from the moment on that its module is there."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != STEPS:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(name)
        assert spec is not None
        loader: Any = spec.loader
        load = loader.exec_module

        def load_and_count(module: Any) -> None:
            load(module)
            module.step = counting(module.step)

        loader.exec_module = load_and_count
        return spec


def counting(step: Callable[..., Any]) -> Callable[..., Any]:
    """`step`, of functions that leave a line before they begin."""

    def counted(**settings: Any) -> Callable[..., Any]:
        def decorate(function: Callable[..., Any]) -> Any:
            @wraps(function)
            def told(*args: Any, **kwargs: Any) -> Any:
                line = f"{function.__module__} {function.__qualname__}\n".encode()
                place = os.open(str(LOG), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
                os.write(place, line)  # at once: lines of several processes do not mix
                os.close(place)
                return function(*args, **kwargs)

            return step(**settings)(told)

        return decorate

    return counted


if LOG:
    sys.meta_path.insert(0, AfterSteps())
