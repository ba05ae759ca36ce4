"""Demonstrations of a trained selector for new queries, and solved examples for the questions of a benchmark.

Pools of candidates are made as those were that the selector was trained in. A card beside a selector says how it was
made and how good it is; its anchors show whether encoder and weights choose on another machine as they did on this one.
"""

from __future__ import annotations

import hashlib
import os
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import ValidationError
from torch.nn import functional as F  # noqa: N812  torch's own convention

from models.model_errors import ModelUnavailable
from storage.artifacts import Artifacts
from storage.files import scratch_folder, write
from storage.records import Record
from tasks.lever.data.candidate_pools import Banks, Pair, draw_pools, read_banks
from tasks.lever.data.embeddings import (
    EmbeddingBank,
    embed_dataset,
    make_bank,
    modality_file,
    read_embeddings,
    solved_file,
)
from tasks.lever.data.folder_layout import CARD_SUFFIX
from tasks.lever.judge.demonstration_task import open_views
from tasks.lever.judge.judges import WEIGHTS, EncoderSpec
from tasks.lever.learning.checkpoints import OpenedSelector, open_own, open_selector
from tasks.lever.learning.choosing import NEEDED, Demonstrations, choose_at_random, choose_by_rule, choose_nearest
from tasks.lever.learning.selector_comparison import Summary
from tasks.lever.learning.training_inputs import Prediction, predict_greedily
from tasks.lever.lever_errors import FileUnusable, PoolTooSmall
from tasks.lever.lever_records import Dataset, Modality, PoolRecipe, Sampler, SelectionRule, VqaItem

USUAL_SIZE = 64
"""Candidates of a query where neither checkpoint nor user says how many: Lever-Plus's `candidate_num`."""


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
) -> tuple[dict[str, Prediction], tuple[str, ...]]:
    """Choose the likeliest demonstrations for every query of a file, or those of the rule that the checkpoint is.

    Candidates are found by the recipe of the checkpoint's training; `sampler` and `pool_size` change it. A file of
    candidates that holds the pool of each query decides itself. A rule chooses among all candidates, or that pool.
    opened: a checkpoint, or a rule alone. Also returns warnings for the user.
    Raises PoolTooSmall, FileUnusable; also where the recipe needs embeddings that do not lie beside these files.
    """
    bank, query_bank = read_embeddings(candidates, ids=candidate_ids), read_embeddings(queries, ids=ids)
    encoders = {(vectors.dimension, vectors.encoder) for vectors in (bank, query_bank)}
    if len(encoders) > 1 and (bank.dimension != query_bank.dimension or all(name for _, name in encoders)):
        raise FileUnusable(
            f"the candidates are {bank.dimension} numbers by {bank.encoder or 'an unknown encoder'}, the queries "
            f"{query_bank.dimension} by {query_bank.encoder or 'another'}; export them with the same encoder"
        )
    banks: dict[str, Pair] = {"joint": (query_bank, bank), "visible": (query_bank, bank)}
    pools = bank.pools or {}
    if missing := [query for query in query_bank.ids if pools and query not in pools]:
        raise FileUnusable(
            f"{len(missing)} queries have no pool ({', '.join(missing[:5])}); give queries that have one"
        )
    pools = {query: pools[query] for query in query_bank.ids} if pools else {}
    warnings: tuple[str, ...] = ()
    if isinstance(opened, OpenedSelector):
        opened.require_encoder(query_bank.encoder, dimension=query_bank.dimension, path=checkpoint)
        warnings = (f"{checkpoint.name}: {opened.verdict.description}",) if opened.verdict and opened.rule else ()
    rule = opened if isinstance(opened, SelectionRule) else opened.rule
    if rule:
        if "texts" in NEEDED[rule.name]:
            of_questions = read_embeddings(modality_file(candidates, "texts"))
            banks["texts"] = of_questions, of_questions  # a rule reads those of the candidates alone
        return choose_demonstrations(rule, banks, pools, shots=shots), warnings
    assert isinstance(opened, OpenedSelector)

    if opened.sees_answers:
        path = solved_file(candidates)
        if not path.is_file():
            raise FileUnusable(
                f"{checkpoint} was trained on candidates with their answers, and {path} is not there; "
                "export it (`trivet lever run --until embed`)"
            )
        banks["visible"] = query_bank, read_embeddings(path)
        opened.require_encoder(banks["visible"][1].encoder, dimension=banks["visible"][1].dimension, path=checkpoint)
        banks["visible"][1].positions(bank.ids)  # raises for one that is missing
    if pools:
        return choose_demonstrations(opened, banks, pools, shots=shots), ()

    own_recipe = opened.recipe
    overrides: dict[str, object] = {"sampler": sampler, "size": pool_size or own_recipe.size or USUAL_SIZE}
    if sampler == "RetrievalSampler" and not own_recipe.modalities:
        overrides["modalities"] = ("joint",)
    stored = own_recipe.model_dump() | {name: value for name, value in overrides.items() if value}
    recipe = PoolRecipe.model_validate(stored)
    needed = {*recipe.modalities, *NEEDED.get(recipe.sampler, ())} - {"joint"}
    for modality in (name for name in get_args(Modality) if name in needed):
        paths = modality_file(queries, modality), modality_file(candidates, modality)
        if all(path.is_file() for path in paths):
            banks[modality] = read_embeddings(paths[0]), read_embeddings(paths[1])
        elif sampler is None:
            raise FileUnusable(
                f"{checkpoint} was trained in {own_recipe.description}, and {paths[0]} and {paths[1]} are not both "
                "there; export them (`trivet lever run --until embed`), or name the --sampler of other pools"
            )
    recipe = recipe.limited_to(banks)
    if not own_recipe.matches(recipe):
        warnings = (f"{checkpoint.name} was trained in {own_recipe.description}; it chooses from {recipe.description}",)
    return choose_demonstrations(opened, banks, _draw_pools(recipe, banks), shots=shots), warnings


