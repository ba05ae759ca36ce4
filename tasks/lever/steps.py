"""The steps of the lever: open, call, keep. What they do stands in the modules that they call."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from models.weight_files import fingerprint as fingerprint_of
from storage.files import sha256_of
from storage.records import Record, Ref
from tasks.lever import lever_options as options
from tasks.lever import lever_records as records
from tasks.lever.judge.demonstration_task import open_views
from tasks.lever.judge.judges import WEIGHTS, EncoderSpec, open_judge
from tasks.lever.learning.lever_results import LeverReport, SeedReport
from tasks.lever.learning.selector_comparison import Summary
from tasks.lever.worlds import (
    DatasetRead,
    Effort,
    Learning,
    World,
    ids_in_shard,
    open_beams,
    open_setting,
    open_training,
    open_weights,
    report_progress,
)
from tasks.resources import artifacts, embed_texts, embedder, embedding_cache
from tasks.step import Incomplete, slot, step

MOST_EXAMPLES = 3
"""Items that a note about those which were left out names."""
EFFORT = ("effort",)  # in no key: a run on another device, or with another budget, finds the same records


@step(version=1)
def train_digits_judge(*, steps: int) -> Ref:
    """Train the judge of the CPU worlds, once for all runs, and return the artifact of its weights."""
    from tasks.lever.digits.net import train_judge
    from tasks.lever.learning.training_inputs import single_threaded

    with single_threaded("cpu"):
        return artifacts().put(WEIGHTS, train_judge(steps=steps, tell=report_progress("train judge", steps)))


@step(version=3, reads_world=True)
def write_digits(folder: Path, *, world: str, candidates: int, queries: int, validation: int, test: int) -> None:
    """Draw the pictures of a CPU world, and write its questions and answers in the official format.

    queries: number of questions to learn from; in the world `digits` they are among the candidates.
    """
    from tasks.lever.digits.scenes import write_world

    write_world(folder, world, candidates=candidates, queries=queries, validation=validation, test=test)


@step(version=4, reads_world=True)
def read_dataset(
    name: str,
    *,
    data_dir: Path | None,
    train_queries: int,
    validation: float,
    test: int | None,
    queries_of: Path | None = None,
    metric: str | None = None,
) -> DatasetRead:
    """Read and store the items of a dataset. queries_of: file of an earlier run that names the train queries."""
    from tasks.lever.data.datasets import open_dataset

    sizes: Any = {"train_queries": train_queries, "validation": validation, "test": test}
    items = open_dataset(name, data_dir, **sizes, queries_of=queries_of, metric=metric)
    first = "; ".join(f"{id}: {why}" for id, why in list(items.left_out.items())[:MOST_EXAMPLES])
    left_out = (
        f"{len(items.left_out)} items were left out ({first}{'; …' if len(items.left_out) > MOST_EXAMPLES else ''})"
    )
    return DatasetRead(
        dataset=artifacts().save("vqa-dataset", items),  # texts too: results are found by this name
        train_queries=len(items.train_queries),
        notes=(left_out,) if items.left_out else (),
    )


@step(version=3, gpu=True)
def export_embeddings(dataset: Ref, *, encoder: EncoderSpec) -> records.Embedded:
    """Embed all pictures and questions, or all texts; a shard that was embedded once is never embedded again."""
    from tasks.lever.data.embeddings import embed_dataset

    items = artifacts().load(records.Dataset, dataset)
    tell = report_progress("embed", len(items.items))
    return embed_dataset(items, open_views(items, encoder), artifacts(), tell=tell)


@step(version=3)
def part_leaks(dataset: DatasetRead, *, embedded: records.Embedded) -> DatasetRead:
    """Return the dataset without candidates and train queries that are test or validation items again, with a note."""
    from tasks.lever.data.candidate_pools import describe_leaks, find_leaks, read_banks, without_leaks

    items = artifacts().load(records.Dataset, dataset.dataset)
    leaks = find_leaks(items, read_banks(embedded, artifacts()))
    if not leaks:
        return dataset
    parted = without_leaks(items, leaks)
    left_out = f"training items that are validation or test items again were left out ({len(leaks)})"
    return DatasetRead(
        dataset=artifacts().save("vqa-dataset", parted),
        train_queries=len(parted.train_queries),
        notes=(*dataset.notes, f"{left_out}: {describe_leaks(leaks)}; all results are without them"),
    )


@step(version=2, reads_world=True)
def read_embeddings(*, queries: Path, candidates: Path) -> records.Embedded:
    """Read the embeddings in two files, which take the place of an encoder."""
    from tasks.lever.data.earlier_files import import_embeddings

    return import_embeddings(queries, candidates, artifacts())


@step(version=2)
def build_pools(dataset: Ref, *, embedded: records.Embedded, recipe: records.PoolRecipe, seed: int) -> Ref:
    """Draw the candidates of every query, and return the artifact of the Pools."""
    from tasks.lever.data.candidate_pools import draw_pools, read_banks

    items, banks = artifacts().load(records.Dataset, dataset), read_banks(embedded, artifacts())
    return artifacts().save("pools", draw_pools(items.queries, items.candidates, banks, recipe=recipe, seed=seed))


@step(version=4, gpu=True, unkeyed=EFFORT)
def search_beams(
    world: World, *, pools: Ref, shard: int, settings: options.BeamSettings, learning: Learning, effort: Effort
) -> Ref:
    """Search for what helps the judge most on one shard of the train queries; return the artifact of a BeamPart."""
    from tasks.lever.data.rl_data import find_beams

    setting = open_setting(world, effort)
    by_id = {item.id: item for item in setting.dataset.train}
    queries = [by_id[name] for name in ids_in_shard(setting.dataset.train_queries[: settings.queries], shard)]
    tell, candidates = report_progress("search beams", len(queries)), artifacts().load(records.Pools, pools)
    beams = find_beams(
        queries, candidates, setting.judging, shots=learning.shots, settings=settings, seed=learning.seed
    )
    tell(len(queries))
    return artifacts().save("beams", records.BeamPart(queries=beams))


@step(version=1)
def imitate_similarity(world: World, *, pools: Ref, learning: Learning) -> Ref:
    """Return the artifact of a BeamPart: the nearest in each train query's pool, where the judge weighs no others."""
    from tasks.lever.data.candidate_pools import read_banks
    from tasks.lever.learning.choosing import choose_nearest

    vectors, candidates = read_banks(world.embedded, artifacts())["joint"], artifacts().load(records.Pools, pools)
    beams: dict[str, tuple[records.PointerRecord, ...]] = {}
    for query in artifacts().load(records.Dataset, world.dataset).train_queries:
        pool = candidates.pools[query]
        # as the rule is shown: the nearest next to the question
        nearest = world.prompts.in_order(choose_nearest([query], pool, vectors, shots=learning.shots)[query])
        beams[query] = (records.PointerRecord(pointer=tuple(map(pool.index, nearest)), gen_method="retrieval"),)
    return artifacts().save("beams", records.BeamPart(queries=beams))


