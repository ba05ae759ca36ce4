"""Bullets and numbers that Korean and English documents set before items and titles: how they are told and written."""

from __future__ import annotations

import re
from collections.abc import Callable

from tasks.documents.raised_signs import NOTE

ROMAN = r"[ⅠⅡⅢⅣⅤⅥⅦⅧⅨⅩⅪⅫ]"
DIVISION = re.compile(
    r"제\s*\d+\s*(?P<unit>[편부장절관조])(?:\s*\([^)]*\))?+(?!\w)"
    rf"|(?:{ROMAN}\s*[.．]?|[IVX]{{1,4}}\.)\s"
    r"|(?P<word>(?i:part|chapter|item|section|article|rule|annex|appendix))\s+(?:\d+[A-Z]?|[IVX]+)\b"
    r"|(?P<square>[□■◆◈❑❏])\s*"
)
"""Numbers and signs that Korean and English documents set before titles."""
BULLET = re.compile(r"[•‣▪▫●◦○◎ㅇ❍❖◇▶▷►➢➔✓✔☑☐※∙·⋅\-–—*\uf000-\uf0ff][\s\xa0]+|[•○●▪ㅇ◦※▶](?=\S)|[①-⑳㉠-㉻❶-❿]\s*(?=\S)")
COUNTED = re.compile(
    r"(?:\d{1,3}[.)]|(?:\d{1,2}\.){2,5}|\[\d{1,3}\]|\(\d{1,2}\)|[(（][가-하a-zA-Zivx]{1,4}[)）]|[가나다라마바사아자차카타파하][.)]|[a-zA-Z][.)]|[ivx]{1,4}[.)])[\s\xa0]+\S"
)


def starts_item(text: str) -> bool:
    """Return whether a row opens with a bullet, a number, the mark of a note or the sign of a title.

    It then begins a paragraph.
    """
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
