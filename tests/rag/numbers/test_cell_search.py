"""Cells of an invented company's tables, found by questions in words of their own."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from decimal import Decimal

import pytest

from tasks.language.sentences import language_of
from tasks.language.tokens import BIGRAM
from tasks.rag.answering.cell_lookup import answer_of, confidence_of
from tasks.rag.answering.question_reading import read_cell_question
from tasks.rag.answers import Draft
from tasks.rag.numbers.cell_search import CellMatch, CellQuestion, Context, compare_cells, rank_cells
from tasks.rag.numbers.identities import Broken
from tasks.rag.numbers.line_lookup import UNDATED, Number
from tasks.rag.numbers.periods import Period

DOCUMENT = "a" * 64


def year(of: int) -> Period:
    return Period(kind="duration", start=date(of, 1, 1), end=date(of, 12, 31), year=of, label=f"FY{of}")


def cell(
    row: Sequence[str],
    column: Sequence[str],
    shown: str,
    *,
    period: Period = UNDATED,
    unit: str = "USD",
    table: int = 0,
    broken: Broken | None = None,
) -> Number:
    return Number(
        name="marlow.pdf",
        document=DOCUMENT,
        value=Decimal(shown.strip("()").replace(",", "")) * 1_000_000,
        shown=shown,
        scale=Decimal(1_000_000) if unit in ("USD", "KRW") else Decimal(1),
        unit=unit,
        period=period,
        row_path=tuple(row),
        column_path=tuple(column),
        page=7,
        bbox=(10.0, 20.0, 30.0, 40.0),
        table=table,
        row=0,
        col=1,
        statement="other",
        broken=broken,
    )


def yearly(row: Sequence[str], *, table: int = 0, **amounts: str) -> list[Number]:
    """A row of several years: y2019="5" …"""
    return [
        cell(row, ["Years Ended December 31,", of[1:]], shown, period=year(int(of[1:])), table=table)
        for of, shown in amounts.items()
    ]


def read(question: str) -> CellQuestion:
    asked = read_cell_question(question, tokenizer=BIGRAM, names=["Marlow"])
    assert asked is not None
    return asked


def find(question: str, numbers: Sequence[Number], *, around: str = "") -> CellMatch:
    asked = read(question)
    found = compare_cells(rank_cells(asked, numbers, tokenizer=BIGRAM, context=lambda _: Context(around)))
    assert found is not None
    return found


def answer(question: str, numbers: Sequence[Number]) -> Draft | None:
    return answer_of(find(question, numbers), read(question), is_named=True, language=language_of(question))


SEGMENTS = [
    *yearly(["Operating income", "Milling"], y2018="40", y2019="44"),
    *yearly(["Operating income", "Weaving"], y2018="10", y2019="12"),
    *yearly(["Net sales", "Weaving"], y2018="90", y2019="95"),
    *yearly(["Operating income", "Total"], y2018="50", y2019="56"),
]


@pytest.mark.parametrize(
    ("question", "shown"),
    [
        ("How much operating income did Weaving earn for Marlow in 2019?", "12"),
        ("What net sales did the Weaving segment of Marlow bring in for 2018?", "90"),
        ("What was Marlow's total operating income in 2018?", "50"),
    ],
)
def test_the_segment_the_line_and_the_year_are_all_held_by_the_cell(question: str, shown: str) -> None:
    assert find(question, SEGMENTS).best.number.shown == shown


def test_without_a_year_the_last_one_of_the_line_is_meant() -> None:
    assert find("What is the operating income of Marlow's Milling?", SEGMENTS).best.number.shown == "44"


COUNTRIES = [
    cell(["Japan"], ["Leased"], "8", unit=""),
    cell(["Japan"], ["Total"], "26", unit=""),
    cell(["Korea"], ["Leased"], "5", unit=""),
    cell(["Korea"], ["Total"], "15", unit=""),
]


def test_a_part_that_is_named_is_meant() -> None:
    found = find("How many leased warehouses does Marlow run in Japan?", COUNTRIES, around="Warehouses")
    assert found.best.number.shown == "8"


def test_the_beginning_of_a_year_is_not_its_end() -> None:
    numbers = [
        *yearly(["Unrecognized tax benefits, beginning of year"], y2019="7"),
        *yearly(["Unrecognized tax benefits, end of year"], y2019="9"),
    ]
    assert (
        find("What unrecognized tax benefits did Marlow have at the beginning of 2019?", numbers).best.number.shown
        == "7"
    )
    assert find("What unrecognized tax benefits did Marlow have in 2019?", numbers).best.number.shown == "9"


def test_a_change_is_no_figure() -> None:
    numbers = [
        cell(["Paid memberships"], ["Change", "2019 vs. 2018"], "14", period=year(2019), unit=""),
        cell(["Paid memberships"], ["2019"], "41", period=year(2019), unit=""),
    ]
    assert find("How many paid memberships did Marlow count in 2019?", numbers).best.number.shown == "41"


def test_a_name_that_nothing_holds_takes_confidence() -> None:
    held = find("What net sales did Marlow's Weaving segment make in 2019?", SEGMENTS)
    unheld = find("What net sales did Marlow make in Brazil in 2019?", SEGMENTS)
    assert confidence_of(unheld, is_named=True) < 0.5 < confidence_of(held, is_named=True)


BROKEN = Broken("total", Decimal(4_500_000))


def test_a_cell_of_a_broken_sum_says_so() -> None:
    told = answer("What is the goodwill?", [cell(["Goodwill"], ["Total"], "5", broken=BROKEN)])
    assert told
    assert told.text.endswith("[1]\n[1] does not add up: the rows above give 4.5.")


def test_the_answer_shows_line_period_figure_and_the_box_of_the_cell() -> None:
    draft = answer("How much operating income did Weaving earn in 2019?", SEGMENTS)
    assert draft is not None
    assert draft.text == "Operating income › Weaving FY2019 = USD 12 million [1]"
    assert draft.citations[0].bbox == (10.0, 20.0, 30.0, 40.0)
    assert draft.citations[0].quote == "Operating income › Weaving; Years Ended December 31, 2019: 12"


KOREAN = [
    cell(["교통신호", "유지보수비"], ["금액"], "320", unit="KRW"),
    cell(["교통신호", "설치비"], ["금액"], "1,450", unit="KRW"),
    cell(["총 사업비"], ["국비"], "700", unit="KRW"),
    cell(["총 사업비"], ["도비"], "300", unit="KRW"),
    cell(["총 사업비"], ["합계"], "1,000", unit="KRW"),
]


@pytest.mark.parametrize(
    ("question", "shown"),
    [
        ("교통신호 유지보수비는 얼마인가?", "320"),
        ("총 사업비 중 국비는 얼마인가?", "700"),
        ("총사업비는 얼마인가?", "1,000"),
    ],
)
def test_korean_words_are_found_with_particles_and_spaces(question: str, shown: str) -> None:
    found = find(question, KOREAN)
    assert found.best.number.shown == shown


def test_a_korean_answer_shows_scale_and_currency() -> None:
    draft = answer("교통신호 유지보수비는 얼마인가?", KOREAN)
    assert draft is not None
    assert draft.text == "교통신호 › 유지보수비 = 320백만 원 [1]"


def test_a_business_term_is_the_period_of_that_name() -> None:
    terms = [
        cell(
            ["재고자산"],
            [f"제{term}기"],
            shown,
            unit="KRW",
            period=Period(kind="none", year=2000 + term, label=f"제{term}기"),
        )
        for term, shown in ((22, "60"), (23, "63"))
    ]
    assert find("제22기 재고자산은 얼마인가?", terms).best.number.shown == "60"


@pytest.mark.parametrize(
    "question",
    [
        "When was the plant opened?",
        "Who is Marlow's chief executive?",
        "Did Marlow close stores in 2019?",
        "What was the growth of sales from 2018 to 2019?",
        "What was Marlow's gross margin, defined as gross profit divided by net sales?",
        "사업 기간은 언제까지인가?",
    ],
)
def test_a_question_for_something_else_is_not_looked_up(question: str) -> None:
    assert read_cell_question(question, tokenizer=BIGRAM) is None
