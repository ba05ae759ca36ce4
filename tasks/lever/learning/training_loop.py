"""A training under way: deals batches, updates, validates after each epoch, and keeps all of it on disk.

What is learnt comes from outside, as an Objective (trainings.py).
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
from torch import Tensor, nn

from models.pointer import PointerSelector
from tasks.lever.learning.training_state import Progress, StateFile
from tasks.lever.lever_errors import LeverError, TrainingDiverged
from tasks.lever.lever_records import CurvePoint
from tasks.lever.training_settings import Optimization

log = logging.getLogger(__name__)

Validate = Callable[[PointerSelector], float]
"""Accuracy of a selector on queries that it does not learn from."""


class TrainingPlace(NamedTuple):
    """Where a training runs; nothing here changes what is learnt, beyond rounding."""

    folder: Path | None = None
    """Keeps the state of this training alone, so that it can be resumed; the caller makes and removes it."""
    device: str = "cpu"
    amp: bool | None = None
    """Compute in bfloat16 where that is safe; None: on a GPU only."""
    save_every: int = 100
    """Updates between two saves inside an epoch; the state is also saved after each epoch."""


class Learnt(NamedTuple):
    """Loss and figures of some queries."""

    loss: Tensor
    """Scalar, a mean over the queries."""
    figures: dict[str, Tensor]
    """Scalars, means over the queries."""


Objective = Callable[[PointerSelector, Tensor], Learnt]
"""Gives the loss of a selector on the queries of these rows (b,), on the selector's device."""


class Trained(NamedTuple):
    """Result of a training."""

    selector: PointerSelector
    """Weights of the chosen epoch."""
    curve: tuple[CurvePoint, ...]
    validation: dict[int, float]
    """Epoch (0: before the first) → accuracy."""
    chosen_epoch: int
    """The epoch with the best accuracy; of equals the first."""


