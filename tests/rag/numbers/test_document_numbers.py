"""Numbers of whole documents: the filer's own years, terms of Korean business years, statements, tables over pages."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tasks.documents.blocks import Block, Cell, Page, PageStatus
from tasks.rag.numbers.cell_facts import CellFact, cell_facts
from tasks.rag.numbers.document_numbers import document_numbers, infer_scales
from tests.rag.numbers.test_cell_facts import page


def numbers(*pages: Page) -> list[CellFact]:
    numbered = [one.model_copy(update={"number": at}) for at, one in enumerate(pages, 1)]
    return document_numbers(numbered, document="d" * 64)


def years(*pages: Page) -> list[tuple[str, int] | None]:
    return [fact.period and (fact.period.label, fact.period.year) for fact in numbers(*pages)]


JANUARY = [("", "Year Ended January 28, 2023", "Year Ended January 29, 2022"), ("Net sales", "1,200", "1,000")]


@pytest.mark.parametrize(
    ("said", "first"),
    [
        ("Bolts of cloth are sold by the yard.", 2022),
        ("Fiscal 2022 ended on January 28, 2023.", 2022),
        ("Fiscal 2023 ended on January 28, 2023.", 2023),
        ("The year ended January 28, 2023 (“fiscal 2023”) had 52 weeks.", 2023),
        ("In fiscal 2023 we wove more, as fiscal 2023 was mild.", 2023),
        ("In fiscal 2022 we wove more, as fiscal 2022 was mild.", 2022),
    ],
)
def test_a_year_that_ends_in_january_has_the_name_that_the_filer_gives_it(said: str, first: int) -> None:
    assert years(page(JANUARY, above=said)) == [(f"FY{first}", first), (f"FY{first - 1}", first - 1)]


FLOWS = [
    ("", "December 28, 2019", "December 29, 2018"),
    ("Net cash provided by operating activities", "900", "800"),
    ("Capital expenditures", "(300)", "(200)"),
    ("Net cash used for investing activities", "(310)", "(210)"),
    ("Net cash used for financing activities", "(90)", "(80)"),
    ("Cash and cash equivalents at end of period", "1,500", "1,000"),
]
STOCK = [("", "December 28, 2019"), ("Inventories", "70")]


def test_flows_below_the_last_day_of_a_year_are_of_that_year() -> None:
    found = numbers(page(FLOWS), page(STOCK))
    assert [fact.period and fact.period.label for fact in found] == [
        *["FY2019", "FY2018"] * 4,
        "2019-12-28",
        "2018-12-29",
        "2019-12-28",
    ]
    assert found[0].period
    assert found[0].period.months == 12


def test_beside_quarters_only_cash_flows_are_of_the_year() -> None:
    quarter = [("", "Three Months Ended December 28, 2019", "Three Months Ended December 29, 2018")]
    quarters = page([*quarter, ("Net sales", "1,200", "1,000")], above="Fourth quarter")
    year = page([("", "Year Ended December 28, 2019"), ("Net sales", "4,800")])
    sales = page([("", "December 28, 2019", "December 29, 2018"), ("Net sales", "1,200", "1,000")])
    found = numbers(page(FLOWS), quarters, year, sales)
    assert found[0].period
    assert found[0].period.label == "FY2019"
    assert [one.period and one.period.kind for one in found[-2:]] == ["instant", "instant"]


@pytest.mark.parametrize(
    ("said", "header", "found"),
    [
        ("제23기 (2023. 1. 1. ~ 2023. 12. 31.)", ("제23기", "제22기"), [("제23기", 2023), ("제22기", 2022)]),
        ("제 23 기 2023.12.31 현재", ("당기", "전기"), [("제23기", 2023), ("제22기", 2022)]),
        ("제23기 (2023. 12. 31.)", ("당기말", "전전기말"), [("제23기", 2023), ("제21기", 2021)]),
        ("제23기. 사업연도 2023. 1. 1. ~ 2023. 12. 31.", ("당기", "전기"), [("제23기", 2023), ("제22기", 2022)]),
        ("제 23 기 2023년 12월 31일 현재", ("제23기", "제22기"), [("제23기", 2023), ("제22기", 2022)]),
        ("제23기 사업보고서", ("당기", "전기"), [None, None]),
        ("제23기 (2023. 12. 31.)", ("2021년", "2020년"), [("2021", 2021), ("2020", 2020)]),
    ],
)
def test_terms_of_korean_business_years(
    said: str, header: tuple[str, str], found: list[tuple[str, int] | None]
) -> None:
    assert years(page([("구분", *header), ("매출액", "1,200", "1,000")], above=said)) == found


HEAD = ("", "2021", "2020")
SALES = [("Net sales", "1,200", "1,000"), ("Cost of goods sold", "730", "600"), ("Gross profit", "470", "400")]
INCOME = [HEAD, *SALES, ("Operating income", "90", "80")]
STOCKS = [("Inventories", "120", "80"), ("Accounts payable", "90", "60"), ("Goodwill", "5", "5")]
BALANCE = [HEAD, *STOCKS, ("Total assets", "900", "800")]


@pytest.mark.parametrize(
    ("rows", "statement"),
    [
        (INCOME, "income"),
        (BALANCE, "balance"),
        (INCOME[:4], "other"),
        ([("", "2021"), ("Felt", "1"), ("Wool", "2"), ("Silk", "3"), ("Lace", "4")], "other"),
        ([("", "2023년"), ("매출액", "9"), ("매출원가", "5"), ("매출총이익", "4"), ("영업이익", "2")], "income"),
    ],
)
def test_a_table_is_the_statement_whose_lines_it_holds(rows: list[tuple[str, ...]], statement: str) -> None:
    assert {fact.statement for fact in numbers(page(rows))} == {statement}


BEGUN = page([("", "2021", "2020"), ("Looms", "5", "6")], above="(in millions of dollars)")
REST = page([("Dye vats", "7", "8"), ("Mills", "9", "4")], headers=0)


def test_a_table_that_goes_on_has_the_header_of_the_page_before() -> None:
    found = numbers(BEGUN, REST)[2:]
    assert [(one.page, one.row, one.col) for one in found] == [(2, row, col) for row in (0, 1) for col in (1, 2)]
    assert [one.column_path for one in found] == [("2021",), ("2020",)] * 2
    assert [fact.value for fact in found] == [Decimal(n) * 1_000_000 for n in (7, 8, 9, 4)]
    assert [fact.period and fact.period.year for fact in found] == [2021, 2020, 2021, 2020]


SAID = page([("Dye vats", "7", "8")], headers=0, above="Our vats are kept warm.")


def boxed(rows: list[tuple[str, ...]], right: float, *, headers: int = 0) -> Block:
    """A table whose columns end at 100, and at `right` and 50 points on."""
    edges = (100.0, right, right + 50)
    cells = tuple(
        Cell(row=row, col=col, text=text, header=row < headers, bbox=(edges[col] - 40, row, edges[col], row + 1))
        for row, texts in enumerate(rows)
        for col, text in enumerate(texts)
    )
    return Block(kind="table", text="", cells=cells)


@pytest.mark.parametrize(
    ("between", "right", "path", "year"),
    [
        pytest.param("Equity:", 202.0, ("Equity", "Capital"), 2021, id="below a heading, with its columns"),
        pytest.param("Equity:", 230.0, ("Capital",), None, id="with other columns"),
        pytest.param("The following table has more.", 200.0, ("Capital",), None, id="begun anew"),
    ],
)
def test_a_statement_goes_on_below_a_heading(
    between: str, right: float, path: tuple[str, ...], year: int | None
) -> None:
    blocks = (
        boxed([("", "2021", "2020"), ("Cash", "5", "6")], 200.0, headers=1),
        Block(kind="paragraph", text=between),
        boxed([("Capital", "7", "8")], right),
    )
    found = numbers(Page(number=1, status=PageStatus.OK, blocks=blocks))[2]
    assert (found.row_path, found.period and found.period.year) == (path, year)


STATEMENT = [("", "2021", "2020"), ("Net sales", "$ 4,822", "$ 5,260"), ("Cost of sales", "2,110", "2,430")]


@pytest.mark.parametrize(
    ("note", "scale"),
    [
        ([("", "2021", "2020"), ("Felt", "$ 1,822", "$ 260"), ("Total", "$ 4,822", "$ 5,260")], 1_000_000),
        ([("", "2021", "2020"), ("Felt", "$ 1,822", "$ 260"), ("Total", "$ 4,822", "$ 5,261")], 1),
        ([("", "2019", "2018"), ("Felt", "$ 1,822", "$ 260"), ("Total", "$ 4,822", "$ 5,260")], 1),
    ],
    ids=["two figures of the statement", "only one", "of other years"],
)
def test_a_table_has_the_scale_of_the_figures_that_it_repeats(note: list[tuple[str, ...]], scale: int) -> None:
    blocks = (*page(STATEMENT, above="(In millions)").blocks, Block(kind="paragraph", text="Sales by product"))
    own = page(note).blocks
    facts = infer_scales(cell_facts([Page(number=3, status=PageStatus.OK, blocks=(*blocks, *own))], document="d" * 64))
    assert {fact.scale for fact in facts if fact.table} == {Decimal(scale)}
    assert next(fact.value for fact in facts if fact.row_path == ("Felt",)) == 1_822 * scale
