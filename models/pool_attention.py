"""Attention of one vector over a pool of many, without ever making keys and values of the pool."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812  torch's own convention


class PoolAttention(nn.Module):
    """Attention of one state per pool over that pool; parameters and results are nn.MultiheadAttention's.

    With a single state neither keys nor values of the candidates need be made, nor the candidates themselves from
    their embeddings: q·(W c) = (Wᵀq)·c, and the weighted sum of W c is W times the weighted sum of c. That is
    2·K·d multiplications a head instead of 2·K·H².
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
        """(B, H) from states (B, H) and pools (B, K, d) whose candidates are `projection` (H, d) times these."""
        of_query, of_key, of_value = (part.unflatten(0, (self.heads, -1)) for part in self.in_proj_weight.chunk(3))
        # the bias of the keys adds the same to all scores of a state, which the softmax does not see
        bias_of_query, _, bias_of_value = (part.unflatten(0, (self.heads, -1)) for part in self.in_proj_bias.chunk(3))
        asked = torch.einsum("bw,hdw->bhd", state, of_query) + bias_of_query
        asked = torch.einsum("bhd,hdw->bhw", asked / math.sqrt(asked.shape[-1]), of_key) @ projection  # (B, heads, d)
        weights = torch.softmax((asked @ pool.mT).masked_fill(~usable[:, None], -math.inf), dim=-1)  # (B, heads, K)
        weights = F.dropout(weights, self.dropout, self.training)
        read = torch.einsum("bhw,hdw->bhd", weights @ pool @ projection.T, of_value)
        read = read + weights.sum(-1, keepdim=True) * bias_of_value  # dropped weights no longer sum to 1
        return self.out_proj(read.flatten(1))
