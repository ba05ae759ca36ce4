"""The fitted parts of the reader: operations by the question, cells by their features, candidates by both.

All are small: a linear model over hashed words, and two networks of two layers. They run on numpy alone; `make reader`
fits them (tests/reader). The weights are in `reader.safetensors`, what they were fitted on in `card.json`.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tasks.language.tokens import HANGUL
from tasks.rag.numbers.computation_reading import asks_to_work_out
from tasks.rag.numbers.computations import operation
from tasks.rag.reading.candidates import LINKS, OF, OPERATIONS, Candidate, Packed, list_candidates, pack
from tasks.rag.reading.cell_features import CELL_FEATURES, HAND_WEIGHTS, Features
from tasks.rag.reading.pages import Page, Question, Standing

BUCKETS = 16_384
"""Places that the words of questions are hashed to."""
LIKELIEST = 6
"""Operations whose candidates are scored."""
FLOOR = -12.0
"""Least log-probability of an operation."""
CHOICE_FEATURES = (
    *(f"is {operation}" for operation in OPERATIONS),
    "operation log-probability", "operation below best", "cells mean", "cells least", "cells best", "cells below best",
    "cells rank", *(f"mean {name}" for name in CELL_FEATURES), *LINKS,
)  # fmt: skip
SIGNS = (
    "share of the choice", "lead over another answer", "operation log-probability", "cells least", "cells below best",
    "mean uncovered", "uncovered", "is value", "is several", "is worked out", "mean words known", "mean in sentence",
    "mean hit rank", "years hit", "mean years clash", "entropy", "mean document fit",
    *(f"document {name}" for name in Standing._fields),
)  # fmt: skip
"""Names of the signs from which the confidence is computed, in their order."""
_SEVERAL = ("argmax", "argmin", "count", "labels", "list", "max", "min")
WORKED = ("difference", "growth", "sum", "average", "share", "ratio", "product")
"""Operations that work out a number of several cells."""


class Network(NamedTuple):
    """Two layers with one score for each row; with an empty hidden layer it is linear."""

    mean: Features
    deviation: Features
    first: Features
    """(features, hidden)"""
    first_bias: Features
    second: Features
    """(hidden,)"""

    def score(self, rows: Features) -> Features:
        """Return a score for each row, (rows,)."""
        hidden = np.maximum(((rows - self.mean) / self.deviation) @ self.first + self.first_bias, 0)
        return hidden @ self.second


class Expected(NamedTuple):
    """How likely one value is asked for, what is worked out of several, and several values or one chosen of them."""

    value: float = 0.0
    worked: float = 0.0
    several: float = 0.0


class Reader(NamedTuple):
    """Weights of the networks that score operations, cells, candidates and confidence."""

    operations: Features
    """(BUCKETS, operations)"""
    operations_bias: Features
    cells: Network | None
    """None: weights by hand."""
    choice: Network | None
    confidence: Features
    """(signs,), and behind them the bias."""
    order: Features = HAND_WEIGHTS
    """(CELL_FEATURES,): by the sum of them candidates are made of the best cells; by hand where nothing is fitted."""

    def score_cells(self, features: Features) -> Features:
        """Return how well each cell fits the question, (cells,)."""
        return self.cells.score(features) if self.cells and len(features) else features @ HAND_WEIGHTS

    def likely_operations(self, question: Question, page: Page) -> Features:
        """Return the log-probability of each operation for a question of a page, FLOOR or more, (operations,)."""
        words = question_words(question, page.label_stems, has_sentences=bool(page.sentences))
        scores = self.operations[hash_words(words)].sum(0)
        scores = scores + self.operations_bias
        scores = scores - scores.max()
        return np.maximum(scores - np.log(np.exp(scores).sum()), FLOOR).astype(np.float32)

    def expect_answer(self, question: Question, page: Page) -> Expected:
        """Return how likely each kind of answer is asked for; what remains to 1 is for words of a sentence."""
        chances = np.exp(self.likely_operations(question, page))
        value, span = float(chances[OF["value"]]), float(chances[OF["span"]])
        worked = float(chances[[OF[operation] for operation in WORKED]].sum())
        return Expected(value, worked, max(0.0, 1 - value - span - worked))


def question_words(question: Question, labels: frozenset[str], *, has_sentences: bool) -> list[str]:
    """Return what the operations are read from: words, stems and pairs of words, and the question as a pattern.

    labels: stems of the page's labels; in the pattern, one to three words at a time, a dot stands for the words of
    labels. What the rules of formulas read in the question counts as a word, too.
    """
    words = [
        "#" if word.isdigit() and len(word) != 4 else "year" if word.isdigit() else word for word in question.words
    ]
    pairs = (f"{first} {second}" for first, second in pairwise(words))
    stems = (f"~{stem}" for stem in question.stems)
    more = [f"years {min(3, len(question.years))}", f"sentences {has_sentences}", f"wh {question.wh}"]
    # with the pattern the operation of a left-out TAT-QA question is right in 66 % of all, without it in 52 %
    pattern = ["<", *_mask_labels(question, labels), ">"]
    grams = [
        f"{size}:{' '.join(pattern[at : at + size])}" for size in (1, 2, 3) for at in range(len(pattern) - size + 1)
    ]
    asks, says = asks_to_work_out(question.text), operation(question.text)
    return [*words, *stems, *pairs, *more, *grams, f"asks {asks}", f"says {says}", f"both {asks} {says}"]


def _mask_labels(question: Question, labels: frozenset[str]) -> list[str]:
    """Return a question's words; runs of label words are `•` (Korean: and the last syllable), numbers `year` or `#`."""
    masked: list[str] = []
    for word, stems in zip(question.words, question.word_stems, strict=True):
        if word.isdigit():
            masked.append("year" if len(word) == 4 else "#")
        elif labels.isdisjoint(stems):
            masked.append(word)
        elif HANGUL.search(word):
            masked.append(f"•{word[-1]}")
        elif not (masked and masked[-1].startswith("•")):
            masked.append("•")
    return masked


