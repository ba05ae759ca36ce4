"""What rows must add up to, by hand."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import pytest

from tasks.rag.numbers.cell_facts import CellFact, Identity
from tasks.rag.numbers.identities import add_identities


def table(*rows: tuple[str, ...], unit: str = "USD", scale: str = "1") -> list[CellFact]:
    """Facts of a table: label and an amount for each column; an empty amount is no fact."""
    return [
        CellFact(
            document="d" * 64,
            value=Decimal(shown.replace(",", "").replace("—", "0")) * Decimal(scale),
            shown=shown,
            scale=Decimal(scale),
            unit=unit,
            sign="none",
            period=None,
            row_path=(label,),
            column_path=(),
            page=1,
            table=0,
            row=row,
            col=col,
        )
        for row, (label, *amounts) in enumerate(rows)
        for col, shown in enumerate(amounts, start=1)
        if shown
    ]


def found(*rows: tuple[str, ...], unit: str = "USD", scale: str = "1") -> dict[tuple[int, int], tuple[Identity, ...]]:
    facts = add_identities(table(*rows, unit=unit, scale=scale))
    return {(fact.row, fact.col): fact.identities for fact in facts if fact.identities}


def total(*rows: int, instead: int | None = None) -> tuple[Identity, ...]:
    """instead: what the rows give, where the total is another."""
    expected = None if instead is None else Decimal(instead)
    return (Identity(kind="total", holds=instead is None, rows=rows, expected=expected),)


def test_a_total_is_the_sum_of_the_rows_above_and_then_stands_for_them() -> None:
    assert found(
        ("Cash", "300"),
        ("Receivables", "200"),
        ("Total current assets", "500"),
        ("Plant", "900"),
        ("Goodwill", "100"),
        ("Total assets", "1,500"),
    ) == {(2, 1): total(0, 1), (5, 1): total(2, 3, 4)}


def test_a_column_that_breaks_what_others_show_is_told() -> None:
    rows = (("Product", "300", "310"), ("Service", "200", "220"), ("Total revenue", "500", "350"))
    assert found(*rows) == {(2, 1): total(0, 1), (2, 2): total(0, 1, instead=530)}


def test_gross_profit_is_a_difference() -> None:
    assert found(("Revenue", "700"), ("Cost of sales", "450"), ("Gross profit", "250")) == {(2, 1): total(0, 1)}


@pytest.mark.parametrize(("shown", "holds"), [("10.1", True), ("10.2", True), ("10.3", False)])
def test_rounding_is_half_a_unit_of_the_last_digit_for_each_number(shown: str, holds: bool) -> None:
    # 3.4 + 6.7 = 10.1; three numbers may be wrong by .05 each
    rows = (("A", "3.4", "3.4"), ("B", "6.7", "6.7"), ("Total", "10.1", shown))
    assert found(*rows, scale="1000000")[2, 2][0].holds is holds


def test_both_sides_of_a_balance_sheet_are_equal() -> None:
    rows = (("Total assets", "900"), ("Debt", "400"), ("Equity", "500"), ("Total liabilities and equity", "900"))
    held = found(*rows)[3, 1]
    assert Identity(kind="balance sheet", holds=True, rows=(0,)) in held
    broken = found(*rows[:3], ("Total liabilities and equity", "800"))[3, 1]
    assert broken == (Identity(kind="balance sheet", holds=False, rows=(0,), expected=Decimal(900)),)


def test_cash_at_the_end_is_that_at_the_beginning_and_the_change() -> None:
    rows = (
        ("Net increase in cash and cash equivalents", "-70"),
        ("Cash and cash equivalents, beginning of year", "400"),
        ("Cash and cash equivalents, end of year", "330"),
    )
    assert found(*rows)[2, 1] == (Identity(kind="cash", holds=True, rows=(1, 0)),)
    assert found(*rows[:2], ("Cash and cash equivalents, end of year", "470"))[2, 1][0].holds is False


def test_a_korean_total() -> None:
    rows = (("인건비", "1,200"), ("경비", "300"), ("소계", "1,500"), ("이윤", "100"), ("합계", "1,600"))
    assert found(*rows) == {(2, 1): total(0, 1), (4, 1): total(2, 3)}


def test_shares_and_percentages_do_not_add_up() -> None:
    assert found(("A", "60"), ("B", "40"), ("Total", "100"), unit="%") == {}


def test_totals_without_a_label_are_checked_and_are_both_sides_of_a_balance_sheet() -> None:
    facts = table(
        ("Cash", "300"), ("Plant", "600"), ("", "900"), ("Debt", "400"), ("Equity", "500"), ("", "900"), scale="1000"
    )
    heads = [("Assets",), ("Assets",), (), ("Liabilities and equity",), ("Liabilities and equity",), ()]
    paths = [(*head, *filter(None, fact.row_path)) for head, fact in zip(heads, facts, strict=True)]
    told = add_identities(fact.model_copy(update={"row_path": path}) for fact, path in zip(facts, paths, strict=True))
    assert told[2].identities == total(0, 1)
    assert told[5].identities == (*total(3, 4), Identity(kind="balance sheet", holds=True, rows=(2,)))


def test_a_balance_sheet_without_the_total_of_its_other_side() -> None:
    rows = (
        ("Total assets", "1,000"),
        ("Total liabilities", "400"),
        ("Redeemable noncontrolling interests", "50"),
        ("Total stockholders’ equity", "550"),
    )
    assert found(*rows)[0, 1] == (Identity(kind="balance sheet", holds=True, rows=(1, 2, 3)),)
    broken = found(*rows[:2], ("Total equity", "550"))[0, 1]
    assert broken == (Identity(kind="balance sheet", holds=False, rows=(1, 2), expected=Decimal(950)),)


def test_a_balance_sheet_over_two_tables() -> None:
    assets = table(("Cash", "300"), ("Total assets", "900"))
    other = [
        fact.model_copy(update={"table": 1, "page": 2})
        for fact in table(("Equity", "500"), ("Total capitalization and liabilities", "900"))
    ]
    held = Identity(kind="balance sheet", holds=True, rows=(1,), table=0)
    assert add_identities([*assets, *other])[-1].identities == (held,)
    far = [fact.model_copy(update={"page": 9}) for fact in other]
    assert add_identities([*assets, *far])[-1].identities == ()


SEGMENTS = (("Milling", "2021"), ("Weaving", "2021"), ("Eliminations", "2021"), ("Total", "2021"))


def segments(*rows: tuple[str, ...], headers: Sequence[tuple[str, ...]] = SEGMENTS) -> list[CellFact]:
    """A table whose columns have these headers."""
    return [fact.model_copy(update={"column_path": headers[fact.col - 1]}) for fact in table(*rows)]


def over_columns(facts: Sequence[CellFact]) -> dict[int, Identity]:
    """Identity over columns of each row that has one."""
    told = add_identities(facts)
    return {fact.row: one for fact in told for one in fact.identities if one.kind == "columns"}


def test_segments_and_eliminations_give_the_total_column() -> None:
    found = over_columns(
        segments(
            ("Net sales", "500", "300", "-50", "750"),
            ("Operating income", "90", "-20", "—", "70"),
            ("Depreciation", "30", "10", "5", "41"),
        )
    )
    held = Identity(kind="columns", holds=True, rows=(0,), cols=(1, 2, 3))
    assert found[0] == held
    assert found[1] == held.model_copy(update={"rows": (1,)})
    assert found[2] == Identity(kind="columns", holds=False, rows=(2,), cols=(1, 2, 3), expected=Decimal(45))


def test_one_row_that_adds_up_does_so_by_chance() -> None:
    rows = (("A", "5", "7", "2", "14"), ("B", "1", "8", "3", "40"), ("C", "9", "4", "2", "60"))
    assert over_columns(segments(*rows)) == {}
