"""Something to do for each pipeline, and an endpoint that answers half of its questions only, until it is mended.

Small, and with enough questions for every part of a fault.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pymupdf
import torch
from PIL import Image

from models.pointer import PointerConfig, PointerSelector
from tasks.lever.digits.digits_judge import TEXT_WIDTH
from tasks.lever.digits.net import NetConfig
from tasks.lever.learning.checkpoints import save_selector
from tests.drills.evaluating import adder, write_sums
from tests.models.server import Reply, Server, error_reply, prompt_of

FIGURES = 8
SUMS = 12
SIDE_PX = 256
PARTS = 2
"""A run fails once, and its retry gets the other part of the answers."""
SAID = "no GPU is free"
SHOWN_ANSWER = re.compile(r"Short answer:(.+)")


def rag(folder: Path) -> dict[str, Any]:
    """A report with figures and a note without any."""
    documents = folder / "documents"
    documents.mkdir(parents=True)
    with pymupdf.open() as report:
        for number in range(FIGURES):
            page = report.new_page()
            page.insert_text((72, 72), f"Chapter {number}: the fares of route {number} rose by {number} percent.")
            page.insert_image(pymupdf.Rect(72, 100, 328, 356), stream=_picture(number))
        report.save(documents / "Fares 2024.pdf")
    (documents / "note.md").write_text("# Note\n\nThe fare collection system costs 4.2 million.\n")
    models = {"vlm": "openai:figures", "embedder": "openai:vectors"}
    return {"documents": str(documents), "index": str(folder / "index"), **models}


def _picture(seed: int) -> bytes:
    """A PNG of coloured squares, each time others."""
    squares = np.random.default_rng(seed).integers(0, 255, (8, 8, 3), dtype=np.uint8)
    out = io.BytesIO()
    Image.fromarray(squares).resize((SIDE_PX, SIDE_PX), Image.Resampling.NEAREST).save(out, "PNG")
    return out.getvalue()


def evaluation(folder: Path, base_url: str) -> dict[str, Any]:
    """Sums for a model."""
    return {
        "model": {"backend": "openai", "name": "sums", "base_url": base_url},
        "tasks": [{"task": "MATH500"}],
        "data_dir": str(write_sums(folder / "sums", SUMS)),
        "output_path": str(folder / "logs"),
    }


def lever(folder: Path) -> dict[str, Any]:
    """A few questions about digits, for a judge at the endpoint and a selector that has learnt nothing."""
    selector = folder / "selector.safetensors"
    folder.mkdir(parents=True, exist_ok=True)
    selector.write_bytes(_selector())
    return {
        "dataset": {"train_queries": 8, "validation": 4, "test": 4},
        "digits": {"candidates": 24, "judge_steps": 20},
        "judge": "openai:judge",
        "pool_size": 6,
        "rl_data": {"beams": 2, "temperatures": [1.0], "samples": 1, "random": 1},
        "rce": {"epochs": 1},
        "grpo": {"offline_epochs": 1, "rounds": 0},
        "evaluated_shots": [1, 2],
        "oracle": {"most_judgments": 0},
        "start": {"sft_checkpoint": str(selector)},
        "results": str(folder / "results"),
    }


def has_trained(folder: Path) -> bool:
    """Whether the lever of this folder has come to measuring; its first checkpoint has no recipe: random pools."""
    return (folder / "results" / "digits" / "model_cpk" / "v3" / "grpo_RandSampler.safetensors").exists()


def _selector() -> bytes:
    width = 2 * NetConfig().tower_width + TEXT_WIDTH
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = PointerSelector(PointerConfig(embedding_dim=width, hidden=16, layers=0))
    return save_selector(network, meta={})


@dataclass
class Fault:
    """What one model of the endpoint is asked, and how often it has answered."""

    begins: Callable[[], bool] = lambda: True
    """Whether it fails by now; what it is asked before is answered, and counts in no part."""
    mended: bool = False
    """Whether it answers the second part too."""
    answered: Counter[str] = field(default_factory=Counter[str])
    refused: Counter[str] = field(default_factory=Counter[str])
    _places: dict[str, int] = field(default_factory=dict[str, int])
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def reply(self, body: dict[str, Any]) -> Reply | None:
        """None: it answers. A server that is to be left alone for hours is not asked again by this run."""
        question = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
        with self._guard:
            answers = self.mended or self._place(question) % PARTS == 0
            (self.answered if answers else self.refused)[question] += 1
        return None if answers else error_reply(503, SAID, headers={"Retry-After": "7200"})

    def _place(self, question: str) -> int:
        if question not in self._places and not self.begins():
            return 0
        return self._places.setdefault(question, len(self._places))


def misbehave(faults: Mapping[str, Fault]) -> Callable[[str, dict[str, Any]], Reply | None]:
    """By the name of the model that is asked; embeddings are given."""
    return lambda path, body: faults[body["model"]].reply(body) if path.endswith("/completions") else None


def answer(body: dict[str, Any]) -> str:
    """A sum, what a picture shows, or the answer of the last demonstration."""
    match body["model"]:
        case "sums":
            return adder(pause_s=0)(body)
        case "figures":
            return f"A bar chart of fares: {len(json.dumps(body))} in 2023, 12 in 2024."
        case _:
            shown = SHOWN_ANSWER.findall(prompt_of(body))
            return shown[-1] if shown else "zero"


def set_up(server: Server, faults: Mapping[str, Fault]) -> None:
    """Have the server play all these models."""
    server.models = (*faults, "vectors")
    server.answer, server.misbehave = answer, misbehave(faults)
