"""What an answer cites, and whether it holds: marks point to blocks that there are, with the words that bear them out.

A model writes [2] for the second block that it was shown. Marks are numbered anew in the order of their first use; a
mark that names no block is taken away. A sentence is unverified if one of its numbers stands in none of the blocks
that it cites, if it has no number and hardly a word of theirs, or if it claims something and cites nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tasks.rag.answers import Citation
from tasks.rag.documents.blocks import Place
from tasks.rag.language.numbers import Number, missing_numbers, read_numbers, same_number
from tasks.rag.language.sentences import CITATION_MARK, language_of, sentences_of
from tasks.rag.language.tokens import BIGRAM, tokenize
from tasks.rag.retrieval.search import Hit

MOST_QUOTE_CHARS = 300
MOST_RANGE = 20
"""Blocks that one mark may name as a range: [1-3]."""
FEWEST_SHARED = 0.15
"""Share of the words of a sentence without numbers that a cited block of the same language must hold."""
FEWEST_WORDS = 5
"""A sentence with fewer is too short for shares."""
MOST_SOURCE_CHARS = 20_000
"""Of a block, from its beginning, that can bear out a claim."""
_NOT_THERE = re.compile(
    r"찾지 못|찾을 수 없|알 수 없|확인할 수 없|확인되지 않|(?:나와|나타나|적혀|들어) ?있지는? ?않|"
    r"(?:명시|언급|제시|기재|포함)(?:되어|돼) ?있지는? ?않|(?:나오|밝히|명시하|언급하|다루)지는? ?않|"
    r"(?:정보|언급|내용|기재|명시|기록)[이가은는도]? ?없|"
    r"\b(?:do|does|did|is|are|was|were|can|could|has|have)(?: not|n[’']t|not) (?:\w+ ){0,2}?(?:"
    r"say|state|tell|told|mention|specif|contain|provide|give|include|name|report|disclos|indicat|found|find|answer|"
    r"determin|cover|hold|list|known|available)|"
    r"\bno (?:information|mention|figures?|data|details?|statement)\b|"
    r"\b(?:unknown|unclear|not (?:stated|told|mentioned|given|specified|disclosed|provided|available|found|known))\b",
    re.IGNORECASE,
)
_OF_DOCUMENTS = re.compile(
    r"문서|자료|구절|지문|본문|발췌|제공된|정보|documents?|passages?|contexts?|texts?|information|sources?|excerpts?",
    re.IGNORECASE,
)
_GREETS = re.compile(
    r"(?:안녕|감사|도움이 되|네[,.!]|다음과 같|아래와 같|답변|hello|hi\b|thank|sure|certainly|of course|"
    r"here (?:is|are)|i hope|let me know|in summary|the following|as follows|yes[.!]?$|no[.!]?$)",
    re.IGNORECASE,
)
_TABLE_RULE = re.compile(r"[\s|:+-]+")


class Cited(NamedTuple):
    """A model's answer, checked."""

    text: str
    """With its marks numbered anew."""
    citations: tuple[Citation, ...]
    """Number n is at n - 1: one for each block that is cited."""
    unverified: tuple[str, ...]
    """Sentences of `text` that nothing bears out."""
    abstained: bool
    """Whether all that the answer says is that the documents do not tell."""


def cite(text: str, hits: Sequence[Hit], *, question: str = "") -> Cited:
    """The answer with citations of the hits whose numbers it names: [1] is the first.

    question: a sentence that only says it again claims nothing.
    """
    marked = _Marked(len(hits))
    told = _tidy(CITATION_MARK.sub(marked.replace, text.strip()))
    sentences = [_read(sentence) for sentence in sentences_of(told)]
    used = [hits[old - 1] for old in marked.numbers]
    unverified = [one.text for one in sentences if not _holds(one, used, question)]
    quotes = [_quote(hit, [one.words for one in sentences if n in one.marks]) for n, hit in enumerate(used, start=1)]
    citations = [citation(n, hit, quote) for n, (hit, quote) in enumerate(zip(used, quotes, strict=True), start=1)]
    claims = [one for one in sentences if _claims(one, question)]
    abstained = not claims and any(_says_unknown(one) for one in sentences)
    return Cited(told, tuple(citations), tuple(dict.fromkeys(unverified)), abstained)