@step(version=2, gpu=True, unkeyed=EFFORT)
def train_sft(
    world: World,
    *,
    pools: Ref,
    beams: tuple[Ref, ...],
    network: options.NetworkSettings,
    settings: options.SftSettings,
    learning: Learning,
    effort: Effort,
) -> records.TrainedSelector:
    """Train a new selector to imitate the best pointer of each query."""
    from models.pointer import PointerConfig
    from tasks.lever.learning.training_inputs import make_labelled
    from tasks.lever.learning.trainings import learn_sft

    inputs = {"beams": beams, "network": network, "settings": settings}
    with open_training("sft", world, learning, effort, epochs=settings.epochs, pools=pools, **inputs) as training:
        labelled = make_labelled(training.setting, training.pools, open_beams(beams))
        config = PointerConfig(embedding_dim=world.embedded.dimension, **network.model_dump())
        return training.store(learn_sft(config, labelled, settings, training.run))


@step(version=1, gpu=True, unkeyed=EFFORT)
def generate_rl_data(
    world: World,
    *,
    pools: Ref,
    selector: Ref,
    shard: int,
    settings: options.RlDataSettings,
    gt_prob: bool,
    learning: Learning,
    effort: Effort,
) -> Ref:
    """Draw pointers for a shard of train queries; return the artifact of an RlPart, judged. Raises Incomplete.

    gt_prob: also record the probability of the right answers.
    """
    from tasks.lever.data.rl_data import make_rl_data
    from tasks.lever.learning.training_loop import derive_seed

    setting, candidates = open_setting(world, effort), artifacts().load(records.Pools, pools)
    ids = ids_in_shard(setting.dataset.train_queries, shard)
    tell = report_progress("rl data", len(ids))
    data, postponed = make_rl_data(
        setting,
        candidates,
        ids,
        selector=open_weights(selector),
        shots=learning.shots,
        settings=settings,
        gt_prob=gt_prob,
        seed=derive_seed(learning.seed, "rl data", shard),
        judge=open_judge(world.judge).id,
    )
    tell(len(ids))
    part = artifacts().save("rl-part", records.RlPart(queries=data))
    if postponed:
        raise Incomplete(part, postponed)  # what was judged is stored: a retry asks only for the rest
    return part


