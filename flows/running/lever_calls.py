"""What a run of `flows.lever.post_train` would ask its judge, stage by stage, without asking it."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from flows.running.lever_config import STAGES, LeverConfig
from storage.records import Record
from tasks.lever.data.embeddings import of_modality
from tasks.lever.data.folder_layout import Layout
from tasks.lever.judge.judges import CPU_WORLDS, DIGITS
from tasks.lever.learning import call_counts
from tasks.lever.learning.baselines import possible_with
from tasks.lever.lever_options import OF_LIKELIHOODS
from tasks.lever.lever_records import ZERO_SHOT, Modality
from tasks.lever.opened_worlds import draw_world, open_items


class CallPlan(Record):
    """Calls of the judge, over all seeds."""

    calls: dict[str, int]
    """Stage → prompts that it asks about; of the oracle, at most."""
    total: int


def plan_calls(config: LeverConfig) -> CallPlan:
    """The calls of a run; files that replace stages are taken into account. Raises as reading the dataset does."""
    files = Layout(config.results, config.dataset.name)
    found, total = sizes_of(config), dict[str, int]()
    for seed in range(config.first_seed, config.first_seed + config.seeds):
        begun = config.begun_with(files.of_seed(seed, alone=config.seeds == 1))
        for stage, calls in _of_seed(begun, found).items():
            total[stage] = total.get(stage, 0) + calls
    return CallPlan(calls=total, total=sum(total.values()))


class Sizes(NamedTuple):
    """Numbers of queries."""

    train: int
    validation: int
    test: int
    answers: int
    """Distinct answers of all train queries that are weighed beside the judgment; labels are weighed with it."""


def _of_seed(config: LeverConfig, found: Sizes) -> dict[str, int]:
    """Stage → calls, of the stages up to the last."""
    start, queries, validation = config.start, found.train, found.validation
    drawn = {"queries": queries, "pool": config.pools().size, "shots": config.shots}
    calls: dict[str, int] = {}
    if not start.sft_checkpoint:
        calls |= {} if start.beam_data else {"beams": call_counts.of_beams(config.beams, **drawn)}
        calls["sft"] = call_counts.of_validation(config.sft.epochs, validation=validation)
    if config.needs_rl_data and not start.rl_data:
        pointers = call_counts.of_rl_data(config.rl_data, **drawn)
        calls["rl-data"] = pointers + pointers // queries * found.answers
    if not start.rce_checkpoint:
        calls["rce"] = call_counts.of_validation(config.rce.epochs, validation=validation)
    if config.trains_grpo:
        draws = call_counts.of_draws(config.grpo, queries=queries)
        weighing = draws // queries * found.answers if config.reward in OF_LIKELIHOODS else 0
        epochs = call_counts.grpo_epochs(config.grpo)
        calls["grpo"] = draws + weighing + call_counts.of_validation(epochs, validation=validation)
    return {name: count for name, count in (calls | _measured(config, found)).items() if _is_asked(config, name)}


def _is_asked(config: LeverConfig, stage: str) -> bool:
    order: list[str] = [*STAGES]
    return order.index("evaluate" if stage == "oracle" else stage) <= order.index(config.until)


def _measured(config: LeverConfig, found: Sizes) -> dict[str, int]:
    learnt = 2 + bool(config.start.grpo_checkpoint or config.trains_grpo)
    selectors = learnt + sum(name != ZERO_SHOT for name in possible_with(_embeddings(config)))
    shots = len({*config.evaluated_shots, config.shots} - {0})
    pool, test = config.pools().size, found.test
    return {
        "evaluate": call_counts.of_evaluation(test=test, shots=shots, selectors=selectors),
        "oracle": call_counts.most_of_oracle(config.oracle, test=test, pool=pool, shots=config.shots),
    }


def _embeddings(config: LeverConfig) -> set[str]:
    """Names of the embeddings that the encoder makes, or that files hold."""
    if given := config.start.candidate_embeddings:
        there: tuple[Modality, ...] = ("joint", "images", "texts")
        return {one for one in there if one == "joint" or of_modality(given, one).is_file()}
    if config.of_texts:
        return {"joint", "texts"}
    return {"joint", "images", "texts", *(["classes"] if config.encoder == DIGITS else [])}


def sizes_of(config: LeverConfig) -> Sizes:
    """Of the dataset; a CPU world is drawn, in a folder that is then removed, where its answers matter."""
    chosen, start = config.dataset, config.start
    weighed = not config.of_texts and (config.reward in OF_LIKELIHOODS or config.rl_data.gt_prob)
    of_file, drawn = start.beam_data or start.rl_data or start.query_embeddings, config.world_sizes
    is_drawn = chosen.name in CPU_WORLDS and chosen.data_dir is None
    if is_drawn and not (weighed or of_file):
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
    learnt = set(found.train_queries) if weighed else set[str]()
    answers = sum(len(set(item.answers)) for item in found.train if item.id in learnt)
    return Sizes(len(found.train_queries), len(found.validation), len(found.test), answers)