def citation(n: int, hit: Hit, quote: str) -> Citation:
    """Citation number `n` of a hit."""
    chunk = hit.chunk
    return Citation(
        n=n,
        document=hit.document_name,
        digest=chunk.document,
        page=chunk.page,
        bbox=chunk.bbox,
        quote=quote,
        chunk_id=chunk.id,
        place=Place(section=chunk.section, block=chunk.block, heading_path=chunk.heading_path),
    )


def cited_hits(citations: Sequence[Citation], hits: Sequence[Hit]) -> tuple[Hit, ...]:
    """The hits that an answer's own marks name, [1] first: what a rewrite of the answer is checked against."""
    by_chunk = {hit.chunk.id: hit for hit in hits}
    return tuple(by_chunk[one.chunk_id] for one in citations if one.chunk_id in by_chunk)


def same_evidence(draft: str, rewritten: str) -> bool:
    """Whether a rewrite keeps every number and every mark, each number with the marks behind it."""
    one, other = _evidence(draft), _evidence(rewritten)
    return one.keys() == other.keys() and all(_same_numbers(one[marks], other[marks]) for marks in one)


class _Marked:
    """Numbers marks anew, in the order of their first use."""

    def __init__(self, blocks: int) -> None:
        self._blocks = blocks
        self.numbers: list[int] = []
        """The old numbers, in the order of the new ones."""

    def replace(self, mark: re.Match[str]) -> str:
        known = [number for number in _numbers_of(mark.group()) if 1 <= number <= self._blocks]
        self.numbers += [number for number in dict.fromkeys(known) if number not in self.numbers]
        return "".join(f"[{self.numbers.index(number) + 1}]" for number in dict.fromkeys(known))


def _numbers_of(mark: str) -> Iterator[int]:
    """The numbers that a mark names: 1, 3, 4, 5 of [1, 3-5]."""
    for part in re.findall(r"\d+(?:\s*[–-]\s*\d+)?", mark):
        first, *last = (int(number) for number in re.findall(r"\d+", part))
        yield from range(first, min(last[0], first + MOST_RANGE) + 1) if last else (first,)


def _tidy(text: str) -> str:
    """Without the spaces that a mark leaves behind when it goes."""
    return "\n".join(re.sub(r"[ \t]+(?=[.,;:!?](?:\s|$))", "", line).rstrip() for line in text.splitlines()).strip()


class _Sentence(NamedTuple):
    text: str
    words: str
    """Without its marks."""
    marks: frozenset[int]


def _read(sentence: str) -> _Sentence:
    marks = frozenset(number for mark in CITATION_MARK.finditer(sentence) for number in _numbers_of(mark.group()))
    return _Sentence(sentence, CITATION_MARK.sub("", sentence).strip(), marks)


def _claims(sentence: _Sentence, question: str) -> bool:
    """Whether it says something that must be borne out: no greeting, no lead, no head of a table, no `not stated`."""
    words = sentence.words
    if not any(sign.isalnum() for sign in words) or _TABLE_RULE.fullmatch(words):
        return False
    if _says_unknown(sentence) or words.rstrip("*_ ").endswith("?"):
        return False
    has_number = bool(read_numbers(words))
    if not has_number and (_GREETS.match(words) or words.rstrip("*_ ").endswith((":", "："))):
        return False
    if not has_number and (words.startswith(("|", "#")) or (words.startswith("**") and words.endswith("**"))):
        return False
    return words.strip(" .") != question.strip(" .?")


def _says_unknown(sentence: _Sentence) -> bool:
    """Whether it says that documents do not tell; with a mark it may be a fact: `Not available on Sundays [1]`."""
    unknown = _NOT_THERE.search(sentence.words) is not None
    return unknown and (not sentence.marks or _OF_DOCUMENTS.search(sentence.words) is not None)


