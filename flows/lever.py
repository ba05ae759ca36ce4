"""A small network learns which demonstrations to show a vision-language model, and the gain is measured.

for every seed: build_pools ─► search_beams ─► train_sft ─► generate_rl_data ─► train_rce ─► train_grpo ─► evaluate
                (CPU)          (GPU: judge)    (GPU)        (GPU: judge)        (GPU)        (GPU: both)   (GPU: judge)
read_dataset ─► export_embeddings ──┘                                                       all seeds ─► summarise
(hash)          (GPU: encoder)
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, get_args

from flows.settings import configure_steps

configure_steps()  # before prefect and the steps are imported: both read what it sets

from prefect import flow  # noqa: E402
from prefect.runtime import flow_run  # noqa: E402
from prefect.task_runners import ThreadPoolTaskRunner  # noqa: E402
from pydantic import BaseModel, ConfigDict, Field, model_validator  # noqa: E402

from flows.learning import Ongoing, begin  # noqa: E402
from storage.records import Ref  # noqa: E402
from tasks.budget import Spending  # noqa: E402
from tasks.lever.comparing import Summary  # noqa: E402
from tasks.lever.judges import (  # noqa: E402
    DIGITS,
    EncoderSpec,
    JudgeSpec,
    encoder_spec,
    fingerprint_of_judge,
)
from tasks.lever.layout import Layout  # noqa: E402
from tasks.lever.options import (  # noqa: E402
    BeamSettings,
    NetworkSettings,
    OracleSettings,
    RewardMode,
    RlDataSettings,
    Vectors,
)
from tasks.lever.prompting import PromptSettings  # noqa: E402
from tasks.lever.records import Embedded, Sampler  # noqa: E402
from tasks.lever.report import LeverReport  # noqa: E402
from tasks.lever.settings import GrpoSettings, RceSettings, SftSettings  # noqa: E402
from tasks.lever.steps import (  # noqa: E402
    DatasetRead,
    Effort,
    Learning,
    World,
    build_pools,
    draw_results,
    evaluate_selector,
    export_embeddings,
    export_files,
    generate_rl_data,
    merge_beams,
    merge_rl_data,
    publish_report,
    read_beams,
    read_checkpoint,
    read_dataset,
    read_embeddings,
    read_rl_data,
    search_beams,
    shards_of,
    summarise,
    train_digits_judge,
    train_grpo,
    train_rce,
    train_sft,
    write_database,
    write_digits,
    write_embeddings,
)
from tasks.step import called, gather  # noqa: E402

StageName = Literal["embed", "pools", "beams", "sft", "rl-data", "rce", "grpo", "evaluate"]
STAGES: tuple[StageName, ...] = get_args(StageName)


class _Config(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class DatasetConfig(_Config):
    """Which questions are asked."""

    name: Literal["digits", "okvqa", "vqav2", "textvqa", "vizwiz"] = DIGITS
    """`digits` is drawn here; the others lie in `data_dir` in the official format."""
    data_dir: Path | None = None
    """Folder of questions, annotations and pictures; of `digits` below the results unless said."""
    train_queries: int = Field(default=4000, ge=1)
    """Training items that selectors learn from; all training items are candidates."""
    validation: int = Field(default=400, ge=1)
    """Held-out queries by which checkpoints are chosen."""
    test: int | None = Field(default=400, ge=1)
    """Held-out queries that are reported; none: all that are left."""
    seed: int = 0
    """By which the splits are drawn; the same for all runs that are to be compared."""


class DigitsConfig(_Config):
    """The CPU world, where the dataset is `digits`."""

    seed: int = 0
    """Of its pictures, its lexicon and its judge."""
    candidates: int = Field(default=4000, ge=10)
    """Training items."""
    judge_steps: int = Field(default=800, ge=1)
    """Updates of the judge's training."""


