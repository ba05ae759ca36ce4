from __future__ import annotations

import gzip
import hashlib
import json
from pathlib import Path

import pytest

from tasks.evaluation.evaluation_errors import DataMissing, DataUnusable
from tasks.evaluation.running.benchmark_data import Data, DataFile, read_rows

FILE = DataFile(file="x.jsonl", get="Ask the authors.")


def written(folder: Path, content: bytes, name: str = "x.jsonl") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        (b'{"a": 1}\n{"a": 2}\n', [1, 2]),
        (b'{"a": 1}\r\n{"a": 2}\r\n', [1, 2]),
        (b'\xef\xbb\xbf{"a": 1}\n', [1]),
        (b'\n{"a": 1}\n\n \n{"a": 2}\n', [1, 2]),
        ('{"a": "one\u2028line\u0085still"}\n'.encode(), ["one\u2028line\u0085still"]),
        (b'{"a": "\\ud83d\\ude00"}\n', ["\N{GRINNING FACE}"]),
        (b'{"a": "half \\ud83d"}\n', ["half \ufffd"]),
        (b"", []),
    ],
    ids=["plain", "CRLF", "BOM", "blank lines", "U+2028", "pair", "lone surrogate", "empty"],
)
def test_lines_of_json_are_read_as_they_are_meant(tmp_path: Path, content: bytes, rows: list[object]) -> None:
    assert [row["a"] for row in read_rows(written(tmp_path, content))] == rows


@pytest.mark.parametrize(
    ("content", "line", "why"),
    [
        (b'{"a": 1}\n{"a": \n', 2, "not JSON"),
        (b'{"a": 1}\n\n[1]\n', 3, "expected a JSON object"),
        (b'{"a": "\xff"}\n', 1, "not UTF-8"),
        (b'{"a": NaN}\n', 1, "NaN is no JSON number"),
        (b'{"a": ' + b"[" * 200_000 + b"}\n", 1, "not JSON"),
    ],
    ids=["cut off", "a list", "bytes", "NaN", "deep"],
)
def test_a_malformed_line_is_named_with_its_file(tmp_path: Path, content: bytes, line: int, why: str) -> None:
    path = written(tmp_path, content)
    with pytest.raises(DataUnusable) as caught:
        list(read_rows(path))
    assert f"{path}, line {line}: " in str(caught.value)
    assert why in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.json", b'[{"id": 5, "q": "?"}]'),
        ("x.json", b'{"info": {}, "questions": [{"id": 5, "q": "?"}]}'),
        ("x.json", b'{"id": 5, "q": "?"}\n{"id": 6, "q": "!"}\n'),
        ("x.csv", b'\xef\xbb\xbfid,q\r\n5,"?"\r\n'),
    ],
    ids=["list", "one list in an object", "lines in .json", "csv with BOM"],
)
def test_other_formats_give_the_same_rows(tmp_path: Path, name: str, content: bytes) -> None:
    row = next(iter(read_rows(written(tmp_path, content, name))))
    assert (row.id, row["q"][0]) == ("5", "?")


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("x.json", b'{"a": [], "b": []}', "one list in it; found 2"),
        ("x.csv", b"id,q\n5\n", "line 2: it has not as many cells as the header"),
        ("x.txt", b"", "not a data file"),
        ("x.jsonl.gz", gzip.compress(b'{"a": 1}\n' * 1000)[:-20], "damaged"),
    ],
    ids=["two lists", "too few cells", "no data", "cut off"],
)
def test_a_broken_file_says_what_is_wrong(tmp_path: Path, name: str, content: bytes, why: str) -> None:
    with pytest.raises(DataUnusable, match=why):
        list(read_rows(written(tmp_path, content, name)))


def test_a_packed_file_is_the_same_data(tmp_path: Path) -> None:
    content = b'{"a": 1}\n{"a": 2}\n'
    plain, packed = tmp_path / "plain", tmp_path / "packed"
    for folder in (plain, packed):
        folder.mkdir()
    written(plain, content)
    written(packed, gzip.compress(content), "x.jsonl.gz")
    facts = [Data(folder).facts("X", [FILE]) for folder in (plain, packed)]
    assert {one.checksum for one in facts} == {hashlib.sha256(content).hexdigest()}
    assert [one.count for one in facts] == [2, 2]


