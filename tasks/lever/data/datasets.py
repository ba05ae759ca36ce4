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
import tomllib
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast, get_args

from pydantic import ConfigDict, ValidationError, model_validator

from storage.records import Record
from tasks.grading.vqa_accuracy import ENOUGH
from tasks.lever.data.folder_layout import OWN_SUFFIX
from tasks.lever.data.vqa_files import VqaQuestion, inspect_picture, read_questions, select_usable
from tasks.lever.judge.demonstration_task import WORDINGS, open_metric
from tasks.lever.lever_errors import DatasetUnusable
from tasks.lever.lever_records import Dataset, Item, TextItem, VqaItem, first_duplicate


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


_FILES = tomllib.loads(Path(__file__).with_name("official_files.toml").read_text("utf-8"))
OFFICIAL = {
    name: Official(**{split: Source(**files) for split, files in splits.items()}) for name, splits in _FILES.items()
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
    validation: float,
    test: int | None,
    queries_of: Path | None = None,
    metric: str | None = None,
) -> Dataset:
    """Read a dataset from its files in `data_dir` and draw its splits, which are always the same.

    Nobody is examined on what may be shown: questions about one picture are in one split, and a training text that is
    one of validation or test as well is left out.
    name: one of OFFICIAL or TEXTS, or the path of a user's own: lines of JSON, see `_open_own`.
    train_queries: the most to take.
    validation: number of queries, or below 1 their share of those to learn from; at most half of these.
    test: None: all that are left, and half of what is left of a single file.
    metric: of a user's own dataset, see `Dataset`; None: by the fields of its items.
    queries_of: file of an earlier run that names the train queries.
    Raises DatasetUnusable naming the file and what to do, FileUnusable for `queries_of`, OptionUnusable.
    """
    sizes: Any = {"train_queries": train_queries, "validation": validation, "test": test}
    if name.endswith(OWN_SUFFIX):
        dataset = _open_own(Path(name), metric=metric, **sizes)
    elif data_dir is None or not data_dir.is_dir():
        raise DatasetUnusable(f"{name} is read from a folder, and {data_dir} is none; name it by --data-dir")
    else:
        dataset = (_open_texts if name in TEXTS else _open_questions)(name, data_dir, **sizes)
    if queries_of is None:
        return dataset
    from tasks.lever.data.earlier_files import take_queries_from  # brings torch

    return take_queries_from(dataset, queries_of)


