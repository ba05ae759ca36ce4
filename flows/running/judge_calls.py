"""How often a run of `flows.lever.post_train` asks its judge at most, by stage: what `--dry-run` prints."""

from __future__ import annotations

import math
from typing import cast

from flows.running.lever_config import STAGES, LeverConfig, StageName
from storage.records import Record, Ref
from tasks.lever.data.datasets import open_dataset
from tasks.lever.data.embeddings import modality_file
from tasks.lever.data.folder_layout import Layout
from tasks.lever.data.rl_data import count_prompts
from tasks.lever.judge.judges import CPU_WORLDS, DIGITS
from tasks.lever.learning.choosing import ALL_UP_TO_SHOTS, BEST_OF, CLASSES, WEIGHTS, available_selectors
from tasks.lever.lever_options import OF_LIKELIHOODS
from tasks.lever.lever_records import RIVALS, ZERO_SHOT, Dataset, Modality
from tasks.resources import artifacts

STAGE_OF: dict[str, StageName] = {"gate": "grpo", "oracle": "evaluate"}
"""The stage that what is counted apart belongs to."""


class CallCounts(Record):
    """Calls of the judge, over all seeds; an answer that is stored is not asked for again."""

    calls: dict[str, int]
    """Stage → prompts that are judged, or whose answer is weighed; of the oracle, at most."""
    total: int


def count_calls(config: LeverConfig, stored: Ref | None = None) -> CallCounts:
    """Count a run's calls less stages that files replace. Raises as reading the data does. stored: the read dataset."""
    files, sizes = Layout(config.results, config.dataset.title), _count_queries(config, stored)
    calls: dict[str, int] = {}
    for seed in range(config.first_seed, config.first_seed + config.seeds):
        begun = config.with_earlier_files(files.of_seed(seed, alone=config.seeds == 1))
        for stage, count in (_count_training(begun, *sizes) | _count_evaluation(begun, sizes[2])).items():
            if STAGES.index(STAGE_OF.get(stage) or cast(StageName, stage)) <= STAGES.index(config.until):
                calls[stage] = calls.get(stage, 0) + count
    return CallCounts(calls=calls, total=sum(calls.values()))


def _count_queries(config: LeverConfig, stored: Ref | None) -> tuple[int, int, int, int]:
    """Count (train, validation, test) queries, and the distinct answers that a reward of likelihoods weighs, else 0."""
    options, start = config.dataset, config.start
    weighed = not config.is_text_task and config.reward in OF_LIKELIHOODS
    if options.name in CPU_WORLDS and options.data_dir is None:
        drawn = config.world_sizes  # of which each item has one answer
        # in `digits` the candidates are the training queries too
        train = min(options.train_queries, drawn["candidates"]) if options.name == DIGITS else drawn["queries"]
        return train, drawn["validation"], drawn["test"], train * weighed
    dataset = (
        artifacts().load(Dataset, stored)
        if stored
        else open_dataset(
            options.name,
            options.data_dir,
            train_queries=options.train_queries,
            validation=options.validation,
            test=options.test,
            queries_of=start.beam_data or start.rl_data or start.query_embeddings,
            metric=options.metric,
        )
    )
    learnt = set(dataset.train_queries) if weighed else set[str]()
    answers = sum(len(set(item.answers)) for item in dataset.train if item.id in learnt)
    return len(dataset.train_queries), len(dataset.validation), len(dataset.test), answers


def _count_training(config: LeverConfig, queries: int, validation: int, _: int, answers: int) -> dict[str, int]:
    """Return the calls by stage that no file replaces; a checkpoint is validated before its first epoch, after each."""
    start, pool, grpo = config.start, config.pools().size, config.grpo
    calls: dict[str, int] = {}
    if not start.sft_checkpoint:
        if config.gives_log_probs and not start.beam_data:
            weighed = count_prompts(config.beams, queries=queries, pool=pool, shots=config.shots)
            calls["beams"] = sum(weighed.values())
        calls["sft"] = (config.sft.epochs + 1) * validation
    if config.needs_rl_data and not start.rl_data:
        pointers = min(config.rl_data.total, math.perm(pool, config.shots))  # ordered, each candidate at most once
        calls["rl-data"] = pointers * (queries + answers)
    if not start.rce_checkpoint:
        calls["rce"] = (config.rce.epochs + 1) * validation
    if config.trains_grpo:
        validated = (grpo.offline_epochs + grpo.rounds + 1) * validation
        calls["grpo"] = grpo.rounds * grpo.draws * (queries + answers) + validated
    rules = [name for name in _available_selectors(config) if name in RIVALS]
    calls["gate"] = validation * (1 + sum(len(WEIGHTS.get(name, (0.0,))) for name in rules))
    return calls


def _count_evaluation(config: LeverConfig, test: int) -> dict[str, int]:
    """Return the calls by evaluation and oracle, which ends sooner where every answer is right.

    Zero-shot is evaluated once, every other selector with each number of shots.
    """
    learnt = 2 + bool(config.start.grpo_checkpoint or config.trains_grpo)
    selectors = learnt + sum(name != ZERO_SHOT for name in _available_selectors(config))
    shot_counts = len({*config.evaluated_shots, config.shots} - {0})
    pointers = math.perm(config.pools().size, config.shots)
    tried = test * (pointers if config.shots <= ALL_UP_TO_SHOTS else min(pointers, BEST_OF))
    limit = config.oracle.most_judgments
    return {"evaluate": test * (1 + selectors * shot_counts), "oracle": tried if limit is None else min(tried, limit)}


def _available_selectors(config: LeverConfig) -> tuple[str, ...]:
    """Return the selectors without training that the embeddings of the run allow."""
    candidate_file = config.start.candidate_embeddings
    separate: tuple[Modality, ...] = ("texts",) if config.is_text_task else ("images", "texts")
    available = {"joint", *([CLASSES] if config.is_text_task else [])}
    for modality in separate:
        if candidate_file is None or modality_file(candidate_file, modality).is_file():
            available.add(modality)
    return available_selectors(available)