class StartConfig(_Config):
    """Files that take the place of what earlier stages would make."""

    query_embeddings: Path | None = None
    """`query_embeddings.pt`."""
    candidate_embeddings: Path | None = None
    """`candidate_embeddings.pt`."""
    beam_data: Path | None = None
    """Beam data of the seed, old or new."""
    sft_checkpoint: Path | None = None
    """A trained v2 selector: ours, or a checkpoint of the seed."""
    rl_data: Path | None = None
    """`rl_data_{Sampler}.json`."""
    rce_checkpoint: Path | None = None
    """A selector that GRPO goes on with."""
    grpo_checkpoint: Path | None = None
    """A selector that is only measured."""

    @model_validator(mode="after")
    def _has_both_embeddings(self) -> Self:
        if (self.query_embeddings is None) != (self.candidate_embeddings is None):
            raise ValueError("query_embeddings and candidate_embeddings: give both files, or none")
        return self


class LeverConfig(_Config):
    """What `post_train` needs to know; the Prefect UI draws its form from it. The defaults are of the CPU world."""

    dataset: DatasetConfig = DatasetConfig()
    digits: DigitsConfig = DigitsConfig()
    judge: str = DIGITS
    """`openai:MODEL`, `hf:NAME or path`, `scripted`; `digits` answers only its own world."""
    concurrency: int = Field(default=16, ge=1)
    """Questions under way at once at an endpoint."""
    encoder: str = DIGITS
    """`clip`, the name or path of another CLIP, or `digits`."""
    adapters: Path | None = None
    """Folder of LoRA weights that the CLIP is trained with."""
    prompts: PromptSettings = PromptSettings()
    """How demonstrations are shown."""
    vectors: Vectors = "joint"
    """What the selector sees of queries and candidates."""
    sampler: Sampler = "RandSampler"
    """How candidates of a query are found."""
    pool_size: int = Field(default=32, ge=2)
    """Candidates of a query."""
    shots: int = Field(default=2, ge=1)
    """Demonstrations that selectors learn to choose."""
    network: NetworkSettings = NetworkSettings(layers=2, dropout=0.3)
    """The pointer network."""
    beams: BeamSettings = BeamSettings(candidates=16, queries=2500)
    """The search for demonstrations to imitate."""
    sft: SftSettings = SftSettings()
    """Learning to imitate."""
    rl_data: RlDataSettings = RlDataSettings(random=5)
    """Which pointers are judged."""
    reward: RewardMode = "hard_plus_soft"
    """What an answer is worth."""
    threshold: float = Field(default=0.5, gt=0, le=1)
    """VQA accuracy from which an answer counts as right."""
    stem: bool = False
    """Compare stems of words, as OK-VQA does."""
    rce: RceSettings = RceSettings(epochs=10, temperature_start=0.5, temperature_end=0.1)
    """Learning from rewarded groups."""
    grpo: GrpoSettings = GrpoSettings(lr=1.5e-3, rounds=18, draws=8, beta=0.005, beta_min=0.005, beta_max=0.005)
    """Learning from comparisons within groups; it goes on from RCE."""
    rce_only: bool = False
    """No GRPO; an ablation."""
    evaluated_shots: tuple[int, ...] = (1, 2, 3, 4)
    """Numbers of demonstrations that are reported."""
    oracle: OracleSettings = OracleSettings()
    """What the best demonstrations would give."""
    seeds: int = Field(default=1, ge=1)
    """Runs with other pools, draws and initial weights; gains are told over all of them."""
    first_seed: int = 0
    """Of the first run."""
    start: StartConfig = StartConfig()
    """Files in place of stages, the same for all seeds."""
    begin_at: StageName = "embed"
    """The first stage: what comes before it is read from the results folder, of each seed its own."""
    until: StageName = "evaluate"
    """The last stage."""
    results: Path = Path("results")
    """Folder of the files that users see: `{results}/{dataset}/…`, as the seed names them."""
    rl_data_copy: Path | None = None
    """A second place for the RL data."""
    device: str | None = None
    """`cpu`, `cuda:0` …; none: a GPU if there is one."""
    spending: Spending = Spending()
    """When to stop asking the judge."""
    save: Literal["file", "database", "both"] = "both"
    """Where figures are kept."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        """Said before anything is trained."""
        most = max((self.shots, *self.evaluated_shots) if self.until == "evaluate" else (self.shots,))
        if most > self.pool_size:
            raise ValueError(f"{most} shots from pools of {self.pool_size}: widen pool_size, or lower the shots")
        if min(self.evaluated_shots, default=1) < 1:
            raise ValueError(f"evaluated_shots {self.evaluated_shots}: at least 1 is shown")
        likely = self.judge.split(":")[0] in (DIGITS, "hf", "scripted")
        if self.reward == "hard_plus_gtprob" and not likely:
            raise ValueError(
                f"the reward hard_plus_gtprob needs log-probabilities, and {self.judge} gives none; take hf:…"
            )
        searched = self.until not in ("embed", "pools") and STAGES.index(self.begin_at) <= STAGES.index("beams")
        if searched and not likely and not (self.start.beam_data or self.start.sft_checkpoint):
            raise ValueError(
                f"the search for demonstrations to imitate needs log-probabilities, and {self.judge} gives none: give "
                "--beam-data or --sft-ckpt, or a judge in this process (hf:…)"
            )
        return self


runner: Any = ThreadPoolTaskRunner(max_workers=1)  # one judge, one device: shards follow one another


@flow(name="lever", flow_run_name="post-train {config.dataset.name}", task_runner=runner, persist_result=False)
def post_train(config: LeverConfig) -> LeverReport:
    """Train a selector of demonstrations and measure it; only what was never made is made."""
    ongoing = begin(flow_run.id, config.model_dump(mode="json"), until=config.until)
    files = Layout(config.results, config.dataset.name)
    if config.device:
        from tasks.lever.learning import device_of

        device_of(config.device)
    weights = _digits_judge(config)
    found = _dataset(config, files)
    if found.left_out:
        ongoing.say(f"{found.left_out} questions were left out: no whole picture, or no answer")
    embedded = _embedded(config, found, files, ongoing, weights=weights)
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
            _learn(config, found, world, files.of_seed(seed, alone=config.seeds == 1), ongoing, seed=seed)
    if evaluated := tuple(one.evaluated for one in ongoing.seeds if one.evaluated):
        ongoing.summary = summarise(evaluated)
        _keep(config, found, files, ongoing, ongoing.summary)
    return ongoing.end()


def _learn(
    config: LeverConfig, found: DatasetRead, world: World, files: Layout, ongoing: Ongoing, *, seed: int
) -> None:
    """One seed, from its pools to its figures."""
    learning = Learning(shots=config.shots, seed=seed)
    effort = Effort(device=config.device, concurrency=config.concurrency, spending=config.spending)
    start = config.start.model_copy(update=_begun(config, files))
    if config.seeds > 1 and (shared := [str(path) for _, path in config.start if path]):
        ongoing.say(f"all seeds begin with {', '.join(shared)}: intervals over seeds do not tell how these would vary")
    pools = build_pools(
        found.dataset, embedded=world.embedded, sampler=config.sampler, size=config.pool_size, seed=seed
    )
    ongoing.done("pools")

    asking: Any = {"learning": learning, "effort": effort}
    sft, pools = _imitate(config, start, found, world, files, ongoing, pools=pools, asking=asking)
    ongoing.wrote(export_files({str(files.checkpoint("sft", config.sampler)): sft}).files)
    ongoing.done("sft")

    data, measured_only = None, config.begin_at == "evaluate"
    if not (start.rce_checkpoint and (start.grpo_checkpoint or config.rce_only or measured_only)):
        data = _rl_data(config, start, found, world, ongoing, pools=pools, selector=sft, asking=asking)
        ongoing.wrote(export_files(dict.fromkeys(map(str, _places(config, files)), data)).files)
    ongoing.done("rl-data")

    learnt: Any = {"pools": pools, "data": data, "reward": config.reward, **asking}
    if start.rce_checkpoint:
        rce = _read_checkpoint(config, start.rce_checkpoint, world, ongoing)
    else:
        step = called(train_rce, f"train RCE, seed {seed}")
        rce = ongoing.trained(step(world, selector=sft, settings=config.rce, **learnt))
    ongoing.wrote(export_files({str(files.checkpoint("rce", config.sampler)): rce}).files)
    ongoing.done("rce")

    selectors = {"sft": sft, "rce": rce}
    if start.grpo_checkpoint:
        selectors["grpo"] = _read_checkpoint(config, start.grpo_checkpoint, world, ongoing)
    elif not (config.rce_only or measured_only):
        step = called(train_grpo, f"train GRPO, seed {seed}")
        selectors["grpo"] = ongoing.trained(step(world, selector=rce, settings=config.grpo, **learnt))
    if grpo := selectors.get("grpo"):
        ongoing.wrote(export_files({str(files.checkpoint("grpo", config.sampler)): grpo}).files)
        ongoing.done("grpo")

    future = called(evaluate_selector, f"evaluate, seed {seed}").submit(
        world,
        pools=pools,
        selectors=selectors,
        sampler=config.sampler,
        shots=tuple(sorted({*config.evaluated_shots, config.shots})),
        oracle=config.oracle,
        **asking,
    )
    [evaluated] = ongoing.note(gather([future]))
    ongoing.evaluated(evaluated)
    ongoing.done("evaluate")


def _begun(config: LeverConfig, files: Layout) -> dict[str, Path]:
    """Files that an earlier run has left for this seed; those that the user names go before them."""
    left = files.files_before(config.begin_at, sampler=config.sampler)
    return {name: path for name, path in left.items() if getattr(config.start, name) is None}


def _digits_judge(config: LeverConfig) -> Ref | None:
    """The weights of the CPU world's judge, whose tower is its encoder as well."""
    if DIGITS not in (config.judge, config.encoder):
        return None
    return train_digits_judge(seed=config.digits.seed, steps=config.digits.judge_steps)


