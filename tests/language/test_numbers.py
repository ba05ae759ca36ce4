"""A number is one number in every spelling, and no other number passes for it."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.language.numbers import is_same_number, missing_numbers, read_numbers
from tasks.language.scales import read_scales

DIGITS = "영일이삼사오육칠팔구"


def _read(text: str) -> list[tuple[str, str]]:
    return [(f"{number.value.normalize():f}", number.unit) for number in read_numbers(text)]


@pytest.mark.parametrize(
    "text",
    [
        "35,750,000원",
        "35750000 원",
        "3,575만 원",
        "3천 5백 7십 5만원",
        "3천5백7십5만원",
        "35,750천원",
        "35.75백만원",
        "삼천오백칠십오만원",
        "일금 삼천오백칠십오만원정",
        "금삼천오백칠십오만 원정",
        "금35,750,000원정",
        "₩35,750,000",
        "￦ 35,750,000",
        "KRW 35,750,000",
        "35.75 million won",
        "３５，７５０，０００원",
        "0.3575억원",
    ],
)
def test_won_amounts_are_read_in_every_spelling(text: str) -> None:
    assert _read(text) == [("35750000", "KRW")]


@pytest.mark.parametrize(
    "text",
    [
        "$1.2 billion",
        "$1,200 million",
        "$1,200M",
        "$1.2B",
        "US$1.2bn",
        "USD 1.2bn",
        "USD1.2bn",
        "1,200 million dollars",
        "1.2 billion US dollars",
        "$1,200,000 thousand",
        "12억 달러",
        "$ | 1,200,000,000",
    ],
)
def test_dollar_amounts_are_read_in_every_spelling(text: str) -> None:
    assert _read(text) == [("1200000000", "USD")]


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("12억 5천만원", [("1250000000", "KRW")]),
        ("12억 3,400만원", [("1234000000", "KRW")]),
        ("3억 5000원", [("300005000", "KRW")]),
        ("3조 원", [("3000000000000", "KRW")]),
        ("3억여 원", [("300000000", "KRW")]),
        ("2만 5천명", [("25000", "people")]),
        ("3천 5천", [("3000", ""), ("5000", "")]),
        ("3억 5억", [("300000000", ""), ("500000000", "")]),
        ("3 조직과 5 개인", [("3", ""), ("5", "")]),
        ("12.5% = 12.5 percent = 12.5 퍼센트", [("12.5", "%")] * 3),
        ("3%p, 3%포인트, 3 percentage points", [("3", "%p")] * 3),
        ("25bps, 25 basis points", [("25", "bp")] * 2),
        ("(1,234) △1,234 ▲1,234 −1,234 -1,234", [("-1234", "")] * 5),
        ("$(1,234) ($1,234)", [("-1234", "USD")] * 2),
        ("예산(35,750,000원)", [("35750000", "KRW")]),
        ("twelve (12) months", [("12", "months")]),
        ("12개월, 12 months, 12-month", [("12", "months")] * 3),
        ("3-5개월", [("3", ""), ("5", "months")]),
        ("30일 이내", [("30", "days")]),
        ("3명 5식 2건", [("3", "people"), ("5", "식"), ("2", "건")]),
        ("기술 90점, 가격 10점", [("90", "points"), ("10", "points")]),
        ("2024년, 2024년도", [("2024", "year")] * 2),
        ("3년간", [("3", "years")]),
        ("Q3, 3분기, third quarter, 3/4분기", [("3", "quarter")] * 4),
        ("1'234.50 = 1’234.50", [("1234.5", "")] * 2),
        ("1.234,56 € = CHF 1.234,56", [("1234.56", "EUR"), ("1234.56", "CHF")]),
        ("₹12,34,567 = Rs. 12,34,567", [("1234567", "INR")] * 2),
        ("HK$ 5, A$5, R$ 5", [("5", "HKD"), ("5", "AUD"), ("5", "BRL")]),
        ("5 try, top 5", [("5", "")] * 2),
        ("100GB, 5 km, 30㎡", [("100", "gb"), ("5", "km"), ("30", "㎡")]),
    ],
)
def test_numbers_are_read_with_their_units(text: str, read: list[tuple[str, str]]) -> None:
    assert _read(text) == read


@pytest.mark.parametrize(
    "text",
    [
        "2024. 5. 7.",
        "2024.05.07",
        "2024년 5월 7일",
        "2024년5월7일까지",
        "2024-05-07",
        "2024/5/7",
        "'24. 5. 7.",
        "May 7, 2024",
        "MAY 7, 2024",
        "7 May 2024",
        "May 7th, 2024",
        "5/7/2024",
    ],
)
def test_dates_are_read_in_every_spelling(text: str) -> None:
    assert _read(text) == [("20240507", "date")]


@pytest.mark.parametrize("text", ["17:00", "17시", "17시까지", "오후 5시", "오후 5:00", "5:00 PM", "5 p.m."])
def test_times_are_read_in_every_spelling(text: str) -> None:
    assert _read(text) == [("1700", "time")]


def test_the_end_of_a_range_has_the_year_of_its_start() -> None:
    assert _read("2024. 5. 7.(화) 10:00 ~ 5. 20.(월) 17:00") == [
        ("20240507", "date"),
        ("1000", "time"),
        ("20240520", "date"),
        ("1700", "time"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "SFR-001",
        "제3조 제 2 항",
        "제2024-123호",
        "[1] [2, 3]",
        "1. 목록",
        "  2) 목록",
        "(3) list",
        "① ②",
        "02-123-4567",
        "010-1234-5678",
        "v1.2.3 and 10.0.0.1",
        "Form 10-K",
        "COVID-19, H100, ISO9001",
        "표 3, 그림 12, 붙임 1",
        "Article 3, Section 4.2, Item 7",
        "the 1st and 22nd",
        "천원, 만원, 사원, 구원",
        "https://example.org/2024/12",
    ],
)
def test_what_only_numbers_things_is_no_number(text: str) -> None:
    assert _read(text) == []


@pytest.mark.parametrize(
    ("sentence", "source"),
    [
        ("35,750,000원", "소요예산 3,575만 원"),
        ("예산은 12억 3,400만원이다", "(단위: 백만원)\n예산 | 1,234"),
        ("sales were $52.3 billion", "(in millions)\nSales | $ | 52,300"),
        ("$1.2 billion", "1,200 million"),
        ("90점", "기술평가 | 90"),
        ("2024년", "2024. 5. 7."),
        ("2024년 5월", "2024. 5. 7."),
        ("5월 7일", "2024. 5. 7."),
        ("fiscal 2024", "May 7, 2024"),
        ("a loss of 1,234", "(1,234)"),
        ("영업손실 1,234", "영업이익 | △1,234"),
        ("It fell 12.5% [1].", "(12.5)%"),
        ("금삼천오백칠십오만원정(₩35,750,000)", "35,750,000원"),
        ("답은 없다 [3].", ""),
    ],
)
def test_a_claim_is_held_by_its_number_in_another_spelling(sentence: str, source: str) -> None:
    assert missing_numbers(sentence, ["something else", source]) == []


@pytest.mark.parametrize(
    ("sentence", "source", "missing"),
    [
        ("$1.2 billion", "1,234 million", ["$1.2 billion"]),
        ("12개월", "12일", ["12개월"]),
        ("$100", "100원", ["$100"]),
        ("100원", "100%", ["100원"]),
        ("5%p", "5%", ["5%p"]),
        ("profit of 1,234", "△1,234", ["1,234"]),
        ("2024년 5월 8일", "2024. 5. 7.", ["2024년 5월 8일"]),
        ("17시", "17", ["17시"]),
        ("예산은 3,575만원, 기간은 6개월", "3,575만원", ["6개월"]),
        ("8점", "[8] 제8조 SFR-8", ["8점"]),
        ("7", "", ["7"]),
    ],
)
def test_a_claim_is_not_held_by_another_number(sentence: str, source: str, missing: list[str]) -> None:
    assert missing_numbers(sentence, [source]) == missing


def _groups(amount: int) -> str:
    parts = [(10**8, "억"), (10**4, "만"), (1, "")]
    found = [(amount // unit % 10**4, sign) for unit, sign in parts]
    return " ".join(f"{value:,}{sign}" for value, sign in found if value) + "원"


def _spelled(amount: int, *, hangul: bool) -> str:
    said: list[str] = []
    for unit, large in ((10**8, "억"), (10**4, "만"), (1, "")):
        group = amount // unit % 10**4
        for factor, small in ((1000, "천"), (100, "백"), (10, "십"), (1, "")):
            digit = group // factor % 10
            if digit:
                said.append((DIGITS[digit] if hangul else str(digit)) + small)
        if group and large:
            said.append(large)
    return "".join(said) + "원"


@given(st.integers(1, 10**12 - 1) | st.integers(1, 10**6).map(lambda amount: amount * 1000))
def test_every_spelling_of_an_amount_of_won_reads_back(amount: int) -> None:
    spellings = [f"{amount:,}원", f"₩{amount}", _groups(amount), f"{Decimal(amount) / 1000}천원"]
    spellings += [f"금 {_spelled(amount, hangul=True)}정"] if amount >= 10 else []
    spellings += [_spelled(amount, hangul=False)] if amount % 10 == 0 else []

    assert [_read(text) for text in spellings] == [[(str(amount), "KRW")]] * len(spellings)


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=200))
def test_any_text_is_read(text: str) -> None:
    for number in read_numbers(text):
        assert number.text == text[number.start : number.end]
    assert all(scale.factor >= 1 for scale in read_scales(text))


@given(st.text(alphabet="0123456789,.-$()%[] 년월일시분원만억천백십조금일이삼○△:|/QMbknm", max_size=120))
@settings(max_examples=300)
def test_a_text_holds_its_own_numbers(text: str) -> None:
    assert missing_numbers(text, [text]) == []


@given(st.text(alphabet="0123456789,.%원만", max_size=20), st.text(alphabet="0123456789,.%원만", max_size=20))
def test_being_the_same_number_works_both_ways(one: str, other: str) -> None:
    for left in read_numbers(one):
        assert is_same_number(left, left)
        for right in read_numbers(other):
            assert is_same_number(left, right) == is_same_number(right, left)


@pytest.mark.parametrize(
    "piece",
    ["1,234 ", "1", "1,", "천", "일 ", "3천 ", "(", " ", "a1-", "단위", "May ", "1.2.", "$", "오천", "1:"],
)
@pytest.mark.timeout(60)
def test_no_text_of_100_kb_keeps_it_for_long(piece: str) -> None:
    """The slowest takes about a second; a pattern that tries every way to split would not end."""
    assert isinstance(read_numbers((piece * 100_000)[:100_000]), list)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1,234¹", [("1234", "")]),
        ("1,234¹,² people", [("1234", "people")]),
        ("$1,234⁽ᵃ⁾ million", [("1234000000", "USD")]),
        ("매출액^(주1)은 1,234¹⁾백만원", [("1234000000", "KRW")]),
        ("12%³ in 2018²", [("12", "%"), ("2018", "")]),
        ("10⁹ cells of 250 000 (¹³)", [("1000000000", ""), ("250", "")]),
        ("3.2 × 10⁻⁶ of 250⁹", [("0.0000032", ""), ("250", "")]),
        ("48½ cents, 3 3⁄16 inches", [("48.5", ""), ("3.1875", "")]),
        ("250 m² of 338,000km²", [("250", "㎡"), ("338000", "㎢")]),
        ("x² + 7 CO₂", [("7", "")]),
    ],
)
def test_raised_signs_are_marks_powers_or_units(text: str, expected: list[tuple[str, str]]) -> None:
    read = read_numbers(text)
    assert [
        (f"{number.value.normalize():f}", number.unit) for number in read if number.unit or number.value
    ] == expected
    assert all(text[number.start : number.end] == number.text for number in read)
