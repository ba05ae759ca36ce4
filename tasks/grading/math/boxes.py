"""The boxes that hold an answer in LaTeX: `\\boxed{…}` and `\\fbox{…}`."""

from __future__ import annotations

import re
from collections import deque
from typing import NamedTuple

from tasks.grading.math.normalization import MAX_CHARS

NEAR_CHARS = 70
"""Most characters between two boxes of one answer: `x = \\boxed{1} or \\boxed{2}`."""
COMMA_CHARS, ADJACENT_CHARS = 30, 10  # the same where a comma stands between, and where neither that nor a word does
MOST_BOXES = 20
_BOX = re.compile(r"\\(?:boxed|fbox|framebox)(?![a-zA-Z])\s*")
_CORRECTED = re.compile(
    r"\b(?:no|not|but|wait|wrong|actually|however|instead|rather|then|so|thus|hence|therefore|finally|now|next)\b", re.I
)


class _Box(NamedTuple):
    start: int
    end: int
    content: str


def last_boxed(text: str) -> str | None:
    """Return what the last boxes of one answer hold, as `1, 2`, of nested ones the innermost; None if none ends."""
    if "box" not in text:
        return None
    boxes: list[_Box] = []
    empty = False
    for opened in reversed(deque(_BOX.finditer(text), maxlen=MOST_BOXES)):
        box = _read_box(text, opened)
        if boxes and box and box.end > boxes[0].start:  # one around another begins the answer
            boxes[0] = boxes[0]._replace(start=box.start)
            continue
        if box is not None and not box.content:  # as in `put it in \boxed{}`
            empty = True
            continue
        if box is None or (boxes and not _are_one_answer(text[box.end : boxes[0].start], box, boxes[0])):
            break
        boxes.insert(0, box)
    if not boxes:
        return "" if empty else None
    return ", ".join(dict.fromkeys(box.content for box in boxes))


def _are_one_answer(between: str, before: _Box, after: _Box) -> bool:
    """Return whether two boxes with `between` them are parts of one answer."""
    if len(between) > NEAR_CHARS or "\n\n" in between or re.search(r"[.!?]\$*\s+[A-Z]", between):
        return False
    if _CORRECTED.search(between):
        return False
    if re.search(r"(?<![a-zA-Z])(?:and|or)(?![a-zA-Z])|그리고|또는", between):
        return True
    words = re.search("[A-Za-z]{2}", re.sub(r"\\(?:text|mathrm|mbox)\s*\{[^{}]*\}|\\[a-zA-Z]+", "", between))
    if len(between) < COMMA_CHARS and set(",;") & set(between):
        return words is None
    return words is None and len(between) < ADJACENT_CHARS and before.content != after.content


def _read_box(text: str, opened: re.Match[str]) -> _Box | None:
    """Return the box at a command, of one word without braces, of its line if unclosed; None if nothing ends it."""
    start, position = opened.span()
    if text[position : position + 1] != "{":
        word = re.compile(r"\\?[^\s$.,;{}\\]+(?:\.\d+)?").match(text, position)
        return _Box(start, word.end(), word.group()) if word else None
    end = find_closing_brace(text, position)
    if end is None:
        line, newline, _ = text[position + 1 : position + 1 + MAX_CHARS].partition("\n")
        if not newline:
            return None
        return _Box(start, position + 1 + len(line), line.strip().rstrip("$.").strip())
    return _Box(start, end + 1, text[position + 1 : end].strip())


def find_closing_brace(text: str, position: int) -> int | None:
    """Return the index of the brace that closes the one at `position`; None if none does within 4 × MAX_CHARS."""
    depth = 0
    for brace in re.compile(r"\\[{}\\]|[{}]").finditer(text, position, position + 4 * MAX_CHARS):
        sign = brace.group()
        if len(sign) == 2:
            continue
        depth += 1 if sign == "{" else -1
        if depth == 0:
            return brace.start()
    return None
