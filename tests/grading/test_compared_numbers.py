"""Gold numbers across units: half a percent, lost headers, shares, signs; and the numbers that only look alike."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.grading.cited_answers import has_close_number, has_numbers


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        ("It was $7.3 billion.", "$7,296 million"),
        ("It was $7,296 million.", "$7.3 billion"),
        ("It was about $7,300 million.", "$7,296 million"),
        ("It was 12.24B.", "approximately $12.24 billion"),
        ("It was $1,098 million.", "$1,097,923 thousand"),
        ("It was 250.8 million shares.", "250,838,697"),
        ("Total: 3,136 (see the table).", "$3,136 million"),
        ("Sales were $13.9 billion.", "13,893"),
        ("매출은 139억 원이다.", "13,893백만원"),
        ("매출은 약 1.39조 원이다.", "1,389,300백만원"),
        ("예산은 약 3,580만 원이다.", "35,750,000원"),
        ("The share is 0.28.", "28 %"),
        ("It is 28.1 percent.", "0.281"),
        ("It rose by 0.9 percentage points.", "90 basis points"),
        ("The loss was $2.5 billion.", "-$2,500 million"),
        ("It was $(2.5) billion.", "-$2,500 million"),
        ("It was $(2.5) billion.", "a loss of $2,500 million"),
        ("영업손실은 281억원이다.", "△28,050백만원"),
        ("In 2017 it was $2.9 billion.", "$2,903 million in 2017"),
        ("It was $7.3 billion.", "$7,296 million ($7,296,000,000)"),
        ("５８９만 원이다.", "5,890,000원"),
    ],
)
def test_a_number_counts_in_other_units_and_within_half_a_percent(answer: str, gold: str) -> None:
    assert has_close_number(answer, gold)


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        ("It was $7.4 billion.", "$7,296 million"),
        ("It was $7,297 million.", "$7,296 million"),
        ("Sales rose in 2019.", "$2.019 billion"),
        ("Sales rose in FY2019.", "2.019 billion"),
        ("It was $2.02 billion.", "2019"),
        ("It was in 2020.", "2019"),
        ("2018년이다.", "2019년"),
        ("The budget is large [215].", "$215 million"),
        ("It has 2 plants.", "$2 billion"),
        ("It has 204 stores.", "203"),
        ("It has 739 stores.", "$737 million"),
        ("It takes 366 days.", "365 days"),
        ("It was €7.3 billion.", "$7,296 million"),
        ("It was 28 percentage points.", "28 %"),
        ("It was 28.", "0.28"),
        ("It was $2.5 billion.", "-$2,500 million"),
        ("Vietnam makes 49 %.", "Vietnam 49%, China 23%"),
        ("It was $1,000 million.", "$1,000 million against $1.003 billion"),
        ("It was $2.9 billion.", "$2,903 million in 2017"),
        ("마감은 2024년 5월 8일이다.", "2024. 5. 7."),
        ("It is Greater China.", "28 %"),
        ("It was 5.", "0"),
        ("", "28 %"),
        ("28 %", ""),
    ],
)
def test_a_number_that_only_looks_alike_does_not_count(answer: str, gold: str) -> None:
    assert has_close_number(answer, gold) is (not gold)  # without a gold number nothing is missing


@pytest.mark.parametrize(
    ("answer", "gold"),
    [("0.0", "0 %"), ("0.0", "$0"), ("1" * 40, "1" * 39 + "2")],
    ids=["zero share", "zero dollars", "forty digits"],
)
def test_extreme_numbers_are_compared(answer: str, gold: str) -> None:
    assert has_close_number(answer, gold) is answer.startswith("0")


@given(
    st.text(alphabet="0123456789.,-()$%만억원 milobn[]년", max_size=30), st.sampled_from(["28 %", "$2.5 billion", "0"])
)
def test_what_is_there_exactly_is_there_closely(answer: str, gold: str) -> None:
    assert has_close_number(answer, gold) >= has_numbers(answer, gold)
