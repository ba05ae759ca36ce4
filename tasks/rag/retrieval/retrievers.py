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
from pydantic import Field

from models.embedders import embed_questions, family_of, reads_script, spans_languages
from models.protocols import Embedder
from storage.index import Index
from storage.lexical import BestRows, Lexical, best_rows
from storage.records import Record
from storage.vectors import Nearest
from tasks.language.tokens import BIGRAM, drop_compounds, syllable_pairs, tokenize
from tasks.rag.rag_errors import NoLexicalIndex
from tasks.rag.retrieval.expansion import Expansion, expand, is_statement

K1, B = 0.6, 0.4
"""BM25's saturation and weight of the length in `words`: that a chunk holds a word says more than how often. Chosen
beside rank-bm25's 1.5, 0.75 and Anserini's 0.9, 0.4 (docs/measurements.md)."""
LEAST_REACH = 0.3
"""Share of the weight of its words, in the best chunk, below which a question is left no further to similarity."""
TITLE_LINES, TITLE_CHARS = 3, 300  # where the title of a statement stands, if it is no heading
AMOUNTS = 6
"""Least number of amounts in a financial statement; a list of statements has fewer."""
_AMOUNT = re.compile(r"(?<![\d,.])(?!(?:19|20)\d\d(?!\d))(?:\d{1,3}(?:,\d{3})+|\d{3,})")  # years are no amounts
Rows = NDArray[np.bool_]
"""A flag per row of the index."""


class Scope(NamedTuple):
    """The rows of an index that a search may return, and the bonus that some of them get."""

    allowed: Rows | None = None
    """True for the rows that may be returned, (N,); None allows all of them."""
    bonus: NDArray[np.float32] | None = None
    """The bonus of each row's document as a share of the best score, (N,); None gives none."""

    @property
    def inside(self) -> Rows | None:
        """True for the allowed rows that get a bonus, (N,); without bonuses the allowed rows, None for all."""
        if self.bonus is None:
            return self.allowed
        return self.bonus > 0 if self.allowed is None else self.allowed & (self.bonus > 0)


class Ranked(NamedTuple):
    """Rows of an index in the order of their scores, the best first."""

    rows: list[int]
    scores: list[float]


