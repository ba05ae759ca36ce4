"""Keys and values of a batch that is being answered: they grow in place, and rows leave once they are done.

The cache of transformers is copied whole for each token, and its attention repeats keys and values for every head of a
group. Here a token is written into room that is there, and the heads of a group are read together as rows of a query.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, DynamicCache
from transformers.cache_utils import DynamicLayer
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

GROUPED = "sdpa_grouped"
"""Name of the attention below, as models of transformers are given it."""
FIRST_ROOM = 128
"""Tokens that there is room for beyond those of the prompts; it doubles whenever it is full."""


class GrowingLayer(DynamicLayer):
    """Keys and values of one layer, (rows, heads, tokens, size): views of larger tensors."""

    def __init__(self, most: int) -> None:
        """most: tokens that a row can come to."""
        super().__init__()
        self._most = most
        self._room: tuple[Tensor, Tensor] | None = None

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """Append keys and values (rows, heads, new tokens, size); gives all of them, as views of what is kept."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        before = self.get_seq_length()
        after = before + key_states.shape[-2]
        if self._room is None or self._room[0].shape[-2] < after:
            tokens = max(after, min(self._most, after + max(before, FIRST_ROOM)))
            self._room = (_roomier(self.keys, key_states, tokens), _roomier(self.values, value_states, tokens))
        for room, new in zip(self._room, (key_states, value_states), strict=True):
            room[..., before:after, :] = new
        self.keys, self.values = (room[..., :after, :] for room in self._room)
        return self.keys, self.values

    def batch_select_indices(self, indices: Tensor) -> None:
        """Keep these rows, in this order; room for more tokens is made anew."""
        super().batch_select_indices(indices)
        self._room = None


def _roomier(old: Tensor | None, new: Tensor, tokens: int) -> Tensor:
    room = new.new_empty((*new.shape[:-2], tokens, new.shape[-1]))
    if old is not None and old.numel():
        room[..., : old.shape[-2], :] = old
    return room


def growing_cache(model: Any, most: int) -> DynamicCache | None:
    """An empty cache for rows of at most so many tokens; None for a model that keeps something else than all keys."""
    cache: Any = DynamicCache(config=model.config)
    if not cache.layers or any(type(layer) is not DynamicLayer for layer in cache.layers):
        return None
    cache.layers = [GrowingLayer(most) for _ in cache.layers]
    return cache


def keep_rows(cache: Any, rows: Sequence[int]) -> None:
    """Keep these rows of every layer, in this order, and let the others go."""
    cache.batch_select_indices(torch.tensor(rows))  # layers may lie on several devices


def read_in_groups(model: Any) -> None:
    """Have a model whose heads share keys read them once for each group, where it would repeat them."""
    if getattr(model.config, "_attn_implementation", None) == "sdpa":
        model.set_attn_implementation(GROUPED)


def _attend(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **kwargs: Any
) -> tuple[Tensor, None]:
    """As `sdpa` of transformers; for one token a row, the heads of a group are the tokens of one head."""
    rows, heads, tokens, size = query.shape
    group = heads // key.shape[1]
    alike = attention_mask is None or attention_mask.shape[1] == 1  # for all heads
    if group == 1 or tokens > 1 or not alike or kwargs.get("position_bias") is not None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, **kwargs)
    attended = scaled_dot_product_attention(
        query.reshape(rows, heads // group, group, size), key, value, attn_mask=attention_mask, scale=kwargs["scaling"]
    )
    return attended.reshape(rows, 1, heads, value.shape[-1]), None


AttentionInterface.register(GROUPED, _attend)
AttentionMaskInterface.register(GROUPED, sdpa_mask)
