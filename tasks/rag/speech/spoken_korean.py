"""Korean text with its money, dates, times and numbers in words."""

from __future__ import annotations

import re
from decimal import Decimal

from tasks.rag.speech import spoken_numbers as numbers

KOREAN_DIGITS = "영일이삼사오육칠팔구"
KOREAN_LIMIT = 10**20
"""Numbers from this on are said digit by digit."""


def korean(number: int) -> str:
    """`number` (not negative) in Sino-Korean, a space after each group of four digits: 십이억 오천만."""
    if number >= KOREAN_LIMIT:
        return korean_digits(str(number))
    return numbers.in_words(number, lang="ko").replace(" 만", " 일만")  # 일억 일만; num2words says 일억 만


def korean_digits(digits: str) -> str:
    """Digits one by one, as in numbers of telephones: 공일이."""
    return "".join("공" if digit == "0" else KOREAN_DIGITS[int(digit)] for digit in digits)


def native_korean(number: int) -> str:
    """`number` (1 to 99) as things are counted: 스물한, 세; before a counter."""
    said = numbers.in_words(number, lang="ko", to="ordinal").removesuffix(" 번째")
    return {"첫": "한", "스물": "스무"}.get(said, said)


MONTHS = {6: "유월", 10: "시월"}
"""Months whose name is not their number."""
COUNTED_NATIVELY = 40
"""Smaller counts are said in native Korean: 세 명, but 오십 명."""
CURRENCIES = numbers.by_symbol("korean", "currencies")
SCALES = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
UNITS = numbers.by_symbol("korean", "units")


def _number(written: str) -> str:
    whole, _, decimals = written.replace(",", "").partition(".")
    digits = "".join(KOREAN_DIGITS[int(digit)] for digit in decimals)
    return korean(int(whole)) + (f"점{digits}" if digits else "")


def _date(found: re.Match[str]) -> str:
    month, day = int(found["month"]), int(found["day"])
    if not numbers.is_day(month, day):
        return found[0]
    weekday = f" {found['weekday']}요일" if found["weekday"] else ""
    return f"{korean(int(found['year']))}년 {_month(month)} {korean(day)}일{weekday}"


def _month(number: int) -> str:
    return MONTHS.get(number) or f"{korean(number)}월"


def _time(found: re.Match[str]) -> str:
    minutes = f" {korean(int(found['minute']))}분" if int(found["minute"]) else ""
    seconds = f" {korean(int(found['second']))}초" if found["second"] else ""
    return _hour(int(found["hour"])) + minutes + seconds


def _hour(number: int) -> str:
    """다섯시, but 십칠시."""
    return f"{native_korean(number) if 1 <= number <= 12 else korean(number)}시"


def _scaled(written: str, scale: str | None) -> str:
    """1.2, billion → 십이억."""
    value = Decimal(written.replace(",", "")) * SCALES[scale.lower()] if scale else None
    if value is not None and value == value.to_integral_value():
        return korean(int(value))
    return _number(written) + (f" {scale}" if scale else "")


def _counted(found: re.Match[str]) -> str:
    number, counter = int(found["number"]), found["counter"]
    if counter == "번째" and number == 1:
        return "첫 번째"
    return f"{native_korean(number) if 1 <= number < COUNTED_NATIVELY else korean(number)} {counter}"


def _won(found: re.Match[str]) -> str:
    """12, 억 → 십이억 원; 만 원, not 일만 원."""
    number = "" if found["number"] == "1" and found["scale"].endswith("만") else _number(found["number"])
    return f"{number}{found['scale']} 원"


_DATE = re.compile(rf"{numbers.DATE}(?:\s?\((?P<weekday>[월화수목금토일])\))?")
_YEAR_AND_MONTH = re.compile(r"(?<![0-9.])(?P<year>[12][0-9]{3})\.\s(?P<month>[1-9]|1[0-2])\.(?!\s?[0-9])")
_MONTH_OF_ITS_OWN = re.compile(r"(?<![0-9.])0?(?P<month>6|10)월")
_TIME = re.compile(
    r"(?<![0-9:])(?P<hour>[01]?[0-9]|2[0-4]):(?P<minute>[0-5][0-9])(?::(?P<second>[0-5][0-9]))?(?![0-9:])"
)
_HOUR = re.compile(rf"{numbers.FIRST}(?P<hour>[01]?[0-9]|2[0-4])시(?![간가-힣])")
_MINUS = re.compile(rf"(?<![\w.,)\]-])[-−△▲]\s?(?={numbers.SIGN}?[0-9])")
_RANGE = re.compile(rf"(?<=[0-9])\s?[~∼〜–]\s?(?={numbers.SIGN}?[0-9])|(?<=[원%년월일시분개명])\s?[~∼〜]\s?(?=[0-9])")
_SCALE = rf"(?P<scale>(?i:{numbers.either(SCALES)}))\b"
_FOREIGN_MONEY = re.compile(
    rf"(?P<currency>{numbers.either(CURRENCIES)})\s?(?P<number>{numbers.NUMBER})(?:\s?{_SCALE})?"
)
_FOREIGN_SCALE = re.compile(rf"{numbers.FIRST}(?P<number>{numbers.NUMBER})\s?{_SCALE}")
_WON_IN_SCALE = re.compile(rf"{numbers.FIRST}(?P<number>{numbers.NUMBER})\s?(?P<scale>[만억조]|[십백천]만)\s?원")
_WON = re.compile(rf"{numbers.FIRST}(?P<number>{numbers.NUMBER})\s?(?P<won>[백천]?원)")
_UNIT = re.compile(rf"{numbers.FIRST}(?P<number>{numbers.NUMBER})\s?(?P<unit>{numbers.either(UNITS)})(?![A-Za-z])")
_COUNTED = re.compile(
    rf"{numbers.FIRST}(?P<number>[0-9]{{1,2}})\s?(?P<counter>개(?![월년소])|명|가지|번째|살|시간|곳|건|권|마리|사람)"
)

RULES: tuple[numbers.Rule, ...] = (
    (_DATE, _date),
    (_YEAR_AND_MONTH, lambda found: f"{korean(int(found['year']))}년 {_month(int(found['month']))}"),
    (_MONTH_OF_ITS_OWN, lambda found: MONTHS[int(found["month"])]),
    (_TIME, _time),
    (_HOUR, lambda found: _hour(int(found["hour"]))),
    (_MINUS, "마이너스 "),
    (numbers.DIGIT_GROUPS, lambda found: " ".join(korean_digits(group) for group in re.split("[-.]", found[0]))),
    (numbers.SECTION, lambda found: "점".join(korean(int(group)) for group in found[0].split("."))),
    (_RANGE, "에서 "),
    (_FOREIGN_MONEY, lambda found: f"{_scaled(found['number'], found['scale'])} {CURRENCIES[found['currency']]}"),
    (_FOREIGN_SCALE, lambda found: _scaled(found["number"], found["scale"])),
    (_WON_IN_SCALE, _won),
    (_WON, lambda found: f"{_number(found['number'])} {found['won']}"),
    (_UNIT, lambda found: f"{_number(found['number'])} {UNITS[found['unit']]}"),
    (_COUNTED, _counted),
    (numbers.LEADING_ZERO, lambda found: korean_digits(found[0])),
    (numbers.ANY_NUMBER, lambda found: numbers.apart(found, _number(found["number"]))),
)