class Loop:
    """Updates a copy of `start`. Raises LeverError where it cannot go on.

    Every draw has a seed of its own, so that a resumed training needs to know only how many updates are done.
    key: identifies the training (training_state.key_of). dropout: whether it is on while learning.
    beta: weight of the KL divergence; the caller may change it at the end of an epoch.
    """

    def __init__(
        self,
        start: PointerSelector,
        plan: Plan,
        settings: Optimization,
        *,
        seed: int,
        validate: Validate,
        place: TrainingPlace,
        key: str,
        dropout: bool = True,
        beta: float = 0.0,
    ) -> None:
        self.plan, self.device = plan, torch.device(place.device)
        self.selector = deepcopy(start).to(self.device)
        self.seed, self.beta = seed, beta
        self.held: dict[str, Tensor] = {}
        self._settings, self._validate, self._place = settings, validate, place
        self._dropout = dropout
        self._key = key
        self._file = StateFile(place.folder, key)
        self._optimizer = torch.optim.AdamW(
            self.selector.parameters(), lr=settings.lr, weight_decay=settings.weight_decay, fused=True
        )
        self._update = 0
        self._passed_over = 0
        self._curve: list[CurvePoint] = []
        self._validation: dict[int, float] = {}
        self._best = self._weights()
        self._chosen_epoch = 0
        self._resume()

    def epochs(self) -> Iterator[int]:
        """Numbers of the remaining epochs, the current one first; the selector is validated after each.

        The start is validated, too, as epoch 0: a training that only spoils it gives it back.
        """
        if not self._validation:
            self._end_epoch(0)
        for epoch in range(len(self._validation), len(self.plan.turns) + 1):
            if self._update < self.plan.end(epoch):  # else it broke off while it was validated
                yield epoch
                self._save()
            self._end_epoch(epoch)

    def batches(self, epoch: int) -> Iterator[Batch]:
        """Remaining batches of an epoch; pass each to `learn` or `pass_over`."""
        first = self._update
        for update in range(first, self.plan.end(epoch)):
            if update > first and update % self._place.save_every == 0:
                self._save()
            yield Batch(update, epoch, self.plan.rows(update, seed=self.seed))

    def learn(self, batch: Batch, objective: Objective, **known: float) -> dict[str, float]:
        """One update; gives its figures, and `known` with them. Raises TrainingDiverged."""
        settings = self._settings
        lr = learning_rate(batch.update, self.plan.updates, peak=settings.lr, warmup_share=settings.warmup_share)
        for group in self._optimizer.param_groups:
            group["lr"] = lr
        self.selector.train(self._dropout)
        self._optimizer.zero_grad()
        means = self._backward(batch, objective)
        norm = nn.utils.clip_grad_norm_(self.selector.parameters(), settings.clip_norm)
        names = (*means, "grad_norm")
        figures = dict(zip(names, torch.stack([*means.values(), norm.double()]).tolist(), strict=True))
        self._refuse_nan(batch, figures)
        self._optimizer.step()
        figures |= known | {"lr": lr}
        self._done(batch, figures)
        return figures

    def pass_over(self, batch: Batch, **known: float) -> None:
        """Count an update without a step, as there is nothing to learn."""
        self._passed_over += 1
        self._done(batch, known)

    def hold(self, **tensors: Tensor) -> None:
        """Keep what was drawn or judged until the epoch ends, on disk as well."""
        self.held |= tensors
        self._save()

    def curve(self, epoch: int, figure: str) -> list[float]:
        """A figure of all updates of an epoch so far, those before an interruption too."""
        return [one.figures[figure] for one in self._curve if one.epoch == epoch and figure in one.figures]

    def autocast(self) -> AbstractContextManager[object]:
        """Context that sets the precision of all log-probabilities of this training."""
        amp = self.device.type == "cuda" if self._place.amp is None else self._place.amp
        return torch.autocast(self.device.type, torch.bfloat16) if amp else nullcontext()

    def trained(self) -> Trained:
        """The selector of the best epoch."""
        if self._passed_over:
            said = "updates=%d passed_over=%d: the rewards of each query were all equal, which teaches nothing"
            log.warning(said, self._update, self._passed_over)
        self.selector.load_state_dict(self._best)
        self.selector.eval()
        return Trained(self.selector, tuple(self._curve), dict(self._validation), self._chosen_epoch)

    def _backward(self, batch: Batch, objective: Objective) -> dict[str, Tensor]:
        """Compute the gradients of the mean over the batch; gives its figures."""
        seed = seed_of(self.seed, "dropout", batch.update, 0)
        with seeded(seed, self.device) if self._dropout else nullcontext(), self.autocast():
            learnt = objective(self.selector, batch.rows.to(self.device))
        learnt.loss.backward()
        figures = torch.stack([learnt.loss, *learnt.figures.values()]).detach().double()
        return dict(zip(("loss", *learnt.figures), figures.unbind(), strict=True))

    def _refuse_nan(self, batch: Batch, figures: Mapping[str, float]) -> None:
        wrong = {name: value for name, value in figures.items() if not math.isfinite(value)}
        if wrong:
            raise TrainingDiverged(
                f"update {batch.update + 1} of {self.plan.updates} (epoch {batch.epoch}): {wrong}; the learning rate "
                f"{self._settings.lr} may be too high, or an embedding is no number"
            )

    def _done(self, batch: Batch, figures: dict[str, float]) -> None:
        self._update = batch.update + 1
        self._curve.append(CurvePoint(step=self._update, epoch=batch.epoch, figures=figures))

    def _end_epoch(self, epoch: int) -> None:
        self.selector.eval()
        with torch.no_grad():
            accuracy = float(self._validate(self.selector))
        if not math.isfinite(accuracy):
            raise LeverError(f"validation after epoch {epoch} gave {accuracy}; it must give an accuracy")
        if not self._validation or accuracy > self._validation[self._chosen_epoch]:
            self._chosen_epoch, self._best = epoch, self._weights()
        self._validation[epoch] = accuracy
        self.held = {}
        self._save()
        log.info("epoch=%d/%d accuracy=%.4f chosen=%d", epoch, len(self.plan.turns), accuracy, self._chosen_epoch)

    def _weights(self) -> dict[str, Tensor]:
        return {name: one.detach().clone() for name, one in self.selector.state_dict().items()}

    def _save(self) -> None:
        progress = Progress(
            key=self._key,
            update=self._update,
            beta=self.beta,
            curve=tuple(self._curve),
            validation=self._validation,
            chosen_epoch=self._chosen_epoch,
            passed_over=self._passed_over,
        )
        adam = {
            f"{number}.{name}": value
            for number, state in self._optimizer.state_dict()["state"].items()
            for name, value in state.items()
        }
        parts = {"weights": self.selector.state_dict(), "best": self._best, "adam": adam, "held": self.held}
        self._file.save(
            progress, {f"{part}/{name}": one for part, named in parts.items() for name, one in named.items()}
        )

    def _resume(self) -> None:
        kept = self._file.load()
        if kept is None:
            return
        progress, parts = kept.progress, _parts(kept.tensors)
        self._update, self.beta = progress.update, progress.beta
        self._curve, self._validation = list(progress.curve), dict(progress.validation)
        self._chosen_epoch, self._passed_over = progress.chosen_epoch, progress.passed_over
        self.selector.load_state_dict(parts.get("weights", {}))
        self._best = {name: one.to(self.device) for name, one in parts.get("best", {}).items()}
        self.held = parts.get("held", {})
        state: dict[int, dict[str, Tensor]] = {}
        for name, value in parts.get("adam", {}).items():
            number, _, field = name.partition(".")
            state.setdefault(int(number), {})[field] = value
        self._optimizer.load_state_dict(self._optimizer.state_dict() | {"state": state})


