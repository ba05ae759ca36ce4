"""The rankings of one question on one index: by similarity, by marginal relevance, by BM25, by weighted words."""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.embedders import embed_questions, family, reads
from models.protocols import Embedder
from storage.index import Index
from storage.lexical import Best, Lexical, best_rows
from storage.vectors import Nearest
from tasks.language.tokens import tokenize
from tasks.rag.rag_errors import NoLexicalIndex
from tasks.rag.retrieval.expansion import Expansion, expand, is_statement
from tasks.rag.retrieval.weights import SearchSettings

OTHER_CLOSENESS = 0.1
"""Least weight of similarity in `words` for embedders other than MiniLM."""
TITLE_LINES, TITLE_CHARS = 3, 300
AMOUNTS = 6
"""Least number of amounts in a financial statement; a list of statements has fewer."""
_AMOUNT = re.compile(r"(?<![\d,.])(?!(?:19|20)\d\d(?!\d))(?:\d{1,3}(?:,\d{3})+|\d{3,})")
Rows = NDArray[np.bool_]
"""A flag per row of the index."""


class Scope(NamedTuple):
    """The rows to search."""

    allowed: Rows | None = None
    """Rows to search; None: all."""
    bonus: NDArray[np.float32] | None = None
    """Per row, the bonus of its document as a share of the best score; None: no bonus."""

    @property
    def inside(self) -> Rows | None:
        """The allowed rows with a bonus."""
        if self.bonus is None:
            return self.allowed
        return self.bonus > 0 if self.allowed is None else self.allowed & (self.bonus > 0)


class Ranked(NamedTuple):
    """Rows, best first, and their scores."""

    rows: list[int]
    scores: list[float]


class Retrievers:
    """The retrievers of one question on one index; it is embedded and tokenized once, on first use."""

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
        self.index, self._embedder, self.settings = index, embedder, settings
        self.question = unicodedata.normalize("NFC", question)
        self._names = names
        self.embedder_name = index.manifest.embedder
        self.reads_question = reads(self.embedder_name, question)
        self._nearest: list[tuple[int, Scope, Ranked]] = []

    def similarity(self, k: int, scope: Scope) -> Ranked:
        """Ranks by cosine similarity."""
        for depth, searched, ranked in self._nearest:  # of one question, so a few
            if depth >= k and searched.allowed is scope.allowed and searched.bonus is scope.bonus:
                return Ranked(ranked.rows[:k], ranked.scores[:k])
        ranked = _preferring(partial(self.index.vectors.search, self._vector), k, scope)
        self._nearest.append((k, scope, ranked))
        return ranked

    def mmr(self, k: int, scope: Scope) -> Ranked:
        """Ranks by maximal marginal relevance."""
        pool = self.similarity(max(self.settings.mmr_pool, k), scope)
        vectors = self.index.vectors.reconstruct(np.array(pool.rows, np.int64))
        relevance = np.array(pool.scores, np.float32)
        chosen = maximal_marginal_relevance(relevance, vectors, count=k, trade_off=self.settings.mmr_trade_off)
        return Ranked([pool.rows[position] for position in chosen.rows], chosen.scores)

    def bm25(self, k: int, scope: Scope) -> Ranked:
        """Ranks by BM25. Raises NoLexicalIndex, WrongTokenizer."""
        lexical, (words,) = self._lexical_words([self.question])
        return _preferring(partial(lexical.search, words), k, scope)

    def words(self, k: int, scope: Scope) -> Ranked:
        """Ranks by words of document and chunk, with synonyms, similarity and titles. Raises as `bm25`."""
        scores = self._word_scores
        closeness = closeness_for(self.embedder_name, self.question, self.settings) / self.settings.bm25_weight
        pool = max(self.settings.words_pool, k)
        parts = [scope.allowed] if scope.bonus is None else [scope.allowed, scope.inside]
        within = (scores if part is None else np.where(part, scores, 0.0) for part in parts)
        rows = np.unique(np.concatenate([best_rows(part, pool, above=0.0).rows for part in within]))
        if closeness:
            rows = np.union1d(rows, self.similarity(self.settings.mmr_pool, scope).rows).astype(np.int64)
        if not len(rows):
            return Ranked([], [])
        merit = scores[rows] / max(float(scores[rows].max()), 1e-9)
        if closeness:
            near = self.index.vectors.reconstruct(rows) @ self._vector
            # in standard deviations from the mean: embedders differ in the range that their cosines fill
            merit += closeness * ((near - near.mean()) / max(float(near.std()), 1e-6))
        if self._expansion.statements:
            merit += self.settings.title_bonus * np.array([self._is_wanted_statement(row) for row in rows.tolist()])
        if scope.bonus is not None:
            merit += scope.bonus[rows]
        order = np.lexsort((rows, -merit))[:k]
        return Ranked(rows[order].tolist(), merit[order].tolist())

    def _is_wanted_statement(self, row: int) -> bool:
        """Whether the chunk holds amounts under the title of a statement that is asked for."""
        chunk = json.loads(self.index.chunk(row))  # a fifth of the time that validation takes
        opening = "\n".join(chunk["text"].split("\n", TITLE_LINES)[:TITLE_LINES])[:TITLE_CHARS]
        title = "\n".join([*chunk["heading_path"][-1:], opening])
        return is_statement(title, self._expansion.statements) and len(_AMOUNT.findall(chunk["text"])) >= AMOUNTS

    def _lexical_words(self, texts: Sequence[str]) -> tuple[Lexical, list[list[str]]]:
        """BM25 of the index, and the words of each text as the index splits them."""
        lexical, tokenizer = self.index.lexical, self.index.manifest.tokenizer
        if lexical is None or tokenizer is None:
            raise NoLexicalIndex
        return lexical, tokenize(texts, tokenizer=tokenizer)

    @cached_property
    def _expansion(self) -> Expansion:
        return expand(self.question)

    @cached_property
    def _word_scores(self) -> NDArray[np.float64]:
        settings, expansion = self.settings, self._expansion
        lexical, (asked, *others) = self._lexical_words([expansion.asked, *self._names, *expansion.added])
        named, added = others[: len(self._names)], others[len(self._names) :]
        shares: dict[str, float] = {word: settings.added_share for words in added for word in words}
        shares |= {word: float(count) for word, count in Counter(asked).items()}
        spent = {word: sure for words, sure in zip(named, self._names.values(), strict=True) for word in words}
        for word in spent.keys() & shares.keys():
            shares[word] *= 1 - (1 - settings.said_share) * spent[word]
        return word_scores(lexical, shares, self.index.document_of_row, repeated_share=settings.repeated_share)

    @cached_property
    def _vector(self) -> NDArray[np.float32]:
        embedder = self._embedder()
        self.index.require_embedder(family(embedder.id))
        return embed_questions(embedder, [self.question])[0]


