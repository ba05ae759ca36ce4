"""A vision-language model of the transformers library in this process: how it is loaded and takes pictures, its answers
in batches, and how likely they are."""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from models.causal_lm import CausalLM, Prompt
from models.causal_weights import (
    Loaded,
    Weights,
    failures_named,
    loaded_of,
    progress_hidden,
    read_model,
)
from models.local import held
from models.model_errors import ModelError, ModelUnavailable
from models.prompts import Sight, pictures_of
from models.protocols import ChatRequest
from models.token_likelihoods import encode, likelihoods
from models.weight_files import hub_folder, read_json


class Answer(NamedTuple):
    """A prompt and the tokens of the answer whose likelihood is asked for."""

    prompt: Prompt
    tokens: list[int]  # with the token that ends it


class HFVision(CausalLM):
    """A CausalLM that takes pictures: one of the Qwen-VL (2, 2.5, 3) or LLaVA kind, of a folder or of the hub.

    With `template=False` the words go to the model as they stand, each picture in its place among them.
    Pictures are resized by Pillow on every machine, independently of their batch. Raises ModelUnavailable.
    """

    def __init__(
        self, pretrained: str, *, min_pixels: int | None = None, max_pixels: int | None = None, **chosen: Any
    ) -> None:
        """min_pixels, max_pixels: bounds of a resized picture; None: the model's own. chosen: arguments of CausalLM."""
        super().__init__(pretrained, **chosen)
        asked = {"min_pixels": min_pixels, "max_pixels": max_pixels}
        self._pixels = {name: count for name, count in asked.items() if count is not None}
        self.id: str = self.id + "".join(f":{name}={count}" for name, count in self._pixels.items())

    def answer_log_probs(self, asked: Sequence[tuple[ChatRequest, str]]) -> Iterator[tuple[int, float]]:
        """Sums over the answers' tokens, their end included, with their numbers; the longest first.

        An answer is tokenised by itself, without its prompt. Raises ModelError; a ContextOverflow after all results.
        """
        answers, refused = list[Answer](), list[ModelError]()
        for number, (request, answer) in enumerate(asked):
            try:
                with self._lock:
                    answers.append(self._answer(number, request, answer))
            except ModelError as error:
                refused.append(error)
        answers.sort(key=lambda one: len(one.prompt.tokens) + len(one.tokens), reverse=True)

        def row_bytes(one: Answer) -> int:
            return self._cache_bytes(one.prompt) + self._logit_bytes((tuple(one.tokens), []))

        for batch, sums in self._batches(answers, self._score, row_bytes):
            if isinstance(sums, ModelError):
                raise sums
            yield from ((one.prompt.number, total) for one, total in zip(batch, sums, strict=True))
        if refused:
            raise refused[0]

    def _load(self) -> Loaded:
        return self._see().loaded

    def _see(self) -> Seeing:
        chosen: dict[str, Any] = {**self._placing, "pixels": self._pixels}
        return held(("sees", self._weights, repr(chosen)), lambda: load_seeing(self._weights, **chosen))

    def _sight(self) -> Sight:
        return self._see().sight

    def _answer(self, number: int, request: ChatRequest, answer: str) -> Answer:
        loaded, prompt = self._load(), self._prompt(number, request)
        tokens = [*encode(loaded, answer, special=False), loaded.end_token]
        self._room([*prompt.tokens, *tokens[:-1]])
        return Answer(prompt, tokens)

    @torch.inference_mode()
    def _score(self, batch: Sequence[Answer]) -> list[float]:
        """The log-probability of each answer; padding stands at the left, so that all answers end together."""
        inputs = self._inputs([(one.prompt.request, [*one.prompt.tokens, *one.tokens[:-1]]) for one in batch])
        most = max(len(one.tokens) for one in batch)
        logits = self._load().model(**inputs, use_cache=False, logits_to_keep=most).logits  # (rows, most, V)
        answers = [one.tokens for one in batch]
        seen = (logits[row, -len(tokens) :] for row, tokens in enumerate(answers))
        return [one.total for one in likelihoods(answers, seen)]

    def _inputs(self, rows: Sequence[tuple[ChatRequest, list[int]]]) -> dict[str, Tensor]:
        """What the model reads: tokens padded at the left, and the pictures of all rows in their order."""
        loaded, sight, kept = self._see()
        inputs = super()._inputs(rows)
        pictures = kept.joined([png for request, _ in rows for png in pictures_of(request.messages)])
        if pictures and sight.names_types:
            pictures["mm_token_type_ids"] = (inputs["input_ids"] == sight.token_id).long()
        return inputs | {name: value.to(loaded.model.device) for name, value in pictures.items()}


KINDS = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe", "llava")
"""Types of models whose processors put one token for each part of a picture, and do not cut pictures up."""


