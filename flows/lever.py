"""A small network learns which demonstrations to show a vision-language model, and the gain is measured.

for every seed: build_pools ─► search_beams ─► train_sft ─► generate_rl_data ─► train_rce ─► train_grpo ─► evaluate
                (CPU)          (GPU: judge)    (GPU)        (GPU: judge)        (GPU)        (GPU: both)   (GPU: judge)
read_dataset ─► export_embeddings ──┘                                                       all seeds ─► summarise
(hash)          (GPU: encoder)
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypedDict

from prefect import flow
from prefect.runtime import flow_run
from prefect.task_runners import ThreadPoolTaskRunner

from flows.running.environment import program
from flows.running.lever_config import LeverConfig
from flows.running.ongoing import LeverRun
from flows.running.run_reporting import say, watched
from storage.records import Ref
from tasks.lever import steps
from tasks.lever.data.folder_layout import Layout
from tasks.lever.judge.demonstration_task import WORDINGS
from tasks.lever.judge.judges import (
    CPU_WORLDS,
    DIGITS,
    EncoderSpec,
    JudgeSpec,
    encoder_spec,
    fingerprint_of_judge,
    text_encoder_spec,
)
from tasks.lever.learning.lever_results import LeverReport, headline_of
from tasks.lever.learning.selector_comparison import Summary
from tasks.lever.lever_options import OF_LIKELIHOODS
from tasks.lever.lever_records import Embedded, PoolRecipe, Sampler
from tasks.lever.worlds import DatasetRead, Effort, Learning, World, shards_of
from tasks.step import gather, placed, renamed


class Asking(TypedDict):
    """Arguments common to the steps that ask the judge."""

    learning: Learning
    effort: Effort


runner: Any = ThreadPoolTaskRunner(max_workers=1)  # one judge, one device: shards follow one another


@flow(name="lever", flow_run_name="{config.title}", version=program(), task_runner=runner, persist_result=False)
@watched
def post_train(config: LeverConfig) -> LeverReport:
    """Train a selector of demonstrations and measure it; only what was never made is made."""
    ongoing = LeverRun.begin(flow_run.id, config.model_dump(mode="json"))
    files = Layout(config.results, config.dataset.name)
    if config.device:
        from tasks.lever.learning.training_inputs import device_of

        device_of(config.device)
    weights = _digits_judge(config)
    found = _dataset(config, files)
    if found.left_out:
        ongoing.say(f"{found.left_out} items were left out: no whole picture, no answer, or a text that is examined")
    embedded = _embedded(config, found.dataset, files, ongoing, weights=weights)
    world = World(
        dataset=found.dataset,
        embedded=embedded,
        judge=_judge(config, weights),
        prompts=config.prompts,
        threshold=config.threshold,
        stem=config.stem,
    )
    for seed in range(config.first_seed, config.first_seed + config.seeds):
        with ongoing.seed(seed):
            ongoing.done("embed")
            place = files.of_seed(seed, alone=config.seeds == 1)
            _learn(config, world, place, ongoing, queries=found.train_queries, seed=seed)
    if evaluated := tuple(one.evaluated for one in ongoing.seeds if one.evaluated):
        ongoing.summary = steps.summarise(evaluated)
        _keep(config, found, files, ongoing, ongoing.summary)
        say(headline_of(ongoing.summary))
    return ongoing.end()


def _learn(config: LeverConfig, world: World, files: Layout, ongoing: LeverRun, *, queries: int, seed: int) -> None:
    """One seed, from its pools to its figures; `queries`: number of training queries."""
    asking = Asking(
        learning=Learning(shots=config.shots, seed=seed),
        effort=Effort(
            device=config.device,
            spending=config.spending,
        ),
    )
    if config.seeds > 1 and (shared := [str(path) for _, path in config.start if path]):
        ongoing.say(f"all seeds begin with {', '.join(shared)}: intervals over seeds do not tell how these would vary")
    config = config.begun_with(files)
    recipe = _recipe(config, world, ongoing)
    pools = renamed(steps.build_pools, f"build pools, seed {seed}")(
        world.dataset, embedded=world.embedded, recipe=recipe, seed=seed
    )
    ongoing.done("pools")

    sft, pools = _imitate(config, world, files, ongoing, queries=queries, pools=pools, recipe=recipe, asking=asking)
    _export(ongoing, {files.checkpoint("sft", recipe.sampler): sft})
    ongoing.done("sft")

    data = None
    if config.needs_rl_data:
        data = _rl_data(config, world, ongoing, queries=queries, pools=pools, selector=sft, asking=asking)
        copies = [config.rl_data_copy] if config.rl_data_copy else []
        _export(ongoing, dict.fromkeys([files.rl_data(recipe.sampler), *copies], data))
    ongoing.done("rl-data")

    rewarded: Any = {"pools": pools, "data": data, "reward": config.reward, **asking}
    learnt = _from_rewards(config, world, files, ongoing, start=sft, sampler=recipe.sampler, rewarded=rewarded)
    future = renamed(steps.evaluate_selector, f"evaluate, seed {seed}").submit(
        world,
        pools=pools,
        selectors={"sft": sft, **learnt},
        shots=tuple(sorted({*config.evaluated_shots, config.shots})),
        oracle=config.oracle,
        **asking,
    )
    [evaluated] = ongoing.note(gather([future]))
    ongoing.evaluated(evaluated)
    ongoing.done("evaluate")


def _from_rewards(
    config: LeverConfig,
    world: World,
    files: Layout,
    ongoing: LeverRun,
    *,
    start: Ref,
    sampler: Sampler,
    rewarded: dict[str, Any],
) -> dict[str, Ref]:
    """The selectors that learn from rewards, each read from a file or trained: RCE and GRPO."""
    seed = rewarded["learning"].seed
    if path := config.start.rce_checkpoint:
        rce = _read_checkpoint(config, path, world, ongoing)
    else:
        step = renamed(steps.train_rce, f"train RCE, seed {seed}")
        rce = ongoing.trained(step(world, selector=start, settings=config.rce, **rewarded))
    _export(ongoing, {files.checkpoint("rce", sampler): rce})
    ongoing.done("rce")

    selectors = {"rce": rce}
    if path := config.start.grpo_checkpoint:
        selectors["grpo"] = _read_checkpoint(config, path, world, ongoing)
    elif config.trains_grpo:
        step = renamed(steps.train_grpo, f"train GRPO, seed {seed}")
        selectors["grpo"] = ongoing.trained(step(world, selector=rce, settings=config.grpo, **rewarded))
    if grpo := selectors.get("grpo"):
        _export(ongoing, {files.checkpoint("grpo", sampler): grpo})
        ongoing.done("grpo")
    return selectors


def _recipe(config: LeverConfig, world: World, ongoing: LeverRun) -> PoolRecipe:
    """How pools are made: as the checkpoint says that the run begins with, unless the configuration says otherwise."""
    start = config.start
    paths = [path for path in (start.grpo_checkpoint, start.rce_checkpoint, start.sft_checkpoint) if path]
    trained = {path: _checkpoint(config, path, world).recipe for path in paths}
    recipe = config.pools(next(iter(trained.values()), None)).limited_to(world.embedded.modalities)
    for path, own in trained.items():
        if own and not own.limited_to(world.embedded.modalities).is_that_of(recipe):
            ongoing.say(f"{path.name} was trained in {own.told}; this run has {recipe.told}")
    return recipe


def _digits_judge(config: LeverConfig) -> Ref | None:
    """The weights of the CPU world's judge, whose tower is its encoder as well."""
    if DIGITS not in (config.judge, config.encoder):
        return None
    if config.digits.judge:
        return steps.read_judge(config.digits.judge)
    return renamed(steps.train_digits_judge, "train judge")(steps=config.digits.judge_steps)


