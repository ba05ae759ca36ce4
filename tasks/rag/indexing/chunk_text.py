"""Where running text may be cut: at lines and sentences, else at spaces, within a word only where nothing else is."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right

from tasks.language.sentences import Span

# a full stop after a letter, a bracket or a quote; not after a digit, where it numbers something or parts decimals
_UNIT_END = re.compile(
    r"\n+|(?<=[^\W\d_\)\]\"'”’」%][.!?])[\"'”’)\]]*\s+|(?<=[\)\]\"”’」%][.!?])\s+|(?<=;)\s+|(?<=[。！？])"
)
_SEARCHED_BACK = 80
"""Characters that a cut within a long word looks back for a better place."""


def split_text(text: str, *, most_chars: int, overlap_chars: int) -> list[Span]:
    """Pieces of at most `most_chars`, each beginning with up to `overlap_chars` of whole sentences of the one before.

    Every character that is not a space is in some piece. Raises ValueError if the overlap leaves no room.
    """
    if not 0 <= overlap_chars < most_chars:
        raise ValueError(f"an overlap of {overlap_chars} does not fit into {most_chars} characters; lower it")
    ends = sorted({match.end() for match in _UNIT_END.finditer(text)} | {len(text)})
    spans: list[Span] = []
    start = _skip_space(text, 0)
    while start < len(text):
        end = _end_of_piece(text, start, ends, most_chars)
        spans.append(_stripped(text, start, end))
        start = _next_start(text, Span(start, end), ends, most_chars, overlap_chars)
    return spans


def _end_of_piece(text: str, start: int, ends: list[int], most_chars: int) -> int:
    """The last end of a sentence within reach, else a cut within the sentence."""
    limit = start + most_chars
    if limit >= len(text):
        return len(text)
    # spaces after a sentence do not count
    reach = ends[bisect_right(ends, limit) - 1 : bisect_right(ends, limit) + 1]
    fitting = [end for end in reach if end > start and len(text[start:end].rstrip()) <= most_chars]
    return max(fitting) if fitting else _cut(text, start, limit)


def _cut(text: str, start: int, limit: int) -> int:
    """A place between words, else between kinds of characters, else at the limit."""
    if text[limit].isspace():
        return limit
    space = max(text.rfind(sign, start, limit) for sign in (" ", "\t", "\u3000", "\xa0"))
    if space > start:
        return space + 1
    for place in range(limit, max(start + 1, limit - _SEARCHED_BACK), -1):
        if _class(text[place - 1]) != _class(text[place]):
            return place
    return limit


def _class(sign: str) -> str:
    """Digits with what stands between them, letters, Hangul, anything else: a cut is best where the kind changes."""
    if sign.isdigit() or sign in ".,":
        return "number"
    if "가" <= sign <= "힣":
        return "hangul"
    return "letter" if sign.isalpha() else "other"


def _next_start(text: str, piece: Span, ends: list[int], most_chars: int, overlap_chars: int) -> int:
    """Where the next piece begins: some sentences back, if it then still reaches beyond this piece."""
    following = _skip_space(text, piece.end)
    if following >= len(text):
        return len(text)
    earliest = max(piece.end - overlap_chars, piece.start + 1)
    for end in ends[bisect_left(ends, earliest) : bisect_left(ends, piece.end)]:
        start = _skip_space(text, end)
        if start < piece.end and _end_of_piece(text, start, ends, most_chars) > following:
            return start
    return following


def _skip_space(text: str, place: int) -> int:
    while place < len(text) and text[place].isspace():
        place += 1
    return place


def _stripped(text: str, start: int, end: int) -> Span:
    return Span(start, start + len(text[start:end].rstrip()))
