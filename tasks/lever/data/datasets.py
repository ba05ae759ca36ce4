"""The items of a dataset and its splits: questions about pictures in the official VQA format, and texts with classes.

OK-VQA and VQAv2 with COCO's pictures, TextVQA and VizWiz in the same format, and the CPU worlds' own. TREC's questions,
SST-2's sentences and AG News' articles in the files of their authors:

trec/train.txt, test.txt                    NUM:dist How far is it from Denver to Aspen ?
sst2/stsa.binary.train, stsa.binary.test    1 a stirring , funny and finally transporting re-imagining
agnews/test.csv                             3,Title,Description
Source of formats and names: https://visualqa.org/download.html, https://okvqa.allenai.org/download.html; TextVQA and
VizWiz as open_flamingo keeps them; texts (Li and Roth 2002, Socher et al. 2013, Zhang et al. 2015) as packaged by
https://github.com/tonyzhaozh/few-shot-learning.
"""

from __future__ import annotations

import csv
import io
import random
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from tasks.lever.data.vqa_files import VqaQuestion, inspect_picture, no_question_left, read_questions, select_usable
from tasks.lever.judge.demonstration_task import WORDINGS
from tasks.lever.lever_errors import DatasetUnusable
from tasks.lever.lever_records import Dataset, TextItem, VqaItem, first_duplicate


class Source(NamedTuple):
    """The official files of one split."""

    questions: str
    annotations: str
    images: str
    """Name of the folder with the pictures."""
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


def _coco_source(prefix: str, split: str) -> Source:
    questions = f"{prefix}OpenEnded_mscoco_{split}2014_questions.json"
    return Source(questions, f"{prefix}mscoco_{split}2014_annotations.json", f"{split}2014")


def _split_source(name: str, split: str, images: str, *, prefix: str = "") -> Source:
    questions = f"{name}_{split}_questions_vqa_format.json"
    return Source(questions, f"{name}_{split}_annotations_vqa_format.json", images, prefix)


def _world_source(world: str, split: str) -> Source:
    return Source(f"{world}_{split}_questions.json", f"{world}_{split}_annotations.json", "images")


OFFICIAL = {
    "okvqa": Official(_coco_source("", "train"), _coco_source("", "val")),
    "vqav2": Official(_coco_source("v2_", "train"), _coco_source("v2_", "val")),
    "textvqa": Official(
        _split_source("textvqa", "train", "train_images"), _split_source("textvqa", "val", "train_images")
    ),
    "vizwiz": Official(
        _split_source("vizwiz", "train", "train", prefix="train_"), _split_source("vizwiz", "val", "val")
    ),
    "digits": Official(*(_world_source("digits", split) for split in ("train", "test", "validation"))),
    "crowded": Official(*(_world_source("crowded", split) for split in ("train", "test", "validation", "queries"))),
}


class TextFiles(NamedTuple):
    """The files of a dataset of texts; where train and test are one file, all splits are drawn from it."""

    train: str
    test: str
    read: Callable[[str], Iterator[tuple[str, str]]]
    """Reads the content of a file: the class, as the file has it, and the text of each line."""


def _read_spaced(content: str) -> Iterator[tuple[str, str]]:
    """Read lines of `CLASS:SUBCLASS text` as classes and texts; the subclass is left out."""
    for line in content.split("\n"):  # not at the other ends of lines that Unicode has
        if line.strip():
            head, _, text = line.partition(" ")
            yield head.partition(":")[0], text.strip()


def _read_tabular(content: str) -> Iterator[tuple[str, str]]:
    """Read CSV of `class,title,description`, whose first line names the columns, as classes and texts."""
    for row in list(csv.reader(io.StringIO(content, newline="")))[1:]:  # newline="": texts may hold line breaks
        yield row[0], " ".join(part.strip() for part in row[1:])


TEXTS = {
    "trec": TextFiles("trec/train.txt", "trec/test.txt", _read_spaced),
    "sst2": TextFiles("sst2/stsa.binary.train", "sst2/stsa.binary.test", _read_spaced),
    "agnews": TextFiles("agnews/test.csv", "agnews/test.csv", _read_tabular),
}


def open_dataset(
    name: str,
    data_dir: Path | None,
    *,
    train_queries: int,
    validation: int,
    test: int | None,
    queries_of: Path | None = None,
) -> Dataset:
    """Read a dataset from its files in `data_dir` and draw its splits, which are always the same.

    Nobody is examined on what may be shown: questions about one picture are in one split, and a training text that is
    one of validation or test as well is left out.
    test: None: all that are left, and half of what is left of a single file.
    queries_of: file of an earlier run that names the train queries.
    Raises DatasetUnusable naming the file and what to do, FileUnusable for `queries_of`.
    """
    if name not in OFFICIAL and name not in TEXTS:
        raise DatasetUnusable(f"there is no dataset {name!r}; choose one of {', '.join([*OFFICIAL, *TEXTS])}")
    if data_dir is None or not data_dir.is_dir():
        raise DatasetUnusable(f"{name} is read from a folder, and {data_dir} is none; name it by --data-dir")
    read = _open_texts if name in TEXTS else _open_questions
    dataset = read(name, data_dir, train_queries=train_queries, validation=validation, test=test)
    if queries_of is None:
        return dataset
    from tasks.lever.data.earlier_files import take_queries_from  # brings torch

    return take_queries_from(dataset, queries_of)