class Retrievers:
    """The retrievers of one question, embedded and tokenized once; each ranks up to `k` rows of a scope, best first."""

    def __init__(
        self,
        index: Index,
        question: str,
        *,
        embedder: Callable[[], Embedder],
        names: Mapping[str, float],
        settings: SearchSettings,
    ) -> None:
        """Rank nothing yet. names: what the question calls documents that are known, and how surely (0 to 1)."""
        self.index, self._embedder, self.settings = index, embedder, settings
        self.question = unicodedata.normalize("NFC", question)
        self._names = names
        self.embedder_name = index.manifest.embedder
        self.reads_question = reads_script(self.embedder_name, question)
        self._nearest: list[tuple[int, Scope, Ranked]] = []

    def similarity(self, k: int, scope: Scope) -> Ranked:
        """Rank chunks by the cosine of question and chunk. Raises WrongEmbedder."""
        for depth, searched, ranked in self._nearest:  # of one question, so a few
            if depth >= k and searched.allowed is scope.allowed and searched.bonus is scope.bonus:
                return Ranked(ranked.rows[:k], ranked.scores[:k])
        ranked = _search_with_bonus(partial(self.index.vectors.search, self._vector), k, scope)
        self._nearest.append((k, scope, ranked))
        return ranked

    def mmr(self, k: int, scope: Scope) -> Ranked:
        """Rank chunks by maximal marginal relevance, among the nearest `mmr_pool`. Raises WrongEmbedder."""
        pool = self.similarity(max(self.settings.mmr_pool, k), scope)
        vectors = self.index.vectors.reconstruct(np.array(pool.rows, np.int64))
        relevance = np.array(pool.scores, np.float32)
        selected = maximal_marginal_relevance(relevance, vectors, count=k, trade_off=self.settings.mmr_trade_off)
        return Ranked([pool.rows[position] for position in selected.rows], selected.scores)

    def bm25(self, k: int, scope: Scope) -> Ranked:
        """Rank chunks by BM25. Raises NoLexicalIndex, WrongTokenizer."""
        lexical, (words,) = self._lexical_words([self.question])
        return _search_with_bonus(partial(lexical.search, words), k, scope)

    def words(self, k: int, scope: Scope) -> Ranked:
        """Rank chunks by the words of chunk and document, with synonyms, similarity and titles of statements.

        Raises NoLexicalIndex, WrongTokenizer.
        """
        scores = self._word_scores
        closeness = self.reads_question * self.settings.closeness / self.settings.bm25_weight
        pool = max(self.settings.words_pool, k)
        parts = [scope.allowed] if scope.bonus is None else [scope.allowed, scope.inside]
        rows_of = [np.arange(len(scores)) if part is None else np.flatnonzero(part) for part in parts]
        rows = np.unique(np.concatenate([part[best_rows(scores[part], pool, above=0.0).rows] for part in rows_of]))
        if closeness:
            # paraphrases share no word
            rows = np.union1d(rows, self.similarity(self.settings.mmr_pool, scope).rows).astype(np.int64)
        if not len(rows):
            return Ranked([], [])
        best = max(float(scores[rows].max()), 1e-9)
        merit = scores[rows] / best  # so that bonuses are shares of the best score
        if closeness:
            if spans_languages(self.embedder_name):
                # the fewer words of the question even the best chunk holds, the more meaning decides: a paraphrase
                # shares some, a question in another language a year or a name
                closeness /= max(best / self._word_weight, LEAST_REACH) ** 2
            cosines = self.index.vectors.reconstruct(rows) @ self._vector
            # in standard deviations from the mean: embedders differ in the range that their cosines fill
            merit += closeness * ((cosines - cosines.mean()) / max(float(cosines.std()), 1e-6))
        if statements := self._expansion.statements:
            # a bonus for amounts under the title of a statement that is asked for
            for at, row in enumerate(rows.tolist()):
                chunk = json.loads(self.index.chunk(row))  # a fifth of the time that validation takes
                opening = "\n".join(chunk["text"].split("\n", TITLE_LINES)[:TITLE_LINES])[:TITLE_CHARS]
                title = "\n".join([*chunk["heading_path"][-1:], opening])
                if is_statement(title, statements) and len(_AMOUNT.findall(chunk["text"])) >= AMOUNTS:
                    merit[at] += self.settings.title_bonus
        if scope.bonus is not None:
            merit += scope.bonus[rows]
        order = np.lexsort((rows, -merit))[:k]
        return Ranked(rows[order].tolist(), merit[order].tolist())

    def _lexical_words(self, texts: Sequence[str]) -> tuple[Lexical, list[list[str]]]:
        """Return BM25 of the index, and each text's words as it splits them. Raises NoLexicalIndex, WrongTokenizer."""
        lexical, tokenizer = self.index.lexical, self.index.manifest.tokenizer
        if lexical is None or tokenizer is None:
            raise NoLexicalIndex
        return lexical, tokenize(texts, tokenizer=tokenizer)

    @cached_property
    def _expansion(self) -> Expansion:
        return expand(self.question)

    @cached_property
    def _word_scores(self) -> NDArray[np.float64]:
        lexical, question_words, added = self._weighed_words
        share = self.settings.document_share
        return word_scores(lexical, added | question_words, self.index.document_of_row, document_share=share)

    @property
    def _word_weight(self) -> float:
        """The weight of the question's words by rarity: about the score of a chunk that holds each of them once."""
        lexical, question_words, _ = self._weighed_words
        total = 1e-9
        for word, share in question_words.items():
            count = 0 if (posting := lexical.posting(word, K1, B)) is None else len(posting.rows)
            total += share * np.log1p((lexical.size - count + 0.5) / (count + 0.5))  # Okapi's idf, always above 0
        return total

    @cached_property
    def _weighed_words(self) -> tuple[Lexical, dict[str, float], dict[str, float]]:
        """BM25 of the index, the weights of the question's words, and those of the words that are added to it."""
        settings, expansion = self.settings, self._expansion
        texts = [expansion.question, *self._names, *expansion.added]
        lexical, words = self._lexical_words(texts)
        weighed: list[dict[str, float]] = []
        for text, text_words in zip(texts, words, strict=True):
            # pairs of syllables find what kiwi splits in two; compounds beside their parts would count these twice
            pairs = [] if self.index.manifest.tokenizer == BIGRAM else syllable_pairs(text)
            weights = {word: float(count) for word, count in Counter(drop_compounds(text_words)).items()}
            weighed.append(weights | {pair: settings.pair_share * count for pair, count in Counter(pairs).items()})
        question_words, *further = weighed
        name_words, phrases = further[: len(self._names)], further[len(self._names) :]
        certainty_by_word = {
            word: certainty
            for phrase, certainty in zip(name_words, self._names.values(), strict=True)
            for word in phrase
        }
        added = {word: settings.added_share * min(share, 1.0) for phrase in phrases for word, share in phrase.items()}
        for weights in (question_words, added):
            for word in certainty_by_word.keys() & weights.keys():
                weights[word] *= 1 - certainty_by_word[word]  # resolved to documents, a name tells nothing within them
        return lexical, question_words, added

    @cached_property
    def _vector(self) -> NDArray[np.float32]:
        embedder = self._embedder()
        self.index.require_embedder(family_of(embedder.id))
        return embed_questions(embedder, [self.question])[0]


