"""Marks of texts: raised and lowered signs, and the bullets and numbers before items and titles.

Raised signs are written as Unicode has them: `1,234¹`, `10⁹`, `m²`, `H₂O`; what it cannot raise is `^(주1)`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

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


WINGDINGS = {
    0x46: "☞", 0x6C: "●", 0x6D: "❍", 0x6E: "■", 0x6F: "□", 0x70: "❐", 0x71: "❑", 0x72: "❒", 0x73: "⬧", 0x74: "⧫",
    0x75: "◆", 0x76: "❖", 0x77: "⬥", 0x9E: "·", 0x9F: "•", 0xA1: "○", 0xA4: "◉", 0xA7: "▪", 0xA8: "◻", 0xAA: "✦",
    0xAB: "★", 0xD8: "➢", 0xDF: "←", 0xE0: "→", 0xE1: "↑", 0xE2: "↓", 0xE8: "➔", 0xF0: "⇨", 0xFB: "✗", 0xFC: "✓",
    0xFD: "☒", 0xFE: "☑",
}  # fmt: skip
"""The signs that the font Wingdings shows at its codes."""

OFFICE_PLACES = {"superscript": 1, "subscript": -1}
"""Names by which Word and Excel give the place of a run."""


def shift_signs(text: str, place: float, *, before: str = "") -> str:
    """Return a text in raised signs if its place is above the line (> 0), in lowered ones if below (< 0)."""
    return raise_signs(text, before=before) if place > 0 else lower_signs(text) if place < 0 else text


def raise_signs(text: str, *, before: str = "") -> str:
    """Return a raised text in raised signs, or as `^(주1)` where Unicode lacks some, with its white space; unchanged if
    it is blank, long, of several words, an ordinal or a mark by itself. before: the text that it stands behind.
    """
    mark = text.strip()
    if not mark or len(mark) > MOST_CHARS or re.search(r"[^,;]\s", mark):
        return text
    if _AS_THEY_ARE.fullmatch(mark) or _MARK.fullmatch(mark):  # or raised before
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
    """Return a lowered text in lowered signs if it is short and Unicode has them for all of it, else as it is."""
    mark = text.strip()
    lowered = len(mark) <= MOST_CHARS and all(ord(sign) in _LOWERED for sign in mark)
    return text.translate(_LOWERED) if lowered else text


def fold_letters(text: str) -> str:
    """Return the letters and digits of a text, the same for all its spellings in Unicode and for both cases."""
    return "".join(sign for sign in unicodedata.normalize("NFKC", text).casefold() if sign.isalnum())


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


ROMAN = r"[ⅠⅡⅢⅣⅤⅥⅦⅧⅨⅩⅪⅫ]"
DIVISION = re.compile(
    r"제\s*\d+\s*(?P<unit>[편부장절관조])(?:\s*\([^)]*\))?+(?!\w)"
    rf"|(?:{ROMAN}\s*[.．]?|[IVX]{{1,4}}\.)\s"
    r"|(?P<word>(?i:part|chapter|item|section|article|rule|annex|appendix))\s+(?:\d+[A-Z]?|[IVX]+)\b"
    r"|(?P<square>[□■◆◈❑❏])\s*"
)
"""Numbers and signs that Korean and English documents set before titles."""
BULLET = re.compile(r"[-•‣▪▫●◦○◎ㅇ❍❖◇▶▷►➢➔✓✔☑☒☐※∙·⋅–—*\uf000-\uf0ff][\s\xa0]+|[•○●▪ㅇ◦※▶](?=\S)|[①-⑳㉠-㉻❶-❿]\s*(?=\S)")
COUNTED = re.compile(
    r"(?:\d{1,3}[.)]|(?:\d{1,2}\.){2,5}|\[\d{1,3}\]|\(\d{1,2}\)|[(（][가-하a-zA-Zivx]{1,4}[)）]|[가나다라마바사아자차카타파하][.)]|[a-zA-Z][.)]|[ivx]{1,4}[.)])[\s\xa0]+\S"
)


def starts_item(text: str) -> bool:
    """Return whether a row begins a paragraph: with a bullet, a number, the mark of a note or the sign of a title."""
    text = text.lstrip()
    return bool(NOTE.match(text) or BULLET.match(text) or COUNTED.match(text) or DIVISION.match(text))


def find_mark(text: str) -> str:
    """Return the bullet or the number that a text opens with; "" without one."""
    match = BULLET.match(text) or COUNTED.match(text)
    return text[: match.end()].split()[0] if match else ""


def format_number(number: int, style: str) -> str:
    """Write a number in one of OWPML's styles; plain digits where the style has no such number."""
    spell = NUMBER_STYLES.get(style)
    # a larger number is written in digits: a Roman million would have a thousand letters
    return (spell(number) if spell and 1 <= number <= 100_000 else "") or str(number)


