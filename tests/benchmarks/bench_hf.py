"""Tokens per second of our batches beside a bare `model.generate` loop at its best batch size: same model, same tokens.

A Llama of random weights, about 20 million parameters, on the CPU; prompts of 20 to 200 tokens in mixed order. The
bare loop takes them as they come, ready tokenised, and is tried with each batch size; ours tokenises, sorts and
records beside. Answers have no end token, so that both make the same number of tokens.
"""

from __future__ import annotations

import json
import random
import tempfile
import time
from itertools import product
from pathlib import Path

import torch

from models.causal_lm import CausalLM
from models.protocols import ChatRequest, ChatResponse, Message, Text
from tests.benchmarks.measuring import Figures
from tests.models.tiny import make_tiny_model

BATCH_SIZES = (16, 32, 64)
ROUNDS = 2


def measure(requests: int = 64, tokens: int = 32) -> Figures:
    """The best of the rounds; all take their turns in each of them, since a machine drifts. tokens: of each answer."""
    with tempfile.TemporaryDirectory() as folder:
        subject, asked = CausalLM(str(make_endless_model(Path(folder)))), made_requests(requests, tokens)
        ready = [subject._prompt(0, request).tokens for request in asked]
        drawn = [one.model_copy(update={"temperature": 0.7}) for one in asked]
        generate_all(subject, ready[:8], 8, 8)  # warms up
        taken_s: dict[str, float] = {}
        for _, size in product(range(ROUNDS), BATCH_SIZES):
            found = {
                "bare": generate_all(subject, ready, size, tokens),
                "ours, greedy": answer_all(subject, asked, size),
                "ours, drawn": answer_all(subject, drawn, size),
            }
            taken_s |= {name: min(seconds, taken_s.get(name, seconds)) for name, seconds in found.items()}
        yield "parameters, million", subject._load().model.num_parameters() / 1e6
        yield from ((f"{name}, tokens/s", requests * tokens / seconds) for name, seconds in taken_s.items())


@torch.inference_mode()
def generate_all(subject: CausalLM, prompts: list[list[int]], size: int, most: int) -> float:
    """Seconds of the bare loop."""
    loaded = subject._load()
    before = time.perf_counter()
    for start in range(0, len(prompts), size):
        padded = loaded.tokenizer.pad(
            {"input_ids": prompts[start : start + size]}, padding_side="left", return_tensors="pt"
        )
        loaded.model.generate(**padded, max_new_tokens=most, do_sample=False)
    return time.perf_counter() - before


def answer_all(subject: CausalLM, asked: list[ChatRequest], size: int) -> float:
    """Seconds of ours; raises ValueError unless every token was made."""
    subject.batch_size = size
    before = time.perf_counter()
    answers = [answer for _, answer in subject.complete_many(asked)]
    taken_s = time.perf_counter() - before
    counts = [answer.completion_tokens for answer in answers if isinstance(answer, ChatResponse)]
    if counts != [asked[0].max_tokens] * len(asked):
        raise ValueError(f"answers of {sorted(set(map(str, counts)))} tokens, {asked[0].max_tokens} were asked for")
    return taken_s


def made_requests(count: int, tokens: int) -> list[ChatRequest]:
    """Always the same prompts."""
    rng = random.Random(1)
    prompts = [" ".join(f"word{rng.randrange(30)}" for _ in range(rng.randrange(20, 200))) for _ in range(count)]
    return [
        ChatRequest(messages=(Message(role="user", content=(Text(text=one),)),), max_tokens=tokens, seed=number)
        for number, one in enumerate(prompts)
    ]


def make_endless_model(folder: Path, *, layers: int = 8, hidden: int = 384, words: int = 16_000) -> Path:
    """Weights of a model, at random, whose answers no token ends."""
    vocabulary = [f" word{number}" for number in range(words)]
    make_tiny_model(folder, layers=layers, hidden=hidden, vocabulary=vocabulary, context_tokens=1024)
    for name in ("generation_config.json", "config.json"):
        settings = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps(settings | {"eos_token_id": None if name == "config.json" else []}))
    return folder
