"""Numbers as they are said, in Korean and in English."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

KOREAN_DIGITS = "영일이삼사오육칠팔구"
KOREAN_LIMIT = 10**20
"""From here on digits are said one by one."""
NATIVE_ONES = ("", "한", "두", "세", "네", "다섯", "여섯", "일곱", "여덟", "아홉")
NATIVE_TENS = ("", "열", "스물", "서른", "마흔", "쉰", "예순", "일흔", "여든", "아흔")
ENGLISH_DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
ENGLISH_LIMIT = 10**18


def korean(number: int) -> str:
    """`number` (not negative) in Sino-Korean, a space after each group of four digits: 십이억 오천만."""
    if number >= KOREAN_LIMIT:
        return korean_digits(str(number))
    return _in_words(number, lang="ko").replace(" 만", " 일만")  # 만, but 일억 일만, which num2words calls 일억 만


def korean_decimal(whole: int, decimals: str) -> str:
    """A number with the digits after its point: 십이점오."""
    return f"{korean(whole)}점{''.join(KOREAN_DIGITS[int(digit)] for digit in decimals)}"


def korean_digits(digits: str) -> str:
    """Digits one by one, as in numbers of telephones: 공일이."""
    return "".join("공" if digit == "0" else KOREAN_DIGITS[int(digit)] for digit in digits)


def native_korean(number: int) -> str:
    """`number` (1 to 99) as things are counted: 스물한, 세; before a counter."""
    tens, ones = divmod(number, 10)
    return "스무" if number == 20 else NATIVE_TENS[tens] + NATIVE_ONES[ones]


def english(number: int) -> str:
    """`number` (not negative) in English: one thousand two hundred thirty-four."""
    return _in_words(number, lang="en") if number < ENGLISH_LIMIT else english_digits(str(number))


def english_decimal(whole: int, decimals: str) -> str:
    """A number with the digits after its point: twelve point five."""
    return f"{english(whole)} point {english_digits(decimals)}"


def english_digits(digits: str) -> str:
    """Digits one by one."""
    return " ".join(ENGLISH_DIGITS[int(digit)] for digit in digits)


def english_ordinal(number: int) -> str:
    """`number` (from 1) as a place in a row: twenty-first."""
    return _in_words(number, lang="en", to="ordinal")


def english_year(year: int) -> str:
    """A year (1000 to 9999) as it is said: nineteen ninety-nine, two thousand five, twenty twenty-four."""
    return _in_words(year, lang="en", to="year").replace("oh-", "oh ")


def _in_words(number: int, *, lang: str, to: str = "cardinal") -> str:
    from num2words import num2words  # .1 s, and only who listens to an answer needs it

    return str(num2words(number, lang=lang, to=to)).replace(",", "").replace(" and ", " ")


Rule = tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]
"""What is written, and what is said for it."""

NUMBER = r"(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]+)?"
FIRST = r"(?<![0-9.,])"
"""Where a number begins."""
SIGN = r"[$₩￦€£¥]"
DATE = (
    r"(?<![0-9.])(?P<year>[12][0-9]{3})(?:\s?(?P<dot>[.])\s?|[-/])(?P<month>[0-9]{1,2})(?:\s?\.\s?|[-/])"
    r"(?P<day>[0-9]{1,2})(?![0-9])(?(dot)\.?)"
)
DIGIT_GROUPS = re.compile(rf"{FIRST}[0-9]+(?:-[0-9]+){{2,}}")
"""Telephone and account numbers."""
SECTION = re.compile(rf"{FIRST}[0-9]+(?:\.[0-9]+){{2,}}")
LEADING_ZERO = re.compile(rf"{FIRST}0[0-9]+(?![0-9.,]*[.,][0-9])")
ANY_NUMBER = re.compile(rf"(?P<before>[A-Za-z]?)(?P<number>{NUMBER})")


def spoken(text: str, rules: Iterable[Rule]) -> str:
    """`text` after all rules in their order: what one has put into words, no later one finds."""
    for pattern, say in rules:
        text = pattern.sub(say, text)
    return text


def by_symbol(said: dict[str, tuple[str, ...]]) -> dict[str, str]:
    """Symbol → what is said, from what is said → its symbols."""
    return {symbol: words for words, symbols in said.items() for symbol in symbols}


def either(words: Iterable[str]) -> str:
    """A pattern for any of the words, the longest first."""
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))


def is_day(month: int, day: int) -> bool:
    """Whether there may be such a day; 2024.13.40 is something else."""
    return 1 <= month <= 12 and 1 <= day <= 31