@step(version=1)
def merge_beams(parts: tuple[Ref, ...], *, pools: Ref) -> Ref:
    """Merge the beam data of all shards into an artifact, in the newer format of Lever-Plus."""
    from tasks.lever.data.pointer_files import serialize_beams

    return artifacts().put("beam-data", serialize_beams(open_beams(parts), artifacts().load(records.Pools, pools)))


@step(version=1)
def merge_rl_data(parts: tuple[Ref, ...]) -> Ref:
    """Merge the RL data of all shards into an artifact, the content of `rl_data_{Sampler}.json`."""
    from tasks.lever.data.pointer_files import serialize_rl_data

    # part by part: the judgments of all queries would take 40 KB each
    judged = (entry for part in parts for entry in artifacts().load(records.RlPart, part).queries.items())
    with NamedTemporaryFile(prefix="trivet-rl-") as file:
        file.writelines(serialize_rl_data(judged))
        file.flush()
        return artifacts().put_file("rl-data", Path(file.name))


@step(version=2, gpu=True, unkeyed=EFFORT)
def train_rce(
    world: World,
    *,
    pools: Ref,
    data: Ref,
    selector: Ref,
    reward: options.RewardMode,
    settings: options.RceSettings,
    learning: Learning,
    effort: Effort,
) -> records.TrainedSelector:
    """Train a selector further on whole groups of pointers, each weighted by its reward."""
    from tasks.lever.learning.trainings import learn_rce

    inputs = {"data": data, "selector": selector, "reward": reward, "settings": settings}
    with open_training("rce", world, learning, effort, epochs=settings.epochs, pools=pools, **inputs) as training:
        groups = training.groups(data, reward, shots=learning.shots)
        start = open_weights(selector, training.run.device)
        return training.store(learn_rce(start, groups, settings, training.run))


@step(version=2, gpu=True, unkeyed=EFFORT)
def train_grpo(
    world: World,
    *,
    pools: Ref,
    data: Ref,
    selector: Ref,
    reward: options.RewardMode,
    settings: options.GrpoSettings,
    learning: Learning,
    effort: Effort,
) -> records.TrainedSelector:
    """Train a selector further towards pointers that are better than others of their group, judged as it goes."""
    from tasks.lever.learning.training_inputs import make_online_rewards
    from tasks.lever.learning.trainings import learn_grpo

    epochs = settings.offline_epochs + settings.rounds
    inputs = {"data": data, "selector": selector, "reward": reward, "settings": settings}
    with open_training("grpo", world, learning, effort, epochs=epochs, pools=pools, **inputs) as training:
        groups = training.groups(data, reward, shots=learning.shots)
        start = open_weights(selector, training.run.device)
        judge = make_online_rewards(training.setting, groups, mode=reward)
        return training.store(learn_grpo(start, groups, settings, training.run, judge=judge))