class Seeing(NamedTuple):
    """A vision-language model in memory, its image processor, and a cache of prepared pictures."""

    loaded: Loaded
    sight: Sight
    pictures: Pictures


class Kind(NamedTuple):
    """What a model can be loaded as."""

    sees: bool  # the model takes pictures
    reads_text_alone: bool  # transformers can load it as a language model without the encoder


def kind_of(name: str, revision: str | None = None) -> Kind:
    """The kind of a model in a folder or on the hub; loads nothing. Raises ModelUnavailable."""
    config = read_json(hub_folder(name, revision, what="model", wanted=("config.json",)) / "config.json")
    if "vision_config" not in config:
        return Kind(sees=False, reads_text_alone=True)
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    return Kind(sees=True, reads_text_alone=config.get("model_type") in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)


def load_seeing(
    weights: Weights, *, device: str | None, device_map: Any, max_length: int | None, pixels: dict[str, int]
) -> Seeing:
    """The model on its device, and how it sees. pixels: `min_pixels`, `max_pixels`. Raises ModelUnavailable."""
    from transformers import AutoModelForImageTextToText

    with progress_hidden(), failures_named(weights.folder):
        processor = read_processor(weights.folder, pixels)
        placing = {"device": device, "device_map": device_map}
        model = read_model(AutoModelForImageTextToText, weights, processor.tokenizer, **placing)
    sight = sight_of(processor, model.config)
    sight = sight._replace(names_types="mm_token_type_ids" in inspect.signature(model.forward).parameters)
    return Seeing(loaded_of(model, processor.tokenizer, max_length), sight, Pictures(sight))


def read_processor(folder: Path, pixels: dict[str, int]) -> Any:
    """Tokenizer and preparation of pictures, by Pillow on every machine."""
    from transformers import AutoConfig, AutoImageProcessor
    from transformers.models.auto.processing_auto import PROCESSOR_MAPPING

    source: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    config = AutoConfig.from_pretrained(folder, **source)
    if config.model_type not in KINDS:
        raise ModelUnavailable(
            f"the model in {folder} takes pictures in a way that is not supported in this process, or takes none; take "
            "one of the Qwen-VL (2, 2.5, 3) or LLaVA kind, or serve this one behind an OpenAI-compatible endpoint"
        )
    kind: Any = PROCESSOR_MAPPING[type(config)]
    # without its part for videos, which cannot be had without torchvision
    names = [name for name in kind.get_attributes() if name != "video_processor"]
    processor = type(kind.__name__, (kind,), {"get_attributes": staticmethod(lambda: names)}).from_pretrained(
        folder, **source
    )
    processor.image_processor = AutoImageProcessor.from_pretrained(folder, backend="pil", **source, **pixels)
    if pixels and "max_pixels" not in inspect.get_annotations(processor.image_processor.valid_kwargs):
        raise ModelUnavailable(
            f"the model in {folder} has a size of its own for pictures; leave {' and '.join(pixels)} out"
        )
    return processor


def sight_of(processor: Any, config: Any) -> Sight:
    """How a model takes pictures; its tokenizer gets the processor's chat template."""
    tokenizer, token = processor.tokenizer, processor.image_token
    tokenizer.chat_template = processor.chat_template or tokenizer.chat_template
    around = [getattr(config, f"vision_{side}_token_id", None) for side in ("start", "end")]
    marks: list[str] = tokenizer.convert_ids_to_tokens(around) if None not in around else ["", ""]
    token_id = tokenizer.convert_tokens_to_ids(token)
    return Sight(processor=processor, token=token, token_id=token_id, written=token.join(marks))


PICTURE_BYTES = 512 * 2**20
"""Most memory for preprocessed pictures kept for later prompts: demonstrations are shown many times."""


class Pictures:
    """Pictures as a model takes them; the newest are kept, so that demonstrations are not prepared for each prompt."""

    def __init__(self, sight: Sight) -> None:
        self._sight = sight
        self._kept: OrderedDict[bytes, dict[str, Tensor]] = OrderedDict()

    def joined(self, pngs: Sequence[bytes]) -> dict[str, Tensor]:
        """What the model wants for all of them, in their order; nothing for none. Raises RequestRefused."""
        if not pngs:
            return {}
        missing = [png for png in dict.fromkeys(pngs) if png not in self._kept]
        with ThreadPoolExecutor() as pool:  # Pillow and numpy let go of the interpreter
            self._kept |= zip(missing, pool.map(self._sight.seen, missing), strict=True)
        for png in dict.fromkeys(pngs):
            self._kept.move_to_end(png)
        parts = [self._kept[png] for png in pngs]
        while sum(value.nbytes for part in self._kept.values() for value in part.values()) > PICTURE_BYTES:
            self._kept.popitem(last=False)
        return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
