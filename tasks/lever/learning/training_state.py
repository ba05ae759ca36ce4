"""A training on disk: all that the next update depends on, in one file that is replaced whole.

Draws have seeds of their own (schedules.seed_of), so that no state of a generator is among it.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

import torch
from pydantic import BaseModel, Field, ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from storage import files
from storage.records import Record
from tasks.lever.lever_records import CurvePoint

if TYPE_CHECKING:
    from typing_extensions import Buffer

log = logging.getLogger(__name__)

NAME = "training.safetensors"
PROGRESS = "progress"
DIGEST = "sha256"


class Progress(Record):
    """Progress of a training."""

    key: str
    """Digest of the data, the settings and the initial weights."""
    update: int = 0
    """Updates that are done."""
    beta: float = 0.0
    """Weight of the KL divergence, where there is one."""
    curve: tuple[CurvePoint, ...] = ()
    validation: dict[int, float] = Field(default_factory=dict[int, float])
    chosen_epoch: int = 0
    passed_over: int = 0
    """Updates without a step: in each group all rewards were equal."""


class Kept(NamedTuple):
    """Content of a state file."""

    progress: Progress
    tensors: dict[str, Tensor]


def key_of(stage: str, about: Mapping[str, BaseModel | int], tensors: Mapping[str, Tensor]) -> str:
    """Names a training; where it runs is no part of it."""
    described = {
        name: one.model_dump(mode="json") if isinstance(one, BaseModel) else one for name, one in about.items()
    }
    text = json.dumps({"format": 1, "stage": stage, **described}, sort_keys=True)
    return _digest(text, tensors)


class StateFile:
    """The state of one training in `folder`; without a folder nothing is kept."""

    def __init__(self, folder: Path | None, key: str) -> None:
        self._path = folder / NAME if folder else None
        self._key = key

    def save(self, progress: Progress, tensors: Mapping[str, Tensor]) -> None:
        """Replace what is kept. Raises StoreUnreachable."""
        if self._path is None:
            return
        text = progress.model_dump_json()
        held = {name: one.detach().cpu().contiguous() for name, one in tensors.items()}
        files.write(self._path, save(held, metadata={PROGRESS: text, DIGEST: _digest(text, held)}))

    def load(self) -> Kept | None:
        """The saved state of this training; None, with a warning, if it is damaged or belongs to another training."""
        if self._path is None or not self._path.exists():
            return None
        kept = _read(self._path)
        if kept is None:
            log.warning("training state %s is damaged: starting anew", self._path)
        elif kept.progress.key != self._key:
            log.warning("training state %s is that of other data or settings: starting anew", self._path)
            return None
        else:
            log.info("training goes on after update=%d file=%s", kept.progress.update, self._path)
        return kept


def _read(path: Path) -> Kept | None:
    try:
        with files.reachable(path), safe_open(path, framework="pt") as file:
            about = file.metadata() or {}
            # copies: where a tensor begins in memory can change the last bit of what is computed from it
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118 it is no dict
        if about[DIGEST] != _digest(about[PROGRESS], tensors):
            return None
        return Kept(Progress.model_validate_json(about[PROGRESS]), tensors)
    except (SafetensorError, KeyError, ValidationError):
        return None


def _digest(text: str, tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256(text.encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        content = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        digest.update(cast("Buffer", content.numpy()))
    return digest.hexdigest()
