"""Boxes on a page, and what can be done with them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tasks.documents.blocks import BBox


class Rect(NamedTuple):
    """x0, y0, x1, y1 in points."""

    x0: float
    y0: float
    x1: float
    y1: float

    @property
    def width(self) -> float:
        return self.x1 - self.x0

    @property
    def height(self) -> float:
        return self.y1 - self.y0

    @property
    def area(self) -> float:
        return self.width * self.height

    def grown(self, dx: float, dy: float) -> Rect:
        return Rect(self.x0 - dx, self.y0 - dy, self.x1 + dx, self.y1 + dy)

    def union(self, other: BBox) -> Rect:
        return Rect(min(self.x0, other[0]), min(self.y0, other[1]), max(self.x1, other[2]), max(self.y1, other[3]))

    def touches(self, other: BBox) -> bool:
        return self.x0 <= other[2] and other[0] <= self.x1 and self.y0 <= other[3] and other[1] <= self.y1

    def holds(self, other: BBox) -> bool:
        return self.x0 <= other[0] and self.y0 <= other[1] and other[2] <= self.x1 and other[3] <= self.y1


def merged(boxes: Sequence[Rect]) -> list[Rect]:
    """Boxes that overlap become one, until none do."""
    apart: list[Rect] = []
    for box in boxes:
        while overlapped := next((other for other in apart if other.touches(box)), None):
            apart.remove(overlapped)
            box = box.union(overlapped)
        apart.append(box)
    return apart


def hull(rects: Iterable[BBox]) -> Rect:
    """Smallest box around all of them."""
    boxes = list(rects)
    return Rect(
        min(box[0] for box in boxes),
        min(box[1] for box in boxes),
        max(box[2] for box in boxes),
        max(box[3] for box in boxes),
    )


def common(one: Rect, other: Rect) -> Rect:
    """What two boxes share; its sides are zero where they share nothing."""
    x0, y0 = max(one.x0, other.x0), max(one.y0, other.y0)
    return Rect(x0, y0, max(x0, min(one.x1, other.x1)), max(y0, min(one.y1, other.y1)))
