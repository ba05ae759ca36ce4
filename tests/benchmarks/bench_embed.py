"""Chunks per CPU second of the embedders, their start and memory, and look-ups in the embedding cache; one thread.

    python tests/benchmarks/bench_embed.py [--json]

Chunks are 800 characters: of English prose with figures, about 180 tokens each, and of Korean, about 370 tokens of e5.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"  # read when torch is first imported

import numpy as np

from models.minilm import MiniLM, Precision, native_precision
from storage.embeddings import EmbeddingCache

CHUNKS, CHUNK_CHARS, LOOKUPS = 60, 800, 100_000
IN_A_PROCESS = """
import resource, sys, time
from models.embedders import open_embedder
from tests.benchmarks.bench_embed import korean_chunks
embedder = open_embedder(sys.argv[1])
embedder.embed(["first words"])
texts = korean_chunks()
before = time.process_time()
embedder.embed(texts)
taken = time.process_time() - before
print(len(texts) / taken, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""
START = "from models.embedders import open_embedder; open_embedder('minilm').embed(['first words'])"
PROSE = (
    "net sales of the fiscal year were lower than in the prior period because comparable demand for computing and "
    "appliances declined while gross profit rate and selling expenses rose; the board declared a dividend per share"
)
KOREAN = (
    "해당 사업의 예산과 기간은 제안요청서에 따르며 계약상대자는 착수일로부터 십사일 이내에 수행계획서를 "
    "제출하고 발주기관의 승인을 받아야 한다 "
    "제출 서류에 허위가 있으면 계약을 해지할 수 있고 하자보수 기간은 검수 완료일부터 일년으로 한다"
)


def main() -> None:
    """Measure everything once and print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    options = parser.parse_args()
    figures: dict[str, Any] = {"native precision": native_precision(), "start to first vector, CPU s": start_cpu_s()}
    for precision in ("fp32", "bf16"):
        figures[f"chunks per CPU s, {precision}"] = chunks_per_cpu_s(precision)
    for name in ("minilm", "e5"):
        rate, peak_mb = in_a_process(name)
        figures |= {
            f"Korean chunks per CPU s, {name}": round(rate, 1),
            f"peak of the process, {name}, MB": round(peak_mb),
        }
    figures["least cosine of bf16 to fp32"] = least_cosine()
    figures[f"{LOOKUPS:,} cache look-ups, CPU s"] = lookup_cpu_s()
    print(json.dumps(figures) if options.json else "\n".join(f"{name:36} {value}" for name, value in figures.items()))


def chunks_per_cpu_s(precision: Precision) -> float:
    """The better of three rounds, after one that warms up."""
    embedder, texts = MiniLM(precision), chunks()
    embedder.embed(texts)
    return round(len(texts) / min(_cpu_s(lambda: embedder.embed(texts)) for _ in range(3)), 1)


def in_a_process(name: str) -> tuple[float, float]:
    """Korean chunks per CPU second, and the peak memory in MB, of a new interpreter that embeds them."""
    told = subprocess.run([sys.executable, "-c", IN_A_PROCESS, name], check=True, capture_output=True, text=True)
    rate, peak_mb = map(float, told.stdout.split())
    return rate, peak_mb


def least_cosine() -> float:
    """Over the chunks; 0.999 is asked."""
    return round(float((MiniLM("fp32").embed(chunks()) * MiniLM("bf16").embed(chunks())).sum(1).min()), 6)


def start_cpu_s() -> float:
    """Of a new interpreter that opens the embedder and embeds two words; the best of three."""
    taken: list[float] = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", START], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return round(min(taken), 2)


def lookup_cpu_s() -> float:
    """One `get_many` of texts that are all known, in a file of 100,000 rows of 384."""
    texts = [f"{number} " + "x" * CHUNK_CHARS for number in range(LOOKUPS)]
    with tempfile.TemporaryDirectory() as folder:
        cache = EmbeddingCache(Path(folder) / "embeddings.sqlite")
        cache.put_many("bench", texts, np.ones((LOOKUPS, 384), np.float16))
        taken = _cpu_s(lambda: cache.get_many("bench", texts))
        cache.close()
    return round(taken, 2)


def chunks() -> list[str]:
    """Always the same texts."""
    rng, words = random.Random(1), PROSE.split()
    texts = [" ".join(rng.choice([*words, f"${rng.random() * 1e4:,.1f}"]) for _ in range(160)) for _ in range(CHUNKS)]
    return [text[:CHUNK_CHARS] for text in texts]


def korean_chunks() -> list[str]:
    """The same twenty Korean texts at every call."""
    rng, words = random.Random(1), KOREAN.split()
    texts = [" ".join(rng.choice([*words, f"{rng.random() * 1e4:,.1f}원"]) for _ in range(300)) for _ in range(20)]
    return [text[:CHUNK_CHARS] for text in texts]


def _cpu_s(work: Any) -> float:
    before = time.process_time()
    work()
    return time.process_time() - before


if __name__ == "__main__":
    main()