def hash_words(words: Iterable[str]) -> list[int]:
    """Return the distinct places of words, rising."""
    return sorted({zlib.crc32(word.encode()) % BUCKETS for word in words})


class Ranked(NamedTuple):
    """Candidates of the likeliest operations, and what is known of each."""

    candidates: list[Candidate]
    table: Features
    """(candidates, CHOICE_FEATURES)"""
    places: list[int]
    """Positions of the ranked candidates in the list of all."""


def describe_candidates(
    candidates: Sequence[Candidate], packed: Packed, features: Features, operations: Features, cell_scores: Features
) -> Ranked:
    """Return the candidates of the six likeliest operations, and whole sentences, with their features.

    packed: the candidates as arrays. operations: their log-probabilities, (operations,). cell_scores: (cells,).
    """
    likely = [*np.argsort(-operations)[:LIKELIEST], OF["span"]]
    places: list[int] = np.flatnonzero(np.isin(packed.operations, likely)).tolist()
    chosen = [candidates[at] for at in places]
    if not chosen:
        return Ranked([], np.zeros((0, len(CHOICE_FEATURES)), np.float32), [])
    ops, cells, links = (part[places] for part in packed)
    there, at = cells >= 0, np.maximum(cells, 0)
    scores = cell_scores if len(cell_scores) else np.zeros(1, np.float32)
    features = features if len(features) else np.zeros((1, len(CELL_FEATURES)), np.float32)
    count, some = np.maximum(there.sum(1), 1), there.any(1)
    mean = np.where(there, scores[at], 0.0).sum(1) / count
    least = np.where(some, np.where(there, scores[at], 99).min(1), 0)
    most = np.where(some, np.where(there, scores[at], -99).max(1), 0)
    ordered = np.sort(scores)
    rank = np.where(some, np.log1p(len(ordered) - np.searchsorted(ordered, mean, side="right")), 0)
    means = (features[at] * there[:, :, None]).sum(1) / count[:, None]
    kinds = np.eye(len(OPERATIONS), dtype=np.float32)[ops]
    own = np.stack([mean, least, most, np.where(some, mean - scores.max(), 0), rank], 1)
    chances = np.stack([operations[ops], operations[ops] - operations.max()], 1)
    table = np.hstack([kinds, chances, own, means, links]).astype(np.float32)
    return Ranked(chosen, table, places)


