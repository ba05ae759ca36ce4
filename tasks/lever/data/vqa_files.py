"""Questions, annotations, pictures and recorded answers in the official VQA format, and the accuracy of such answers.

Pictures are given to a judge as upright RGB PNGs, the same bytes each time.

{"questions": [{"question_id", "image_id", "question"}]}
{"annotations": [{"question_id", "answers": [{"answer"}], "answer_type"}]}
[{"question_id", "answer"}]
Source: https://visualqa.org/vqa_v1_download.html. `image_id` is a number in COCO's files, a name in TextVQA's and
VizWiz's.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, cast

from cachetools import LRUCache, cached
from PIL import Image as Decoder
from PIL import ImageOps

from models.prompts import MOST_PIXELS
from models.protocols import Image
from storage.records import Record
from tasks.grading.vqa_accuracy import vqa_accuracy
from tasks.lever.lever_errors import DatasetUnusable, FileUnusable, LeverError
from tasks.lever.lever_records import VqaItem

YEAR = re.compile(r"(train|val|test)(20\d\d)")
OTHER_ANSWERS = "other"
"""Answer type where the annotations give none, as those of TextVQA and VizWiz."""
SHOWN_CHARS = 80


def read_entries(
    path: Path, *, under: str | None = None, error: type[LeverError] = DatasetUnusable
) -> dict[str, dict[str, Any]]:
    """Read the entries of a file by question id, in order, from the list under a key or at the top.

    Raises `error`: no JSON, no such list, an entry that is no object or has no question id, a question twice.
    """
    try:
        content: Any = json.loads(path.read_bytes())
    except OSError as problem:
        raise error(f"{path} cannot be read ({problem.strerror}); name a JSON file") from problem
    except (ValueError, RecursionError) as problem:
        raise error(f"{path} is no JSON ({str(problem)[:200]}); download or write it again") from problem
    listed = content
    if under is not None:
        listed = cast(dict[str, Any], content).get(under) if isinstance(content, dict) else None
    if not isinstance(listed, list) or not listed:
        expected = "a list of entries" if under is None else f"an object with a list of entries under `{under}`"
        raise error(f"{path}: expected {expected}, at least one; found {_abbreviate(content)}")
    entries: dict[str, dict[str, Any]] = {}
    for number, entry in enumerate(cast(list[Any], listed)):
        place = f"{path}: entry {number}" if under is None else f"{path}: {under}[{number}]"
        if not isinstance(entry, dict):
            raise error(f"{place} is {_abbreviate(entry)}; expected an object")
        fields = cast(dict[str, Any], entry)
        id = fields.get("question_id")
        if type(id) not in (int, str):  # not isinstance: a bool is an int
            raise error(f"{place}: `question_id` is {_abbreviate(id)}; expected a number or a text")
        if str(id) in entries:
            raise error(f"{place} (question {id}): this question is here a second time; keep one of the two")
        entries[str(id)] = fields
    return entries


class Annotation(NamedTuple):
    """The answers of people to one question."""

    answers: tuple[str, ...]
    """The answer of each person."""
    answer_type: str

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> Annotation | None:
        """Read an entry; None where there are no answers but blanks, or one of them is no text."""
        listed, kind = entry.get("answers"), entry.get("answer_type")
        people = cast(list[Any], listed) if isinstance(listed, list) else []
        texts = [
            cast(dict[str, Any], person).get("answer") if isinstance(person, dict) else person for person in people
        ]
        answers = tuple(text for text in texts if isinstance(text, str))
        if not any(answer.strip() for answer in answers) or len(answers) < len(texts):
            return None
        return cls(answers, kind if isinstance(kind, str) else OTHER_ANSWERS)


class VqaQuestion(NamedTuple):
    """A question whose picture has not been opened yet."""

    id: str
    image_id: str
    item: VqaItem | None
    """Without the digest of its picture; None if the question cannot be used."""
    problem: str | None
    """Why the question cannot be used; None if it can."""


def read_questions(questions: Path, annotations: Path, images: Path, *, prefix: str = "") -> list[VqaQuestion]:
    """Return all questions of official files, `prefix` before each ID; opens no pictures. Raises DatasetUnusable."""
    question_entries = read_entries(questions, under="questions")
    annotation_entries = read_entries(annotations, under="annotations")
    file_names = {path.name for path in images.iterdir()} if images.is_dir() else set[str]()
    year = YEAR.search(questions.name)  # `train2014` in the names of COCO's files
    subtype, folder = year[0] if year else "", images.absolute()

    def read(id: str, question: Mapping[str, Any]) -> VqaQuestion:
        """Return a question as an item, or with the problem for which it is left out."""
        image_id, text = question.get("image_id"), question.get("question")
        names = list(_image_names(image_id, subtype))
        name = next((name for name in names if name in file_names), None)
        annotation = Annotation.of(annotation_entries.get(id, {}))
        if isinstance(text, str) and text.strip() and annotation and name is not None:
            item = VqaItem(
                id=prefix + id,
                image_id=str(image_id),
                image=str(folder / name),
                image_sha256="",
                question=text,
                answers=annotation.answers,
                answer_type=annotation.answer_type,
            )
            return VqaQuestion(item.id, item.image_id, item, None)
        problem = f"there is no picture {' or '.join(names[:2]) or repr(image_id)[:80]} in {folder}"
        if not isinstance(text, str) or not text.strip():
            problem = "its question is empty"
        elif annotation is None:
            problem = "its annotation has no answers" if id in annotation_entries else "nobody annotated it"
        return VqaQuestion(prefix + id, str(image_id), None, problem)

    return [read(id, entry) for id, entry in question_entries.items()]


def _image_names(image_id: Any, subtype: str) -> Iterator[str]:
    """Yield the names that a picture's file may have, the likeliest first; never a path."""
    if type(image_id) is int and 0 <= image_id < 10**12:  # COCO's file names have twelve digits
        if subtype:
            yield f"COCO_{subtype}_{image_id:012d}.jpg"
        yield f"{image_id:012d}.jpg"
        for split in ("train", "validation", "test", "queries"):
            yield f"digits_{split}_{image_id:06d}.png"
    name = str(image_id)
    if isinstance(image_id, int | str) and not isinstance(image_id, bool) and "/" not in name:
        yield from (name, f"{name}.jpg", f"{name}.png", f"{name}.jpeg")


