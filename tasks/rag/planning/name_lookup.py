"""Finds the names of a catalogue in a question: exact in any spacing, by their first words, or by their sound.

A name that most documents bear tells nothing and is ignored; a word counts more, the fewer names hold it.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import pairwise, takewhile
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from storage.lexical import hash_of
from tasks.language.tokens import FUNCTION_WORDS
from tasks.rag.planning.learned_names import (
    KINDS,
    MATCH_KINDS,
    WHOLE,
    HashTable,
    Kind,
    Learned,
    MatchKind,
    consonants_of,
    is_hangul,
    slice_texts,
    sounds_alike,
    spell_sound,
)
from tasks.rag.planning.names import CONNECTIVES, FIELDS, Word, compact, core_words, name_words
from tasks.rag.planning.type_words import without_particles

CERTAIN = 0.85
"""Confidence from which a name alone rules all other documents out."""
SOUNDED = 0.9
"""Confidence of a name that the question writes by its sound."""
COMMON_SHARE = 0.6
"""Share of the documents above which a name that they bear does not tell them apart."""
MOST_KNOWN = 10_000
"""Names, and rarities of words, that are remembered once they are read."""
MOST_COMPOUNDS = 100_000
"""Most compounds that are looked at on either side of a word."""
MOST_RUN = 8
"""Most words of a question that are tried as one name."""
MOST_SOUNDED = 4
"""Most words of a Latin name that is written in Korean letters."""

_PLACE = re.compile(r"[가-힣]{1,6}(?:특별시|광역시|특별자치시|특별자치도|도|시|군|구|읍|면|동|리)")


class Mention(NamedTuple):
    """A name of the catalogue that the question holds."""

    kind: Kind
    field: str
    value: str
    spelling: str
    """The name as the question writes it."""
    confidence: float
    documents: frozenset[int]
    """Positions of the documents that bear the name."""
    words: frozenset[str]
    """The words of the name as the catalogue writes it."""
    match_kind: MatchKind


class _Name:
    """A name with the documents that bear it."""

    __slots__ = ("documents", "field", "kind", "place", "value", "words")

    def __init__(self, kind: Kind, field: str, value: str, documents: frozenset[int]) -> None:
        self.kind: Kind = kind
        self.field, self.value, self.documents = field, value, documents
        self.words = core_words(value) if kind == "title" else name_words(value)
        self.place = kind == "entity" and _PLACE.fullmatch("".join(self.words)) is not None


class NameLookup:
    """An index of the names of documents; documents are identified by their position in the catalogue."""

    def __init__(self, names: Learned, dated: NDArray[np.bool_]) -> None:
        """Build the index; dated: for each document, whether its names give a period."""
        self._count, self._learned = len(names.said_of), names
        hashes = names.word_hashes
        self._holders = HashTable.of(hashes[names.held], names.holders, names.weights)
        different = np.flatnonzero(first_equal(hashes) == np.arange(len(hashes))).tolist()
        texts = slice_texts(names.words, names.word_ends, different)
        self._longest = max(map(len, texts), default=0)
        self._hangul = sorted((text, at) for text, at in zip(texts, different, strict=True) if is_hangul(text))
        self._backwards = sorted((word[::-1], at) for word, at in self._hangul)
        first = first_equal(names.keys)
        self._documents = find_bearers(names, first, self._holders)
        self._tell = first == np.arange(len(first))
        """Per name, whether it tells documents apart."""
        often = self._tell & (self._documents.counts > COMMON_SHARE * self._count)
        for at in np.flatnonzero(often).tolist() if self._count > 3 else ():
            # most of an index may be of one company, whose years then tell its documents apart
            bearers = self._documents.of(at)
            issuer = FIELDS[names.fields[at]] == "issuer" and len(bearers) < self._count
            entity = names.kinds[at] == KINDS.index("entity")
            self._tell[at] = entity and (bool(dated[bearers].all()) or issuer)
        spelt = self._tell[names.spelt]
        self._ways = HashTable.of(names.spellings[spelt], names.spelt[spelt], names.hows[spelt])
        entities = np.flatnonzero(self._tell & (names.kinds == KINDS.index("entity")))
        heard = entities[names.sounds[entities] > 0]
        self._sounds = HashTable.of(names.sounds[heard], heard)
        self._known: dict[int, _Name] = {}
        self._rarities: dict[str, float] = {}

    def _load_name(self, at: int) -> _Name:
        """Return the name at a position of the catalogue with its documents; the last ones are kept in memory."""
        if at not in self._known:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()  # those that are still asked for are soon read again
            kind, field = KINDS[self._learned.kinds[at]], FIELDS[self._learned.fields[at]]
            (value,) = slice_texts(self._learned.texts, self._learned.text_ends, [at])
            self._known[at] = _Name(kind, field, value, frozenset(self._documents.of(at).tolist()))
        return self._known[at]

    def documents_holding(self, word: str) -> NDArray[np.uint32]:
        """Return the positions of the documents whose names hold the word, rising."""
        return self._holders.get(hash_of(word))[0]

    def holds(self, document: int, word: str) -> bool:
        """Return whether the names of a document hold the word."""
        documents = self.documents_holding(word)
        at = int(documents.searchsorted(np.uint32(document)))
        return at < len(documents) and int(documents[at]) == document

    def rarity(self, word: str) -> float:
        """Return how rare a word is in documents' names: 1 in one document's, by log down to 0 in all or in none."""
        if word not in self._rarities:
            if len(self._rarities) >= MOST_KNOWN:
                self._rarities.clear()
            documents = self.documents_holding(word)
            holder_count = len(documents)
            compounds = self._compounds(word) if holder_count and is_hangul(word) else []
            if compounds:
                # alone or in a compound: 시스템 is as common as all that ends in it
                holder_count = len(np.unique(np.concatenate([documents, *map(self.documents_holding, compounds)])))
            alone = not holder_count or self._count == 1  # log(1) is 0
            rarity = float(holder_count > 0) if alone else math.log(self._count / holder_count) / math.log(self._count)
            self._rarities[word] = rarity
        return self._rarities[word]

    def _compounds(self, piece: str) -> list[str]:
        """Return the Korean words of names that begin or end with a piece: 통합관제 for 관제; none for one syllable."""
        if len(piece) < 2:
            return []
        start = bisect_left(self._hangul, (piece, 0))
        begun = takewhile(lambda word: word[0].startswith(piece), self._hangul[start : start + MOST_COMPOUNDS])
        reverse = piece[::-1]
        start = bisect_left(self._backwards, (reverse, 0))
        ended = takewhile(lambda word: word[0].startswith(reverse), self._backwards[start : start + MOST_COMPOUNDS])
        compounds = {at: word for word, at in begun} | {at: word[::-1] for word, at in ended}
        return [compounds[at] for at in sorted(compounds) if compounds[at] != piece]

    def mentions(self, words: Sequence[Word]) -> list[Mention]:
        """Return the names that the question holds, the longest of overlapping; if none is certain, also by sound."""
        mentions: list[Mention] = []
        at = 0
        lower = not any(word.spelling[:1].isupper() for word in words)
        while at < len(words):
            size, longest = self._find_longest(words, at, lower=lower)
            mentions += longest
            at += size
        if not any(mention.confidence >= CERTAIN for mention in mentions):
            mentions += self._find_by_sound(words)
        return mentions

    def _find_longest(self, words: Sequence[Word], at: int, *, lower: bool) -> tuple[int, list[Mention]]:
        """Return how many words the longest name from word `at` on has, and what it may mean; 1 and none without."""
        if words[at].form in CONNECTIVES:
            return 1, []
        for size in range(min(MOST_RUN, len(words) - at), 0, -1):
            run = words[at : at + size]
            # the words joined, the last also without particles or 's
            head = "".join(form.removesuffix("'s") for word in run[:-1] if (form := word.form) not in CONNECTIVES)
            for last in _forms(run[-1].form):
                names, hows = self._ways.get(hash_of(head + last))
                whole = hows == MATCH_KINDS.index("full")
                if whole.any():  # 가람시 itself rather than 가람시 시설공단
                    names, hows = names[whole], hows[whole]
                wording = " ".join(word.spelling for word in run)
                mentions: list[Mention] = []
                for number, how in zip(names.tolist(), hows.tolist(), strict=True):
                    name, match_kind = self._load_name(number), MATCH_KINDS[how]
                    if confidence := self._confidence(name, match_kind, run, lower):
                        mentions.append(_make_mention(name, wording, confidence, match_kind))
                if mentions:
                    return size, mentions
        return 1, []

    def _confidence(self, name: _Name, match_kind: MatchKind, run: Sequence[Word], lower: bool) -> float:
        """Return how surely a run of words means a name, 0 … 1; 0 where it does not."""
        written = [word.spelling for word in run if word.form not in CONNECTIVES]
        small = any(spelling[0].islower() for spelling in written if spelling[0].isascii())
        if name.kind == "id":
            return 1.0
        if name.kind == "title":
            if len(name.words) == 1:
                return 0.0 if small and not lower else 0.6
            rare = sum(self.rarity(word) for word in set(name.words))
            return 0.95 if len(compact(name.words)) >= 6 and rare >= 1 else 0.6
        if match_kind == "lead":
            return 0.0 if small and not lower else 0.65 if len(run) > 1 else 0.5
        if small and not lower:
            return 0.6 if len(run) > 1 else 0.0  # `block` is a word, `best buy` hardly
        if small:
            return 0.9 if len(compact(name.words)) >= 6 else 0.6
        return 0.6 if name.place else 1.0

    def _find_by_sound(self, words: Sequence[Word]) -> list[Mention]:
        """Return the Latin names that the question writes in Korean letters, the longest at each place.

        아메리칸 워터 웍스 is found as American Water Works.
        """
        if not len(self._sounds.keys):
            return []
        mentions: list[Mention] = []
        at = 0
        while at < len(words):
            size, longest = 1, list[Mention]()
            for size in range(min(MOST_SOUNDED, len(words) - at), 0, -1):
                run = words[at : at + size]
                if not any(is_hangul(word.form) for word in run):
                    continue
                wording = " ".join(word.spelling for word in run)
                head = " ".join(word.form for word in run[:-1])
                spellings = [f"{head} {last}" for last in _forms(run[-1].form)]
                alike: list[_Name] = []
                for spelling in spellings:
                    heard = consonants_of(spell_sound(spelling))
                    names = map(self._load_name, self._sounds.get(hash_of(heard))[0].tolist() if heard else ())
                    alike += [name for name in names if sounds_alike(spelling, " ".join(name.words))]
                longest = [_make_mention(name, wording, SOUNDED, "sound") for name in dict.fromkeys(alike)]
                if longest:
                    break
            mentions += longest
            at += size
        return mentions

    def matched_words(self, word: Word) -> dict[str, float]:
        """Return the words of names that a word is, or in Korean shares a piece with, and the share, 0 … 1; or {}."""
        if word.form in FUNCTION_WORDS or word.form.isdigit():
            return {}
        forms = _forms(word.form)
        if whole := next((form for form in forms if self._is_held(form)), None):
            return {whole: 1.0}
        if not is_hangul(word.form):
            return {}
        part = [(name_word, len(form) / len(name_word)) for form in forms for name_word in self._compounds(form)]
        pieces = [
            (piece, size / len(form))
            for form in forms
            # half of it and more, and no longer than any word: a form of 가나가나… has too many pieces
            for size in range(min(len(form) - 1, self._longest), max((len(form) - 1) // 2, 1), -1)
            for piece in (form[:size], form[-size:])
            if self._is_held(piece)
        ]
        matched: dict[str, float] = {}
        for name_word, share in [*(pair for pair in part if pair[1] >= 0.4), *pieces]:
            matched[name_word] = max(share, matched.get(name_word, 0.0))
        return matched

    def evidence(self, matched: dict[str, float], *, without: frozenset[str] = frozenset()) -> dict[int, float]:
        """Return the documents whose names hold the words, each with the sum of the words' rarity, share and weight.

        without: words that do not count.
        """
        documents, shares = [np.empty(0, np.uint32)], [np.empty(0)]
        for word, share in matched.items():
            rarity = self.rarity(word)
            if word in without or not rarity:
                continue
            holding, weights = self._holders.get(hash_of(word))
            documents.append(holding)
            shares.append(rarity * share * (weights / WHOLE))
        unique_documents, at = np.unique(np.concatenate(documents), return_inverse=True)
        scores = np.bincount(at, weights=np.concatenate(shares), minlength=len(unique_documents))
        return dict(zip(unique_documents.tolist(), scores.tolist(), strict=True))

    def _is_held(self, word: str) -> bool:
        """Return whether the names of any document hold the word."""
        return len(self.documents_holding(word)) > 0


def _make_mention(name: _Name, wording: str, confidence: float, match_kind: MatchKind) -> Mention:
    words = frozenset(name.words)
    return Mention(name.kind, name.field, name.value, wording, confidence, name.documents, words, match_kind)


def _forms(form: str) -> tuple[str, ...]:
    """Return the forms of a word that names may have: without particles or 's, with or without a plural s."""
    if is_hangul(form):
        return without_particles(form)
    if form.endswith("'s"):
        return (form.replace("'", ""), form[:-2])
    return (form, form[:-1]) if form.endswith("s") and len(form) > 4 else (form, f"{form}s")