def _draw_pools(recipe: PoolRecipe, banks: Banks, *, seed: int = 0) -> dict[str, tuple[str, ...]]:
    """Draw the pools of all queries; with few candidates they are all of them, and a query is never its own."""
    queries, candidates = (bank.ids for bank in banks["joint"])
    size = min(recipe.size or USUAL_SIZE, len(candidates) - bool({*queries} & {*candidates}))
    fitting = recipe.model_copy(update={"size": size})
    return draw_pools(queries, candidates, banks, recipe=fitting, seed=seed).pools


def choose_demonstrations(
    chooser: OpenedSelector | SelectionRule, banks: Banks, pools: Mapping[str, Sequence[str]], *, shots: int
) -> dict[str, Prediction]:
    """Choose for each query from its pool; a rule, also one that a checkpoint lost to, is certain of its choices.

    banks: what a network reads is `visible`. pools: empty for a rule that chooses among all candidates.
    """
    rule = chooser if isinstance(chooser, SelectionRule) else chooser.rule
    if rule is None:
        assert isinstance(chooser, OpenedSelector)
        return predict_greedily(chooser.selector, *banks["visible"], pools, shots=shots)
    if pools:
        choices = [choose_by_rule(rule, [query], pool, banks, shots=shots) for query, pool in pools.items()]
        names_of = {query: names for choice in choices for query, names in choice.items()}
    else:
        queries, candidates = (bank.ids for bank in banks["joint"])
        names_of = dict(choose_by_rule(rule, queries, candidates, banks, shots=shots))
        pools = dict.fromkeys(queries, candidates)
    return {query: Prediction(tuple(map(pools[query].index, names)), names, 0.0) for query, names in names_of.items()}


Embed = Callable[[Sequence[str]], NDArray[np.float16]]
"""Returns the vectors of texts, (n, dimension), in their order."""
OpenEncoder = Callable[[], tuple[str, Embed]]
"""Returns the id of a text encoder, and its function."""


class Texts(Record):
    """Questions of a benchmark and its solved examples, as they are embedded, by their ids."""

    questions: dict[str, str]
    examples: dict[str, str]
    answers: dict[str, str]
    """The answers of the examples, by their ids."""


