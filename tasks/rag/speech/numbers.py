"""Numbers as they are said, in Korean and in English."""

from __future__ import annotations

KOREAN_DIGITS = "영일이삼사오육칠팔구"
KOREAN_PLACES = ("", "십", "백", "천")
KOREAN_GROUPS = ("", "만", "억", "조", "경")
KOREAN_LIMIT = 10**20
"""From here on digits are said one by one."""
NATIVE_ONES = ("", "한", "두", "세", "네", "다섯", "여섯", "일곱", "여덟", "아홉")
NATIVE_TENS = ("", "열", "스물", "서른", "마흔", "쉰", "예순", "일흔", "여든", "아흔")
ENGLISH_SMALL = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"),
    *("ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)
ENGLISH_TENS = ("", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
ENGLISH_GROUPS = ("", "thousand", "million", "billion", "trillion", "quadrillion")
ENGLISH_LIMIT = 1000 ** len(ENGLISH_GROUPS)
ENGLISH_ORDINALS = {
    "one": "first",
    "two": "second",
    "three": "third",
    "five": "fifth",
    "eight": "eighth",
    "nine": "ninth",
    "twelve": "twelfth",
}


def korean(number: int) -> str:
    """`number` (not negative) in Sino-Korean, a space after each group of four digits: 십이억 오천만."""
    if number >= KOREAN_LIMIT:
        return korean_digits(str(number))
    if number == 0:
        return KOREAN_DIGITS[0]
    groups: list[str] = []
    for name in KOREAN_GROUPS:
        number, group = divmod(number, 10_000)
        if group:
            # 만, not 일만; but 일억 일만
            groups.append(("" if (name, number, group) == ("만", 0, 1) else _four_digits(group)) + name)
    return " ".join(reversed(groups))


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
    if number >= ENGLISH_LIMIT:
        return english_digits(str(number))
    if number == 0:
        return ENGLISH_SMALL[0]
    groups: list[str] = []
    for name in ENGLISH_GROUPS:
        number, group = divmod(number, 1000)
        if group:
            groups.append(f"{_three_digits(group)} {name}".strip())
    return " ".join(reversed(groups))


def english_decimal(whole: int, decimals: str) -> str:
    """A number with the digits after its point: twelve point five."""
    return f"{english(whole)} point {english_digits(decimals)}"


def english_digits(digits: str) -> str:
    """Digits one by one."""
    return " ".join(ENGLISH_SMALL[int(digit)] for digit in digits)


def english_ordinal(number: int) -> str:
    """`number` (from 1) as a place in a row: twenty-first."""
    words = english(number)
    head, last = words[: -len(_last(words))], _last(words)
    if last in ENGLISH_ORDINALS:
        return head + ENGLISH_ORDINALS[last]
    return head + (f"{last[:-1]}ieth" if last.endswith("y") else f"{last}th")


def english_year(year: int) -> str:
    """A year (1000 to 9999) as it is said: nineteen ninety-nine, two thousand five, twenty twenty-four."""
    century, rest = divmod(year, 100)
    if century % 10 == 0 and rest < 10:
        return english(year)
    if rest == 0:
        return f"{english(century)} hundred"
    return f"{english(century)} {'oh ' if rest < 10 else ''}{english(rest)}"


def _four_digits(group: int) -> str:
    said = ""
    for place, digit in enumerate(reversed(str(group))):
        if digit != "0":
            # 십, not 일십
            said = ("" if digit == "1" and place else KOREAN_DIGITS[int(digit)]) + KOREAN_PLACES[place] + said
    return said


def _three_digits(group: int) -> str:
    hundreds, rest = divmod(group, 100)
    words = [f"{ENGLISH_SMALL[hundreds]} hundred"] if hundreds else []
    if rest >= len(ENGLISH_SMALL):
        tens, ones = divmod(rest, 10)
        words.append(ENGLISH_TENS[tens] + (f"-{ENGLISH_SMALL[ones]}" if ones else ""))
    elif rest:
        words.append(ENGLISH_SMALL[rest])
    return " ".join(words)


def _last(words: str) -> str:
    return words.replace("-", " ").split()[-1]
