"""Two filings of an invented mill, and what their statements say of one year."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tasks.rag.numbers.line_lookup import compare
from tests.rag.numbers.test_working_out import A, B, Row, rows

LATER = "Marlow Mills 10-K 2020"


def compared(later: Sequence[Row], earlier: Sequence[Row] | None = None) -> tuple[int, list[tuple[str, str, str]]]:
    """Count, and of each restated line its label and both amounts."""
    earlier = earlier or rows("income", {"Net sales": (1_200, 1_000), "Income taxes": (21, 18)})
    found = compare([*earlier, *later], {A: "marlow", B: "marlow"})
    told = [(one.row_path[-1], one.shown, other.shown) for one, other in found.restated]
    return found.lines, told


def test_another_value_of_the_same_line_and_year_is_restated() -> None:
    later = rows("income", {"Net Sales": (1_250, 1_000)}, document=B, name=LATER)
    assert compared(later) == (2, [("Net sales", "1,200", "1,250")])


def test_rounding_of_the_coarser_table_is_none() -> None:
    later = rows("income", {"Net sales": (1_200_400, 999_700)}, scale=1_000, document=B, name=LATER)
    assert compared(later) == (2, [])


def test_a_line_that_stands_twice_agrees_where_one_of_them_does() -> None:
    later = rows("income", {"Net sales": (700, 600)}, document=B, name=LATER)
    assert compared([*later, *rows("income", {"Net sales": (1_200, 1_000)}, document=B, name=LATER)]) == (2, [])


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(rows("balance", {"Net sales": (9, 8)}, document=B, name=LATER), id="statement"),
        pytest.param(rows("income", {"Net sales": (9, 8)}, months=6, document=B, name=LATER), id="period"),
        pytest.param(rows("income", {"Net sales": (9, 8)}, header="Felt", document=B, name=LATER), id="segment"),
        pytest.param(rows("income", {"Net sales": (9, 8)}, unit="shares", document=B, name=LATER), id="unit"),
        pytest.param(rows("income", {"Net sales": (9, 8)}, document="c" * 64, name=LATER), id="entity"),
    ],
)
def test_what_is_of_something_else_is_not_compared(other: Sequence[Row]) -> None:
    assert compared(other) == (0, [])
