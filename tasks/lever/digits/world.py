"""Writes a data folder of digit-pair VQA in the official VQA format: questions, ten annotators each, pictures.

Format: https://visualqa.org/vqa_v1_download (input questions and annotations), Open-Ended task.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from pydantic import Field

from storage.files import write
from storage.records import Record
from tasks.lever.digits.scenes import KINDS, QUESTIONS, WORDS, Digits, answer_to, load_digits, render, stream, to_png

Split = Literal["train", "validation", "test"]
SPLITS: tuple[Split, ...] = ("train", "validation", "test")
ANNOTATORS = 10
IMAGES_PER_SPLIT = 100_000
"""Ids of images begin at the split's number times this, plus one; a question's id is its image's times 1,000."""
SLIPS = (0, 0, 0, 1, 1, 2)
"""Wrong answers among the ten of a train question; drawn uniformly from these."""


class WorldSize(Record):
    """How many questions each split has; each question has a picture of its own."""

    train: int = Field(default=2000, ge=2, lt=IMAGES_PER_SPLIT)
    """Candidates, and queries to learn from."""
    validation: int = Field(default=400, ge=1, lt=IMAGES_PER_SPLIT)
    test: int = Field(default=400, ge=1, lt=IMAGES_PER_SPLIT)


class Drawn(NamedTuple):
    """The scenes and questions of a split."""

    scenes: torch.Tensor
    """(N, 8, 16) uint8"""
    digits: list[list[int]]
    """Left and right."""
    kinds: list[int]


def write_world(folder: Path, size: WorldSize, *, seed: int) -> None:
    """Write `digits_{split}_questions.json`, `digits_{split}_annotations.json` and `images/digits_{split}_*.png`.

    The same size and seed give the same bytes; a split does not depend on the size of another. All annotators of
    validation and test agree; of a train question up to two err, each in another way, so the majority is right.
    Raises storage.storage_errors.StoreUnreachable.
    """
    names, parts = lexicon(seed), load_digits()
    for split in SPLITS:
        drawn = _draw(parts[split], getattr(size, split), generator=stream(seed, f"{split} scenes"))
        for number, scene in enumerate(drawn.scenes.numpy()):
            write(folder / "images" / image_name(split, number), to_png(scene), durable=False)
        write(folder / f"digits_{split}_questions.json", _json(_questions(split, drawn)))
        write(folder / f"digits_{split}_annotations.json", _json(_annotations(split, drawn, names, seed=seed)))


def lexicon(seed: int) -> tuple[str, ...]:
    """The secret: the words that digits 0 to 9 are called in the world of this seed."""
    order = torch.randperm(len(WORDS), generator=stream(seed, "lexicon"))
    return tuple(WORDS[int(number)] for number in order[:10])


def image_id(split: Split, number: int) -> int:
    """Image ID of the picture with this number in its split, counted from 0."""
    return SPLITS.index(split) * IMAGES_PER_SPLIT + number + 1


def image_name(split: Split, number: int) -> str:
    """File name of the split's picture with this number, counted from 0."""
    return f"digits_{split}_{image_id(split, number):06d}.png"


def _draw(digits: Digits, count: int, *, generator: torch.Generator) -> Drawn:
    pairs = torch.randint(len(digits.ink), (count, 2), generator=generator)
    kinds = torch.randint(len(KINDS), (count,), generator=generator)
    return Drawn(render(digits.ink[pairs], generator), digits.labels[pairs].tolist(), kinds.tolist())


def _questions(split: Split, drawn: Drawn) -> dict[str, Any]:
    questions = [
        {"question_id": image_id(split, n) * 1000, "image_id": image_id(split, n), "question": QUESTIONS[kind]}
        for n, kind in enumerate(drawn.kinds)
    ]
    return _head(split) | {"task_type": "Open-Ended", "questions": questions}


def _annotations(split: Split, drawn: Drawn, names: tuple[str, ...], *, seed: int) -> dict[str, Any]:
    generator = stream(seed, f"{split} annotators")
    annotations: list[dict[str, Any]] = []
    for n, ((left, right), kind) in enumerate(zip(drawn.digits, drawn.kinds, strict=True)):
        answer = answer_to(kind, left=names[left], right=names[right])
        given = _annotators(answer, names, generator=generator) if split == "train" else [answer] * ANNOTATORS
        annotations.append(
            {
                "question_id": image_id(split, n) * 1000,
                "image_id": image_id(split, n),
                "question_type": KINDS[kind],
                "answer_type": "other",
                "multiple_choice_answer": answer,
                "answers": [
                    {"answer": one, "answer_confidence": "yes", "answer_id": number}
                    for number, one in enumerate(given, start=1)
                ],
            }
        )
    return _head(split) | {"annotations": annotations}


def _annotators(answer: str, names: tuple[str, ...], *, generator: torch.Generator) -> list[str]:
    """Ten answers, of which none, one or two are slips of different kinds."""
    slips = [answer + answer[-1], _misread(answer, names, generator)]
    if " " in answer:
        slips.append(answer.split()[_draw_of(2, generator)])
    count = SLIPS[_draw_of(len(SLIPS), generator)]
    chosen = torch.randperm(len(slips), generator=generator)[:count].tolist()
    places = torch.randperm(ANNOTATORS, generator=generator)[:count].tolist()
    given = [answer] * ANNOTATORS
    for place, slip in zip(places, chosen, strict=True):
        given[place] = slips[slip]
    return given


def _misread(answer: str, names: tuple[str, ...], generator: torch.Generator) -> str:
    """The answer with one word replaced by that of another digit."""
    words = answer.split()
    place = _draw_of(len(words), generator)
    others = [name for name in names if name not in words]
    words[place] = others[_draw_of(len(others), generator)]
    return " ".join(words)


def _draw_of(count: int, generator: torch.Generator) -> int:
    return int(torch.randint(count, (1,), generator=generator))


def _head(split: Split) -> dict[str, Any]:
    return {
        "info": {"description": "Digit-pair VQA, made by Trivet", "version": "1.0"},
        "license": {"name": "Apache-2.0"},
        "data_type": "digits",
        "data_subtype": split,
    }


def _json(content: dict[str, Any]) -> bytes:
    return json.dumps(content, ensure_ascii=False, indent=1).encode()
