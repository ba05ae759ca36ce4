"""Questions for arithmetic over any figures: what is read, by hand; the names are invented."""

from __future__ import annotations

import pytest

from tasks.rag.numbers.expressions import lines_of
from tasks.rag.numbers.operands import WHOLE, list_readings
from tasks.rag.numbers.periods import When

NOW = (When(2023),)
TWO_YEARS = (When(2021), When(2022), When(2023))


@pytest.mark.parametrize(
    ("question", "shown", "lines"),
    [
        ("본관 열람석은 분관 열람석보다 몇 석 더 많아?", "amount", ["본관 열람석", "분관 열람석"]),
        ("본관과 분관의 열람석을 합치면 몇 석인가요?", "amount", ["본관 열람석", "분관의 열람석"]),
        ("인건비가 총사업비의 몇 퍼센트를 차지하나요", "%", ["인건비", "총사업비"]),
        ("정규직은 계약직의 몇 배인가요?", "times", ["정규직", "계약직"]),
        ("구매비에서 설치비를 빼면 얼마가 남나", "", ["구매비", "설치비"]),
        ("복지관 운영비가 차지하는 비중은?", "%", ["복지관 운영비", WHOLE]),
        ("How many more seats does the Annex have than the Main Hall?", "amount", ["Annex seats", "Main Hall seats"]),
        ("What share of boardings were on trams?", "%", ["trams", "boardings"]),
    ],
)
def test_the_figures_and_what_is_done_with_them(question: str, shown: str, lines: list[str]) -> None:
    readings = list_readings(question, NOW)
    assert (shown, lines) in [(each.display_unit, [n.name for n in lines_of(each.expression)]) for each in readings]


@pytest.mark.parametrize(
    ("question", "shown", "years"),
    [
        ("2021년에서 2023년 사이에 방문객 수가 얼마나 늘었어?", "amount", [2023, 2021]),
        ("2021년에서 2023년 사이에 방문객 수가 몇 % 늘었어?", "%", [2023, 2021]),
        ("방문객 수는 2021년에서 2023년까지 몇 배가 됐나요?", "times", [2023, 2021]),
        ("방문객 수의 2021년부터 2023년까지 연평균은?", "amount", [2021, 2022, 2023]),
        ("By how many did visitors drop between 2021 and 2023?", "amount", [2023, 2021]),
    ],
)
def test_one_figure_over_the_periods_that_are_named(question: str, shown: str, years: list[int]) -> None:
    first = list_readings(question, TWO_YEARS)[0]
    lines = list(lines_of(first.expression))
    assert (first.display_unit, [line.year for line in lines]) == (shown, years)
    assert {line.name for line in lines} == {"visitors" if "visitors" in question else "방문객 수"}


@pytest.mark.parametrize(
    "question",
    [
        "품질진단 사업의 예산은 얼마인가요?",
        "약정의 부채비율 한도를 어겨 낸 위약금은 얼마인가?",
        "왜 본관 열람석이 분관보다 더 많아?",
        "가장 비싼 품목과 가장 싼 품목의 단가 차이는?",
        "Who chairs the board of the Annex?",
        "What gross margin does it have, if gross margin is gross profit divided by sales?",
    ],
)
def test_what_asks_for_no_arithmetic_that_is_known(question: str) -> None:
    assert list_readings(question, NOW) == []