def choose_examples(
    texts: Texts, *, by: str, count: int, selector: Path | None, open_encoder: OpenEncoder, seed: int
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
    of_solved = of_examples
    if trained.sees_answers:
        answers = _vectors(embed, [texts.answers[example] for example in texts.examples])
        sums = F.normalize(of_examples.vectors, dim=-1) + F.normalize(answers, dim=-1)
        of_solved = of_examples._replace(vectors=F.normalize(sums, dim=-1))
    # pools by the recipe that it was trained in, smaller where there are fewer examples; a text has but one view
    banks = dict.fromkeys(("joint", "texts"), (of_queries, of_examples)) | {"visible": (of_queries, of_solved)}
    # those of these examples vote
    rule = trained.rule.model_copy(update={"classes": texts.answers}) if trained.rule else None
    pools = {} if rule else _draw_pools(trained.recipe.limited_to(banks), banks, seed=seed)
    predictions = choose_demonstrations(rule or trained, banks, pools, shots=count)
    return {query: prediction.demonstrations for query, prediction in predictions.items()}


def _vectors(embed: Embed, texts: Sequence[str]) -> torch.Tensor:
    return torch.from_numpy(embed(texts).astype(np.float32))


ANCHORS, TRIED, ANCHOR_POOL = 10, 50, 16
"""Anchors of a card, the validation queries among which they are looked for, and their candidates at least."""
SELECTOR_FILE, CARD_FILE = "selector.safetensors", "card.json"
"""The two files of a folder that `export_selector` writes."""


class Card(Record):
    """What a selector was made of, how good it is beside every rule, and how to tell that it works elsewhere."""

    selector: str
    """SHA-256 (hex) of the file of weights."""
    encoder: EncoderSpec | None
    """How the encoder was opened, whose id stands in `results`; None where its vectors came from files."""
    splits: dict[str, tuple[int, str]]
    """Part of the dataset → number of its items, and their SHA-256 (hex), pictures included."""
    results: Summary
    """Accuracies on the test queries with intervals, of the selector and of every rule; the judge; the verdict."""
    judgments: dict[str, int]
    """Stage → prompts that the judge was asked at most, in all seeds of the run."""
    leaks: tuple[str, ...]
    """Sentences on the items that were left out of the dataset, and on leaks between its splits."""
    anchors: Dataset
    """A few validation queries, and candidates (`train`) among which the selector has to choose for all of them."""
    files: dict[str, str]
    """Pictures of the anchors, and what embeds them if a run trained it, in Base64, by their SHA-256 (hex)."""
    choices: dict[str, tuple[str, ...]]
    """The demonstrations of each anchor."""


def read_card(path: Path) -> tuple[Card, bytes, bytes]:
    """Read the card of a selector; return it, its bytes and those of the selector. Raises FileUnusable."""
    place = path.with_name(CARD_FILE) if path.name == SELECTOR_FILE else path.with_suffix(CARD_SUFFIX)
    try:
        weights, content = path.read_bytes(), place.read_bytes()
        card = Card.model_validate_json(content)
    except OSError as error:
        raise FileUnusable(
            f"{error.filename} cannot be read ({error.strerror}); a run writes a selector and its card once it is "
            "evaluated (`trivet lever run --until evaluate`)"
        ) from error
    except ValidationError as error:
        raise FileUnusable(f"{place} is no card of a selector ({error.errors()[0]['msg']}); export it again") from error
    if hashlib.sha256(weights).hexdigest() != card.selector:
        raise FileUnusable(
            f"{path} has other weights than its card {place.name} names; of a selector of your own write the card anew "
            "(`trivet lever run --until evaluate`), else ask for the folder again"
        )
    return card, content, weights


def export_selector(path: Path, folder: Path) -> Path:
    """Copy a selector and its card into a new folder, which is there whole or not at all; return the selector's path.

    Raises FileUnusable, storage.storage_errors.StoreUnreachable.
    """
    _, content, weights = read_card(path / SELECTOR_FILE if path.is_dir() else path)
    if os.path.lexists(folder):
        raise FileUnusable(f"{folder} is there already; name a new folder")
    with scratch_folder(folder.absolute().parent) as temporary:
        complete = temporary / folder.name
        write(complete / SELECTOR_FILE, weights)
        write(complete / CARD_FILE, content)
        complete.rename(folder)
    return folder / SELECTOR_FILE


def find_anchors(
    dataset: Dataset, opened: OpenedSelector, banks: Banks, pools: Mapping[str, Sequence[str]], *, shots: int
) -> dict[str, Any]:
    """Return the fields `anchors`, `files` and `choices` of a card.

    Anchors are the first ANCHORS validation queries whose choices are those of half precision and of the reversed
    candidates as well: among equals the first would be chosen, whatever embeds them.
    banks: with those that a network reads, `visible`. pools: of the validation queries.
    """
    queries = [item.id for item in dataset.validation[:TRIED]]
    ranked = [[*pools[query][::4], *pools[query]] for query in queries]  # neighbours may be copies of each other
    in_turn = dict.fromkeys(chain.from_iterable(zip(*ranked, strict=True)))
    candidates = list(islice(in_turn, max(ANCHOR_POOL, 2 * shots)))

    def rounded(bank: EmbeddingBank) -> EmbeddingBank:
        return bank._replace(vectors=bank.vectors.half().float())

    rough = {name: (rounded(banks[name][0]), rounded(banks[name][1])) for name in ("joint", "visible")}
    predicted, steady = (
        choose_demonstrations(opened, vectors, dict.fromkeys(queries, names), shots=shots)
        for vectors, names in ((banks, candidates), ({**banks, **rough}, candidates[::-1]))
    )
    choices = {query: names for query, (_, names, _) in predicted.items() if names == steady[query].demonstrations}
    choices, item_of = dict(islice(choices.items(), ANCHORS)), {item.id: item for item in dataset.items}
    anchors = Dataset(
        name=dataset.name,
        metric=dataset.metric,
        train=tuple(item_of[name] for name in candidates),
        train_queries=(),
        validation=tuple(item_of[name] for name in choices),
        test=(),
    )
    pictures = {item.image_sha256: Path(item.image) for item in anchors.items if isinstance(item, VqaItem)}
    files = {sha256: b64encode(path.read_bytes()).decode() for sha256, path in pictures.items()}
    # where they lay is nobody's business
    return {"anchors": _place_pictures(anchors, lambda _: ""), "files": files, "choices": choices}


def _place_pictures(dataset: Dataset, place: Callable[[str], str]) -> Dataset:
    """Return a dataset whose pictures, but for those of `test`, lie where `place` says, by their SHA-256 (hex)."""
    moved = {
        part: tuple(
            item.model_copy(update={"image": place(item.image_sha256)}) if isinstance(item, VqaItem) else item
            for item in items
        )
        for part, items in (("train", dataset.train), ("validation", dataset.validation))
    }
    return dataset.model_copy(update=moved)


def check_anchors(path: Path, artifacts: Artifacts, *, encoder: EncoderSpec | None = None) -> Card:
    """Return the card of a selector that chooses on this machine as it has to.

    encoder: how it is opened here; None: as the card says. Raises FileUnusable where choices differ,
    models.model_errors.ModelUnavailable.
    """
    card, _, weights = read_card(path)
    opened, opening = open_own(weights, path), encoder or card.encoder
    if opening is None:
        source = card.results.conditions.encoder
        raise FileUnusable(f"{path} was trained with vectors from files, by {source}; name this encoder by --embedder")
    tower = opening.weights if encoder is None else None
    needed = {item.image_sha256 for item in card.anchors.items if isinstance(item, VqaItem)}
    if not card.choices or not needed.union([tower.digest] if tower else []) <= card.files.keys():
        raise FileUnusable(f"the card of {path} has no anchors, or not all of their files: nothing proves the encoder")
    with TemporaryDirectory(prefix="trivet-anchors-") as folder:
        for sha256, content in card.files.items():
            try:
                data = b64decode(content, validate=True)
            except ValueError:
                data = b""
            if hashlib.sha256(data).hexdigest() != sha256:  # so that its name is no path, too
                raise FileUnusable(f"the card of {path} is damaged: file {sha256!r} is another; ask for it again")
            Path(folder, sha256).write_bytes(data)
        if tower:
            artifacts.put_file(WEIGHTS, Path(folder, tower.digest))
        anchors = _place_pictures(card.anchors, lambda sha256: f"{folder}/{sha256}")
        try:
            views = open_views(anchors, opening)
        except ModelUnavailable as error:
            raise ModelUnavailable(
                f"the encoder of {path} cannot be opened here: {error}. Name it by --embedder, with LoRA weights as "
                "CLIP,adapters=FOLDER"
            ) from error
        embedded = embed_dataset(anchors, views, artifacts)
    differing = list(card.choices)
    if opened.rule or embedded.dimension == opened.selector.config.embedding_dim:
        banks, pools = read_banks(embedded, artifacts), dict.fromkeys(card.choices, anchors.candidates)
        choices = choose_demonstrations(opened, banks, pools, shots=card.results.conditions.trained_shots)
        differing = [query for query, names in card.choices.items() if choices[query].demonstrations != names]
    if differing:
        raise FileUnusable(
            f"{len(differing)} of {len(card.choices)} anchors of {path} have other demonstrations here "
            f"({', '.join(differing[:3])}): the encoder was {card.results.conditions.encoder}, and {embedded.encoder} "
            "embeds otherwise; name the one of the training by --embedder"
        )
    return card
