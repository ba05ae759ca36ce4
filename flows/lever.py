"""A small network learns which demonstrations to show a vision-language model, and the gain is measured.

for every seed: build_pools ─► search_beams ─► train_sft ─► generate_rl_data ─► train_rce ─► train_grpo ─┐
                (CPU) │        (GPU: judge)    (GPU)        (GPU: judge)        (GPU)        (GPU: both) │
                      └─ no likelihoods: imitate_similarity ─┘                    (GPU: judge) evaluate ◄─ gate ◄┘
read_dataset ─► export_embeddings ──┘                                                       all seeds ─► summarise
(hash)          (GPU: encoder)
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prefect import flow
from prefect.runtime import flow_run
from prefect.task_runners import ThreadPoolTaskRunner

from flows.running.environment import program
from flows.running.lever_config import LeverConfig
from flows.running.run_reporting import say, watched
from flows.running.run_state import LeverRun
from models.model_errors import ModelUnavailable
from storage.records import Ref
from tasks.lever import steps
from tasks.lever.data.folder_layout import CARD_SUFFIX, Layout
from tasks.lever.judge.judges import CPU_WORLDS, DIGITS, EncoderSpec, JudgeSpec, identify_judge
from tasks.lever.learning.lever_results import LeverReport, describe_gains, describe_verdicts
from tasks.lever.lever_options import OF_LIKELIHOODS
from tasks.lever.lever_records import Embedded, PoolRecipe, Stage
from tasks.lever.worlds import DatasetRead, Effort, Learning, World, shard_numbers
from tasks.resources import embedder
from tasks.step import gather, with_device, with_name

runner: Any = ThreadPoolTaskRunner(max_workers=1)  # one judge, one device: shards follow one another


@flow(name="lever", flow_run_name="{config.title}", version=program(), task_runner=runner, persist_result=False)
@watched
def post_train(config: LeverConfig) -> LeverReport:
    """Train a selector of demonstrations and measure it; only what was never made is made. Raises Unfinished."""
    lever_run = LeverRun.begin(flow_run.id, config.model_dump(mode="json"))
    files = Layout(config.results, config.dataset.title)
    config.require_inputs()
    weights = None  # of the CPU worlds' judge, whose tower is their encoder as well
    if DIGITS in (config.judge, config.encoder):
        weights = with_name(steps.train_digits_judge, "train judge")(steps=config.digits.judge_steps)
    dataset = _read_dataset(config, files)
    tower = weights if config.encoder == DIGITS else None
    encoder = EncoderSpec(name=config.encoder, weights=tower, adapters=config.adapters)
    embedded = _read_embeddings(config, dataset.dataset, files, lever_run, encoder=encoder)
    # the splits of CPU worlds are drawn apart
    parted = dataset if config.dataset.name in CPU_WORLDS else steps.part_leaks(dataset, embedded=embedded)
    identity, remarks = identify_judge(config.judge) if config.asks_judge else ("", ())
    lever_run.add_notes(*parted.notes, *remarks)
    world = World(
        dataset=parted.dataset,
        embedded=embedded,
        judge=JudgeSpec(
            name=config.judge,
            weights=weights if config.judge == DIGITS else None,
            fingerprint=identity,
        ),
        prompts=config.prompts,
        threshold=config.threshold,
        stem=config.stem,
    )
    from flows.running.judge_calls import count_calls  # brings torch, of which `prefect deploy` needs nothing

    calls = count_calls(config.model_copy(update={"begin_at": "embed"}), parted.dataset).calls
    card = {"encoder": None if config.start.query_embeddings else encoder, "notes": parted.notes, "judgments": calls}
    for seed in range(config.first_seed, config.first_seed + config.seeds):
        with lever_run.seed(seed):
            lever_run.finish_stage("embed")
            place = files.of_seed(seed, alone=config.seeds == 1)
            if config.seeds > 1 and (shared := [str(path) for _, path in config.start if path]):
                lever_run.add_notes(
                    f"all seeds begin with {', '.join(shared)}: intervals over seeds do not tell how these would vary"
                )
            begun = config.with_earlier_files(place)
            _SeedRun(begun, world, place, lever_run, queries=parted.train_queries, card=card, seed=seed).run()
    if evaluated := tuple(seed_report.evaluated for seed_report in lever_run.seeds if seed_report.evaluated):
        lever_run.summary = steps.summarise(evaluated)
        drawn = steps.draw_results(lever_run.summary, seeds=tuple(lever_run.seeds))
        if config.save != "database":
            folder = files.results / files.dataset / "selectors"
            _export(lever_run, {folder / name: ref for name, ref in drawn.items()})
        pictures: Any = {"drawn": drawn, "files": tuple(lever_run.files)}
        lever_run.attempt(lambda: steps.publish_report(lever_run.summary, **pictures), "the Prefect UI")
        if config.save != "file":
            lever_run.attempt(lambda: steps.write_database(lever_run.report(), dataset=dataset.dataset), "the database")
        say("; ".join([*describe_gains(lever_run.summary)[:1], *describe_verdicts(lever_run.summary)]))
    return lever_run.end()


def _read_dataset(config: LeverConfig, files: Layout) -> DatasetRead:
    """Read the dataset; a CPU world is drawn first, unless its folder is given."""
    dataset, start = config.dataset, config.start
    drawn = dataset.name in CPU_WORLDS and dataset.data_dir is None
    if drawn:
        steps.write_digits(files.data.absolute(), world=dataset.name, **config.world_sizes)
    return steps.read_dataset(
        dataset.name,
        data_dir=files.data.absolute() if drawn else dataset.data_dir,
        train_queries=dataset.train_queries,
        validation=dataset.validation,
        test=dataset.test,
        queries_of=start.beam_data or start.rl_data or start.query_embeddings,
        metric=dataset.metric,
    )


def _read_embeddings(
    config: LeverConfig, dataset: Ref, files: Layout, lever_run: LeverRun, *, encoder: EncoderSpec
) -> Embedded:
    """Return the embeddings, read from given files, or made and written to the cache. Raises ModelUnavailable."""
    start = config.start
    if start.query_embeddings and start.candidate_embeddings:
        return steps.read_embeddings(queries=start.query_embeddings, candidates=start.candidate_embeddings)
    if config.is_text_task:
        encoder = encoder.model_copy(update={"fingerprint": embedder(config.encoder).id})
    elif config.encoder != DIGITS:
        from models.causal_weights import find_clip  # brings Pillow

        try:
            fingerprint = find_clip(config.encoder, adapters=config.adapters).fingerprint
        except ModelUnavailable as error:
            raise ModelUnavailable(f"--set encoder={config.encoder}: {error}") from error
        encoder = encoder.model_copy(update={"fingerprint": fingerprint})
    embedded = with_name(steps.export_embeddings, f"embed {config.dataset.title}")(dataset, encoder=encoder)
    lever_run.add_files(steps.write_embeddings(embedded, dataset=dataset, folder=files.cache).files)
    return embedded


class _SeedRun:
    """The run of one seed, from its pools to its evaluation."""

    def __init__(
        self, config: LeverConfig, world: World, files: Layout, lever_run: LeverRun, queries: int, card: Any, seed: int
    ) -> None:
        """config: with the files that the run begins with; queries: number of train queries; card: fields of it."""
        self.config, self.world, self.files, self.lever_run = config, world, files, lever_run
        self.queries, self.card, self.seed = queries, card, seed
        effort = Effort(device=config.device, spending=config.spending)
        self.asking: Any = {"learning": Learning(shots=config.shots, seed=seed), "effort": effort}

    def run(self) -> None:
        """Go through every stage, each read from a file or done, up to the last one that was asked for."""
        config, lever_run = self.config, self.lever_run
        recipe = self._pool_recipe()
        build_pools = with_name(steps.build_pools, f"build pools, seed {self.seed}")
        pools = build_pools(self.world.dataset, embedded=self.world.embedded, recipe=recipe, seed=self.seed)
        lever_run.finish_stage("pools")

        selectors, pools = self._train_in_stages(pools, recipe)
        stage = list(selectors)[-1]
        gate = with_device(steps.gate_selector, in_process=self.world.judge.in_process)
        compare = with_name(gate, f"compare {stage.upper()} with rules, seed {self.seed}")
        gated = compare(self.world, pools=pools, selector=selectors[stage], stage=stage, **self.asking)
        checkpoint = self.files.checkpoint(stage, recipe.sampler)
        _export(lever_run, {checkpoint: gated.weights})
        if stage == "grpo":
            lever_run.finish_stage(stage)

        future = with_name(steps.evaluate_selector, f"evaluate, seed {self.seed}").submit(
            self.world,
            pools=pools,
            selectors=selectors,
            verdict=gated.verdict,
            shots=tuple(sorted({*config.evaluated_shots, config.shots})),
            oracle=config.oracle,
            **self.asking,
        )
        [evaluated] = lever_run.note(gather([future]))
        lever_run.add_evaluation(evaluated)
        about: Any = {"pools": pools, "selector": gated.weights, "learning": self.asking["learning"]}
        card = steps.make_card(self.world, evaluated=evaluated, **about, **self.card)
        _export(lever_run, {checkpoint.with_suffix(CARD_SUFFIX): card})
        lever_run.finish_stage("evaluate")

    def _train_in_stages(self, pools: Ref, recipe: PoolRecipe) -> tuple[dict[Stage, Ref], Ref]:
        """Return the selectors of SFT, RCE and, if configured, GRPO, each read or trained in turn, and their pools."""
        config, lever_run, start = self.config, self.lever_run, self.config.start
        sft, pools = self._run_sft(pools, recipe)
        _export(lever_run, {self.files.checkpoint("sft", recipe.sampler): sft})
        lever_run.finish_stage("sft")

        data = None
        if config.needs_rl_data:
            data = self._run_rl_data(pools, sft)
            copies = [config.rl_data_copy] if config.rl_data_copy else []
            _export(lever_run, dict.fromkeys([self.files.rl_data(recipe.sampler), *copies], data))
        lever_run.finish_stage("rl-data")

        rewarded: Any = {"pools": pools, "data": data, "reward": config.reward, **self.asking}
        if start.rce_checkpoint:
            rce = self._read_selector(start.rce_checkpoint)
        else:
            train_rce = with_name(steps.train_rce, f"train RCE, seed {self.seed}")
            rce = lever_run.add_selector(train_rce(self.world, selector=sft, settings=config.rce, **rewarded))
        _export(lever_run, {self.files.checkpoint("rce", recipe.sampler): rce})
        lever_run.finish_stage("rce")

        selectors: dict[Stage, Ref] = {"sft": sft, "rce": rce}
        if start.grpo_checkpoint:
            selectors["grpo"] = self._read_selector(start.grpo_checkpoint)
        elif config.trains_grpo:
            train_grpo = with_name(steps.train_grpo, f"train GRPO, seed {self.seed}")
            trained = train_grpo(self.world, selector=rce, settings=config.grpo, **rewarded)
            selectors["grpo"] = lever_run.add_selector(trained)
        return selectors, pools

    def _pool_recipe(self) -> PoolRecipe:
        """Return the recipe of the pools: that of the latest checkpoint, unless configured; note others that differ."""
        start, modalities = self.config.start, self.world.embedded.modalities
        paths = [path for path in (start.grpo_checkpoint, start.rce_checkpoint, start.sft_checkpoint) if path]
        trained = {path: self._read_checkpoint(path).recipe for path in paths}
        recipe = self.config.pools(next(iter(trained.values()), None)).limited_to(modalities)
        for path, own in trained.items():
            if own and not own.limited_to(modalities).matches(recipe):
                self.lever_run.add_notes(
                    f"{path.name} was trained in {own.description}; this run has {recipe.description}"
                )
        return recipe

    def _run_sft(self, pools: Ref, recipe: PoolRecipe) -> tuple[Ref, Ref]:
        """Return the SFT selector, read or trained on demonstrations of a file or search, and the pools of these."""
        config, lever_run, start, beams = self.config, self.lever_run, self.config.start, ()
        if start.beam_data:
            read = steps.read_beams(start.beam_data, dataset=self.world.dataset, pools=pools, shots=config.shots)
            lever_run.add_notes(*read.notes)
            beams, pools = (read.content,), read.pools or pools
        if start.sft_checkpoint:
            return self._read_selector(start.sft_checkpoint), pools
        if not beams and not config.gives_log_probs:
            beams = (steps.imitate_similarity(self.world, pools=pools, learning=self.asking["learning"]),)
            lever_run.add_notes(
                f"SFT imitates the nearest candidates: {config.judge} gives no log-probabilities to search for better"
            )
        elif not beams:
            queries = min(self.queries, config.beams.queries or self.queries)
            search: Any = {"pools": pools, "settings": config.beams}
            beams = self._ask_judge(steps.search_beams, "search beams", queries, **search)
            place = self.files.beam_data(config.judge, recipe, config.beams.width, config.shots, queries)
            _export(lever_run, {place: steps.merge_beams(beams, pools=pools)})
        lever_run.finish_stage("beams")
        train_sft = with_name(steps.train_sft, f"train SFT, seed {self.seed}")
        settings: Any = {"network": config.network, "settings": config.sft, **self.asking}
        return lever_run.add_selector(train_sft(self.world, pools=pools, beams=beams, **settings)), pools

    def _run_rl_data(self, pools: Ref, selector: Ref) -> Ref:
        """Return the judged pointers, read from a file, or drawn by the selector shard by shard."""
        config = self.config
        if config.start.rl_data:
            read = steps.read_rl_data(config.start.rl_data, world=self.world, shots=config.shots)
            self.lever_run.add_notes(*read.notes)
            return read.content
        weighed = config.reward in OF_LIKELIHOODS
        inputs: Any = {"pools": pools, "selector": selector, "settings": config.rl_data, "gt_prob": weighed}
        return steps.merge_rl_data(self._ask_judge(steps.generate_rl_data, "RL data", self.queries, **inputs))

    def _ask_judge(self, step: Any, label: str, queries: int, **inputs: Any) -> tuple[Ref, ...]:
        """Run a step that asks the judge about the first so many queries, shard by shard; return its results."""
        shards = shard_numbers(queries)
        asks_judge = with_device(step, in_process=self.world.judge.in_process)
        futures = [
            with_name(asks_judge, f"{label}, seed {self.seed}, {shard + 1}/{len(shards)}").submit(
                self.world, shard=shard, **inputs, **self.asking
            )
            for shard in shards
        ]
        return tuple(self.lever_run.note(gather(futures)))

    def _read_checkpoint(self, path: Path) -> steps.FileRead:
        return steps.read_checkpoint(path, heads=self.config.network.heads, embedded=self.world.embedded)

    def _read_selector(self, path: Path) -> Ref:
        read = self._read_checkpoint(path)
        self.lever_run.add_notes(*(f"{path.name}: {note}" for note in read.notes))
        return read.content


def _export(lever_run: LeverRun, files: dict[Path, Ref]) -> None:
    """Write artifacts to files, which the report names."""
    lever_run.add_files(steps.export_files({str(path): ref for path, ref in files.items()}).files)