_ROMAN = (
    (1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"),
    (50, "l"), (40, "xl"), (10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i"),
)  # fmt: skip


def format_roman(number: int) -> str:
    """Return a list number in lower-case Roman numerals; "" for a number outside 1 to 3,999."""
    letters, number = "", number if 0 < number < 4000 else 0
    for value, sign in _ROMAN:
        letters += sign * (number // value)
        number %= value
    return letters


def spell_number(number: int, digits: str, units: str) -> str:
    """Return a list number in Korean or Chinese words (십일 for 11); "" for a number outside 1 to 9,999.

    digits: the signs of 1 to 9; units: those of 10, 100 and 1,000, before which a one is not written.
    """
    if not 0 < number < 10_000:
        return ""
    words = ""
    for power in (3, 2, 1, 0):
        if digit := number // 10**power % 10:
            words += ("" if digit == 1 and power else digits[digit - 1]) + (units[power - 1] if power else "")
    return words


def _cycle(letters: str) -> Callable[[int], str]:
    """Return a function from a number to its letters: A … Z, AA … ZZ, AAA …, eight of them at most."""
    return lambda number: letters[(number - 1) % len(letters)] * min((number - 1) // len(letters) + 1, 8)


def _signs(*runs: tuple[int, int]) -> Callable[[int], str]:
    """Return a function from n to the n-th sign of Unicode ranges (first, last); it gives "" beyond them."""
    signs = "".join(chr(code) for first, last in runs for code in range(first, last + 1))
    return lambda number: signs[number - 1] if number <= len(signs) else ""


_SYLLABLES = (
    "가나다라마바사아자차카타파하거너더러머버서어저처커터퍼허고노도로모보소오조초코토포호"
    "구누두루무부수우주추쿠투푸후그느드르므브스으즈츠크트프흐기니디리미비시이지치키티피히"
)

NUMBER_STYLES: dict[str, Callable[[int], str]] = {
    "DIGIT": str,
    "CIRCLED_DIGIT": _signs((0x2460, 0x2473), (0x3251, 0x325F), (0x32B1, 0x32BF)),
    "ROMAN_CAPITAL": lambda number: format_roman(number).upper(),
    "ROMAN_SMALL": format_roman,
    "LATIN_CAPITAL": _cycle("ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
    "LATIN_SMALL": _cycle("abcdefghijklmnopqrstuvwxyz"),
    "CIRCLED_LATIN_CAPITAL": _signs((0x24B6, 0x24CF)),
    "CIRCLED_LATIN_SMALL": _signs((0x24D0, 0x24E9)),
    "HANGUL_SYLLABLE": lambda number: _SYLLABLES[number - 1 : number],
    "CIRCLED_HANGUL_SYLLABLE": _signs((0x326E, 0x327B)),
    "HANGUL_JAMO": _cycle("ㄱㄴㄷㄹㅁㅂㅅㅇㅈㅊㅋㅌㅍㅎ"),
    "CIRCLED_HANGUL_JAMO": _signs((0x3260, 0x326D)),
    "HANGUL_PHONETIC": lambda number: spell_number(number, "일이삼사오육칠팔구", "십백천"),
    "IDEOGRAPH": lambda number: spell_number(number, "一二三四五六七八九", "十百千"),
    "CIRCLED_IDEOGRAPH": _signs((0x3280, 0x3289)),
    "DECAGON_CIRCLE": _cycle("갑을병정무기경신임계"),
    "DECAGON_CIRCLE_HANJA": _cycle("甲乙丙丁戊己庚辛壬癸"),
}
"""OWPML's names of number styles, in the order in which HWP 5 counts them."""
