"""Reads the units that captions, headers and labels state for bare numbers: `$’000`, `(in millions)`, `(단위: 억원)`.

A statement is a word, letter or zeros of scale beside `in`, brackets or a currency; no heading needs to be listed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import NamedTuple

from tasks.language.number_words import CODE, COUNTERS, CURRENCIES, CURRENCY, PLAIN_SIGNS, SCALE_WORDS, SIGN, UNIT_NAMES

SHARES = "shares"
_WINDOW = 48
"""Characters before a scale in which its currency and what introduces it may stand; a bound keeps reading linear."""
_LETTERS = "k|m|b|bn|mn|mm|cr|tn"
_WORDS = "|".join(word for word in SCALE_WORDS if word.isascii() and (len(word) > 2 or word in ("mn", "bn")))
_LOCAL = "|".join(sorted((word for word in SCALE_WORDS if not word.isascii()), key=len, reverse=True))
_SCALE = re.compile(
    rf"""
      (?P<quote>'|(?<!\d)(?<!\d[,.'\s]))000(?P<grouped>[\s,.']?000)?(?P<bare>\s?'?s(?![a-z])|)(?!\d|[,.]\d)
    | (?<![\w.,])(?P<digits>1(?:[,.'\s]?000)+)(?!\d|[,.]\d)(?=\s?(?P<times>{_LOCAL}|))
    | (?<![A-Za-z])(?:(?P<tens>10|100|ten|hundred)s?\s(?:of\s)?)?(?P<word>{_WORDS})(?P<plural>s|)(?![A-Za-z])\.?
    | (?<=[A-Z{SIGN[1:-1]}/\s])(?P<letter>{_LETTERS})(?![A-Za-z0-9/'])
    | (?<![A-Za-z0-9])(?P<prefix>[kKTMm])(?=(?:{CODE}|[€£¥$])(?![A-Za-z]))
    """,
    re.VERBOSE | re.IGNORECASE,
)
_MARK = re.compile(rf"(?<![A-Za-z])(?-i:(?P<mark>{CURRENCY}|R|TL))\s?[',(]?\s?(?P<in>in\s)?$", re.IGNORECASE)
_NAME = re.compile(
    r"(?:(?<![a-z])(?P<other>[a-z.]+)\s(?:and|&)\s)?(?P<name>(?:[a-z.]+\s){0,2}(?!in\s)[a-z.]+)\s?(?:[',(]\s?)?"
    r"(?P<in>in\s)?$",
    re.IGNORECASE,
)
_BEHIND = re.compile(
    rf"\s?(?P<of>of\s|d'|de\s|di\s)?(?:(?P<mark>{CURRENCY})|(?P<name>[A-Za-z.]+(?:\s[A-Za-z.]+){{0,3}}))"
)
_IN = re.compile(r"(?:(?<![A-Za-z])(?:in|en|em|(?P<unit>units?\s?:|units?\sof))|단\s?위\s?:?)\s?$", re.IGNORECASE)
_OPEN = re.compile(r"(?:^|[(\[|\n]|(?:19|20)\d\d,?)\s*$")
_CLOSED = re.compile(r"\s*(?:$|[)\]|,;:\n]|omitted)", re.IGNORECASE)
_IN_CURRENCY = re.compile(
    r"(?:^|[(\[|])\s?(?:(?:all|amounts?|figures|values|are|expressed|stated|presented|shown)\s){0,4}in\s"
    r"(?P<unit>[^\s\d)\]|,;]+(?:\s[A-Za-z]+){0,2})\s?(?=$|[)\]|,;])",
    re.IGNORECASE | re.MULTILINE,
)
"""All of a line or of a text in brackets that names a currency in whole units: (in euros)."""
_EXCEPT_SHARES = re.compile(
    r"except\s(?:for\s)?(?:(?:the|number|of|common|ordinary|outstanding|amounts?)\s)*shares?\b"
    r"(?:,?\s(?:(?:which|that)\sare\s|are\s)?(?:[a-z]+\s)?in\s(?P<factor>thousand|million)s)?",
    re.IGNORECASE,
)
_SHARES_APART = re.compile(
    r"[(;,]\s?[^();,]{0,30}\bin\s(?:%|per\s?cent)\s?[);,]|\bexcept\b[^();]{0,60}\bpercentages?\s?[);,]", re.IGNORECASE
)
_ITEM = rf"(?P<factor>{_LOCAL}|1(?:,?000)+|)\s?(?P<unit>[가-힣]{{1,4}}?|[円元㎡%]|{CURRENCY}|)\s?(?P<behind>{_LOCAL}|)"
_KOREAN = re.compile(
    rf"단\s?위\s?:?\s?(?P<list>[^)\]>＞〉】〕}}\n|]{{1,40}})"
    rf"|(?:^[^()|\n]{{0,20}}\s)?(?P<ahead>(?:{_LOCAL})\s?원)\s?단위(?:임|이|입|로\s?(?:표시|표기|기재|작성))"
    r"|(?:(?<=[(\[|])|^)\s?(?P<alone>[^()<＜〈【〔{\[\]|\n]{1,16}?)\s?(?=[)\]|]|$)",
    re.MULTILINE,
)
_PIECE = re.compile(rf"(?:.*?[\s:-]\s*+)??{_ITEM}(?:(?:이다|이며|입니다|임|으로)(?![가-힣]).*|\.)?")


class Scale(NamedTuple):
    """A unit stated for numbers that are written without one: `(단위: 백만원)`, `(in millions)`."""

    factor: Decimal
    unit: str
    """A currency, `shares`, `people` …; empty where none is named."""


def read_scales(text: str) -> tuple[Scale, ...]:
    """Return the distinct units that `text` states for numbers without one, in its order."""
    stated: list[tuple[int, Scale]] = []
    text = text.translate(PLAIN_SIGNS)
    for match in _EXCEPT_SHARES.finditer(text):
        stated.append((match.start(), Scale(SCALE_WORDS.get((match["factor"] or "").lower(), Decimal(1)), SHARES)))
    plain = _EXCEPT_SHARES.sub(lambda match: " " * len(match.group()), text)
    stated += ((match.start(), Scale(Decimal(1), "%")) for match in _SHARES_APART.finditer(plain))
    for pattern, read in ((_SCALE, _read_statement), (_KOREAN, _read_items)):
        stated += ((match.start(), scale) for match in pattern.finditer(plain) for scale in read(match))
    whole = ((match.start(), Scale(Decimal(1), currency_of(match["unit"]))) for match in _IN_CURRENCY.finditer(plain))
    stated += (place for place in whole if place[1].unit)
    return tuple(dict.fromkeys(scale for _, scale in sorted(stated, key=lambda place: place[0])))


def is_scale(text: str) -> bool:
    """Return whether a whole cell states a unit, and holds no amount: `$’000`, `(000s)`."""
    return bool(read_scales(text)) and not re.search(r"[1-9]", text)


def currency_of(word: str | None) -> str:
    """Return the code of the currency that a sign or a word such as `U.S. dollars` names; empty for another word."""
    name = re.sub(r"[\s.]", "", word or "").upper()
    return CURRENCIES.get(name) or CURRENCIES.get(name.removesuffix("S"), "")


def name_unit(word: str) -> str:
    """Return the currency or the unit that a word names: `KRW`, `%`, `people`; empty for another word."""
    return currency_of(word) or next((name for name, pattern in UNIT_NAMES if pattern.fullmatch(word)), "")


def _read_statement(match: re.Match[str]) -> Iterator[Scale]:
    """Yield the unit that a word, letter or zeros of scale state; nothing where they are part of a sentence."""
    text, start = match.string, match.start()
    first = max(0, start - _WINDOW)
    mark = _MARK.search(text, first, start)
    name = None if mark else _NAME.search(text, first, start)
    units = [currency_of(mark["mark"])] if mark else _name_units(name)
    before = mark.start() if mark else start
    behind = _BEHIND.match(text, match.end())
    unit_behind, end = _unit_behind(behind, match.end()) if behind else ("", match.end())
    if re.search(r"\d\s?$", text[first:before]) and not re.search(r"(?<!\d)(?:19|20)\d\d\s?$", text[first:before]):
        return  # 5 million dollars
    intro = _IN.search(text, first, before)
    introduced = bool(intro or ((mark or name) or {"in": None})["in"])
    if (match["tens"] or "").isdigit() and not (intro and (intro["unit"] or _OPEN.search(text, first, intro.start()))):
        return  # $10 million
    opened, closed = bool(_OPEN.search(text, first, before)), bool(_CLOSED.match(text, end))
    if match["letter"]:
        # RMB is no RM in billions, and RM no rand in millions
        word = mark["mark"] if mark and mark.end("mark") == start and mark["mark"].isalpha() else ""
        if word and word not in ("RMB", *CURRENCIES.values()):
            accepted = word == "R" and match["letter"] in ("m", "bn") and opened and closed
        else:
            accepted = mark is not None and (mark["mark"] not in ("R", "TL") or (opened and closed))
    elif match["prefix"]:
        accepted = bool(unit_behind) and (text[end - 1] != "$" or (opened and closed and match["prefix"] != "T"))
    elif match["quote"]:
        accepted = True  # an apostrophe before zeros is in no number
    elif match["digits"]:
        accepted = introduced and (any(units) or bool(unit_behind) or closed)
    else:
        named = any(units) and (introduced or closed)
        plural = bool(match["plural"] or match["bare"])
        in_unit = introduced and (plural or closed or bool(unit_behind) or bool(behind and behind["of"]))
        accepted = bool(mark) or named or in_unit or (opened and closed) or (bool(match["bare"]) and closed)
    if accepted:
        stated = [unit for unit in units if unit] or [unit_behind]
        yield from (Scale(_factor_of(match), unit) for unit in stated)


def _factor_of(match: re.Match[str]) -> Decimal:
    """Return the factor that a scale stands for: 1,000 for `TEUR`, 10 ** 6 for `000,000`."""
    if word := match["word"] or match["letter"] or match["prefix"]:
        word = "k" if word == "T" else word.lower()  # TEUR: Tausend
        tens = {"10": 10, "ten": 10, "100": 100, "hundred": 100}
        return SCALE_WORDS[word] * tens.get((match["tens"] or "").lower(), 1)
    if match["digits"]:
        return Decimal(re.sub(r"\D", "", match["digits"])) * SCALE_WORDS.get(match["times"], Decimal(1))
    return Decimal(10**6 if match["grouped"] else 10**3)


def _name_units(match: re.Match[str] | None) -> list[str]:
    """Return what the words before a scale name: `dollars and shares in`. An empty text stands for no currency."""
    words = match["name"].split() if match else []
    names = [currency_of(" ".join(words[at:])) for at in range(len(words))]
    if words and words[-1].lower() == SHARES:
        return [currency_of(match["other"]) if match else "", SHARES]
    return [next(filter(None, names), "")]


def _unit_behind(match: re.Match[str], end: int) -> tuple[str, int]:
    """Return the currency that follows a scale, and where it ends: `of U.S. dollars`; `end` where there is none."""
    if match["mark"]:
        return currency_of(match["mark"]), match.end()
    words = match["name"].split(" ")
    for first in range(len(words)):
        for last in range(len(words), first, -1):
            if currency := currency_of(" ".join(words[first:last])):
                # Namibian dollars are none of the United States
                is_other = first > 0 and words[first - 1][:1].isupper()
                return "" if is_other else currency, match.start("name") + len(" ".join(words[:last]))
    return "", end


def _read_items(match: re.Match[str]) -> Iterator[Scale]:
    """Yield the units of a list, `(단위: 백만원, 주)`, or of brackets or a cell that hold nothing else: `(천원)`."""
    text = match["list"] or match["ahead"] or match["alone"]
    pieces = [_PIECE.fullmatch(piece.strip()) for piece in re.split(r"[,/·、](?!000)|\s및\s", text)]
    if match["alone"] and not all(pieces):
        return
    for piece in filter(None, pieces):
        written, unit = piece["factor"] or piece["behind"], _unit_of(piece["unit"])
        plain = SCALE_WORDS.get(written) or Decimal(written.replace(",", "") or 1)
        if match["alone"] and (written[:1] == "1" or (not unit and (written == "만" or not match.start("alone")))):
            continue  # an aside, (1,000원), years of age, (만), or a word of its own, 조
        if match["alone"] and not written and piece["unit"] not in ("원", "명", "인", *["%"] * (len(pieces) > 1)):
            continue  # a word, or shares alone
        if unit is None or not (unit or written):
            continue
        yield Scale(plain, unit or ("KRW" if written in ("억", "조") else ""))


def _unit_of(word: str) -> str | None:
    """Return the unit that a word of a Korean list names, empty for no word; None for a word that names none."""
    if not word:
        return ""
    if word in ("주", "천주"):
        return SHARES
    return name_unit(word) or (word if re.fullmatch(COUNTERS, word) else None)
