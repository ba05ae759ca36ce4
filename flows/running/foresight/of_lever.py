"""What `flows.lever.post_train` would do, step by step as it stands there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from flows.running.foresight.foreseeing import Foresight, RunPlan, Unknown, known
from flows.running.foresight.of_evaluation import REPORT
from flows.running.lever_calls import CallPlan, plan_calls, sizes_of
from flows.running.lever_config import LeverConfig, StageName
from storage.records import Ref
from tasks.lever import file_steps, steps
from tasks.lever.data.folder_layout import Layout
from tasks.lever.judge.judges import (
    CPU_WORLDS,
    DIGITS,
    WEIGHTS,
    EncoderSpec,
    JudgeSpec,
    encoder_spec,
    fingerprint_of_judge,
    text_encoder_spec,
)
from tasks.lever.learning.lever_results import SeedReport
from tasks.lever.lever_options import OF_LIKELIHOODS
from tasks.lever.opened_worlds import Effort, Learning, World, open_items, shards_of

ASKING = {
    "beams": steps.search_beams.name,
    "sft": steps.train_sft.name,
    "rl-data": steps.generate_rl_data.name,
    "rce": steps.train_rce.name,
    "grpo": steps.train_grpo.name,
    "evaluate": steps.evaluate_selector.name,
    "oracle": steps.evaluate_selector.name,
}
"""Stage of a call plan → the step that asks."""


class LeverPlan(RunPlan):
    """What training and measuring a selector would do."""

    calls: CallPlan
    """Of the stages that run or may run; what the response store holds of them is not asked again."""


class _Enough(Exception):
    """The last stage that was asked for is through."""


def plan_training(config: LeverConfig) -> LeverPlan:
    """What `post_train` would do; writes nothing. Raises what `post_train` raises before its first step."""
    ahead, files = Foresight(), Layout(config.results, config.dataset.name)
    weights = None
    if DIGITS in (config.judge, config.encoder) and (path := config.digits.judge):
        ahead.foresee(file_steps.read_judge)
        weights = Ref.of(WEIGHTS, path.read_bytes())
    elif DIGITS in (config.judge, config.encoder):
        drawn: dict[str, Any] = {"seed": config.digits.seed, "steps": config.digits.judge_steps}
        weights = ahead.foresee(steps.train_digits_judge, **drawn)
    dataset, queries = _dataset(config, files, ahead)
    embedded = _embedded(config, dataset, files, ahead, weights=weights)
    world = _world(config, dataset, embedded, weights=weights)
    seeds = list[SeedReport | Unknown]()
    for seed in range(config.first_seed, config.first_seed + config.seeds):
        place = files.of_seed(seed, alone=config.seeds == 1)
        with suppress(_Enough):
            _done(config, "embed")
            seeds.append(_seed(config.begun_with(place), world, embedded, place, ahead, queries=queries, seed=seed))
    if seeds:
        _keep(config, seeds, dataset, files, ahead)
    foreseen = ahead.plan
    asked = {step.step for step in foreseen.steps if step.runs or step.unknown}
    asking = [stage for stage, name in ASKING.items() if name in asked]
    return LeverPlan(**dict(foreseen), calls=plan_calls(config, only=asking))


def _done(config: LeverConfig, stage: StageName) -> None:
    if stage == config.until:
        raise _Enough


def _dataset(config: LeverConfig, files: Layout, ahead: Foresight) -> tuple[Ref | Unknown, int]:
    """The dataset, and how many train queries it has."""
    chosen, start, folder = config.dataset, config.start, files.data.absolute()
    drawn: Any = None
    if is_drawn := chosen.name in CPU_WORLDS and chosen.data_dir is None:
        sizes = {"world": chosen.name, "seed": config.digits.seed, **config.world_sizes}
        drawn = ahead.foresee(steps.write_digits, folder, **sizes)
    ahead.foresee(steps.read_dataset)
    if not known(drawn):
        return drawn, sizes_of(config).train
    found = open_items(
        chosen.name,
        folder if is_drawn else chosen.data_dir,
        train_queries=chosen.train_queries,
        validation=chosen.validation,
        test=chosen.test,
        seed=chosen.seed,
        queries_of=start.beam_data or start.rl_data or start.query_embeddings,
    )
    return Ref.of("vqa-dataset", found.model_dump_json().encode()), len(found.train_queries)


def _embedded(config: LeverConfig, dataset: Any, files: Layout, ahead: Foresight, *, weights: Any) -> Any:
    if config.start.query_embeddings and config.start.candidate_embeddings:
        return ahead.foresee(file_steps.read_embeddings)
    if config.encoder == DIGITS:
        encoder = EncoderSpec(name=DIGITS, weights=weights) if known(weights) else weights
    elif config.of_texts:
        encoder = text_encoder_spec(config.encoder)
    else:
        encoder = encoder_spec(config.encoder, adapters=config.adapters)
    embedded = ahead.foresee(steps.export_embeddings, dataset, encoder=encoder)
    ahead.foresee(file_steps.write_embeddings, embedded, dataset=dataset, folder=files.cache)
    return embedded.seen_as(config.vectors) if known(embedded) else embedded


def _world(config: LeverConfig, dataset: Any, embedded: Any, *, weights: Any) -> World | Unknown:
    for one in (dataset, embedded, weights):
        if isinstance(one, Unknown):
            return one
    return World(
        dataset=dataset,
        embedded=embedded,
        judge=JudgeSpec(
            name=config.judge,
            weights=weights if config.judge == DIGITS else None,
            fingerprint="" if config.until in ("embed", "pools") else fingerprint_of_judge(config.judge),
        ),
        prompts=config.prompts,
        threshold=config.threshold,
        stem=config.stem,
    )


def _seed(
    config: LeverConfig, world: Any, embedded: Any, files: Layout, ahead: Foresight, *, queries: int, seed: int
) -> SeedReport | Unknown:
    """One seed, from its pools to its figures."""
    start, dataset = config.start, world.dataset if known(world) else world
    asking: Any = {
        "learning": Learning(shots=config.shots, seed=seed),
        "effort": Effort(device=config.device, concurrency=config.concurrency, spending=config.spending),
    }
    if config.recorded:
        ahead.foresee(file_steps.read_recorded)
    read = _checkpoints(config, ahead)
    recipe: Any = next(iter(read.values()), embedded)
    recipe = config.pools().of(embedded) if known(recipe) else recipe
    sampler = config.pools().sampler
    pools = ahead.foresee(steps.build_pools, dataset, embedded=embedded, recipe=recipe, seed=seed)
    _done(config, "pools")

    beams: tuple[Any, ...] = ()
    if start.beam_data:
        beams = (pools := ahead.foresee(file_steps.read_beams),)
    trained = list[Any]()
    if not (sft := read.get(start.sft_checkpoint)):
        beams = beams or _searched(config, world, pools, recipe, files, ahead, queries=queries, asking=asking)
        _done(config, "beams")
        learning: dict[str, Any] = {"network": config.network, "settings": config.sft, **asking}
        trained.append(ahead.foresee(steps.train_sft, world, pools=pools, beams=beams, **learning))
        sft = _weights(trained[-1])
    _export(ahead, {files.checkpoint("sft", sampler): sft})
    _done(config, "sft")

    data: Any = None
    if config.needs_rl_data:
        data = _rl_data(config, world, pools, sft, ahead, queries=queries, asking=asking)
        copies = [config.rl_data_copy] if config.rl_data_copy else []
        _export(ahead, dict.fromkeys([files.rl_data(sampler), *copies], data))
    _done(config, "rl-data")

    rewarded: Any = {"pools": pools, "data": data, "reward": config.reward, **asking}
    selectors = {"sft": sft, **_from_rewards(config, world, files, ahead, read, trained, start=sft, rewarded=rewarded)}
    shots = tuple(sorted({*config.evaluated_shots, config.shots}))
    measuring: dict[str, Any] = {"selectors": selectors, "shots": shots, "oracle": config.oracle, **asking}
    measured = ahead.foresee(steps.evaluate_selector, world, pools=pools, **measuring)
    if not known(measured, trained):
        return measured if isinstance(measured, Unknown) else next(one for one in trained if not known(one))
    return SeedReport(seed=seed, trained=tuple(trained), evaluated=measured)


def _from_rewards(
    config: LeverConfig,
    world: Any,
    files: Layout,
    ahead: Foresight,
    read: Mapping[Path | None, Any],
    trained: list[Any],
    *,
    start: Any,
    rewarded: dict[str, Any],
) -> dict[str, Any]:
    """RCE and GRPO, each read or trained; what is trained is added to `trained`."""
    sampler = config.pools().sampler
    if not (rce := read.get(config.start.rce_checkpoint)):
        trained.append(ahead.foresee(steps.train_rce, world, selector=start, settings=config.rce, **rewarded))
        rce = _weights(trained[-1])
    _export(ahead, {files.checkpoint("rce", sampler): rce})
    _done(config, "rce")

    selectors = {"rce": rce}
    if path := config.start.grpo_checkpoint:
        selectors["grpo"] = read[path]
    elif config.trains_grpo:
        trained.append(ahead.foresee(steps.train_grpo, world, selector=rce, settings=config.grpo, **rewarded))
        selectors["grpo"] = _weights(trained[-1])
    if "grpo" in selectors:
        _export(ahead, {files.checkpoint("grpo", sampler): selectors["grpo"]})
        _done(config, "grpo")

    return selectors


def _checkpoints(config: LeverConfig, ahead: Foresight) -> dict[Path | None, Unknown]:
    """The selectors that are read from files; a file is read once by a run."""
    start = config.start
    paths = [path for path in (start.grpo_checkpoint, start.rce_checkpoint, start.sft_checkpoint) if path]
    return {path: ahead.foresee(file_steps.read_checkpoint) for path in dict.fromkeys(paths)}


def _weights(trained: Any) -> Any:
    return trained.weights if known(trained) else trained


def _searched(
    config: LeverConfig,
    world: Any,
    pools: Any,
    recipe: Any,
    files: Layout,
    ahead: Foresight,
    *,
    queries: int,
    asking: dict[str, Any],
) -> tuple[Any, ...]:
    """The demonstrations of a search, shard by shard, and their file."""
    count = min(queries, config.beams.queries or queries)
    search: dict[str, Any] = {"pools": pools, "settings": config.beams, **asking}
    beams = tuple(ahead.foresee(steps.search_beams, world, shard=one, **search) for one in shards_of(count))
    merged = ahead.foresee(steps.merge_beams, beams, pools=pools)
    if known(recipe):
        _export(ahead, {files.beam_data(config.judge, recipe, config.beams.width, config.shots, count): merged})
    else:
        ahead.may_run(file_steps.export_files, recipe.waits_for)
    return beams


def _rl_data(
    config: LeverConfig,
    world: Any,
    pools: Any,
    selector: Any,
    ahead: Foresight,
    *,
    queries: int,
    asking: dict[str, Any],
) -> Any:
    """Judged pointers, shard by shard, as one file."""
    if config.start.rl_data:
        return ahead.foresee(file_steps.read_rl_data)
    settings = config.rl_data.model_copy(update={"gt_prob": config.rl_data.gt_prob or config.reward in OF_LIKELIHOODS})
    chosen: dict[str, Any] = {"pools": pools, "selector": selector, "settings": settings, **asking}
    parts = tuple(ahead.foresee(steps.generate_rl_data, world, shard=one, **chosen) for one in shards_of(queries))
    return ahead.foresee(steps.merge_rl_data, parts)


def _export(ahead: Foresight, files: dict[Path, Any]) -> None:
    ahead.foresee(file_steps.export_files, {str(path): made for path, made in files.items()})


def _keep(
    config: LeverConfig,
    seeds: Sequence[SeedReport | Unknown],
    dataset: Ref | Unknown,
    files: Layout,
    ahead: Foresight,
) -> None:
    """The figures over all seeds, and where they go."""
    evaluated = tuple(one if isinstance(one, Unknown) else one.evaluated for one in seeds)
    summary = ahead.foresee(steps.summarise, evaluated)
    drawn = ahead.foresee(steps.draw_results, summary, seeds=tuple(seeds), dataset=dataset)
    if config.save != "database":
        folder = files.results / files.dataset / "selectors"
        if known(drawn):
            figures = drawn.figures | {f"{name}.png": ref for name, ref in drawn.plots.items()}
            _export(ahead, {folder / name: ref for name, ref in figures.items()})
        else:
            ahead.may_run(file_steps.export_files, drawn.waits_for)
    ahead.foresee(steps.publish_report)
    if config.save != "file":
        ahead.will_run(steps.write_database, REPORT)
