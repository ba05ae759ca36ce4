"""A tiny Qwen3-VL that can read: the colours of a picture's four corners, as it was taught in a minute of one core.

A wrong template, mask, position or picture changes what it says: it was taught with transformers' own parts and prompts
written by hand, not with ours.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import PIL.Image
import torch

from tests.models.tiny import _quiet
from tests.models.tiny_vision import QWEN_IMAGE, make_tiny_qwen3

COLOURS = {"red": (220, 30, 30), "green": (30, 200, 40), "blue": (40, 60, 230), "yellow": (240, 220, 40)}
CORNERS = ("upper left", "upper right", "lower left", "lower right")
SIDE = 32
"""Pixels of a side as the model takes a picture; it is taught pictures of this size and shown larger ones."""
TOKENS = 16
"""Of a picture of that size."""
STEPS = 300
BATCH = 24


def picture_of(colours: Sequence[str], *, side: int = SIDE) -> bytes:
    """A PNG with these colours in its corners, in reading order."""
    image = PIL.Image.new("RGB", (side, side))
    half = side // 2
    for number, colour in enumerate(colours):
        corner = (number % 2 * half, number // 2 * half)
        image.paste(COLOURS[colour], (*corner, corner[0] + half, corner[1] + half))
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def said_of(colours: Sequence[str]) -> str:
    """What it answers to the prompt that it describes a picture by."""
    return " ".join(colours)


def question_about(corner: str) -> str:
    """As the lever asks."""
    return f"Question:{corner} Short answer:"


def make_picture_reader(folder: Path, *, describe: str, steps: int = STEPS, seed: int = 0) -> Path:
    """The model, saved in `folder`.

    describe: a prompt before a picture, which it answers with the four colours. A picture before `question_about` a
    corner it answers with one.
    """
    from transformers import AutoConfig, AutoModelForImageTextToText, AutoTokenizer
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    make_tiny_qwen3(folder)
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    words = re.findall(r"\s*\S+", f"{describe} {' '.join(map(question_about, CORNERS))}")
    tokenizer.add_tokens([*dict.fromkeys([*words, *COLOURS, *(f" {colour}" for colour in COLOURS)])])
    config: Any = AutoConfig.from_pretrained(folder)
    config.text_config.vocab_size = len(tokenizer)
    config.text_config.initializer_range = config.vision_config.initializer_range = 0.05
    with torch.random.fork_rng(devices=[]), _quiet():
        torch.manual_seed(seed)
        model: Any = AutoModelForImageTextToText.from_config(config)
        images = Qwen2VLImageProcessorPil.from_pretrained(folder)
        _teach(model.train(), _Lessons(tokenizer, images, describe), steps)
        for name in ("bos_token_id", "eos_token_id", "pad_token_id"):
            setattr(model.generation_config, name, getattr(tokenizer, name))
        model.eval().save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    return folder


class Bare:
    """What transformers' own parts make of a prompt that is written out by hand."""

    def __init__(self, folder: Path) -> None:
        from transformers import AutoModelForImageTextToText, AutoTokenizer
        from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

        self._tokenizer: Any = AutoTokenizer.from_pretrained(folder)
        self._images = Qwen2VLImageProcessorPil.from_pretrained(folder)
        with _quiet():
            self._model: Any = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32)

    @torch.inference_mode()
    def answer(self, prompt: str, pngs: Sequence[bytes], *, most: int) -> tuple[str, int]:
        """The likeliest answer and its number of tokens; IMAGE stands in the prompt for each picture."""
        pad, seen = "<|image_pad|>", {}
        if pngs:
            pictures = [PIL.Image.open(io.BytesIO(png)).convert("RGB") for png in pngs]
            seen = dict(self._images(images=pictures, return_tensors="pt"))
            for size in seen["image_grid_thw"]:
                prompt = prompt.replace("IMAGE", QWEN_IMAGE.replace(pad, pad * int(size.prod() // 4)), 1)
        tokens = self._tokenizer(prompt, return_tensors="pt")["input_ids"]
        types = (tokens == self._tokenizer.convert_tokens_to_ids(pad)).int()
        told = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "mm_token_type_ids": types}
        whole = self._model.generate(**told, **seen, max_new_tokens=most, do_sample=False)
        said = whole[0, tokens.shape[1] :]
        return self._tokenizer.decode(said, skip_special_tokens=True), len(said)


class _Lessons:
    """Pictures with their prompts and answers."""

    def __init__(self, tokenizer: Any, images: Any, describe: str) -> None:
        self._tokenizer = tokenizer
        self._images = images
        self._describe = describe

    def draw(self) -> tuple[dict[str, torch.Tensor], int]:
        """Inputs of a batch, and how many tokens at the end of each row are the answer."""
        drawn = [[list(COLOURS)[one] for one in torch.randint(4, (4,))] for _ in range(BATCH)]
        if torch.rand(()) < 0.5:
            texts = [(f"{self._describe}{QWEN_IMAGE}", said_of(colours)) for colours in drawn]
        else:
            corners = torch.randint(4, (BATCH,)).tolist()
            texts = [
                (f"{QWEN_IMAGE}{question_about(CORNERS[corner])}", colours[corner])
                for colours, corner in zip(drawn, corners, strict=True)
            ]
        return self._inputs(drawn, texts)

    def _inputs(
        self, drawn: Sequence[Sequence[str]], texts: Sequence[tuple[str, str]]
    ) -> tuple[dict[str, torch.Tensor], int]:
        pad = "<|image_pad|>"
        rows = [
            self._tokenizer(f"<|user|>{asked.replace(pad, pad * TOKENS)}<|end|><|assistant|>{said}<|end|>")["input_ids"]
            for asked, said in texts
        ]
        answer = len(self._tokenizer(texts[0][1])["input_ids"]) + 1
        pictures = [PIL.Image.open(io.BytesIO(picture_of(colours))) for colours in drawn]
        tokens = torch.tensor(rows)
        types = (tokens == self._tokenizer.convert_tokens_to_ids(pad)).int()
        seen = dict(self._images(images=pictures, return_tensors="pt"))
        return {
            "input_ids": tokens,
            "attention_mask": torch.ones_like(tokens),
            "mm_token_type_ids": types,
            **seen,
        }, answer


def _teach(model: Any, lessons: _Lessons, steps: int) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=2e-3, total_steps=steps)
    for _ in range(steps):
        inputs, answer = lessons.draw()
        logits = model(**inputs, use_cache=False, logits_to_keep=answer + 1).logits[:, :-1]  # (B, answer, V)
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), inputs["input_ids"][:, -answer:].flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