def _count_validation(validation: float, items: int) -> int:
    """Return the number of validation queries out of so many items: a share below 1 or a number, at most half."""
    return min(round(items * validation) if validation < 1 else int(validation), items // 2)


def _open_questions(name: str, folder: Path, *, train_queries: int, validation: float, test: int | None) -> Dataset:
    """Read questions about pictures from official files, at most two folders deep. Raises DatasetUnusable."""
    official = OFFICIAL[name]
    candidates, held_out = _read_questions_in(folder, official.train), _read_questions_in(folder, official.held_out)
    counted = tuple(question.id for question in candidates)
    if official.validation:
        validation_questions = _shuffle(_read_questions_in(folder, official.validation), "validation")
    else:
        usable = sum(question.problem is None for question in candidates)
        validation_questions, candidates = _set_apart(candidates, _count_validation(validation, usable))
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
        """Return the first `count` usable items (None: all). Raises DatasetUnusable if `needed` and none is."""
        items = tuple(islice(select_usable(questions, left_out, inspect), count))
        if needed and not items:
            first = next((f"question {id}: {why}" for id, why in left_out.items()), "it is empty")
            raise DatasetUnusable(
                f"{name}: no {split} question is left: {folder}: all of {len(left_out)} questions were left out "
                f"({first}); put the pictures into {folder}, or take the annotations that belong to these questions"
            )
        return items

    train = take("train", _shuffle(candidates, "train"), None)
    queries = take("training", query_questions, train_queries, needed=False)
    return Dataset(
        name=name,
        train=train + queries,
        shown=tuple(item.id for item in train) if queries else (),
        train_queries=tuple(item.id for item in queries or train[:train_queries]),
        validation=take("validation", validation_questions, int(validation) if validation >= 1 else None),
        test=take("test", _shuffle(held_out, "test"), test),
        left_out=left_out,
        counted=counted,
    )


def _read_questions_in(folder: Path, source: Source) -> list[VqaQuestion]:
    """Return the questions of the source's files below a folder. Raises DatasetUnusable for a missing or broken one."""
    questions, annotations = _find(folder, source.questions), _find(folder, source.annotations)
    if questions is None or annotations is None:
        missing = source.questions if questions is None else source.annotations
        raise DatasetUnusable(f"there is no {missing} in {folder} or its folders; download it, or name another folder")
    images = _find(folder, source.images) or folder / source.images
    return read_questions(questions, annotations, images, prefix=source.prefix)


def _find(folder: Path, name: str) -> Path | None:
    """Return the file or folder of this name that lies least deep, at most two folders, the first by path; or None."""
    matches = (sorted(folder.glob(pattern)) for pattern in (name, f"*/{name}", f"*/*/{name}"))
    return next((paths[0] for paths in matches if paths), None)


def _set_apart(questions: Sequence[VqaQuestion], count: int) -> tuple[list[VqaQuestion], list[VqaQuestion]]:
    """Set at least `count` usable questions apart, or all, whole pictures at a time; return them and all others."""
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


def _open_texts(name: str, folder: Path, *, train_queries: int, validation: float, test: int | None) -> Dataset:
    """Read texts with classes from the folder, or the one of the dataset's name in it. Raises DatasetUnusable."""
    files = TEXTS[name]
    train = _read_texts(name, folder, files.train, split="train")
    random.Random("0 train").shuffle(train)
    count_validation = _count_validation(validation, len(train))
    if files.test == files.train:
        count = (len(train) - count_validation) // 2 if test is None else test
        held_out, train = train[:count], train[count:]
    else:
        held_out = _read_texts(name, folder, files.test, split="test")
        random.Random("0 test").shuffle(held_out)
        held_out = held_out[:test]
    validation_items, rest = train[:count_validation], train[count_validation:]
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
    """Read the texts of a file, in order, with ids like `train-1` that count from 1. Raises DatasetUnusable."""
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


Split = Literal["train", "validation", "test"]


class OwnRecord(Record):
    """A line of a user's own dataset: a picture, a text or both, and what is right."""

    model_config = ConfigDict(extra="ignore", coerce_numbers_to_str=True)  # people keep more in their files

    id: str
    text: str = ""
    image: str = ""
    """Path of the picture's file, from the folder of the dataset."""
    question: str = ""
    answers: tuple[str, ...] = ()
    label: str = ""
    split: Split | None = None

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, fields: Any) -> Any:
        """Leave out fields that are null, as tables write them, and list an answer that stands alone."""
        if not isinstance(fields, dict):
            return fields
        known = {name: value for name, value in cast(dict[str, Any], fields).items() if value is not None}
        answers = known.get("answers", [])
        return known | {"answers": answers if isinstance(answers, list) else [answers]}


def _open_own(path: Path, *, metric: str | None, train_queries: int, validation: float, test: int | None) -> Dataset:
    """Read a user's own dataset: a line of JSON for each item, with its picture beside the file.

    {"id", "text"?, "image"?, "question"?, "answers" or "label", "split"?: "train", "validation" or "test"}
    Items without a split are train; validation and test, where no item names them, take up to a quarter of it each.
    The first item says whether all have pictures, and whether labels are weighed; others are left out.
    Raises DatasetUnusable naming line and field, OptionUnusable for the metric.
    """
    records = _read_own(path)
    of_pictures = bool(records[0].image)
    if metric is None and not of_pictures and records[0].label:
        metric = "label"
    elif metric is None:  # VQA accuracy needs several people
        metric = "vqa" if min(len(record.answers) for record in records) > ENOUGH else "exact"
    if metric == "label" and of_pictures:
        raise DatasetUnusable(f"{path}: labels of pictures are not weighed; take the metric exact, or leave it out")
    if metric != "label":
        open_metric(metric)  # raises for a function that is not there
    left_out, inspect = dict[str, str](), cache(inspect_picture)
    items: dict[Split | None, list[Item]] = {}
    for record in records:
        given = (record.label,) if metric == "label" or not record.answers else record.answers
        problem, id, answers = "", record.id, tuple(answer.strip() for answer in given if answer.strip())
        item: Item = TextItem(id=id, text="", label="")
        if not answers:
            problem = f"its {'`label`' if metric == 'label' else '`answers` or `label`'} is missing or blank"
        elif record.image and not of_pictures:
            problem = "it has a picture, and the first item has none"
        elif of_pictures:
            item = VqaItem(
                id=id,
                image_id=record.image,
                image=str((path.parent / record.image).absolute()),
                image_sha256="",
                question=record.question.strip() or record.text.strip() or ANY_QUESTION,
                answers=answers,
            )
            inside = record.image and (path.parent / record.image).resolve().is_relative_to(path.parent.resolve())
            outside = f"{record.image!r} is no picture below {path.parent}"
            sha256, damage = inspect(Path(item.image)) if inside else ("", outside)
            item, problem = item.model_copy(update={"image_sha256": sha256}), damage or ""
        else:
            parts = [record.text.strip(), record.question.strip()]
            text, shown = "\nQuestion: ".join(part for part in parts if part), max(answers, key=answers.count)
            item = TextItem(id=id, text=text, label=shown, accepted=() if metric == "label" else answers)
            problem = "" if text else "it has no text, question or picture"
        if problem:
            left_out[id] = problem
        else:
            items.setdefault(record.split, []).append(item)
    splits = _split_own(items, path, left_out, validation=validation, test=test)
    return Dataset(
        name=path.stem,
        train=tuple(splits["train"]),
        train_queries=tuple(item.id for item in splits["train"][:train_queries]),
        validation=tuple(splits["validation"]),
        test=tuple(splits["test"]),
        left_out=left_out,
        counted=tuple(record.id for record in records),
        metric=metric,
    )


