"""Demonstrations of a trained selector for new queries, and solved examples for the questions of a benchmark.

Pools of candidates are made as those were that the selector was trained in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional as F  # noqa: N812  torch's own convention

from storage.records import Record
from tasks.lever.data.candidate_pools import Banks, Pair, draw_pools
from tasks.lever.data.embeddings import (
    EmbeddingBank,
    make_bank,
    modality_file,
    read_embeddings,
    solved_file,
)
from tasks.lever.learning.checkpoints import OpenedSelector, open_selector
from tasks.lever.learning.choosing import NEEDED, Demonstrations, choose_at_random, choose_by_rule, choose_nearest
from tasks.lever.learning.training_inputs import Prediction, predict_greedily
from tasks.lever.lever_errors import FileUnusable, PoolTooSmall
from tasks.lever.lever_records import Modality, PoolRecipe, Sampler, SelectionRule

USUAL_SIZE = 64
"""Candidates of a query where neither checkpoint nor user says how many: Lever-Plus's `candidate_num`."""
OF_SAMPLERS: dict[Sampler, tuple[Modality, ...]] = {
    "RandSampler": (),
    "TextSimSampler": ("texts",),
    "ImgSimSampler": ("images",),
    "MixSampler": ("texts", "images"),
}
"""The embeddings of images or questions alone that a sampler of Lever-Plus reads."""


class FilePredictions(NamedTuple):
    """The demonstrations that a selector chose for the queries of a file, with warnings for the user."""

    choices: dict[str, Prediction]
    warnings: tuple[str, ...]
    """Warnings where the pools differ from those that the selector was trained in."""


def predict_files(
    opened: OpenedSelector | SelectionRule,
    checkpoint: Path,
    *,
    queries: Path,
    candidates: Path,
    ids: Path | None,
    candidate_ids: Path | None,
    shots: int,
    sampler: Sampler | None,
    pool_size: int | None,
    seed: int,
) -> FilePredictions:
    """Choose the likeliest demonstrations for every query of a file, or those of the rule that the checkpoint is.

    Candidates are found by the recipe of the checkpoint's training; `sampler` and `pool_size` change it. A file of
    candidates that holds the pool of each query decides itself. A rule chooses among all candidates, or that pool.
    opened: a checkpoint, or a rule alone.
    Raises PoolTooSmall, FileUnusable; also where the recipe needs embeddings that do not lie beside these files.
    """
    bank, query_bank = read_embeddings(candidates, ids=candidate_ids), read_embeddings(queries, ids=ids)
    require_equal_encoders(query_bank, bank)
    rule, warnings = (opened, ()) if isinstance(opened, SelectionRule) else (None, ())
    if isinstance(opened, OpenedSelector):
        opened.require_encoder(query_bank.encoder, dimension=query_bank.dimension, path=checkpoint)
        if opened.verdict and not opened.verdict.is_learned:
            rule, warnings = opened.verdict.rule, (f"{checkpoint.name}: {opened.verdict.description}",)
    banks: dict[str, Pair] = {"joint": (query_bank, bank)}
    pools = bank.pools or {}
    if missing := [query for query in query_bank.ids if pools and query not in pools]:
        raise FileUnusable(
            f"{len(missing)} queries have no pool ({', '.join(missing[:5])}); give queries that have one"
        )
    pools = {query: pools[query] for query in query_bank.ids} if pools else {}
    if rule:
        if "texts" in NEEDED[rule.name]:
            of_questions = read_embeddings(modality_file(candidates, "texts"))
            banks["texts"] = of_questions, of_questions  # a rule reads those of the candidates alone
        return FilePredictions(_predict_by_rule(rule, banks, pools, shots=shots), warnings)
    assert isinstance(opened, OpenedSelector)

    visible_bank = bank
    if opened.sees_answers:
        path = solved_file(candidates)
        if not path.is_file():
            raise FileUnusable(
                f"{checkpoint} was trained on candidates with their answers, and {path} is not there; "
                "export it (`trivet lever run --until embed`)"
            )
        visible_bank = read_embeddings(path)
        opened.require_encoder(visible_bank.encoder, dimension=visible_bank.dimension, path=checkpoint)
        visible_bank.positions(bank.ids)  # raises for one that is missing
    if pools:
        return FilePredictions(predict_greedily(opened.selector, query_bank, visible_bank, pools, shots=shots), ())

    own_recipe = opened.recipe
    overrides: dict[str, object] = {"sampler": sampler, "size": pool_size or own_recipe.size or USUAL_SIZE}
    if sampler == "RetrievalSampler" and not own_recipe.modalities:
        overrides["modalities"] = ("joint",)
    stored = own_recipe.model_dump() | {name: value for name, value in overrides.items() if value}
    recipe = PoolRecipe.model_validate(stored)
    for modality in OF_SAMPLERS.get(recipe.sampler, tuple(name for name in recipe.modalities if name != "joint")):
        paths = modality_file(queries, modality), modality_file(candidates, modality)
        if all(path.is_file() for path in paths):
            banks[modality] = read_embeddings(paths[0]), read_embeddings(paths[1])
        elif sampler is None:
            raise FileUnusable(
                f"{checkpoint} was trained in {own_recipe.description}, and {paths[0]} and {paths[1]} are not both "
                "there; export them (`trivet lever run --until embed`), or name the --sampler of other pools"
            )
    recipe = recipe.limited_to(banks)
    pools = _draw_pools(recipe, banks, seed=seed)
    warning = f"{checkpoint.name} was trained in {own_recipe.description}; it chooses from {recipe.description}"
    choices = predict_greedily(opened.selector, query_bank, visible_bank, pools, shots=shots)
    return FilePredictions(choices, () if own_recipe.matches(recipe) else (warning,))


