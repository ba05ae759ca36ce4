"""What a run of `flows.lever.post_train` would ask its judge, stage by stage, without asking it."""

from __future__ import annotations

import math
from collections.abc import Container
from itertools import cycle, islice
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import NamedTuple

from flows.running.lever_config import STAGES, LeverConfig
from models.registry import press_of, price_of
from storage.records import Record
from tasks.budget import Prices, Tokens
from tasks.calls import estimate
from tasks.lever.data.embeddings import of_modality
from tasks.lever.data.folder_layout import Layout
from tasks.lever.judge.judges import CPU_WORLDS, DIGITS
from tasks.lever.learning import call_counts
from tasks.lever.learning.baselines import CLASSES, possible_with
from tasks.lever.lever_options import OF_LIKELIHOODS
from tasks.lever.lever_records import ZERO_SHOT, Dataset, Modality
from tasks.lever.opened_worlds import draw_world, open_items, open_task, task_without_pictures

SAMPLED = 200
"""Queries by which the tokens of prompts are estimated."""
STAGES_ASKING = ("beams", "sft", "rl-data", "rce", "grpo", "evaluate", "oracle")


class CallPlan(Record):
    """Calls of the judge, over all seeds."""

    calls: dict[str, int]
    """Stage → prompts that it asks about; of the oracle, at most."""
    total: int
    prompt_tokens: int | None = None
    """Estimated on the high side; unset: the judge of the CPU worlds has none worth counting."""
    answer_tokens: int | None = None
    """At most."""
    cost: float | None = None
    """At most, in the currency of the judge's prices, where they are known."""
    hours: float | None = None
    """At the rates that the models file gives the judge, where it gives any."""


Asked = dict[int, int]
"""Number of demonstrations → prompts that show so many."""


def plan_calls(config: LeverConfig, only: Container[str] = STAGES_ASKING) -> CallPlan:
    """The calls of a run, of these stages; files that replace stages are taken into account.

    Raises as reading the dataset does.
    """
    files = Layout(config.results, config.dataset.name)
    found, total = sizes_of(config), dict[str, Asked]()
    for seed in range(config.first_seed, config.first_seed + config.seeds):
        begun = config.begun_with(files.of_seed(seed, alone=config.seeds == 1))
        for stage, asked in _of_seed(begun, found).items():
            known = total.setdefault(stage, {}) if stage in only else {}
            known |= {shown: known.get(shown, 0) + count for shown, count in asked.items()}
    calls = {stage: sum(asked.values()) for stage, asked in total.items()}
    plan = CallPlan(calls=calls, total=sum(calls.values()))
    return _priced(plan, total, config, found.tokens) if found.tokens else plan


def _priced(plan: CallPlan, asked: dict[str, Asked], config: LeverConfig, tokens: PromptTokens) -> CallPlan:
    """With tokens, money and time. Where answers are labels, or only weighed, none is written."""
    prompt = sum(count * tokens.of(shown) for one in asked.values() for shown, count in one.items())
    written = 0 if config.of_texts else plan.total - plan.calls.get("beams", 0)
    used = Tokens(math.ceil(prompt), written * config.prompts.max_new_tokens)
    entry, rates = price_of(config.judge), press_of(config.judge)
    prices = config.spending.prices or (Prices.model_validate(entry.model_dump()) if entry else None)
    minutes = [
        amount / rates[name]
        for name, amount in (("requests_per_minute", plan.total), ("tokens_per_minute", sum(used)))
        if name in rates
    ]
    found = {"prompt_tokens": used.prompt, "answer_tokens": used.answer}
    found |= {"cost": prices.cost(used) if prices else None, "hours": max(minutes) / 60 if minutes else None}
    return plan.model_copy(update=found)


class PromptTokens(NamedTuple):
    """Tokens of a prompt, as `tasks.calls.estimate` has them."""

    query: float
    demonstration: float

    def of(self, shown: int) -> float:
        """Of a prompt with so many demonstrations."""
        return self.query + shown * self.demonstration


class Sizes(NamedTuple):
    """Numbers of queries."""

    train: int
    validation: int
    test: int
    answers: int
    """Distinct answers of all train queries that are weighed beside the judgment; labels are weighed with it."""
    tokens: PromptTokens | None = None
    """None for the judge of the CPU worlds."""


