"""Texts that begin alike: what they have in common is read once, and they are as likely as alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from models.causal_lm import CausalLM
from models.causal_weights import Loaded
from models.token_likelihoods import (
    Tree,
    Window,
    packs_of,
    pair_windows,
    reads_trees,
    score,
    score_pack,
    shared_rows,
    tree_of,
)
from tests.models.tiny import make_tiny_model

SHOWN = ("word1 word2", "word1 word3", "word1 word2 word4", "word5")
LABELS = (" word6", " word7 word8", " word7 word9", " other")


def opened(folder: Path) -> Loaded:
    return CausalLM(str(make_tiny_model(folder)))._load()  # pyright: ignore[reportPrivateUsage]


def window(*read: int, predicted: int = 1) -> Window:
    return Window(0, read, (9,) * predicted)


def test_a_common_beginning_stands_in_the_tree_once() -> None:
    tree = tree_of([window(1, 2, 3), window(1, 2, 4, 5), window(6)])
    assert tree == Tree(tokens=[1, 2, 3, 4, 5, 6], parents=[-1, 0, 1, 1, 3, -1], ends=[2, 4, 5])


def test_packs_hold_so_many_distinct_tokens_and_what_begins_alike_together() -> None:
    windows = [window(1, 2, 3), window(4, 5), window(1, 2, 6), window(4, 7)]
    packs = list(packs_of(windows, most_tokens=4))
    assert packs == [[windows[0], windows[2]], [windows[1], windows[3]]]
    assert [len(tree_of(pack).tokens) for pack in packs] == [4, 3]


@pytest.mark.parametrize("most_tokens", [1, 40, 512])
def test_texts_are_as_likely_as_one_by_one(tmp_path: Path, most_tokens: int) -> None:
    loaded = opened(tmp_path)
    assert reads_trees(loaded)
    contexts = [f"{shown}\n{asked}" for shown in SHOWN for asked in ("word10 is", "word10 word11 is")]
    groups = pair_windows(loaded, [(context, label) for context in contexts for label in LABELS])
    windows = [one for group in groups for one in group]
    alone = {one: next(iter(score(loaded, shared_rows([one]))))[1] for one in windows}
    packed = [pair for pack in packs_of(windows, most_tokens=most_tokens) for pair in score_pack(loaded, pack)]
    assert len(packed) == len(windows) == len(set(windows))
    assert {one: found.total for one, found in packed} == pytest.approx(
        {one: alone[one].total for one in alone}, abs=1e-5
    )
    assert {one: found.greedy for one, found in packed} == {one: alone[one].greedy for one in alone}


def test_what_begins_another_text_shares_its_row_and_the_longest_row_is_first() -> None:
    short, long, other = Window(0, (1, 2), (7,)), Window(1, (1, 2, 7, 8), (7, 8, 9)), Window(2, (1, 3, 4), (5,))
    again = Window(3, (1, 2), (6,))
    assert shared_rows([short, other, again, long]) == [
        ((1, 2, 7, 8), [long, short, again]),
        ((1, 3, 4), [other]),
    ]
    assert len(shared_rows([Window(0, (1, 2, 3), (4,)), Window(1, (2, 3), (4,))])) == 2


def test_layers_that_see_a_window_alone_are_not_read_so(tmp_path: Path) -> None:
    loaded = opened(tmp_path)
    loaded.model.config.use_sliding_window = True
    assert not reads_trees(loaded)
    loaded.model.config.use_sliding_window, loaded.model.config.model_type = False, "mistral"
    assert not reads_trees(loaded)
