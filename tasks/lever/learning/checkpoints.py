"""Trained selectors as files: safetensors with the configuration and metadata in the header."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import torch
from pydantic import JsonValue, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from models.pointer import PointerConfig, PointerSelector
from tasks.lever.data.embeddings import header_of
from tasks.lever.lever_errors import FileUnusable

FORMAT = "trivet pointer selector"
POOLS_OF = "pools"
"""Entry of `meta` with the recipe of the pools that a selector was trained in."""
NAMED_AT_MOST = 6
WIDEST = 1 << 16
"""Largest width that a file may ask for; the usual ones are 256 and 512."""


def save_selector(selector: PointerSelector, *, meta: Mapping[str, JsonValue]) -> bytes:
    """The weights and configuration of `selector`, and `meta`; equal selectors give equal bytes."""
    about = {"format": FORMAT, "config": selector.config.model_dump(), "meta": dict(meta)}
    # one entry only: safetensors writes several in no fixed order
    header = {"trivet": json.dumps(about, sort_keys=True, allow_nan=False)}
    state = {key: value.detach().cpu().contiguous() for key, value in selector.state_dict().items()}
    return save(state, metadata=header)


def load_selector(source: bytes | Path, *, device: str = "cpu") -> PointerSelector:
    """What `save_selector` wrote, ready for inference (`eval`). Draws no random numbers.

    Raises FileUnusable naming every weight that is missing, too many, of another shape, or not finite.
    """
    data, where = _bytes(source)
    config, _ = _header(data, where)
    try:
        state = load(data)
    except (SafetensorError, ValueError) as error:
        raise FileUnusable(f"{where} is not whole ({error}); copy or train it again") from error
    return selector_of(config, state, where).to(device)


def read_header(source: bytes | Path) -> tuple[PointerConfig, dict[str, JsonValue]]:
    """The configuration and `meta` of a checkpoint of ours. Raises FileUnusable."""
    return _header(*_bytes(source))


def _header(data: bytes, where: str) -> tuple[PointerConfig, dict[str, JsonValue]]:
    try:
        about: Any = json.loads(header_of(data)["trivet"])
        if not isinstance(about, dict) or about.get("format") != FORMAT:
            raise ValueError(f"its header is of another format: {str(about)[:80]}")
        return PointerConfig.model_validate(about["config"]), cast(dict[str, JsonValue], about["meta"])
    except (LookupError, ValueError, TypeError, ValidationError) as error:
        raise FileUnusable(
            f"{where} is no selector of ours; a checkpoint of Lever-Plus (.ckpt, .pt) is read by `read_seed_checkpoint`"
        ) from error


def selector_of(config: PointerConfig, state: Mapping[str, Tensor], where: str) -> PointerSelector:
    """A selector with exactly these weights. Draws no random numbers. Raises FileUnusable naming keys."""
    require_layout({key: value.shape for key, value in state.items()}, config, where)
    if wrong := [key for key, value in state.items() if not value.is_floating_point() or not value.isfinite().all()]:
        raise FileUnusable(f"{where}: {named(wrong)}: not finite; take another checkpoint, this training broke")
    with torch.device("meta"):
        selector = PointerSelector(config)
    selector.load_state_dict({key: value.clone() for key, value in state.items()}, strict=True, assign=True)
    return selector.eval()


def require_layout(shapes: Mapping[str, Sequence[int]], config: PointerConfig, where: str) -> None:
    """Raises FileUnusable unless these are the weights that a selector of this configuration has."""
    if max(config.hidden, config.embedding_dim) > WIDEST or config.layers > len(shapes):
        raise FileUnusable(f"{where} holds {len(shapes)} weights and asks for {config!r}; it is damaged")
    with torch.device("meta"):
        expected = {key: tuple(value.shape) for key, value in PointerSelector(config).state_dict().items()}
    missing, extra = expected.keys() - shapes.keys(), shapes.keys() - expected.keys()
    other = [key for key in expected.keys() & shapes.keys() if tuple(shapes[key]) != expected[key]]
    if missing or extra or other:
        found = [f"{key} is {list(shapes[key])}, not {list(expected[key])}" for key in sorted(other)[:NAMED_AT_MOST]]
        parts = [f"missing: {named(missing)}"] * bool(missing) + [f"not of this network: {named(extra)}"] * bool(extra)
        raise FileUnusable(f"{where} holds other weights than a selector with {config!r}: {'; '.join(parts + found)}")


def named(keys: Iterable[str]) -> str:
    """The first of them, sorted, and how many more there are."""
    ordered = sorted(keys)
    more = len(ordered) - NAMED_AT_MOST
    return ", ".join(ordered[:NAMED_AT_MOST]) + (f" … and {more} more" if more > 0 else "")


def _bytes(source: bytes | Path) -> tuple[bytes, str]:
    if isinstance(source, bytes):
        return source, "the checkpoint"
    try:
        return source.read_bytes(), str(source)
    except OSError as error:
        raise FileUnusable(f"{source} cannot be read ({error.strerror}); name a checkpoint") from error
