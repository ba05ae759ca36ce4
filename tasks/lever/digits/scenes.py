"""Pictures of two handwritten digits in changing light, written as PNG and read back, and the words for them.

The words are invented: a lexicon names each digit, and three questions ask about a picture.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import PIL.Image
import torch
from numpy.typing import NDArray
from torch import Tensor

from models.model_errors import RequestRefused
from storage.files import write

Part = Literal["judge", "train", "validation", "test"]
PARTS: dict[Part, int] = {"judge": 700, "train": 550, "validation": 270, "test": 277}
"""How many of scikit-learn's 1,797 digits each part has; no digit is in two."""
SIDE = 8
"""Pixels of a digit, either way."""
ENLARGED = 8
"""Pixels of the PNG, either way, for one of the scene."""
SIZE = (2 * SIDE * ENLARGED, SIDE * ENLARGED)
"""Width and height of the PNG."""
LIGHT, GRAIN = 0.6, 0.05
"""Strength of each of the light's three components; standard deviation of the camera's noise. Ink is 1."""
FLICKER = 0.01
"""Standard deviation of what differs between the pictures of a burst: half a grey level."""
DARKEST, BRIGHTEST = -2.0, 3.0
"""Brightness that the pixel values 0 and 255 stand for."""


class Digits(NamedTuple):
    """Pictures of handwritten digits with their labels."""

    ink: Tensor
    """The ink of each pixel, (N, 8, 8) float32, 0 to 1."""
    labels: Tensor
    """The digit in each picture, (N,) int64."""


def load_digits() -> dict[Part, Digits]:
    """Load scikit-learn's digits, dealt out to the parts, always in the same way."""
    from sklearn.datasets import load_digits as load  # pyright: ignore[reportUnknownVariableType]

    pixels, labels = load(return_X_y=True)
    ink = torch.tensor(np.asarray(pixels), dtype=torch.float32).reshape(-1, SIDE, SIDE) / 16
    digit_labels = torch.tensor(np.asarray(labels), dtype=torch.int64)
    order = torch.randperm(len(ink), generator=torch.Generator().manual_seed(0))
    dealt = torch.split(order, list(PARTS.values()))
    return {part: Digits(ink[rows], digit_labels[rows]) for part, rows in zip(PARTS, dealt, strict=True)}


def render(ink: Tensor, generator: torch.Generator, *, photos: int = 1) -> Tensor:
    """Render pairs of digits (N, 2, 8, 8) as scenes (N, 8, 16) uint8 under a light with a random direction.

    photos: pictures of each scene, one behind the other; in a burst they differ by FLICKER alone.
    """
    down = torch.linspace(-1, 1, SIDE)[:, None]
    right = torch.linspace(-1, 1, 2 * SIDE)[None, :]
    slope_down, slope_right, level = (torch.rand(3, len(ink), 1, 1, generator=generator) * 2 - 1) * LIGHT
    scene = torch.cat([ink[:, 0], ink[:, 1]], dim=-1) + slope_down * down + slope_right * right + level
    scene = scene + GRAIN * torch.randn(scene.shape, generator=generator)
    if photos > 1:
        scene = scene.repeat_interleave(photos, dim=0)
        scene = scene + FLICKER * torch.randn(scene.shape, generator=generator)
    return ((scene - DARKEST) * (255 / (BRIGHTEST - DARKEST))).round().clamp(0, 255).to(torch.uint8)


def extract_glimpses(scenes: Tensor) -> Tensor:
    """Return each digit of scenes (N, 8, 16) uint8 less its mean brightness, (N, 2, 8, 8) float32."""
    light = scenes.float() * ((BRIGHTEST - DARKEST) / 255)
    halves = torch.stack([light[..., :SIDE], light[..., SIDE:]], dim=1)
    return halves - halves.mean((-1, -2), keepdim=True)


def to_png(scene: NDArray[np.uint8]) -> bytes:
    """Encode a scene (8, 16) as PNG: grey as RGB, which backends take as it is; each pixel a square of 8 × 8."""
    file = io.BytesIO()
    PIL.Image.fromarray(_enlarge(scene)).convert("RGB").save(file, "PNG")
    return file.getvalue()


