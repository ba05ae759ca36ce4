"""Texts with classes, in the files of their authors: TREC's questions, SST-2's sentences, AG News' articles.

trec/train.txt, test.txt                    NUM:dist How far is it from Denver to Aspen ?
sst2/stsa.binary.train, stsa.binary.test    1 a stirring , funny and finally transporting re-imagining
agnews/test.csv                             3,Title,Description
Source: Li and Roth 2002 (TREC), Socher et al. 2013 (SST-2), Zhang et al. 2015 (AG News), as packaged by
https://github.com/tonyzhaozh/few-shot-learning.
"""

from __future__ import annotations

import csv
import io
import random
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tasks.lever.judge.demonstration_task import WORDINGS
from tasks.lever.lever_errors import DatasetUnusable
from tasks.lever.lever_records import Dataset, TextItem

Line = tuple[str, str]
"""Class, as the file has it, and text."""


class Files(NamedTuple):
    """Where the texts of a dataset are."""

    train: str
    test: str
    lines: Callable[[str], Iterator[Line]]


def _spaced(content: str) -> Iterator[Line]:
    """`CLASS:SUBCLASS text`; the subclass is left out."""
    for line in content.split("\n"):  # not at the other ends of lines that Unicode has
        if line.strip():
            head, _, text = line.partition(" ")
            yield head.partition(":")[0], text.strip()


def _tabular(content: str) -> Iterator[Line]:
    """`class,title,description`, with a first line that names them."""
    for row in list(csv.reader(io.StringIO(content, newline="")))[1:]:
        yield row[0], " ".join(part.strip() for part in row[1:])


FILES = {
    "trec": Files("trec/train.txt", "trec/test.txt", _spaced),
    "sst2": Files("sst2/stsa.binary.train", "sst2/stsa.binary.test", _spaced),
    "agnews": Files("agnews/test.csv", "agnews/test.csv", _tabular),
}
"""By dataset; where train and test are one file, all splits are drawn from it."""


def open_texts(
    name: str, data_dir: Path | None, *, train_queries: int, validation: int, test: int | None, seed: int
) -> Dataset:
    """A dataset from its files in `data_dir`, or in the folder of its name there.

    Validation is drawn from the training file; what is drawn depends on the seed alone. A text of the training file
    that is also one of validation or test is left out: nobody is examined on a text that may be shown.
    test: None: all, and half of what is left of a single file.
    Raises DatasetUnusable naming the file and what to do.
    """
    files = FILES[name]
    if data_dir is None or not data_dir.is_dir():
        raise DatasetUnusable(f"{name} is read from a folder, and {data_dir} is none; name it by --data-dir")
    train = _shuffled(_read(name, data_dir, files.train, split="train"), seed, "train")
    if files.test == files.train:
        count = (len(train) - validation) // 2 if test is None else test
        held_out, train = train[:count], train[count:]
    else:
        held_out = _shuffled(_read(name, data_dir, files.test, split="test"), seed, "test")[:test]
    chosen, rest = train[:validation], train[validation:]
    examined = {item.text for item in (*chosen, *held_out)}
    kept = [item for item in rest if item.text not in examined]
    if not (kept and chosen and held_out):
        raise DatasetUnusable(
            f"{data_dir}: {name} has {len(train) + len(held_out)} texts, too few for {validation} of validation, "
            f"{test or 'some'} of test and some to be shown; ask for fewer"
        )
    return Dataset(
        name=name,
        train=tuple(kept),
        train_queries=tuple(item.id for item in kept[:train_queries]),
        validation=tuple(chosen),
        test=tuple(held_out),
        left_out={item.id: "its text is one of validation or test" for item in rest if item.text in examined},
        counted=tuple(sorted((item.id for item in (*chosen, *rest)), key=_number)),
    )


def _read(name: str, folder: Path, file: str, *, split: str) -> list[TextItem]:
    """The texts of a file, each with the number of its line as id."""
    path = next((path for path in (folder / file, folder / Path(file).name) if path.is_file()), None)
    if path is None:
        raise DatasetUnusable(f"there is no {file} in {folder}; name the folder that has it by --data-dir")
    try:
        lines = list(FILES[name].lines(path.read_text("utf-8")))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DatasetUnusable(f"{path} cannot be read as UTF-8 text ({error}); fetch it again") from error
    return [_item(path, f"{split}-{number}", line, WORDINGS[name].classes) for number, line in enumerate(lines, 1)]


def _item(path: Path, id: str, line: Line, classes: Mapping[str, str]) -> TextItem:
    label, text = line
    if label not in classes or not text:
        raise DatasetUnusable(
            f"{path}: text {id} has the class {label[:40]!r} and {len(text)} characters; expected a text and one of "
            f"the classes {', '.join(classes)}"
        )
    return TextItem(id=id, text=text, label=classes[label])


def _shuffled(items: list[TextItem], seed: int, split: str) -> list[TextItem]:
    random.Random(f"{seed} {split}").shuffle(items)
    return items


def _number(id: str) -> int:
    return int(id.rpartition("-")[2])
