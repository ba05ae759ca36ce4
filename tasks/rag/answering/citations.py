"""Checks a model's answer against the blocks that it cites, and quotes the words that support it.

A sentence is unsupported if one of its numbers stands in none of the blocks that it cites, if it has no number and
hardly a word of theirs, or if it claims something and cites nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from tasks.documents.blocks import Place
from tasks.grading.cited_answers import is_borne_out, only_abstains, renumber_citations, split_sentences
from tasks.language.numbers import is_same_number, read_numbers
from tasks.language.sentences import sentences_of
from tasks.language.tokens import BIGRAM, tokenize
from tasks.rag.answers import Citation, Draft
from tasks.rag.retrieval.search import Hit

MOST_QUOTE_CHARS = 300
"""Most characters of a quote."""
MOST_SOURCE_CHARS = 20_000
"""Characters of a block, from its beginning, that claims are checked against."""


def cite(text: str, hits: Sequence[Hit], *, question: str = "") -> Draft:
    """Return a model's answer as a draft; it cites hits by marks from [1] on, and lists unsupported sentences.

    hits: mark [1] names the first. question: a sentence that only repeats it claims nothing.
    """
    answer, numbers = renumber_citations(text, blocks=len(hits))
    sentences = split_sentences(answer)
    used = [hits[number - 1] for number in numbers]
    # claims are checked against the name of a document, headings, text and rows
    sources = [
        "\n".join(
            (hit.document_name, *hit.chunk.heading_path, hit.chunk.text[:MOST_SOURCE_CHARS], *hit.chunk.sentences)
        )[: 2 * MOST_SOURCE_CHARS]
        for hit in used
    ]
    unsupported = [sentence.text for sentence in sentences if not is_borne_out(sentence, sources, question=question)]
    citations: list[Citation] = []
    for n, hit in enumerate(used, start=1):
        claims = [sentence.words for sentence in sentences if n in sentence.marks]
        citations.append(make_citation(n, hit, _quote(hit, claims)))
    return Draft(
        answer,
        tuple(citations),
        unsupported=tuple(dict.fromkeys(unsupported)),
        abstained=only_abstains(sentences, question=question),
        by_model=True,
    )


def is_supported(draft: Draft) -> bool:
    """Return whether a model's answer cites something that bears out at least one of its sentences."""
    return bool(draft.citations) and not set(draft.unsupported) >= {each.text for each in split_sentences(draft.text)}


def make_citation(n: int, hit: Hit, quote: str) -> Citation:
    """Return citation number `n`, of a hit, with its quote."""
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
    """Return the hits that an answer's own marks name, [1] first: a rewrite of the answer is checked against them."""
    by_chunk = {hit.chunk.id: hit for hit in hits}
    return tuple(by_chunk[citation.chunk_id] for citation in citations if citation.chunk_id in by_chunk)


def _quote(hit: Hit, claims: Sequence[str]) -> str:
    """Return the sentence or row of the block that supports the claims best, unchanged; of a long one a part.

    Of one longer than MOST_QUOTE_CHARS it is the part that begins at the first word of the claims.
    """
    text = hit.chunk.text[:MOST_SOURCE_CHARS]
    candidates = [*hit.chunk.sentences, *sentences_of(text)]
    claim = " ".join(claims)
    claim_words, *candidates_words = tokenize([claim, *candidates], tokenizer=BIGRAM)
    claim_set, candidate_sets = frozenset(claim_words), map(frozenset, candidates_words)
    numbers = read_numbers(claim)
    best, best_score = "", -1.0
    for candidate, candidate_words in zip(candidates, candidate_sets, strict=True):
        # of equal matches the shorter sentence wins
        score = len(claim_set & candidate_words) / (len(claim_set) + 0.1 * len(candidate_words) + 1)
        if numbers:  # a table's unit stands elsewhere, so bare digits are a match too
            candidate_numbers = read_numbers(candidate)
            matched = [
                number for number in numbers if any(is_same_number(number, match) for match in candidate_numbers)
            ]
            score += len(matched) / len(numbers)
        if score > best_score:
            best, best_score = candidate, score
    if len(best) <= MOST_QUOTE_CHARS:
        return best
    places = [best.lower().find(word) for word in claim_words if len(word) > 1]
    first = min((place for place in places if place >= 0), default=0)
    start = 0 if first < MOST_QUOTE_CHARS // 2 else best.rfind(" ", 0, first) + 1  # at the beginning of a word
    return best[start : start + MOST_QUOTE_CHARS].strip()