def from_png(png: bytes) -> NDArray[np.uint8]:
    """Decode the scene (8, 16) of a PNG, grey or RGB. Raises RequestRefused for any that `to_png` would not write."""
    try:
        with PIL.Image.open(io.BytesIO(png), formats=["PNG"]) as picture:
            pixels = np.asarray(picture.convert("L"))
    except (OSError, SyntaxError, ValueError, PIL.Image.DecompressionBombError) as error:
        raise RequestRefused(f"A picture is no PNG that the digits' judge can read ({error}).") from error
    scene = pixels[::ENLARGED, ::ENLARGED]
    if pixels.shape != SIZE[::-1] or not np.array_equal(_enlarge(scene), pixels):
        raise RequestRefused(
            f"A picture has no {SIZE[0]} × {SIZE[1]} pixels in squares of {ENLARGED} × {ENLARGED}, as those of the "
            "digits' world have; give them as they are."
        )
    return scene


def _enlarge(scene: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return scene.repeat(ENLARGED, axis=0).repeat(ENLARGED, axis=1)


def seeded_generator(seed: int, purpose: str) -> torch.Generator:
    """Return the random generator of a seed for one purpose."""
    digest = hashlib.sha256(f"{seed} {purpose}".encode("utf-8", "surrogatepass")).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8]) >> 1)


WORDS = (
    *("dax", "wug", "blick", "fep", "toma", "zorp", "niff", "gazzer", "lorp", "modi", "tupa", "vash"),
    *("kiro", "pelu", "rimo", "savi", "jeka", "hulo", "befi", "quon", "dreb", "yalt", "foska", "minto"),
)
"""All words that an answer may hold; a lexicon gives ten of them to the ten digits."""
QUESTIONS = (
    "What is the digit on the left called?",
    "What is the digit on the right called?",
    "What are the two digits called, from left to right?",
)
LEFT, RIGHT, BOTH = range(3)
KINDS = ("left", "right", "both")
"""The kind of each question, by its number."""

END = len(WORDS)
"""Token behind an answer of one word; one of two words ends by itself."""
UNKNOWN = END + 1
"""Token of any other word; it is read, never said."""
TOKENS = UNKNOWN + 1
_NUMBERS = {word: number for number, word in enumerate(WORDS)}


def tokens_of(answer: str) -> tuple[int, int] | None:
    """Return the two tokens of an answer; None unless it has one or two words, known or not."""
    words = [_NUMBERS.get(word.strip(".,"), UNKNOWN) for word in answer.lower().split()]
    match words:
        case [one]:
            return one, END
        case [first, second]:
            return first, second
        case _:
            return None


def words_of(tokens: Sequence[int]) -> list[str]:
    """Return the words of an answer's tokens, without its end and unknown words."""
    return [WORDS[token] for token in tokens if token < END]


Split = Literal["train", "validation", "test", "queries"]
SPLITS: tuple[Split, ...] = ("train", "validation", "test", "queries")
"""The world `crowded` has questions to learn from, `queries`, beside the candidates, `train`; `digits` has none."""
ANNOTATORS = 10
IMAGES_PER_SPLIT = 100_000
"""Ids of images begin at the split's number times this, plus one; a question's id is its image's times 1,000."""
SLIPS = (0, 0, 0, 1, 1, 2)
"""Wrong answers among the ten of a question that is not held out; drawn uniformly from these."""
CROWDED = "crowded"
PHOTOS = 4
"""Pictures of a scene in `crowded`: as many as the judge reads, so that no number of nearest neighbours reaches a
second scene."""