def maximal_marginal_relevance(
    relevance: NDArray[np.float32], vectors: NDArray[np.float32], *, count: int, trade_off: float
) -> Ranked:
    """`count` candidates, by position, in the order in which they add most: relevant, and unlike those before them.

    relevance: similarity of each candidate to the question, (candidates,). vectors: (candidates, dimension), unit.
    trade_off: 1 is relevance alone, 0 is difference alone. Ties: the earlier candidate first.
    Source: Carbonell and Goldstein 1998, "The use of MMR".
    """
    gain = trade_off * relevance.astype(np.float64)
    likeness = np.zeros(len(relevance))  # to the most alike of those chosen; none yet, so no penalty
    open_positions = np.ones(len(relevance), np.bool_)
    chosen = Ranked([], [])
    for _ in range(min(count, len(relevance))):
        score = np.where(open_positions, gain - (1 - trade_off) * likeness, -np.inf)
        best = int(np.argmax(score))
        chosen.rows.append(best)
        chosen.scores.append(float(score[best]))
        open_positions[best] = False
        alike = (vectors @ vectors[best]).astype(np.float64)
        likeness = alike if len(chosen.rows) == 1 else np.maximum(likeness, alike)
    return chosen


def _preferring(search: Callable[..., Best | Nearest], k: int, scope: Scope) -> Ranked:
    """`search` everywhere and inside; rows of documents that are meant gain their share of the best score."""
    everywhere = search(k, allowed=scope.allowed)
    rows, scores = everywhere.rows.tolist(), everywhere.scores.tolist()
    if scope.bonus is None or not rows:
        return Ranked(rows, scores)
    inside = search(k, allowed=scope.inside)
    pooled = dict(zip(inside.rows.tolist(), inside.scores.tolist(), strict=True)) | dict(zip(rows, scores, strict=True))
    best = abs(scores[0])
    scored = {row: score + best * float(scope.bonus[row]) for row, score in pooled.items()}
    ranked = sorted(scored, key=lambda row: (-scored[row], row))[:k]
    return Ranked(ranked, [scored[row] for row in ranked])


def closeness_for(embedder_id: str, question: str, settings: SearchSettings) -> float:
    """Weight of similarity in the ranking `words`; 0 if the embedder cannot read the script of the question.

    Measured for MiniLM (README). Others are larger and get a little more, in any script they read.
    """
    if not reads(embedder_id, question):
        return 0.0
    return settings.closeness if embedder_id.startswith("minilm@") else max(settings.closeness, OTHER_CLOSENESS)


def word_scores(
    lexical: Lexical, words: Mapping[str, float], document_of_row: NDArray[np.int32], *, repeated_share: float
) -> NDArray[np.float64]:
    """The score of every row, 0 without any word in its document; words: word → weight.

    repeated_share: what a word of every chunk of the document counts for a chunk.
    """
    sizes = np.bincount(document_of_row)
    chunks, documents = np.zeros(len(document_of_row)), np.zeros(len(sizes))
    for word, share in words.items():
        posting = lexical.posting(word)
        if posting is None or not share:
            continue
        owners = document_of_row[posting.rows]
        order: NDArray[np.int64] | slice = slice(None)
        if (np.diff(owners) < 0).any():  # the rows of a document nearly always lie together
            order = np.argsort(owners, kind="stable")
            owners = owners[order]
        starts = np.concatenate([[0], np.flatnonzero(np.diff(owners)) + 1])  # of each document's run of rows
        held = np.diff(starts, append=len(owners))
        holding = owners[starts]
        # in small indexes a frequent word weighs nothing or less; it tells nothing apart
        weights = np.maximum(posting.weights, 0)[order] * share
        alone = _rarity(sizes[holding], np.ones_like(held))
        singling = repeated_share + _rarity(sizes[holding], held) / alone
        chunks[posting.rows[order]] += weights * np.repeat(singling, held)
        documents[holding] += np.maximum.reduceat(weights, starts)
    return chunks + documents[document_of_row]


def _rarity(size: NDArray[np.int64], held: NDArray[np.int64]) -> NDArray[np.float64]:
    """Okapi's idf within documents of `size` chunks of which `held` have the word; always above 0."""
    return np.log1p((size - held + 0.5) / (held + 0.5))
