"""How likely texts that begin alike are: what several of them have in common is read once.

The texts of a pack are a tree of tokens. It is read as one row in which a token sees its own ancestors alone, and has
its depth for its position; the log-probabilities are those of the texts read one by one, up to rounding.

Source of the mask: Miao et al. 2023, "SpecInfer", arXiv:2305.09781, who verify drafts with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from models.causal_weights import Loaded
from models.protocols import LogProb
from models.token_likelihoods import Window

PACKED_TOKENS = 512
"""Tokens that are read at once: with more, what they see of each other costs more than it saves."""
ARCHITECTURES = ("llama", "qwen2", "qwen3")
"""Models whose every layer sees all that the mask shows, and whose positions are given beside the tokens."""


class Tree(NamedTuple):
    """Tokens of several texts, each common beginning once; a token comes after its parent."""

    tokens: list[int]
    parents: list[int]  # -1: none
    ends: list[int]  # place of the last token that each text reads


def reads_trees(loaded: Loaded) -> bool:
    """True for a model on a CPU whose architecture is known to take tree-shaped attention masks."""
    config = loaded.model.config
    slides = getattr(config, "use_sliding_window", False) or getattr(config, "model_type", "") not in ARCHITECTURES
    return not slides and loaded.model.device.type == "cpu"


def packs_of(windows: Iterable[Window], *, most_tokens: int = PACKED_TOKENS) -> Iterator[list[Window]]:
    """The windows in packs of so many distinct tokens; those that begin alike stand together."""
    pack, size, before = list[Window](), 0, tuple[int, ...]()
    for window in sorted(windows, key=lambda one: one.read):
        new = len(window.read) - _alike(before, window.read)
        if pack and size + new > most_tokens:
            yield pack
            pack, size, new = [], 0, len(window.read)
        pack.append(window)
        size, before = size + new, window.read
    if pack:
        yield pack


def tree_of(windows: Sequence[Window]) -> Tree:
    """The tokens that the windows read, each common beginning once. windows: sorted by `read`."""
    tree, path, before = Tree([], [], []), list[int](), tuple[int, ...]()
    for window in windows:
        del path[_alike(before, window.read) :]
        for token in window.read[len(path) :]:
            tree.parents.append(path[-1] if path else -1)
            path.append(len(tree.tokens))
            tree.tokens.append(token)
        tree.ends.append(path[-1])
        before = window.read
    return tree


@torch.inference_mode()
def score_pack(loaded: Loaded, windows: Sequence[Window]) -> list[tuple[Window, LogProb]]:
    """Each window of a pack with the log-probability (natural) of what it predicts, in one forward pass."""
    tree = tree_of(windows)
    places = [_last(tree, end, len(window.predicted)) for window, end in zip(windows, tree.ends, strict=True)]
    wanted = sorted({place for some in places for place in some})
    logs = _logits(loaded.model, tree, wanted).float().log_softmax(-1)  # (len(wanted), V)
    row, likeliest = {place: number for number, place in enumerate(wanted)}, logs.argmax(-1).tolist()
    found = list[tuple[Window, LogProb]]()
    for window, some in zip(windows, places, strict=True):
        rows = [row[place] for place in some]
        total = logs[rows, list(window.predicted)].sum()
        greedy = all(likeliest[one] == token for one, token in zip(rows, window.predicted, strict=True))
        found.append((window, LogProb(float(total), greedy)))
    return found


def _logits(model: Any, tree: Tree, places: Sequence[int]) -> Tensor:
    """(len(places), V)."""
    count = len(tree.tokens)
    sees, depth = torch.eye(count, dtype=torch.bool), [0] * count
    for place, parent in enumerate(tree.parents):
        if parent >= 0:
            sees[place] |= sees[parent]
            depth[place] = depth[parent] + 1
    hidden = torch.zeros(sees.shape, dtype=model.dtype).masked_fill(~sees, torch.finfo(model.dtype).min)
    return model(
        input_ids=torch.tensor([tree.tokens]),
        attention_mask=hidden[None, None],
        position_ids=torch.tensor([depth]),
        use_cache=False,
        logits_to_keep=torch.tensor(places),
    ).logits[0]


def _last(tree: Tree, end: int, count: int) -> list[int]:
    """The last so many places of a text, in order."""
    places = [end]
    while len(places) < count:
        places.append(tree.parents[places[-1]])
    return places[::-1]


def _alike(one: Sequence[int], other: Sequence[int]) -> int:
    """Number of tokens that both begin with."""
    most = min(len(one), len(other))
    return next((place for place in range(most) if one[place] != other[place]), most)
