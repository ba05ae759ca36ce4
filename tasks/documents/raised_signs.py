"""Raised and lowered signs as Unicode writes them: `1,234¹`, `10⁹`, `m²`, `H₂O`; what it cannot raise is `^(주1)`."""

from __future__ import annotations

import re
import unicodedata

MOST_CHARS = 16
"""A longer raised text is a remark, not a mark or an exponent."""
RAISED = "".join(sign for sign in map(chr, range(0xB2, 0x2080)) if unicodedata.decomposition(sign)[:7] == "<super>")
"""All raised signs, for the inside of a class of a pattern."""
_RAISED = {ord(unicodedata.normalize("NFKC", sign)): sign for sign in RAISED} | dict.fromkeys(map(ord, "-–−"), "⁻")
_LOWERED = dict(zip(map(ord, "0123456789+-−=()"), "₀₁₂₃₄₅₆₇₈₉₊₋₋₌₍₎", strict=True))
_AS_THEY_ARE = re.compile(r"(?:[^\w+=()\-–−]|[①-⒇ⓐ-ⓩ])*|\[[\w\s,–-]*\]")
"""Signs that are marks by themselves (`*`, `†`, `[1]`), and those that fonts raise by design (`®`, `$`, `°`)."""
_ORDINAL = re.compile(r"\d(?:st|nd|rd|th)", re.IGNORECASE)
_TRADEMARKS = {"TM": "™", "SM": "℠"}
_FRACTIONS = {
    unicodedata.normalize("NFKC", sign): sign for sign in "¼½¾⅐⅑⅒⅓⅔⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞"
}  # of `1⁄2`, with Unicode's own slash
_ABOVE = re.compile("[⁰¹²³⁴-⁹]")
_FRACTION = re.compile(
    r"(?P<whole>\d\s?)?(?P<above>[⁰¹²³⁴-⁹]{1,2})(?:/(?=[₀-₉])|⁄)(?P<below>[₀-₉0-9]{1,3})(?![₀-₉0-9])"
)

_MARK = re.compile(rf"\([{RAISED}]+\)|[{RAISED}]+(?:,\s?[{RAISED}]+)*|\^\([^()]{{1,{MOST_CHARS}}}\)")
NOTE = re.compile(rf"\s*(?:{_MARK.pattern})\s*\S")
"""The beginning of a note: its mark, and a text behind it."""


OFFICE_PLACES = {"superscript": 1, "subscript": -1}
"""Names by which Word and Excel give the place of a run."""


def shift_signs(text: str, place: float, *, before: str = "") -> str:
    """Return a text in raised signs if its place is above the line (> 0), in lowered ones if below (< 0)."""
    return raise_signs(text, before=before) if place > 0 else lower_signs(text) if place < 0 else text


def raise_signs(text: str, *, before: str = "") -> str:
    """Return a raised text in raised signs, with its white space; before: the text that it stands behind."""
    mark = text.strip()
    if not mark or len(mark) > MOST_CHARS or re.search(r"[^,;]\s", mark) or _AS_THEY_ARE.fullmatch(mark):
        return text
    if _ORDINAL.fullmatch(before.rstrip()[-1:] + mark):
        return text
    if re.fullmatch(r"\d{1,2}[/⁄]\d{1,3}", mark):
        above, below = re.split(r"[/⁄]", mark)
        raised = join_fractions(f"{before[-1:]}{above.translate(_RAISED)}⁄{below}")[len(before[-1:]) :]
    elif all(ord(sign) in _RAISED or not sign.isalnum() for sign in mark):
        raised = _TRADEMARKS.get(mark) or mark.translate(_RAISED)
    else:
        # `주1)` has one bracket only
        raised = f"^({mark.rstrip(')') if mark.count(')') > mark.count('(') else mark})"
    start = text.index(mark)
    return text[:start] + raised + text[start + len(mark) :]


def lower_signs(text: str) -> str:
    """Return a lowered text in lowered signs, where Unicode has them for all of it."""
    mark = text.strip()
    lowered = len(mark) <= MOST_CHARS and all(ord(sign) in _LOWERED for sign in mark)
    return text.translate(_LOWERED) if lowered else text


def join_fractions(text: str) -> str:
    """Return a text with `48½` for 48, a raised 1, a slash and a lowered 2; `48 3⁄16` where Unicode has no sign."""

    def join(match: re.Match[str]) -> str:
        fraction = unicodedata.normalize("NFKC", f"{match['above']}⁄{match['below']}")
        whole = match["whole"] or ""
        return f"{whole}{_FRACTIONS.get(fraction) or (' ' if whole.isdecimal() else '') + fraction}"

    return _FRACTION.sub(join, text) if _ABOVE.search(text) else text  # a search for one sign is ten times as fast


def drop_marks(text: str) -> str:
    """Return a text without its raised signs, as which a number is told from words."""
    return text if text.isascii() and "^" not in text else _MARK.sub("", text)