def _of_seed(config: LeverConfig, found: Sizes) -> dict[str, Asked]:
    """Stage → calls, of the stages up to the last."""
    start, queries, validation = config.start, found.train, found.validation
    drawn = {"queries": queries, "pool": config.pools().size, "shots": config.shots}
    calls: dict[str, Asked] = {}
    if not start.sft_checkpoint:
        screened = open_task(config.dataset.name, config.prompts).screens_beams
        calls |= {} if start.beam_data else {"beams": call_counts.of_beams(config.beams, screened=screened, **drawn)}
        calls["sft"] = {config.shots: call_counts.of_validation(config.sft.epochs, validation=validation)}
    if config.needs_rl_data and not start.rl_data:
        pointers = call_counts.of_rl_data(config.rl_data, **drawn)
        calls["rl-data"] = {config.shots: pointers + pointers // queries * found.answers}
    if not start.rce_checkpoint:
        calls["rce"] = {config.shots: call_counts.of_validation(config.rce.epochs, validation=validation)}
    if config.trains_grpo:
        draws = call_counts.of_draws(config.grpo, queries=queries)
        weighing = draws // queries * found.answers if config.reward in OF_LIKELIHOODS else 0
        epochs = call_counts.grpo_epochs(config.grpo)
        validating = call_counts.of_validation(epochs, validation=validation)
        calls["grpo"] = {config.shots: draws + weighing + validating}
    return {name: asked for name, asked in (calls | _measured(config, found)).items() if _is_asked(config, name)}


def _is_asked(config: LeverConfig, stage: str) -> bool:
    order: list[str] = [*STAGES]
    return order.index("evaluate" if stage == "oracle" else stage) <= order.index(config.until)


def _measured(config: LeverConfig, found: Sizes) -> dict[str, Asked]:
    learnt = 2 + bool(config.start.grpo_checkpoint or config.trains_grpo)
    selectors = learnt + sum(name != ZERO_SHOT for name in possible_with(_known(config)))
    shots = sorted({*config.evaluated_shots, config.shots})
    pool, test = config.pools().size, found.test
    return {
        "evaluate": call_counts.of_evaluation(test=test, shots=shots, selectors=selectors),
        "oracle": {config.shots: call_counts.most_of_oracle(config.oracle, test=test, pool=pool, shots=config.shots)},
    }


def _known(config: LeverConfig) -> set[str]:
    """What untrained selectors can choose by: embeddings that the encoder makes or that files hold, and classes."""
    if given := config.start.candidate_embeddings:
        there: tuple[Modality, ...] = ("joint", "images", "texts")
        found = {one for one in there if one == "joint" or of_modality(given, one).is_file()}
        return {*found, *([CLASSES] if config.of_texts else [])}
    if config.of_texts:
        return {"joint", "texts", CLASSES}
    return {"joint", "images", "texts", *(["classes"] if config.encoder == DIGITS else [])}


def sizes_of(config: LeverConfig) -> Sizes:
    """Of the dataset; a CPU world is drawn, in a folder that is then removed, where its answers matter."""
    chosen, start = config.dataset, config.start
    weighed = not config.of_texts and (config.reward in OF_LIKELIHOODS or config.rl_data.gt_prob)
    of_file, drawn = start.beam_data or start.rl_data or start.query_embeddings, config.world_sizes
    is_drawn = chosen.name in CPU_WORLDS and chosen.data_dir is None
    counted = config.judge != DIGITS
    if is_drawn and not (weighed or of_file or counted):
        most = drawn["queries"] if chosen.name != DIGITS else drawn["candidates"]
        return Sizes(min(chosen.train_queries, most), drawn["validation"], drawn["test"], 0)
    with TemporaryDirectory(prefix="trivet-") as folder:
        if is_drawn:
            draw_world(Path(folder), world=chosen.name, seed=config.digits.seed, **drawn)
        found = open_items(
            chosen.name,
            Path(folder) if is_drawn else chosen.data_dir,
            train_queries=chosen.train_queries,
            validation=chosen.validation,
            test=chosen.test,
            seed=chosen.seed,
            queries_of=of_file,
        )
        tokens = _tokens_of(found, config) if counted else None
    learnt = set(found.train_queries) if weighed else set[str]()
    answers = sum(len(set(item.answers)) for item in found.train if item.id in learnt)
    return Sizes(len(found.train_queries), len(found.validation), len(found.test), answers, tokens)


def _tokens_of(found: Dataset, config: LeverConfig) -> PromptTokens:
    """Means over some test queries, each with a demonstration and without; a picture counts what it counts anywhere."""
    by_id = {item.id: item for item in found.train}
    task = task_without_pictures(found.name, config.prompts)
    pairs = list(zip(islice(found.test, SAMPLED), map(by_id.__getitem__, cycle(found.candidates)), strict=False))
    alone = fmean(estimate(task.request(query, [])).prompt for query, _ in pairs)
    shown = fmean(estimate(task.request(query, [one])).prompt for query, one in pairs)
    return PromptTokens(alone, shown - alone)
