"""Log-probabilities read off the tables of all pointers are those of the network."""

from __future__ import annotations

import pytest
import torch

from tasks.lever.learning import losses as reference_policy
from tasks.lever.learning.losses import Reference, score
from tasks.lever.learning.training_inputs import Material
from tests.lever.small_policies import all_pointers, problem, small_selector
from tests.lever.small_trainings import small_groups, small_start


def test_a_policy_says_the_same_with_and_without_tables():
    selector, given = small_selector(), problem()
    pointers = all_pointers(5, 2, queries=2)
    with torch.no_grad():
        exact, plain = (score(selector, *given, pointers, exact=exact) for exact in (True, False))
    torch.testing.assert_close(exact.log_probs, plain.log_probs)
    assert (len(exact.tables), len(plain.tables)) == (2, 0)


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