def _judge(config: LeverConfig, weights: Ref | None) -> JudgeSpec:
    return JudgeSpec(
        name=config.judge,
        weights=weights if config.judge == DIGITS else None,
        fingerprint="" if config.until in ("embed", "pools") else fingerprint_of_judge(config.judge),
    )


def _dataset(config: LeverConfig, files: Layout) -> DatasetRead:
    """The dataset; a CPU world is drawn here."""
    chosen, start = config.dataset, config.start
    if drawn := chosen.name in CPU_WORLDS and chosen.data_dir is None:
        steps.write_digits(files.data.absolute(), world=chosen.name, **config.world_sizes)
    return steps.read_dataset(
        chosen.name,
        data_dir=files.data.absolute() if drawn else chosen.data_dir,
        train_queries=chosen.train_queries,
        validation=chosen.validation,
        test=chosen.test,
        queries_of=start.beam_data or start.rl_data or start.query_embeddings,
    )


def _embedded(config: LeverConfig, dataset: Ref, files: Layout, ongoing: LeverRun, *, weights: Ref | None) -> Embedded:
    """Embeddings: read from files, or made by the encoder."""
    start = config.start
    if start.query_embeddings and start.candidate_embeddings:
        read = steps.read_embeddings(queries=start.query_embeddings, candidates=start.candidate_embeddings)
        return read.seen_as(config.vectors)
    if config.encoder == DIGITS:
        encoder = EncoderSpec(name=DIGITS, weights=weights)
    elif config.dataset.name in WORDINGS:
        encoder = text_encoder_spec(config.encoder)
    else:
        encoder = encoder_spec(config.encoder, adapters=config.adapters)
    embedded = renamed(steps.export_embeddings, f"embed {config.dataset.name}")(dataset, encoder=encoder)
    ongoing.wrote(steps.write_embeddings(embedded, dataset=dataset, folder=files.cache).files)
    return embedded.seen_as(config.vectors)