def test_facts_of_several_files_change_with_each_of_them(tmp_path: Path) -> None:
    written(tmp_path, b'{"a": 1}\n')
    other = written(tmp_path, b'{"b": 1}\n{"b": 2}\n', "y.jsonl")
    files = [FILE, DataFile(file="y.jsonl")]
    before = Data(tmp_path).facts("X", files)
    other.write_bytes(b'{"b": 1}\n{"b": 3}\n')
    after = Data(tmp_path).facts("X", files)
    assert before.checksum != after.checksum
    assert (before.count, before.source) == (1, f"{tmp_path / 'x.jsonl'}, {other}")


def test_the_folder_of_the_run_goes_before_the_one_of_the_definition(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    written(tmp_path / "own", b'{"a": "own"}\n')
    file = FILE.model_copy(update={"beside": str(tmp_path / "own")})
    assert [row["a"] for row in Data(tmp_path).rows(file)] == ["own"]
    written(tmp_path, b'{"a": "given"}\n')
    assert [row["a"] for row in Data(tmp_path).rows(file)] == ["given"]


def test_missing_data_says_where_to_put_and_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(DataMissing) as caught:
        list(Data(tmp_path).rows(FILE))
    said = str(caught.value)
    assert all(
        words in said for words in ("x.jsonl", str(tmp_path), "--data-dir", "TRIVET_DATA_DIR", "Ask the authors.")
    )


def test_a_data_set_of_the_hub_is_read_by_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder stands for a data set of the hub: the client reads both alike."""
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    hub = tmp_path / "hub"
    hub.mkdir()
    for split, value in (("train", 1), ("test", 2)):
        (hub / f"{split}.jsonl").write_text(json.dumps({"id": split, "a": value, "none": None}) + "\n")
    file = DataFile(file="x.jsonl", hub=str(hub), split="test")
    (row,) = Data(None).rows(file)
    assert (row.id, row["a"]) == ("test", 2)
    assert Data(None).facts("X", [file]).count == 1


@pytest.mark.parametrize(
    ("fields", "item"),
    [
        ({"id": "a", "idx": 3}, "a"),
        ({"unique_id": "test/1.json"}, "test/1.json"),
        ({"id": None, "key": 7}, "7"),
        ({"question": "?"}, "1"),
    ],
)
def test_an_item_has_the_id_of_its_file_else_its_row_number(
    tmp_path: Path, fields: dict[str, object], item: str
) -> None:
    first = {name: "0th" for name in fields if name != "question"} or {"question": "!"}
    path = written(tmp_path, f"{json.dumps(first)}\n{json.dumps(fields)}\n".encode())
    assert list(read_rows(path))[1].id == item


@pytest.mark.parametrize(
    ("asked", "there"),
    [
        ("human-eval-x.jsonl", "human_eval_x.jsonl"),
        ("human_eval_x.jsonl", "human-eval-x.jsonl"),
        ("human-eval.jsonl.gz", "human_eval.jsonl"),
    ],
)
def test_a_name_with_dashes_is_found_with_underscores_and_the_other_way_round(
    tmp_path: Path, asked: str, there: str
) -> None:
    path = written(tmp_path, b"", there)
    assert Data(tmp_path).find(DataFile(file=asked)) == path


OPTIONAL = DataFile(file="more.jsonl", optional=True)


def test_an_optional_file_that_is_there_counts_with_its_items_and_its_content(tmp_path: Path) -> None:
    first = written(tmp_path, b'{"a": 1}\n')
    without = Data(tmp_path).facts("X", [FILE, OPTIONAL])
    more = written(tmp_path, b'{"a": 2}\n{"a": 3}\n', "more.jsonl")
    facts = Data(tmp_path).facts("X", [FILE, OPTIONAL])
    assert (without.count, facts.count, facts.source) == (1, 3, f"{first}, {more}")
    digests = [hashlib.sha256(path.read_bytes()).digest() for path in (first, more)]
    assert facts.checksum == hashlib.sha256(b"".join(digests)).hexdigest() != without.checksum
