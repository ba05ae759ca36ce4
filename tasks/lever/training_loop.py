"""A training under way: deals batches, updates, validates after each epoch, and keeps all of it on disk.

What is to be learnt comes from outside, as an Objective; see training.py.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import deepcopy
from pathlib import Path
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from models.pointer import PointerSelector
from tasks.lever.errors import LeverError, TrainingDiverged
from tasks.lever.records import CurvePoint
from tasks.lever.schedules import Batch, Plan, learning_rate, seed_of
from tasks.lever.settings import Optimization
from tasks.lever.team import Alone, Team
from tasks.lever.training_state import Progress, StateFile

log = logging.getLogger(__name__)

Validate = Callable[[PointerSelector], float]
"""Accuracy of a selector on queries that it does not learn from."""


class TrainingPlace(NamedTuple):
    """Where a training runs; nothing here changes what is learnt beyond rounding."""

    folder: Path | None = None
    """Of its own: its state is kept there after each epoch and is taken up again; whoever made it removes it."""
    device: str = "cpu"
    amp: bool | None = None
    """Compute in bfloat16 where that is safe; none: on a GPU."""
    processes: int | None = None
    """Each takes its part of every batch; none: one for each GPU where `device` is `cuda`, else one."""
    save_every: int = 100
    """Updates after which the state is kept inside an epoch, too."""
    team: Team = Alone()
    """The processes that already run; who starts a training leaves this alone."""

    @property
    def to_start(self) -> int:
        """How many processes are to be started for this training; 1: none, it runs in this one."""
        if self.team.size > 1:
            return 1
        if self.processes is not None:
            return self.processes
        return max(torch.cuda.device_count(), 1) if self.device == "cuda" else 1


class Learnt(NamedTuple):
    """What an objective finds for some queries."""

    loss: Tensor
    """Scalar, a mean over the queries."""
    figures: dict[str, Tensor]
    """Scalars, means over the queries."""


Objective = Callable[[PointerSelector, Tensor], Learnt]
"""What a selector is to lower, on the queries whose rows (b,) are given, on its device."""


class Trained(NamedTuple):
    """What a training gives."""

    selector: PointerSelector
    """Of the chosen epoch."""
    curve: tuple[CurvePoint, ...]
    validation: dict[int, float]
    """Epoch (0: before the first) → accuracy."""
    chosen_epoch: int
    """The best one, of equals the first."""


class Loop:
    """Updates a copy of `start`. Raises LeverError where it cannot go on.

    Draws have seeds of their own, so that a resumed training needs to know only how many updates are done.
    key: names the training (training_state.key_of). shots: picks of a pointer. dropout: it is on while learning.
    beta: weight of the KL divergence; whoever adapts it does so at the end of an epoch.
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
        shots: int,
        dropout: bool = True,
        beta: float = 0.0,
    ) -> None:
        self.plan, self.team, self.device = plan, place.team, torch.device(place.device)
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
        self._take_up()
        unused = shots == 1 and self.selector.config.gate  # a single pick is never read back
        self._module = self.team.wrap(_Objective(self.selector), unused=unused)

    def epochs(self) -> Iterator[int]:
        """Numbers of the epochs that are left, the one under way first; the selector is validated after each.

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
        """Those of an epoch that are left; each is to be learnt or passed over."""
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
        """No update, since there is nothing to learn; it is counted."""
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
        """The precision of all log-probabilities of this training."""
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
        """Gradients of the mean over the whole batch, and its figures, whatever part of it this process has."""
        rows = self.team.share(batch.rows)
        seed = seed_of(self.seed, "dropout", batch.update, self.team.rank)
        with seeded(seed, self.device) if self._dropout else nullcontext(), self.autocast():
            # a part may be empty; then any query does, at no weight
            part = rows if len(rows) else batch.rows[:1]
            learnt = cast(Learnt, self._module(objective, part.to(self.device)))
        share = len(rows) / len(batch.rows)
        (learnt.loss * (share * self.team.size)).backward()  # the team takes the mean of gradients
        own = torch.stack([learnt.loss, *learnt.figures.values()]).detach().double()
        return dict(zip(("loss", *learnt.figures), self.team.total(own * share).unbind(), strict=True))

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
            (found,) = self.team.from_first(lambda: (torch.tensor(self._validate(self.selector), dtype=torch.float64),))
        accuracy = found.item()
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
        if self.team.rank:
            return
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

    def _take_up(self) -> None:
        kept = self._file.load()
        self.team.total(torch.zeros(1))  # nobody writes before all have read
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


class _Objective(nn.Module):
    """An objective as a forward pass, which is what DistributedDataParallel watches."""

    def __init__(self, selector: PointerSelector) -> None:
        super().__init__()
        self.selector = selector

    def forward(self, objective: Objective, rows: Tensor) -> Learnt:
        """The objective on these queries."""
        return objective(self.selector, rows)


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