@contextmanager
def seeded(seed: int, device: torch.device) -> Generator[None]:
    """torch's default generators begin at `seed`, and are left as they were: weights and dropout take no others."""
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


def _parts(tensors: Mapping[str, Tensor]) -> dict[str, dict[str, Tensor]]:
    parts: dict[str, dict[str, Tensor]] = {}
    for path, tensor in tensors.items():
        part, _, name = path.partition("/")
        parts.setdefault(part, {})[name] = tensor
    return parts


def learning_rate(update: int, updates: int, *, peak: float, warmup_share: float) -> float:
    """Learning rate of update 0 … updates - 1: rises linearly to `peak`, then falls by half a cosine towards 0.

    Source: the shape of Loshchilov and Hutter 2017, arXiv:1608.03983, without restarts.
    """
    warmup = math.ceil(warmup_share * updates)
    if update < warmup:
        return peak * (update + 1) / warmup
    return peak * 0.5 * (1 + math.cos(math.pi * (update - warmup) / (updates - warmup)))


def seed_of(seed: int, purpose: str, *numbers: int) -> int:
    """A seed for one draw; draws for different purposes, or of different numbers, have nothing in common."""
    named = ":".join(map(str, (seed, purpose, *numbers)))
    return int.from_bytes(hashlib.sha256(named.encode()).digest()[:4])  # the generator of a CPU takes no more


def generator_of(seed: int, purpose: str, *numbers: int, device: torch.device | str = "cpu") -> torch.Generator:
    """A generator for one draw."""
    return torch.Generator(device).manual_seed(seed_of(seed, purpose, *numbers))


def order(count: int, *, seed: int, turn: int) -> Tensor:
    """(count,) the order in which queries are seen at their `turn`-th time."""
    return torch.randperm(count, generator=generator_of(seed, "order", turn))


class Plan(NamedTuple):
    """Order and number of updates."""

    queries: int
    batch_size: int
    turns: tuple[int, ...]
    """For each epoch, the number of times that every query is seen."""

    @property
    def batches(self) -> int:
        """In one turn; they differ by at most one query, so that no update hangs on a few."""
        return math.ceil(self.queries / self.batch_size)

    @property
    def updates(self) -> int:
        """Total number of updates."""
        return sum(self.turns) * self.batches

    def end(self, epoch: int) -> int:
        """Updates that are done when an epoch (1 …) is."""
        return sum(self.turns[:epoch]) * self.batches

    def rows(self, update: int, *, seed: int) -> Tensor:
        """(b,) the queries of an update (0 …)."""
        turn, batch = divmod(update, self.batches)
        return order(self.queries, seed=seed, turn=turn).tensor_split(self.batches)[batch]


class Batch(NamedTuple):
    """Queries of one update."""

    update: int
    """Updates that were done before."""
    epoch: int
    rows: Tensor
    """(b,) of all queries, on the CPU."""
