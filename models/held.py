"""The one model that writes in this process: two at once would not fit a device, and one serves all who name it."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Hashable
from typing import NamedTuple, TypeVar, cast

ALONE = threading.RLock()
"""Held by whoever uses the model: one caller at a time, since tokenizers are not safe for threads either."""

T = TypeVar("T")


class _Held(NamedTuple):
    key: Hashable
    value: object


_held: list[_Held] = []


def held(key: Hashable, load: Callable[[], T]) -> T:
    """What `load` gives, loaded once for all who ask by the same key; what was held under another key goes first.

    Raises what `load` raises; then nothing is held.
    """
    with ALONE:
        if not _held or _held[0].key != key:
            release_held()
            _held.append(_Held(key, load()))
        return cast(T, _held[0].value)


def release_held() -> None:
    """Let go of the model, so that a device is free for another; who asks for it again has it loaded again."""
    with ALONE:
        _held.clear()
        if (torch := sys.modules.get("torch")) and torch.cuda.is_available():
            gc.collect()
            torch.cuda.empty_cache()