def write_world(folder: Path, world: str, *, candidates: int, queries: int, validation: int, test: int) -> None:
    """Write a world: `{world}_{split}_questions.json`, `…_annotations.json` and `images/digits_{split}_*.png`.

    Equal sizes give equal bytes; a split does not depend on the size of another. All annotators of validation and test
    agree; of other questions up to two err, each in another way, so that the majority is right. In `digits`, candidates
    are learnt from, too. In `crowded`, candidates were photographed in bursts: PHOTOS pictures of each scene that
    differ by a grey level here and there, all with the scene's question, for the left digit or for the right one.
    Queries are other scenes, and a third of them ask for both digits: they need two different demonstrations, and the
    nearest are copies of each other. `candidates` is rounded up to whole scenes there.
    Raises storage.storage_errors.StoreUnreachable.
    """
    parts = load_digits()
    sizes: dict[Split, int] = {"validation": validation, "test": test}
    if world == CROWDED:
        sizes = {"queries": queries, **sizes}
        scene_count, generator = -(-candidates // PHOTOS), seeded_generator(0, "crowded candidates")
        _write_split(
            folder, world, "train", *_draw_scenes(parts["train"], scene_count, generator, kinds=BOTH, photos=PHOTOS)
        )
    else:
        sizes = {"train": candidates, **sizes}
    for split, count in sizes.items():
        generator = seeded_generator(0, f"crowded {split}" if world == CROWDED else f"{split} scenes")
        _write_split(
            folder, world, split, *_draw_scenes(parts["train" if split == "queries" else split], count, generator)
        )


def lexicon(seed: int = 0) -> tuple[str, ...]:
    """Return the secret words for the digits 0 to 9; both worlds use those of seed 0."""
    order = torch.randperm(len(WORDS), generator=seeded_generator(seed, "lexicon"))
    return tuple(WORDS[int(number)] for number in order[:10])


def _draw_scenes(
    digits: Digits, count: int, generator: torch.Generator, *, kinds: int = len(KINDS), photos: int = 1
) -> tuple[Tensor, list[list[int]], list[int]]:
    """Draw scenes (N, 8, 16) uint8, their left and right digits, and their questions, of the first `kinds`.

    photos: of each scene, all with its question.
    """
    pairs = torch.randint(len(digits.ink), (count, 2), generator=generator)
    kind_numbers = torch.randint(kinds, (count,), generator=generator).repeat_interleave(photos)
    pair_labels = digits.labels[pairs].repeat_interleave(photos, dim=0)
    return render(digits.ink[pairs], generator, photos=photos), pair_labels.tolist(), kind_numbers.tolist()


def _write_split(
    folder: Path, world: str, split: Split, scenes: Tensor, digits: list[list[int]], kinds: list[int]
) -> None:
    """Write the pictures of a split, and its questions and annotations in the official format."""
    first = SPLITS.index(split) * IMAGES_PER_SPLIT + 1
    ids = [{"question_id": (first + number) * 1000, "image_id": first + number} for number in range(len(kinds))]
    for number, scene in enumerate(scenes.numpy()):
        write(folder / "images" / f"digits_{split}_{first + number:06d}.png", to_png(scene), durable=False)
    names, generator, annotations = lexicon(), seeded_generator(0, f"{split} annotators"), list[dict[str, Any]]()
    for id, (left, right), kind in zip(ids, digits, kinds, strict=True):
        answer = (names[left], names[right], f"{names[left]} {names[right]}")[kind]
        has_slips = split in ("train", "queries")
        answers = _draw_annotators(answer, names, generator) if has_slips else [answer] * ANNOTATORS
        people = [
            {"answer": text, "answer_confidence": "yes", "answer_id": number}
            for number, text in enumerate(answers, start=1)
        ]
        labels = {"question_type": KINDS[kind], "answer_type": "other", "multiple_choice_answer": answer}
        annotations.append(id | labels | {"answers": people})
    head = {
        "info": {"description": "Digit-pair VQA, made by Trivet", "version": "1.0"},
        "license": {"name": "Apache-2.0"},
        "data_type": world,
        "data_subtype": split,
    }
    questions = [id | {"question": QUESTIONS[kind]} for id, kind in zip(ids, kinds, strict=True)]
    question_fields = {"task_type": "Open-Ended", "questions": questions}
    for name, content in (("questions", head | question_fields), ("annotations", head | {"annotations": annotations})):
        data = json.dumps(content, ensure_ascii=False, indent=1).encode()
        write(folder / f"{world}_{split}_{name}.json", data)


def _draw_annotators(answer: str, names: tuple[str, ...], generator: torch.Generator) -> list[str]:
    """Draw ten answers with up to two slips of different kinds: misspelt, misread, half of two words."""

    def draw(count: int) -> int:
        return int(torch.randint(count, (1,), generator=generator))

    misread = answer.split()
    place = draw(len(misread))
    wrong_names = [name for name in names if name not in misread]
    misread[place] = wrong_names[draw(len(wrong_names))]
    slips = [answer + answer[-1], " ".join(misread)]
    if " " in answer:
        slips.append(answer.split()[draw(2)])
    count = SLIPS[draw(len(SLIPS))]
    slip_numbers = torch.randperm(len(slips), generator=generator)[:count].tolist()
    places = torch.randperm(ANNOTATORS, generator=generator)[:count].tolist()
    answers = [answer] * ANNOTATORS
    for place, slip in zip(places, slip_numbers, strict=True):
        answers[place] = slips[slip]
    return answers
