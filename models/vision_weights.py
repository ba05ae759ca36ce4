"""The weights of a model that writes about pictures, and how pictures come into its prompts."""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from models.causal_weights import (
    Loaded,
    Weights,
    _context_tokens,
    _device,
    _end_tokens,
    _failures_named,
    _folder,
    _progress_hidden,
)
from models.errors import ModelUnavailable, RequestRefused
from models.pictures import open_picture, picture_size
from models.weights import read_json, require_safetensors

if TYPE_CHECKING:
    from torch import Tensor

PICTURE_BYTES = 512 * 2**20
"""Of pictures as the model takes them that are kept for the prompts to come: demonstrations come again and again."""


class Sight(NamedTuple):
    """How one model takes pictures; typed Any because transformers picks the class from the folder."""

    processor: Any
    token: str
    """What stands in a text for a picture, and again for each part of it."""
    token_id: int
    written: str
    """A picture in a prompt without a chat template, as the model was trained to see it."""
    names_types: bool
    """True where the model is told which tokens are parts of a picture."""

    def expanded(self, tokens: Sequence[int], pngs: Sequence[bytes]) -> list[int]:
        """The tokens with as many for each picture as it takes. Raises RequestRefused for what is no picture."""
        counts = iter(self._counts(pngs))
        return [one for token in tokens for one in [token] * (next(counts) if token == self.token_id else 1)]

    def _counts(self, pngs: Sequence[bytes]) -> list[int]:
        if not pngs:
            return []
        sizes = [picture_size(png) for png in pngs]
        try:
            return self.processor._get_num_multimodal_tokens(image_sizes=sizes).num_image_tokens
        except ValueError as error:
            raise RequestRefused(f"The model takes no pictures of this shape ({error}); crop them.") from error

    def types(self, tokens: Sequence[int]) -> list[int]:
        """1 at the parts of pictures, 0 at words."""
        return [int(token == self.token_id) for token in tokens]

    def seen(self, png: bytes) -> dict[str, Tensor]:
        """One picture as the model takes it."""
        return dict(self.processor.image_processor(images=[open_picture(png)], return_tensors="pt"))


class Pictures:
    """Pictures as a model takes them; the newest are kept, so that demonstrations are not prepared for each prompt."""

    def __init__(self, sight: Sight) -> None:
        self._sight = sight
        self._kept: OrderedDict[bytes, dict[str, Tensor]] = OrderedDict()

    def joined(self, pngs: Sequence[bytes]) -> dict[str, Tensor]:
        """What the model wants for all of them, in their order; nothing for none. Raises RequestRefused."""
        import torch

        if not pngs:
            return {}
        missing = [png for png in dict.fromkeys(pngs) if png not in self._kept]
        with ThreadPoolExecutor() as pool:  # Pillow and numpy let go of the interpreter
            self._kept |= zip(missing, pool.map(self._sight.seen, missing), strict=True)
        for png in dict.fromkeys(pngs):
            self._kept.move_to_end(png)
        parts = [self._kept[png] for png in pngs]
        self._forget()
        return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}

    def _forget(self) -> None:
        total = sum(_bytes(part) for part in self._kept.values())
        while total > PICTURE_BYTES:
            _, oldest = self._kept.popitem(last=False)
            total -= _bytes(oldest)


def sees(name: str) -> bool:
    """True for a model of a folder or of the hub that takes pictures; loads nothing. Raises ModelUnavailable."""
    return "vision_config" in read_json(_folder(name, None, ("config.json",), "model") / "config.json")


def load_seeing(
    weights: Weights, *, device: str | None, device_map: Any, max_length: int | None, pixels: dict[str, int]
) -> tuple[Loaded, Sight]:
    """The model on its device, and how it sees. Only safetensors are read. Raises ModelUnavailable.

    pixels: `min_pixels` and `max_pixels` of a picture, in place of the model's own.
    """
    import torch
    from transformers import AutoModelForImageTextToText

    require_safetensors(weights.folder)
    placed: dict[str, Any] = {} if device_map is None else {"device_map": device_map}
    target = _device(device)
    with _progress_hidden(), _failures_named(weights.folder):
        processor = _read_processor(weights.folder, pixels)
        model: Any = AutoModelForImageTextToText.from_pretrained(
            weights.folder,
            local_files_only=True,
            use_safetensors=True,
            trust_remote_code=False,
            dtype=getattr(torch, weights.dtype),
            **placed,
        )
        model = model.eval() if device_map is not None else model.eval().to(target)
    tokenizer = processor.tokenizer
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token or tokenizer.convert_ids_to_tokens(0)
    tokenizer.chat_template = tokenizer.chat_template or processor.chat_template
    loaded = Loaded(
        model=model,
        tokenizer=tokenizer,
        context_tokens=max_length or _context_tokens(model.config, tokenizer),
        end_tokens=_end_tokens(model, tokenizer),
    )
    sight = _sight(model, processor)
    _check_reading(sight, weights.folder)
    return loaded, sight


