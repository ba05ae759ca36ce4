"""Opens a model of the transformers library: one that takes pictures, or one that reads text alone."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from models.model_errors import ModelUnavailable

if TYPE_CHECKING:
    from models.causal_lm import CausalLM


OF_PICTURES = ("min_pixels", "max_pixels")
OF_TEXT = ("trust_remote_code",)


def open_local(pretrained: str, *, pictures: bool, **chosen: Any) -> CausalLM:
    """The model of a folder or of the hub, by what its config.json says. Raises ModelUnavailable.

    pictures: False if none will be shown; a vision-language model is then loaded without its encoder if it can be.
    chosen: arguments of models.vision_language.HFVision and models.causal_lm.CausalLM; those that a kind lacks are
    refused where they say something.
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
