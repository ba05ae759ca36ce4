"""Low-rank adapters on both encoders of a CLIP, and a pointer network trained with them (`v2_lora`).

Source: Hu et al. 2021, arXiv:2106.09685; the library peft puts them in.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from models.clip import image_features, joint_features, text_features
from models.errors import ModelUnavailable
from models.pointer import PointerSelector

RANK = 16
ALPHA = 32
TARGETS = ("q_proj", "k_proj", "v_proj", "out_proj")
"""Of every attention layer, of pictures and of texts."""


WEIGHTS = "adapter_model.safetensors"


class Shown(NamedTuple):
    """Pictures and their questions, n of them, as Clip.pixels and Clip.tokens give them."""

    pixels: Tensor
    """(n, 3, side, side)"""
    tokens: dict[str, Tensor]
    """Each (n, tokens)."""


class LoraSelector(nn.Module):
    """A pointer network behind a CLIP whose adapters learn with it; nothing else of the CLIP does."""

    def __init__(self, clip: Any, selector: PointerSelector) -> None:
        """clip: a CLIPModel; it is changed in place. Raises ModelUnavailable, and ValueError as add_lora does."""
        super().__init__()
        width = clip.config.projection_dim
        if selector.config.embedding_dim != width:
            raise ValueError(
                f"the pointer network takes embeddings {selector.config.embedding_dim} wide and this CLIP gives "
                f"{width}; build it with embedding_dim={width}"
            )
        self.clip = add_lora(clip)
        self.selector = selector

    def embed(self, shown: Shown) -> Tensor:
        """(n, d): unit vectors of pictures and questions together."""
        return joint_features(image_features(self.clip, shown.pixels), text_features(self.clip, shown.tokens))

    def log_probs(self, queries: Shown, bank: Shown, *, pools: Tensor, pointers: Tensor) -> Tensor:
        """(B, G, S): of each step of the pointers.

        queries: B of them. bank: the candidates that occur, each once. pools: (B, K), rows of the bank.
        pointers: (B, G, S), positions in the pool.
        """
        candidates = self.embed(bank)[pools]  # (B, K, d)
        return self.selector.log_probs(self.embed(queries), candidates, pointers)

    def learning(self) -> Iterator[nn.Parameter]:
        """What an optimizer is to move: the adapters and the pointer network."""
        return (parameter for parameter in self.parameters() if parameter.requires_grad)


def add_lora(clip: Any, *, rank: int = RANK, alpha: int = ALPHA) -> Any:
    """The CLIP as a PeftModel, frozen but for new adapters on all of TARGETS; before training they add nothing.

    Raises ModelUnavailable without peft, and ValueError if an attention layer does not get its adapters.
    """
    _require_peft()
    from peft import LoraConfig  # pyright: ignore[reportMissingImports]

    config = LoraConfig(r=rank, lora_alpha=alpha, target_modules=list(TARGETS), lora_dropout=0.0, bias="none")
    return _adapted(clip, config)


def save_lora(adapted: Any, folder: Path) -> None:
    """Write the adapters alone in peft's own layout, as safetensors and their configuration; no paths are in it.

    Equal adapters give equal files: peft's `save_pretrained` writes its sets in any order, and a model card.
    """
    from peft import get_peft_model_state_dict  # pyright: ignore[reportMissingImports]

    folder.mkdir(parents=True, exist_ok=True)
    state: dict[str, Tensor] = get_peft_model_state_dict(adapted)
    save_file({name: value.detach().cpu().contiguous() for name, value in state.items()}, folder / WEIGHTS)
    config = {**adapted.peft_config["default"].to_dict(), "base_model_name_or_path": None, "inference_mode": True}
    plain = {name: sorted(value) if isinstance(value, set) else value for name, value in config.items()}
    (folder / "adapter_config.json").write_text(json.dumps(plain, indent=2, sort_keys=True) + "\n", "utf-8")


def load_lora(clip: Any, folder: Path, *, trainable: bool = False) -> Any:
    """The CLIP with adapters that were saved. Raises ModelUnavailable, and ValueError if they are another model's."""
    _require_peft()
    if not (folder / WEIGHTS).is_file():
        raise ModelUnavailable(f"{folder} holds no {WEIGHTS}; name a folder that save_lora wrote")
    from peft import LoraConfig, set_peft_model_state_dict  # pyright: ignore[reportMissingImports]

    config = LoraConfig.from_pretrained(str(folder))
    config.inference_mode = not trainable
    adapted = _adapted(clip, config)
    state = load_file(folder / WEIGHTS)
    _check_state(adapted, state, folder)
    set_peft_model_state_dict(adapted, state)
    return adapted


def merged(adapted: Any) -> Any:
    """A plain CLIPModel that computes the same, with the adapters added into its weights."""
    return adapted.merge_and_unload(safe_merge=True)


def _adapted(clip: Any, config: Any) -> Any:
    from peft import get_peft_model  # pyright: ignore[reportMissingImports]

    try:
        adapted = get_peft_model(clip, config)
    except ValueError as error:
        raise ValueError(f"LoRA cannot be put into this model: {error}") from error
    _check_adapted(adapted)
    return adapted


def _require_peft() -> None:
    if importlib.util.find_spec("peft") is None:
        raise ModelUnavailable("LoRA needs the library peft, which is not installed; run `pip install peft`")


def _check_adapted(adapted: Any) -> None:
    """Raises ValueError unless each target of each attention layer of both encoders has an adapter."""
    base = adapted.get_base_model()
    for name, tower in (("vision", base.vision_model), ("text", base.text_model)):
        for number, layer in enumerate(tower.encoder.layers):
            for target in TARGETS:
                if not hasattr(getattr(layer.self_attn, target), "lora_A"):
                    raise ValueError(
                        f"layer {number} of the {name} encoder has no adapter on {target}; LoRA would train a part of "
                        "the model only: use a CLIP whose attention layers have " + ", ".join(TARGETS)
                    )


def _check_state(adapted: Any, state: dict[str, Tensor], folder: Path) -> None:
    """Raises ValueError unless the file holds what this model's adapters want, no more and no less."""
    from peft import get_peft_model_state_dict  # pyright: ignore[reportMissingImports]

    wanted = {name: tuple(value.shape) for name, value in get_peft_model_state_dict(adapted).items()}
    found = {name: tuple(value.shape) for name, value in state.items()}
    if differing := sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name)):
        name = differing[0]
        raise ValueError(
            f"the adapters in {folder} are another model's: {len(differing)} differ, such as {name} "
            f"(the file has {found.get(name)}, the model wants {wanted.get(name)}); give the CLIP that they were "
            "trained with"
        )
