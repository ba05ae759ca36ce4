"""Raised signs in text: marks of notes (`1,234¹`, `by¹`, `^(주1)`), powers (`10⁹`), units (`m²`), fractions (`48½`)."""

from __future__ import annotations

import re
import unicodedata
from decimal import Decimal
from typing import NamedTuple

RAISED = "".join(sign for sign in map(chr, range(0xB2, 0x2080)) if unicodedata.decomposition(sign)[:7] == "<super>")
"""All raised signs, for the inside of a class of a pattern."""
_RUN = re.compile(rf"\([{RAISED}]+\)|[{RAISED}]+(?:,\s?[{RAISED}]+)*|\^\([^()]{{1,16}}\)")
_SIGNED = re.compile("[⁺⁼]|^⁻|⁻$")
"""Raised signs that are no marks of notes: `10⁻⁶`, `Ca²⁺`; `¹²⁻¹⁴` are three notes."""
_SQUARED = re.compile(r"(?:^|[^A-Za-z])(?:[kcdmµμ]?m|ft|in|yd|mi|s|[a-zR])$")
"""A unit or a variable, whose ² and ³ are exponents."""
_TEN = re.compile(r"(?:^|[^\d.,])10$")
_POWER = re.compile(r"(?:(?P<factor>\d{1,3}(?:\.\d{1,12})?)\s?[x×·⋅*]\s?)?(?<![\d.,])10(?P<exponent>⁻?[⁰¹²³⁴-⁹]{1,2})")
_FRACTION = re.compile(
    r"(?<![\d.,])(?:(?P<whole>\d{1,9})\s?)?(?P<sign>[¼½¾⅐-⅞])"
    r"|(?<![\d.,⁄])(?:(?P<whole_before>\d{1,9})\s)?(?P<above>\d{1,2})⁄(?P<below>[1-9]\d{0,2})(?!\d)"
)
_STAR = re.compile(r"(?<=[\w%)])[*†‡§]{1,3}(?![\w*])")
_NOTE = re.compile(
    r"\s*(?:[\[(]{0,2}(?P<number>(?:주\s?)?\d{1,2}|[a-z](?=\)))(?:[)\]]{1,2}\s?:?|:|\s)|(?P<star>[*†‡§]{1,3}))\s*"
    r"(?=[^\W\d]|[(\"“‘'])"
)
"""The beginning of a note: `1 Estimate.`, `(1) …`, `주1) …`; `1. …` is an item of a list."""
_LARGEST_EXPONENT = 24
_LOWERED = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")
_UNITS = {"m²": "㎡", "km²": "㎢", "cm²": "㎠", "mm²": "㎟", "m³": "㎥", "km³": "㎦", "cm³": "㎤", "mm³": "㎣"}
_UNIT = re.compile(r"(?<![A-Za-z])[kcm]?m[²³]")


class PlainText(NamedTuple):
    """A text without marks, whose powers and fractions are digits, and where its characters come from."""

    text: str
    spans: list[tuple[int, int]]
    """Where each character begins and ends in the text with marks."""


def drop_marks(text: str) -> str:
    """Return a text without the raised marks of its notes; units, powers, fractions and stars stay."""
    if text.isascii() and "^(" not in text:
        return text
    return _RUN.sub(lambda match: "" if _is_mark(match) else match[0], text)


def find_marks(text: str) -> list[str]:
    """Return the marks of notes in a text in plain signs, without brackets, each once: `1`, `a`, `주1`, then `*`."""
    names = [name for match in _RUN.finditer(text) if _is_mark(match) for name in _plain_names(match[0])]
    return list(dict.fromkeys((*names, *_STAR.findall(text))))


def mark_of_note(line: str) -> str | None:
    """Return the mark with which a note begins, in plain signs and without brackets; None for another line."""
    if raised := _RUN.match(line.lstrip()):
        return next(iter(_plain_names(raised[0])), None)
    match = _NOTE.match(line)
    return match and re.sub(r"\s", "", match["number"] or match["star"])


def _plain_names(run: str) -> list[str]:
    names = (name.strip("^()[] ") for name in unicodedata.normalize("NFKC", run).split(","))
    return [name for name in names if name]


def fold_raised(text: str) -> str:
    """Return a text for search: without marks, lowered digits plain, one sign for each unit of area or volume."""
    if text.isascii() and "^(" not in text:
        return text
    return _UNIT.sub(lambda match: _UNITS[match[0]], drop_marks(text)).translate(_LOWERED)


def write_plain(text: str) -> PlainText | None:
    """Return a text as numbers are read from it; None where it has no marks, powers or fractions to be changed."""
    if text.isascii() and "^(" not in text:
        return None
    edits = {match.span(): _write_power(match) for match in _POWER.finditer(text)}
    edits |= {match.span(): _write_fraction(match) for match in _FRACTION.finditer(text)}
    edits |= {match.span(): "" for match in _RUN.finditer(text) if _is_mark(match)}
    if not edits:
        return None
    pieces, spans, at = list[str](), list[tuple[int, int]](), 0
    for (start, end), written in sorted(edits.items()):
        if start < at:
            continue
        pieces += [text[at:start], written]
        spans += [(i, i + 1) for i in range(at, start)] + [(start, end)] * len(written)
        at = end
    spans += [(i, i + 1) for i in range(at, len(text))]
    return PlainText("".join((*pieces, text[at:])), spans)


def _is_mark(match: re.Match[str]) -> bool:
    """Return whether raised signs are the mark of a note: no signed number, unit or power of ten."""
    run, before = match[0], match.string[max(0, match.start() - 4) : match.start()]
    if _SIGNED.search(run):
        return False
    if run in ("²", "³", "ⁿ") and _SQUARED.search(before):
        return False
    return not (run != "¹" and _TEN.search(before) and _exponent(run) is not None)


def _exponent(run: str) -> int | None:
    """Return the number of an exponent; None for letters, and for what is larger than numbers of documents are."""
    plain = unicodedata.normalize("NFKC", run).replace("−", "-")
    number = int(plain) if re.fullmatch(r"-?\d{1,2}", plain) else None
    return number if number is not None and abs(number) <= _LARGEST_EXPONENT else None


def _write_power(match: re.Match[str]) -> str:
    exponent = _exponent(match["exponent"])
    if exponent is None or (match["exponent"] == "¹" and not match["factor"]):
        return match[0]
    return f"{Decimal(match['factor'] or 1).scaleb(exponent):f}"


def _write_fraction(match: re.Match[str]) -> str:
    """Return a fraction, with the whole number before it, as a decimal of at most ten places."""
    above, below = match["above"], match["below"]
    if match["sign"]:
        above, _, below = unicodedata.normalize("NFKC", match["sign"]).partition("⁄")
    value = Decimal(match["whole"] or match["whole_before"] or 0) + Decimal(above) / Decimal(below)
    return f"{round(value, 10).normalize():f}"
