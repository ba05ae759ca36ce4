"""Keys and values that grow in place, and attention that reads them once for each group of heads."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM
from transformers.cache_utils import DynamicLayer

from models.decoding import GROUPED, GrowingLayer, growing_cache, read_in_groups

SMALL: dict[str, Any] = {
    "vocab_size": 40,
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}


@pytest.mark.parametrize("most", [7, 600], ids=["short", "long"])
def test_a_layer_holds_what_one_of_transformers_does(most: int) -> None:
    torch.manual_seed(0)
    ours, theirs = GrowingLayer(most), DynamicLayer()
    for step, tokens in enumerate((5, 1, 1, 130, 1, 1)):
        rows = 3 if step < 4 else 2
        new = torch.rand(rows, 2, tokens, 4), torch.rand(rows, 2, tokens, 4)
        for one, other in zip(ours.update(*new), theirs.update(*new), strict=True):
            assert torch.equal(one, other)
        if step == 3:
            for layer in (ours, theirs):
                layer.batch_select_indices(torch.tensor([0, 2]))
    assert ours.get_seq_length() == theirs.get_seq_length() == 139


@pytest.mark.parametrize("heads", [1, 2, 4])
def test_attention_in_groups_is_that_of_repeated_heads(heads: int) -> None:
    torch.manual_seed(0)
    model: Any = LlamaForCausalLM(LlamaConfig(**SMALL, num_key_value_heads=heads)).eval()
    given = {"input_ids": torch.randint(1, 40, (3, 6)), "attention_mask": torch.ones(3, 6, dtype=torch.long)}
    given["attention_mask"][0, :4] = 0
    how = {"max_new_tokens": 8, "do_sample": False, "pad_token_id": 0, "eos_token_id": None}

    def logits() -> torch.Tensor:
        made = model.generate(**given, **how, output_logits=True, return_dict_in_generate=True)
        return torch.stack(made.logits)

    before = logits()
    read_in_groups(model)
    assert model.config._attn_implementation == GROUPED
    assert torch.allclose(logits(), before, atol=1e-5)


def test_a_model_that_forgets_keeps_its_own_cache() -> None:
    sliding = MistralForCausalLM(MistralConfig(**SMALL, num_key_value_heads=2, sliding_window=4))
    assert growing_cache(sliding, 100) is None
    assert growing_cache(SimpleNamespace(config=LlamaConfig(**SMALL)), 100) is not None
