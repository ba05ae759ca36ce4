"""A pointer network that tells what picks are worth: its logits are how much better each is than the others."""

from __future__ import annotations

from typing import Self

import torch
from torch import Tensor, nn

from models.pointer import PointerConfig, PointerSelector
from tasks.lever.learning.policy_losses import dueling_values
from tasks.lever.learning.training_loop import seed_of, seeded

OF_A_LOGIT = 0.1
"""What a logit is worth at first: logits are between -10 and 10, rewards between 0 and 2."""


class DuelingSelector(PointerSelector):
    """The best pick is the one with the highest logit, so that it chooses without its value stream."""

    def __init__(self, config: PointerConfig) -> None:
        super().__init__(config)
        self.value = nn.Linear(config.hidden, 1)
        self.log_scale = nn.Parameter(torch.tensor(OF_A_LOGIT).log())

    @classmethod
    def of(cls, start: PointerSelector, *, seed: int) -> Self:
        """A copy of `start` with a value stream that knows nothing."""
        with seeded(seed_of(seed, "value"), torch.device("cpu")):
            made = cls(start.config)
        made.load_state_dict(start.state_dict(), strict=False)
        return made.to(next(start.parameters()))

    def plain(self) -> PointerSelector:
        """The same without its value stream."""
        made = PointerSelector(self.config).to(next(self.parameters()))
        kept = made.state_dict().keys()
        made.load_state_dict({name: one for name, one in self.state_dict().items() if name in kept})
        return made.eval()

    def values(self, query: Tensor, pool: Tensor, pointers: Tensor) -> Tensor:
        """(B, G, S, K) Q of every next pick after the picks before; −inf for what is picked already.

        query: (B, d); pool: (B, K, d); pointers: (B, G, S).
        """
        encoded = self.encode(query, pool)
        group = pointers.shape[1]
        state = encoded.state[:, None].expand(-1, group, -1)  # (B, G, H)
        blocked = ~encoded.usable[:, None].expand(-1, group, -1)  # (B, G, K)
        found = list[Tensor]()
        for picked in pointers.unbind(-1):
            logits = self.step(state, encoded.keys, blocked).masked_fill(blocked, 0)
            found.append(dueling_values(self.value(state)[..., 0], self.log_scale.exp() * logits, blocked))
            state = self.advance(state, encoded.keys, picked)
            blocked = blocked.scatter(-1, picked[..., None], True)
        return torch.stack(found, dim=2)
