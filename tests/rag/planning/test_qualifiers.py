"""Years, terms and rounds of questions and names."""

from __future__ import annotations

import pytest

from tasks.rag.planning.names import Period, Qualifiers, fit_of, qualifiers


@pytest.mark.parametrize(
    ("text", "years"),
    [
        ("the FY2018 capital expenditure", [2018]),
        ("As of Q2 2023", [2023]),
        ("제22기와 제23기", [22, 23]),
        ("3M_2018_10K", [2018]),
        ("2,023 stores", []),
        ("2023.5 million", []),
        ("Room 2199", []),
    ],
)
def test_years_and_terms_of_a_text(text: str, years: list[int]) -> None:
    assert [period.number for period in qualifiers(text).periods] == years


@pytest.mark.parametrize(
    ("text", "rounds"),
    [
        ("재공고의 마감", [1]),
        ("최초 공고와 재공고", [0, 1]),
        ("the second re-notice", [2]),
        ("제2회 공고", [1]),
        ("the initial tender", [0]),
        ("Signals (round 3)", [2]),
        ("2차전지", []),
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