def _read_processor(folder: Path, pixels: dict[str, int]) -> Any:
    """Tokenizer and preparation of pictures, by Pillow on every machine."""
    from transformers import AutoConfig, AutoImageProcessor
    from transformers.models.auto.processing_auto import PROCESSOR_MAPPING

    source: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    config = AutoConfig.from_pretrained(folder, **source)
    if type(config) not in PROCESSOR_MAPPING:
        raise ModelUnavailable(f"{folder} holds no model that takes pictures; name one of the Qwen2.5-VL or LLaVA kind")
    kind = PROCESSOR_MAPPING[type(config)]
    processor = _without_videos(kind).from_pretrained(folder, **source)
    processor.image_processor = AutoImageProcessor.from_pretrained(folder, backend="pil", **source, **pixels)
    if pixels and "max_pixels" not in inspect.get_annotations(processor.image_processor.valid_kwargs):
        raise ModelUnavailable(f"the model in {folder} has a size of its own for pictures; leave {_named(pixels)} out")
    return processor


def _without_videos(kind: Any) -> Any:
    """The class of a processor without its part for videos, which cannot be had without torchvision."""
    if "video_processor" not in kind.get_attributes():
        return kind

    def init(self: Any, image_processor: Any = None, tokenizer: Any = None, **others: Any) -> None:
        kind.__init__(self, image_processor, tokenizer, **others)

    return type(kind.__name__, (kind,), {"__init__": init})


def _sight(model: Any, processor: Any) -> Sight:
    names: tuple[str, ...] = ("vision_start_token_id", "vision_end_token_id")
    around = [getattr(model.config, name, None) for name in names]
    token: str = processor.image_token
    tokens: list[str] = processor.tokenizer.convert_ids_to_tokens(around) if None not in around else ["", ""]
    return Sight(
        processor=processor,
        token=token,
        token_id=processor.tokenizer.convert_tokens_to_ids(token),
        written=token.join(tokens),
        names_types="mm_token_type_ids" in inspect.signature(model.forward).parameters,
    )


def _check_reading(sight: Sight, folder: Path) -> None:
    """Raises ModelUnavailable unless the model's own processor makes the same of two pictures as we do."""
    try:
        alike, cause = _reads_alike(sight), None
    except (RuntimeError, ValueError, TypeError, KeyError, AttributeError, StopIteration) as error:
        alike, cause = False, error
    if not alike:
        raise ModelUnavailable(
            f"the model in {folder} takes pictures in a way that is not supported in this process; take one of the "
            "Qwen2.5-VL or LLaVA kind, or serve this one behind an OpenAI-compatible endpoint"
        ) from cause


def _reads_alike(sight: Sight) -> bool:
    import torch

    pngs = [_sample(48, 32), _sample(30, 70)]
    text = f"a {sight.written} b {sight.written} c"
    theirs = dict(sight.processor(text=[text], images=[open_picture(png) for png in pngs], return_tensors="pt"))
    tokens = theirs.pop("input_ids")[0].tolist()
    pictures = {name: value for name, value in theirs.items() if name not in ("attention_mask", "mm_token_type_ids")}
    ours = Pictures(sight).joined(pngs)
    if sight.expanded(sight.processor.tokenizer(text)["input_ids"], pngs) != tokens or ours.keys() != pictures.keys():
        return False
    return all(torch.equal(ours[name], pictures[name]) for name in ours)


def _sample(width: int, height: int) -> bytes:
    import io

    import PIL.Image

    file = io.BytesIO()
    PIL.Image.linear_gradient("L").resize((width, height)).save(file, "PNG")
    return file.getvalue()


def _named(pixels: dict[str, int]) -> str:
    return " and ".join(pixels)


def _bytes(part: dict[str, Tensor]) -> int:
    return sum(value.nbytes for value in part.values())


def pictures_of(messages: Sequence[Any]) -> Iterator[bytes]:
    """The PNGs of messages, in their order."""
    from models.protocols import Image

    yield from (part.png for message in messages for part in message.content if isinstance(part, Image))
