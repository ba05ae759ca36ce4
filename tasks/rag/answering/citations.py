"""Checks a model's answer against the blocks that it cites, and quotes the words that support it.

A sentence is unsupported if one of its numbers stands in none of the blocks that it cites, if it has no number and
hardly a word of theirs, or if it claims something and cites nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from tasks.documents.blocks import Place
from tasks.grading.cited_answers import is_borne_out, only_abstains, renumber_citations, split_sentences
from tasks.language.numbers import read_numbers, same_number
from tasks.language.sentences import sentences_of
from tasks.language.tokens import BIGRAM, tokenize
from tasks.rag.answers import Citation, Draft
from tasks.rag.retrieval.search import Hit

MOST_QUOTE_CHARS = 300
MOST_SOURCE_CHARS = 20_000
"""Characters of a block, from its beginning, that claims are checked against."""


def cite(text: str, hits: Sequence[Hit], *, question: str = "") -> Draft:
    """A model's answer with citations of the hits that its marks name ([1] is the first), and new marks from [1] on.

    question: a sentence that only repeats it claims nothing.
    """
    told, numbers = renumber_citations(text, blocks=len(hits))
    sentences = split_sentences(told)
    used = [hits[number - 1] for number in numbers]
    # claims are checked against the name of a document, headings, text and rows
    sources = [
        "\n".join(
            (hit.document_name, *hit.chunk.heading_path, hit.chunk.text[:MOST_SOURCE_CHARS], *hit.chunk.sentences)
        )[: 2 * MOST_SOURCE_CHARS]
        for hit in used
    ]
    unsupported = [one.text for one in sentences if not is_borne_out(one, sources, question=question)]
    quotes = [_quote(hit, [one.words for one in sentences if n in one.marks]) for n, hit in enumerate(used, start=1)]
    citations = [citation(n, hit, quote) for n, (hit, quote) in enumerate(zip(used, quotes, strict=True), start=1)]
    return Draft(
        told,
        tuple(citations),
        unsupported=tuple(dict.fromkeys(unsupported)),
        abstained=only_abstains(sentences, question=question),
        by_model=True,
    )


def citation(n: int, hit: Hit, quote: str) -> Citation:
    """Citation number `n` of a hit."""
    chunk = hit.chunk
    return Citation(
        n=n,
        document=hit.document_name,
        digest=chunk.document,
        page=chunk.page,
        page_source=hit.page_source,
        bbox=chunk.bbox,
        quote=quote,
        chunk_id=chunk.id,
        place=Place(section=chunk.section, block=chunk.block, heading_path=chunk.heading_path, cells=chunk.cells),
    )


def cited_hits(citations: Sequence[Citation], hits: Sequence[Hit]) -> tuple[Hit, ...]:
    """The hits that an answer's own marks name, [1] first: what a rewrite of the answer is checked against."""
    by_chunk = {hit.chunk.id: hit for hit in hits}
    return tuple(by_chunk[one.chunk_id] for one in citations if one.chunk_id in by_chunk)


def _quote(hit: Hit, claims: Sequence[str]) -> str:
    """The sentence or row of the block that bears the claims out best, as it stands there; of a long one the part
    around what they say."""
    text = hit.chunk.text[:MOST_SOURCE_CHARS]
    candidates = [*hit.chunk.sentences, *sentences_of(text)]
    claim = " ".join(claims)
    said, *split = tokenize([claim, *candidates], tokenizer=BIGRAM)
    wanted, words = frozenset(said), map(frozenset, split)
    numbers = read_numbers(claim)
    best, best_score = "", -1.0
    for candidate, held in zip(candidates, words, strict=True):
        score = len(wanted & held) / (len(wanted) + 0.1 * len(held) + 1)
        if numbers:  # a table's unit stands elsewhere, so bare digits are a match too
            theirs = read_numbers(candidate)
            score += sum(any(same_number(number, other) for other in theirs) for number in numbers) / len(numbers)
        if score > best_score:
            best, best_score = candidate, score
    if len(best) <= MOST_QUOTE_CHARS:
        return best
    places = [best.lower().find(word) for word in said if len(word) > 1]
    first = min((place for place in places if place >= 0), default=0)
    start = 0 if first < MOST_QUOTE_CHARS // 2 else best.rfind(" ", 0, first) + 1
    return best[start : start + MOST_QUOTE_CHARS].strip()
