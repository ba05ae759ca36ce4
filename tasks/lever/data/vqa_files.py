"""Questions, annotations and pictures in the official VQA format.

{"questions": [{"question_id", "image_id", "question"}]}, {"annotations": [{"question_id", "answers": [{"answer"}]}]}
Source: https://visualqa.org/vqa_v1_download.html. `image_id` is a number in COCO's files, a name in TextVQA's and
VizWiz's.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from tasks.lever.data.dataset_pictures import trouble_of
from tasks.lever.data.json_files import first_twice
from tasks.lever.lever_errors import DatasetUnusable
from tasks.lever.lever_records import VqaItem

YEAR = re.compile(r"(train|val|test)(20\d\d)")


class Asked(NamedTuple):
    """A question before anybody looked for its picture."""

    id: str
    image_id: str
    image: Path | None
    """None where no file of the folder is named after it."""
    question: str
    answers: tuple[str, ...]
    answer_type: str
    wrong: str | None
    """Why it cannot be used."""


class ReadVqa(NamedTuple):
    """Questions of one pair of files, in their order."""

    items: tuple[VqaItem, ...]
    left_out: dict[str, str]
    """Question id → why it cannot be used."""


def read_vqa(questions: Path, annotations: Path, images: Path) -> ReadVqa:
    """All questions of a pair of official files whose picture is in `images` and whole.

    Raises DatasetUnusable for files that are not in the format, question ids twice, and if nothing is left.
    """
    pictures = Pictures()
    asked = read_questions(questions, annotations, images)
    left_out: dict[str, str] = {}
    items = tuple(pictures.usable(asked, left_out))
    if not items:
        raise nothing_left(questions, images, left_out)
    return ReadVqa(items, left_out)


def read_questions(questions: Path, annotations: Path, images: Path, *, prefix: str = "") -> list[Asked]:
    """What a pair of official files asks; pictures are only looked for by name. Raises DatasetUnusable.

    prefix: of all ids.
    """
    asked, answered = _listed(questions, "questions"), _listed(annotations, "annotations")
    by_id = {str(one["question_id"]): one for one in answered}
    there = {path.name for path in images.iterdir()} if images.is_dir() else set[str]()
    subtype = _subtype(questions)
    images = images.absolute()
    return [
        _asked(one, by_id.get(id := str(one["question_id"])), images, there, subtype)._replace(id=prefix + id)
        for one in asked
    ]


def _listed(path: Path, field: str) -> list[dict[str, Any]]:
    """The entries of an official file, each with a question id of its own."""
    try:
        whole: Any = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise DatasetUnusable(f"{path} cannot be read as JSON ({str(error)[:200]}); download it again") from error
    entries: Any = cast(dict[str, Any], whole).get(field) if isinstance(whole, dict) else None
    if not isinstance(entries, list):
        raise DatasetUnusable(f"{path} has no list of `{field}`; it is not in the official VQA format")
    listed = cast(list[Any], entries)
    for place, one in enumerate(listed):
        if not isinstance(one, dict) or type(cast(dict[str, Any], one).get("question_id")) not in (int, str):
            raise DatasetUnusable(f"{path}: `{field}[{place}]` has no `question_id`; download the file again")
    known = cast(list[dict[str, Any]], listed)
    if (twice := first_twice(str(one["question_id"]) for one in known)) is not None:
        raise DatasetUnusable(f"{path}: question id {twice} stands there twice in `{field}`; remove one of them")
    return known


def _subtype(questions: Path) -> str:
    """`train2014` in the names of COCO's files; empty for other datasets."""
    match = YEAR.search(questions.name)
    return match[0] if match else ""


def _asked(
    question: Mapping[str, Any], annotation: Mapping[str, Any] | None, images: Path, there: set[str], subtype: str
) -> Asked:
    image_id, text = question.get("image_id"), question.get("question")
    names = list(_image_names(image_id, subtype))
    name = next((name for name in names if name in there), None)
    answers = _answers(annotation)
    wrong = None
    if not isinstance(text, str) or not text.strip():
        wrong = "its question is empty"
    elif annotation is None:
        wrong = "nobody annotated it"
    elif not answers:
        wrong = "its annotation has no answers"
    elif name is None:
        wrong = f"there is no picture {' or '.join(names[:2]) or repr(image_id)[:80]} in {images}"
    kind = annotation.get("answer_type") if annotation else None
    return Asked(
        id=str(question["question_id"]),
        image_id=str(image_id),
        image=images / name if name else None,
        question=text if isinstance(text, str) else "",
        answers=answers,
        answer_type=kind if isinstance(kind, str) else "other",
        wrong=wrong,
    )


def _image_names(image_id: Any, subtype: str) -> Iterator[str]:
    """What the picture's file may be called, the likeliest first; never a path."""
    if type(image_id) is int and 0 <= image_id < 10**12:
        if subtype:
            yield f"COCO_{subtype}_{image_id:012d}.jpg"
        yield f"{image_id:012d}.jpg"
        for split in ("train", "validation", "test"):
            yield f"digits_{split}_{image_id:06d}.png"
    if isinstance(image_id, int | str) and not isinstance(image_id, bool) and "/" not in (name := str(image_id)):
        yield from (name, f"{name}.jpg", f"{name}.png", f"{name}.jpeg")


def _answers(annotation: Mapping[str, Any] | None) -> tuple[str, ...]:
    """What people said; empty if any of it is no text."""
    said = annotation.get("answers") if annotation else None
    if not isinstance(said, list):
        return ()
    entries = cast(list[Any], said)
    given = [cast(dict[str, Any], one).get("answer") if isinstance(one, dict) else one for one in entries]
    return tuple(texts) if len(texts := [one for one in given if isinstance(one, str)]) == len(given) else ()


class Pictures:
    """Picture files, each looked at once."""

    def __init__(self) -> None:
        self._seen: dict[Path, tuple[str, str | None]] = {}

    def usable(self, asked: Sequence[Asked], left_out: dict[str, str]) -> Iterator[VqaItem]:
        """Those that can be used, in order; of the others `left_out` gets to know why."""
        for one in asked:
            digest, wrong = ("", one.wrong) if one.image is None or one.wrong else self._look(one.image)
            if wrong is not None or one.image is None:
                left_out[one.id] = wrong or "it has no picture"
                continue
            yield VqaItem(
                id=one.id,
                image_id=one.image_id,
                image=str(one.image),
                image_sha256=digest,
                question=one.question,
                answers=one.answers,
                answer_type=one.answer_type,
            )

    def _look(self, path: Path) -> tuple[str, str | None]:
        """SHA-256 (hex) of a picture, and what is wrong with it."""
        if path not in self._seen:
            self._seen[path] = _look(path)
        return self._seen[path]


def _look(path: Path) -> tuple[str, str | None]:
    try:
        data = path.read_bytes()
    except OSError as error:
        return "", f"picture {path} cannot be read ({error.strerror})"
    if trouble := trouble_of(data):
        return "", f"picture {path} {trouble}"
    return hashlib.sha256(data).hexdigest(), None


def nothing_left(where: Path, images: Path, left_out: Mapping[str, str], *, split: str = "") -> DatasetUnusable:
    """The error that says why no question is left."""
    first = next(iter(left_out.items()), ("", "it is empty"))
    reason = f"question {first[0]}: {first[1]}" if first[0] else first[1]
    return DatasetUnusable(
        f"{split}{where}: all of {len(left_out)} questions were left out ({reason}); "
        f"put the pictures into {images}, or take the annotations that belong to these questions"
    )
