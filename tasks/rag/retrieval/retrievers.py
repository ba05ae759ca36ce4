"""The rankings of one question on one index: by likeness, by likeness without repetition, by BM25, by words."""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.embedders import embed_questions, family, reads
from models.protocols import Embedder
from storage.index import Index
from storage.lexical import Lexical, best_rows
from tasks.rag.errors import NoLexicalIndex
from tasks.rag.language.tokens import tokenize
from tasks.rag.retrieval.expansion import Expansion, expand, is_statement
from tasks.rag.retrieval.fusion import maximal_marginal_relevance
from tasks.rag.retrieval.weights import SearchSettings, closeness_for
from tasks.rag.retrieval.word_scores import word_scores

TITLE_LINES, TITLE_CHARS = 3, 300
AMOUNTS = 6
"""A statement has them, a list of statements with their pages does not."""
_AMOUNT = re.compile(r"(?<![\d,.])(?!(?:19|20)\d\d(?!\d))(?:\d{1,3}(?:,\d{3})+|\d{3,})")
Rows = NDArray[np.bool_]
"""A flag per row."""


class Scope(NamedTuple):
    """Where to look."""

    allowed: Rows | None = None
    """Nowhere else; None is everywhere."""
    bonus: NDArray[np.float32] | None = None
    """Per row, what its document gains for being meant, as a share of the best score; None is nothing anywhere."""

    @property
    def inside(self) -> Rows | None:
        """The allowed rows with a bonus."""
        if self.bonus is None:
            return self.allowed
        return self.bonus > 0 if self.allowed is None else self.allowed & (self.bonus > 0)


class Ranked(NamedTuple):
    """Rows, best first, and what the retriever gave them."""

    rows: list[int]
    scores: list[float]


