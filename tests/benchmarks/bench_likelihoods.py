"""How fast a judge in this process reads prompts with labels: texts that begin alike share that, beside a row for each.

    python -m tests.benchmarks.bench_likelihoods --data-dir D [--prompts N] [--model smollm2]

TREC's prompts, as stages of the lever ask about them: `beams` begin with the same demonstration, `groups` are draws for
a few queries from their pools, `evaluation` has other demonstrations for every query. Both ways read the same prompts
in one process, one after the other, on one thread; CPU seconds.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from models.backends import open_chat
from models.causal_lm import MOST_ROWS, CausalLM
from models.causal_weights import Loaded
from models.protocols import LogProb
from models.registry import spelled
from models.token_likelihoods import Window, packs_of, pair_windows, score, score_pack, shared_rows
from tasks.lever.judge.demonstration_task import PromptSettings, open_task
from tasks.lever.opened_worlds import open_items


def main() -> None:
    """Print prompts a CPU second of both, by kind of prompt."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--prompts", type=int, default=16)
    parser.add_argument("--model", default="smollm2")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    model = open_chat(spelled(chosen.model))
    assert isinstance(model, CausalLM)
    loaded = model._load()  # pyright: ignore[reportPrivateUsage]
    for kind, prompts, labels in prompts_of(chosen.data_dir, count=chosen.prompts):
        pairs = [(prompt, f" {label}") for prompt in prompts for label in labels]
        windows = [one for group in pair_windows(loaded, pairs) for one in group]
        print(json.dumps({"kind": kind} | measure(loaded, windows, len(prompts))), flush=True)


def measure(loaded: Loaded, windows: Sequence[Window], prompts: int) -> dict[str, float]:
    """Both ways, and the greatest difference of a log-probability."""
    rows_s, rows = _timed(lambda: _in_rows(loaded, windows))
    packs_s, packs = _timed(lambda: [pair for pack in packs_of(windows) for pair in score_pack(loaded, pack)])
    found = dict(packs)
    return {
        "rows, prompts a CPU s": prompts / rows_s,
        "shared, prompts a CPU s": prompts / packs_s,
        "ratio": rows_s / packs_s,
        "greatest difference": max(abs(found[window].total - one.total) for window, one in rows),
    }


def _in_rows(loaded: Loaded, windows: Sequence[Window]) -> list[tuple[Window, LogProb]]:
    rows = shared_rows(windows)
    batches = [rows[start : start + MOST_ROWS] for start in range(0, len(rows), MOST_ROWS)]
    return [pair for batch in batches for pair in score(loaded, batch)]


def _timed(run: Callable[[], Any]) -> tuple[float, Any]:
    started = time.process_time()
    found = run()
    return time.process_time() - started, found


def prompts_of(folder: Path, *, count: int) -> Iterator[tuple[str, list[str], tuple[str, ...]]]:
    """Kind, prompts, labels."""
    items = open_items("trec", folder, train_queries=40, validation=20, test=60, seed=0)
    by_id, rng, task = {item.id: item for item in items.items}, random.Random(0), open_task("trec", PromptSettings())
    queries = [by_id[name] for name in items.train_queries]
    pools = {query.id: [by_id[name] for name in rng.sample(list(items.candidates), 16)] for query in queries}

    def text(query: Any, shown: Sequence[Any]) -> str:
        return task.request(query, shown).messages[0].content[0].text  # pyright: ignore

    first = [(query, pools[query.id]) for query in queries[:2]]
    grown = [text(query, (pool[0], pool[1 + one])) for query, pool in first for one in range(count // 2)]
    yield "beams, 2 shots", grown[:count], task.choices
    drawn = [(query, rng.sample(pools[query.id], 2)) for query in queries[: count // 4] for _ in range(4)]
    yield "groups, 2 shots", [text(query, shown) for query, shown in drawn], task.choices
    shown_4 = [(query, rng.sample(pools[query.id], 4)) for query in queries[:count]]
    yield "evaluation, 4 shots", [text(query, shown) for query, shown in shown_4], task.choices


if __name__ == "__main__":
    main()