def _judge(config: LeverConfig, weights: Ref | None) -> JudgeSpec:
    return JudgeSpec(
        name=config.judge,
        weights=weights if config.judge == DIGITS else None,
        fingerprint="" if config.until in ("embed", "pools") else fingerprint_of_judge(config.judge),
    )


def _dataset(config: LeverConfig, files: Layout) -> DatasetRead:
    """What is asked; the CPU world is drawn here."""
    chosen, start = config.dataset, config.start
    if drawn := chosen.name == DIGITS and chosen.data_dir is None:
        sizes: Any = {"train": config.digits.candidates, "validation": chosen.validation, "test": chosen.test or 400}
        write_digits(files.data.absolute(), seed=config.digits.seed, **sizes)
    return read_dataset(
        chosen.name,
        data_dir=files.data.absolute() if drawn else chosen.data_dir,
        train_queries=chosen.train_queries,
        validation=chosen.validation,
        test=chosen.test,
        seed=chosen.seed,
        queries_of=start.beam_data or start.rl_data or start.query_embeddings,
    )


def _embedded(
    config: LeverConfig, found: DatasetRead, files: Layout, ongoing: Ongoing, *, weights: Ref | None
) -> Embedded:
    """Vectors of files, or of the encoder."""
    start = config.start
    if start.query_embeddings and start.candidate_embeddings:
        read = read_embeddings(queries=start.query_embeddings, candidates=start.candidate_embeddings)
        return read.seen_as(config.vectors)
    if config.encoder == DIGITS:
        encoder = EncoderSpec(name=DIGITS, weights=weights)
    else:
        encoder = encoder_spec(config.encoder, adapters=config.adapters)
    embedded = export_embeddings(found.dataset, encoder=encoder)
    ongoing.wrote(write_embeddings(embedded, dataset=found.dataset, folder=files.cache).files)
    return embedded.seen_as(config.vectors)


