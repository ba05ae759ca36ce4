"""The one model that a process holds in memory, and the lock under which it is used."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

ALONE = threading.RLock()
"""Held while the model is used: one caller at a time, since tokenizers are not thread-safe either."""

T = TypeVar("T")

_models: dict[Hashable, Any] = {}  # the one model in memory, by its key


def load_once(key: Hashable, load: Callable[[], T]) -> T:
    """Return the value of `load`, called unless this key's is held; another's is released first, even if it raises."""
    with ALONE:
        if key not in _models:
            release_model()
            _models[key] = load()
        return _models[key]


def release_model() -> None:
    """Release the model, so that the device is free for another; the next use loads it again."""
    with ALONE:
        for model in _models.values():
            if close := getattr(model, "close", None):  # an engine in processes of its own
                close()
        _models.clear()
        torch = sys.modules.get("torch")  # never imported for this: without it no model is on a device
        if torch and torch.cuda.is_available():
            gc.collect()  # empty_cache gives back only what nothing refers to
            torch.cuda.empty_cache()
