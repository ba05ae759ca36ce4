"""The pointer network: it reads a query and its pool, and picks demonstrations one after the other.

A pool is encoded once, however many pointers of it are drawn, searched for or scored; all of them go through the same
`step` and `advance`. Shapes: B queries, K candidates of each, G pointers of each, S picks, embeddings of width d,
states of width H.
Source: pointer networks, Vinyals et al. 2015, arXiv:1506.03134; the layout of the weights is Lever-Plus's
(yunsoft2019/Lever-Plus), so that its checkpoints load.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import NamedTuple, Self

import torch
from pydantic import BaseModel, ConfigDict, Field, model_validator
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812  torch's own convention


class PointerConfig(BaseModel):
    """Everything that determines the answers of the network, except its weights."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    hidden: int = Field(default=256, ge=1)
    """Width of the hidden states."""
    layers: int = Field(default=3, ge=0)
    """Cross-attention layers; 0: a bi-encoder."""
    heads: int = Field(default=1, ge=1)
    """Attention heads of each layer."""
    dropout: float = Field(default=0.5, ge=0, lt=1)
    """Dropout rate on query and candidate states."""
    attention_dropout: float = Field(default=0.1, ge=0, lt=1)
    """Dropout rate on the attention weights."""
    gate: bool = True
    """Update the state after each pick; false: an ablation without the gate."""
    embedding_dim: int = Field(default=512, ge=1)
    """Width of the embeddings of queries and candidates."""
    temperature: float = Field(default=0.1, gt=0)
    """Logits are cosines divided by this."""

    @model_validator(mode="after")
    def _heads_share_the_width(self) -> Self:
        if self.hidden % self.heads:
            raise ValueError(f"{self.heads} heads cannot share a width of {self.hidden}; choose a divisor of it")
        return self


class Encoded(NamedTuple):
    """Queries after attending to their pools, and the keys of the candidates; B queries, K candidates, width H."""

    state: Tensor  # (B, H), unit length
    keys: Tensor  # (B, K, H), unit length
    usable: Tensor  # (B, K) bool; False is padding


class Drawn(NamedTuple):
    """Pointers and their log-probabilities under the policy; B queries, G pointers of each, S picks."""

    pointers: Tensor  # (B, G, S) int64 positions in the pool, in the order of the picks
    log_probs: Tensor  # (B, G, S) of each pick, at temperature 1 whatever they were drawn at


