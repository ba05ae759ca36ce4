"""Tables kept as text, in the encodings and with the delimiters that offices use."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.documents.blocks import Block, Document
from tasks.documents.document_errors import CorruptDocument
from tasks.documents.document_readers import ReadOptions
from tasks.documents.formats import sniff
from tasks.documents.sheets import csv_reader
from tasks.documents.sheets.csv_reader import detect_delimiter, open_csv

TABLE = "부서,2023,2024\n총무과,1200,1350\n기획과,868,450\n"


def read(folder: Path, data: bytes, name: str = "a.csv") -> Document:
    path = folder / name
    path.write_bytes(data)
    assert sniff(path).format == "csv"
    reader = open_csv(path, password=None, options=ReadOptions())
    return Document(**reader.header.model_dump(exclude={"page_count"}), pages=tuple(reader.pages()))


def table(document: Document) -> Block:
    ((block,),) = ([block for block in page.blocks if block.kind == "table"] for page in document.pages)
    return block


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp949", "utf-16"])
def test_korean_tables_are_read_in_any_encoding(tmp_path: Path, encoding: str) -> None:
    block = table(read(tmp_path, TABLE.encode(encoding)))
    assert block.text == "부서 | 2023 | 2024\n총무과 | 1200 | 1350\n기획과 | 868 | 450"
    assert block.place.cells == "A1:C3"
    assert [cell.header for cell in block.cells[:4]] == [True, True, True, False]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (TABLE, ","),
        (TABLE.replace(",", "\t"), "\t"),
        (TABLE.replace(",", ";"), ";"),
        (TABLE.replace(",", "|"), "|"),
        ('이름;금액\n"가;나";1,5\n다;2,5\n', ";"),
        ("한 줄\n두 줄\n", ","),
    ],
    ids=["comma", "tab", "semicolon", "bar", "decimal commas", "one column"],
)
def test_the_delimiter_is_the_one_that_fits(text: str, expected: str) -> None:
    assert detect_delimiter(text) == expected


def test_quoted_fields_keep_delimiters_and_lines_and_must_end(tmp_path: Path) -> None:
    block = table(read(tmp_path, '항목,금액\n"도로, 다리\n보수","1,200"\n'.encode()))
    assert [cell.text for cell in block.cells] == ["항목", "금액", "도로, 다리\n보수", "1,200"]
    with pytest.raises(CorruptDocument, match="its quotes may not be closed"):
        read(tmp_path, b'a,b\n1,"open\n' + b"x,1\n" * 300_000)


def test_a_long_table_is_cut_with_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_reader, "MOST_CELLS", 10)
    document = read(tmp_path, b"a,b\n" + b"1,2\n" * 10)
    assert len(table(document).cells) == 10
    assert document.notes == ("Only rows up to 5 were read, as the file has more than 10 cells; split it.",)
    assert read(tmp_path, b",".join([b"1"] * 11)).notes[0].startswith("Only rows up to 0 were read")
