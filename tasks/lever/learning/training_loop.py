"""The training loop: batches, updates, validation after each epoch, and its state on disk.

The state is one file, replaced as a whole; each draw has its own seed (`derive_seed`), so that a resumed training needs
only the number of updates that are done.
"""

from __future__ import annotations

import hashlib
import logging
import math
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import deepcopy
from pathlib import Path
from typing import NamedTuple

import torch
from pydantic import BaseModel, Field, ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from models.pointer import PointerSelector
from storage import files
from tasks.lever.lever_errors import TrainingDiverged
from tasks.lever.lever_options import Optimization
from tasks.lever.lever_records import CurvePoint

log = logging.getLogger(__name__)

WARMUP_SHARE = 0.1
"""Share of the updates in which the learning rate rises."""
WEIGHT_DECAY, CLIP_NORM = 0.01, 1.0
"""Decoupled weight decay of AdamW; the norm that gradients are clipped to."""
NAME = "training.safetensors"
"""File of the state in the folder of a training."""
PROGRESS = "progress"
"""Entry of the file's metadata with the Progress as JSON."""


class TrainingRun(NamedTuple):
    """A training beside its data and settings: how it is validated, its seed, and where it runs."""

    validate: Callable[[PointerSelector], float]  # accuracy on queries that the selector does not learn from
    seed: int = 0
    folder: Path | None = None  # of the state of this very training, for resuming; the caller makes and removes it
    device: str = "cpu"
    save_every: int = 100  # updates between two saves inside an epoch; the state is also saved after each epoch


class UpdateLoss(NamedTuple):
    """Loss and further values of an update: scalar tensors, means over its queries."""

    loss: Tensor
    diagnostics: dict[str, Tensor]


Objective = Callable[[PointerSelector, Tensor], UpdateLoss]
"""Returns the loss of a selector on the queries of these rows (b,), on the selector's device."""


class Trained(NamedTuple):
    """The selector of the best epoch, with the curve and the validation of its training."""

    selector: PointerSelector  # with the weights of the chosen epoch
    curve: tuple[CurvePoint, ...]
    validation: dict[int, float]  # epoch (0: before the first) → accuracy
    chosen_epoch: int  # the epoch with the best accuracy; of equals the first


class Progress(BaseModel):
    """Progress of a training, as its state file has it."""

    update: int = 0
    """Number of updates that are done."""
    beta: float = 0.0
    """Weight of the KL divergence, where there is one."""
    curve: list[CurvePoint] = Field(default_factory=list[CurvePoint])
    validation: dict[int, float] = Field(default_factory=dict[int, float])
    chosen_epoch: int = 0
    passed_over: int = 0
    """Number of updates without a step, as all rewards in each group were equal."""