def _imitate(
    config: LeverConfig,
    world: World,
    files: Layout,
    ongoing: LeverRun,
    *,
    queries: int,
    pools: Ref,
    recipe: PoolRecipe,
    asking: Asking,
) -> tuple[Ref, Ref]:
    """The SFT selector, read from a file, or trained on demonstrations from a file or a search; and its pools."""
    start, beams = config.start, ()
    if start.beam_data:
        read = steps.read_beams(start.beam_data, dataset=world.dataset, pools=pools, shots=config.shots)
        ongoing.say(*read.notes)
        beams, pools = (read.content,), read.pools or pools
    if start.sft_checkpoint:
        return _read_checkpoint(config, start.sft_checkpoint, world, ongoing), pools
    seed = asking["learning"].seed
    if not beams:
        queries = min(queries, config.beams.queries or queries)
        shards = shards_of(queries)
        search: Any = {"pools": pools, "settings": config.beams, **asking}
        asks_judge = placed(steps.search_beams, in_process=world.judge.in_process)
        searching = [
            renamed(asks_judge, f"search beams, seed {seed}, {one + 1}/{len(shards)}").submit(
                world, shard=one, **search
            )
            for one in shards
        ]
        beams = tuple(ongoing.note(gather(searching)))
        place = files.beam_data(config.judge, recipe, config.beams.width, config.shots, queries)
        _export(ongoing, {place: steps.merge_beams(beams, pools=pools)})
    ongoing.done("beams")
    step = renamed(steps.train_sft, f"train SFT, seed {seed}")
    trained = step(world, pools=pools, beams=beams, network=config.network, settings=config.sft, **asking)
    return ongoing.trained(trained), pools


def _checkpoint(config: LeverConfig, path: Path, world: World) -> steps.FileRead:
    return steps.read_checkpoint(path, heads=config.network.heads, embedded=world.embedded)


def _read_checkpoint(config: LeverConfig, path: Path, world: World, ongoing: LeverRun) -> Ref:
    read = _checkpoint(config, path, world)
    ongoing.say(*(f"{path.name}: {note}" for note in read.notes))
    return read.content


def _rl_data(
    config: LeverConfig, world: World, ongoing: LeverRun, *, queries: int, pools: Ref, selector: Ref, asking: Asking
) -> Ref:
    """Judged pointers: read from a file, or drawn by the selector shard by shard."""
    if config.start.rl_data:
        read = steps.read_rl_data(config.start.rl_data, world=world, shots=config.shots)
        ongoing.say(*read.notes)
        return read.content
    seed, shards = asking["learning"].seed, shards_of(queries)
    weighed = config.reward in OF_LIKELIHOODS
    chosen: Any = {"pools": pools, "selector": selector, "settings": config.rl_data, "gt_prob": weighed, **asking}
    asks_judge = placed(steps.generate_rl_data, in_process=world.judge.in_process)
    drawing = [
        renamed(asks_judge, f"RL data, seed {seed}, {one + 1}/{len(shards)}").submit(world, shard=one, **chosen)
        for one in shards
    ]
    return steps.merge_rl_data(tuple(ongoing.note(gather(drawing))))


def _export(ongoing: LeverRun, files: dict[Path, Ref]) -> None:
    """Write artifacts to files, which the report names."""
    ongoing.wrote(steps.export_files({str(path): ref for path, ref in files.items()}).files)


def _keep(config: LeverConfig, found: DatasetRead, files: Layout, ongoing: LeverRun, summary: Summary) -> None:
    """Write the figures to files, the Prefect UI and the database."""
    drawn = steps.draw_results(summary, seeds=tuple(ongoing.seeds))
    if config.save != "database":
        folder = files.results / files.dataset / "selectors"
        _export(ongoing, {folder / name: ref for name, ref in drawn.items()})
    ongoing.attempt(lambda: steps.publish_report(summary, drawn=drawn, files=tuple(ongoing.files)), "the Prefect UI")
    if config.save != "file":
        ongoing.attempt(lambda: steps.write_database(ongoing.report(), dataset=found.dataset), "the database")
