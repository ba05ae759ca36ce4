"""Words of a PDF page as lines and phrases, which of them are amounts, and the white between their columns."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from tasks.documents.blocks import BBox
from tasks.documents.marks import drop_marks
from tasks.documents.pdf.pdf_text import Word

NEAR_HEIGHTS = 0.5
"""White within a phrase, in heights of a line."""
SIGN_HEIGHTS = 1.5
"""White between an amount and its closing bracket or percent sign, in heights of a line."""
SIGN_POINTS = 60.0
"""White between a currency sign and its amount at most."""
GROUP_HEIGHTS = 0.4
"""White between the groups of digits of one amount ("13 951"), in heights of a line."""
CROSSING_SHARE = 0.15
"""Share of rows that may cross a gutter: titles over several columns."""
WIDEST = 20_000
"""Points; what claims to be wider is no page."""
CURRENCY = frozenset("$€£¥₩")
SIGNS = frozenset("(-–")
CLOSING = frozenset((")", "%", ")%", "%)"))
UNFINISHED = frozenset(".,:~∼～/")
"""Last signs of a part of a date: `2024. 5. 7. ~ 5. 20.` is one phrase, and so is `May 31, 2022`."""
LEADERS = 5
"""Dots at the end of a label from which they lead to its amount."""
LED = re.compile(r"(?:[.·…]\s?){4,}\s*[$€£¥₩(\-–—\d]")
"""Dots that lead to an amount or a page within a run of text."""
NUMBER = re.compile(r"[\s$€£¥₩%()+\-–—−.,\d/:*△▲]*")
YEARS = re.compile(r"(?:19|20)\d\d(?:\s?[-–/]\s?(?:(?:19|20)\d\d|\d{1,2}))?\s?(?:[*†‡]+|\([a-z\d]{1,2}\))?")
GROUPS = re.compile(r"[$€£¥₩(\-–]?\d{1,3}( \d{3})*")
SHARE = re.compile(r"\(\d+(\.\d+)?%\)")
ERROR = re.compile(r"\(\d*\.\d+\)")
"""Error of an estimate, in brackets behind it."""
BETWEEN = frozenset("-–—±")
"""Signs that join two numbers to a range or an estimate."""
MONTH = re.compile(r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*\.?")
DATE = re.compile(rf"{MONTH.pattern} \d{{1,2}},?(?: (?:19|20)\d\d)?")


class Phrase(NamedTuple):
    """Words of a line that belong together: an amount with its signs, or the words of a label."""

    x0: float
    x1: float
    text: str


def is_number(text: str) -> bool:
    """Return whether a text is an amount, a share, a date in digits, a dash or empty, raised marks aside."""
    return bool(NUMBER.fullmatch(drop_marks(text)))


def is_amount(text: str) -> bool:
    """Return whether a text is a number with a digit, or the dash that stands for none."""
    return is_number(text) and (any(map(str.isdecimal, text)) or text in ("-", "–", "—"))


def is_year(text: str) -> bool:
    """Return whether a text is a year from 1900 to 2099, or two ("2015-2014", "1996/7"), a footnote mark aside."""
    return bool(YEARS.fullmatch(drop_marks(text)))


def is_word(text: str) -> bool:
    """Return whether a text has letters, and is more than a mark of a list."""
    return len(text) > 1 and any(char.isalpha() for char in text)


def group_lines(words: Iterable[Word]) -> list[list[Word]]:
    """Return words in lines from top to bottom, each from left to right."""
    lines: list[list[Word]] = []
    for word in sorted(words, key=lambda w: w.y0 + w.y1):
        lead = lines[-1][0] if lines else None
        # sums are twice the middles: these lie within half a height
        if lead and abs((lead.y0 + lead.y1) - (word.y0 + word.y1)) < min(lead.y1 - lead.y0, word.y1 - word.y0):
            lines[-1].append(word)
        else:
            lines.append([word])
    return [sorted(line, key=lambda w: w.x0) for line in lines]


def find_words(box: BBox, words: Iterable[Word]) -> list[Word]:
    """Return the words whose middle lies in a box."""
    x0, y0, x1, y1 = box
    return [w for w in words if y0 <= (w.y0 + w.y1) / 2 < y1 and x0 <= (w.x0 + w.x1) / 2 < x1]


def group_phrases(line: Sequence[Word]) -> list[Phrase]:
    """Return the phrases of a line from left to right; two amounts are two phrases, however close they are."""
    phrases: list[Phrase] = []
    for word in line:
        before = phrases[-1] if phrases else None
        if before and _belongs_to_phrase(before, word):
            phrases[-1] = Phrase(before.x0, max(before.x1, word.x1), f"{before.text} {word.text}")
        else:
            phrases.append(Phrase(word.x0, word.x1, word.text))
    for i, phrase in enumerate(phrases):
        # leader dots may run into the next column, so their width does not count
        label = phrase.text.rstrip(".· ")
        if len(phrase.text) - len(label) >= LEADERS:
            phrases[i] = phrase._replace(x1=phrase.x0 + (phrase.x1 - phrase.x0) * len(label) / len(phrase.text))
    return phrases


def _belongs_to_phrase(before: Phrase, word: Word) -> bool:
    """Return whether a word continues the phrase before it on its line."""
    height, gap = word.y1 - word.y0, word.x0 - before.x1
    if is_number(word.text) and before.text in CURRENCY:
        return True  # however far, since it stands at the column's other edge
    if is_number(word.text) and before.text in SIGNS:
        return gap < NEAR_HEIGHTS * height
    if word.text in CLOSING:
        return gap < SIGN_HEIGHTS * height
    joins = (
        word.text in BETWEEN or (before.text[-2:-1] == " " and before.text[-1] in BETWEEN) or ERROR.fullmatch(word.text)
    )
    if joins and is_amount(before.text.rstrip(" ±")):
        return gap < GROUP_HEIGHTS * height
    if GROUPS.fullmatch(before.text) and len(word.text) == 3 and word.text.isdigit():
        return gap < GROUP_HEIGHTS * height
    if gap >= NEAR_HEIGHTS * height or before.text.endswith(("..", "··")):  # leader dots end a label
        return False
    if MONTH.fullmatch(word.text) and DATE.fullmatch(before.text):
        return False  # dates that name columns stand close
    if before.text[-1] in UNFINISHED:
        return True
    return is_word(before.text.rpartition(" ")[2]) or is_word(word.text) or bool(SHARE.fullmatch(word.text))


def count_cover(extents: Iterable[tuple[float, float]], *, begin: float, step: float, steps: int) -> list[int]:
    """Return how many extents (from x to x) cover each of so many steps from `begin` on, in points."""
    change = [0] * (steps + 1)  # +1 where one begins and -1 behind its end, added up
    for x0, x1 in extents:
        change[int((x0 - begin) / step)] += 1
        change[int((x1 - begin) / step) + 1] -= 1
    return list(accumulate(change))[:steps]


def find_gutters(rows: Sequence[Sequence[tuple[float, float]]], *, least: float) -> list[tuple[float, float]]:
    """Return where the white between columns begins and ends; at most CROSSING_SHARE of the rows cross it.

    rows: from where to where each text of a row runs. least: width in points that a gutter has at least.
    """
    left = min((x0 for row in rows for x0, _ in row), default=0.0)
    width = int(max((x1 for row in rows for _, x1 in row), default=0.0) - left) + 2
    if width > WIDEST:
        return []
    cover = count_cover((pair for row in rows for pair in row), begin=left, step=1.0, steps=width)
    allowed = CROSSING_SHARE * len(rows)
    gaps: list[tuple[float, float]] = []
    start: int | None = None
    for x, count in enumerate(cover):
        if count <= allowed:
            start = x if start is None else start
        elif start is not None:
            if start > 0 and x - start >= least:  # white at the left edge parts nothing
                # of a gutter that a title crosses, the part that the fewest cross
                lowest = min(cover[start:x])
                deepest = [i for i in range(start, x) if cover[i] == lowest]
                gaps.append((left + deepest[0], left + deepest[-1] + 1))
            start = None
    return gaps


def place_line(start: float, end: float, words: Iterable[Word]) -> float:
    """Return the x of a line in a gutter: where the fewest words cross it, in the middle of the widest such place."""
    near = [(word.x0, word.x1) for word in words if word.x1 > start and word.x0 < end]
    points = sorted({start, end, *(x for pair in near for x in pair if start < x < end)})
    middles = {(a + b) / 2: b - a for a, b in pairwise(points)}
    return min(middles, key=lambda x: (sum(a < x < b for a, b in near), -middles[x]))


def move_signs(words: Sequence[Word]) -> dict[Word, Word]:
    """Return currency signs that stand apart from their amounts, at the other edge of a column → moved beside them."""
    moved: dict[Word, Word] = {}
    signs = [word for word in words if word.text in CURRENCY]
    if not signs:
        return moved
    levels = sorted(words, key=lambda word: word.y0 + word.y1)
    heights = [word.y0 + word.y1 for word in levels]
    for sign in signs:
        middle, height = sign.y0 + sign.y1, sign.y1 - sign.y0
        near = levels[bisect_left(heights, middle - height) : bisect_right(heights, middle + height)]
        after = min((word for word in near if word.x0 > sign.x0), key=lambda word: word.x0, default=None)
        if after and is_number(after.text) and after.text not in CURRENCY and 0 < after.x0 - sign.x1 < SIGN_POINTS:
            edge = after.x0 - height / 4  # the white of a space
            moved[sign] = sign._replace(x0=edge - 0.1, x1=edge)
    return moved


def count_gaps(line: Sequence[Word]) -> int:
    """Return how often the words of a line are further apart than the words of a sentence."""
    return sum(word.x0 - before.x1 > 0.8 * (word.y1 - word.y0) for before, word in pairwise(line))