class Loop:
    """The loop of one training: it updates a copy of `start`, and goes on from the state in the run's folder.

    dropout: whether it is on while learning.
    beta: weight of the KL divergence; the caller may change `progress.beta` at the end of an epoch.
    """

    def __init__(
        self,
        start: PointerSelector,
        plan: Plan,
        settings: Optimization,
        run: TrainingRun,
        *,
        dropout: bool = True,
        beta: float = 0.0,
    ) -> None:
        self.plan, self.run, self.device = plan, run, torch.device(run.device)
        self.selector = deepcopy(start).to(self.device)
        self.progress = Progress(beta=beta)
        self.saved_tensors: dict[str, Tensor] = {}
        self._settings, self._dropout = settings, dropout
        self._optimizer = torch.optim.AdamW(
            self.selector.parameters(), lr=settings.lr, weight_decay=WEIGHT_DECAY, fused=True
        )
        self._best = self._weights()
        state = load_state(run.folder)
        if state:
            self.progress, tensors = state
            parts = _group_by_prefix(tensors, "/")
            self.saved_tensors = parts.get("held", {})
            self.selector.load_state_dict(parts.get("weights", {}))
            self._best = {name: weight.to(self.device) for name, weight in parts.get("best", {}).items()}
            moments = _group_by_prefix(parts.get("adam", {}), ".")
            states = {int(number): tensors for number, tensors in moments.items()}
            self._optimizer.load_state_dict(self._optimizer.state_dict() | {"state": states})

    def epochs(self) -> Iterator[int]:
        """Yield the numbers of the remaining epochs, the current one first; the selector is validated after each.

        The start is validated, too, as epoch 0: a training that only spoils it gives it back.
        """
        if not self.progress.validation:
            self._end_epoch(0)
        for epoch in range(len(self.progress.validation), len(self.plan.turns) + 1):
            if self.progress.update < self.plan.end(epoch):  # else it broke off while it was validated
                yield epoch
                self._save()
            self._end_epoch(epoch)

    def batches(self, epoch: int) -> Iterator[Batch]:
        """Yield an epoch's remaining batches, which the caller passes to `learn` or `pass_over`; saves at times."""
        first = self.progress.update
        for update in range(first, self.plan.end(epoch)):
            if update > first and update % self.run.save_every == 0:
                self._save()
            yield Batch(update, epoch, self.plan.rows(update, seed=self.run.seed))

    def learn(self, batch: Batch, objective: Objective, **extra: float) -> None:
        """Make one update, and put its values into the curve with those of `extra`. Raises TrainingDiverged."""
        settings = self._settings
        lr = learning_rate(batch.update, self.plan.updates, peak=settings.lr)
        for group in self._optimizer.param_groups:
            group["lr"] = lr
        self.selector.train(self._dropout)
        self._optimizer.zero_grad()
        seed = derive_seed(self.run.seed, "dropout", batch.update, 0)
        with seeded_generators(seed, self.device) if self._dropout else nullcontext(), self.autocast():
            learnt = objective(self.selector, batch.rows.to(self.device))
        learnt.loss.backward()
        means = torch.stack([learnt.loss, *learnt.diagnostics.values()]).detach().double()
        norm = nn.utils.clip_grad_norm_(self.selector.parameters(), CLIP_NORM)
        numbers = torch.cat([means, norm.double()[None]]).tolist()  # one copy from the device for all
        values = dict(zip(("loss", *learnt.diagnostics, "grad_norm"), numbers, strict=True))
        if wrong := {name: value for name, value in values.items() if not math.isfinite(value)}:
            raise TrainingDiverged(
                f"update {batch.update + 1} of {self.plan.updates} (epoch {batch.epoch}): {wrong}; the learning rate "
                f"{settings.lr} may be too high, or an embedding is no number"
            )
        self._optimizer.step()
        self._finish_batch(batch, values | extra | {"lr": lr})

    def pass_over(self, batch: Batch, **extra: float) -> None:
        """Count an update without a step, as there is nothing to learn."""
        self.progress.passed_over += 1
        self._finish_batch(batch, extra)

    def save_tensors(self, **tensors: Tensor) -> None:
        """Keep what was drawn or judged until the epoch ends, on disk as well."""
        self.saved_tensors |= tensors
        self._save()

    def curve(self, epoch: int, name: str) -> list[float]:
        """Return the values of this name of all updates of an epoch so far, those before an interruption too."""
        return [point.figures[name] for point in self.progress.curve if point.epoch == epoch and name in point.figures]

    def autocast(self) -> AbstractContextManager[object]:
        """Return the context that sets the precision of all log-probabilities of this training: bfloat16 on a GPU."""
        return torch.autocast("cuda", torch.bfloat16) if self.device.type == "cuda" else nullcontext()

    def trained(self) -> Trained:
        """Return the selector of the best epoch, with the curve of the training."""
        progress = self.progress
        if progress.passed_over:
            message = "updates=%d passed_over=%d: the rewards of each query were all equal, which teaches nothing"
            log.warning(message, progress.update, progress.passed_over)
        self.selector.load_state_dict(self._best)
        self.selector.eval()
        return Trained(self.selector, tuple(progress.curve), dict(progress.validation), progress.chosen_epoch)

    def _finish_batch(self, batch: Batch, values: dict[str, float]) -> None:
        self.progress.update = batch.update + 1
        self.progress.curve.append(CurvePoint(step=batch.update + 1, epoch=batch.epoch, figures=values))

    def _end_epoch(self, epoch: int) -> None:
        """Validate the selector, keep its weights if they are the best so far, and save the state."""
        self.selector.eval()
        with torch.no_grad():
            accuracy = float(self.run.validate(self.selector))
        progress = self.progress
        # strictly better: of equal epochs the first is chosen, at worst the start itself
        if not progress.validation or accuracy > progress.validation[progress.chosen_epoch]:
            progress.chosen_epoch, self._best = epoch, self._weights()
        progress.validation[epoch] = accuracy
        self.saved_tensors = {}
        self._save()
        log.info("epoch=%d/%d accuracy=%.4f chosen=%d", epoch, len(self.plan.turns), accuracy, progress.chosen_epoch)

    def _weights(self) -> dict[str, Tensor]:
        return {name: weight.detach().clone() for name, weight in self.selector.state_dict().items()}

    def _save(self) -> None:
        """Replace the state in the run's folder; without a folder nothing is kept. Raises StoreUnreachable."""
        if self.run.folder is None:
            return
        states = self._optimizer.state_dict()["state"].items()
        adam = {f"{number}.{name}": value for number, state in states for name, value in state.items()}
        parts = {"weights": self.selector.state_dict(), "best": self._best, "adam": adam, "held": self.saved_tensors}
        tensors = {
            f"{part}/{name}": tensor.detach().cpu().contiguous()
            for part, entries in parts.items()
            for name, tensor in entries.items()
        }
        files.write(self.run.folder / NAME, save(tensors, metadata={PROGRESS: self.progress.model_dump_json()}))


