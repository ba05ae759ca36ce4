"""Numbers of tables, by hand: value in whole units, unit, period, labels of row and column."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tasks.documents.blocks import Block, Cell, Page, PageStatus, Place
from tasks.rag.numbers.cell_facts import CellFact, cell_facts, read_cells

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


def test_shares_in_thousands_are_no_millions_of_the_note_around_them() -> None:
    rows = [("(shares in thousands)", "Number", "Price"), ("Outstanding", "1,204", "$ 12.10"), ("Granted", "210", "14")]
    found = facts(rows, above="Stock options (tabular amounts in millions)")
    assert [(fact.value, fact.unit) for fact in found if fact.col == 1] == [(1_204_000, "shares"), (210_000, "shares")]


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
        (Decimal(0), "−", ("Oats",), 2022),
    ]


GERMAN = [("Umsatz", "1.234,56", "2.345"), ("Kosten", "-1.200", "880-"), ("Quote", "12,5 %", "3,1%")]
SWISS = [("Rev", "1'234.50", "1’000"), ("Fees", "CHF 12'345.00", "(1'234.50)")]
FRENCH = [("Rev", "1\u202f234,5", "2\u00a0345,0"), ("Fees", "(12,5)", "–")]
INDIAN = [("Rev", "12,34,567", "1,00,000"), ("Fees", "₹ 5,67,890.50", "Nil")]
THOUSANDS = [("Rev", "1.234", "987"), ("Fees", "12.345", "45")]
NOTES = [("Note", "5,8", "27,817"), ("Cost", "12,13", "(1,234)")]
WON = [("매출액", "3조 4,120", "3조 4,120억"), ("자본금", "1조", "△880"), ("손익", "▲37", "−52")]
ARROWS = [("매출", "▲5.2", "▼3.1")]
OWN = [("Rev", "$5.2m", "(€5.2bn)"), ("Fees, £bn", "1.2", "HK$ 3")]


@pytest.mark.parametrize(
    ("rows", "above", "values"),
    [
        (GERMAN, "in Tsd. EUR", "1234560 2345000 -1200000 -880000 12.5 3.1"),
        (SWISS, "in CHF", "1234.50 1000 12345.00 -1234.50"),
        (FRENCH, "(in thousands of euros)", "1234500 2345000 -12500 0"),
        (INDIAN, "(₹ in Lakhs)", "123456700000 10000000000 56789050000 0"),
        (THOUSANDS, "", "1234 987 12345 45"),
        (NOTES, "", "27817 -1234"),
        (WON, "(단위: 억원)", "3412000000000 3412000000000 1000000000000 -88000000000 -3700000000 -5200000000"),
        (ARROWS, "", "5.2 -3.1"),
        (OWN, "$'000", "5200000 -5200000000 1200000000 3000000000"),
    ],
)
def test_numbers_are_read_as_their_country_spells_them(rows: list[tuple[str, ...]], above: str, values: str) -> None:
    found = facts([HEADER, *rows], above=above)
    assert [fact.value for fact in found] == list(map(Decimal, values.split()))


def test_a_number_that_nothing_decides_is_in_doubt() -> None:
    found = facts([HEADER, ("Rev", "1.234", "2.345")], above="in EUR k")
    assert [fact.identities[0].expected for fact in found] == [Decimal(1_234_000), Decimal(2_345_000)]


def test_columns_of_two_countries_are_read_apart() -> None:
    rows = [("x", "1.234,56", "1,234.56"), ("y", "2.345", "2,345"), ("z", "1,5", "1.5")]
    found = facts([("", "A", "B"), *rows])
    values = "1234.56 1234.56 2345 2345 1.5 1.5"
    assert [fact.value for fact in found] == list(map(Decimal, values.split()))


@pytest.mark.parametrize("head", ["$’000", "US$000", "HK$ '000", "(000s)", "천원", "in EUR k"])
def test_a_row_of_units_below_the_years_is_no_row_of_amounts(head: str) -> None:
    found = facts([HEADER, ("", head, head), ("Rev", "1,234", "5")], headers=0)
    assert [(fact.value, fact.column_path) for fact in found] == [
        (Decimal(1_234_000), ("2021", head)),
        (Decimal(5_000), ("2020", head)),
    ]


def test_what_is_counted_in_a_table_of_amounts_is_counted_one_by_one() -> None:
    rows = [("매출액", "1,234"), ("주식 수", "1,000"), ("주당이익(원)", "555"), ("직원 수", "12")]
    found = facts([("", "2021"), *rows], above="(단위: 백만원, 주, 명)")
    assert [(fact.value, fact.unit) for fact in found] == [
        (Decimal(1_234_000_000), "KRW"),
        (Decimal(1_000), "shares"),
        (Decimal(555), "KRW"),
        (Decimal(12), "people"),
    ]


@pytest.mark.parametrize(
    ("above", "names", "units"),
    [
        ("(단위: 백만달러, 천톤)", "수출액 물량", "1000000 USD, 1000 톤"),
        ("(단위: 백만원, %)", "매출액 증감률 비중", "1000000 KRW, 1 %, 1 %"),
        ("(단위: 억원, 배)", "부채 부채비율 건수", "100000000 KRW, 1 배, 1 "),
        ("(US$ million; share in %)", "Exports Share", "1000000 USD, 1 %"),
        ("(in millions, except percentages)", "Revenue Margin", "1000000 , 1 %"),
    ],
)
def test_a_list_of_units_names_those_of_shares_and_of_as_many_columns(above: str, names: str, units: str) -> None:
    found = facts([("", *names.split()), ("철강", *["34"] * len(names.split()))], above=above)
    assert ", ".join(f"{fact.scale} {fact.unit}" for fact in found) == units


def test_a_column_of_units_says_the_unit_of_each_row() -> None:
    rows = [("Revenue", "$m", "5"), ("Margin", "%", "6"), ("Coal", "tonnes", "7"), ("직원", "명", "8")]
    found = facts([("", "Unit", "2021"), *rows])
    assert [(fact.value, fact.unit) for fact in found] == [
        (Decimal(5_000_000), "USD"),
        (Decimal(6), "%"),
        (Decimal(7), "tonnes"),
        (Decimal(8), "people"),
    ]


@pytest.mark.parametrize(
    ("between", "scales"),
    [
        ("Amounts in the table above are in thousands of euros.", [1_000, 1]),
        ("(in millions)", [1, 1_000_000]),
    ],
)
def test_a_line_between_two_tables_is_of_the_one_that_it_speaks_of(between: str, scales: list[int]) -> None:
    above, below = page([HEADER, ("Rev", "5", "6")]), page([HEADER, ("Fees", "7", "8")], above=between)
    joined = above.model_copy(update={"blocks": (*above.blocks, *below.blocks)})
    assert [fact.scale for fact in cell_facts([joined], document="d" * 64)][::2] == scales


def test_a_line_below_the_last_table_states_its_unit() -> None:
    last = page([HEADER, ("Rev", "5", "6")])
    note = Block(kind="paragraph", text="All amounts in thousands of euros.")
    found = list(cell_facts([last.model_copy(update={"blocks": (*last.blocks, note)})], document="d" * 64))
    assert [(fact.value, fact.unit) for fact in found] == [(Decimal(5_000), "EUR"), (Decimal(6_000), "EUR")]


def test_a_unit_in_the_header_of_a_column_is_of_that_column() -> None:
    found = facts([("", "Units (in 000’s)", "Grant Date Value", "Term (years)"), ("Granted", "3,722", "$ 156.19", "2")])
    assert [(fact.value, fact.unit) for fact in found] == [(3_722_000, ""), (Decimal("156.19"), "USD"), (2, "")]


def paths(labels: list[tuple[str, bool]], **layout: list[float]) -> list[tuple[str, ...]]:
    """Return the path of each row; labels: with whether it has an amount. layout: indents, or edges on the page."""
    cells = [Cell(row=0, col=col, text=text, header=True) for col, text in enumerate(HEADER)]
    for at, (label, has_amount) in enumerate(labels):
        indent = layout["indents"][at] if "indents" in layout else 0
        bbox = (layout["edges"][at], 0.0, layout["edges"][at] + 9 * len(label), 9.0) if "edges" in layout else None
        cells.append(Cell(row=at + 1, col=0, text=label, indent=indent, bbox=bbox))
        cells += [Cell(row=at + 1, col=col, text=str(10 if at else 20)) for col in (1, 2) if has_amount]
    table = Block(kind="table", text="", cells=tuple(cells))
    found = cell_facts([Page(number=1, status=PageStatus.OK, blocks=(table,))], document="d" * 64)
    return [fact.row_path for fact in found if fact.col == 1]


PARTS = [("Population", True), ("Men", True), ("Women", True), ("Households", True), ("Men", True)]


def test_a_row_that_is_set_in_belongs_to_the_one_above() -> None:
    below = [("Population", "Men"), ("Population", "Women"), ("Households",), ("Households", "Men")]
    assert paths(PARTS, indents=[0, 6, 6, 0, 6])[1:] == below
    assert paths([(f"{' ' * 3 * (label in ('Men', 'Women'))}{label}", True) for label, _ in PARTS])[1:] == below


def test_on_a_page_rows_set_in_below_an_amount_are_its_parts_if_they_add_up_to_it() -> None:
    found = paths([*PARTS[:-1], ("Rooms", True)], edges=[50, 60, 60, 50, 60])
    assert found[1:] == [("Population", "Men"), ("Population", "Women"), ("Households",), ("Rooms",)]


def test_a_heading_heads_what_is_set_in_below_it_alone() -> None:
    rows = [("Assets:", False), ("Current assets:", False), ("Cash", True), ("Total current assets", True)]
    rows += [("Goodwill", True), ("Debt", True)]
    assert paths(rows, edges=[50, 60, 70, 70, 60, 50]) == [
        ("Assets", "Current assets", "Cash"),
        ("Assets", "Current assets", "Total current assets"),
        ("Assets", "Goodwill"),
        ("Debt",),
    ]


def test_rows_are_named_by_the_columns_that_tell_them_apart() -> None:
    rows = [("1", "Canada", "Men", "5"), ("2", "", "Women", "6"), ("3", "Korea", "Men", "7"), ("4", "", "Women", "8")]
    found = facts([("No.", "Country", "Sex", "Cases"), *rows])
    assert [fact.row_path for fact in found] == [
        ("Canada", "Men"),
        ("Canada", "Women"),
        ("Korea", "Men"),
        ("Korea", "Women"),
    ]


def test_a_unit_over_all_columns_heads_the_rows_below_until_the_next() -> None:
    cells = [Cell(row=0, col=col, text=text, header=True) for col, text in enumerate(HEADER)]
    for row, texts in enumerate([("", "number"), ("Men", "5", "6"), ("", "percent"), ("Men", "50", "60")], start=1):
        span = 2 if len(texts) == 2 else 1
        cells += [Cell(row=row, col=col, text=text, col_span=span if col else 1) for col, text in enumerate(texts)]
    table = Block(kind="table", text="", cells=tuple(cells))
    found = list(cell_facts([Page(number=1, status=PageStatus.OK, blocks=(table,))], document="d" * 64))
    assert [(fact.row_path, fact.unit) for fact in found[::2]] == [(("number", "Men"), ""), (("percent", "Men"), "%")]


def test_a_row_of_several_texts_heads_nothing() -> None:
    rows = [("Film", "Year", "Place"), ("Dawn", "May 5, 2020", "Seoul"), ("Dusk", "June 7, 2021", "Busan")]
    cells = read_cells([page(rows)], document="d" * 64)
    assert [cell.row_path for cell in cells] == [("Dawn",)] * 3 + [("Dusk",)] * 3
