"""Log-probabilities read off the tables of all pointers are those of the network."""

from __future__ import annotations

import pytest
import torch

from tasks.lever.learning import losses as reference_policy
from tasks.lever.learning.losses import Reference
from tasks.lever.learning.training_inputs import Material
from tests.lever.small_trainings import small_groups, small_start


@pytest.mark.parametrize(
    ("exact", "most_bytes"),
    [(True, 1 << 28), (True, 0), (False, 0)],
    ids=["tables kept", "tables too large to keep", "no tables"],
)
def test_a_reference_gives_the_log_probabilities_of_its_selector(
    exact: bool, most_bytes: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(reference_policy, "MOST_KEPT_BYTES", most_bytes)
    monkeypatch.setattr(reference_policy, "CHUNK", 7)
    groups, selector = small_groups(), small_start()
    material = Material.of(groups, selector, device=torch.device("cpu"))
    frozen = Reference(selector, material, shots=2, exact=exact)
    with torch.no_grad():
        expected = selector.log_probs(groups.queries, groups.bank[groups.pools], groups.pointers).sum(-1)
    torch.testing.assert_close(frozen.log_probs(groups.pointers), expected)