class Gated(Record):
    """A trained selector after its comparison with the best rule."""

    weights: Ref
    """The checkpoint as it was trained, whose header says what `predict` uses: the network, or the rule."""
    verdict: records.Verdict


@step(version=2, gpu=True, unkeyed=EFFORT)
def gate_selector(world: World, *, pools: Ref, selector: Ref, stage: str, learning: Learning, effort: Effort) -> Gated:
    """Compare a trained selector with the best rule on the validation queries, and record which one is used."""
    from tasks.lever.data.candidate_pools import read_banks
    from tasks.lever.learning.checkpoints import add_to_meta
    from tasks.lever.learning.gate import judge_gate

    banks, network = read_banks(world.embedded, artifacts()), open_weights(selector)
    setting, candidates = open_setting(world, effort), artifacts().load(records.Pools, pools)
    verdict = judge_gate(setting, candidates, network, banks=banks, stage=stage, shots=learning.shots)
    checkpoint = add_to_meta(artifacts().get(selector), verdict=verdict.model_dump(mode="json"))
    rule = verdict.rule.model_copy(update={"classes": {}})  # thousands of them: the checkpoint alone needs these
    weights = artifacts().put("selector", checkpoint)
    return Gated(weights=weights, verdict=verdict.model_copy(update={"rule": rule}))


@step(version=5, gpu=True, unkeyed=EFFORT)
def evaluate_selector(
    world: World,
    *,
    pools: Ref,
    selectors: dict[str, Ref],
    verdict: records.Verdict,
    shots: tuple[int, ...],
    oracle: options.OracleSettings,
    learning: Learning,
    effort: Effort,
) -> Ref:
    """Return the artifact of Evaluated: what the judge answers with every selector's choices. Raises Incomplete."""
    from tasks.lever.data.candidate_pools import read_banks
    from tasks.lever.learning.choosing import find_unanswered, measure_selectors

    setting, candidates = open_setting(world, effort), artifacts().load(records.Pools, pools)
    conditions = records.Conditions(
        dataset=setting.dataset.name,
        judge=open_judge(world.judge).id,
        encoder=world.embedded.encoder,
        sampler=candidates.recipe.sampler,
        pool_size=candidates.recipe.size,
        pool_others=candidates.recipe.others,
        threshold=world.threshold,
        trained_shots=learning.shots,
    )
    results = measure_selectors(
        setting,
        candidates,
        {name: open_weights(weights) for name, weights in selectors.items()},
        banks=read_banks(world.embedded, artifacts()),
        shots=shots,
        trained_shots=learning.shots,
        oracle=oracle,
        seed=learning.seed,
        verdict=verdict,
    )
    outcome = records.Evaluated(conditions=conditions, seed=learning.seed, results=results, verdict=verdict)
    evaluated = artifacts().save("evaluated", outcome)
    if postponed := find_unanswered(results):
        raise Incomplete(evaluated, postponed)
    return evaluated


@step(version=2)
def make_card(
    world: World,
    *,
    pools: Ref,
    selector: Ref,
    evaluated: Ref,
    encoder: EncoderSpec | None,
    judgments: dict[str, int],
    notes: tuple[str, ...],
    learning: Learning,
) -> Ref:
    """Make the card of a selector that was evaluated.

    encoder: how it was opened; None where vectors came from files. judgments: stage → prompts. notes: on what was left
    out of the dataset.
    """
    from tasks.lever.data.candidate_pools import read_banks
    from tasks.lever.learning.checkpoints import open_own
    from tasks.lever.learning.predicting import Card, find_anchors
    from tasks.lever.learning.selector_comparison import summarise

    dataset, candidates = artifacts().load(records.Dataset, world.dataset), artifacts().load(records.Pools, pools)
    opened, banks = open_own(artifacts().get(selector), Path("it")), read_banks(world.embedded, artifacts())
    splits = {"train": dataset.train, "validation": dataset.validation, "test": dataset.test}
    anchors = find_anchors(dataset, opened, banks, candidates.pools, shots=learning.shots)
    if encoder and encoder.weights:
        anchors["files"][encoder.weights.digest] = b64encode(artifacts().get(encoder.weights)).decode()
    card = Card(
        selector=selector.digest,
        encoder=encoder,
        splits={name: (len(items), records.digest_items(items)) for name, items in splits.items()},
        results=summarise([artifacts().load(records.Evaluated, evaluated)]),
        judgments=judgments,
        leaks=notes,
        **anchors,
    )
    return artifacts().put("lever-result", card.model_dump_json(indent=1).encode() + b"\n")


