"""Bullets, and the numbers that Korean and English documents set before the items of a list and before titles."""

from __future__ import annotations

import re

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