class Retrievers:
    """One question on one index; its vector and its words are made once, and only if a retriever needs them."""

    def __init__(
        self,
        index: Index,
        question: str,
        *,
        embedder: Callable[[], Embedder],
        names: Mapping[str, float],
        settings: SearchSettings,
    ) -> None:
        """names: what the question calls its documents, where those are known, and how surely (0 to 1)."""
        self._index, self._embedder, self._settings = index, embedder, settings
        self._question = unicodedata.normalize("NFC", question)
        self._names = names
        self.embedder_name = index.manifest.embedder
        self.reads_question = reads(self.embedder_name, question)
        self._nearest: list[tuple[int, Scope, Ranked]] = []

    def similarity(self, k: int, scope: Scope) -> Ranked:
        """By cosine."""
        for depth, searched, ranked in self._nearest:  # of one question, so a few
            if depth >= k and searched.allowed is scope.allowed and searched.bonus is scope.bonus:
                return Ranked(ranked.rows[:k], ranked.scores[:k])

        def nearest(k: int, allowed: Rows | None) -> Ranked:
            found = self._index.vectors.search(self._vector, k, allowed=allowed)
            return Ranked(found.rows.tolist(), found.scores.tolist())

        ranked = self._preferring(nearest, k, scope)
        self._nearest.append((k, scope, ranked))
        return ranked

    def mmr(self, k: int, scope: Scope) -> Ranked:
        """By cosine, less the cosine to what stands before it."""
        pool = self.similarity(max(self._settings.mmr_pool, k), scope)
        vectors = self._index.vectors.reconstruct(np.array(pool.rows, np.int64))
        relevance = np.array(pool.scores, np.float32)
        chosen = maximal_marginal_relevance(relevance, vectors, count=k, trade_off=self._settings.mmr_trade_off)
        return Ranked([pool.rows[one.position] for one in chosen], [one.score for one in chosen])

    def bm25(self, k: int, scope: Scope) -> Ranked:
        """By BM25 as it is. Raises NoLexicalIndex, WrongTokenizer."""
        (words,) = self._tokens([self._question])

        def best(k: int, allowed: Rows | None) -> Ranked:
            found = self._lexical.search(words, k, allowed=allowed)
            return Ranked(found.rows.tolist(), found.scores.tolist())

        return self._preferring(best, k, scope)

    def words(self, k: int, scope: Scope) -> Ranked:
        """By the words of document and chunk, other words for the same included; likeness and titles have a say.

        Raises as `bm25`.
        """
        scores = self._word_scores
        closeness = closeness_for(self.embedder_name, self._question, self._settings) / self._settings.bm25_weight
        rows = self._words_pool(scores, max(self._settings.words_pool, k), scope)
        if closeness:
            rows = np.union1d(rows, self.similarity(self._settings.mmr_pool, scope).rows).astype(np.int64)
        if not len(rows):
            return Ranked([], [])
        merit = scores[rows] / max(float(scores[rows].max()), 1e-9)
        if closeness:
            merit += closeness * _standardised(self._index.vectors.reconstruct(rows) @ self._vector)
        if self._expansion.statements:
            merit += self._settings.title_bonus * np.array([self._is_wanted_statement(row) for row in rows.tolist()])
        if scope.bonus is not None:
            merit += scope.bonus[rows]
        order = np.lexsort((rows, -merit))[:k]
        return Ranked(rows[order].tolist(), merit[order].tolist())

    def _preferring(self, search: Callable[[int, Rows | None], Ranked], k: int, scope: Scope) -> Ranked:
        """`search` everywhere and inside; rows of documents that are meant gain their share of the best score."""
        everywhere = search(k, scope.allowed)
        if scope.bonus is None or not everywhere.rows:
            return everywhere
        pooled = dict(zip(*search(k, scope.inside), strict=True)) | dict(zip(*everywhere, strict=True))
        best = abs(everywhere.scores[0])
        scored = {row: score + best * float(scope.bonus[row]) for row, score in pooled.items()}
        rows = sorted(scored, key=lambda row: (-scored[row], row))[:k]
        return Ranked(rows, [scored[row] for row in rows])

    def _words_pool(self, scores: NDArray[np.float64], k: int, scope: Scope) -> NDArray[np.int64]:
        parts = [scope.allowed] if scope.bonus is None else [scope.allowed, scope.inside]
        found = [best_rows(scores if part is None else np.where(part, scores, 0.0), k, above=0.0) for part in parts]
        return np.unique(np.concatenate([best.rows for best in found]))

    def _is_wanted_statement(self, row: int) -> bool:
        """Whether the chunk holds amounts under the title of a statement that is asked for."""
        chunk = json.loads(self._index.chunk(row))  # a fifth of the time that validation takes
        opening = "\n".join(chunk["text"].split("\n", TITLE_LINES)[:TITLE_LINES])[:TITLE_CHARS]
        title = "\n".join([*chunk["heading_path"][-1:], opening])
        return is_statement(title, self._expansion.statements) and len(_AMOUNT.findall(chunk["text"])) >= AMOUNTS

    @property
    def _lexical(self) -> Lexical:
        if self._index.lexical is None:
            raise NoLexicalIndex
        return self._index.lexical

    def _tokens(self, texts: Sequence[str]) -> list[list[str]]:
        tokenizer = self._index.manifest.tokenizer
        if tokenizer is None:
            raise NoLexicalIndex
        return tokenize(texts, tokenizer=tokenizer)

    @cached_property
    def _expansion(self) -> Expansion:
        return expand(self._question)

    @cached_property
    def _word_scores(self) -> NDArray[np.float64]:
        settings, expansion = self._settings, self._expansion
        asked, *others = self._tokens([expansion.asked, *self._names, *expansion.added])
        named, added = others[: len(self._names)], others[len(self._names) :]
        shares: dict[str, float] = {word: settings.added_share for words in added for word in words}
        shares |= {word: float(count) for word, count in Counter(asked).items()}
        spent = {word: sure for words, sure in zip(named, self._names.values(), strict=True) for word in words}
        for word in spent.keys() & shares.keys():
            shares[word] *= 1 - (1 - settings.said_share) * spent[word]
        return word_scores(self._lexical, shares, self._index.document_of_row, repeated_share=settings.repeated_share)

    @cached_property
    def _vector(self) -> NDArray[np.float32]:
        embedder = self._embedder()
        self._index.require_embedder(family(embedder.id))
        return embed_questions(embedder, [self._question])[0]


def _standardised(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """In standard deviations from the mean: embedders differ in the range that their cosines fill."""
    return (values - values.mean()) / max(float(values.std()), 1e-6)
