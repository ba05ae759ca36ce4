"""The search for demonstrations to imitate, beside one that grows every kept sequence by every candidate.

    python -m tests.benchmarks.bench_beams --world digits|crowded [--queries N] [--width W] [--candidates N] [--shots S]
    python -m tests.benchmarks.bench_beams --world trec --data-dir D --queries 8

Told are the prompts that each weighs per query, and the mean InfoScore of the best sequence and of all that it keeps.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import torch

from storage.artifacts import Artifacts
from tasks.calls import CallSettings, Limits
from tasks.lever.data.beam_search import count_weighed, search
from tasks.lever.data.candidate_pools import build
from tasks.lever.data.embeddings import embed_dataset
from tasks.lever.judge.demonstration_task import PromptSettings, open_task
from tasks.lever.judge.judging import Asked, Judging
from tasks.lever.lever_options import BeamSettings
from tasks.lever.lever_records import Item, PoolRecipe, Pools
from tasks.lever.opened_worlds import draw_world, open_items
from tests.lever.small_judges import Kept


class Beams(NamedTuple):
    """Of one way to search, means over the queries."""

    prompts: float
    best: float
    kept: float


def main() -> None:
    """Print the figures of both, and their ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--world", choices=("digits", "crowded", "trec"), default="crowded")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--width", type=int, default=5)
    parser.add_argument("--candidates", type=int, default=16)
    parser.add_argument("--shots", type=int, default=2)
    parser.add_argument("--judge-steps", type=int, default=400)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    figures = measure(chosen)
    print(json.dumps(figures, indent=1))


def measure(chosen: argparse.Namespace) -> dict[str, Any]:
    """Both searches over the same pools with the same judge."""
    settings = BeamSettings(width=chosen.width, candidates=chosen.candidates)
    with tempfile.TemporaryDirectory(prefix="trivet-bench-") as folder:
        queries, pools, judging = opened(chosen, Path(folder))
        ours = _searched(queries, pools, judging, chosen.shots, settings)
        full = _grown_by_all(queries, pools, judging, chosen.shots, settings)
    return {
        "search": ours._asdict(),
        "every sequence by every candidate": full._asdict(),
        "ratio": {name: getattr(ours, name) / getattr(full, name) for name in Beams._fields},
    }


def opened(chosen: argparse.Namespace, folder: Path) -> tuple[list[Item], Pools, Judging]:
    """Queries, their retrieved pools, and the judge."""
    artifacts = Artifacts(folder / "store")
    sizes: dict[str, Any] = {"train_queries": 1500, "validation": 200, "test": 300}
    if chosen.world == "trec":
        from models.backends import open_chat
        from models.minilm import MiniLM
        from models.registry import spelled
        from tasks.lever.judge.demonstration_task import text_views

        judge, data = open_chat(spelled("smollm2")), chosen.data_dir
        views = text_views(MiniLM())
    else:
        from tasks.lever.digits.digits_judge import DigitsEncoder, DigitsJudge
        from tasks.lever.digits.digits_training import train_judge
        from tasks.lever.judge.demonstration_task import views_of

        weights, data = train_judge(seed=0, steps=chosen.judge_steps), folder / "data"
        judge, views = DigitsJudge(weights), views_of(DigitsEncoder(weights))
        draw_world(data, world=chosen.world, seed=0, candidates=1500, queries=1500, validation=200, test=300)
    items, task = open_items(chosen.world, data, **sizes, seed=0), open_task(chosen.world, PromptSettings())
    modalities = ("joint",) if chosen.world == "trec" else ("joint", "images", "texts")
    recipe = PoolRecipe(sampler="RetrievalSampler", size=32, others=0.25, modalities=modalities)
    pools = build(items, embed_dataset(items, views, artifacts), artifacts, recipe=recipe, seed=0)
    by_id = {item.id: item for item in items.items}
    limits = Limits(CallSettings(concurrency=1, tries=1), rng=random.Random(0))
    judging = Judging(judge, by_id, task, threshold=0.5, responses=Kept(), limits=limits)
    return [by_id[name] for name in items.train_queries[: chosen.queries]], pools, judging


def _searched(queries: Sequence[Item], pools: Pools, judging: Judging, shots: int, settings: BeamSettings) -> Beams:
    found = search(queries, pools, judging, shots=shots, settings=settings, screened=True, seed=0)
    scores = [[one.beam_score or 0.0 for one in beams] for beams in found.values()]
    asked = count_weighed(settings, queries=len(queries), pool=pools.recipe.size, shots=shots, screened=True)
    return Beams(sum(asked.values()) / len(queries), fmean(one[0] for one in scores), fmean(map(fmean, scores)))


def _grown_by_all(queries: Sequence[Item], pools: Pools, judging: Judging, shots: int, settings: BeamSettings) -> Beams:
    """What the search did before."""
    from tasks.lever.data.beam_search import _tried  # pyright: ignore[reportPrivateUsage]

    tried = {one.id: _tried(one.id, pools, shots=shots, settings=settings, seed=0) for one in queries}
    alone = dict(zip(tried, judging.answer_log_probs([Asked(one.id, ()) for one in queries]), strict=True))
    kept: dict[str, list[tuple[tuple[int, ...], float]]] = {one.id: [((), 0.0)] for one in queries}
    prompts = len(queries)
    for _ in range(shots):
        grown = {
            query: [(*one, more) for one, _ in kept[query] for more in tried[query] if more not in one]
            for query in kept
        }
        asked = [Asked(query, tuple(pools.pools[query][at] for at in one)) for query in grown for one in grown[query]]
        prompts += len(asked)
        likely = iter(judging.answer_log_probs(asked))
        for query, sequences in grown.items():
            scored = [(one, next(likely)) for one in sequences]
            kept[query] = sorted(scored, key=lambda pair: -pair[1])[: settings.width]
    scores = [[math.exp(score) - math.exp(alone[query]) for _, score in beams] for query, beams in kept.items()]
    return Beams(prompts / len(queries), fmean(one[0] for one in scores), fmean(map(fmean, scores)))


if __name__ == "__main__":
    main()
