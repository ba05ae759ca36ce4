"""Datasets in the official VQA format: questions, annotations of ten people, and a folder of pictures.

OK-VQA and VQAv2 with COCO's pictures, TextVQA and VizWiz in the same format, and the CPU world's own.
Source of the format and of the names: https://visualqa.org/download.html, https://okvqa.allenai.org/download.html;
TextVQA and VizWiz as open_flamingo keeps them.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from tasks.lever.data.json_files import first_twice
from tasks.lever.data.vqa_files import Asked, look_at, nothing_left, read_questions, usable
from tasks.lever.lever_errors import DatasetUnusable
from tasks.lever.lever_records import Dataset

TEST_SHARE = 0.5
"""Share of the items beside validation that become the test split, where one file serves all splits."""


class Source(NamedTuple):
    """The official files of one split."""

    questions: str
    annotations: str
    images: str
    """Folder."""
    prefix: str = ""
    """Prefix of the IDs, for datasets whose splits each count from 0."""


class Official(NamedTuple):
    """Where a dataset's splits come from."""

    train: Source
    held_out: Source
    """The official validation split, which is our test split: answers of the official test splits are not public."""
    validation: Source | None = None
    """None: some pictures of `train` are set apart."""
    queries: Source | None = None
    """Questions to learn from that may not be shown. None: all of `train` are both."""


def _coco(prefix: str, split: str) -> Source:
    named = f"{prefix}OpenEnded_mscoco_{split}2014_questions.json"
    return Source(named, f"{prefix}mscoco_{split}2014_annotations.json", f"{split}2014")


def _split(name: str, split: str, images: str, *, prefix: str = "") -> Source:
    named = f"{name}_{split}_questions_vqa_format.json"
    return Source(named, f"{name}_{split}_annotations_vqa_format.json", images, prefix)


def _drawn(world: str, split: str) -> Source:
    return Source(f"{world}_{split}_questions.json", f"{world}_{split}_annotations.json", "images")


OFFICIAL = {
    "okvqa": Official(_coco("", "train"), _coco("", "val")),
    "vqav2": Official(_coco("v2_", "train"), _coco("v2_", "val")),
    "textvqa": Official(_split("textvqa", "train", "train_images"), _split("textvqa", "val", "train_images")),
    "vizwiz": Official(_split("vizwiz", "train", "train", prefix="train_"), _split("vizwiz", "val", "val")),
    "digits": Official(*(_drawn("digits", split) for split in ("train", "test", "validation"))),
    "crowded": Official(*(_drawn("crowded", split) for split in ("train", "test", "validation", "queries"))),
}


def open_dataset(
    name: str, data_dir: Path | None, *, train_queries: int, validation: int, test: int | None, seed: int
) -> Dataset:
    """A dataset from its official files anywhere in `data_dir` (up to two folders deep).

    Questions about one picture are in one split, so that nobody is examined on a picture that may be shown. What is
    drawn depends on the seed alone. `test` is drawn from the official validation split, in which nothing is learnt;
    without the files of the training split all three are drawn from it.
    test: None: all that are left.
    Raises DatasetUnusable naming the file and what to do.
    """
    if name not in OFFICIAL:
        raise DatasetUnusable(f"there is no dataset {name!r}; choose one of {', '.join(OFFICIAL)}")
    if data_dir is None or not data_dir.is_dir():
        raise DatasetUnusable(f"{name} is read from a folder, and {data_dir} is none; name it by --data-dir")
    drawn = _draw(OFFICIAL[name], data_dir, validation=validation, test=test, seed=seed)
    splits = (drawn.train, drawn.queries, drawn.validation, drawn.test)
    if (twice := first_twice(one.id for part in splits for one in part)) is not None:
        raise DatasetUnusable(
            f"{data_dir}: question id {twice} is in two splits of {name}; the files do not belong together"
        )
    look, left_out = cache(look_at), dict[str, str]()  # several questions may share a picture
    train = tuple(usable(drawn.train, left_out, look))
    held_out = {
        "validation": tuple(islice(usable(drawn.validation, left_out, look), validation)),
        "test": tuple(islice(usable(drawn.test, left_out, look), test)),
    }
    queries = tuple(islice(usable(drawn.queries, left_out, look), train_queries))
    for split, items in {"train": train, **held_out}.items():
        if not items:
            raise nothing_left(data_dir, left_out, split=f"{name}: no {split} question is left: ")
    return Dataset(
        name=name,
        train=train + queries,
        shown=tuple(item.id for item in train) if queries else (),
        train_queries=tuple(item.id for item in queries or train[:train_queries]),
        **held_out,
        left_out=left_out,
        counted=drawn.counted,
    )