class Documents(NamedTuple):
    """The documents of each name, rising."""

    starts: NDArray[np.int64]
    """For each name, the position in `documents` where its documents start."""
    documents: NDArray[np.uint32]
    more: Mapping[int, NDArray[np.uint32]]
    """All documents of the names to which documents were added."""
    counts: NDArray[np.int64]
    """For each name, the number of its documents."""

    def of(self, name: int) -> NDArray[np.uint32]:
        """Return the documents of one name."""
        if name in self.more:
            return self.more[name]
        return self.documents[self.starts[name] : self.starts[name + 1]]


def first_equal(keys: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return, for each key, the position of the first one that equals it."""
    _, firsts, at = np.unique(keys, return_index=True, return_inverse=True)
    return firsts[at]


def find_bearers(names: Learned, first: NDArray[np.int64], holders: HashTable) -> Documents:
    """Return the documents that bear each name, with those that its words lead to.

    first: for each name, the first one that equals it, which alone gets documents.
    """
    count = max(len(names.said_of), 1)
    pairs = np.unique(first[names.borne] * count + names.bearers)
    bearing, documents = np.divmod(pairs, count)
    begun = bearing.searchsorted(np.arange(len(first) + 1))
    bearers = Documents(begun, documents.astype(np.uint32), {}, np.diff(begun))
    more: dict[int, NDArray[np.uint32]] = {}
    # entities lead to documents whose own names hold all of their words: a correction that no table lists
    own = HashTable(holders.keys[whole := holders.columns[1] == WHOLE], (holders.columns[0][whole],))
    entities = first[names.entity_of_word] == names.entity_of_word
    words, owners = names.entity_words[entities], names.entity_of_word[entities]
    begins, ends = own.keys.searchsorted(words, "left"), own.keys.searchsorted(words, "right")
    starts = np.flatnonzero(np.diff(owners, prepend=np.uint32(2**32 - 1)))
    least = np.minimum.reduceat(ends - begins, starts) if len(starts) else starts
    bounds = [*starts.tolist(), len(owners)]
    for (start, stop), fewest in zip(pairwise(bounds), least.tolist(), strict=True):
        if not fewest:
            continue
        spans = zip(begins[start:stop].tolist(), ends[start:stop].tolist(), strict=True)
        spans = sorted(spans, key=lambda span: span[1] - span[0])
        common = own.columns[0][slice(*spans[0])]
        for begin, last in spans[1:]:
            holding = own.columns[0][begin:last]
            places = np.minimum(holding.searchsorted(common), len(holding) - 1)
            common = common[holding[places] == common]
        name = int(owners[start])
        every = np.union1d(bearers.of(name), common)
        if len(every) > bearers.counts[name]:
            more[name], bearers.counts[name] = every, len(every)
    return bearers._replace(more=more)
