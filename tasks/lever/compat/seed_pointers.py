"""Lever-Plus's functions that draw, find and judge pointers, by their own names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from models.pointer import PointerSelector
from tasks.lever.data.rl_data import draw
from tasks.lever.lever_errors import PointerUnusable
from tasks.lever.lever_options import RlDataSettings


def sample_pointer_with_temperature(
    model: PointerSelector,
    query_emb: Tensor,
    cand_emb: Tensor,
    tau: float,
    exclude_indices: Iterable[int] | None = None,
    shot_num: int = 2,
    generator: torch.Generator | None = None,
) -> tuple[list[int], float]:
    """A pointer drawn at temperature `tau`, and its log-probability at temperature 1. (d,), (K, d).

    generator: none draws from torch's default one, as Lever-Plus does.
    """
    drawn = model.sample(
        query_emb[None],
        cand_emb[None],
        shots=shot_num,
        draws=1,
        temperature=tau,
        generator=generator or torch.default_generator,
        usable=_usable(cand_emb, exclude_indices),
    )
    return drawn.pointers[0, 0].tolist(), drawn.log_probs[0, 0].sum().item()


def beam_search_pointer(
    model: PointerSelector,
    query_emb: Tensor,
    cand_emb: Tensor,
    num_beams: int = 5,
    shot_num: int = 2,
    exclude_indices: Iterable[int] | None = None,
) -> list[dict[str, Any]]:
    """`pointer`, `score` (sum of the steps' probabilities) and `logprob` of the likeliest pointers, best first."""
    usable = _usable(cand_emb, exclude_indices)
    found = model.beam(query_emb[None], cand_emb[None], shots=shot_num, width=num_beams, usable=usable)
    return [
        {"pointer": pointer.tolist(), "score": steps.exp().sum().item(), "logprob": steps.sum().item()}
        for pointer, steps in zip(found.pointers[0], found.log_probs[0], strict=True)
    ]


def _usable(cand_emb: Tensor, exclude_indices: Iterable[int] | None) -> Tensor:
    usable = torch.ones(1, len(cand_emb), dtype=torch.bool, device=cand_emb.device)
    usable[0, list(exclude_indices or ())] = False
    return usable


def generate_pointer_candidates_for_query(
    model: PointerSelector,
    query_emb: Tensor,
    cand_emb: Tensor,
    num_beams: int = 5,
    temps: Sequence[float] = (1.0, 1.3),
    num_samples_per_temp: int = 2,
    num_random: int = 1,
    exclude_indices: Iterable[int] | None = None,
    shot_num: int = 2,
    generator: torch.Generator | None = None,
) -> list[dict[str, Any]]:
    """Distinct ordered pointers as RL data have them, not judged yet. (d,), (K, d)."""
    usable = _usable(cand_emb, exclude_indices)[0].nonzero()[:, 0]
    settings = RlDataSettings(
        beams=num_beams, temperatures=tuple(temps), samples=num_samples_per_temp, random=num_random
    )
    [drawn] = draw(
        model,
        [""],
        queries=query_emb[None],
        pools=cand_emb[usable][None],
        shots=shot_num,
        settings=settings,
        generator=generator or torch.default_generator,
    ).values()
    fields = {"gen_method", "beam_rank", "beam_score", "logprob_score", "temperature", "behaviour_logp"}
    return [{"pointer": usable[list(record.pointer)].tolist(), **record.model_dump(include=fields)} for record in drawn]


def evaluate_pointer_candidate(
    vqa_model: Any,
    image: Any,
    question: str,
    candidate_pool: Sequence[Any],
    pointer: Sequence[int],
    ground_truth_answers: Sequence[str],
    build_vqa_prompt_fn: Callable[..., Any],
    compute_vqa_accuracy_fn: Callable[[str, Sequence[str]], tuple[int, float]],
) -> tuple[str, int, float]:
    """The answer of `vqa_model.generate(prompt)`, whether it is right, and its accuracy.

    The prompt is `build_vqa_prompt_fn(image, question, *demonstrations)`, in the order of the pointer.
    Raises PointerUnusable for a position outside of the pool.
    """
    if outside := [at for at in pointer if not 0 <= at < len(candidate_pool)]:
        raise PointerUnusable(f"pointer {list(pointer)}: {outside[0]} is none of 0 to {len(candidate_pool) - 1}")
    prompt = build_vqa_prompt_fn(image, question, *(candidate_pool[at] for at in pointer))
    answer = vqa_model.generate(prompt)
    correct, accuracy = compute_vqa_accuracy_fn(answer, ground_truth_answers)
    return str(answer), int(correct), float(accuracy)
