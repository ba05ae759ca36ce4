"""Numbers of tables, by hand: value in whole units, unit, period, labels of row and column."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tasks.documents.blocks import Block, Cell, Page, PageStatus, Place
from tasks.rag.numbers.cell_facts import CellFact, cell_facts

HEADER = ("", "2021", "2020")


def page(rows: list[tuple[str, ...]], *, above: str = "", headers: int = 1) -> Page:
    cells = tuple(
        Cell(row=row, col=col, text=text, header=row < headers)
        for row, texts in enumerate(rows)
        for col, text in enumerate(texts)
    )
    said = [Block(kind="paragraph", text=above)] if above else []
    return Page(number=3, status=PageStatus.OK, blocks=(*said, Block(kind="table", text="", cells=cells)))


def facts(rows: list[tuple[str, ...]], *, above: str = "", headers: int = 1) -> list[CellFact]:
    return list(cell_facts([page(rows, above=above, headers=headers)], document="d" * 64))


def test_a_statement_in_millions() -> None:
    found = facts(
        [
            ("", "Years Ended", ""),
            ("", "December 3, 2021", "November 27, 2020"),
            ("Net income", "$ 4,822", "$ 5,260"),
            ("Other", "(4)", "—"),
            ("Net income per share", "$ 10.10", "$ 10.94"),
            ("Shares used to compute it", "477", "481"),
            ("Gross margin", "88 %", "87 %"),
        ],
        above="(In millions, except per share data)",
        headers=2,
    )
    assert [(fact.value, fact.unit, fact.sign) for fact in found] == [
        (Decimal(4_822_000_000), "USD", "none"),
        (Decimal(5_260_000_000), "USD", "none"),
        (Decimal(-4_000_000), "USD", "parentheses"),
        (Decimal(0), "USD", "none"),
        (Decimal("10.10"), "USD", "none"),
        (Decimal("10.94"), "USD", "none"),
        (Decimal(477_000_000), "shares", "none"),
        (Decimal(481_000_000), "shares", "none"),
        (Decimal(88), "%", "none"),
        (Decimal(87), "%", "none"),
    ]
    assert [fact.period.label for fact in found[:2] if fact.period] == ["FY2021", "FY2020"]
    assert found[0].column_path == ("Years Ended", "December 3, 2021")
    assert (found[0].page, found[0].table, found[0].row, found[0].col) == (3, 0, 2, 1)
    assert found[0].shown == "$ 4,822"


def test_rows_without_amounts_head_those_below_until_the_total() -> None:
    found = facts(
        [
            HEADER,
            ("ASSETS", "", ""),
            ("Current assets:", "", ""),
            ("Cash", "5", "6"),
            ("Total current assets", "5", "6"),
            ("Goodwill", "7", "8"),
            ("Liabilities", "", ""),
            ("Debt", "1", "2"),
        ]
    )
    assert [fact.row_path for fact in found[::2]] == [
        ("ASSETS", "Current assets", "Cash"),
        ("ASSETS", "Current assets", "Total current assets"),
        ("Goodwill",),
        ("Liabilities", "Debt"),
    ]


def test_a_sign_in_a_column_of_its_own_holds_for_the_amounts_below() -> None:
    rows = [("", "2021", "", "2020", ""), ("Rent", "$", "47", "$", "64"), ("Power", "", "2", "", "3")]
    found = facts([*rows, ("Number of flats", "", "9", "", "8")])
    assert [(int(fact.value), fact.unit) for fact in found] == [
        *((47, "USD"), (64, "USD")),
        *((2, "USD"), (3, "USD")),
        *((9, ""), (8, "")),
    ]
    assert [fact.period.label for fact in found[:2] if fact.period] == ["2021", "2020"]


def test_a_korean_budget() -> None:
    found = facts(
        [("구분", "2023년", "2024년"), ("인건비", "1,234", "△56"), ("합계", "1,290", "70")], above="(단위: 백만원)"
    )
    assert [(fact.value, fact.unit, fact.sign) for fact in found[:2]] == [
        (Decimal(1_234_000_000), "KRW", "none"),
        (Decimal(-56_000_000), "KRW", "minus"),
    ]
    assert [fact.period.label for fact in found[:2] if fact.period] == ["2023", "2024"]


@pytest.mark.parametrize("text", ["2021", "May 5, 2020", "see Note 3", "", "A-12", "3 of 4", "12/31/2020"])
def test_what_is_no_amount(text: str) -> None:
    assert [fact.shown for fact in facts([HEADER, ("Matter", text, "7")])] == ["7"]


def test_footnote_marks_are_neither_numbers_nor_part_of_one() -> None:
    found = facts([("", "Feet", "Note", "Use"), ("A", "1,500 (2)", "(5)", "9"), ("B", "700*", "(6)", "8")])
    assert [fact.value for fact in found] == [Decimal(1500), Decimal(9), Decimal(700), Decimal(8)]


def test_an_open_bracket_is_negative_without_the_one_that_closes_it() -> None:
    [loss, _] = facts([HEADER, ("Loss", "(10,254", "7")])
    assert (loss.value, loss.sign) == (Decimal(-10_254), "parentheses")


LONG = "Our leases are described in an earlier paragraph, which is longer than any title of a table would ever be."


@pytest.mark.parametrize(
    ("above", "label"),
    [
        (["Maturities as of December 31, 2018 are as follows:"], "2018-12-31"),
        (["Maturities as of December 31, 2018", "(in millions)"], "2018-12-31"),
        (["Purchases in 2018 and 2017 were:"], None),
        (["As of December 31, 2018", LONG], None),
    ],
)
def test_a_table_without_periods_is_of_the_one_that_introduces_it(above: list[str], label: str | None) -> None:
    rows = page([("", "Leases", "Debt"), ("Thereafter", "5", "6")])
    said = tuple(Block(kind="paragraph", text=text) for text in above)
    found = list(cell_facts([rows.model_copy(update={"blocks": (*said, *rows.blocks)})], document="d" * 64))
    assert [fact.period and fact.period.label for fact in found] == [label, label]


def test_a_year_in_a_heading_of_rows_is_theirs() -> None:
    found = facts([("", "High", "Low"), ("Fiscal 2015:", "", ""), ("First Quarter", "79.10", "69.99")])
    assert [fact.period and fact.period.label for fact in found] == ["FY2015", "FY2015"]


def test_per_share_said_in_a_heading_is_of_basic_and_of_amounts_to_the_cent() -> None:
    found = facts(
        [
            HEADER,
            ("Net income per share:", "", ""),
            ("Basic", "$ 10.94", "$ 6"),
            ("Continuing operations", "$ 9.10", "$ 5.00"),
            ("Net income", "$ 5,260", "$ 2,951"),
            ("Weighted-average shares:", "", ""),
            ("Diluted", "485", "492"),
        ],
        above="(in millions, except per share amounts)",
    )
    assert [(fact.value, fact.unit) for fact in found[::2]] == [
        (Decimal("10.94"), "USD"),
        (Decimal("9.10"), "USD"),
        (Decimal(5_260_000_000), "USD"),
        (Decimal(485_000_000), "shares"),
    ]
    assert found[1].value == 6


def test_a_label_that_goes_on_in_the_row_below_is_one() -> None:
    found = facts(
        [
            HEADER,
            ("Financial position:", "", ""),
            ("Cash and short-term", "", ""),
            ("investments", "5", "6"),
            ("Shares used to compute net income", "481", "486"),
            ("per share", "", ""),
            ("Total assets", "7", "8"),
        ]
    )
    assert [fact.row_path for fact in found[::2]] == [
        ("Financial position", "Cash and short-term investments"),
        ("Financial position", "Shares used to compute net income per share"),
        ("Financial position", "Total assets"),
    ]
    assert found[2].unit == "shares"


def test_a_day_without_its_year_above_the_table_is_that_of_its_years() -> None:
    found = facts([HEADER, ("Net sales", "5", "6")], above="Quarters Ended June 30,")
    assert found[0].period
    assert found[0].period.label == "3 months to 2021-06-30"


def labels(found: list[CellFact]) -> list[str | None]:
    return [fact.period and fact.period.label for fact in found]


def test_what_stands_between_two_balances_is_of_the_time_between_them() -> None:
    found = facts(
        [
            ("", "Common Stock", "Total"),
            ("Balance at December 31, 2020", "5", "9"),
            ("Net income", "1", "2"),
            ("Balance at December 31, 2021", "6", "11"),
            ("Dividends", "—", "(1)"),
            ("Balances as of March 31, 2022", "6", "10"),
            ("Later", "7", "7"),
        ]
    )
    assert labels(found[::2]) == ["2020-12-31", "FY2021", "2021-12-31", "3 months to 2022-03-31", "2022-03-31", None]
    assert found[2].period
    assert (str(found[2].period.start), str(found[2].period.end)) == ("2021-01-01", "2021-12-31")


def test_periods_above_a_table_are_of_groups_of_columns() -> None:
    rows = [("", "EBIT", "EPS", "EBIT", "EPS"), ("As reported", "8", "5", "9", "7")]
    above = "Twelve Months Ended June 30, 2022 Twelve Months Ended June 30, 2023"
    assert labels(facts(rows, above=above)) == ["FY2022", "FY2022", "FY2023", "FY2023"]
    uneven = [("", "EBIT", "EPS", "EBIT"), ("As reported", "8", "5", "9")]
    assert labels(facts(uneven, above=above)) == [None] * 3


def test_a_column_from_percent_to_percent_is_of_percentages() -> None:
    amounts = [("Sales", "$ 5", "18 %"), ("Costs", "4", "12"), ("Life in years", "", "6"), ("Income", "$ 1", "97 %")]
    rows = [("", "2021", "Rate"), *amounts]
    rates = [(fact.value, fact.unit) for fact in facts(rows) if fact.col == 2]
    assert rates == [(Decimal(18), "%"), (Decimal(12), "%"), (Decimal(6), ""), (Decimal(97), "%")]


def test_a_number_of_a_spreadsheet_names_its_cell() -> None:
    cells = tuple(
        Cell(row=row, col=col, text=text, header=row == 0)
        for row, texts in enumerate([HEADER, ("Sales", "7", "5")])
        for col, text in enumerate(texts)
    )
    table = Block(kind="table", text="", cells=cells, place=Place(cells="Sheet 'May', B3:D4"))

    found = cell_facts([Page(number=None, status=PageStatus.OK, blocks=(table,))], document="d" * 64)

    assert [(fact.shown, fact.cells) for fact in found] == [("7", "Sheet 'May', C4"), ("5", "Sheet 'May', D4")]


def test_stores_are_counted_one_by_one_in_a_table_in_thousands() -> None:
    rows = [("Region", "Stores", "Selling space"), ("Alder Coast", "21", "31.2"), ("Stores", "22", "33")]
    found = facts(rows, above="Selling space is in thousands of square meters.")
    assert [fact.value for fact in found] == [Decimal(21), Decimal(31_200), Decimal(22), Decimal(33)]
    assert facts([("", "Stores (in thousands)"), ("All", "2")])[0].value == Decimal(2_000)


def test_an_amount_of_a_notice_stands_between_its_word_and_its_tax() -> None:
    said = ("금 728,000,000원 (부가가치세 포함)", "일금 3,000,000원(VAT 별도)", "금요일 3회")
    found = facts([("구분", "내용"), *(("사업 예산", text) for text in said)])
    assert [(fact.value, fact.unit) for fact in found] == [(728_000_000, "KRW"), (3_000_000, "KRW")]


def test_a_heading_goes_on_to_its_own_total() -> None:
    found = facts(
        [
            ("", "2021", "2020"),
            ("Revenues", "", ""),
            ("Felt", "$ 70", "$ 60"),
            ("Total Marlow brand", "70", "60"),
            ("Wool", "30", "20"),
            ("Total revenues", "$ 100", "$ 80"),
            ("Employees", "12", "11"),
        ]
    )
    assert [fact.row_path for fact in found[::2]] == [
        ("Revenues", "Felt"),
        ("Revenues", "Total Marlow brand"),
        ("Revenues", "Wool"),
        ("Revenues", "Total revenues"),
        ("Employees",),
    ]


def test_quarters_below_their_year_are_quarters_of_it() -> None:
    found = facts(
        [
            ("", "", "Year Ended December 31, 2021", ""),
            ("", "First", "Second", "Third"),
            ("", "Quarter", "Quarter", "Quarter (1)"),
            ("Net sales", "$ 70", "$ 60", "$ 50"),
            ("", "", "Year Ended December 31, 2020", ""),
            ("", "First", "Second", "Third"),
            ("", "Quarter", "Quarter", "Quarter"),
            ("Net sales", "$ 40", "$ 30", "$ 20"),
        ],
        headers=3,
    )
    assert [fact.period.label for fact in found if fact.period] == [
        f"Q{quarter} {year}" for year in (2021, 2020) for quarter in (1, 2, 3)
    ]


def test_parts_that_are_named_alike_are_parts_of_the_row_above_them() -> None:
    rows = [
        ("", "2024"),
        ("가구", "30"),
        ("수도권", "20"),
        ("그 외", "10"),
        ("청년가구", "9"),
        ("수도권", "6"),
        ("그 외", "3"),
    ]
    assert [fact.row_path for fact in facts(rows)] == [
        ("가구",),
        ("가구", "수도권"),
        ("가구", "그 외"),
        ("청년가구",),
        ("청년가구", "수도권"),
        ("청년가구", "그 외"),
    ]


def test_marks_of_notes_are_no_part_of_numbers_years_and_labels() -> None:
    rows = [
        ("Crop", "2021¹", "2022²"),
        ("Barley¹", "1,240³", "48½"),
        ("Rye^(주1)", "10⁹", "12%¹,²"),
        ("Oats", "10³", "−"),
    ]
    note = Block(kind="note", text="³ Estimate.")
    table = page(rows)
    found = list(cell_facts([table.model_copy(update={"blocks": (*table.blocks, note)})], document="d" * 64))
    assert [(fact.value, fact.shown, fact.row_path, fact.period and fact.period.year) for fact in found] == [
        (Decimal(1240), "1,240", ("Barley",), 2021),
        (Decimal("48.5"), "48½", ("Barley",), 2022),
        (Decimal(10**9), "10⁹", ("Rye",), 2021),
        (Decimal(12), "12%", ("Rye",), 2022),
        (Decimal(10), "10", ("Oats",), 2021),  # as the page has a note 3
    ]
