"""Paragraph numbers and bullets, written out the way Hangul shows them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable

from tasks.documents.hwp.hwp_model import ListHead, ListStyles, NumberingLevel

STYLES = (
    "DIGIT",
    "CIRCLED_DIGIT",
    "ROMAN_CAPITAL",
    "ROMAN_SMALL",
    "LATIN_CAPITAL",
    "LATIN_SMALL",
    "CIRCLED_LATIN_CAPITAL",
    "CIRCLED_LATIN_SMALL",
    "HANGUL_SYLLABLE",
    "CIRCLED_HANGUL_SYLLABLE",
    "HANGUL_JAMO",
    "CIRCLED_HANGUL_JAMO",
    "HANGUL_PHONETIC",
    "IDEOGRAPH",
    "CIRCLED_IDEOGRAPH",
    "DECAGON_CIRCLE",
    "DECAGON_CIRCLE_HANJA",
)
"""OWPML's names of number styles, at the positions that HWP 5 gives them."""

_WINGDINGS = {
    0xF000 + code: sign
    for code, sign in {
        0x46: "☞", 0x6C: "●", 0x6D: "❍", 0x6E: "■", 0x6F: "□", 0x70: "❐", 0x71: "❑", 0x72: "❒", 0x73: "⬧",
        0x74: "⧫", 0x75: "◆", 0x76: "❖", 0x77: "⬥", 0x9E: "·", 0x9F: "•", 0xA1: "○", 0xA4: "◉", 0xA7: "▪",
        0xA8: "◻", 0xAA: "✦", 0xAB: "★", 0xD8: "➢", 0xE8: "➔", 0xF0: "⇨", 0xFB: "✗", 0xFC: "✓", 0xFD: "☒", 0xFE: "☑",
    }.items()
}  # fmt: skip
"""Bullets are stored as private-use codes of the font Wingdings; these are the signs that it shows."""

_MAX_NUMBER = 100_000
"""Beyond it digits stand in for every style: a Roman million would be a thousand letters."""


class ListCounters:
    """Counts the paragraphs of every list of one document, in reading order."""

    def __init__(self, styles: ListStyles) -> None:
        self._styles = styles
        self._counts: dict[tuple[str, int], dict[int, int]] = defaultdict(dict)

    def mark(self, head: ListHead, *, outline_id: int) -> str:
        """The bullet or number of the next paragraph of this list; "" if its style shows none."""
        if head.kind == "bullet":
            return self._styles.bullets.get(head.list_id, "").translate(_WINGDINGS)
        list_id = outline_id if head.kind == "outline" else head.list_id
        levels = self._styles.numberings.get(list_id, ())
        if head.level >= len(levels):
            return ""
        counts = self._counts[head.kind, list_id]
        counts[head.level] = counts.get(head.level, levels[head.level].start - 1) + 1
        for deeper in [level for level in counts if level > head.level]:
            del counts[deeper]
        return _fill(levels, counts, head.level)


def _fill(levels: tuple[NumberingLevel, ...], counts: dict[int, int], level: int) -> str:
    def number(index: int) -> str:
        if index >= len(levels):
            return ""
        return number_text(counts.get(index, levels[index].start), levels[index].style)

    def code(match: re.Match[str]) -> str:
        key = match[1]
        if key in "nN":  # ^n is the path 1.2.3, ^N the path 1.2.3.
            path = ".".join(number(index) for index in range(level + 1))
            return path + "." * (key == "N")
        return number((int(key) - 1) % 10)  # ^0 is the tenth level

    return re.sub(r"\^([0-9nN])", code, levels[level].pattern)


def number_text(number: int, style: str) -> str:
    """The number in one of OWPML's styles; plain digits where the style has no such number."""
    spell = _SPELLERS.get(style)
    return (spell(number) if spell and 1 <= number <= _MAX_NUMBER else "") or str(number)


def _cycle(letters: str) -> Callable[[int], str]:
    """A … Z, AA … ZZ: the letter repeats with every round."""
    return lambda number: letters[(number - 1) % len(letters)] * min((number - 1) // len(letters) + 1, 8)


def _table(*runs: tuple[int, int]) -> Callable[[int], str]:
    """Signs of Unicode ranges (first, last), one after another; "" beyond them."""
    signs = "".join(chr(code) for first, last in runs for code in range(first, last + 1))
    return lambda number: signs[number - 1] if number <= len(signs) else ""


def _roman(number: int) -> str:
    text = ""
    for value, letters in _ROMAN:
        text += letters * (number // value)
        number %= value
    return text


def _syllable(number: int) -> str:
    """가 나 … 하, 거 너 … 허, 고 …: the vowel changes with every round of 14."""
    round_, index = divmod(number - 1, len(_INITIALS))
    if round_ >= len(_VOWELS):
        return ""
    return chr(0xAC00 + (_INITIALS[index] * 21 + _VOWELS[round_]) * 28)


def _chinese(digits: str, tens: str) -> Callable[[int], str]:
    """일, 이, … 십일, … 이백삼십: digits 1–9 and the signs of 10, 100, 1000."""

    def spell(number: int) -> str:
        if number > 9999:
            return ""
        text = ""
        for power in (3, 2, 1, 0):
            digit = number // 10**power % 10
            sign = tens[power - 1] if power else ""
            if digit:
                text += (digits[digit - 1] if digit > 1 or not power else "") + sign
        return text

    return spell


_ROMAN = (
    (1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"),
    (50, "L"), (40, "XL"), (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I"),
)  # fmt: skip
_INITIALS = (0, 2, 3, 5, 6, 7, 9, 11, 12, 14, 15, 16, 17, 18)  # ㄱㄴㄷㄹㅁㅂㅅㅇㅈㅊㅋㅌㅍㅎ
_VOWELS = (0, 4, 8, 13, 18, 20)  # ㅏㅓㅗㅜㅡㅣ

_SPELLERS: dict[str, Callable[[int], str]] = {
    "CIRCLED_DIGIT": _table((0x2460, 0x2473), (0x3251, 0x325F), (0x32B1, 0x32BF)),
    "ROMAN_CAPITAL": lambda number: _roman(number) if number < 4000 else "",
    "ROMAN_SMALL": lambda number: _roman(number).lower() if number < 4000 else "",
    "LATIN_CAPITAL": _cycle("ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
    "LATIN_SMALL": _cycle("abcdefghijklmnopqrstuvwxyz"),
    "CIRCLED_LATIN_CAPITAL": _table((0x24B6, 0x24CF)),
    "CIRCLED_LATIN_SMALL": _table((0x24D0, 0x24E9)),
    "HANGUL_SYLLABLE": _syllable,
    "CIRCLED_HANGUL_SYLLABLE": _table((0x326E, 0x327B)),
    "HANGUL_JAMO": _cycle("ㄱㄴㄷㄹㅁㅂㅅㅇㅈㅊㅋㅌㅍㅎ"),
    "CIRCLED_HANGUL_JAMO": _table((0x3260, 0x326D)),
    "HANGUL_PHONETIC": _chinese("일이삼사오육칠팔구", "십백천"),
    "IDEOGRAPH": _chinese("一二三四五六七八九", "十百千"),
    "CIRCLED_IDEOGRAPH": _table((0x3280, 0x3289)),
    "DECAGON_CIRCLE": _cycle("갑을병정무기경신임계"),
    "DECAGON_CIRCLE_HANJA": _cycle("甲乙丙丁戊己庚辛壬癸"),
}