class PointerSelector(nn.Module):
    """Scores ordered choices of candidates. Dropout follows train() and eval(), except that generation has none.

    Weights and dropout draw from torch's default generator: seed it around construction and training.
    Raises ValueError for embeddings of another width, pointers outside the pool, and pools smaller than a pointer.
    """

    def __init__(self, config: PointerConfig) -> None:
        super().__init__()
        self.config = config
        width = config.hidden
        self.input_proj = nn.Linear(config.embedding_dim, width, bias=False)
        self.cross_attn_layers = nn.ModuleList(
            PoolAttention(width, heads=config.heads, dropout=config.attention_dropout) for _ in range(config.layers)
        )
        self.attn_norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(config.layers))
        self.dropout = nn.Dropout(config.dropout)
        self.query_proj = _near_identity(width)
        self.cand_proj = _near_identity(width)
        nn.init.xavier_uniform_(self.input_proj.weight)
        if config.gate:
            self.query_update_gate = nn.Linear(2 * width, width)
            nn.init.zeros_(self.query_update_gate.bias)  # about half open at first

    def encode(self, query: Tensor, pool: Tensor, usable: Tensor | None = None) -> Encoded:
        """Encode queries (B, d) and their pools (B, K, d); `usable` (B, K) is False at padding. Raises ValueError."""
        if query.ndim != 2 or pool.ndim != 3 or len(query) != len(pool):
            raise ValueError(f"queries {tuple(query.shape)} and pools {tuple(pool.shape)}: must be (B, d), (B, K, d)")
        if {query.shape[-1], pool.shape[-1]} != {self.config.embedding_dim}:
            raise ValueError(
                f"queries of width {query.shape[-1]} and candidates of width {pool.shape[-1]}: this network reads "
                f"{self.config.embedding_dim}; use the embeddings of the encoder that it was trained with"
            )
        if usable is None:
            usable = torch.ones(pool.shape[:2], dtype=torch.bool, device=pool.device)
        state = self.input_proj(query)  # (B, H)
        for attend, norm in zip(self.cross_attn_layers, self.attn_norms, strict=True):
            state = norm(attend(state, pool, usable, projection=self.input_proj.weight) + state)
        state = F.normalize(self.query_proj(self.dropout(state)), dim=-1)
        # for fewer candidates than the width, the product of the weights costs more than it saves
        if (self.training and self.config.dropout > 0) or pool.shape[:2].numel() < self.config.embedding_dim:
            keys = self.cand_proj(self.dropout(self.input_proj(pool)))  # (B, K, H)
        else:
            # nothing stands between the two: their product is multiplied once for all candidates
            keys = F.linear(pool, self.cand_proj.weight @ self.input_proj.weight)
        keys = F.normalize(keys, dim=-1)
        return Encoded(state, keys, usable)

    def step(self, state: Tensor, keys: Tensor, blocked: Tensor) -> Tensor:
        """Return the logits (B, G, K) of the next pick from states (B, G, H); −inf where `blocked` (B, G, K)."""
        # cosines in half precision would be off by .02 of a logit, and every ratio of policies with them
        with torch.autocast(state.device.type, enabled=False):
            cosines = _at_least_float(state) @ _at_least_float(keys).mT
        return (cosines / self.config.temperature).masked_fill(blocked, -math.inf)

    def advance(self, state: Tensor, keys: Tensor, picked: Tensor) -> Tensor:
        """Return the states (B, G, H) after the picks (B, G); `state` may be (B, 1, H), the same for all of a query."""
        return self.take_in(state, _rows(keys, picked))

    def take_in(self, state: Tensor, picked_keys: Tensor) -> Tensor:
        """Return the states (B, G, H) after picks whose keys (B, G, H) are at hand; see `advance`."""
        if not self.config.gate:
            return state.expand_as(picked_keys)
        weight, bias = self.query_update_gate.weight, self.query_update_gate.bias
        # one half of the gate at a time: what all pointers of a query share is multiplied once
        of_state, of_chosen = weight.chunk(2, dim=1)
        opening = F.linear(state, of_state) + F.linear(picked_keys, of_chosen, bias)
        return F.normalize(picked_keys + torch.sigmoid(opening) * (state - picked_keys), dim=-1)

    def log_probs(self, query: Tensor, pool: Tensor, pointers: Tensor, usable: Tensor | None = None) -> Tensor:
        """Return the log-probability (B, G, S) of each pick of given pointers (B, G, S), after the picks before it.

        −inf for a pick that the policy cannot make: padding, or a position that this pointer has taken already.
        """
        return self.score(self.encode(query, pool, usable), pointers)

    forward = log_probs

    def score(self, encoded: Encoded, pointers: Tensor) -> Tensor:
        """Return log-probabilities (B, G, S) of pointers (B, G, S) into encoded pools; see `log_probs`.

        Raises ValueError for positions outside the pool, and for pools smaller than a pointer.
        """
        _, group, shots = pointers.shape
        _fewest_usable(encoded, shots)
        last = encoded.keys.shape[1] - 1
        if pointers.numel() and not 0 <= int(pointers.min()) <= int(pointers.max()) <= last:
            raise ValueError(
                f"pointers from {int(pointers.min())} to {int(pointers.max())}: the pool has positions 0 to {last}"
            )
        return self._walk(encoded, lambda number, _: pointers[..., number], shots=shots, group=group).log_probs

    def sample(
        self,
        query: Tensor,
        pool: Tensor,
        *,
        shots: int,
        draws: int,
        temperature: float,
        generator: torch.Generator,
        usable: Tensor | None = None,
    ) -> Drawn:
        """Return `draws` independent pointers of each query; no position repeats in a pointer. Raises ValueError."""
        if temperature <= 0:
            raise ValueError(f"temperature {temperature}: must be above 0; `greedy` takes the likeliest")

        def draw(_: int, log_probs: Tensor) -> Tensor:
            weights = torch.softmax(log_probs / temperature, dim=-1).flatten(0, 1)
            picked = torch.multinomial(weights.to(generator.device), 1, generator=generator)  # it draws where it lives
            return picked.to(log_probs.device).view(log_probs.shape[:2])

        with torch.no_grad(), self.without_dropout():
            encoded = self.encode(query, pool, usable)
            _fewest_usable(encoded, shots)
            return self._walk(encoded, draw, shots=shots, group=draws)

    def beam(self, query: Tensor, pool: Tensor, *, shots: int, width: int, usable: Tensor | None = None) -> Drawn:
        """Return the likeliest pointers that a beam search finds, best first; exhaustive for two shots if `width` ≥ K.

        G is `width`, or less where the smallest pool has fewer ordered choices.
        """
        with torch.no_grad(), self.without_dropout():
            encoded = self.encode(query, pool, usable)
            fewest, candidates = _fewest_usable(encoded, shots), pool.shape[1]
            state, blocked = encoded.state[:, None], ~encoded.usable[:, None]  # (B, 1, H), (B, 1, K)
            pointers = torch.empty(len(pool), 1, 0, dtype=torch.int64, device=pool.device)
            steps = torch.empty(len(pool), 1, 0, dtype=state.dtype, device=pool.device)
            for number in range(1, shots + 1):
                log_probs = F.log_softmax(self.step(state, encoded.keys, blocked), dim=-1)  # (B, W, K)
                total = (steps.sum(-1, keepdim=True) + log_probs).flatten(1)
                # a pool that is mostly padding may have fewer prefixes: those at −inf fall out at the end
                likeliest = total.topk(min(width, math.perm(candidates, number))).indices
                parents, picked = likeliest // candidates, likeliest % candidates
                pick_log_probs = log_probs.flatten(1).gather(1, likeliest)[..., None]
                pointers = torch.cat([_rows(pointers, parents), picked[..., None]], dim=-1)
                steps = torch.cat([_rows(steps, parents), pick_log_probs], dim=-1)
                blocked = _block(_rows(blocked, parents), picked)
                state = self.advance(_rows(state, parents), encoded.keys, picked)
        count = min(width, math.perm(fewest, shots))
        return Drawn(pointers[:, :count], steps[:, :count])

    def greedy(self, query: Tensor, pool: Tensor, *, shots: int, usable: Tensor | None = None) -> Tensor:
        """Return the pointer (B, S) whose every pick is the likeliest."""
        return self.beam(query, pool, shots=shots, width=1, usable=usable).pointers[:, 0]

    def _walk(self, encoded: Encoded, pick: Callable[[int, Tensor], Tensor], *, shots: int, group: int) -> Drawn:
        """Return `shots` picks in turn; `pick` gives positions (B, G) from a step's number and log-probs (B, G, K)."""
        state, blocked = encoded.state[:, None], ~encoded.usable[:, None]  # (B, 1, H), (B, 1, K): shared until a pick
        pointers: list[Tensor] = []
        steps: list[Tensor] = []
        for number in range(shots):
            if number:
                state, blocked = self.advance(state, encoded.keys, pointers[-1]), _block(blocked, pointers[-1])
            log_probs = F.log_softmax(self.step(state, encoded.keys, blocked), dim=-1).expand(-1, group, -1)
            pointers.append(pick(number, log_probs))
            steps.append(log_probs.gather(-1, pointers[-1][..., None])[..., 0])
        return Drawn(torch.stack(pointers, dim=-1), torch.stack(steps, dim=-1))

    @contextmanager
    def without_dropout(self) -> Generator[None]:
        """Turn dropout off inside the block: the log-probabilities are then the policy's own."""
        training = self.training
        self.eval()
        try:
            yield
        finally:
            self.train(training)


