"""Checkpoints in the layout of Lever-Plus, honest and hostile; the classes in them cannot be imported afterwards."""

from __future__ import annotations

import io
import sys
import types
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from models.pointer import PointerConfig, PointerSelector

CONFIG = PointerConfig(embedding_dim=6, hidden=8, layers=2, heads=1)
PREFIX = "lever_lm.pointer_selector."
MARKER = "~evil~"
"""A text that `plant` replaces by opcodes."""


def seed_state(config: PointerConfig = CONFIG, *, seed: int = 0) -> OrderedDict[str, Tensor]:
    """Weights of a network, with the attribute that torch's own state dicts carry."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return PointerSelector(config).state_dict()  # pyright: ignore[reportReturnType]


def lightning(state: Mapping[str, Tensor], **more: Any) -> dict[str, Any]:
    """What Lightning saves: the pointer network and the encoders below one module."""
    whole = OrderedDict((PREFIX + key, value) for key, value in state.items())
    whole["lever_lm.sen_model.text_projection.weight"] = torch.randn(3, 3)
    whole["lever_lm.img_model.vision_model.embeddings.position_ids"] = torch.arange(5)
    return {
        "epoch": 3,
        "global_step": 1200,
        "pytorch-lightning_version": "2.1.0",
        "state_dict": whole,
        "optimizer_states": [{"state": {0: {"step": torch.tensor(3.0)}}, "param_groups": [{"lr": 1e-4}]}],
        "hyper_parameters": {"lr": 1e-4, "weight_decay": 0.01, "warm_steps": 0.1},
        **more,
    }


@contextmanager
def passing_class(module: str, name: str) -> Generator[type[Any]]:
    """A class that exists only inside the block."""
    made = types.ModuleType(module)
    kind = type(name, (), {"__module__": module})
    setattr(made, name, kind)
    sys.modules[module] = made
    try:
        yield kind
    finally:
        del sys.modules[module]


def save(content: object, path: Path) -> Path:
    torch.save(content, path)
    return path


def repack(path: Path, change: Callable[[str, bytes], bytes | None], *, compression: int = zipfile.ZIP_STORED) -> Path:
    """Rewrite a zip archive; `change` gives the new content of each entry (named without its folder), or None."""
    whole = io.BytesIO()
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(whole, "w", compression) as new:
        for entry in old.infolist():
            data = change(entry.filename.partition("/")[2], old.read(entry))
            if data is not None:
                new.writestr(entry.filename, data)
    path.write_bytes(whole.getvalue())
    return path


def plant(path: Path, opcodes: bytes) -> Path:
    """Put `opcodes` where the pickle in `path` has MARKER."""
    marker = b"X" + len(MARKER).to_bytes(4, "little") + MARKER.encode()

    def planted(data: bytes) -> bytes:
        assert data.count(marker) == 1
        return data.replace(marker, opcodes)

    return repack(path, lambda name, data: planted(data) if name == "data.pkl" else data)
