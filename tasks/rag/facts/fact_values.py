"""Labels of facts, and their values: checked against the label and brought into one canonical form."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from decimal import Decimal
from importlib.resources import files
from typing import Literal, NamedTuple

from tasks.language.numbers import Number, read_numbers, scales
from tasks.language.sentences import Language

FactName = Literal[
    "amount", "vat", "period", "published", "opening", "questions_due", "deadline", "points", "requirement", "notice",
    "project", "issuer", "place", "contact",
]  # fmt: skip

FACTS = tomllib.loads((files("tasks.rag.facts") / "facts.toml").read_text("utf-8"))
DISPLAY: dict[str, dict[Language, str]] = FACTS["display"]
"""In the order in which a table shows them."""
_LABELS: dict[FactName, re.Pattern[str]] = {
    name: re.compile(pattern, re.VERBOSE) for name, pattern in FACTS["labels"].items()
}

REQUIREMENT_ID = re.compile(r"(?:[A-Z]{1,4}R|REQ)[-_‐–]\d{2,4}(?:-\d{1,3})?")
ANY_ID = re.compile(r"[A-Z]{1,5}[-_]?\d{1,4}(?:-\d{1,3})?")
VAT = re.compile(
    r"""
    (?:부가가치세|부가세|VAT|V\.A\.T\.?)(?:\s?\(?\s?VAT\s?\)?)?\s?(?:[를은을]\s?)?(?:10%\s?)?
        (?P<ko>포함|별도|제외|미포함|불포함)
    | (?P<before>inclu(?:ding|sive\sof)|incl\.?|exclu(?:ding|sive\sof)|excl\.?|plus|net\sof)\s(?:of\s)?
        (?:VAT|GST|(?:sales\s)?tax(?:es)?)
    | (?:VAT|GST|tax)\s(?P<after>included|excluded|inclusive|exclusive)
    """,
    re.IGNORECASE | re.VERBOSE,
)


def bare(text: str) -> str:
    """`사 업 명` and `가. 사업명(공고명)` are 사업명."""
    text = re.sub(r"^\s*(?:[가-하]|[0-9]{1,2}|[ivxIVXⅠ-Ⅻ]{1,4}|[a-z])[.)]\s*", "", text)
    return re.sub(r"\(.*?\)|\[.*?\]|[\W\d_]", "", text).casefold()


def fact_name(label: str) -> FactName | None:
    """Which fact a label names, if any."""
    squeezed = bare(label)
    return next((name for name, pattern in _LABELS.items() if pattern.fullmatch(squeezed)), None) if squeezed else None


MOST_VALUE_CHARS = 200
MOST_NAME_CHARS = 80
LEAST_BARE_AMOUNT = 100_000
"""A smaller number without a currency is not read as an amount."""
CURRENCIES = frozenset(["KRW", "USD", "EUR", "GBP", "JPY", "CNY"])
DURATIONS = {"months": ("months", 1), "years": ("months", 12), "weeks": ("days", 7), "days": ("days", 1)}
_POINTS = re.compile(r"\(?\s?([0-9]{1,4}(?:\.[0-9]{1,3})?)\s?(?:점|%|points?|pts?\.?)?\s?\)?", re.IGNORECASE)
PHONE_OR_MAIL = re.compile(r"[0-9]{2,4}[-).\s]\s?[0-9]{3,4}[-.\s][0-9]{4}|[\w.+-]+@[\w-]+\.[\w.]+")


class Stated(NamedTuple):
    """A fact as its block states it."""

    name: FactName
    label: str
    value: str
    canonical: str | None


def read_value(name: FactName, label: str, text: str) -> list[Stated]:
    """The fact, and a `vat` fact if an amount states its tax; empty if `text` does not fit the fact."""
    value = " ".join(text.split()).strip(" -–·,;")
    if not value or len(value) > MOST_VALUE_CHARS or name not in _READERS:
        return []
    read = _READERS[name](f"{label} | ", value)
    if read is None:
        return []
    label = " ".join(label.split()).strip(" -–·:：")
    found = [Stated(name, label, value, read or None)]
    if name == "amount" and (tax := VAT.search(f"{value} {label}")):
        found.append(tax_of(label, tax))
    return found


def tax_of(label: str, tax: re.Match[str]) -> Stated:
    """A `vat` fact: whether the amount under that label includes the tax. tax: a match of `VAT`."""
    said = (tax["ko"] or tax["before"] or tax["after"] or "").lower()
    is_included = said == "포함" or said.startswith("incl")
    return Stated("vat", " ".join(label.split()), tax.group(), "included" if is_included else "excluded")


def points(label: str, text: str) -> Stated | None:
    """Points of a criterion: `20`, `20점`, `20 points`, `20%`."""
    match = _POINTS.fullmatch(text.strip())
    name = " ".join(label.split()).strip(" -–·:：,")
    if not match or not name or len(name) > MOST_NAME_CHARS:
        return None
    return Stated("points", name, text.strip(" ()"), plain(Decimal(match[1])))


def plain(value: Decimal) -> str:
    """Digits without an exponent or idle zeros."""
    return f"{value.normalize():f}"


def _amount(label: str, value: str) -> str | None:
    stated = scales(label.replace(" | ", ""))
    for number in read_numbers(value):
        if number.value <= 0:
            continue
        if number.unit in CURRENCIES:
            return plain(number.value) + ("" if number.unit == "KRW" else f" {number.unit}")
        if number.unit == "" and (stated or number.value >= LEAST_BARE_AMOUNT):
            return plain(number.value * (stated[0].factor if stated else 1))
    return None


def _period(_: str, value: str) -> str | None:
    numbers = read_numbers(value)
    for number in numbers:
        if number.unit in DURATIONS:
            unit, factor = DURATIONS[number.unit]
            return f"{plain(number.value * factor)} {unit}"
    days = [iso(number) for number in numbers if number.unit == "date"]
    return None if not days else f"{days[0]}/{days[-1]}" if len(days) > 1 else f"/{days[0]}"


def _day(value: str, *, first: bool) -> str | None:
    """The first or last day of the text with its hour; empty for a day without a year."""
    numbers = read_numbers(value)
    days = [number for number in numbers if number.unit == "date"]
    if not days:
        return "" if any(number.unit == "day of month" for number in numbers) else None
    day = days[0 if first else -1]
    if len(days) == 1:  # 3:00 PM on Friday, May 24, 2024
        hours = [number for number in numbers if number.unit == "time"]
        return iso(day) + (_clock(hours[0]) if hours else "")
    after = [number for number in numbers if number.start >= day.end and number.unit in ("date", "time")]
    return iso(day) + (_clock(after[0]) if after and after[0].unit == "time" else "")


def _clock(hour: Number) -> str:
    return f" {int(hour.value) // 100:02d}:{int(hour.value) % 100:02d}"


def iso(day: Number) -> str:
    """A date in ISO 8601, such as 2024-05-07."""
    digits = f"{int(day.value):08d}"
    return f"{digits[:4]}-{digits[4:6]}-{digits[6:]}"


def _words(_: str, value: str) -> str | None:
    letters = sum(sign.isalpha() for sign in value)
    return "" if letters >= 2 and not _HEADER_WORD.fullmatch(re.sub(r"\s", "", value)) else None


_HEADER_WORD = re.compile(
    r"[가-힣()]{0,6}(?:금액|기간|명칭|성명|기관|일자|비고|내용|구분|번호|비율|여부|주소|직위|전화|연락처|규모|발주처)(?:\(.{1,6}\))?"
)
"""Column headers, which are not values."""
_READERS: dict[FactName, Callable[[str, str], str | None]] = {
    "amount": _amount,
    "period": _period,
    "published": lambda _, value: _day(value, first=True),
    "opening": lambda _, value: _day(value, first=True),
    "questions_due": lambda _, value: _day(value, first=False),
    "deadline": lambda _, value: _day(value, first=False),
    "notice": lambda _, value: value if any(map(str.isdigit, value)) and len(value) <= MOST_NAME_CHARS else None,
    "project": _words,
    "issuer": _words,
    "place": _words,
    "contact": lambda _, value: "" if PHONE_OR_MAIL.search(value) else None,
}
"""(label, value) → canonical form; empty: it has none; None: the value does not fit the fact."""
