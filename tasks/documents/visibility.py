"""Whether letters are seen, by what a file says of their ink, their ground and their size: one rule for all formats."""

from __future__ import annotations

from functools import lru_cache

Color = tuple[int, ...]
"""Red, green and blue from 0 to 255, and how far it covers what lies below where that is known."""

BLACK: Color = (0, 0, 0)
WHITE: Color = (255, 255, 255)
NO_INK: Color = (0, 0, 0, 0)
SMALLEST_PT = 1.0
"""Nobody reads letters of one point."""
SAME_COLOR = 5
"""Difference of a channel that no eye sees."""


def explain_unseen(
    *, ink: Color | None = None, ground: Color | None = None, size_pt: float | None = None
) -> str | None:
    """Return why letters are not seen; None if they are, and where what would hide them is not known."""
    if size_pt is not None and size_pt <= SMALLEST_PT:
        return "letters of a point or less"
    if ink and ink[3:] == (0,):
        return "letters without ink"
    if ink and ground and all(abs(one - other) <= SAME_COLOR for one, other in zip(ink, ground, strict=False)):
        return "in the colour of its ground"
    return None


@lru_cache
def read_color(text: str | None) -> Color | None:
    """Return a colour from its name or its digits, as pages (`#036`, `navy`) and Office (`003366`) write them."""
    from PIL import ImageColor

    text = (text or "").casefold()
    try:
        digits = len(text) == 6 and int(text, 16) >= 0
    except ValueError:
        digits = False
    try:
        return NO_INK if text == "transparent" else ImageColor.getrgb(f"#{text}" if digits else text)
    except ValueError:
        return None