@step(version=4)
def summarise(evaluated: tuple[Ref, ...]) -> Summary:
    """Summarise all seeds: mean scores with intervals, and gains paired by query and seed."""
    from tasks.lever.learning.selector_comparison import summarise

    return summarise([artifacts().load(records.Evaluated, ref) for ref in evaluated])


class FileRead(Record):
    """Artifact made from a file of an earlier run, ours or Lever-Plus's, with notes for the user."""

    content: Ref
    notes: tuple[str, ...]
    """Notes for the user on how the file was read."""
    recipe: records.PoolRecipe | None = None
    """Recipe of the pools that the selector was trained in."""
    pools: Ref | None = None
    """Pools of this run, extended by the candidates that beam data show."""


@step(version=3, reads_world=True)
def read_checkpoint(path: Path, *, heads: int, embedded: records.Embedded) -> FileRead:
    """Return the selector in a checkpoint, ours or Lever-Plus's, and its recipe of pools; nothing in it is executed."""
    from tasks.lever.learning.checkpoints import POOLS_OF, open_selector, save_selector

    opened = open_selector(path, heads=heads)
    with_answers = embedded.solved is not None
    opened.require_encoder(embedded.encoder, dimension=embedded.dimension, path=path, with_answers=with_answers)
    meta = {"read_from": path.name, "encoder": opened.encoder, POOLS_OF: opened.recipe.model_dump(mode="json")}
    weights = artifacts().put("selector", save_selector(opened.selector, meta=meta))
    return FileRead(content=weights, notes=opened.notes, recipe=opened.recipe)


@step(version=2, reads_world=True)
def read_beams(path: Path, *, dataset: Ref, pools: Ref, shots: int) -> FileRead:
    """Read beam data for the train queries from a file, and extend their pools by what the beams show."""
    from tasks.lever.data.earlier_files import import_beams

    beams, extended, notes = import_beams(
        path, artifacts().load(records.Pools, pools), artifacts().load(records.Dataset, dataset), shots=shots
    )
    return FileRead(content=artifacts().save("beams", beams), notes=notes, pools=artifacts().save("pools", extended))


@step(version=2, reads_world=True)
def read_rl_data(path: Path, *, world: World, shots: int) -> FileRead:
    """Read RL data from a file and check every record; this run's threshold decides which answers are right."""
    from tasks.lever.data.earlier_files import import_rl_data

    content, notes = import_rl_data(path, shots=shots, threshold=world.threshold, judge=open_judge(world.judge).id)
    return FileRead(content=artifacts().put("rl-data", content), notes=notes)


class Exported(Record):
    """The files that a step wrote for users."""

    files: dict[str, str]
    """Path → SHA-256 (hex) of its content."""


def _is_exported(result: Exported, inputs: dict[str, Any]) -> bool:
    del inputs
    return all(Path(path).is_file() and sha256_of(Path(path)) == digest for path, digest in result.files.items())


@step(version=1, verify=_is_exported)
def export_files(files: dict[str, Ref]) -> Exported:
    """Write artifacts to the given paths, each file atomically."""
    from storage.files import write

    for path, ref in files.items():
        write(Path(path), artifacts().get(ref))
    return Exported(files={path: ref.digest for path, ref in files.items()})


@step(version=1, verify=_is_exported)
def write_embeddings(embedded: records.Embedded, *, dataset: Ref, folder: Path) -> Exported:
    """Write embeddings in Lever-Plus's layout: a file for the candidates and for each split, with its ids beside it."""
    from tasks.lever.data.earlier_files import banks_by_file
    from tasks.lever.data.embeddings import ids_file

    written: list[Path] = []
    for name, bank in banks_by_file(embedded, artifacts().load(records.Dataset, dataset), artifacts()).items():
        bank.export_pt(folder / name)
        written += [folder / name, ids_file(folder / name)]
    return Exported(files={str(path): sha256_of(path) for path in written})


