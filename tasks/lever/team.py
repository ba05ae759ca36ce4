"""The processes of one training. Alone there is nothing to share; distributed.py has the team of several."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from torch import Tensor, nn


class Team(Protocol):
    """What a training asks of the processes that it runs on; all of them make the same calls in the same order."""

    @property
    def rank(self) -> int:
        """Number of this process; the first, 0, is the one that judges, validates and saves."""
        ...

    @property
    def size(self) -> int:
        """How many processes there are."""
        ...

    def share(self, rows: Tensor) -> Tensor:
        """The part of a batch (b,) that this process learns from; maybe none."""
        ...

    def wrap(self, module: nn.Module, *, unused: bool) -> nn.Module:
        """The module, with gradients that are means over the processes. unused: some parameters get no gradient."""
        ...

    def total(self, values: Tensor) -> Tensor:
        """Sum over the processes."""
        ...

    def from_first(self, make: Callable[[], tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
        """What `make` gives in the first process, on the CPU; the others do not call it."""
        ...


class Alone:
    """One process."""

    rank = 0
    size = 1

    def share(self, rows: Tensor) -> Tensor:
        """All of it."""
        return rows

    def wrap(self, module: nn.Module, *, unused: bool) -> nn.Module:
        """Nothing is around it."""
        del unused
        return module

    def total(self, values: Tensor) -> Tensor:
        """Its own."""
        return values

    def from_first(self, make: Callable[[], tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
        """Its own."""
        return make()
