"""The line of a part of the company, wherever a table tells which part."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tasks.rag.numbers.concepts import concepts
from tasks.rag.numbers.line_lookup import SURE, fit_of_part


def fits(of: str, row: Sequence[str], column: Sequence[str] = ("2019",)) -> bool:
    return fit_of_part(concepts()["revenue"], of, row, column) >= SURE


@pytest.mark.parametrize(
    ("row", "column"),
    [
        (["Felt net sales"], ["2019"]),
        (["Net sales", "Felt"], ["2019"]),
        (["Felt", "Net sales"], ["2019"]),
        (["Net sales"], ["Felt", "2019"]),
        (["Felt"], ["Net sales", "2019"]),
    ],
)
def test_label_heading_and_column_may_name_line_and_part(row: Sequence[str], column: Sequence[str]) -> None:
    assert fits("Felt", row, column)


@pytest.mark.parametrize("row", [["Net sales", "Rugs"], ["Felt", "Cost of sales"], ["Felt", "Rental revenue"]])
def test_another_part_or_another_line_is_not_meant(row: Sequence[str]) -> None:
    assert not fits("Felt", row)