class Imitating(NamedTuple):
    """A selector that imitates, and the pools that it was trained in."""

    selector: Ref
    pools: Ref


def _imitate(
    config: LeverConfig,
    start: StartConfig,
    found: DatasetRead,
    world: World,
    files: Layout,
    ongoing: Ongoing,
    *,
    pools: Ref,
    asking: Any,
) -> Imitating:
    """Of a file, or trained on demonstrations that a file holds or a search finds."""
    beams: tuple[Ref, ...] = ()
    if start.beam_data:
        read = read_beams(start.beam_data, dataset=found.dataset, pools=pools, shots=config.shots)
        for note in read.notes:
            ongoing.say(note)
        beams, pools = (read.beams,), read.pools
    if start.sft_checkpoint:
        return Imitating(_read_checkpoint(config, start.sft_checkpoint, world, ongoing), pools)
    seed = asking["learning"].seed
    if not beams:
        queries = min(found.train_queries, config.beams.queries or found.train_queries)
        step = called(search_beams, f"search beams, seed {seed}")
        search: Any = {"pools": pools, "settings": config.beams, **asking}
        beams = tuple(ongoing.note(gather([step.submit(world, shard=one, **search) for one in shards_of(queries)])))
        place = files.beam_data(
            config.judge, config.sampler, config.beams.width, config.shots, config.pool_size, queries
        )
        ongoing.wrote(export_files({str(place): merge_beams(beams, pools=pools)}).files)
    ongoing.done("beams")
    step = called(train_sft, f"train SFT, seed {seed}")
    trained = step(world, pools=pools, beams=beams, network=config.network, settings=config.sft, **asking)
    return Imitating(ongoing.trained(trained), pools)