def _group_by_prefix(tensors: Mapping[str, Tensor], separator: str) -> dict[str, dict[str, Tensor]]:
    """Group tensors by the part of their names before the separator, then by the rest."""
    parts: dict[str, dict[str, Tensor]] = {}
    for path, tensor in tensors.items():
        part, _, name = path.partition(separator)
        parts.setdefault(part, {})[name] = tensor
    return parts


@contextmanager
def seeded_generators(seed: int, device: torch.device) -> Generator[None]:
    """Seed torch's default generators, and restore them afterwards: weights and dropout use no others."""
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


def learning_rate(update: int, updates: int, *, peak: float) -> float:
    """Return the learning rate of update 0 … updates - 1: linear to `peak`, then half a cosine towards 0.

    Source: the shape of Loshchilov and Hutter 2017, arXiv:1608.03983, without restarts.
    """
    warmup = math.ceil(WARMUP_SHARE * updates)
    if update < warmup:
        return peak * (update + 1) / warmup
    return peak * 0.5 * (1 + math.cos(math.pi * (update - warmup) / (updates - warmup)))


def derive_seed(seed: int, purpose: str, *numbers: int) -> int:
    """Return the seed of one draw; draws for different purposes or numbers have nothing in common."""
    name = ":".join(map(str, (seed, purpose, *numbers)))
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4])  # the generator of a CPU takes no more


def generator_of(seed: int, purpose: str, *numbers: int, device: torch.device | str = "cpu") -> torch.Generator:
    """Return a generator for one draw, seeded by `derive_seed`."""
    return torch.Generator(device).manual_seed(derive_seed(seed, purpose, *numbers))


class Plan(NamedTuple):
    """The order in which a training goes through the queries, and its number of updates."""

    queries: int
    batch_size: int
    turns: tuple[int, ...]  # for each epoch, the number of times that every query is seen

    @property
    def batches(self) -> int:
        """Number of batches in a turn; sizes differ by at most one, so that no update depends on a few queries."""
        return math.ceil(self.queries / self.batch_size)

    @property
    def updates(self) -> int:
        """Number of updates of the whole training."""
        return sum(self.turns) * self.batches

    def end(self, epoch: int) -> int:
        """Return the number of updates that are done when an epoch (1 …) ends."""
        return sum(self.turns[:epoch]) * self.batches

    def rows(self, update: int, *, seed: int) -> Tensor:
        """Return the numbers (b,) of the queries of an update (0 …)."""
        turn, batch = divmod(update, self.batches)
        order = torch.randperm(self.queries, generator=generator_of(seed, "order", turn))
        return order.tensor_split(self.batches)[batch]


class Batch(NamedTuple):
    """One update: its number, its epoch and its queries."""

    update: int  # number of updates done before
    epoch: int
    rows: Tensor  # (b,) numbers of the queries, on the CPU


def load_state(folder: Path | None) -> tuple[Progress, dict[str, Tensor]] | None:
    """Load the saved state; None where there is none, and with a warning where it is damaged."""
    path = folder / NAME if folder else None
    if path is None or not path.exists():
        return None
    try:
        with files.reachable(path), safe_open(path, framework="pt") as file:
            progress = Progress.model_validate_json((file.metadata() or {})[PROGRESS])
            # copies: where a tensor begins in memory can change the last bit of what is computed from it
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118 it is no dict
    except (SafetensorError, KeyError, ValidationError):
        log.warning("training state %s is damaged: starting anew", path)
        return None
    log.info("training goes on after update=%d file=%s", progress.update, path)
    return progress, tensors