class _Drawn(NamedTuple):
    """Questions of each split in the order in which they are taken."""

    train: list[Asked]
    validation: list[Asked]
    test: list[Asked]
    counted: tuple[str, ...] = ()
    """Ids of the training file in its order; empty where there is no such file."""
    queries: Sequence[Asked] = ()
    """Questions to learn from, where they are others than `train`."""


def _draw(official: Official, folder: Path, *, validation: int, test: int | None, seed: int) -> _Drawn:
    held_out = _questions_in(folder, official.held_out)
    if _find(folder, official.train.questions) is None:
        wanted = max(1, int((len(held_out) - validation) * TEST_SHARE)) if test is None else test
        (first, second), rest = _by_picture(held_out, seed, [validation, wanted])
        return _Drawn(rest, first, second)
    train = _questions_in(folder, official.train)
    rest, counted = _shuffled(held_out, seed, "test"), tuple(one.id for one in train)
    if official.validation is not None:
        found = _questions_in(folder, official.validation)
        more = _shuffled(_questions_in(folder, official.queries), seed, "queries") if official.queries else ()
        return _Drawn(_shuffled(train, seed, "train"), _shuffled(found, seed, "validation"), rest, counted, more)
    chosen, left = _by_picture(train, seed, [validation])
    return _Drawn(left, chosen[0], rest, counted)


def _by_picture(asked: Sequence[Asked], seed: int, counts: Sequence[int]) -> tuple[list[list[Asked]], list[Asked]]:
    """As many usable questions as each count says, whole pictures at a time, and all others."""
    of_picture: dict[str, list[Asked]] = {}
    for one in asked:
        of_picture.setdefault(one.image_id, []).append(one)
    pictures = sorted(of_picture)
    random.Random(f"{seed} pictures").shuffle(pictures)
    groups: list[list[Asked]] = []
    for count in counts:
        group: list[Asked] = []
        usable = 0
        while pictures and usable < count:
            added = of_picture[pictures.pop()]
            group.extend(added)
            usable += sum(one.wrong is None for one in added)
        groups.append(group)
    return groups, _shuffled([one for picture in sorted(pictures) for one in of_picture[picture]], seed, "train")


def _shuffled(asked: Sequence[Asked], seed: int, split: str) -> list[Asked]:
    ordered = sorted(asked, key=lambda one: one.id)
    random.Random(f"{seed} {split}").shuffle(ordered)
    return ordered


def _questions_in(folder: Path, source: Source) -> list[Asked]:
    questions, annotations = _find(folder, source.questions), _find(folder, source.annotations)
    if questions is None or annotations is None:
        missing = source.questions if questions is None else source.annotations
        raise DatasetUnusable(f"there is no {missing} in {folder} or its folders; download it, or name another folder")
    images = _find(folder, source.images) or folder / source.images
    return read_questions(questions, annotations, images, prefix=source.prefix)


def _find(folder: Path, name: str) -> Path | None:
    """A file or folder of this name, at most two folders deep."""
    for pattern in (name, f"*/{name}", f"*/*/{name}"):
        if found := sorted(folder.glob(pattern)):
            return found[0]
    return None
