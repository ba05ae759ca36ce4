from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.rag.planning.qualifiers import Period, Qualifiers, fit_of, folded, qualifiers, without_qualifiers


@pytest.mark.parametrize(
    ("text", "periods"),
    [
        ("the FY2018 capital expenditure", [(2018, None, None)]),
        ("in FY22", [(2022, None, None)]),
        ("fiscal year 2023", [(2023, None, None)]),
        ("from FY21 to FY22", [(2021, None, None), (2022, None, None)]),
        ("As of Q2 2023", [(2023, 2, None)]),
        ("as of Q2'2023", [(2023, 2, None)]),
        ("Q2 of FY2024 and FY2023", [(2024, 2, None), (2023, None, None)]),
        ("the second quarter of fiscal 2023", [(2023, 2, None)]),
        ("in 2021 Q1", [(2021, 1, None)]),
        ("1Q23", [(2023, 1, None)]),
        ("what did the fourth quarter of the year bring in 2022", [(2022, 4, None)]),
        ("2023년 2분기", [(2023, 2, None)]),
        ("2023년도 매출", [(2023, None, None)]),
        ("제23기 4분기", [(None, 4, 23)]),
        ("제22기와 제23기", [(None, None, 22), (None, None, 23)]),
        ("AMCOR_2023Q4_EARNINGS", [(2023, 4, None)]),
        ("3M_2018_10K", [(2018, None, None)]),
        ("$2023", []),
        ("2,023 stores", []),
        ("2023명", []),
        ("2023.5 million", []),
        ("3기간", []),
        ("Room 2199", []),
    ],
)
def test_periods_of_a_text(text: str, periods: list[tuple[int | None, ...]]) -> None:
    assert [tuple(period) for period in qualifiers(text).periods] == periods


@pytest.mark.parametrize(
    ("text", "forms"),
    [
        ("3M_2018_10K", ["10-k"]),
        ("the 10-K of 2018", ["10-k"]),
        ("its annual report", ["10-k"]),
        ("한누리소재_제23기_사업보고서", ["10-k"]),
        ("BESTBUY_2024Q2_10Q", ["10-q"]),
        ("the 8k filing", ["8-k"]),
        ("ACME_2023Q4_EARNINGS", ["earnings"]),
        ("the earnings release", ["earnings"]),
        ("earnings per share in 2022", []),
        ("정정공고", ["correction"]),
        ("변경 입찰공고", ["correction"]),
        ("$10K", []),
        ("110k", []),
    ],
)
def test_forms_of_a_text(text: str, forms: list[str]) -> None:
    assert list(qualifiers(text).forms) == forms


@pytest.mark.parametrize(
    ("text", "rounds"),
    [
        ("재공고의 마감", [1]),
        ("2차 재공고", [2]),
        ("(2차재공고)", [2]),
        ("최초 공고와 재공고", [0, 1]),
        ("원공고", [0]),
        ("2차 공고", [1]),
        ("공고 차수 2", [2]),
        ("the original notice", [0]),
        ("the second re-notice", [2]),
        ("the re-tender", [1]),
        ("교통신호 구축_2차", [1]),
        ("교통신호 구축(2차)", [1]),
        ("제2회 공고", [1]),
        ("재입찰공고", [1]),
        ("재공고(2차)", [2]),
        ("1차 공고", [0]),
        ("the initial tender", [0]),
        ("Signals_second notice", [1]),
        ("Signals_Notice 2", [1]),
        ("Signals (round 3)", [2]),
        ("Signals re-issued", [1]),
        ("공고", []),
        ("3차 회의", []),
        ("2차전지", []),
        ("RFP 12", []),
        ("a notice of 30 days", []),
    ],
)
def test_rounds_of_a_text(text: str, rounds: list[int]) -> None:
    assert list(qualifiers(text).rounds) == rounds


@pytest.mark.parametrize(
    "text",
    [
        "dated-2023-05-05",
        "dated_2023_05_05",
        "May 5, 2023",
        "5th May 2023",
        "5 of May, 2023",
        "2023. 5. 5.",
        "20230505",
    ],
)
def test_a_date_in_any_writing_is_one(text: str) -> None:
    assert qualifiers(text) == Qualifiers(dates=("2023-05-05",))


YEAR, NEXT, QUARTER = (Qualifiers(periods=(Period(*one),)) for one in ((2018,), (2019,), (2018, 2)))


@pytest.mark.parametrize(
    ("said", "document", "fit"),
    [
        (YEAR, YEAR, 1.0),
        (YEAR, NEXT, 0.5),
        (NEXT, YEAR, 0.2),
        (YEAR, QUARTER, 0.8),
        (QUARTER, QUARTER, 1.0),
        (QUARTER, YEAR, 0.5),
        (YEAR, Qualifiers(), 0.5),
        (Qualifiers(), YEAR, 1.0),
        (Qualifiers(rounds=(2,)), Qualifiers(rounds=(2,)), 1.0),
        (Qualifiers(rounds=(2,)), Qualifiers(rounds=(0,)), 0.2),
        (Qualifiers(forms=("10-k",)), Qualifiers(forms=("8-k",)), 0.2),
        (Qualifiers(dates=("2023-05-03",)), Qualifiers(dates=("2023-05-05",)), 0.9),
        (Qualifiers(dates=("2023-05-05",)), Qualifiers(dates=("2023-05-03",)), 0.5),
    ],
    ids=[
        "year",
        "year-after-repeats-it",
        "year-before-cannot",
        "quarter-of-the-year",
        "quarter",
        "year-of-the-quarter",
        "undated",
        "nothing-asked",
        "round",
        "other-round",
        "other-form",
        "reported-soon-after",
        "reported-before",
    ],
)
def test_how_well_a_document_fits(said: Qualifiers, document: Qualifiers, fit: float) -> None:
    assert fit_of(said, document, rounds=True) == pytest.approx(fit)


@pytest.mark.parametrize(
    ("text", "left"),
    [("3M_2018_10K", "3m"), ("가람시 2차 재공고의 예산", "가람시 의 예산"), ("What about Q3 2022?", "what about ?")],
)
def test_the_rest_of_a_text(text: str, left: str) -> None:
    assert " ".join(without_qualifiers(text).split()) == left


def test_folding_leaves_neither_case_nor_accent_nor_width() -> None:
    assert folded("㈜Örsta ＡＢＣ") == "(주)orsta abc"


@given(st.text(max_size=300))
def test_any_text_is_read(text: str) -> None:
    said = qualifiers(text)
    assert fit_of(said, said, rounds=True) > 0