class Choice(NamedTuple):
    """The best candidate of a page, and how sure it is."""

    candidate: Candidate
    confidence: float
    signs: list[float]


def choose(reader: Reader, page: Page, question: Question, features: Features) -> Choice | None:
    """Return the best candidate, the probability that it answers, and its signs; None where the page gives none."""
    candidates = list_candidates(page, question, features @ reader.order)
    operations = reader.likely_operations(question, page)
    cell_scores = reader.score_cells(features)
    ranked = describe_candidates(candidates, pack(candidates), features, operations, cell_scores)
    if not ranked.candidates:
        return None
    scores = reader.choice.score(ranked.table) if reader.choice else ranked.table @ HAND_CHOICE
    best, signs = weigh_choice(ranked, scores, page.standing)
    logit = float(np.dot(reader.confidence[:-1], signs) + reader.confidence[-1])
    return Choice(ranked.candidates[best], float(1 / (1 + np.exp(-logit))), signs)


def answer_key(candidate: Candidate) -> object:
    """Return what equal answers have in common."""
    return candidate.texts or (None if candidate.number is None else round(float(candidate.number), 3))


def weigh_choice(ranked: Ranked, scores: Features, standing: Standing) -> tuple[int, list[float]]:
    """Return the place of the best candidate among the ranked ones, and the signs of how sure it is."""
    best = int(scores.argmax())
    weights = np.exp(scores - scores.max())
    shares = weights / weights.sum()
    totals: dict[object, float] = {}
    keys = [answer_key(candidate) for candidate in ranked.candidates]
    for key, share in zip(keys, shares.tolist(), strict=True):
        totals[key] = totals.get(key, 0.0) + share
    same = totals[keys[best]]
    rest = max(
        (score for score, key in zip(scores.tolist(), keys, strict=True) if key != keys[best]), default=scores.min() - 5
    )
    row = dict(zip(CHOICE_FEATURES, ranked.table[best].tolist(), strict=True))
    operation = ranked.candidates[best].operation
    entropy = -sum(total * np.log(total + 1e-9) for total in totals.values())
    return best, [
        float(np.log((same + 1e-4) / (1 - same + 1e-4))), float(min(6.0, scores[best] - rest)),
        row["operation log-probability"], row["cells least"] / 5, row["cells below best"] / 5, row["mean uncovered"],
        row["uncovered"], float(operation == "value"), float(operation in _SEVERAL), float(operation in WORKED),
        row["mean words known"], row["mean in sentence"], row["mean hit rank"], row["years hit"],
        row["mean years clash"], float(entropy), row["mean document fit"], *map(float, standing),
    ]  # fmt: skip


_HAND = {
    "operation log-probability": 1.0, "cells mean": 0.7, "cells least": 0.7, "uncovered": -2.0,
    "years are those asked": 1.0, "same row": 1.0, "same column": 0.7, "later first": 0.8, "mixed": -1.0,
    "sentences": -0.3, "whole row": 0.3,
}  # fmt: skip
HAND_CHOICE = np.array([_HAND.get(name, 0.0) for name in CHOICE_FEATURES], np.float32)
"""Weights by hand for the choice: the test that fitting pays compares with them."""


@cache
def load_reader() -> Reader:
    """Return the fitted reader of the package."""
    from safetensors.numpy import load

    return unpack_reader(load(files("tasks.rag.reading").joinpath("reader.safetensors").read_bytes()))


def unpack_reader(tensors: Mapping[str, NDArray[np.generic]]) -> Reader:
    """Return the reader of named tensors. Raises ValueError where they are of other features than these."""
    wide = {name: tensor.astype(np.float32) for name, tensor in tensors.items()}
    if wide["cells.mean"].shape != (len(CELL_FEATURES),) or wide["choice.mean"].shape != (len(CHOICE_FEATURES),):
        raise ValueError("the weights of the reader are of other features than this version; run `make reader`")
    cells, choice = (
        Network(**{field: wide[f"{name}.{field}"] for field in Network._fields}) for name in ("cells", "choice")
    )
    return Reader(wide["operations"], wide["operations_bias"], cells, choice, wide["confidence"], wide["order"])