Inspect = Callable[[Path], tuple[str, str | None]]
"""Picture file → its SHA-256 (hex), and what is wrong with it."""


def select_usable(questions: Sequence[VqaQuestion], left_out: dict[str, str], inspect: Inspect) -> Iterator[VqaItem]:
    """Yield the questions that can be used, in order; `left_out` receives the others with the reason."""
    for question in questions:
        digest, problem = inspect(Path(question.item.image)) if question.item else ("", question.problem)
        if problem is not None or question.item is None:
            left_out[question.id] = problem or "it has no picture"
        else:
            yield question.item.model_copy(update={"image_sha256": digest})


def inspect_picture(path: Path) -> tuple[str, str | None]:
    """Return the SHA-256 (hex) of a picture file and None, or an empty text and what is wrong with it."""
    try:
        data = path.read_bytes()
    except OSError as error:
        return "", f"picture {path} cannot be read ({error.strerror})"
    if trouble := find_damage(data):
        return "", f"picture {path} {trouble}"
    return hashlib.sha256(data).hexdigest(), None


class VqaScores(Record):
    """Mean VQA accuracies, as shares from 0 to 1; the authors' program prints them in per cent, rounded."""

    overall: float
    per_answer_type: dict[str, float]
    """By answer type: `yes/no`, `number`, `other`."""
    per_question: dict[str, float]
    """By question id, in the order of the questions."""


def score_files(questions: Path, annotations: Path, results: Path, *, stem: bool = False) -> VqaScores:
    """Return the VQA accuracies of recorded answers, one for each question; annotations may hold further questions.

    Answers of people without an `answer_id`, such as VizWiz's, are counted one by one; the published script drops all
    that equal the one left out, so that its accuracies are a little lower.

    stem: as in tasks.grading.vqa_accuracy. Raises DatasetUnusable, and FileUnusable for the results.
    """
    question_entries, annotation_of = read_entries(questions, under="questions"), dict[str, Annotation]()
    for id, entry in read_entries(annotations, under="annotations").items():
        annotation = Annotation.of(entry)
        if annotation is None:
            raise DatasetUnusable(
                f"{annotations}: question {id}: `answers` is {_abbreviate(entry.get('answers'))}; expected a list with "
                "an object for each person, with a text under `answer`"
            )
        annotation_of[id] = annotation
    answers = {id: entry.get("answer") for id, entry in read_entries(results, error=FileUnusable).items()}
    for id, answer in answers.items():
        if not isinstance(answer, str):
            raise FileUnusable(f"{results}: question {id}: `answer` is {_abbreviate(answer)}; expected a text")
    if missing := [id for id in question_entries if id not in annotation_of]:
        raise DatasetUnusable(f"{annotations}: {_name_ids(missing)} has no annotation; give those of these questions")
    if missing := [id for id in question_entries if id not in answers]:
        raise FileUnusable(f"{results}: {_name_ids(missing)} has no answer; give an empty one where there is none")
    if strangers := [id for id in answers if id not in question_entries]:
        raise FileUnusable(
            f"{results}: {_name_ids(strangers)} has an answer, and is not among the {len(question_entries):,} "
            "questions; give the results of these questions only"
        )
    per_question = {id: vqa_accuracy(str(answers[id]), annotation_of[id].answers, stem=stem) for id in question_entries}
    by_type: dict[str, list[float]] = defaultdict(list)
    for question, accuracy in per_question.items():
        by_type[annotation_of[question].answer_type].append(accuracy)
    return VqaScores(
        overall=sum(per_question.values()) / len(per_question),
        per_answer_type={name: sum(accuracies) / len(accuracies) for name, accuracies in sorted(by_type.items())},
        per_question=per_question,
    )