def _near_identity(width: int) -> nn.Linear:
    """Return a projection near the identity: at first cosines are nearly those of the vectors themselves."""
    layer = nn.Linear(width, width, bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.eye(width) + 0.01 * torch.randn(width, width))  # as Lever-Plus does
    return layer


def _at_least_float(values: Tensor) -> Tensor:
    return values.to(torch.promote_types(values.dtype, torch.float32))  # float64 stays float64


def _block(blocked: Tensor, picked: Tensor) -> Tensor:
    """Return the flags (B, G, K) with the picks (B, G) blocked as well."""
    return blocked.expand(-1, picked.shape[1], -1).scatter(-1, picked[..., None], True)


def _rows(values: Tensor, rows: Tensor) -> Tensor:
    """Return (B, G, …) of values (B, N, …): for each query its rows (B, G)."""
    return values.gather(1, rows[..., None].expand(-1, -1, values.shape[-1]))


def _fewest_usable(encoded: Encoded, shots: int) -> int:
    """Return the fewest usable candidates of any pool. Raises ValueError if a pointer cannot be filled."""
    fewest = int(encoded.usable.sum(-1).min())
    if not 1 <= shots <= fewest:
        raise ValueError(f"{shots} picks from a pool of {fewest}; pick at least 1 and at most as many as there are")
    return fewest


