"""Datasets of texts, in files as their authors write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tasks.lever.data.datasets import open_dataset
from tasks.lever.lever_errors import DatasetUnusable
from tasks.lever.lever_records import Dataset, TextItem

SHARED = Path(__file__).parents[2].parent / "shared" / "data" / "text"
TRAIN = ["NUM:dist How far is Aspen ?", "HUM:ind Who was Galileo ?", "DESC:def What is an atom ?"]


@pytest.fixture
def trec(tmp_path: Path) -> Path:
    write(tmp_path / "trec" / "train.txt", [*TRAIN, *(f"LOC:city Where is town {n} ?" for n in range(9))])
    write(tmp_path / "trec" / "test.txt", ["HUM:ind Who was Galileo ?", "NUM:date When was it ?"])
    return tmp_path


def write(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")


def opened(folder: Path, name: str = "trec", **chosen: Any) -> Dataset:
    usual: dict[str, Any] = {"train_queries": 4, "validation": 2, "test": None}
    return open_dataset(name, folder, **usual | chosen)


def texts(items: Any) -> set[tuple[str, str, str]]:
    return {(one.id, one.text, one.label) for one in items if isinstance(one, TextItem)}


def test_a_line_is_a_class_and_a_text_and_its_number_is_its_name(trec: Path) -> None:
    found = opened(trec, validation=1)
    assert ("train-1", "How far is Aspen ?", "Number") in texts(found.items)
    assert ("train-3", "What is an atom ?", "Description") in texts(found.items)
    assert texts(found.test) == {("test-1", "Who was Galileo ?", "Person"), ("test-2", "When was it ?", "Number")}


def test_a_text_that_is_examined_is_never_shown(trec: Path) -> None:
    found = opened(trec)
    examined = {one.text for one in (*found.validation, *found.test) if isinstance(one, TextItem)}
    assert not examined & {one.text for one in found.train if isinstance(one, TextItem)}
    assert len(found.validation) == 2
    assert len(found.train) + len(found.left_out) == 12 - 2
    assert len(found.train_queries) == 4
    assert set(found.train_queries) <= set(found.candidates)


def test_a_single_file_serves_all_splits(tmp_path: Path) -> None:
    rows = ["Class Index,Title,Description", *(f'{n % 4 + 1},"Title, {n}",Text "" {n}' for n in range(12))]
    write(tmp_path / "agnews" / "test.csv", rows)
    found = opened(tmp_path, "agnews", test=4)
    assert (len(found.validation), len(found.test), len(found.train)) == (2, 4, 6)
    assert len({one.id for one in found.items}) == 12
    assert ("train-2", 'Title, 1 Text "" 1', "Sports") in texts(found.items) | texts(opened(tmp_path, "agnews").items)
    assert len(opened(tmp_path, "agnews").test) == 5


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["XYZ:a What ?"], "text train-1 has the class 'XYZ'"),
        (["NUM:dist How far ?", "NUM:dist "], "text train-2 has the class 'NUM' and 0 characters"),
        (["NUM:dist How far ?"], "trec has 3 texts, too few for 2 of validation"),
    ],
)
def test_what_cannot_be_used_is_named(trec: Path, lines: list[str], said: str) -> None:
    write(trec / "trec" / "train.txt", lines)
    with pytest.raises(DatasetUnusable, match=said):
        opened(trec)


@pytest.mark.skipif(not SHARED.is_dir(), reason="the authors' files are not here")
@pytest.mark.parametrize(
    ("name", "train", "test"), [("trec", 5452, 500), ("sst2", 6920, 1821), ("agnews", 3800 + 10, 3790)]
)
def test_the_authors_files_are_read_whole(name: str, train: int, test: int) -> None:
    found = opened(SHARED, name, validation=20)
    assert len(found.test) == test
    assert len(found.train) + len(found.left_out) + 20 == train
