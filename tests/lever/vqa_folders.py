"""Folders in the official VQA format, with pictures of one colour."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from PIL import Image

from tasks.lever.data.vqa_files import inspect_picture, read_questions, select_usable
from tasks.lever.lever_errors import DatasetUnusable
from tasks.lever.lever_records import VqaItem


class ReadVqa(NamedTuple):
    """Questions of one pair of files, and why others were left out."""

    items: tuple[VqaItem, ...]
    left_out: dict[str, str]


def read_vqa(questions: Path, annotations: Path, images: Path) -> ReadVqa:
    """All questions of a pair of official files whose picture is in `images` and whole."""
    left_out: dict[str, str] = {}
    items = tuple(select_usable(read_questions(questions, annotations, images), left_out, inspect_picture))
    if not items:
        raise DatasetUnusable(f"all of {len(left_out)} questions were left out: {left_out}")
    return ReadVqa(items, left_out)


def picture(shade: int = 0, *, kind: str = "PNG") -> bytes:
    data = io.BytesIO()
    Image.new("RGB", (4, 3), (shade % 256, shade // 256, 0)).save(data, kind)
    return data.getvalue()


def photograph(seed: int = 0, *, exif: Image.Exif | None = None) -> bytes:
    """A JPEG of noise, 48 × 32 pixels; its last bytes are pixels."""
    data = io.BytesIO()
    pixels = random.Random(seed).randbytes(48 * 32 * 3)
    Image.frombytes("RGB", (48, 32), pixels).save(data, "JPEG", **({} if exif is None else {"exif": exif}))
    return data.getvalue()


def question(id: int | str, image_id: int | str, text: str = "What is it?") -> dict[str, Any]:
    return {"question_id": id, "image_id": image_id, "question": text}


def annotation(id: int | str, image_id: int | str, *answers: str, kind: str | None = "other") -> dict[str, Any]:
    said = [{"answer": answer, "answer_confidence": "yes", "answer_id": n} for n, answer in enumerate(answers, 1)]
    entry = {"question_id": id, "image_id": image_id, "answers": said}
    return entry if kind is None else entry | {"answer_type": kind}


def write_files(questions: Path, annotations: Path, asked: Sequence[Any], answered: Sequence[Any]) -> None:
    questions.parent.mkdir(parents=True, exist_ok=True)
    questions.write_text(json.dumps({"info": {}, "questions": asked}))
    annotations.write_text(json.dumps({"info": {}, "annotations": answered}))


def write_coco(folder: Path, split: str, images: range, *, prefix: str = "", per_image: int = 2) -> None:
    """OK-VQA's files of one split; question ids are those of VQA: the picture's times ten and so on."""
    pairs = [(image * 10 + n, image) for image in images for n in range(per_image)]
    write_files(
        folder / f"{prefix}OpenEnded_mscoco_{split}2014_questions.json",
        folder / f"{prefix}mscoco_{split}2014_annotations.json",
        [question(id, image) for id, image in pairs],
        [annotation(id, image, *["yes"] * 7, *["no"] * 3, kind="yes/no") for id, image in pairs],
    )
    (folder / f"{split}2014").mkdir(parents=True, exist_ok=True)
    for image in images:
        (folder / f"{split}2014" / f"COCO_{split}2014_{image:012d}.jpg").write_bytes(picture(image, kind="JPEG"))
