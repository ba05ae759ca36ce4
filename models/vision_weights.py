"""The weights of a model that writes about pictures: how it comes into memory, and how it takes pictures."""

from __future__ import annotations

import inspect
import io
from pathlib import Path
from typing import Any, NamedTuple

import PIL.Image

from models.adapters import adapted
from models.causal_weights import (
    Loaded,
    Weights,
    context_tokens_of,
    device_for,
    end_tokens_of,
    failures_named,
    progress_hidden,
    require_whole,
    weights_folder,
)
from models.model_errors import ModelUnavailable
from models.prompt_pictures import open_picture
from models.vision_sight import Pictures, Sight
from models.weight_files import read_json, require_safetensors

SHAPES = ((48, 32), (30, 70), (700, 700))
"""Sizes of the probe pictures whose preprocessing identifies a model's image processor: wide, tall, large."""


class Seeing(NamedTuple):
    """A model in memory, and how it takes pictures."""

    loaded: Loaded
    sight: Sight
    pictures: Pictures


class Kind(NamedTuple):
    """What a model can be loaded as."""

    sees: bool
    """It takes pictures."""
    reads_text_alone: bool
    """transformers knows it as a language model, too."""


def kind_of(name: str, revision: str | None = None) -> Kind:
    """The kind of a model in a folder or on the hub; loads nothing. Raises ModelUnavailable."""
    config = read_json(weights_folder(name, revision, ("config.json",), "model") / "config.json")
    if "vision_config" not in config:
        return Kind(sees=False, reads_text_alone=True)
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    return Kind(sees=True, reads_text_alone=config.get("model_type") in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)


def load_seeing(
    weights: Weights, *, device: str | None, device_map: Any, max_length: int | None, pixels: dict[str, int]
) -> Seeing:
    """The model on its device, and how it sees. Only safetensors are read. Raises ModelUnavailable.

    pixels: `min_pixels` and `max_pixels` of a picture, in place of the model's own.
    """
    target = device_for(device)
    with progress_hidden(), failures_named(weights.folder):
        processor = read_processor(weights.folder, pixels)
        model, info = _read_model(weights, device_map)
        require_whole(info, processor.tokenizer, weights.folder)
        model = model if weights.adapter is None else adapted(model, weights.adapter)
        model = model if device_map is not None else model.to(target)
    tokenizer = processor.tokenizer
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token or tokenizer.convert_ids_to_tokens(0)
    tokenizer.chat_template = processor.chat_template or tokenizer.chat_template
    sight = _sight(model, processor, weights.folder)
    _check_reading(sight, weights.folder)
    loaded = Loaded(
        model=model.eval(),
        tokenizer=tokenizer,
        context_tokens=max_length or context_tokens_of(model.config, tokenizer),
        end_tokens=end_tokens_of(model, tokenizer),
    )
    return Seeing(loaded, sight, Pictures(sight))


def _read_model(weights: Weights, device_map: Any) -> tuple[Any, dict[str, Any]]:
    """The model, and what transformers says of its loading."""
    import torch
    from transformers import AutoModelForImageTextToText

    require_safetensors(weights.folder)
    source: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False, "use_safetensors": True}
    placed = {} if device_map is None else {"device_map": device_map}
    dtype = getattr(torch, weights.dtype)
    read: Any = AutoModelForImageTextToText.from_pretrained  # its types do not know that it can give two things
    return read(weights.folder, dtype=dtype, output_loading_info=True, **placed, **source)


def read_processor(folder: Path, pixels: dict[str, int]) -> Any:
    """Tokenizer and preparation of pictures, by Pillow on every machine."""
    from transformers import AutoConfig, AutoImageProcessor
    from transformers.models.auto.processing_auto import PROCESSOR_MAPPING

    source: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    config = AutoConfig.from_pretrained(folder, **source)
    if type(config) not in PROCESSOR_MAPPING:
        raise ModelUnavailable(f"{folder} holds no model that takes pictures; name one that does")
    try:
        processor = _without_videos(PROCESSOR_MAPPING[type(config)]).from_pretrained(folder, **source)
    except TypeError as error:
        raise unlike(folder) from error
    processor.image_processor = AutoImageProcessor.from_pretrained(folder, backend="pil", **source, **pixels)
    if pixels and "max_pixels" not in inspect.get_annotations(processor.image_processor.valid_kwargs):
        raise ModelUnavailable(
            f"the model in {folder} has a size of its own for pictures; leave {' and '.join(pixels)} out"
        )
    return processor


def _without_videos(kind: Any) -> Any:
    """The class of a processor without its part for videos, which cannot be had without torchvision."""
    names = [name for name in kind.get_attributes() if name != "video_processor"]
    return type(kind.__name__, (kind,), {"get_attributes": staticmethod(lambda: names)})


def _sight(model: Any, processor: Any, folder: Path) -> Sight:
    token: str | None = getattr(processor, "image_token", None)
    if token is None:
        raise unlike(folder)
    names: tuple[str, ...] = ("vision_start_token_id", "vision_end_token_id")
    around = [getattr(model.config, name, None) for name in names]
    tokens: list[str] = processor.tokenizer.convert_ids_to_tokens(around) if None not in around else ["", ""]
    return Sight(
        processor=processor,
        token=token,
        token_id=processor.tokenizer.convert_tokens_to_ids(token),
        written=token.join(tokens),
        names_types="mm_token_type_ids" in inspect.signature(model.forward).parameters,
    )


def _check_reading(sight: Sight, folder: Path) -> None:
    """Raises ModelUnavailable unless the model's own processor makes the same of some pictures as we do."""
    try:
        alike, cause = _reads_alike(sight), None
    except (RuntimeError, ValueError, TypeError, KeyError, AttributeError, StopIteration) as error:
        alike, cause = False, error
    if not alike:
        raise unlike(folder) from cause


def unlike(folder: Path) -> ModelUnavailable:
    return ModelUnavailable(
        f"the model in {folder} takes pictures in a way that is not supported in this process; take one of the "
        "Qwen-VL (2, 2.5, 3) or LLaVA kind, or serve this one behind an OpenAI-compatible endpoint"
    )


def _reads_alike(sight: Sight) -> bool:
    import torch

    pngs = [_sample(width, height) for width, height in SHAPES]
    text = " and ".join([sight.written] * len(pngs))
    theirs = dict(sight.processor(text=[text], images=[open_picture(png) for png in pngs], return_tensors="pt"))
    tokens = theirs.pop("input_ids")[0].tolist()
    pictures = {name: value for name, value in theirs.items() if name not in ("attention_mask", "mm_token_type_ids")}
    ours = Pictures(sight).joined(pngs)
    if sight.expanded(sight.processor.tokenizer(text)["input_ids"], pngs) != tokens or ours.keys() != pictures.keys():
        return False
    return all(torch.equal(ours[name], pictures[name]) for name in ours)


def _sample(width: int, height: int) -> bytes:
    file = io.BytesIO()
    PIL.Image.linear_gradient("L").resize((width, height)).save(file, "PNG")
    return file.getvalue()
