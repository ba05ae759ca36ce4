"""Continuations of one context: a model reads what they have in common once."""

from __future__ import annotations

from pathlib import Path

import pytest

from models.causal_lm import CausalLM
from models.token_likelihoods import Window, shared_rows
from tests.models.tiny import make_tiny_model


def test_what_begins_another_text_shares_its_row_and_the_longest_row_is_first() -> None:
    short, long, other = Window(0, (1, 2), (7,)), Window(1, (1, 2, 7, 8), (7, 8, 9)), Window(2, (1, 3, 4), (5,))
    again = Window(3, (1, 2), (6,))
    assert shared_rows([short, other, again, long]) == [
        ((1, 2, 7, 8), [long, short, again]),
        ((1, 3, 4), [other]),
    ]


def test_a_text_that_only_ends_like_another_has_a_row_of_its_own() -> None:
    assert len(shared_rows([Window(0, (1, 2, 3), (4,)), Window(1, (2, 3), (4,))])) == 2


def test_labels_of_several_lengths_are_as_likely_together_as_alone(tmp_path: Path) -> None:
    model = CausalLM(str(make_tiny_model(tmp_path)))
    pairs = [
        (context, label) for context in ("Say it", "Say it and go on") for label in (" a", " a b", " a b c d", " z")
    ]
    together = dict(model.loglikelihood(pairs))
    alone = [dict(model.loglikelihood([pair]))[0] for pair in pairs]
    assert [together[number].total for number in range(len(pairs))] == pytest.approx([one.total for one in alone])
    assert [together[number].greedy for number in range(len(pairs))] == [one.greedy for one in alone]
