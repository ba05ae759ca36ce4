"""What the lever costs: RL data of many queries in memory, and the CPU world from its pictures to its figures.

The CPU world runs as a user runs it, on one thread, in a fresh home: judge, search, training and measuring, with all
processes that the command starts and waits for (Prefect's API; PostgreSQL's server is not waited for).
"""

from __future__ import annotations

import inspect
import json
import os
import time
from typing import Any

from tests.benchmarks.measuring import Figures, part, peak_mb, scratch_home, trivet

SHOWN = ("zero_shot", "random", "similarity", "mmr", "similarity_pool", "sft", "rce", "grpo", "oracle")
WIDTH, CANDIDATES, POOL, GROUP = 512, 20_000, 64, 16


def measure(seeds: int = 1, queries: int = 16_000) -> Figures:
    """queries: of which RL data are merged and read, and a sixteenth and a quarter. seeds: of the CPU world, or 0."""
    for count in (queries // 16, queries // 4, queries):
        yield from part(measure_memory, count).items()
    if seeds:
        yield from measure_world(seeds).items()


def measure_memory(queries: int) -> dict[str, float]:
    """Peak of a process that merges the RL data of so many queries shard by shard, and makes groups of them."""
    import torch

    from tasks.lever.data.embeddings import EmbeddingBank
    from tasks.lever.learning.training_inputs import make_groups
    from tasks.lever.lever_records import PointerRecord, RlPart, RlQuery
    from tasks.lever.steps import merge_rl_data
    from tasks.lever.worlds import ids_in_shard, shard_numbers
    from tasks.resources import artifacts

    names = tuple(map(str, range(queries)))
    made = torch.Generator().manual_seed(0)
    bank = EmbeddingBank(tuple(map(str, range(CANDIDATES))), torch.randn(CANDIDATES, WIDTH, generator=made), "bench")
    meta = {"image_id": "1", "question": "What is it?", "split": "train", "threshold": 0.5, "judge": "bench"}

    def query(number: int) -> RlQuery:
        pool = [(number + 1 + at * 7) % CANDIDATES for at in range(POOL)]
        judged: Any = {"vqa_pred_answer": "a word", "vqa_correct": 1, "vqa_acc_score": 0.6, "behaviour_logp": -8.0}
        pointers = [PointerRecord(pointer=(at, (at + 1) % POOL), gen_method="random", **judged) for at in range(GROUP)]
        return RlQuery(
            meta=meta,
            candidate_pool=tuple({"id": str(one), "question": "What is it?", "answer": "a word"} for one in pool),
            candidate_pool_ids=tuple(map(str, pool)),
            pointer_candidates=tuple(pointers),
        )

    with scratch_home() as home:
        os.environ["TRIVET_HOME"] = str(home)
        parts = [
            artifacts().save("rl-part", RlPart(queries={name: query(int(name)) for name in ids_in_shard(names, shard)}))
            for shard in shard_numbers(queries)
        ]
        started = time.process_time()
        data = inspect.unwrap(merge_rl_data.fn)(tuple(parts))
        groups = make_groups(artifacts().path(data), queries=bank, candidates=bank, mode="hard_plus_soft")
        spent = time.process_time() - started
    assert groups.pointers.shape == (queries, GROUP, 2)
    return {
        f"{queries:,} queries, file, MB": data.size / 1e6,
        f"{queries:,} queries, merged, read and checked, CPU s": spent,
        f"{queries:,} queries, peak of the whole process, MB": peak_mb(),
    }


def measure_world(seeds: int) -> dict[str, float]:
    """Of `trivet lever run --dataset digits --seeds N`, on one thread as all benchmarks."""
    with scratch_home() as place:
        run = ["lever", "run", "--dataset", "digits", "--seeds", str(seeds), "--results", place / "out", "--json"]
        cost = trivet(place / "home", *run)
    told: dict[str, Any] = json.loads(cost.output)
    return {
        "CPU world, judge included, processor minutes a seed": cost.cpu_s / 60 / seeds,
        "CPU world, wall minutes": cost.wall_s / 60,
        **{f"CPU world, accuracy, {name}": told[name]["accuracy"] for name in SHOWN},
    }