def _open_questions(name: str, folder: Path, *, train_queries: int, validation: int, test: int | None) -> Dataset:
    """Read questions about pictures from official files in the folder, at most two folders deep."""
    official = OFFICIAL[name]
    candidates, held_out = _read_questions_in(folder, official.train), _read_questions_in(folder, official.held_out)
    counted = tuple(question.id for question in candidates)
    if official.validation:
        validation_questions = _shuffle(_read_questions_in(folder, official.validation), "validation")
    else:
        validation_questions, candidates = _set_apart(candidates, validation)
    query_questions = _shuffle(_read_questions_in(folder, official.queries), "queries") if official.queries else []
    all_questions = (*candidates, *query_questions, *validation_questions, *held_out)
    duplicate = first_duplicate(question.id for question in all_questions)
    if duplicate is not None:
        raise DatasetUnusable(
            f"{folder}: question id {duplicate} is in two splits of {name}; the files do not belong together"
        )
    inspect, left_out = cache(inspect_picture), dict[str, str]()  # several questions may share a picture

    def take(
        split: str, questions: list[VqaQuestion], count: int | None, *, needed: bool = True
    ) -> tuple[VqaItem, ...]:
        items = tuple(islice(select_usable(questions, left_out, inspect), count))
        if needed and not items:
            raise no_question_left(folder, left_out, split=f"{name}: no {split} question is left: ")
        return items

    train = take("train", _shuffle(candidates, "train"), None)
    queries = take("training", query_questions, train_queries, needed=False)
    return Dataset(
        name=name,
        train=train + queries,
        shown=tuple(item.id for item in train) if queries else (),
        train_queries=tuple(item.id for item in queries or train[:train_queries]),
        validation=take("validation", validation_questions, validation),
        test=take("test", _shuffle(held_out, "test"), test),
        left_out=left_out,
        counted=counted,
    )


def _read_questions_in(folder: Path, source: Source) -> list[VqaQuestion]:
    questions, annotations = _find(folder, source.questions), _find(folder, source.annotations)
    if questions is None or annotations is None:
        missing = source.questions if questions is None else source.annotations
        raise DatasetUnusable(f"there is no {missing} in {folder} or its folders; download it, or name another folder")
    images = _find(folder, source.images) or folder / source.images
    return read_questions(questions, annotations, images, prefix=source.prefix)


def _find(folder: Path, name: str) -> Path | None:
    """Return the first file or folder of this name, at most two folders deep, or None."""
    matches = (sorted(folder.glob(pattern)) for pattern in (name, f"*/{name}", f"*/*/{name}"))
    return next((paths[0] for paths in matches if paths), None)


def _set_apart(questions: Sequence[VqaQuestion], count: int) -> tuple[list[VqaQuestion], list[VqaQuestion]]:
    """Set at least `count` usable questions apart, whole pictures at a time; return them and all others."""
    of_picture: dict[str, list[VqaQuestion]] = {}
    for question in questions:
        of_picture.setdefault(question.image_id, []).append(question)
    pictures = sorted(of_picture)
    random.Random("0 pictures").shuffle(pictures)
    held_out: list[VqaQuestion] = []
    while pictures and sum(question.problem is None for question in held_out) < count:
        held_out += of_picture[pictures.pop()]
    return held_out, [question for picture in pictures for question in of_picture[picture]]


def _shuffle(questions: Sequence[VqaQuestion], split: str) -> list[VqaQuestion]:
    ordered = sorted(questions, key=lambda question: question.id)  # the draw does not depend on the file's order
    random.Random(f"0 {split}").shuffle(ordered)  # a text as seed gives the same order in every process
    return ordered


def _open_texts(name: str, folder: Path, *, train_queries: int, validation: int, test: int | None) -> Dataset:
    """Read texts with classes from the folder, or from the folder of the dataset's name in it."""
    files = TEXTS[name]
    train = _read_texts(name, folder, files.train, split="train")
    random.Random("0 train").shuffle(train)
    if files.test == files.train:
        count = (len(train) - validation) // 2 if test is None else test
        held_out, train = train[:count], train[count:]
    else:
        held_out = _read_texts(name, folder, files.test, split="test")
        random.Random("0 test").shuffle(held_out)
        held_out = held_out[:test]
    validation_items, rest = train[:validation], train[validation:]
    held_out_texts = {item.text for item in (*validation_items, *held_out)}
    candidates = tuple(item for item in rest if item.text not in held_out_texts)
    if not (candidates and validation_items and held_out):
        raise DatasetUnusable(
            f"{folder}: {name} has {len(train) + len(held_out)} texts, too few for {validation} of validation, "
            f"{test or 'some'} of test and some to be shown; ask for fewer"
        )
    return Dataset(
        name=name,
        train=candidates,
        train_queries=tuple(item.id for item in candidates[:train_queries]),
        validation=tuple(validation_items),
        test=tuple(held_out),
        left_out={item.id: "its text is one of validation or test" for item in rest if item.text in held_out_texts},
        counted=tuple(sorted((item.id for item in train), key=lambda id: int(id.rpartition("-")[2]))),  # in file order
    )


def _read_texts(name: str, folder: Path, file: str, *, split: str) -> list[TextItem]:
    """Read the texts of a file, each with the number of its line as id. Raises DatasetUnusable."""
    path = next((path for path in (folder / file, folder / Path(file).name) if path.is_file()), None)
    if path is None:
        raise DatasetUnusable(f"there is no {file} in {folder}; name the folder that has it by --data-dir")
    try:
        lines = list(TEXTS[name].read(path.read_text("utf-8")))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DatasetUnusable(f"{path} cannot be read as UTF-8 text ({error}); fetch it again") from error
    classes, items = WORDINGS[name].classes, list[TextItem]()
    for number, (label, text) in enumerate(lines, 1):
        if label not in classes or not text:
            raise DatasetUnusable(
                f"{path}: text {split}-{number} has the class {label[:40]!r} and {len(text)} characters; expected a "
                f"text and one of the classes {', '.join(classes)}"
            )
        items.append(TextItem(id=f"{split}-{number}", text=text, label=classes[label]))
    return items
