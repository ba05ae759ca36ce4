"""Years, terms and rounds of questions and names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.rag.planning.names import Period, Qualifiers, fit_of, folded, qualifiers, without_qualifiers


@pytest.mark.parametrize(
    ("text", "years"),
    [
        ("the FY2018 capital expenditure", [2018]),
        ("from FY21 to fiscal year 2022", [2021, 2022]),
        ("As of Q2 2023", [2023]),
        ("2023년도 매출", [2023]),
        ("제22기와 제23기", [22, 23]),
        ("AMCOR_2023Q4_EARNINGS", [2023]),
        ("3M_2018_10K", [2018]),
        ("$2023", []),
        ("2,023 stores", []),
        ("2023명", []),
        ("2023.5 million", []),
        ("3기간", []),
        ("Room 2199", []),
    ],
)
def test_years_and_terms_of_a_text(text: str, years: list[int]) -> None:
    assert [period.number for period in qualifiers(text).periods] == years


@pytest.mark.parametrize(
    ("text", "rounds"),
    [
        ("재공고의 마감", [1]),
        ("2차 재공고", [2]),
        ("최초 공고와 재공고", [0, 1]),
        ("2차 공고", [1]),
        ("the second re-notice", [2]),
        ("교통신호 구축_2차", [1]),
        ("제2회 공고", [1]),
        ("재공고(2차)", [2]),
        ("the initial tender", [0]),
        ("Signals_Notice 2", [1]),
        ("Signals (round 3)", [2]),
        ("3차 회의", []),
        ("2차전지", []),
        ("a notice of 30 days", []),
    ],
)
def test_rounds_of_a_text(text: str, rounds: list[int]) -> None:
    assert list(qualifiers(text).rounds) == rounds


YEAR, NEXT = Qualifiers(periods=(Period("year", 2018),)), Qualifiers(periods=(Period("year", 2019),))


@pytest.mark.parametrize(
    ("said", "document", "fit"),
    [
        (YEAR, YEAR, 1.0),
        (YEAR, NEXT, 0.5),
        (NEXT, YEAR, 0.2),
        (YEAR, Qualifiers(), 0.5),
        (Qualifiers(), YEAR, 1.0),
        (Qualifiers(rounds=(2,)), Qualifiers(rounds=(2,)), 1.0),
        (Qualifiers(rounds=(2,)), Qualifiers(rounds=(0,)), 0.2),
    ],
    ids=["year", "year-after-repeats-it", "year-before-cannot", "undated", "nothing-asked", "round", "other-round"],
)
def test_how_well_a_document_fits(said: Qualifiers, document: Qualifiers, fit: float) -> None:
    assert fit_of(said, document, rounds=True) == pytest.approx(fit)


@pytest.mark.parametrize(
    ("text", "left"),
    [("3M_2018_10K", "3m 10k"), ("가람시 2차 재공고의 예산", "가람시 의 예산"), ("What about 2022?", "what about ?")],
)
def test_the_rest_of_a_text(text: str, left: str) -> None:
    assert " ".join(without_qualifiers(text).split()) == left


def test_folding_leaves_neither_case_nor_accent_nor_width() -> None:
    assert folded("㈜Örsta ＡＢＣ") == "(주)orsta abc"


@given(st.text(max_size=300))
def test_any_text_is_read(text: str) -> None:
    said = qualifiers(text)
    assert fit_of(said, said, rounds=True) > 0