def _draw_pools(recipe: PoolRecipe, banks: Banks, *, seed: int) -> dict[str, tuple[str, ...]]:
    """Draw the pools of all queries; with few candidates they are all of them, and a query is never its own."""
    queries, candidates = (bank.ids for bank in banks["joint"])
    size = min(recipe.size or USUAL_SIZE, len(candidates) - bool({*queries} & {*candidates}))
    fitting = recipe.model_copy(update={"size": size})
    return draw_pools(queries, candidates, banks, recipe=fitting, seed=seed).pools


def _predict_by_rule(
    rule: SelectionRule, banks: Banks, pools: Mapping[str, Sequence[str]], *, shots: int
) -> dict[str, Prediction]:
    """Return the choices of a rule, which are certain. pools: of each query, where these are given; else empty."""
    queries, candidates = (bank.ids for bank in banks["joint"])
    if pools:
        chosen = {query: choose_by_rule(rule, [query], pools[query], banks, shots=shots)[query] for query in queries}
    else:
        chosen = choose_by_rule(rule, queries, candidates, banks, shots=shots)
    place_of = {name: place for place, name in enumerate(candidates)}
    predictions = dict[str, Prediction]()
    for query, names in chosen.items():
        pointer = tuple(pools[query].index(name) if pools else place_of[name] for name in names)
        predictions[query] = Prediction(pointer, names, log_prob=0.0)
    return predictions


def require_equal_encoders(queries: EmbeddingBank, candidates: EmbeddingBank) -> None:
    """Raise FileUnusable for vectors of another width or encoder."""
    if candidates.dimension != queries.dimension:
        raise FileUnusable(
            f"the candidates have {candidates.dimension} numbers each, the queries {queries.dimension}; "
            "export them with the same encoder"
        )
    if candidates.encoder and queries.encoder and candidates.encoder != queries.encoder:
        raise FileUnusable(
            f"the candidates: embedded by {candidates.encoder}, and {queries.encoder} is needed; embed again"
        )


Embed = Callable[[Sequence[str]], NDArray[np.float16]]
"""Returns the vectors of texts, (n, dimension), in their order."""


class Texts(Record):
    """Questions of a benchmark and its solved examples, as they are embedded, by their ids."""

    questions: dict[str, str]
    examples: dict[str, str]
    answers: dict[str, str]
    """The answers of the examples, by their ids."""


class Encoder(NamedTuple):
    """A text encoder: its id, and the function that embeds."""

    id: str
    embed: Embed


def choose_examples(
    texts: Texts, *, by: str, count: int, selector: Path | None, open_encoder: Callable[[], Encoder], seed: int
) -> Demonstrations:
    """Return the ids of the examples of each question, in the order in which they are shown.

    by: random, similarity or selector. open_encoder: called only where something is to be embedded.
    Raises PoolTooSmall where there are fewer examples, FileUnusable for a selector of other vectors.
    """
    queries, candidates = list(texts.questions), list(texts.examples)
    if len(candidates) < count:
        raise PoolTooSmall(f"there are {len(candidates)} examples, and {count} are to be shown; ask for fewer")
    if by == "random":
        return choose_at_random(queries, candidates, shots=count, seed=seed)
    encoder, embed = open_encoder()
    of_queries, of_examples = (
        make_bank(list(text_of), _vectors(embed, list(text_of.values())), encoder=encoder, where=where)
        for text_of, where in ((texts.questions, "questions"), (texts.examples, "examples"))
    )
    if by == "similarity":
        return choose_nearest(queries, candidates, (of_queries, of_examples), shots=count)
    assert selector  # `by` is "selector"
    trained = open_selector(selector)
    trained.require_encoder(encoder, dimension=of_queries.dimension, path=selector)
    # pools by the recipe that it was trained in, smaller where there are fewer examples; a text has but one view
    banks = {"joint": (of_queries, of_examples), "texts": (of_queries, of_examples)}
    if trained.verdict and not trained.verdict.is_learned:
        rule = trained.verdict.rule.model_copy(update={"classes": texts.answers})  # those of these examples vote
        return choose_by_rule(rule, queries, candidates, banks, shots=count)
    pools = _draw_pools(trained.recipe.limited_to(banks), banks, seed=seed)
    if trained.sees_answers:
        answers = _vectors(embed, [texts.answers[example] for example in texts.examples])
        sums = F.normalize(of_examples.vectors, dim=-1) + F.normalize(answers, dim=-1)
        of_examples = of_examples._replace(vectors=F.normalize(sums, dim=-1))
    predictions = predict_greedily(trained.selector, of_queries, of_examples, pools, shots=count)
    return {query: prediction.demonstrations for query, prediction in predictions.items()}


def _vectors(embed: Embed, texts: Sequence[str]) -> torch.Tensor:
    return torch.from_numpy(embed(texts).astype(np.float32))