def _name_ids(ids: Sequence[str]) -> str:
    return f"question {ids[0]}" + (f" (and {len(ids) - 1:,} more)" if len(ids) > 1 else "")


def _abbreviate(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}…"


FORMATS = ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP")
ORIENTATION, UPRIGHT = 0x0112, 1
"""EXIF tag, and its value for a picture that is not turned."""
QUICKLY = 1
"""Compression level of PNGs: a tenth larger than with Pillow's own choice, in a fifth of the time."""
MOST_BYTES = 256 * 2**20
"""Bytes of the PNGs that are kept in memory: 512 of COCO's, and all of a world of digits."""
END_OF_JPEG, NEAR_THE_END = b"\xff\xd9", 64
"""Some cameras and editors write a few bytes behind a JPEG's end."""
UNREADABLE = (OSError, ValueError, SyntaxError, TypeError, IndexError, KeyError, EOFError, OverflowError, zlib.error)
"""Errors that Pillow's decoders raise over damaged bytes."""
TOO_LARGE = (Decoder.DecompressionBombError, Decoder.DecompressionBombWarning)


class Pictures:
    """The pictures of items, kept in memory while there is room; any number of threads may ask.

    A file that changed after the dataset was read would be judged under the answers to another picture, so its digest
    is checked. A PNG that is upright, opaque and RGB goes through as it is; what is encoded here is the same bytes for
    the same file under the same zlib, so that its answers are found again.
    """

    def __init__(self, *, most_bytes: int = MOST_BYTES) -> None:
        self._cached = cached(LRUCache(most_bytes, lambda picture: len(picture.png)), lock=Lock())(self._read)

    def __call__(self, item: VqaItem) -> Image:
        """Return the picture of an item. Raises DatasetUnusable: missing, damaged, too large, or changed."""
        return self._cached(item.image, item.image_sha256)

    def _read(self, path: str, sha256: str) -> Image:
        """Return the picture at `path` as PNG. Raises DatasetUnusable if it is missing, changed or damaged."""
        try:
            data = Path(path).read_bytes()
        except OSError as error:
            raise DatasetUnusable(f"picture {path} cannot be read ({error.strerror}); put the file back") from error
        if hashlib.sha256(data).hexdigest() != sha256:
            raise DatasetUnusable(f"picture {path} is another than when the dataset was read; read the dataset again")
        try:
            return Image(png=_to_png(data))
        except (*TOO_LARGE, *UNREADABLE) as error:
            raise DatasetUnusable(f"picture {path} {_describe_damage(error)}; leave the question out") from error


def find_damage(data: bytes) -> str | None:
    """Return why a picture file cannot be shown, as the end of a sentence; None if a quick look finds nothing wrong.

    A PNG tells by its checksums, and a JPEG by its end, that nothing is missing; of other files all is decoded.
    """
    try:
        with _open_picture(data) as picture:
            if picture.format == "PNG" or (picture.format == "JPEG" and END_OF_JPEG in data[-NEAR_THE_END:]):
                picture.verify()
            else:
                picture.load()
    except (*TOO_LARGE, *UNREADABLE) as error:
        return _describe_damage(error)
    return None


def _describe_damage(error: Exception) -> str:
    if isinstance(error, TOO_LARGE):
        return f"has more than {MOST_PIXELS:,} pixels"
    return f"is damaged, or no picture in a known format ({type(error).__name__})"


def _open_picture(data: bytes) -> Decoder.Image:
    """Open a picture of a known format, nothing decoded yet. Raises Pillow's errors, also above MOST_PIXELS."""
    picture = Decoder.open(io.BytesIO(data), formats=FORMATS)
    if picture.width * picture.height > MOST_PIXELS:
        raise Decoder.DecompressionBombError(f"{picture.width} × {picture.height} pixels")
    return picture


def _to_png(data: bytes) -> bytes:
    """Return the PNG of the first frame, turned as its EXIF says, RGB, on white where it is transparent."""
    with _open_picture(data) as picture:
        picture.load()  # all of it: a file that ends too early shows only here
        if (
            (picture.format, picture.mode) == ("PNG", "RGB")
            and not picture.has_transparency_data
            and getattr(picture, "n_frames", 1) == 1  # an animation: only its first frame is shown
            and picture.getexif().get(ORIENTATION, UPRIGHT) == UPRIGHT
        ):
            return data
        flat = ImageOps.exif_transpose(picture)
        if flat.has_transparency_data:
            flat = Decoder.alpha_composite(Decoder.new("RGBA", flat.size, "white"), flat.convert("RGBA"))
        elif flat.mode.startswith("I"):  # 16 bits of grey
            flat = flat.convert("I").point(lambda value: value / 256).convert("L")
        flat = flat.convert("RGB")
    file = io.BytesIO()
    flat.save(file, "PNG", compress_level=QUICKLY)
    return file.getvalue()
