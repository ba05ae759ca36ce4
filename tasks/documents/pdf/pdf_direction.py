"""Words of Hebrew and Arabic lines in the order in which they are read; a page places them from right to left."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Protocol, TypeVar

RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff]")
WORD_GAP = 0.15
"""White between two words, in heights of a line."""


class Placed(Protocol):
    """A word, or a run of them."""

    @property
    def x0(self) -> float: ...
    @property
    def y0(self) -> float: ...
    @property
    def x1(self) -> float: ...
    @property
    def y1(self) -> float: ...
    @property
    def text(self) -> str: ...


P = TypeVar("P", bound=Placed)


def runs_right_to_left(texts: Sequence[str]) -> bool:
    """Whether most letters of a line belong to scripts that run from right to left."""
    count = sum(len(RIGHT_TO_LEFT.findall(text)) for text in texts)
    return count > 0 and 2 * count > sum(sign.isalpha() for text in texts for sign in text)


def as_read(pieces: Sequence[P]) -> list[P]:
    """The pieces of such a line, given from left to right, as they are read.

    Words of Latin letters, and numbers behind them, keep their order (Unicode's bidirectional algorithm, rule L2).
    """
    read: list[P] = []
    latin: list[P] = []
    for piece in pieces:
        letters = any(map(str.isalpha, piece.text)) and not RIGHT_TO_LEFT.search(piece.text)
        number = not letters and any(map(str.isdigit, piece.text))
        if letters or (number and latin):
            latin.append(piece)
            continue
        read = [piece, *latin, *read]
        latin = []
    return [*latin, *read]


def line_of(pieces: Sequence[Placed]) -> str:
    """The text of a line of such pieces, given from left to right; where they do not touch, there is a space."""
    ordered = as_read(pieces)
    text = ordered[0].text
    for before, piece in pairwise(ordered):
        white = max(before.x0 - piece.x1, piece.x0 - before.x1)
        text += piece.text if white < WORD_GAP * (piece.y1 - piece.y0) else f" {piece.text}"
    return text
