"""Pointers that were not judged are replaced by possible ones, and those that were judged are kept."""

from __future__ import annotations

import torch

from tasks.lever.learning.training_inputs import possible_pointers
from tests.lever.small_trainings import small_groups


def test_what_nobody_judged_may_be_anything():
    groups = small_groups()
    judged, pointers = groups.judged.clone(), groups.pointers.clone()
    judged[2, 1], pointers[2, 1] = False, -7
    assert possible_pointers(groups._replace(judged=judged, pointers=pointers))[2, 1].tolist() == [0, 1]


def test_what_was_judged_is_kept():
    groups = small_groups()
    assert torch.equal(possible_pointers(groups), groups.pointers)
