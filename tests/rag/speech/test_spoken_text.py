"""Answers as words to be spoken."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.rag.speech import to_speech
from tasks.rag.speech.spoken_english import ENGLISH_LIMIT, english, english_ordinal, english_year
from tasks.rag.speech.spoken_korean import KOREAN_DIGITS, KOREAN_LIMIT, korean, native_korean

KOREAN_PLACES = ("", "십", "백", "천")
KOREAN_GROUPS = ("", "만", "억", "조", "경")
ENGLISH_SMALL = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"),
    *("ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)
ENGLISH_TENS = ("", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
ENGLISH_GROUPS = ("", "thousand", "million", "billion", "trillion", "quadrillion")


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("1,250,000,000원", "십이억 오천만 원"),
        ("3,575만 원", "삼천오백칠십오만 원"),
        ("12억 5,000만원", "십이억 오천만 원"),
        ("1.2억원", "일점이억 원"),
        ("1만원", "만 원"),
        ("35,750천원", "삼만 오천칠백오십 천원"),
        ("₩1,000", "천 원"),
        ("미화 $1.2 billion", "미화 십이억 달러"),
        ("미화 $1.25", "미화 일점이오 달러"),
        ("매출 3.5 million", "매출 삼백오십만"),
        ("2024. 5. 7.", "이천이십사년 오월 칠일"),
        ("2024-06-10", "이천이십사년 유월 십일"),
        ("2024.10.1.(화)까지", "이천이십사년 시월 일일 화요일까지"),
        ("2024. 5. 발주", "이천이십사년 오월 발주"),
        ("2024년 6월 7일", "이천이십사년 유월 칠일"),
        ("99. 13. 40.은 날짜", "구십구. 십삼. 사십.은 날짜"),
        ("17:00까지", "십칠시까지"),
        ("9:05", "아홉시 오분"),
        ("12시", "열두시"),
        ("24시간", "스물네 시간"),
        ("12.5% 증가", "십이점오 퍼센트 증가"),
        ("0.7%p", "영점칠 퍼센트포인트"),
        ("−3.5% 감소", "마이너스 삼점오 퍼센트 감소"),
        ("(△12억)", "(마이너스 십이억)"),
        ("5~7일", "오에서 칠일"),
        ("10만원~20만원", "십만 원에서 이십만 원"),
        ("3개 업체", "세 개 업체"),
        ("10개월", "십개월"),
        ("50명", "오십 명"),
        ("1번째", "첫 번째"),
        ("제7차 회의", "제칠차 회의"),
        ("100㎡", "백 제곱미터"),
        ("02-1234-5678", "공이 일이삼사 오육칠팔"),
        ("요구 SFR-001", "요구 SFR-공공일"),
        ("3.1.2절", "삼점일점이절"),
        ("A4 용지", "A 사 용지"),
    ],
    ids=lambda text: text,
)
def test_korean_is_read_in_words(written: str, said: str) -> None:
    assert to_speech(written + " 및") == (said + " 및", "ko")


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("$1.2 billion", "one point two billion dollars"),
        ("$35.50", "thirty-five dollars and fifty cents"),
        ("$1", "one dollar"),
        ("$3M", "three million dollars"),
        ("USD 3 million", "three million dollars"),
        ("€1,000", "one thousand euros"),
        ("₩5 trillion", "five trillion won"),
        ("1,250,000,000 won", "one billion two hundred fifty million won"),
        ("May 7, 2024", "May seventh, twenty twenty-four"),
        ("7 May 2024", "May seventh, twenty twenty-four"),
        ("2024-05-07", "May seventh, twenty twenty-four"),
        ("May 2024", "May twenty twenty-four"),
        ("17:00", "five p.m."),
        ("9:05 am", "nine oh five a.m."),
        ("12.5%", "twelve point five percent"),
        ("-3%", "minus three percent"),
        ("FY2023", "FY twenty twenty-three"),
        ("2,024 items", "two thousand twenty-four items"),
        ("21st floor", "twenty-first floor"),
        ("5–7 days", "five to seven days"),
        ("SFR-001", "SFR-zero zero one"),
        ("555-010-9999", "five five five, zero one zero, nine nine nine nine"),
        ("Q1", "Q one"),
        ("version 1.2.", "version one point two."),
    ],
    ids=lambda text: text,
)
def test_english_is_read_in_words(written: str, said: str) -> None:
    assert to_speech(f"and {written}") == (f"and {said}", "en")


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("It is late [1].", "It is late."),
        ("It is late [1][2, 3], and dark [4–6].", "It is late, and dark."),
        ("## Head\n\n- **bold** and _lean_ `code`", "Head\nbold and lean code"),
        ("| a | b |\n|---|:--|\n| c | d |", "a, b\nc, d"),
        ("See [the page](https://example.org/a_b), or https://example.org", "See the page, or"),
        ("snake_case stays", "snake_case stays"),
        ("", ""),
    ],
)
def test_marks_and_markdown_are_not_read(written: str, said: str) -> None:
    assert to_speech(written).words == said


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (0, "영"),
        (10, "십"),
        (10_000, "만"),
        (100_000_000, "일억"),
        (100_010_000, "일억 일만"),
        (11_111, "만 천백십일"),
        (10**16 + 1, "일경 일"),
    ],
)
def test_korean_numbers(number: int, said: str) -> None:
    assert korean(number) == said


@pytest.mark.parametrize(("number", "said"), [(1, "한"), (20, "스무"), (21, "스물한"), (99, "아흔아홉")])
def test_native_korean_numbers(number: int, said: str) -> None:
    assert native_korean(number) == said


@pytest.mark.parametrize(
    ("year", "said"),
    [(1900, "nineteen hundred"), (1905, "nineteen oh five"), (2000, "two thousand"), (2005, "two thousand five")],
)
def test_years(year: int, said: str) -> None:
    assert english_year(year) == said


@pytest.mark.parametrize(
    ("number", "said"), [(1, "first"), (12, "twelfth"), (20, "twentieth"), (43, "forty-third"), (100, "one hundredth")]
)
def test_ordinals(number: int, said: str) -> None:
    assert english_ordinal(number) == said


@given(st.integers(0, KOREAN_LIMIT - 1))
def test_korean_numbers_mean_what_was_written(number: int) -> None:
    assert heard_korean(korean(number)) == number


@given(st.integers(0, ENGLISH_LIMIT - 1))
def test_english_numbers_mean_what_was_written(number: int) -> None:
    assert heard_english(english(number)) == number


@given(st.text(st.sampled_from("0123456789.,-:/~%$₩△() 년월일시원만억개명percent million [1]*_|\n")) | st.text())
def test_no_digit_is_left(text: str) -> None:
    assert not re.search("[0-9]", to_speech(text).words)


def heard_korean(said: str) -> int:
    """The number that these words mean."""
    total = 0
    for group in said.split():
        name = group[-1] if group[-1] in KOREAN_GROUPS[1:] else ""
        value, digit = 0, None
        for sign in group.removesuffix(name):
            if sign in KOREAN_PLACES[1:]:
                value += (1 if digit is None else digit) * 10 ** KOREAN_PLACES.index(sign)
                digit = None
            else:
                digit = KOREAN_DIGITS.index(sign)
        value += digit or 0
        total += (value or (1 if name else 0)) * 10_000 ** KOREAN_GROUPS.index(name)
    return total


def heard_english(said: str) -> int:
    """The number that these words mean."""
    total = group = 0
    for word in said.replace("-", " ").split():
        if word in ENGLISH_SMALL:
            group += ENGLISH_SMALL.index(word)
        elif word in ENGLISH_TENS:
            group += 10 * ENGLISH_TENS.index(word)
        elif word == "hundred":
            group *= 100
        else:
            total += group * 1000 ** ENGLISH_GROUPS.index(word)
            group = 0
    return total + group


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (10_000, "만"),
        (11_812, "만 천팔백십이"),
        (110_000, "십일만"),
        (100_010_000, "일억 일만"),
        (459_510_600_011_812, "사백오십구조 오천백육억 일만 천팔백십이"),
    ],
)
def test_ten_thousand_is_said_with_a_one_only_behind_a_larger_group(number: int, said: str) -> None:
    assert korean(number) == said
