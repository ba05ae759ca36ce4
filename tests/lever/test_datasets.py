"""Official VQA files become questions with pictures, and what cannot be used is left out with the reason."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tasks.lever.data.datasets import open_dataset
from tasks.lever.judge.demonstration_task import PromptSettings, open_task
from tasks.lever.lever_errors import DatasetUnusable, OptionUnusable
from tasks.lever.lever_records import Dataset, TextItem
from tests.lever.small_dataset import pictured
from tests.lever.vqa_folders import annotation, photograph, picture, question, read_vqa, write_coco, write_files

TEN = ["book"] * 6 + ["magazine"] * 4


def written(folder: Path, asked: list[Any], answered: list[Any], pictures: dict[str, bytes]) -> tuple[Path, Path, Path]:
    paths = folder / "questions.json", folder / "annotations.json", folder / "images"
    write_files(paths[0], paths[1], asked, answered)
    paths[2].mkdir()
    for name, data in pictures.items():
        (paths[2] / name).write_bytes(data)
    return paths


def test_a_question_comes_with_its_answers_and_its_picture(tmp_path: Path) -> None:
    paths = written(
        tmp_path, [question(5, "a b.png", "What?")], [annotation(5, "a b.png", *TEN)], {"a b.png": picture(7)}
    )
    [item] = read_vqa(*paths).items
    assert (item.id, item.image_id, item.question, item.answer_type) == ("5", "a b.png", "What?", "other")
    assert item.answers == tuple(TEN)
    assert item.shown_answer == "book"
    assert Path(item.image) == paths[2] / "a b.png"
    assert item.image_sha256 == hashlib.sha256(picture(7)).hexdigest()


@pytest.mark.parametrize(
    ("questions", "image_id", "name"),
    [
        pytest.param("OpenEnded_mscoco_train2014_questions.json", 9, "COCO_train2014_000000000009.jpg", id="COCO"),
        pytest.param("textvqa_val_questions_vqa_format.json", "003a8ae2ef43b901", "003a8ae2ef43b901.jpg", id="TextVQA"),
        pytest.param(
            "vizwiz_val_questions_vqa_format.json", "VizWiz_val_00000000.jpg", "VizWiz_val_00000000.jpg", id="VizWiz"
        ),
        pytest.param("digits_train_questions.json", 12, "digits_train_000012.png", id="digits"),
    ],
)
def test_pictures_are_found_by_the_names_that_datasets_give_them(
    tmp_path: Path, questions: str, image_id: int | str, name: str
) -> None:
    _, annotations, images = written(tmp_path, [], [annotation(1, image_id, *TEN)], {name: picture()})
    write_files(tmp_path / questions, annotations, [question(1, image_id)], [annotation(1, image_id, *TEN)])
    [item] = read_vqa(tmp_path / questions, annotations, images).items
    assert Path(item.image).name == name


LEFT_OUT = [
    pytest.param(question(2, "b"), annotation(2, "b", *TEN), "there is no picture b or b.jpg in", id="no picture"),
    pytest.param(question(2, "half"), annotation(2, "half", *TEN), "is damaged", id="photograph cut short"),
    pytest.param(question(2, "a"), annotation(2, "a"), "has no answers", id="no answers"),
    pytest.param(question(2, "a"), annotation(2, "a", "", " "), "has no answers", id="blank answers"),
    pytest.param(question(2, "a", " "), annotation(2, "a", *TEN), "its question is empty", id="empty question"),
]


@pytest.mark.parametrize(("asked", "answered", "why"), LEFT_OUT)
def test_what_cannot_be_used_is_left_out_with_the_reason(tmp_path: Path, asked: Any, answered: Any, why: str) -> None:
    pictures = {"a.png": picture(), "noise.jpg": b"noise", "cut.png": picture()[:40], "empty.png": b""}
    pictures |= {"half.jpg": photograph()[:-400], "drawn.png": picture(kind="PPM")}
    paths = written(tmp_path, [question(1, "a"), asked], [annotation(1, "a", *TEN), answered], pictures)
    read = read_vqa(*paths)
    assert [item.id for item in read.items] == ["1"]
    assert list(read.left_out) == ["2"]
    assert why in read.left_out["2"]


@pytest.fixture
def okvqa(tmp_path: Path) -> Path:
    write_coco(tmp_path, "train", range(1, 21))
    write_coco(tmp_path, "val", range(101, 111))
    return tmp_path


def opened(folder: Path, **changes: Any) -> Dataset:
    asked: dict[str, Any] = {"name": "okvqa", "train_queries": 8, "validation": 6, "test": 5} | changes
    return open_dataset(asked.pop("name"), folder, **asked)


def ids(items: Any) -> set[str]:
    return {item.id for item in items}


def test_no_question_and_no_picture_is_in_two_splits(okvqa: Path) -> None:
    found = opened(okvqa)
    splits = [pictured(split) for split in (found.train, found.validation, found.test)]
    for of in (lambda item: item.id, lambda item: item.image_id):
        parts = [{of(item) for item in split} for split in splits]
        assert len(set.union(*parts)) == sum(map(len, parts))
    assert set(found.train_queries) <= ids(found.train)


def test_ids_that_both_splits_count_from_zero_stay_apart(tmp_path: Path) -> None:
    for split in ("train", "val"):
        pairs = [(n, f"VizWiz_{split}_{n:08d}.jpg") for n in range(9)]
        write_files(
            tmp_path / f"vizwiz_{split}_questions_vqa_format.json",
            tmp_path / f"vizwiz_{split}_annotations_vqa_format.json",
            [question(*pair) for pair in pairs],
            [annotation(*pair, *TEN) for pair in pairs],
        )
        (tmp_path / split).mkdir()
        for number, name in pairs:
            (tmp_path / split / name).write_bytes(picture(number, kind="JPEG"))
    found = opened(tmp_path, name="vizwiz", validation=3, test=None)
    assert len(ids((*found.train, *found.validation, *found.test))) == 18


def test_a_dataset_that_is_not_there_is_refused(okvqa: Path) -> None:
    with pytest.raises(DatasetUnusable, match=r"no v2_OpenEnded_mscoco_train2014_questions\.json in"):
        opened(okvqa, name="vqav2")


def test_files_of_two_datasets_in_one_are_refused(okvqa: Path) -> None:
    text = (okvqa / "OpenEnded_mscoco_train2014_questions.json").read_text()
    (okvqa / "OpenEnded_mscoco_val2014_questions.json").write_text(text)
    with pytest.raises(DatasetUnusable, match="is in two splits of okvqa"):
        opened(okvqa)


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


def opened_texts(folder: Path, name: str = "trec", **chosen: Any) -> Dataset:
    usual: dict[str, Any] = {"train_queries": 4, "validation": 2, "test": None}
    return open_dataset(name, folder, **usual | chosen)


def texts(items: Any) -> set[tuple[str, str, str]]:
    return {(one.id, one.text, one.label) for one in items if isinstance(one, TextItem)}


def test_a_line_is_a_class_and_a_text_and_its_number_is_its_name(trec: Path) -> None:
    found = opened_texts(trec, validation=1)
    assert ("train-1", "How far is Aspen ?", "Number") in texts(found.items)
    assert ("train-3", "What is an atom ?", "Description") in texts(found.items)
    assert texts(found.test) == {("test-1", "Who was Galileo ?", "Person"), ("test-2", "When was it ?", "Number")}


def test_a_text_that_is_examined_is_never_shown(trec: Path) -> None:
    found = opened_texts(trec)
    examined = {one.text for one in (*found.validation, *found.test) if isinstance(one, TextItem)}
    assert not examined & {one.text for one in found.train if isinstance(one, TextItem)}
    assert len(found.validation) == 2
    assert len(found.train) + len(found.left_out) == 12 - 2
    assert len(found.train_queries) == 4
    assert set(found.train_queries) <= set(found.candidates)


def test_a_single_file_serves_all_splits(tmp_path: Path) -> None:
    rows = ["Class Index,Title,Description", *(f'{n % 4 + 1},"Title, {n}",Text "" {n}' for n in range(12))]
    write(tmp_path / "agnews" / "test.csv", rows)
    found = opened_texts(tmp_path, "agnews", test=4)
    assert (len(found.validation), len(found.test), len(found.train)) == (2, 4, 6)
    assert len({one.id for one in found.items}) == 12
    assert ("train-2", 'Title, 1 Text "" 1', "Sports") in texts(found.items) | texts(
        opened_texts(tmp_path, "agnews").items
    )
    assert len(opened_texts(tmp_path, "agnews").test) == 5


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
        opened_texts(trec)


@pytest.mark.skipif(not SHARED.is_dir(), reason="the authors' files are not here")
@pytest.mark.parametrize(
    ("name", "train", "test"), [("trec", 5452, 500), ("sst2", 6920, 1821), ("agnews", 3800 + 10, 3790)]
)
def test_the_authors_files_are_read_whole(name: str, train: int, test: int) -> None:
    found = opened_texts(SHARED, name, validation=20)
    assert len(found.test) == test
    assert len(found.train) + len(found.left_out) + 20 == train


def own(folder: Path, items: list[dict[str, Any]], **chosen: Any) -> Dataset:
    path = folder / "own.jsonl"
    path.write_text("\n".join(json.dumps(one) for one in items), "utf-8")
    sizes: dict[str, Any] = {"train_queries": 1000, "validation": 0.25, "test": None} | chosen
    return open_dataset(str(path), None, **sizes)


def test_a_dataset_of_one_s_own_is_parted_by_picture_and_judged_by_its_fields(tmp_path: Path) -> None:
    for number in range(10):
        (tmp_path / f"{number}.png").write_bytes(picture(number))
    items = [{"id": at, "image": f"{at % 10}.png", "question": f"{at}?", "answers": "yes"} for at in range(40)]
    wrong = [{"id": "gone", "image": "../x.png", "answers": ["x"]}, {"id": "blank", "image": "1.png", "answers": [" "]}]
    found = own(tmp_path, [*items, *wrong])
    assert (found.name, found.metric) == ("own", "exact")
    assert set(found.left_out) == {"gone", "blank"}
    splits = [pictured(one) for one in (found.train, found.validation, found.test)]
    assert [len(one) for one in splits] == [16, 12, 12]  # four questions to each picture
    pictures = [{item.image_sha256 for item in one} for one in splits]
    assert sum(map(len, pictures)) == len(set().union(*pictures)) == 10
    assert own(tmp_path, items[::-1]).test == found.test
    with pytest.raises(DatasetUnusable, match="0 can be used, 1 were left out; a: its `answers` or `label` is missing"):
        own(tmp_path, [{"id": "a", "image": "1.png", "answers": []}])


@pytest.mark.parametrize(
    ("fields", "metric", "right", "score"),
    [
        ({"label": "Good"}, None, "Good", 1.0),
        ({"answers": ["Seoul", "the city"]}, None, "seoul.", 1.0),
        ({"answers": ["two"] * 3 + ["3"] * 7}, None, "2", 0.9),
        ({"answers": ["abc"]}, "tests.lever.test_datasets.share_of_letters", "ab", 2 / 3),
    ],
    ids=["label", "exact", "vqa", "function"],
)
def test_texts_of_one_s_own_are_scored_as_their_fields_or_the_user_say(
    tmp_path: Path, fields: dict[str, Any], metric: str | None, right: str, score: float
) -> None:
    split = ("train", "validation", "test")
    items = [{"id": at, "text": f"text {at}", "split": split[at % 3]} | fields for at in range(9)]
    found = own(tmp_path, items, metric=metric)
    task = open_task(found, PromptSettings())
    assert task.accuracy(found.test[0], right) == pytest.approx(score)
    assert [len(one) for one in (found.train, found.validation, found.test)] == [3, 3, 3]
    prompt = task.request(found.test[0], [found.train[0]]).messages[0].content[0]
    assert task.choices == (("Good",) if "label" in fields else ())
    assert str(found.train[0].shown_answer) in str(prompt)


def share_of_letters(answer: str, answers: Sequence[str]) -> float:
    return len({*answer} & {*answers[0]}) / len(answers[0])


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ('{"id": 1, "text": "a", "answers": [{}]}', r"own.jsonl, line 1: answers.0: Input should be a valid string"),
        ('{"id": 1, "label": "a"}\n{"text": "b"}', "line 2: id: Field required"),
        ('{"id": 1, "split": "dev"}', "line 1: split: Input should be 'train', 'validation' or 'test'"),
        ('{"id": 1, "label": "a"}\n{"id": "1", "label": "b"}', "id 1 stands there twice"),
        ("nonsense", "line 1: the line: Invalid JSON"),
        ("", "holds no item"),
    ],
)
def test_a_line_that_is_no_item_is_named(tmp_path: Path, lines: str, said: str) -> None:
    (tmp_path / "own.jsonl").write_text(lines)
    with pytest.raises(DatasetUnusable, match=said):
        open_dataset(str(tmp_path / "own.jsonl"), None, train_queries=1, validation=1, test=1)


def test_numbers_and_nulls_of_tables_are_read_as_the_first_item_is(tmp_path: Path) -> None:
    items: list[dict[str, Any]] = [{"id": at, "text": f"text {at}", "label": at % 2, "image": None} for at in range(9)]
    found = own(tmp_path, [*items, {"id": 9, "text": "a", "image": "a.png", "label": 1}, {"id": 10, "answers": 1}])
    assert (found.metric, {item.shown_answer for item in found.items}) == ("label", {"0", "1"})
    assert set(found.left_out) == {"9", "10"}


def test_a_file_of_an_earlier_run_names_the_train_queries_of_one_s_own(tmp_path: Path) -> None:
    (tmp_path / "beams.json").write_text('{"3": {"id_list": [["1", "2", "3"]], "score_list": [0.5]}}')
    splits = [*["train"] * 7, "validation", "test"]
    items = [{"id": at, "text": f"text {at}", "answers": "a", "split": split} for at, split in enumerate(splits)]
    assert own(tmp_path, items, queries_of=tmp_path / "beams.json").train_queries == ("3",)


def test_a_metric_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(OptionUnusable, match=r"nowhere\.at_all cannot be imported"):
        own(tmp_path, [{"id": 1, "text": "a", "answers": "b"}], metric="nowhere.at_all")