@step(version=6)
def draw_results(summary: Summary, *, seeds: tuple[SeedReport, ...]) -> dict[str, Ref]:
    """Draw up the result files, by name: accuracies in Lever-Plus's JSON, all scores, their plot, and the curves."""
    from tasks.lever.learning.lever_results import result_files

    files = result_files(summary, seeds, artifacts())
    return {name: artifacts().put("lever-result", content) for name, content in files.items()}


def _is_in_database(result: str, inputs: dict[str, Any]) -> bool:
    from tasks.resources import evaluations

    return bool(evaluations().task_results(result)) and result == inputs["report"].run


@step(version=1, verify=_is_in_database)
def write_database(report: LeverReport, *, dataset: Ref) -> str:
    """Write the run to PostgreSQL and return its id; writing it again changes nothing."""
    from tasks.lever.learning.lever_results import database_rows
    from tasks.resources import evaluations

    refs = [seed_report.evaluated for seed_report in report.seeds if seed_report.evaluated]
    items = artifacts().load(records.Dataset, dataset)
    # read seed by seed: the answers of all selectors to all queries need not be in memory at once
    rows = database_rows(report, items, lambda: (artifacts().load(records.Evaluated, ref) for ref in refs))
    with slot("database"):
        evaluations().write([rows])
    return report.run


@step(version=1, reads_world=True)
def publish_report(summary: Summary, *, drawn: dict[str, Ref], files: tuple[str, ...] = ()) -> list[str]:
    """Show the run in the Prefect UI, with its tables, plots and files, and return the key of the artifact."""
    from prefect.artifacts import create_markdown_artifact

    from tasks.lever.learning.lever_results import render_markdown

    key = f"lever-{summary.conditions.dataset}-report"
    plots = {name: artifacts().get(ref) for name, ref in drawn.items() if name.endswith(".png")}
    # as part of the Markdown: Prefect keeps no files beside an artifact
    urls = {name: f"data:image/png;base64,{b64encode(plot).decode()}" for name, plot in plots.items()}
    markdown = render_markdown(summary, files=files, plots=urls)
    create_markdown_artifact(markdown=markdown, key=key, description="Accuracy, plots, learning curves, files")
    return [key]


EXAMPLES_EMBEDDER = "minilm"


def embedder_fingerprint(choice: str) -> str:
    """Return the fingerprint of what embeds for this choice, such as `similarity:4`; empty for random examples.

    Raises models.model_errors.ModelUnavailable.
    """
    return "" if choice.startswith("random:") else fingerprint_of(EXAMPLES_EMBEDDER)


@step(version=1)
def choose_examples(texts: Ref, *, chosen: str, fingerprint: str, seed: int) -> Ref:
    """Choose the solved examples that each question of a benchmark is shown: `{question: [example, …]}` as JSON.

    texts: tasks.lever.learning.predicting.Texts. chosen: `random:4`, `similarity:4`, `selector:FILE:4`.
    fingerprint: `embedder_fingerprint(chosen)`.
    """
    from tasks.lever.learning.predicting import Embed, Texts, choose_examples

    def open_encoder() -> tuple[str, Embed]:
        model = embedder(EXAMPLES_EMBEDDER)
        return model.id, lambda texts: embed_texts(model, embedding_cache(), texts)

    del fingerprint  # part of the key alone
    method, _, count = chosen.rpartition(":")  # from the end: a path may hold colons
    by, _, checkpoint = method.partition(":")
    examples = choose_examples(
        artifacts().load(Texts, texts),
        by=by,
        count=int(count),
        selector=Path(checkpoint) if checkpoint else None,
        open_encoder=open_encoder,
        seed=seed,
    )
    return artifacts().put("shown-examples", json.dumps(dict(examples)).encode())
