"""Figures of an invented mill, worked by hand from a few lines of its statements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Any, cast

import pytest

from tasks.rag.answers import Draft, Short
from tasks.rag.numbers.computation_reading import read_computation
from tasks.rag.numbers.concepts import concepts
from tasks.rag.numbers.expressions import Line, find_concept
from tasks.rag.numbers.line_lookup import LEAST_SCORE, Lines, Number, number_of, score_part_label
from tasks.rag.numbers.periods import Part
from tasks.rag.numbers.working_out import work_out

NAME = "Marlow Mills 10-K"
A, B, C = "a" * 64, "b" * 64, "c" * 64
Row = dict[str, Any]


def rows(
    statement: str,
    lines: Mapping[str, Sequence[int]],
    *,
    scale: int = 1_000_000,
    months: int = 12,
    header: str = "",
    holds: bool = True,
    **same: int | str,
) -> list[Row]:
    """A table of 2019, 2018 … as storage.numbers gives it: a dict for each cell."""
    return [
        {
            "name": NAME,
            "document": A,
            "value": Decimal(amount * scale),
            "shown": f"{amount:,}" if amount >= 0 else f"({-amount:,})",
            "scale": Decimal(scale),
            "unit": "USD",
            "period": _period(2019 - at, None if statement == "balance" else months),
            "row_path": [label],
            "column_path": [*([header] if header else []), f"{2019 - at}"],
            "page": 40,
            "bbox": None,
            "table": 0,
            "row": row,
            "col": at + 1,
            "identities": [
                {"kind": "total", "holds": holds, "rows": [1], "expected": None if holds else Decimal(scale)}
            ],
            "statement": statement,
            **same,
        }
        for row, (label, amounts) in enumerate(lines.items())
        for at, amount in enumerate(amounts)
    ]


def _period(year: int, months: int | None) -> Row:
    if months is None:
        return {"kind": "instant", "start": None, "end": date(year, 12, 31), "label": f"{year}-12-31", "year": year}
    end = date(year, months, 31 if months == 12 else 30)
    label = f"FY{year}" if months == 12 else f"{months} months to {end}"
    return {"kind": "duration", "start": date(year, 1, 1), "end": end, "label": label, "year": year}


INCOME = rows("income", {"Net sales": (1_200, 1_000), "Cost of goods sold": (730, 600), "Income taxes": (21, 0)})
STOCKS = {"Inventories": (120, 80), "Accounts payable": (90, 60)}
TOTALS = {"Total current assets": (400, 300), "Total current liabilities": (160, 0)}
FLOWS = {"Net cash provided by operating activities": (260, 200), "Purchases of property and equipment": (-60, -50)}
MILL = [*INCOME, *rows("balance", STOCKS | TOTALS, table=1), *rows("cash_flow", FLOWS, table=2)]


def lines(given: Sequence[Row], documents: Sequence[str] = (A,)) -> Lines:
    return Lines(documents, lambda year: [number_of(row) for row in given if row["period"]["year"] == year])


def answer(question: str, given: Sequence[Row] = MILL) -> Draft:
    computation = read_computation(question)
    assert computation
    return work_out(computation, lines(given), documents=[NAME])


def found(said: str, given: Sequence[Row], documents: Sequence[str] = (A,), part: Part | None = None) -> Number | None:
    return lines(given, documents).find(Line(said, find_concept(said)), 2019, part or Part())


WORKED = """
Inventory turnover in FY2019? | Inventory turnover FY2019 = 730 [1] ÷ average(80 [2], 120 [3]) = 7.30
Days payable outstanding in FY2019? | = 365 × average(60 [1], 90 [2]) ÷ (730 [3] + (120 [5] − 80 [4])) = 35.55 days
Gross margin in FY2019? | Gross margin FY2019 = (1,200 [1] − 730 [2]) ÷ 1,200 [1] = 39.17%
Change in gross margin from FY2018 to FY2019? | = -0.833 percentage points, a decrease
Current ratio in FY2019? | Current ratio FY2019 = 400 [1] ÷ 160 [2] = 2.50
Free cash flow in FY2019? | Free cash flow FY2019 = 260 [1] − 60 [2] = USD 200 million
Revenue growth in FY2019? | Revenue FY2018 → FY2019 = 1,200 [1] ÷ 1,000 [2] − 1 = 20.00%
Revenue in FY2019? | Revenue FY2019 = 1,200 [1] = USD 1,200 million
Revenue in FY2019 in thousands, to one decimal? | = USD 1,200,000.0 thousand
Average inventory of FY2018 and FY2019? | = USD 100 million
What was the mill ratio in FY2019, defined as inventory / COGS? | = 120 [1] ÷ 730 [2] = 0.1644 (16.44%)
2019년 매출액은? | 매출액 FY2019 = 1,200 [1] = 1,200백만 달러
2019년 매입채무회전일수는? | = 35.55일
"""


@pytest.mark.parametrize("case", WORKED.strip().split("\n"))
def test_a_figure_with_its_formula(case: str) -> None:
    question, text = case.split(" | ")
    assert answer(question).text.endswith(text)


SEGMENTS = rows("other", {"Felt": (700, 400), "Rugs": (500, 600)}, table=9)
for row in SEGMENTS:
    row["row_path"] = ["Net sales", "Felt" if row["row"] == 0 else "Rugs"]


def with_rows(question: str, given: Sequence[Row]) -> Draft:
    computation = read_computation(question, labels=lambda: {"felt": 9, "rug": 9})
    assert computation
    return work_out(computation, lines(given), documents=[NAME], numbers=lambda: [*map(number_of, given)])


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("Felt revenue in FY2019?", "Felt revenue FY2019 = 700 [1] = USD 700 million"),
        ("Weft segment revenue in FY2019?", f"Weft segment revenue FY2019 was not found in the tables of {NAME}."),
    ],
)
def test_the_parts_of_a_company(question: str, text: str) -> None:
    assert with_rows(question, [*MILL, *SEGMENTS]).text == text


@pytest.mark.parametrize(
    ("question", "end"),
    [
        (
            "In which year was revenue highest, FY2018 or FY2019?",
            "max(1,000 [1], 1,200 [2]) = USD 1,200 million (FY2019)",
        ),
        ("Total revenue of FY2018 and FY2019 in total?", "= 1,000 [1] + 1,200 [2] = USD 2,200 million"),
        ("How much did revenue change from FY2018 to FY2019?", "= 1,200 [2] − 1,000 [1] = USD 200 million (20.00%)"),
    ],
)
def test_operations_over_lines_and_years(question: str, end: str) -> None:
    assert answer(question).text.endswith(end)


def test_another_value_in_another_document_is_said_and_makes_less_sure() -> None:
    other = rows("income", {"Net sales": (1_250,)}, document=B, name="Marlow Mills 10-K/A")
    books = [lines(MILL), lines(other, (B,))]
    computation = read_computation("Revenue in FY2019?")
    assert computation
    told = work_out(computation, lines(MILL), documents=[NAME], single_documents=books)
    assert told.text.endswith("Revenue FY2019 [1] is 1,250 in Marlow Mills 10-K/A: it may have been restated.")
    sure = answer("Revenue in FY2019?").confidence
    assert told.confidence
    assert sure
    assert told.confidence < sure


@pytest.mark.parametrize(
    ("question", "given"),
    [
        ("What glimmering did revenue make in FY2019?", MILL),
        ("Revenue in FY2019?", rows("income", {"Net sales": (1_200,)}, holds=False)),
        ("Revenue in FY2019?", rows("other", {"Net sales": (1_200,)})),
        ("Revenue in FY2019?", rows("income", {"Net sales": (1_200,)}, header="Felt")),
    ],
    ids=["unknown word", "broken sum", "other table", "part of the company"],
)
def test_doubts_lower_the_confidence(question: str, given: Sequence[Row]) -> None:
    sure, doubtful = answer("Revenue in FY2019?").confidence, answer(question, given).confidence
    assert sure
    assert doubtful
    assert doubtful < sure


def test_a_broken_sum_is_said() -> None:
    broken = rows("income", {"Net sales": (1_200,)}, holds=False)
    english, korean = answer("Revenue in FY2019?", broken).text, answer("2019년 매출액은?", broken).text
    assert english.endswith("\n[1] does not add up: the rows above give 1.")
    assert korean.endswith("\n[1]은(는) 합이 맞지 않습니다: 위 행들을 더하면 1입니다.")


def test_each_cell_is_cited_once_and_the_citations_are_numbered_on() -> None:
    told = answer("What was gross margin in FY2018 and FY2019?")
    assert "= (1,000 [1] − 600 [2]) ÷ 1,000 [1] = 40.00%\nGross margin FY2019 = (1,200 [3] − 730 [4])" in told.text
    assert [(one.n, one.document, one.digest, one.page) for one in told.citations][2:] == [
        (n, NAME, A, 40) for n in (3, 4)
    ]
    assert [one.quote for one in told.citations][1:3] == ["Cost of goods sold; 2018: 600", "Net sales; 2019: 1,200"]


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("Goodwill in FY2019?", f"Goodwill FY2019 was not found in the tables of {NAME}."),
        ("Inventory turnover in FY2018?", f"inventory FY2017 was not found in the tables of {NAME}."),
        ("2019년 영업권은?", f"영업권 FY2019: {NAME}의 표에서 찾지 못했습니다."),
        ("Current ratio in FY2018?", "Current ratio FY2018 cannot be worked out: it would divide by zero."),
        ("2018년 유동비율은?", "유동비율 FY2018: 0으로 나누게 되어 계산할 수 없습니다."),
        ("Income tax growth in FY2019?", "Income tax FY2018 → FY2019 cannot be worked out: it would divide by zero."),
        (
            "What was the loom ratio in FY2019, defined as revenue - COGS / inventory?",
            "FY2019 cannot be worked out: the formula adds what has different units; brackets may be missing.",
        ),
        ("What was the mill ratio, defined as inventory / COGS?", "inventory: the question names no year."),
        ("What was the mill ratio, defined as average inventory / COGS?", "inventory: the question names no year."),
        ("What was the change ratio, defined as change in inventory / COGS?", "inventory: the question names no year."),
        (
            "Income tax CAGR from FY2018 to FY2019?",
            "Income tax FY2018 → FY2019 cannot be worked out: "
            "a compound growth rate needs values above zero, not 0 [1] → 21 [2].",
        ),
        (
            "2018년부터 2019년까지 법인세 연평균 성장률은?",
            "법인세 FY2018 → FY2019: 연평균 성장률은 두 값이 모두 0보다 커야 합니다: 0 [1] → 21 [2].",
        ),
    ],
)
def test_without_an_input_it_abstains_and_says_why(question: str, text: str) -> None:
    told = answer(question)
    assert (told.text, told.abstained, told.citations) == (text, True, ())


@pytest.mark.parametrize(
    ("question", "amounts", "exact", "display", "scale"),
    [
        ("Revenue in FY2019?", (2_298_514, 1), "2298514000", "2,298,514", "thousand"),
        ("Average revenue of FY2018 and FY2019?", (10_647, 8_454), "9550500.0", "9,550.5", "thousand"),
        ("Average revenue of FY2018 and FY2019 in millions?", (10_647, 8_454), "9550500.0", "9.55", "million"),
        ("Growth of revenue from FY2018 to FY2019?", (1_000_017, 1_000_000), "0.001700", "0.00170", "percent"),
    ],
    ids=["source", "more decimals", "asked scale", "small quotient"],
)
def test_a_value_keeps_the_digits_and_the_scale_of_its_source(
    question: str, amounts: tuple[int, int], exact: str, display: str, scale: str
) -> None:
    draft = answer(question, rows("income", {"Net sales": amounts}, scale=1_000))
    assert draft.value
    assert draft.short == Short(values=(display,), scale=cast("Any", scale))
    assert (Decimal(draft.value.exact), draft.value.display) == (Decimal(exact), display)
    assert display in draft.text


def test_inputs_of_several_scales_are_told_with_theirs() -> None:
    small = rows("balance", {"Inventories": (240_000,)}, table=1, scale=1_000)
    told = answer("FY2019 stock share in percent, that is, inventory / revenue?", [*INCOME, *small])
    assert told.text.endswith(" = 240,000 thousand [1] ÷ 1,200 million [2] = 20.00%")


SEGMENT = rows("other", {"Net sales": (500,)}, table=7)
PRIMARY = rows("income", {"Net sales": (1_200,), "Cost of goods sold": (730,)})


@pytest.mark.parametrize(
    ("given", "documents", "value"),
    [
        ([*SEGMENT, *PRIMARY], (A,), 1_200),
        ([*rows("income", {"Net sales": (500,)}, table=7, header="Felt"), *PRIMARY], (A,), 1_200),
        ([*rows("income", {"Net sales": (500,)}, holds=False), *rows("income", {"Net sales": (7,)}, table=7)], (A,), 7),
        ([*rows("income", {"Net sales": (45,)}, unit="%"), *SEGMENT], (A,), 500),
        ([*PRIMARY, *rows("income", {"Net sales": (9,)}, document=B)], (B, C, A), 9),
        ([*rows("income", {"Net sales": (300,)}, months=6), *SEGMENT], (A,), 500),
        (rows("income", {"Deferred revenue": (5,), "Cost of sales": (6,)}), (A,), None),
    ],
    ids=["statement", "part of the company", "broken sum", "share", "first document", "half a year", "other lines"],
)
def test_the_cell_that_a_line_means(given: Sequence[Row], documents: Sequence[str], value: int | None) -> None:
    number = found("net sales", given, documents)
    assert (number and number.value / number.scale) == value


def test_a_line_that_the_statement_lacks_is_worked_out_from_it_before_another_table_is_asked() -> None:
    sheet = rows("balance", {"Total assets": (900,), "Total equity": (300,)})
    investee = rows("balance", {"Total liabilities": (47_876,)}, scale=1, table=9)
    computation = read_computation("What were total liabilities in FY2019?")
    assert computation
    draft = work_out(computation, lines([*sheet, *investee]), documents=[NAME], statements=lines(sheet))
    assert draft.text == "Total liabilities FY2019 = 900 [1] − 300 [2] = USD 600 million"
    alone = work_out(computation, lines(investee), documents=[NAME], statements=lines(()))
    assert alone.text == "Total liabilities FY2019 = 47,876 [1] = USD 47,876"


def test_a_figure_of_a_spreadsheet_is_cited_with_its_cell() -> None:
    given = [{**row, "page": None, "cells": "Sheet 'Mill', C2"} for row in INCOME]

    cited = answer("Revenue in FY2019?", given).citations

    assert [citation.place.cells for citation in cited] == ["Sheet 'Mill', C2"]


def fits(of: str, row: Sequence[str], column: Sequence[str] = ("2019",)) -> bool:
    return score_part_label(concepts()["revenue"], of, row, column) >= LEAST_SCORE


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
