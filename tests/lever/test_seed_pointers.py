"""Lever-Plus's functions for drawing and judging pointers agree with the network that they draw from."""

from __future__ import annotations

import math

import pytest
import torch

from tasks.lever import (
    beam_search_pointer,
    compute_step_logits,
    evaluate_pointer_candidate,
    generate_pointer_candidates_for_query,
    sample_pointer_with_temperature,
)
from tests.lever.seed_world import POOL, QUERY, K, model


def test_step_logits_give_the_log_probabilities_of_a_sequence() -> None:
    made = model().eval()
    first = compute_step_logits(made, QUERY[:1], POOL[:1]).log_softmax(-1)
    second = compute_step_logits(made, QUERY[:1], POOL[:1], selected_indices=[3]).log_softmax(-1)
    expected = made.log_probs(QUERY[:1], POOL[:1], torch.tensor([[[3, 1]]]))[0, 0]
    torch.testing.assert_close(torch.stack([first[3], second[1]]), expected)
    assert second[3] == -math.inf


def test_sampling_gives_distinct_positions_and_their_log_probability() -> None:
    made, generator = model().eval(), torch.Generator().manual_seed(0)
    pointer, log_prob = sample_pointer_with_temperature(
        made, QUERY[0], POOL[0], tau=1.3, exclude_indices=[0, 1], shot_num=3, generator=generator
    )
    assert sorted(pointer) == [2, 3, 4]
    assert log_prob <= 0


def test_a_wide_beam_finds_the_likeliest_pointer() -> None:
    made = model().eval()
    found = beam_search_pointer(made, QUERY[0], POOL[0], num_beams=K)
    pairs = torch.tensor([[[i, j] for i in range(K) for j in range(K) if i != j]])
    best = made.log_probs(QUERY[:1], POOL[:1], pairs).sum(-1).max().item()
    assert found[0]["logprob"] == pytest.approx(best)
    assert [one["logprob"] for one in found] == sorted((one["logprob"] for one in found), reverse=True)
    assert not {0, 2} & {
        at for one in beam_search_pointer(made, QUERY[0], POOL[0], exclude_indices=[0, 2]) for at in one["pointer"]
    }


def test_candidates_of_a_query_are_distinct_and_described() -> None:
    found = generate_pointer_candidates_for_query(
        model().eval(), QUERY[0], POOL[0], num_beams=3, exclude_indices=[1], generator=torch.Generator().manual_seed(0)
    )
    assert len(found) == len({tuple(one["pointer"]) for one in found}) == 8
    assert [one["beam_rank"] for one in found[:3]] == [0, 1, 2]
    assert all(1 not in one["pointer"] for one in found)
    assert {one["gen_method"] for one in found} <= {"beam", "sample", "random"}


class Judge:
    """Answers with the demonstrations that it was shown."""

    def generate(self, prompt: str) -> str:
        return prompt


@pytest.mark.parametrize("pointer", [[2], [2, 0], [1, 2, 0]], ids=["one", "two", "three"])
def test_a_pointer_is_judged_with_its_demonstrations_in_order(pointer: list[int]) -> None:
    pool = ["zero", "one", "two"]
    found = evaluate_pointer_candidate(
        vqa_model=Judge(),
        image=None,
        question="What?",
        candidate_pool=pool,
        pointer=pointer,
        ground_truth_answers=["yes"],
        build_vqa_prompt_fn=lambda image, question, *shown: " ".join(shown),
        compute_vqa_accuracy_fn=lambda answer, truths: (True, 1),  # pyright: ignore[reportArgumentType]
    )
    assert found == (" ".join(pool[at] for at in pointer), 1, 1.0)
    assert [type(one) for one in found] == [str, int, float]
