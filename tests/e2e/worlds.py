"""Something to do for each pipeline: small, and with enough questions for every part of a fault."""

from __future__ import annotations

import io
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
from tests.drills.evaluating import write_sums

FIGURES = 8
SUMS = 12
SIDE_PX = 256


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
        "model": {"backend": "openai", "name": "sums", "args": {"base_url": base_url}},
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
    return (folder / "results" / "digits" / "model_cpk" / "v3" / "rce_RandSampler.safetensors").exists()


def _selector() -> bytes:
    width = 2 * NetConfig().tower_width + TEXT_WIDTH
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = PointerSelector(PointerConfig(embedding_dim=width, hidden=16, layers=0))
    return save_selector(network, meta={})
