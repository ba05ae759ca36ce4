"""Cells of several figures chosen together, by hand."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tasks.rag.answering.cell_figures import choose_cells, find_total, unit_of
from tasks.rag.numbers.cell_search import Match
from tasks.rag.numbers.line_lookup import Number
from tests.rag.numbers.test_cell_search import cell


def at(row: int, col: int, shown: str, *, label: str = "", header: str = "", table: int = 0) -> Number:
    made = cell([label], [header], shown.strip("대점"), table=table, unit="")
    return made._replace(row=row, col=col, value=Decimal(shown.strip("대점")), shown=shown)


def match(number: Number, score: float) -> Match:
    return Match(number, score, question_share=score, focus=1, labelled=1, unheld=(), certainty=1)


def test_figures_that_are_compared_stand_in_one_row_or_column() -> None:
    main = match(at(1, 1, "120"), 0.8)
    elsewhere, beside = match(at(9, 3, "70", table=1), 0.8), match(at(2, 1, "80"), 0.7)
    found = choose_cells([[main], [elsewhere, beside]], one_unit=True)
    assert found
    assert [one.number.shown for one in found.matches] == ["120", "80"]


def test_a_choice_that_another_equals_has_no_margin() -> None:
    main = match(at(1, 1, "120"), 0.8)
    two = [match(at(2, 1, "80"), 0.7), match(at(3, 1, "90"), 0.7)]
    found = choose_cells([[main], two], one_unit=False)
    assert found
    assert found.margin == 0.0
    sure = choose_cells([[main], [two[0], match(at(3, 1, "90"), 0.5)]], one_unit=False)
    assert sure
    assert sure.margin == pytest.approx(0.1)


def test_of_cells_that_fit_as_well_in_several_documents_none_is_chosen_where_none_is_named() -> None:
    here = match(at(1, 1, "120"), 0.8)
    there = match(at(1, 1, "90")._replace(document="other"), 0.75)
    assert choose_cells([[here, there]], one_unit=False, is_unnamed=True) is None
    assert choose_cells([[here, there._replace(score=0.6)]], one_unit=False, is_unnamed=True)


def test_the_unit_stands_in_the_cell_or_behind_its_label() -> None:
    assert unit_of(at(1, 1, "14대")) == "대"
    assert unit_of(at(1, 1, "6120", header="쌀 생산(톤)")) == "톤"
    assert unit_of(at(1, 1, "6120", header="쌀 생산")) == ""


def test_the_whole_of_a_share_is_the_total_of_its_column_else_of_its_row() -> None:
    part = at(1, 1, "30", label="인건비", header="2024")
    column = at(3, 1, "90", label="합계", header="2024")
    row = at(1, 4, "70", label="인건비", header="합계")
    assert find_total(part, [part, row, column]) == column
    assert find_total(part, [part, row]) == row
    assert find_total(part, [part]) is None
    smaller = at(3, 1, "20", label="합계", header="2024")
    assert find_total(part, [part, smaller]) is None
    department = at(3, 1, "40", label="총무과", header="2024")
    other = at(4, 1, "50", label="기획과", header="2024")
    assert find_total(part, [part, department, other]) is None
