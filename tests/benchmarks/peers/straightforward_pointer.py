"""The pointer network as one would write it down from its description, with the parts that torch offers.

Beside it ours is measured, and in tests it says what ours must compute: one pointer at a time, with
nn.MultiheadAttention, the gate on concatenated vectors, and the pool read anew for each pointer. `grouped` is the
straightforward way to train: the pool read once for all pointers of a query.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812  torch's own convention

from models.pointer import PointerConfig


class StraightforwardPointer(nn.Module):
    """Its weights have the names of ours, so that either can have the other's."""

    def __init__(self, config: PointerConfig) -> None:
        super().__init__()
        self.config = config
        width = config.hidden
        self.input_proj = nn.Linear(config.embedding_dim, width, bias=False)
        self.cross_attn_layers = nn.ModuleList(
            nn.MultiheadAttention(width, config.heads, dropout=config.attention_dropout, batch_first=True)
            for _ in range(config.layers)
        )
        self.attn_norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(config.layers))
        self.dropout = nn.Dropout(config.dropout)
        self.query_proj = nn.Linear(width, width, bias=False)
        self.cand_proj = nn.Linear(width, width, bias=False)
        if config.gate:
            self.query_update_gate = nn.Linear(2 * width, width)

    def encode(self, query: Tensor, pool: Tensor) -> tuple[Tensor, Tensor]:
        """States (B, H) and keys (B, K, H) of queries (B, d) and pools (B, K, d)."""
        candidates = self.input_proj(pool)
        state = self.input_proj(query)[:, None]
        for attend, norm in zip(self.cross_attn_layers, self.attn_norms, strict=True):
            state = norm(attend(state, candidates, candidates, need_weights=False)[0] + state)
        state = F.normalize(self.query_proj(self.dropout(state[:, 0])), dim=-1)
        return state, F.normalize(self.cand_proj(self.dropout(candidates)), dim=-1)

    def update(self, state: Tensor, chosen: Tensor) -> Tensor:
        """States (…, H) that have taken in what was chosen (…, H)."""
        if not self.config.gate:
            return state
        gate = torch.sigmoid(self.query_update_gate(torch.cat([state, chosen], dim=-1)))
        return F.normalize(gate * state + (1 - gate) * chosen, dim=-1)

    def forward(self, query: Tensor, pool: Tensor, pointer: Tensor) -> Tensor:
        """Log-probabilities (B, S) of one pointer (B, S) for each query."""
        state, keys = self.encode(query, pool)
        used = torch.zeros(keys.shape[:2], dtype=torch.bool)
        steps: list[Tensor] = []
        for picked in pointer.unbind(1):
            steps.append(self._log_probs(state, keys, used).gather(1, picked[:, None])[:, 0])
            used = used.scatter(1, picked[:, None], True)
            state = self.update(state, keys[torch.arange(len(keys)), picked])
        return torch.stack(steps, dim=1)

    def draw(self, query: Tensor, pool: Tensor, shots: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """One pointer (B, S) for each query, with its log-probabilities."""
        state, keys = self.encode(query, pool)
        used = torch.zeros(keys.shape[:2], dtype=torch.bool)
        pointer: list[Tensor] = []
        steps: list[Tensor] = []
        for _ in range(shots):
            log_probs = self._log_probs(state, keys, used)
            picked = torch.multinomial(log_probs.exp(), 1, generator=generator)[:, 0]
            pointer.append(picked)
            steps.append(log_probs.gather(1, picked[:, None])[:, 0])
            used = used.scatter(1, picked[:, None], True)
            state = self.update(state, keys[torch.arange(len(keys)), picked])
        return torch.stack(pointer, dim=1), torch.stack(steps, dim=1)

    def grouped(self, query: Tensor, pool: Tensor, pointers: Tensor) -> Tensor:
        """Log-probabilities (B, G) of pointers (B, G, S), the pool read once for all of a query."""
        state, keys = self.encode(query, pool)
        group = pointers.shape[1]
        state = state[:, None].expand(-1, group, -1)
        used = torch.zeros(len(keys), group, keys.shape[1], dtype=torch.bool)
        total = torch.zeros(pointers.shape[:2], dtype=state.dtype)
        for picked in pointers.unbind(-1):
            log_probs = self._log_probs(state, keys, used)
            total = total + log_probs.gather(-1, picked[..., None])[..., 0]
            used = used.scatter(-1, picked[..., None], True)
            state = self.update(state, keys[torch.arange(len(keys))[:, None], picked])
        return total

    def _log_probs(self, state: Tensor, keys: Tensor, used: Tensor) -> Tensor:
        """Of each candidate: (B, K) from states (B, H), (B, G, K) from (B, G, H)."""
        cosines = keys @ state[..., None] if state.ndim == 2 else state @ keys.transpose(1, 2)
        cosines = cosines[..., 0] if state.ndim == 2 else cosines
        return F.log_softmax((cosines / self.config.temperature).masked_fill(used, float("-inf")), dim=-1)
