"""Which solved examples a question is shown: random ones, the nearest, or those that a trained selector chooses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional as F  # noqa: N812  torch's own convention

from storage.records import Record
from tasks.lever.data.candidate_pools import Banks, draw_pools
from tasks.lever.data.embeddings import EmbeddingBank, bank_of
from tasks.lever.learning.baselines import Shown, choose_at_random, choose_nearest
from tasks.lever.learning.checkpoints import Opened, open_selector
from tasks.lever.learning.predicting import USUAL_SIZE, predict
from tasks.lever.lever_errors import PoolTooSmall

Embed = Callable[[Sequence[str]], NDArray[np.float16]]
"""(n, dimension), a row for each text."""


class Texts(Record):
    """Questions of a benchmark and its solved examples, as they are embedded, by their ids."""

    questions: dict[str, str]
    examples: dict[str, str]
    answers: dict[str, str]
    """Of the examples."""


class Encoder(NamedTuple):
    """What embeds questions."""

    id: str
    embed: Embed


def choose_examples(
    texts: Texts, *, by: str, count: int, selector: Path | None, opened: Callable[[], Encoder], seed: int
) -> Shown:
    """Question → ids of its examples, in the order in which they are shown.

    by: random, similarity or selector. opened: opens what embeds, where something is to be embedded.
    Raises PoolTooSmall where there are fewer examples, FileUnusable for a selector of other vectors.
    """
    queries, candidates = list(texts.questions), list(texts.examples)
    if len(candidates) < count:
        raise PoolTooSmall(f"there are {len(candidates)} examples, and {count} are to be shown; ask for fewer")
    if by == "random":
        return choose_at_random(queries, candidates, shots=count, seed=seed)
    encoder, embed = opened()
    of_queries, of_examples = (
        bank_of(list(told), _vectors(embed, list(told.values())), encoder=encoder, where=where)
        for told, where in ((texts.questions, "questions"), (texts.examples, "examples"))
    )
    if by == "similarity":
        return choose_nearest(queries, candidates, (of_queries, of_examples), shots=count)
    assert selector
    trained = open_selector(selector)
    trained.refuse_other(encoder, dimension=of_queries.dimension, path=selector)
    # a text has but one view
    banks = {"joint": (of_queries, of_examples), "texts": (of_queries, of_examples)}
    pools = _pools(trained, queries, candidates, banks, seed=seed)
    if trained.sees_answers:
        of_examples = _solved(texts, of_examples, embed)
    chosen = predict(trained.selector, of_queries, of_examples, shots=count, pools=pools)
    return {query: one.demonstrations for query, one in chosen.items()}


def _vectors(embed: Embed, texts: Sequence[str]) -> torch.Tensor:
    return torch.from_numpy(embed(texts).astype(np.float32))


def _solved(texts: Texts, plain: EmbeddingBank, embed: Embed) -> EmbeddingBank:
    """The examples as a selector sees them that was trained on candidates with their answers."""
    answers = _vectors(embed, [texts.answers[one] for one in texts.examples])
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
