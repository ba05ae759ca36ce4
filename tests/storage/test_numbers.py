"""The Parquet file of an index's numbers: what is written is found again, and a user's query reaches nothing else."""

from __future__ import annotations

import csv
import hashlib
import json
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

from storage.numbers import Numbers, copy_numbers, list_numbers, query_numbers, select_numbers, write_numbers
from storage.storage_errors import QueryUnusable

NAMES = {"d1": "acme_2023.pdf", "d2": "bolt_2022.pdf"}


def row(document: str, value: str, line: str, *, year: int | None = 2023, **more: Any) -> bytes:
    period = year and {"kind": "duration", "start": None, "end": f"{year}-12-31", "label": f"FY{year}", "year": year}
    fields = {"document": document, "value": value, "shown": value, "scale": "1", "unit": "USD", "sign": "none"}
    fields |= {"period": period, "row_path": ["Income", line], "column_path": [str(year)], "page": 3}
    fields |= {"bbox": [1.5, 2, 3, 4], "table": 0, "row": 1, "col": 1}
    return json.dumps(fields | more).encode() + b"\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "numbers.parquet"
    rows = [row("d1", "12345678901234567890.123456789012", "Net sales"), row("d1", "-3", "Cost of sales", year=2022)]
    write_numbers(path, [b"".join(rows), row("d2", "0.5", "Net sales", year=None, page=None, bbox=None)])
    return path


def values(found: Numbers) -> list[Decimal]:
    return [record["value"] for record in found.records()]


def test_values_are_exact_and_rows_keep_their_order_and_fields(file: Path) -> None:
    first, second, third = select_numbers([file], NAMES).records()
    assert first["value"] == Decimal("12345678901234567890.123456789012")
    assert (first["name"], first["row_path"], first["bbox"]) == (
        "acme_2023.pdf",
        ["Income", "Net sales"],
        [1.5, 2, 3, 4],
    )
    assert (second["period"]["end"], second["period"]["label"]) == (date(2022, 12, 31), "FY2022")
    assert (third["period"], third["page"], third["bbox"]) == (None, None, None)
    assert [path.name for path in file.parent.iterdir()] == ["numbers.parquet"]


def test_filters_hold_together(file: Path) -> None:
    assert values(select_numbers([file], NAMES, line=["SALES"])) == values(select_numbers([file], NAMES))
    assert len(values(select_numbers([file], NAMES, line=["net", "sales"]))) == 2
    assert values(select_numbers([file], NAMES, line=["net"], entity=["Bolt"])) == [Decimal("0.5")]
    assert values(select_numbers([file], NAMES, years=(2021, 2022))) == [Decimal(-3)]
    assert values(select_numbers([file], NAMES, line=["%", "\0"])) == []  # a word, and no pattern


def test_the_same_rows_give_the_same_bytes(tmp_path: Path) -> None:
    rows = [row("d1", str(number), f"Line {number}") for number in range(5000)]
    digests = set()
    for name in ("a", "b"):
        write_numbers(tmp_path / name, rows)
        digests.add(hashlib.sha256((tmp_path / name).read_bytes()).hexdigest())
    assert len(digests) == 1


def test_what_is_selected_can_be_written_again(file: Path, tmp_path: Path) -> None:
    copy_numbers([file], NAMES, tmp_path / "it's some.parquet", "parquet", line=["cost"])
    found = duckdb.sql(f"""SELECT name, value FROM '{str(tmp_path / "it's some.parquet").replace("'", "''")}'""")
    assert found.fetchall() == [("acme_2023.pdf", Decimal(-3))]


def test_csv_and_json_hold_exact_values_and_whole_lists(file: Path, tmp_path: Path) -> None:
    copy_numbers([file], NAMES, tmp_path / "some.csv", "csv")
    copy_numbers([file], NAMES, tmp_path / "some.json", "json", years=(2023, 2023))
    told = json.loads((tmp_path / "some.json").read_text())
    rows = list(csv.DictReader((tmp_path / "some.csv").read_text().splitlines()))
    assert [row["value"] for row in rows] == ["12345678901234567890.123456789012", "-3", "0.5"]
    assert [json.loads(rows[1][name]) for name in ("row_path", "bbox")] == [["Income", "Cost of sales"], [1.5, 2, 3, 4]]
    assert (rows[0]["value"], rows[0]["shown"], json.loads(rows[0]["period"])) == (
        told["value"],
        told["shown"],
        told["period"],
    )
    assert (rows[2]["period"], rows[2]["page"], told["row_path"], told["period"]["end"]) == (
        "",
        "",
        ["Income", "Net sales"],
        "2023-12-31",
    )


@pytest.mark.parametrize("name", ["=1+2.pdf", "@cmd.pdf", "-cmd|' /C calc'!A0", "+a"])
def test_a_text_that_a_spreadsheet_would_work_out_stands_behind_an_apostrophe(tmp_path: Path, name: str) -> None:
    write_numbers(tmp_path / "one.parquet", [row("d1", "-7", name, shown="-7", unit=name)])
    copy_numbers([tmp_path / "one.parquet"], {"d1": name}, tmp_path / "one.csv", "csv")
    [told] = csv.DictReader((tmp_path / "one.csv").read_text().splitlines())
    assert (told["name"], told["unit"], told["shown"], told["value"]) == (f"'{name}", f"'{name}", "-7", "-7")
    assert json.loads(told["row_path"])[-1] == name


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("1234567", "1,234,567"),
        ("-1234567.5", "-1,234,567.5"),
        ("-0.25", "-0.25"),
        ("0", "0"),
        ("10.10", "10.1"),
        ("-1", "-1"),
        ("12345678901234567890", "12345678901234567890"),
    ],
)
def test_a_line_shows_the_value_in_groups_of_digits(tmp_path: Path, value: str, shown: str) -> None:
    write_numbers(tmp_path / "one.parquet", [row("d1", value, "A")])
    told = list_numbers([tmp_path / "one.parquet"], NAMES)
    assert told == [("acme_2023.pdf", "page 3", shown, "USD", "FY2023", "Income › A", "2023", "")]


def test_a_number_without_page_and_period_is_listed_with_its_table(tmp_path: Path) -> None:
    write_numbers(tmp_path / "one.parquet", [row("d1", "7", "A", page=None, year=None)])
    [told] = list_numbers([tmp_path / "one.parquet"], NAMES)
    assert (told.place, told.period) == ("table 1", "no period")


def test_a_query_sees_numbers_with_the_names_of_documents(file: Path) -> None:
    found = query_numbers([file], NAMES, "SELECT name, max(value) AS most FROM numbers GROUP BY name ORDER BY name")
    assert found.columns == ("name", "most")
    assert found.rows[1] == ("bolt_2022.pdf", Decimal("0.5"))


@pytest.mark.parametrize(
    "sql",
    [
        "DROP TABLE numbers",
        "COPY numbers TO '{folder}/out.csv'",
        "SELECT * FROM read_csv('/etc/hostname')",
        "SET enable_external_access = true",
        "SELECT nothing FROM numbers",
    ],
)
def test_a_query_that_is_no_select_or_reaches_outside_is_refused(file: Path, sql: str) -> None:
    with pytest.raises(QueryUnusable):
        query_numbers([file], NAMES, sql.format(folder=file.parent))
    assert [path.name for path in file.parent.iterdir()] == ["numbers.parquet"]
