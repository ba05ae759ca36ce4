"""What the lever costs: groups of 5,000 queries in memory, and the CPU world from its pictures to its figures.

The CPU world runs as a user runs it, on one thread, in a fresh home: judge, search, training and measuring, with all
processes that the command starts and waits for (Prefect's API; PostgreSQL's server is not waited for).
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.benchmarks.measuring import TRIVET, Figures, part, peak_mb, processor_s, scratch_home

SHOWN = ("zero_shot", "random", "similarity", "mmr", "similarity_pool", "sft", "rce", "grpo", "oracle")
WIDTH, CANDIDATES, POOL, GROUP = 512, 9_000, 64, 16


def measure(seeds: int = 1, queries: int = 5_000) -> Figures:
    """queries: of which groups are held in memory. seeds: of the CPU world; 0 leaves it out."""
    yield from part(measure_memory, queries).items()
    if seeds:
        yield from measure_world(seeds).items()


def measure_memory(queries: int) -> dict[str, float]:
    """Peak of a process that reads the RL data of so many queries and makes groups of them."""
    import torch

    from tasks.lever.data.embeddings import EmbeddingBank
    from tasks.lever.data.pointer_files import serialize_rl_data
    from tasks.lever.learning.training_inputs import make_groups
    from tasks.lever.lever_records import PointerRecord, RlQuery

    made = torch.Generator().manual_seed(0)
    bank = EmbeddingBank(tuple(map(str, range(CANDIDATES))), torch.randn(CANDIDATES, WIDTH, generator=made), "bench")
    meta = {"image_id": "1", "question": "What is it?", "split": "train", "threshold": 0.5, "judge": "bench"}

    def query(number: int) -> RlQuery:
        pool = [(number + 1 + at * 7) % CANDIDATES for at in range(POOL)]
        pointers = [
            PointerRecord(
                pointer=(at, (at + 1) % POOL),
                gen_method="random",
                vqa_pred_answer="a word",
                vqa_correct=1,
                vqa_acc_score=0.6,
                behaviour_logp=-8.0,
            )
            for at in range(GROUP)
        ]
        return RlQuery(
            meta=meta,
            candidate_pool=tuple({"id": str(one), "question": "What is it?", "answer": "a word"} for one in pool),
            candidate_pool_ids=tuple(map(str, pool)),
            pointer_candidates=tuple(pointers),
        )

    with tempfile.TemporaryDirectory(prefix="trivet-bench-") as folder:
        path = Path(folder) / "rl_data_RandSampler.json"
        with path.open("wb") as file:
            parts = (serialize_rl_data({str(number): query(number)}) for number in range(queries))
            file.write(b"{" + b",".join(part.strip()[1:-1] for part in parts) + b"}")
        size = path.stat().st_size
        started = time.process_time()
        groups = make_groups(path, queries=bank, candidates=bank, mode="hard_plus_soft")
        spent = time.process_time() - started
    assert groups.pointers.shape == (queries, GROUP, 2)
    return {
        "groups, file, MB": size / 1e6,
        "groups, read and checked, CPU s": spent,
        "groups, peak of the whole process, GB": peak_mb() * 1024 / 1e6,
    }


def measure_world(seeds: int) -> dict[str, float]:
    """Of `trivet lever run --dataset digits --seeds N`."""
    with scratch_home() as place:
        single = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TRIVET_HOME": str(place / "home")}
        command = [*TRIVET, "lever", "run", "--dataset", "digits", "--seeds", str(seeds), "--results", place / "out"]
        own, started, before = time.process_time(), time.monotonic(), processor_s()
        done = subprocess.run([*command, "--json"], env=os.environ | single, check=True, capture_output=True, text=True)
        wall, spent = time.monotonic() - started, processor_s() - before - (time.process_time() - own)
        told: dict[str, Any] = json.loads(done.stdout)
    return {
        "CPU world, judge included, processor minutes a seed": spent / 60 / seeds,
        "CPU world, wall minutes": wall / 60,
        **{f"CPU world, accuracy, {name}": told[name]["accuracy"] for name in SHOWN},
    }