class PoolAttention(nn.Module):
    """Attention of one state per pool over that pool; parameters and results are nn.MultiheadAttention's.

    With a single state neither keys and values nor the candidates themselves need be computed: q·(W c) = (Wᵀq)·c, and
    the weighted sum of W c is W times the weighted sum of c. A head takes 2·K·d multiplications instead of 2·K·H².
    """

    def __init__(self, width: int, *, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.in_proj_weight = nn.Parameter(torch.empty(3 * width, width))
        self.in_proj_bias = nn.Parameter(torch.zeros(3 * width))
        self.out_proj = nn.Linear(width, width)
        nn.init.xavier_uniform_(self.in_proj_weight)
        nn.init.zeros_(self.out_proj.bias)

    def forward(self, state: Tensor, pool: Tensor, usable: Tensor, *, projection: Tensor) -> Tensor:
        """Return (B, H) from states (B, H) and pools (B, K, d); a candidate is `projection` (H, d) times its row."""
        of_query, of_key, of_value = (part.unflatten(0, (self.heads, -1)) for part in self.in_proj_weight.chunk(3))
        # the bias of the keys adds the same to all scores of a state, which the softmax does not see
        bias_of_query, _, bias_of_value = (part.unflatten(0, (self.heads, -1)) for part in self.in_proj_bias.chunk(3))
        queries = torch.einsum("bw,hdw->bhd", state, of_query) + bias_of_query
        queries = queries / math.sqrt(queries.shape[-1])  # (B, heads, H / heads)
        queries = torch.einsum("bhd,hdw->bhw", queries, of_key) @ projection  # (B, heads, d)
        weights = torch.softmax((queries @ pool.mT).masked_fill(~usable[:, None], -math.inf), dim=-1)  # (B, heads, K)
        weights = F.dropout(weights, self.dropout, self.training)
        read = torch.einsum("bhw,hdw->bhd", weights @ pool @ projection.T, of_value)
        read = read + weights.sum(-1, keepdim=True) * bias_of_value  # dropped weights no longer sum to 1
        return self.out_proj(read.flatten(1))