def maximal_marginal_relevance(
    relevance: NDArray[np.float32], vectors: NDArray[np.float32], *, count: int, trade_off: float
) -> Ranked:
    """Return the positions of `count` candidates in the order in which each adds most to those before it.

    relevance: similarity of each candidate to the question, (candidates,). vectors: (candidates, dimension), unit.
    trade_off: 1 is relevance alone, 0 is difference alone. Ties: the earlier candidate first.
    Source: Carbonell and Goldstein 1998, "The use of MMR".
    """
    gain = trade_off * relevance.astype(np.float64)
    likeness = np.zeros(len(relevance))  # to the most alike of those chosen; none yet, so no penalty
    open_positions = np.ones(len(relevance), np.bool_)
    selected = Ranked([], [])
    for _ in range(min(count, len(relevance))):
        score = np.where(open_positions, gain - (1 - trade_off) * likeness, -np.inf)
        best = int(np.argmax(score))
        selected.rows.append(best)
        selected.scores.append(float(score[best]))
        open_positions[best] = False
        alike = (vectors @ vectors[best]).astype(np.float64)
        likeness = alike if len(selected.rows) == 1 else np.maximum(likeness, alike)  # the first may be below 0
    return selected


def _search_with_bonus(search: Callable[..., BestRows | Nearest], k: int, scope: Scope) -> Ranked:
    """Return the best `k` rows of the scope by score and bonus; a bonus is a share of the best score."""
    everywhere = search(k, allowed=scope.allowed)
    rows, scores = everywhere.rows.tolist(), everywhere.scores.tolist()
    if scope.bonus is None or not rows:
        return Ranked(rows, scores)
    inside = search(k, allowed=scope.inside)  # with the bonus a row may pass those that now stand before it
    pooled = dict(zip(inside.rows.tolist(), inside.scores.tolist(), strict=True)) | dict(zip(rows, scores, strict=True))
    top_score = abs(scores[0])
    scored = {row: score + top_score * float(scope.bonus[row]) for row, score in pooled.items()}
    ranked = sorted(scored, key=lambda row: (-scored[row], row))[:k]
    return Ranked(ranked, [scored[row] for row in ranked])


def word_scores(
    lexical: Lexical, words: Mapping[str, float], document_of_row: NDArray[np.int32], *, document_share: float
) -> NDArray[np.float64]:
    """Return the score of every row, (N,): its BM25 score and a share of what its document has of each word.

    words: word → weight. document_share: the part of a word's best score in a document that all its chunks get.
    """
    chunks, documents = np.zeros(len(document_of_row)), np.zeros(document_of_row.max(initial=-1) + 1)
    for word, share in words.items():
        posting = lexical.posting(word, K1, B)
        if posting is None or not share:
            continue
        # in small indexes a frequent word weighs nothing or less; it tells nothing apart
        weights = np.maximum(posting.weights, 0) * share
        np.add.at(chunks, posting.rows, weights)
        owners = document_of_row[posting.rows]
        firsts = np.flatnonzero(np.diff(owners, prepend=-1))  # the rows of a document stand together
        documents[owners[firsts]] += np.maximum.reduceat(weights, firsts)
    chunks += document_share * documents[document_of_row]
    return chunks


class SearchSettings(Record):
    """The numbers that a search is tuned by; docs/measurements.md tells on what questions they were measured."""

    rrf_k: int = Field(default=60, ge=1)
    """Rank constant of the fusion: how little the first ranks stand out."""
    mmr_trade_off: float = Field(default=0.7, ge=0, le=1)
    """1 is relevance alone, 0 is difference alone."""
    mmr_pool: int = Field(default=30, ge=1)
    """Nearest chunks that mmr chooses from, and that rrf takes from similarity."""
    bm25_top_k: int = Field(default=30, ge=1)
    """Chunks that rrf takes from BM25."""
    similarity_weight: float = Field(default=1.0, ge=0)
    mmr_weight: float = Field(default=1.0, ge=0)
    bm25_weight: float = Field(default=1.0, ge=0)
    """Weight of BM25 and of `words` in rrf beside meaning; it also divides `closeness`. 0 leaves words out."""
    words_weight: float = Field(default=200.0, ge=0)
    """Weight of the ranking `words` relative to BM25's; 0 is the seed's rrf. So high because ranks 1 and 2 differ by
    1/61 - 1/62: from 200 on nothing changes (docs/measurements.md)."""
    words_pool: int = Field(default=100, ge=1)
    """Chunks that are looked at closely for `words`."""
    document_share: float = Field(default=0.2, ge=0)
    """Part of a word's best score in a document that all chunks of the document get."""
    pair_share: float = Field(default=0.5, ge=0)
    """Weight of a pair of syllables relative to a whole word, in Korean."""
    added_share: float = Field(default=0.5, ge=0)
    title_bonus: float = Field(default=0.35, ge=0)
    """Bonus of tables of the statement that is asked for, as a share of the best score by words."""
    closeness: float = Field(default=0.07, ge=0)
    """Bonus per standard deviation of the cosines in the pool, as a share of the best score by words; it grows for
    embedders of many languages where words reach little."""
    preference: float = Field(default=0.25, ge=0)
    """Bonus of chunks of preferred documents, as a share of the best score."""
    favour: float = Field(default=0.1, ge=0)
    """Further bonus of preferred documents that fit best in year, form or amount (docs/measurements.md)."""
    multi_documents: int = Field(default=3, ge=1)
    """Least number of documents over which the hits of a question about several are spread."""
    rerank_pool: int = Field(default=30, ge=1)


DEFAULTS = SearchSettings()
