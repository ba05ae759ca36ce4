"""Selectors come back from their files as they were, and no other file passes for one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save

from models.pointer import PointerConfig, PointerSelector
from tasks.lever.learning.checkpoints import load_selector, save_selector
from tasks.lever.lever_errors import FileUnusable
from tests.lever.seed_files import CONFIG, seed_state

ROOT = Path(__file__).parents[2]
META = {"stage": "sft", "chosen_epoch": 3, "encoder": "digits@1"}


def selector(config: PointerConfig = CONFIG) -> PointerSelector:
    made = PointerSelector(config)
    made.load_state_dict(seed_state(config))
    return made.eval()


def written(state: dict[str, torch.Tensor], config: PointerConfig = CONFIG) -> bytes:
    about = {"format": "trivet pointer selector", "config": config.model_dump(), "meta": {}}
    return save(state, metadata={"trivet": json.dumps(about)})


def test_one_that_began_as_a_rule_is_refused_with_a_remedy() -> None:
    about = {"format": "trivet pointer selector", "config": CONFIG.model_dump() | {"prior": "similarity"}, "meta": {}}
    with pytest.raises(FileUnusable, match=r"begins as a rule .* train it anew, or use a better rule"):
        load_selector(save(dict(seed_state()), metadata={"trivet": json.dumps(about)}))


@pytest.mark.parametrize("changes", [{}, {"layers": 0}, {"gate": False}, {"heads": 2, "dropout": 0.0}], ids=str)
def test_a_selector_comes_back_with_its_weights_and_configuration(changes: dict[str, int]) -> None:
    original = selector(CONFIG.model_copy(update=changes))
    again = load_selector(save_selector(original, meta=META))
    assert again.config == original.config
    assert all(torch.equal(value, original.state_dict()[key]) for key, value in again.state_dict().items())
    assert not again.training


def test_equal_selectors_give_equal_bytes_in_every_process() -> None:
    code = (
        "import sys; from tests.lever.test_checkpoints import META, selector;"
        "from tasks.lever.learning.checkpoints import save_selector;"
        "sys.stdout.buffer.write(save_selector(selector(), meta=dict(reversed(META.items()))))"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT)}  # the working folder may be no place of modules
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, env=environment)
    assert other.stdout == save_selector(selector(), meta=META)


STATE = dict(seed_state())


@pytest.mark.parametrize(
    ("state", "said"),
    [
        pytest.param(
            {**STATE, "cand_proj.weight": torch.ones(8, 7)}, r"for cand_proj\.weight: .*\[8, 7\].*\[8, 8\]", id="shape"
        ),
        pytest.param(
            {**STATE, "cand_proj.weight": torch.ones(8, 8) / 0}, "cand_proj.weight: not finite", id="infinite"
        ),
    ],
)
def test_other_weights_are_refused_by_name(state: dict[str, torch.Tensor], said: str) -> None:
    with pytest.raises(FileUnusable, match=said):
        load_selector(written(state))


@pytest.mark.parametrize(
    "config",
    [
        CONFIG.model_copy(update={"layers": 10**9}),
        CONFIG.model_copy(update={"hidden": 10**9}),
        CONFIG.model_copy(update={"embedding_dim": 10**18}),
        CONFIG.model_copy(update={"layers": 3}),
        CONFIG.model_copy(update={"gate": False}),
    ],
    ids=["layers", "hidden", "embedding", "one layer more", "no gate"],
)
def test_a_configuration_that_is_not_of_the_weights_is_refused(config: PointerConfig) -> None:
    with pytest.raises(FileUnusable, match="weights"):
        load_selector(written(STATE, config))


WHOLE = save_selector(selector(), meta=META)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(WHOLE[:100], id="cut in the header"),
        pytest.param(WHOLE.replace(b'\\"heads\\": 1', b'\\"heads\\": 3'), id="heads that do not divide"),
    ],
)
def test_other_files_are_refused(data: bytes) -> None:
    with pytest.raises(FileUnusable, match="no selector of ours"):
        load_selector(data)
