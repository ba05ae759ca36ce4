"""Splits Korean and English text into sentences with their citation marks, and tells the two languages apart."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from tasks.language.marks import RAISED
from tasks.language.tokens import FUNCTION_WORDS, HANGUL

Language = Literal["ko", "en"]


class Span(NamedTuple):
    """A piece of a text: from `start` up to `end`."""

    start: int
    end: int


_NUMBERS = r"\d{1,3}(?:\s*[,;·–-]\s*\d{1,3})*"
_SOURCE = r"(?:(?:출처|문서|블록|자료|근거|sources?|doc(?:ument)?s?|blocks?|passages?)\s*)?[\^#]?"
CITATION_MARK = re.compile(rf"\[\s*{_SOURCE}(?:{_NUMBERS})\s*\]|【\s*{_SOURCE}(?:{_NUMBERS})\s*】", re.IGNORECASE)
"""One pair of brackets with citation numbers: [1], [2, 3], 【4】, [출처 5]."""
_SPACED_MARK = re.compile(rf"\s*(?:{CITATION_MARK.pattern})", re.IGNORECASE)
_MARKS = rf"(?:\s{{0,2}}(?:{CITATION_MARK.pattern}))*"
_END = re.compile(
    rf"(?:[.!?…]+[\"'”’」』)\]]*(?:[{RAISED}][{RAISED},]*)?(?P<marks>{_MARKS})(?=\s|$)|[。！？]+[」』”)]*{_MARKS}\s*)",
    re.IGNORECASE,
)
_LETTERS = re.compile(r"[^\W\d_]+")
_SHORTENED = re.compile(
    r"(?:^|[\s(\"“‘'.])(?:[A-Za-z]|(?<!\d )(?![AEIOU])[A-Zb-df-hj-np-tv-z][b-df-hj-np-tv-xz]{1,3}|Nos?|Inc|Co|Corp|"
    r"Prof|Rev|Hon|Gen|Col|Capt|Sen|Gov|Figs?|Tab|Sec|Eqs?|Refs?|Eds?|Art|Vol|al|ca|viz|approx|est|incl|Dipl|Ing|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)$"
)
"""Abbreviations before a full stop: also a single letter (an initial, a list item) and a word without a vowel."""
_NUMBERED = re.compile(r"(?:^|[\s(])(?:nos?|figs?|tabs?|secs?|eqs?|refs?|arts?|vols?|chs?|pp?)$", re.IGNORECASE)
"""Abbreviations before a full stop and a number."""
_ARTICLE = re.compile(r"제\s?\d+(?:조|항|호|목|장|절|편)(?:의\s?\d+)?$")
_LIST_ITEM = re.compile(r"^\s*(?:[-○●□■▪▶◦·•*※]\s*)?(?:[(（]?(?:\d{1,3}(?:[.-]\d{1,3})*|[가-하]|[ⅠⅡⅢⅣⅤⅥⅦⅧⅨⅩ]+)[)）]?)$")
_ENDS_IN_DATE = re.compile(r"(?:(?:19|20)\d\d|['’]\d\d)\s?\.\s?\d{1,2}(?:\s?\.\s?\d{1,2})?$")
_WRAPPED_CHARS = 40
"""A line of at least this length without a full stop continues in a line that begins with a lower-case letter."""


def language_of(text: str) -> Language:
    """Return `ko` for a Korean text, whatever names it holds, and `en` for any other."""
    korean = len(re.findall(f"{HANGUL.pattern}+", text))
    if not korean:
        return "en"
    latin = [word.lower() for word in re.findall("[A-Za-z]+", text)]
    # an English sentence may quote Korean names; a Korean one with many Latin names has no English grammar
    grammar = sum(word in FUNCTION_WORDS for word in latin)
    return "en" if grammar >= 2 and len(latin) > 2 * korean else "ko"


def strip_marks(text: str) -> str:
    """Return `text` without its citation marks and the space before them."""
    return _SPACED_MARK.sub("", text)


def disarm_marks(text: str) -> str:
    """Return `text` with harmless citation marks: [1] becomes ⟨1⟩."""
    return CITATION_MARK.sub(lambda mark: f"⟨{mark.group()[1:-1].strip()}⟩", text)


def split_sentences(text: str) -> list[Span]:
    """Return the sentences of `text` in order, without space around them, with the citation marks behind them."""
    spans: list[Span] = []
    for line in _lines(text):
        start = line.start
        for match in _END.finditer(text, line.start, line.end):
            full_stop = match.group()[0] == "." and not match["marks"]
            if full_stop and _numbers_or_shortens(text[start : match.start()], text[match.end() : line.end]):
                continue
            spans.append(Span(start, match.end()))
            start = match.end()
        spans.append(Span(start, line.end))
    joined: list[Span] = []
    for start, end in spans:
        piece = text[start:end]
        if not piece.strip():
            continue
        span = Span(end - len(piece.lstrip()), start + len(piece.rstrip()))
        # citation marks on their own join the sentence before them
        alone = not _LETTERS.search(text, *span) and not CITATION_MARK.sub("", text[span.start : span.end]).strip(" .")
        if alone and joined and CITATION_MARK.search(text, *span):
            joined[-1] = Span(joined[-1].start, span.end)
        else:
            joined.append(span)
    return joined


def sentences_of(text: str) -> list[str]:
    """Return the sentences of `text` as strings."""
    return [text[start:end] for start, end in split_sentences(text)]


def _lines(text: str) -> Iterator[Span]:
    """Yield the lines, a wrapped line with its continuation."""
    start = end = 0
    for match in re.finditer(r"[^\n]+", text):
        last = text[start:end].rsplit("\n", 1)[-1].rstrip()
        begins_small = re.match(r"\s*[a-z]", match.group()) is not None
        if begins_small and len(last) >= _WRAPPED_CHARS and not re.search(r"[.!?:;|]$", last):
            end = match.end()
            continue
        if text[start:end].strip():
            yield Span(start, end)
        start, end = match.span()
    if text[start:end].strip():
        yield Span(start, end)


def _numbers_or_shortens(before: str, after: str) -> bool:
    """Return whether the full stop between two texts belongs to a number, list item, article or abbreviation."""
    if _LIST_ITEM.match(before) or _ARTICLE.search(before) or _SHORTENED.search(before[-16:]):
        return bool(after.strip())
    if _NUMBERED.search(before[-16:]) and after.lstrip()[:1].isdigit():
        return True
    if not before[-1:].isdigit():
        return False
    return bool(re.match(r"\s*[\d(~∼-]", after)) or _ENDS_IN_DATE.search(before[-14:]) is not None
