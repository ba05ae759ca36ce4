"""Finds the cell of a table that a question for one figure means: by the words around it, its period and its unit."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tasks.rag.numbers.cell_question import CellQuestion, of_period
from tasks.rag.numbers.cell_scores import CellScorer, Context, Match, telling
from tasks.rag.numbers.line_lookup import NIL, Number

Embed = Callable[[Sequence[str]], NDArray[np.float32]]
"""Texts → unit vectors."""
BY_WORDS, BY_MEANING = 0.7, 0.3
LEAST_ALIKE, MOST_ALIKE = 0.25, 0.8
"""Cosines that say nothing, and all."""
MOST_EMBEDDED = 16
AS_GOOD = 0.1
"""A cell with the same digits that fits this much less is the same figure."""
OTHER_DOCUMENT = 0.97


class Found(NamedTuple):
    """The best cell of a question."""

    best: Match
    margin: float
    """To the best cell with other digits."""


def search_cells(
    question: CellQuestion,
    numbers: Sequence[Number],
    *,
    tokenizer: str,
    documents: Sequence[str] = (),
    context: Callable[[Number], Context] = lambda _: Context(),
    embed: Embed | None = None,
) -> Found | None:
    """The best cell; None where no cell of the asked period holds a word of the question.

    documents: digests, those that fit the question best first. Raises WrongTokenizer.
    """
    dated = of_period(question, [one for one in numbers if one.shown not in NIL])
    reader = CellScorer(question, [number for number, _ in dated], tokenizer)
    rank = {document: at for at, document in enumerate(documents)}
    matches = [
        reader.match(number, context(number), share * OTHER_DOCUMENT ** rank.get(number.document, 0))
        for number, share in dated
    ]
    matches = sorted((one for one in matches if one.score), key=lambda one: -one.score)
    if embed and matches:
        matches = _by_meaning(question, matches, embed)
    if not matches:
        return None
    first = matches[0]
    alike = [one for one in matches if one.score >= first.score - AS_GOOD and digits_of(one) == digits_of(first)]
    best = max(alike, key=lambda one: one.number.scale)  # a table may have lost the line with its unit
    other = next((one.score for one in matches if digits_of(one) != digits_of(first)), 0.0)
    return Found(best._replace(score=first.score), first.score - other)


def digits_of(match: Match) -> str:
    return re.sub(r"[^\d.]", "", match.number.shown)


def _by_meaning(question: CellQuestion, matches: Sequence[Match], embed: Embed) -> list[Match]:
    """The matches ordered by words and by closeness of meaning; only the labels of the best are compared."""
    phrases = list(dict.fromkeys(phrase_of(one.number) for one in matches))
    near = sorted((one for one in matches if one.rank is not None), key=lambda one: one.rank or 0)
    most = MOST_EMBEDDED * 2 // 3
    phrases = list(dict.fromkeys((*phrases[:most], *(phrase_of(one.number) for one in near), *phrases)))[:MOST_EMBEDDED]
    vectors = embed([question.core, *phrases])
    alike = dict(zip(phrases, (vectors[1:] @ vectors[0]).tolist(), strict=True))
    ordered = [_with_meaning(one, alike.get(phrase_of(one.number))) for one in matches]
    return sorted(ordered, key=lambda one: -one.score)


def _with_meaning(match: Match, alike: float | None) -> Match:
    scaled = min(1.0, max(0.0, ((alike or 0.0) - LEAST_ALIKE) / (MOST_ALIKE - LEAST_ALIKE)))
    score = BY_WORDS * match.score + BY_MEANING * scaled * match.sure
    return match._replace(score=score, alike=alike)


def phrase_of(number: Number) -> str:
    """A row and a column as one phrase."""
    return " ".join((*number.row_path[-2:], telling(number.column_path))).strip()