def _holds(sentence: _Sentence, used: Sequence[Hit], question: str) -> bool:
    if not _claims(sentence, question) and not (sentence.marks and read_numbers(sentence.words)):
        return True
    cited = [used[n - 1] for n in sorted(sentence.marks)]
    if not cited:
        return False
    sources = [_source(hit) for hit in cited]
    claim = _without_label(sentence.words)
    return not missing_numbers(claim, sources) if read_numbers(claim) else _shares_words(claim, sources)


def _without_label(words: str) -> str:
    """Without the number of a list item."""
    return re.sub(r"^\s*\(?\d{1,2}[.)]\s+", "", words)


def _source(hit: Hit) -> str:
    """All that a block says: its name, its headings, its text, its rows."""
    chunk = hit.chunk
    parts = (hit.document_name, *chunk.heading_path, chunk.text[:MOST_SOURCE_CHARS], *chunk.sentences)
    return "\n".join(parts)[: 2 * MOST_SOURCE_CHARS]


def _shares_words(sentence: str, sources: Sequence[str]) -> bool:
    told = "\n".join(sources)
    if language_of(sentence) != language_of(told):
        return True  # an answer in Korean from an English document
    own, theirs = (set(words) for words in tokenize([sentence, told], tokenizer=BIGRAM))
    return len(own) < FEWEST_WORDS or len(own & theirs) >= FEWEST_SHARED * len(own)


def _quote(hit: Hit, claims: Sequence[str]) -> str:
    """The sentence or row of the block that bears the claims out best, as it stands there."""
    text = hit.chunk.text[:MOST_SOURCE_CHARS]
    candidates = [*hit.chunk.sentences, *sentences_of(text)]
    claim = " ".join(claims)
    wanted, *words = (frozenset(words) for words in tokenize([claim, *candidates], tokenizer=BIGRAM))
    numbers = read_numbers(claim)
    best, best_score = "", -1.0
    for candidate, held in zip(candidates, words, strict=True):
        score = len(wanted & held) / (len(wanted) + 0.1 * len(held) + 1) + _numbers_held(numbers, candidate)
        if score > best_score:
            best, best_score = candidate, score
    return _shortened(best, claim)


def _numbers_held(numbers: Sequence[Number], candidate: str) -> float:
    """Share of the numbers that a text holds; a table's unit stands elsewhere, so bare digits count half."""
    if not numbers:
        return 0.0
    theirs = read_numbers(candidate)
    held = sum(any(same_number(number, other) for other in theirs) for number in numbers)
    return held / len(numbers)


def _shortened(quote: str, claim: str) -> str:
    """At most MOST_QUOTE_CHARS of a sentence, around what the claim says."""
    if len(quote) <= MOST_QUOTE_CHARS:
        return quote
    (wanted,) = tokenize([claim], tokenizer=BIGRAM)
    places = [quote.lower().find(word) for word in wanted if len(word) > 1]
    first = min((place for place in places if place >= 0), default=0)
    start = 0 if first < MOST_QUOTE_CHARS // 2 else quote.rfind(" ", 0, first) + 1
    return quote[start : start + MOST_QUOTE_CHARS].strip()


def _evidence(text: str) -> dict[frozenset[int], list[Number]]:
    """Marks → the numbers that stand before them, back to the marks or the end of the sentence before."""
    found: dict[frozenset[int], list[Number]] = {}
    for sentence in sentences_of(text):
        told, marks = "", frozenset[int]()
        for piece in re.split(f"({CITATION_MARK.pattern})", sentence, flags=re.IGNORECASE):
            if CITATION_MARK.fullmatch(piece):
                marks |= frozenset(_numbers_of(piece))
            elif piece.strip(" .,;"):
                _keep(found, marks, told)
                told, marks = piece, frozenset()
        _keep(found, marks, told)
    return found


def _keep(found: dict[frozenset[int], list[Number]], marks: frozenset[int], told: str) -> None:
    numbers = read_numbers(_without_label(told))
    if marks or numbers:
        found.setdefault(marks, []).extend(numbers)


def _same_numbers(one: Sequence[Number], other: Sequence[Number]) -> bool:
    return all(any(same_number(a, b) for b in other) for a in one) and all(
        any(same_number(a, b) for b in one) for a in other
    )
