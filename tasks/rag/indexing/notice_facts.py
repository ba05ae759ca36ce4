"""Facts that a request for proposals states beside a label: amount, period, deadlines …; read without a model.

A fact stands after a colon, or in the cell beside or below its label. Other documents have none.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from importlib.resources import files
from typing import Literal, NamedTuple

from storage.segments import Fact
from tasks.documents.blocks import Cell, Document
from tasks.language.numbers import CURRENCIES, Number, read_numbers
from tasks.language.scales import read_scales
from tasks.language.sentences import Language

FactName = Literal[
    "amount", "vat", "period", "published", "opening", "questions_due", "deadline", "notice", "project", "issuer",
    "place", "contact",
]  # fmt: skip

WORDS = tomllib.loads((files("tasks.rag.indexing") / "notice_words.toml").read_text("utf-8"))
DISPLAY: dict[FactName, dict[Language, str]] = WORDS["display"]
"""Name of a fact → its label in a language, in the order in which a table shows the facts."""
_LABELS: dict[FactName, re.Pattern[str]] = {
    name: re.compile(pattern, re.VERBOSE) for name, pattern in WORDS["labels"].items()
}
_SOLICITATION = re.compile(WORDS["solicitation"], re.VERBOSE | re.IGNORECASE)
_VAT = re.compile(WORDS["vat"], re.VERBOSE | re.IGNORECASE)

MOST_FACTS = 300
MOST_LINE_CHARS = 2_000
MOST_LABEL_CHARS = 60
MOST_VALUE_CHARS = 200
MOST_NAME_CHARS = 80
LEAST_BARE_AMOUNT = 100_000
"""A smaller number without a currency is not read as an amount."""
OPENING_BLOCKS = 60
"""Blocks at the beginning of a document that are searched for what it calls itself."""
TELLING = frozenset(["amount", "period", "deadline"])
"""Two of these facts also mark a document as a request for proposals."""
DATED: frozenset[FactName] = frozenset(["published", "opening", "questions_due", "deadline"])
DURATIONS = {"months": ("months", 1), "years": ("months", 12), "weeks": ("days", 7), "days": ("days", 1)}

_DOTTED = re.compile(r"\.{4}|…{2}|·{4}")
"""Dot leaders of a table of contents."""
_BULLET = r"[\s○●◦■□▪▶❍◎ㅇ•*·※◇◆△▷-]{0,12}(?:\(?(?:[0-9]{1,2}|[가-하]|[a-z])[.)]\s*)?"
_LINE = re.compile(  # a colon behind a digit may be that of a time, and needs a space behind it
    rf"{_BULLET}(?P<label>(?:[^:：\n(（]|[(（][^)）\n]{{0,30}}[)）]){{2,60}}?)\s?(?:(?<![0-9])[:：]|[:：](?=\s))\s*(?P<value>\S.*)"
)
_NOTICE = re.compile(
    r"(?:RFP|RFQ|ITT|IFB|ITB|Solicitation|Tender)\s*(?:No\.?|Number|#)?\s*(?P<id>(?=\S*\d)[\w./-]+)", re.IGNORECASE
)
_PHONE_OR_MAIL = re.compile(r"[0-9]{2,4}[-).\s]\s?[0-9]{3,4}[-.\s][0-9]{4}|[\w.+-]+@[\w-]+\.[\w.]+")
_HEADER_WORD = re.compile(
    r"[가-힣()]{0,6}(?:금액|기간|명칭|성명|기관|일자|비고|내용|구분|번호|비율|여부|주소|직위|전화|연락처|규모|발주처)(?:\(.{1,6}\))?"
)
"""Column headers, which are not values."""


class Stated(NamedTuple):
    """A fact as its block states it, without its place."""

    name: FactName
    label: str
    value: str
    canonical: str | None


def extract_facts(document: Document) -> tuple[Fact, ...]:
    """Return up to MOST_FACTS facts of a request for proposals in reading order, each once; none of other documents."""
    blocks = [block for page in document.pages for block in page.blocks]
    facts: dict[tuple[str, str], Fact] = {}
    for block in blocks:
        if block.kind in ("header", "footer"):
            continue
        for stated in _find_in_cells(block.cells) if block.kind == "table" else _find_in_lines(block.text):
            key = stated.name, stated.canonical or " ".join(stated.value.split())
            day = f"{stated.canonical} "  # the same day may be known with its hour
            same_name_values = [fact.canonical or "" for fact in facts.values() if fact.name == stated.name]
            is_repeated = key in facts or (
                stated.canonical and any(value.startswith(day) for value in same_name_values)
            )
            if len(facts) < MOST_FACTS and not is_repeated:
                facts[key] = Fact(**stated._asdict(), page=block.page, bbox=block.bbox)
    names = {fact.name for fact in facts.values()}
    opening = " ".join(block.text for block in blocks[:OPENING_BLOCKS])
    is_request = len(names & TELLING) >= 2 or _SOLICITATION.search(f"{document.title or ''} {opening}")
    return tuple(facts.values()) if is_request else ()


def _find_in_lines(text: str) -> Iterator[Stated]:
    """Yield the facts of a text that stand in a line: `Label: value`, `Label date`, `RFP 24-017`."""
    for line in (line.strip()[:MOST_LINE_CHARS] for line in text.splitlines()):
        if not line or _DOTTED.search(line):
            continue
        match = _LINE.match(line)
        name = fact_name(match["label"]) if match else None
        if match and name:
            yield from read_value(name, match["label"], match["value"])
        elif match := _NOTICE.fullmatch(line):
            yield Stated("notice", line[: match.start("id")].strip(), match["id"], match["id"])
        elif day := next((number for number in read_numbers(line) if number.unit in ("date", "day of month")), None):
            label = re.sub(rf"^{_BULLET}", "", line[: day.start])
            name = fact_name(label)
            if name and name in DATED:
                yield from read_value(name, label, line[day.start :])


def _find_in_cells(cells: Sequence[Cell]) -> Iterator[Stated]:
    """Yield the facts of a table: values right of a label, or below it where the table has one row below its header.

    In a longer table every row is another project.
    """
    starts = {(cell.row, cell.col): cell for cell in cells}
    # readers let a span be up to 1,024; the first 100 rows and columns are looked at
    covered = {(cell.row + down, cell.col): cell for cell in cells for down in range(min(cell.row_span, 100))}
    rows = max((cell.row + cell.row_span for cell in cells), default=0)
    for cell in cells:
        name = fact_name(cell.text) if len(cell.text) <= MOST_LABEL_CHARS else None
        if name is None:
            continue
        cells_right = [
            covered[cell.row, col] for col in range(cell.col + cell.col_span, 99) if (cell.row, col) in covered
        ]
        text = cells_right[0].text if cells_right else ""
        row = " ".join(right.text for right in cells_right)
        values = read_value(name, cell.text, row if name == "contact" else text) if not fact_name(text) else []
        if name == "amount" and len(values) == 1 and (tax := _VAT.search(row)):
            values.append(_make_tax_fact(cell.text, tax))
        if not values and name != "contact" and cell.row == 0 and rows == cell.row_span + 1:
            below = starts.get((cell.row_span, cell.col))
            values = read_value(name, cell.text, below.text) if below else []
        yield from values


def strip_label(text: str) -> str:
    """Strip a label of numbering, brackets and everything but letters: `사 업 명`, `가. 사업명(공고명)` are 사업명."""
    text = re.sub(r"^\s*(?:[가-하]|[0-9]{1,2}|[ivxIVXⅠ-Ⅻ]{1,4}|[a-z])[.)]\s*", "", text)
    return re.sub(r"\(.*?\)|\[.*?\]|[\W\d_]", "", text).casefold()


def fact_name(label: str) -> FactName | None:
    """Return the fact that a label names; None where it names none."""
    squeezed = strip_label(label)
    return next((name for name, pattern in _LABELS.items() if pattern.fullmatch(squeezed)), None) if squeezed else None


def read_value(name: FactName, label: str, text: str) -> list[Stated]:
    """Read the value of a fact, and a `vat` fact if an amount states its tax; empty if `text` does not fit the fact."""
    value = " ".join(text.split()).strip(" -–·,;")
    if not value or len(value) > MOST_VALUE_CHARS or name not in _READERS:
        return []
    read = _READERS[name](label, value)
    if read is None:
        return []
    label = " ".join(label.split()).strip(" -–·:：")
    values = [Stated(name, label, value, read or None)]
    if name == "amount" and (tax := _VAT.search(f"{value} {label}")):
        values.append(_make_tax_fact(label, tax))
    return values


def _make_tax_fact(label: str, tax: re.Match[str]) -> Stated:
    """Return the `vat` fact that says whether the amount under a label includes the tax."""
    words = (tax["ko"] or tax["before"] or tax["after"] or "").lower()
    is_included = words == "포함" or words.startswith("incl")
    return Stated("vat", " ".join(label.split()), tax.group(), "included" if is_included else "excluded")


def _read_amount(label: str, value: str) -> str | None:
    """Return the first positive amount in digits, with its currency unless that is KRW; None without a sure amount."""
    stated = read_scales(label)
    for number in read_numbers(value):
        if number.value <= 0:
            continue
        if number.unit in CURRENCIES.values():
            return _format_plain(number.value) + ("" if number.unit == "KRW" else f" {number.unit}")
        if number.unit == "" and (stated or number.value >= LEAST_BARE_AMOUNT):
            return _format_plain(number.value * (stated[0].factor if stated else 1))
    return None


def _read_period(_: str, value: str) -> str | None:
    """Return `6 months`, else the first and last day as `2024-05-07/2024-05-20` or `/…`; None without any."""
    numbers = read_numbers(value)
    for number in numbers:
        if number.unit in DURATIONS:
            unit, factor = DURATIONS[number.unit]
            return f"{_format_plain(number.value * factor)} {unit}"
    days = [_iso_date(number) for number in numbers if number.unit == "date"]
    return None if not days else f"{days[0]}/{days[-1]}" if len(days) > 1 else f"/{days[0]}"


def _read_day(value: str, *, first: bool) -> str | None:
    """Return the first or last day, `2024-05-24 15:00` with its hour; "" for one without a year, None without any."""
    numbers = read_numbers(value)
    days = [number for number in numbers if number.unit == "date"]
    if not days:
        return "" if any(number.unit == "day of month" for number in numbers) else None
    day = days[0 if first else -1]
    if len(days) == 1:  # its hour may stand before it: 3:00 PM on Friday, May 24, 2024
        hours = [number for number in numbers if number.unit == "time"]
    else:
        after = [number for number in numbers if number.start >= day.end and number.unit in ("date", "time")]
        hours = after[:1] if after and after[0].unit == "time" else []
    clock = int(hours[0].value) if hours else 0
    return _iso_date(day) + (f" {clock // 100:02d}:{clock % 100:02d}" if hours else "")


def _iso_date(day: Number) -> str:
    digits = f"{int(day.value):08d}"
    return f"{digits[:4]}-{digits[4:6]}-{digits[6:]}"


def _read_words(_: str, value: str) -> str | None:
    letters = sum(sign.isalpha() for sign in value)
    return "" if letters >= 2 and not _HEADER_WORD.fullmatch(re.sub(r"\s", "", value)) else None


_READERS: dict[FactName, Callable[[str, str], str | None]] = {
    "amount": _read_amount,
    "period": _read_period,
    "published": lambda _, value: _read_day(value, first=True),
    "opening": lambda _, value: _read_day(value, first=True),
    "questions_due": lambda _, value: _read_day(value, first=False),
    "deadline": lambda _, value: _read_day(value, first=False),
    "notice": lambda _, value: value if any(map(str.isdigit, value)) and len(value) <= MOST_NAME_CHARS else None,
    "project": _read_words,
    "issuer": _read_words,
    "place": _read_words,
    "contact": lambda _, value: "" if _PHONE_OR_MAIL.search(value) else None,
}
"""(label, value) → canonical form; empty: it has none; None: the value does not fit the fact."""


def _format_plain(value: Decimal) -> str:
    """Write a number without an exponent or trailing zeros."""
    return f"{value.normalize():f}"
