"""Shows the numbers of spreadsheets as people see them: by their number format, a small language of its own.

Formats with exponents and fractions are not read: their numbers stand as cells without a format.
Source: ISO/IEC 29500-1, 18.8.30 and 18.8.31.
"""

from __future__ import annotations

import operator
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation, localcontext
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

_TABLE = tomllib.loads(Path(__file__).with_name("number_formats.toml").read_text("utf-8"))
BUILT_IN: dict[int, str] = {int(number): code for number, code in _TABLE["built_in"].items()}
GENERAL = "General"
LAST_DAY = 2_958_466  # the day after 9999-12-31
MOST_DIGITS = 60

_TOKEN = re.compile(
    r'"(?P<quoted>[^"]*)"?|\\(?P<escaped>.)|_(?P<space>.)|\*(?P<fill>.)|\[(?P<bracket>[^\]]*)\]|'
    r"(?P<half>AM/PM|A/P|오전/오후)|(?P<general>General|G/표준)|(?P<exponent>E[+-])|"
    r"(?P<date>y+|m+|d+|h+|s+|a{3,4}(?![a-zA-Z]))|(?P<digit>[0#?])|(?P<point>\.)|(?P<comma>,)|(?P<percent>%)|"
    r"(?P<text>@)|(?P<next>;)|(?P<other>.)",
    re.IGNORECASE | re.DOTALL,
)
_ELAPSED = re.compile(r"h+|m+|s+", re.IGNORECASE)
_CONDITION = re.compile(r"(?P<sign>[<>]=?|=|<>)(?P<limit>-?\d+(?:\.\d+)?)")
_COMPARE: Mapping[str, Callable[[Decimal, Decimal], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "=": operator.eq, "<>": operator.ne,
}  # fmt: skip


class Token(NamedTuple):
    """A piece of a format: its kind, and what it shows or how often it is repeated."""

    kind: str
    text: str


@dataclass
class Section:
    """One of the formats for positive, negative, zero and text, which `;` separates."""

    tokens: list[Token] = field(default_factory=list[Token])
    condition: tuple[str, Decimal] | None = None
    """What the number must be for the section, `[>=1000000]`: the comparison and its limit."""

    @property
    def is_date(self) -> bool:
        """Whether it shows numbers as dates or times."""
        return any(kind in ("date", "elapsed", "half") for kind, _ in self.tokens)

    @property
    def is_read(self) -> bool:
        """Whether the section can be applied; False for an exponent or a fraction."""
        kinds = {kind for kind, _ in self.tokens}
        is_fraction = not self.is_date and "digit" in kinds and Token("literal", "/") in self.tokens
        return "exponent" not in kinds and not is_fraction


def is_date(code: str) -> bool:
    """Return whether a format, by its first section, shows numbers as dates or times."""
    return _parse_sections(code)[0].is_date


def format_number(value: float, code: str, *, since_1904: bool = False) -> str:
    """Write a finite number as its format shows it; what the format cannot show is written as General."""
    # of its shortest spelling: 1.005 is rounded as people read it
    number, sections, bare = Decimal(repr(value)), _parse_sections(code), False
    section: Section | None = None
    if any(each.condition for each in sections):
        # the first section whose condition it meets, else the first one without a condition behind it
        meets = (each for each in sections if each.condition and _COMPARE[each.condition[0]](number, each.condition[1]))
        section = next(meets, None) or next((each for each in sections[1:] if not each.condition), None)
    else:
        bare = number < 0 and len(sections) > 1  # the format for negative numbers writes their sign
        section = sections[1 if bare else 2 if number == 0 and len(sections) > 2 else 0]
    if section is None or not all(each.is_read for each in sections):
        return format_general(value)
    if section.is_date:
        return _write_date(value, section.tokens, since_1904=since_1904) or format_general(value)
    return " ".join(_write_number(abs(number) if bare else number, section.tokens, value).split())


def format_general(value: float) -> str:
    """Write a finite number without a format: eleven digits at most, as cells show it."""
    if value == int(value) and abs(value) < 1e15:  # a double holds fifteen digits
        return str(int(value))
    text = f"{value:.11g}"
    return text if "e" not in text else f"{value:.6g}".upper()


@lru_cache(maxsize=256)
def _parse_sections(code: str) -> list[Section]:
    """Return the sections of a number format, parted by `;`, each with its tokens and its condition, if any."""
    sections = [Section()]
    for match in _TOKEN.finditer(code):
        kind, text = str(match.lastgroup), match[str(match.lastgroup)]
        if kind == "next":
            sections.append(Section())
        elif kind == "bracket":
            if condition := _CONDITION.fullmatch(text):
                sections[-1].condition = condition["sign"], Decimal(condition["limit"])
            elif text.startswith("$"):  # a currency, and the language that it is written in: [$₩-412]
                sections[-1].tokens.append(Token("literal", text[1:].split("-")[0]))
            elif _ELAPSED.fullmatch(text):
                sections[-1].tokens.append(Token("elapsed", text.lower()))
        elif kind in ("quoted", "escaped", "other", "space"):
            sections[-1].tokens.append(Token("literal", " " if kind == "space" else text))
        elif kind != "fill":
            sections[-1].tokens.append(Token(kind, text))
    return sections


def _write_number(number: Decimal, tokens: Sequence[Token], value: float) -> str:
    """Return a number in the places of a format, with its literals; `value` as General where it has too many digits."""
    kinds = [kind for kind, _ in tokens]
    if "digit" not in kinds:
        general = format_general(float(number))
        return "".join(general if kind in ("general", "text") else text for kind, text in tokens if kind != "comma")
    first, last = kinds.index("digit"), len(kinds) - 1 - kinds[::-1].index("digit")
    before, body = tokens[:first], tokens[first : last + 1]
    scaling = 0
    while last + 1 + scaling < len(kinds) and kinds[last + 1 + scaling] == "comma":
        scaling += 1
    behind = tokens[last + 1 + scaling :]
    # commas right before the point divide by a thousand too: 0,.0
    point = next((at for at, (kind, _) in enumerate(body) if kind == "point"), len(body))
    while point < len(body) and body[point - 1].kind == "comma":
        body, point, scaling = (*body[: point - 1], *body[point:]), point - 1, scaling + 1
    with localcontext() as context:
        context.prec = MOST_DIGITS
        scaled = number.scaleb(2 * kinds.count("percent") - 3 * scaling)
        digits = _write_digits(scaled, body)
    if digits is None:
        return format_general(value)
    has_own = any("-" in text for _, text in before)
    minus = "-" if number < 0 and not has_own and any(sign in "123456789" for sign in digits) else ""
    return minus + "".join(text for _, text in before) + digits + "".join(text for _, text in behind)


def _write_digits(number: Decimal, body: Sequence[Token]) -> str | None:
    """Return the number, without its sign, in the places of a format; None where it has too many digits."""
    kinds = [kind for kind, _ in body]
    before_point = body[: kinds.index("point")] if "point" in kinds else body
    places = _places_behind_point(body)
    try:
        # as spreadsheets do, not to even
        rounded = abs(number).quantize(Decimal(1).scaleb(-len(places)), rounding=ROUND_HALF_UP)
    except InvalidOperation:
        return None
    whole, _, fraction = f"{rounded:f}".partition(".")
    while fraction and places[len(fraction) - 1] != "0" and fraction[-1] == "0":
        fraction = fraction[:-1]

    least = "".join(text for kind, text in before_point if kind == "digit").lstrip("#?").count("0")
    whole = whole.lstrip("0").zfill(least)
    if any(kind == "comma" for kind, _ in before_point):
        whole = re.sub(r"(?<=\d)(?=(\d{3})+$)", ",", whole)
    else:
        # literals may stand between the digits, as in 000-00-00000
        remaining, parts = list(whole), list[str]()
        for kind, text in reversed(before_point):
            if kind != "digit":
                parts.append(text)
            elif remaining:
                parts.append(remaining.pop())
        whole = "".join(remaining) + "".join(reversed(parts))
    return whole + (f".{fraction}" if fraction else "")


def _places_behind_point(body: Sequence[Token]) -> str:
    kinds = [kind for kind, _ in body]
    behind = body[kinds.index("point") + 1 :] if "point" in kinds else ()
    return "".join(text for kind, text in behind if kind == "digit")


def _write_date(value: float, tokens: Sequence[Token], *, since_1904: bool) -> str | None:
    """Return a day number as its format shows it; None outside the calendar of spreadsheets (1900 or 1904 to 9999)."""
    if value < 0 or value >= LAST_DAY:
        return None
    decimals = len(_places_behind_point(tokens))
    # day numbers count from 1900 (or 1904); 1900 was taken for a leap year, so earlier days are off by one
    days = value + 1462 if since_1904 else value
    start = datetime(1899, 12, 30) if days >= 60 else datetime(1899, 12, 31)  # noqa: DTZ001 cells know no zone
    time_s = round((days - int(days)) * 86_400, min(decimals, 3))
    moment = start + timedelta(days=int(days), seconds=time_s)
    elapsed_s = int(round(value * 86_400, decimals))
    half_day = any(kind == "half" for kind, _ in tokens)
    timed = [i for i, (kind, _) in enumerate(tokens) if kind in ("date", "elapsed")]
    text = ""
    for i, (kind, shown_as) in enumerate(tokens):
        if kind == "date":
            at = timed.index(i)
            before = tokens[timed[at - 1]].text.lower() if at else ""
            after = tokens[timed[at + 1]].text.lower() if at + 1 < len(timed) else ""
            minutes = before.startswith("h") or after.startswith("s")  # what else `m` stands for is a month
            text += _date_part(shown_as.lower(), moment, minutes=minutes, half_day=half_day)
        elif kind == "elapsed":
            per = {"h": 3600, "m": 60, "s": 1}[shown_as[0]]
            text += str(elapsed_s // per).zfill(len(shown_as))
        elif kind == "half":
            names = shown_as.split("/")
            text += names[0] if moment.hour < 12 else names[1]
        elif kind == "point":
            text += "." if decimals and i + 1 < len(tokens) and tokens[i + 1].kind == "digit" else shown_as
        elif kind == "digit":
            text += f"{moment.microsecond:06d}"[:decimals] if tokens[i - 1].kind == "point" else ""
        elif kind != "text":
            text += shown_as
    return " ".join(text.split())


def _date_part(code: str, moment: datetime, *, minutes: bool, half_day: bool) -> str:
    """Return what one code (`yyyy`, `mm`, `aaa`) shows of a moment; half_day: hours run to 12; minutes: `m` is one."""
    day, month, weekday = f"{moment:%A}", f"{moment:%B}", "월화수목금토일"[moment.weekday()]
    names = {"aaa": weekday, "aaaa": f"{weekday}요일", "ddd": day[:3], "dddd": day}
    names |= {} if minutes else {"mmm": month[:3], "mmmm": month, "mmmmm": month[0]}
    if code[0] == "y" or code in names:
        return names.get(code) or (f"{moment:%Y}" if len(code) > 2 else f"{moment:%y}")
    hour, minute = (moment.hour - 1) % 12 + 1 if half_day else moment.hour, moment.minute if minutes else moment.month
    value = {"h": hour, "m": minute, "d": moment.day, "s": moment.second}[code[0]]
    return str(value).zfill(min(len(code), 2))
