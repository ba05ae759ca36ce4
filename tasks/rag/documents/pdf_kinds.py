"""What a paragraph of a PDF page is: heading, list item, caption or running text, by its number, size and weight."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tasks.rag.documents.blocks import Kind
from tasks.rag.documents.pdf_layout import Paragraph

MAX_HEADING_CHARS = 120
MAX_HEADING_ROWS = 3
MAX_NUMBERED_HEADING_CHARS = 60
"""Beyond this a numbered line is a sentence with a number, not a title."""
LARGER = 1.12
"""A heading's font size over that of running text."""

ROMAN = r"[ⅠⅡⅢⅣⅤⅥⅦⅧⅨⅩⅪⅫ]"
DIVISION = re.compile(
    r"제\s*\d+\s*(?P<unit>[편부장절관조])(?:\s*\([^)]*\))?+(?!\w)"
    rf"|(?:{ROMAN}\s*[.．]?|[IVX]{{1,4}}\.)\s"
    r"|(?P<word>(?i:part|chapter|item|section|article|rule|annex|appendix))\s+(?:\d+[A-Z]?|[IVX]+)\b"
    r"|(?P<square>[□■◆◈❑❏])\s*"
)
"""Numbers and signs that Korean and English documents set before titles."""
DIVISION_LEVEL = {"편": 1, "부": 1, "장": 1, "절": 2, "관": 3, "조": 4}
DECIMAL = re.compile(r"(?P<number>\d{1,2}(?:\.\d{1,2}){0,4})\.?\s+(?=\D)")
HANGUL_NUMBER = re.compile(r"[가나다라마바사아자차카타파하]\s*[.)]\s*")
BULLET = re.compile(r"[•‣▪▫●◦○◎ㅇ❍❖◇▶▷►➢➔✓✔☑☐※∙·⋅\-–—*\uf000-\uf0ff][\s\xa0]+|[•○●▪ㅇ◦※▶](?=\S)|[①-⑳㉠-㉻❶-❿]\s*(?=\S)")
COUNTED = re.compile(
    r"(?:\d{1,3}[.)]|\(\d{1,2}\)|[(（][가-하a-zA-Zivx]{1,4}[)）]|[가나다라마바사아자차카타파하][.)]|[a-zA-Z][.)]|[ivx]{1,4}[.)])[\s\xa0]+\S"
)
CAPTION = re.compile(
    r"[<\[【〈(]?\s*(?:그림|표|사진|도표|별표|Figure|Fig\.|Table|Chart|Exhibit)\s*[\dⅠ-ⅩA-Z][\d.\-–]*\s*[>\]】〉)]?[\s.:]"
    r"|[(\[]\s*단위\s*[:：]"
)
SENTENCE_END = re.compile(r"[.;,。]\s*$|(?:다|요|음|함|임)\.\s*$")


def starts_item(text: str) -> bool:
    """Whether a row opens with a bullet, a number or the sign of a title, and so begins a paragraph."""
    text = text.lstrip()
    return bool(BULLET.match(text) or COUNTED.match(text) or DIVISION.match(text))


def classify(paragraph: Paragraph, text: str, *, body_size: float, body_bold: bool) -> tuple[Kind, int | None]:
    """Kind of a paragraph, and its level where it has one.

    body_size, body_bold: font size (points) and weight of the document's running text.
    """
    rows = paragraph.rows
    larger = rows[0].size >= LARGER * body_size
    bold = all(row.bold for row in rows) and not body_bold
    if CAPTION.match(text) and len(text) < 2 * MAX_HEADING_CHARS and len(rows) <= MAX_HEADING_ROWS and not larger:
        return "caption", None
    if _could_head(paragraph, text):
        level = _heading_level(text, rows[0].size / body_size, larger=larger, bold=bold)
        if level is not None:
            return "heading", level
    if BULLET.match(text) or COUNTED.match(text):
        return "list", None
    return "paragraph", None


def list_levels(lefts: Sequence[float]) -> list[int]:
    """Depth of each item of a run, by where its first row begins; 1 is the outermost."""
    levels: list[int] = []
    stack: list[float] = []
    for left in lefts:
        while stack and left < stack[-1] - 4:
            stack.pop()
        if not stack or left > stack[-1] + 4:
            stack.append(left)
        levels.append(len(stack))
    return levels


def _could_head(paragraph: Paragraph, text: str) -> bool:
    return bool(
        len(paragraph.rows) <= MAX_HEADING_ROWS
        and len(text) <= MAX_HEADING_CHARS
        and any(char.isalpha() for char in text)
        and not SENTENCE_END.search(text)
        and (DIVISION.match(text) or not any(row.tabular for row in paragraph.rows))
    )


def _heading_level(text: str, ratio: float, *, larger: bool, bold: bool) -> int | None:
    """Level by number where there is one, else by size; None for what is no heading."""
    short = len(text) <= MAX_NUMBERED_HEADING_CHARS
    division = DIVISION.match(text)
    if division and short and (larger or bold or not division["word"]):
        return _division_level(division)
    if (decimal := DECIMAL.match(text)) and short and (larger or bold):
        return 1 + decimal["number"].count(".") + 1
    if HANGUL_NUMBER.match(text) and short and (larger or bold):
        return 4
    if BULLET.match(text) or COUNTED.match(text):
        return 4 if short and larger else None
    if larger:
        return 1 if ratio >= 1.7 else 2 if ratio >= 1.35 else 3
    return 4 if bold else None


def _division_level(division: re.Match[str]) -> int:
    if division["unit"]:
        return DIVISION_LEVEL[division["unit"]]
    return 3 if division["square"] else 1
