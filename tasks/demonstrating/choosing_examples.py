"""Which solved examples a question is shown: random ones, the nearest, or those that a trained selector chooses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional as F  # noqa: N812  torch's own convention

from tasks.evaluation.evaluation_records import Example, Item
from tasks.lever.data.candidate_pools import Banks, draw_pools
from tasks.lever.data.embeddings import EmbeddingBank, bank_of
from tasks.lever.learning.baselines import Shown, choose_at_random, choose_nearest
from tasks.lever.learning.checkpoints import Opened, open_selector
from tasks.lever.learning.predicting import USUAL_SIZE, predict
from tasks.lever.lever_errors import PoolTooSmall

Embed = Callable[[Sequence[str]], NDArray[np.float16]]
"""(n, dimension), a row for each text."""


class Encoder(NamedTuple):
    """What embeds questions."""

    id: str
    embed: Embed


def choose(
    items: Sequence[Item],
    examples: Sequence[Example],
    *,
    by: str,
    count: int,
    selector: Path | None,
    question_in: Callable[[str], str],
    opened: Callable[[], Encoder],
    seed: int,
) -> Shown:
    """Item → ids of its examples, in the order in which they are shown.

    by: random, similarity or selector. question_in: what of a prompt is embedded. opened: opens what
    embeds, where something is to be embedded.
    Raises PoolTooSmall where there are fewer examples, FileUnusable for a selector of other vectors.
    """
    if len(examples) < count:
        raise PoolTooSmall(f"there are {len(examples)} examples, and {count} are to be shown; ask for fewer")
    queries, candidates = [item.id for item in items], [example.id for example in examples]
    if by == "random":
        return choose_at_random(queries, candidates, shots=count, seed=seed)
    encoder, embed = opened()
    asked = embed([question_in(item.prompts[0]) for item in items])
    known = embed([question_in(example.prompt) for example in examples])
    of_queries = bank_of(queries, torch.from_numpy(asked.astype(np.float32)), encoder=encoder, where="questions")
    of_examples = bank_of(candidates, torch.from_numpy(known.astype(np.float32)), encoder=encoder, where="examples")
    if by == "similarity":
        return choose_nearest(queries, candidates, of_queries, of_examples, shots=count)
    assert selector
    trained = open_selector(selector)
    trained.refuse_other(encoder, dimension=of_queries.dimension, path=selector)
    # a text has but one view
    banks = {"joint": (of_queries, of_examples), "texts": (of_queries, of_examples)}
    pools = _pools(trained, queries, candidates, banks, seed=seed)
    if trained.sees_answers:
        of_examples = _solved(examples, of_examples, embed)
    chosen = predict(trained.selector, of_queries, of_examples, shots=count, pools=pools)
    return {query: one.demonstrations for query, one in chosen.items()}


def _solved(examples: Sequence[Example], plain: EmbeddingBank, embed: Embed) -> EmbeddingBank:
    """The examples as a selector sees them that was trained on candidates with their answers."""
    answers = torch.from_numpy(embed([example.answer for example in examples]).astype(np.float32))
    both = F.normalize(F.normalize(plain.vectors, dim=-1) + F.normalize(answers, dim=-1), dim=-1)
    return plain._replace(vectors=both)


def _pools(
    opened: Opened, queries: Sequence[str], candidates: Sequence[str], banks: Banks, *, seed: int
) -> Mapping[str, Sequence[str]]:
    """Pools by the recipe that the selector was trained in; smaller ones where there are fewer examples."""
    size = min(opened.recipe.size or USUAL_SIZE, len(candidates))
    modalities = tuple(one for one in opened.recipe.modalities if one in banks)
    recipe = opened.recipe.model_copy(update={"size": size, "modalities": modalities})
    return draw_pools(queries, candidates, banks, recipe=recipe, seed=seed).pools
