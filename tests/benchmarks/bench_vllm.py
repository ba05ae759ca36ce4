"""vLLM in process, beside its own bare calls, and what the order of requests is worth; random weights, no network.

.venv-engines/bin/python -m tests.benchmarks.bench_vllm
"""

from __future__ import annotations

import os
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")  # GiB: little, so that what is not asked soon is forgotten

from models.backends import open_backend
from models.protocols import ChatRequest, Message, Text
from models.vllm_engine import driver_of
from tests.models.tiny import make_tiny_model

CUT = "\ufffd"
REQUESTS = 256
ROUNDS = 5
SETS, QUESTIONS = 10, 5
"""Of demonstrations, and what is asked behind each."""
DEMONSTRATIONS = " ".join(f"word{number}" for number in range(30))


def main() -> None:
    """Print the figures."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "small").mkdir()
        small = make_tiny_model(Path(folder) / "small", hidden=256, layers=4)
        compare_throughput(opened(small))
        (Path(folder) / "deep").mkdir()
        deep = make_tiny_model(Path(folder) / "deep", hidden=512, layers=24, context_tokens=2048)
        compare_orders(opened(deep, max_num_seqs=4))


def opened(folder: Path, **chosen: Any) -> Any:
    args = {"pretrained": str(folder), "gpu_memory_utilization": 0.2, "enforce_eager": True, **chosen}
    return open_backend("vllm", args=args)


def asking(text: str, *, max_tokens: int) -> ChatRequest:
    return ChatRequest(messages=(Message(role="user", content=(Text(text=text),)),), max_tokens=max_tokens)


def compare_throughput(chat: Any) -> None:
    """Requests per second: VLLMChat, and LLM.generate and LLM.chat of the same engine, turn by turn."""
    from vllm.sampling_params import SamplingParams  # pyright: ignore[reportMissingImports]

    words = random.Random(0)
    texts = [" ".join(f"word{words.randrange(30)}" for _ in range(words.randrange(20, 120))) for _ in range(REQUESTS)]
    requests = [asking(text, max_tokens=32) for text in texts]
    answers = dict(chat.complete_many(requests))
    llm: Any = driver_of(chat._setup)._llm
    prompts = [{"prompt_token_ids": chat._prompt(0, one).tokens} for one in requests]
    params = SamplingParams(temperature=0.0, max_tokens=32)
    turns = [[{"role": "user", "content": text}] for text in texts]
    ways: dict[str, Callable[[], Sequence[Any]]] = {
        "VLLMChat.complete_many": lambda: [answer for _, answer in chat.complete_many(requests)],
        "LLM.generate": lambda: llm.generate(prompts, params, use_tqdm=False),
        "LLM.chat": lambda: llm.chat(turns, params, use_tqdm=False),
    }
    bare = [output.outputs[0].text for output in ways["LLM.generate"]()]
    # the bare one holds back the bytes of a character that the end cuts off
    alike = sum(answers[number].text.rstrip(CUT) == text.rstrip(CUT) for number, text in enumerate(bare))
    print(f"{alike} of {REQUESTS} answers are those of LLM.generate")
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, way in ways.items():
            llm.reset_prefix_cache()
            seconds[name].append(timed(way))
    rates = {name: REQUESTS / median(found) for name, found in seconds.items()}
    for name, rate in rates.items():
        shown = ", ".join(f"{one:.2f}" for one in sorted(seconds[name]))
        print(f"{name:24} {rate:7.1f} requests/s   {rates['VLLMChat.complete_many'] / rate:.2f}×   seconds: {shown}")


def compare_orders(chat: Any) -> None:
    """Judging with shared demonstrations: sorted as lever sorts it, and shuffled; tokens that came from the cache."""
    words = random.Random(0)
    shown = [" ".join(words.sample(DEMONSTRATIONS.split(), 30)) + " " for _ in range(SETS)]
    requests = [asking(one * 40 + f"word{question}", max_tokens=5) for one in shown for question in range(QUESTIONS)]
    shuffled = words.sample(requests, len(requests))
    dict(chat.complete_many(requests[:2]))
    llm: Any = driver_of(chat._setup)._llm
    jobs: dict[str, Callable[[Sequence[ChatRequest]], object]] = {
        "answers": lambda order: dict(chat.complete_many(order)),
        "log-probs": lambda order: dict(
            chat.answer_log_probs([(one, answer) for one in order for answer in ("word1", " word2 word3", "Yes")])
        ),
    }
    for what, job in jobs.items():
        for name, order in (("sorted", requests), ("shuffled", shuffled)):
            llm.reset_prefix_cache()
            before = chat.prompt_tokens, chat.cached_tokens
            took = timed(lambda job=job, order=order: job(order))
            tokens, cached = chat.prompt_tokens - before[0], chat.cached_tokens - before[1]
            print(f"{what:10} {name:9} {took:6.1f} s   {cached} of {tokens} prompt tokens came from the cache")


def timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
