"""Chunks per CPU second of the embedders, and their memory; one thread.

Chunks are 800 characters: of English prose with figures, about 180 tokens each, and of Korean, about 370 tokens of e5.
"""

from __future__ import annotations

import random

from models.embedders import open_embedder
from models.minilm import MiniLM, Precision
from tests.benchmarks.measuring import Figures, cost_of, part, peak_mb

CHUNK_CHARS = 800
PROSE = (
    "net sales of the fiscal year were lower than in the prior period because comparable demand for computing and "
    "appliances declined while gross profit rate and selling expenses rose; the board declared a dividend per share"
)
KOREAN = (
    "해당 사업의 예산과 기간은 제안요청서에 따르며 계약상대자는 착수일로부터 십사일 이내에 수행계획서를 "
    "제출하고 발주기관의 승인을 받아야 한다 "
    "제출 서류에 허위가 있으면 계약을 해지할 수 있고 하자보수 기간은 검수 완료일부터 일년으로 한다"
)


def measure(chunks: int = 60) -> Figures:
    """Everything once. chunks: English ones; of Korean there are a third as many."""
    texts = english_chunks(chunks)
    for precision in ("fp32", "bf16"):
        yield f"chunks per CPU s, {precision}", chunks_per_cpu_s(precision, texts)
    for name in ("minilm", "e5"):
        yield from part(korean, name, chunks // 3).items()
    cosines = (MiniLM("fp32").embed(texts) * MiniLM("bf16").embed(texts)).sum(1)
    yield "least cosine of bf16 to fp32", float(cosines.min())


def chunks_per_cpu_s(precision: Precision, texts: list[str]) -> float:
    """The better of three rounds, after one that warms up."""
    embedder = MiniLM(precision)
    embedder.embed(texts)
    return len(texts) / min(cost_of(lambda: embedder.embed(texts)).cpu_s for _ in range(3))


def korean(name: str, count: int) -> dict[str, float]:
    """Korean chunks per CPU second, and the peak memory of this process, which does nothing else."""
    embedder, texts = open_embedder(name), korean_chunks(count)
    embedder.embed(["first words"])
    taken_s = cost_of(lambda: embedder.embed(texts)).cpu_s
    return {
        f"Korean chunks per CPU s, {name}": len(texts) / taken_s,
        f"peak of the process, {name}, MB": peak_mb(),
    }


def english_chunks(count: int) -> list[str]:
    """Always the same texts."""
    rng, words = random.Random(1), PROSE.split()
    texts = [" ".join(rng.choice([*words, f"${rng.random() * 1e4:,.1f}"]) for _ in range(160)) for _ in range(count)]
    return [text[:CHUNK_CHARS] for text in texts]


def korean_chunks(count: int) -> list[str]:
    """The same Korean texts at every call."""
    rng, words = random.Random(1), KOREAN.split()
    texts = [" ".join(rng.choice([*words, f"{rng.random() * 1e4:,.1f}원"]) for _ in range(300)) for _ in range(count)]
    return [text[:CHUNK_CHARS] for text in texts]
