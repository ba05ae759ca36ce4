"""Adapters (LoRA and its like) of a model of the transformers library: read from a folder, and added to its weights.

Source: Hu et al. 2021, arXiv:2106.09685; the library peft reads them and knows their kinds.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from models.model_errors import ModelUnavailable
from models.weight_files import read_json

CONFIG = "adapter_config.json"
SAID_CHARS = 200
WEIGHTS = "adapter_model.safetensors"
PREFIX = "base_model.model."
"""How the names of an adapter's weights begin, in peft's layout."""


def check_adapter(folder: Path) -> None:
    """Raises ModelUnavailable for a folder that holds no adapter, or without the library that reads them."""
    if importlib.util.find_spec("peft") is None:
        raise ModelUnavailable(f"peft={folder} needs the library peft, which is not installed; run `pip install peft`")
    if not read_json(folder / CONFIG):
        raise ModelUnavailable(f"{folder} holds no adapter: there is no {CONFIG} in it; name the folder that has one")
    if not (folder / WEIGHTS).is_file():
        raise ModelUnavailable(
            f"{folder} holds no {WEIGHTS}, and other weight formats can run code when they are read; "
            "save the adapter again with a newer peft"
        )


def adapted(model: Any, folder: Path) -> Any:
    """The same model, with an adapter added to its weights: its answers take no longer than without.

    Raises ModelUnavailable for an adapter of another model, one that is not whole, and one that no weights stand for.
    """
    from peft import PeftConfig, get_peft_model, set_peft_model_state_dict  # pyright: ignore[reportMissingImports]
    from safetensors.torch import load_file

    config: Any = PeftConfig.from_pretrained(str(folder))
    if config.is_prompt_learning:
        raise ModelUnavailable(
            f"the adapter in {folder} is of the kind {config.peft_type.value}, a prompt that was learned; "
            "only adapters that can be added to the weights are read, such as LoRA"
        )
    config.inference_mode = True
    weights = load_file(folder / WEIGHTS)
    try:
        renamed = {name: weights[old] for old, name in _names(model, list(weights)).items()}
        wrapped: Any = get_peft_model(model, config)
        read = set_peft_model_state_dict(wrapped, renamed)
    except (ValueError, RuntimeError, KeyError) as error:
        raise _of_another(folder, " ".join(str(error).split())[:SAID_CHARS].rstrip(".")) from error
    if read.unexpected_keys:
        raise _of_another(folder, f"{read.unexpected_keys[0]} has no place in this one")
    own = (wrapped.base_model.prefix, ".modules_to_save.")
    if missing := [name for name in read.missing_keys if any(part in name for part in own)]:
        raise _of_another(folder, f"{missing[0]} is missing in its file")
    return wrapped.merge_and_unload(safe_merge=True)


def _names(model: Any, names: list[str]) -> dict[str, str]:
    """The names of an adapter's weights as this version of transformers has them; models were laid out otherwise once.

    peft itself leaves out, without a word, what was trained before the layers of Qwen-VL and LLaVA were moved.
    """
    from transformers.conversion_mapping import get_model_conversion_mapping
    from transformers.core_model_loading import WeightRenaming, rename_source_key

    moves = [move for move in get_model_conversion_mapping(model) if isinstance(move, WeightRenaming)]
    return {name: PREFIX + rename_source_key(name.removeprefix(PREFIX), moves, [])[0] for name in names}


def _of_another(folder: Path, said: str) -> ModelUnavailable:
    return ModelUnavailable(
        f"the adapter in {folder} does not fit the model: {said}; give the model that it was trained with, and all "
        "files of the adapter"
    )