ANY_QUESTION = "What is this?"
"""Asked of a picture that has no question."""
FEWEST_OWN = 6
"""Items of a user's own dataset of which one can learn, choose and measure at all."""


def _read_own(path: Path) -> list[OwnRecord]:
    """Read the lines of a user's own dataset but blank ones. Raises DatasetUnusable naming line and field."""
    try:
        lines = path.read_text("utf-8-sig").split("\n")  # not at the other ends of lines that Unicode has
    except (OSError, UnicodeDecodeError) as error:
        raise DatasetUnusable(f"{path} cannot be read as UTF-8 text ({error}); name a file of JSON lines") from error
    records = list[OwnRecord]()
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            records.append(OwnRecord.model_validate_json(line))
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(map(str, first["loc"])) or "the line"
            raise DatasetUnusable(
                f"{path}, line {number}: {field}: {first['msg']}; expected "
                '{"id", "text", "image", "question", "answers" or "label", "split"}'
            ) from error
    if (duplicate := first_duplicate(record.id for record in records)) is not None:
        raise DatasetUnusable(f"{path}: id {duplicate} stands there twice; number the items anew")
    if not records:
        raise DatasetUnusable(f"{path} holds no item; write a line of JSON for each")
    return records


def _split_own(
    items: dict[Split | None, list[Item]], path: Path, left_out: dict[str, str], *, validation: float, test: int | None
) -> dict[Split, list[Item]]:
    """Return the items by split, at most `test` of test; one not given is drawn. Raises DatasetUnusable if empty."""
    splits: dict[Split, list[Item]] = {split: [*items.get(split, [])] for split in get_args(Split)}
    pooled = [*splits["train"], *items.get(None, [])]
    counts: dict[Split, int] = {
        "test": len(pooled) // 4 if test is None else min(test, len(pooled) // 4),
        "validation": min(_count_validation(validation, len(pooled)), max(1, len(pooled) // 4)),
    }
    groups: dict[str, list[Item]] = {}
    for item in sorted(pooled, key=lambda item: item.id):  # the draw does not depend on the file's order
        groups.setdefault(item.image_sha256 if isinstance(item, VqaItem) else item.text, []).append(item)
    order = sorted(groups)
    random.Random("0 own").shuffle(order)
    for split, count in counts.items():
        while order and not items.get(split) and len(splits[split]) < count:
            splits[split] += groups[order.pop()]
    splits["train"] = [item for name in order for item in groups[name]]
    if missing := [split for split, listed in splits.items() if not listed]:
        first = next((f"; {id}: {why}" for id, why in left_out.items()), "")
        raise DatasetUnusable(
            f"{path}: no item is left for {' and '.join(missing)}; {sum(map(len, splits.values()))} can be used, "
            f"{len(left_out)} were left out{first}; give at least {FEWEST_OWN}"
        )
    random.Random("0 test").shuffle(splits["test"])
    splits["test"] = splits["test"][:test]
    return splits
