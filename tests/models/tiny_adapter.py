"""LoRAs of random weights, which tests make for themselves."""

from __future__ import annotations

import shutil
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from tests.models.tiny_vision import write

WEIGHTS = "adapter_model.safetensors"
CONFIG = "adapter_config.json"
RANK, ALPHA = 4, 8


def merge_adapter(folder: Path, *, adapter: Path, merged: Path) -> Path:
    """Write a LoRA of random weights, and the model that it makes of this one; gives the latter."""
    draws = torch.Generator().manual_seed(0)
    shutil.copytree(folder, merged)
    weights, lora = load_file(merged / "model.safetensors"), dict[str, torch.Tensor]()
    for name in [name for name in weights if name.endswith(("q_proj.weight", "v_proj.weight"))]:
        rows, columns = weights[name].shape
        down, up = (torch.randn(shape, generator=draws) * 0.3 for shape in ((RANK, columns), (rows, RANK)))
        weights[name] += ALPHA / RANK * up @ down
        stem = f"base_model.model.{name.removesuffix('.weight')}"
        lora |= {f"{stem}.lora_A.weight": down, f"{stem}.lora_B.weight": up}
    save_file(weights, merged / "model.safetensors", metadata={"format": "pt"})
    adapter.mkdir()
    save_file(lora, adapter / WEIGHTS)
    config = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": RANK, "lora_alpha": ALPHA, "bias": "none"}
    write(adapter / CONFIG, {**config, "target_modules": ["q_proj", "v_proj"]})
    return merged
