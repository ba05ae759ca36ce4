"""A small network learns which demonstrations to show a vision-language model, and the gain is measured.

for every seed: build_pools ─► search_beams ─► train_sft ─► generate_rl_data ─► train_rce ─► train_grpo ─► evaluate
                (CPU)          (GPU: judge)    (GPU)        (GPU: judge)        (GPU)        (GPU: both)   (GPU: judge)
read_dataset ─► export_embeddings ──┘                                                       all seeds ─► summarise
(hash)          (GPU: encoder)
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, NamedTuple

from flows.settings import configure_steps

configure_steps()  # before prefect and the steps are imported: both read what it sets

from prefect import flow  # noqa: E402
from prefect.runtime import flow_run  # noqa: E402
from prefect.task_runners import ThreadPoolTaskRunner  # noqa: E402
from pydantic import BaseModel, ConfigDict, Field  # noqa: E402

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
from tasks.lever.records import Sampler  # noqa: E402
from tasks.lever.report import LeverReport  # noqa: E402
from tasks.lever.settings import GrpoSettings, RceSettings, SftSettings  # noqa: E402
from tasks.lever.steps import (  # noqa: E402
    DatasetRead,
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


class _Config(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class DatasetConfig(_Config):
    """Which questions are asked."""

    name: Literal["digits", "okvqa", "vqav2", "textvqa", "vizwiz"] = DIGITS
    """`digits` is drawn here; the others lie in `data_dir` in the official format."""
    data_dir: Path | None = None
    """Folder of questions, annotations and pictures; of `digits` below the results unless said."""
    train_queries: int = Field(default=800, ge=1)
    """Training items that selectors learn from; all training items are candidates."""
    validation: int = Field(default=400, ge=1)
    """Held-out queries by which checkpoints are chosen."""
    test: int | None = Field(default=400, ge=1)
    """Held-out queries that are reported; none: all that are left."""


class DigitsConfig(_Config):
    """The CPU world, where the dataset is `digits`."""

    seed: int = 0
    """Of its pictures, its lexicon and its judge."""
    candidates: int = Field(default=2000, ge=10)
    """Training items."""
    judge_steps: int = Field(default=4000, ge=1)
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


class LeverConfig(_Config):
    """What `post_train` needs to know; the Prefect UI draws its form from it."""

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
    network: NetworkSettings = NetworkSettings()
    """The pointer network."""
    beams: BeamSettings = BeamSettings()
    """The search for demonstrations to imitate."""
    sft: SftSettings = SftSettings()
    """Learning to imitate."""
    rl_data: RlDataSettings = RlDataSettings()
    """Which pointers are judged."""
    reward: RewardMode = "hard_plus_soft"
    """What an answer is worth."""
    threshold: float = Field(default=0.5, gt=0, le=1)
    """VQA accuracy from which an answer counts as right."""
    rce: RceSettings = RceSettings()
    """Learning from rewarded groups."""
    grpo: GrpoSettings = GrpoSettings()
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
    """Files in place of stages."""
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


runner: Any = ThreadPoolTaskRunner(max_workers=1)  # one judge, one device: shards follow one another


@flow(name="lever", flow_run_name="post-train {config.dataset.name}", task_runner=runner, persist_result=False)
def post_train(config: LeverConfig) -> LeverReport:
    """Train a selector of demonstrations and measure it; only what was never made is made."""
    ongoing = begin(flow_run.id, config.model_dump(mode="json"), until=config.until)
    files = Layout(config.results, config.dataset.name)
    judge, encoder, found = _open(config, files)
    if (start := config.start).query_embeddings and start.candidate_embeddings:
        queries, candidates = start.query_embeddings, start.candidate_embeddings
        embedded = read_embeddings(queries=queries, candidates=candidates)
    else:
        embedded = export_embeddings(found.dataset, encoder=encoder)
        ongoing.wrote(write_embeddings(embedded, folder=files.cache).files)
    world = World(
        dataset=found.dataset,
        embedded=embedded.model_copy(update={"vectors": config.vectors}),
        judge=judge,
        prompts=config.prompts,
        threshold=config.threshold,
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
    learning = Learning(shots=config.shots, seed=seed, device=config.device, spending=config.spending)
    pools = build_pools(
        found.dataset, embedded=world.embedded, sampler=config.sampler, size=config.pool_size, seed=seed
    )
    ongoing.done("pools")

    sft, pools = _imitate(config, found, world, files, ongoing, pools=pools, learning=learning)
    ongoing.wrote(export_files({str(files.checkpoint("sft", config.sampler)): sft}).files)
    ongoing.done("sft")

    data = _rl_data(config, found, world, ongoing, pools=pools, selector=sft, learning=learning)
    ongoing.wrote(export_files(dict.fromkeys(map(str, _places(config, files)), data)).files)
    ongoing.done("rl-data")

    learnt: Any = {"pools": pools, "data": data, "reward": config.reward, "learning": learning}
    if config.start.rce_checkpoint:
        rce = _read_checkpoint(config, config.start.rce_checkpoint, ongoing)
    else:
        step = called(train_rce, f"train RCE, seed {seed}")
        rce = ongoing.trained(step(world, selector=sft, settings=config.rce, **learnt))
    ongoing.wrote(export_files({str(files.checkpoint("rce", config.sampler)): rce}).files)
    ongoing.done("rce")

    selectors = {"sft": sft, "rce": rce}
    if not config.rce_only:
        step = called(train_grpo, f"train GRPO, seed {seed}")
        selectors["grpo"] = ongoing.trained(step(world, selector=rce, settings=config.grpo, **learnt))
        ongoing.wrote(export_files({str(files.checkpoint("grpo", config.sampler)): selectors["grpo"]}).files)
    ongoing.done("grpo")

    future = called(evaluate_selector, f"evaluate, seed {seed}").submit(
        world,
        pools=pools,
        selectors=selectors,
        sampler=config.sampler,
        shots=tuple(sorted({*config.evaluated_shots, config.shots})),
        oracle=config.oracle,
        learning=learning,
    )
    [evaluated] = ongoing.note(gather([future]))
    ongoing.evaluated(evaluated)
    ongoing.done("evaluate")


def _open(config: LeverConfig, files: Layout) -> tuple[JudgeSpec, EncoderSpec, DatasetRead]:
    """Who answers, who embeds, and what is asked; the CPU world is made here."""
    name, data_dir, weights = config.dataset.name, config.dataset.data_dir, None
    if DIGITS in (name, config.judge, config.encoder):
        weights = train_digits_judge(seed=config.digits.seed, steps=config.digits.judge_steps)
    if name == DIGITS:
        data_dir = data_dir or files.data
        write_digits(
            data_dir.absolute(),
            seed=config.digits.seed,
            train=config.digits.candidates,
            validation=config.dataset.validation,
            test=config.dataset.test or 400,
        )
    found = read_dataset(
        name,
        data_dir=data_dir,
        train_queries=config.dataset.train_queries,
        validation=config.dataset.validation,
        test=config.dataset.test,
        seed=config.digits.seed,
        queries_of=config.start.beam_data or config.start.rl_data or config.start.query_embeddings,
    )
    judge = JudgeSpec(
        name=config.judge,
        weights=weights if config.judge == DIGITS else None,
        fingerprint=fingerprint_of_judge(config.judge),
        concurrency=config.concurrency,
    )
    if config.encoder == DIGITS:
        return judge, EncoderSpec(name=DIGITS, weights=weights), found
    return judge, encoder_spec(config.encoder, adapters=config.adapters), found


class Imitating(NamedTuple):
    """A selector that imitates, and the pools that it was trained in."""

    selector: Ref
    pools: Ref


def _imitate(
    config: LeverConfig,
    found: DatasetRead,
    world: World,
    files: Layout,
    ongoing: Ongoing,
    *,
    pools: Ref,
    learning: Learning,
) -> Imitating:
    """Of a file, or trained on demonstrations that a file holds or a search finds."""
    start = config.start
    if start.sft_checkpoint:
        return Imitating(_read_checkpoint(config, start.sft_checkpoint, ongoing), pools)
    if start.beam_data:
        read = read_beams(start.beam_data, pools=pools, shots=config.shots)
        beams, pools = (read.beams,), read.pools
    else:
        queries = min(found.train_queries, config.beams.queries or found.train_queries)
        step = called(search_beams, f"search beams, seed {learning.seed}")
        search: Any = {"pools": pools, "settings": config.beams, "learning": learning}
        beams = tuple(ongoing.note(gather([step.submit(world, shard=one, **search) for one in shards_of(queries)])))
        place = files.beam_data(
            config.judge, config.sampler, config.beams.width, config.shots, config.pool_size, queries
        )
        ongoing.wrote(export_files({str(place): merge_beams(beams, pools=pools)}).files)
    ongoing.done("beams")
    step = called(train_sft, f"train SFT, seed {learning.seed}")
    trained = step(world, pools=pools, beams=beams, network=config.network, settings=config.sft, learning=learning)
    return Imitating(ongoing.trained(trained), pools)


def _read_checkpoint(config: LeverConfig, path: Path, ongoing: Ongoing) -> Ref:
    read = read_checkpoint(path, heads=config.network.heads)
    ongoing.notes += [f"{path.name}: {note}" for note in read.notes]
    return read.weights


def _rl_data(
    config: LeverConfig,
    found: DatasetRead,
    world: World,
    ongoing: Ongoing,
    *,
    pools: Ref,
    selector: Ref,
    learning: Learning,
) -> Ref:
    """Judged pointers: of a file, or drawn by the selector shard by shard."""
    if config.start.rl_data:
        return read_rl_data(config.start.rl_data, shots=config.shots)
    step = called(generate_rl_data, f"RL data, seed {learning.seed}")
    chosen: Any = {"pools": pools, "selector": selector, "settings": config.rl_data, "learning": learning}
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
    publish_report(summary, plots=drawn.plots)
    if config.save != "file":
        write_database(ongoing.report(), dataset=found.dataset)