def _read_checkpoint(config: LeverConfig, path: Path, world: World, ongoing: Ongoing) -> Ref:
    read = read_checkpoint(path, heads=config.network.heads, embedded=world.embedded)
    for note in read.notes:
        ongoing.say(f"{path.name}: {note}")
    return read.weights


def _rl_data(
    config: LeverConfig,
    start: StartConfig,
    found: DatasetRead,
    world: World,
    ongoing: Ongoing,
    *,
    pools: Ref,
    selector: Ref,
    asking: Any,
) -> Ref:
    """Judged pointers: of a file, or drawn by the selector shard by shard."""
    if start.rl_data:
        read = read_rl_data(start.rl_data, world=world, shots=config.shots)
        for note in read.notes:
            ongoing.say(note)
        return read.data
    step = called(generate_rl_data, f"RL data, seed {asking['learning'].seed}")
    settings = config.rl_data.model_copy(
        update={"gt_prob": config.rl_data.gt_prob or config.reward == "hard_plus_gtprob"}
    )
    chosen: Any = {"pools": pools, "selector": selector, "settings": settings, **asking}
    parts = gather([step.submit(world, shard=one, **chosen) for one in shards_of(found.train_queries)])
    return merge_rl_data(tuple(ongoing.note(parts)))


def _places(config: LeverConfig, files: Layout) -> list[Path]:
    own = files.rl_data(config.sampler)
    return [own, config.rl_data_copy] if config.rl_data_copy else [own]


def _keep(config: LeverConfig, found: DatasetRead, files: Layout, ongoing: Ongoing, summary: Summary) -> None:
    """The figures where users look for them: files, the Prefect UI, the database."""
    drawn = draw_results(summary, seeds=tuple(ongoing.seeds))
    if config.save != "database":
        folder = files.results / files.dataset / "selectors"
        plots = {f"{name}.png": ref for name, ref in drawn.plots.items()}
        ongoing.wrote(export_files({str(folder / name): ref for name, ref in (drawn.figures | plots).items()}).files)
    ongoing.attempt(lambda: publish_report(summary, plots=drawn.plots), "the Prefect UI")
    if config.save != "file":
        ongoing.attempt(lambda: write_database(ongoing.report(), dataset=found.dataset), "the database")
