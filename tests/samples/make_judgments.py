"""Makes what the demo of the lever begins with: a judge's weights, and its answers to all choices from every pool.

    python -m tests.samples.make_judgments

Written: `tests/samples/lever/judge.safetensors` (half precision) and `tests/samples/lever/recorded.npz`, for the world
of `tests/samples/lever/demo.yaml` and its first seed; two minutes of a CPU.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load

from flows.running.lever_config import LeverConfig, read_lever_config
from models.protocols import ChatResponse
from storage.artifacts import Artifacts
from tasks.lever.data.candidate_pools import build
from tasks.lever.data.embeddings import embed_dataset
from tasks.lever.digits.digits_judge import DigitsEncoder, DigitsJudge
from tasks.lever.digits.digits_training import train_judge
from tasks.lever.digits.net import DigitsNet, NetConfig, to_bytes
from tasks.lever.judge.demonstration_task import open_task, views_of
from tasks.lever.judge.recorded_answers import Choice, RecordedAnswers, digest_of_asking, record
from tasks.lever.opened_worlds import draw_world, open_items

DEMO = Path(__file__).parent / "lever" / "demo.yaml"
AT_ONCE = 20_000
"""Choices that the judge is asked about together."""


def main() -> None:
    """Write both files."""
    torch.set_num_threads(1)
    config = read_lever_config({}, file=DEMO)
    weights, recorded = config.digits.judge, config.recorded
    assert weights
    assert recorded
    trained = halved(train_judge(seed=config.digits.seed, steps=config.digits.judge_steps))
    weights.write_bytes(trained)
    recorded.write_bytes(answers_of(trained, config).to_bytes())
    for path in (weights, recorded):
        print(f"{path}: {path.stat().st_size:,} bytes")


def halved(weights: bytes) -> bytes:
    """Weights of a judge in half precision."""
    net = DigitsNet(NetConfig())
    net.load_state_dict(load(weights))
    return to_bytes(net.half())


def answers_of(weights: bytes, config: LeverConfig) -> RecordedAnswers:
    """Of this judge, in the world of this configuration."""
    judge, task = DigitsJudge(weights), open_task(config.dataset.name, config.prompts)
    with tempfile.TemporaryDirectory(prefix="trivet-") as folder:
        artifacts, sizes = Artifacts(Path(folder) / "store"), config.world_sizes
        draw_world(Path(folder), world=config.dataset.name, seed=config.digits.seed, **sizes)
        chosen = config.dataset
        held_out: Any = {"validation": chosen.validation, "test": chosen.test}
        dataset = open_items(
            chosen.name, Path(folder), train_queries=chosen.train_queries, seed=chosen.seed, **held_out
        )
        embedded = embed_dataset(dataset, views_of(DigitsEncoder(weights)), artifacts)
        recipe = config.pools().of(embedded)
        pools = build(dataset, embedded, artifacts, recipe=recipe, seed=config.first_seed).pools
        items = {item.id: item for item in dataset.items}

        def ask(choices: Sequence[Choice]) -> list[str | None]:
            given: list[str | None] = [None] * len(choices)
            for start in range(0, len(choices), AT_ONCE):
                part = choices[start : start + AT_ONCE]
                requests = [task.request(items[query], [items[one] for one in shown]) for query, shown in part]
                for number, answer in judge.complete_many(requests):
                    assert isinstance(answer, ChatResponse)
                    given[start + number] = task.answer_in(answer.text)
            return given

        return record(pools, items, ask, asking=digest_of_asking(judge.id, config.prompts))


if __name__ == "__main__":
    main()
