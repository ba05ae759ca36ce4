"""Opens a model of the transformers library: one that takes pictures, or one that reads text alone."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, TypeVar

from models.model_errors import ModelUnavailable

if TYPE_CHECKING:
    from models.causal_lm import CausalLM


OF_PICTURES = ("min_pixels", "max_pixels")
OF_TEXT = ("trust_remote_code",)


def open_local(pretrained: str, *, pictures: bool, **chosen: Any) -> CausalLM:
    """The model of a folder or of the hub, by what its config.json says. Raises ModelUnavailable.

    pictures: False loads a vision-language model without its encoder where transformers can.
    chosen: arguments of HFVision and CausalLM; those that the model's kind lacks are refused where they are set.
    """
    from models.vision_weights import kind_of

    kind = kind_of(pretrained, chosen.get("revision"))
    does = kind.sees and (pictures or not kind.reads_text_alone)
    lacking = OF_TEXT if does else OF_PICTURES
    if said := [name for name in lacking if chosen.get(name)]:
        how = "with its eyes" if does else "for text alone"
        raise ModelUnavailable(f"the model in {pretrained} is loaded {how}, without {' and '.join(said)}; leave it out")
    given = {name: value for name, value in chosen.items() if name not in lacking}
    if does:
        from models.vision_language import HFVision

        return HFVision(pretrained, **given)
    from models.causal_lm import CausalLM

    return CausalLM(pretrained, **given)


ALONE = threading.RLock()
"""Held while the model is used: one caller at a time, since tokenizers are not thread-safe either."""

T = TypeVar("T")


_held: dict[Hashable, Any] = {}
"""The one model in memory, by its key."""


def held(key: Hashable, load: Callable[[], T]) -> T:
    """The value of `load`, loaded once per key; the value held under another key is released first.

    Raises what `load` raises; then nothing is held.
    """
    with ALONE:
        if key not in _held:
            release_held()
            _held[key] = load()
        return _held[key]


def release_held() -> None:
    """Release the model, so that the device is free for another; the next use loads it again."""
    with ALONE:
        _held.clear()
        if (torch := sys.modules.get("torch")) and torch.cuda.is_available():
            gc.collect()
            torch.cuda.empty_cache()
