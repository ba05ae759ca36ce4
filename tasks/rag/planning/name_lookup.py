"""Finds the names of a catalogue in a question: exact in any spacing, by their first words, initials or with a typo.

A name that most documents bear counts as none, and a word counts by how few names hold it.
"""

from __future__ import annotations

import math
import re
import unicodedata
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from typing import Literal, NamedTuple

from tasks.language.tokens import FUNCTION_WORDS
from tasks.rag.planning.names import CONNECTIVES, DocumentNames, Word, compact, core_words, name_words
from tasks.rag.planning.near_names import NearNames
from tasks.rag.planning.transliteration import bones, sound, sounds_alike
from tasks.rag.planning.type_words import without_particles

Kind = Literal["entity", "title", "id"]
How = Literal["full", "lead", "initials", "sound", "guess"]
"""How a spelling matches a name: whole, by its first words, by its initials, in Korean letters, or approximately."""

SURE = 0.85
"""Confidence from which a name alone rules other documents out."""
SOUNDED = 0.9
"""Confidence of a name that is written by its sound."""
COMMON_SHARE = 0.6
"""A name that more of the documents bear does not tell them apart."""
MOST_RUN = 8
MOST_FUZZY = 12
MOST_SOUNDED = 4
"""Words of a Latin name that is written in Korean letters."""
SHORTEST_FUZZY = {"latin": 5, "hangul": 4}

_PLACE = re.compile(r"[가-힣]{1,6}(?:특별시|광역시|특별자치시|특별자치도|도|시|군|구|읍|면|동|리)")
# two letters and a sign, which are initials of nothing but these
_ABBREVIATIONS = frozenset(["r&d", "p&l", "m&a", "s&p", "q&a", "d&a", "g&a", "t&d", "e&p", "o&m", "a&p", "s&a"])


class Mention(NamedTuple):
    """A name that the question holds."""

    kind: Kind
    field: str
    value: str
    said: str
    confidence: float
    documents: frozenset[int]
    words: frozenset[str]
    how: How


class _Name:
    """A name and the documents that bear it."""

    __slots__ = ("documents", "field", "kind", "place", "value", "whole", "words")

    def __init__(self, kind: Kind, field: str, value: str, words: Sequence[str]) -> None:
        self.kind: Kind = kind
        self.field, self.value, self.words = field, value, tuple(words)
        self.documents: set[int] = set()
        self.whole = compact(name_words(value))
        """The compact spelling with numbers."""
        self.place = kind == "entity" and _PLACE.fullmatch("".join(words)) is not None


_Way = tuple[_Name, How]
"""A name, and how a spelling matches it."""


class NameLookup:
    """An index of document names; documents are identified by their position."""

    def __init__(self, documents: Sequence[DocumentNames], ids: Sequence[str]) -> None:
        from rapidfuzz import fuzz, process  # 36 ms, which the first question would wait for

        self._ratio, self._extract = fuzz.ratio, process.extractOne
        self._count = len(documents)
        self._names: dict[tuple[Kind, str], _Name] = {}
        self._holders: dict[str, dict[int, float]] = defaultdict(dict)
        for at, names in enumerate(documents):
            self._learn(at, names, ids[at])
        for name in self._names.values():
            # documents whose own names hold all of an entity's words: a correction that the table does not list
            if name.kind == "entity" and name.words:
                held = [{at for at, weight in self.holders(word).items() if weight == 1} for word in name.words]
                name.documents |= set.intersection(*held)
        self._dated = {at for at, names in enumerate(documents) if names.said.periods}
        self._names = {key: name for key, name in self._names.items() if self._tells_apart(name)}
        self._ways: dict[str, list[_Way]] = defaultdict(list)
        for (_, key), name in self._names.items():
            for spelling, how in _spellings(key, name):
                self._ways[spelling].append((name, how))
        self._entities = sorted(key for kind, key in self._names if kind == "entity")
        self._letters = {unicodedata.normalize("NFD", key): key for key in self._entities if len(key) >= 4}
        self._near = NearNames(list(self._letters))
        self._sounds: dict[str, list[_Name]] = defaultdict(list)
        for (kind, key), name in self._names.items():
            if kind == "entity" and key.isascii() and (told := bones(sound(" ".join(name.words)))):
                self._sounds[told].append(name)
        self._affixes = _affixes(self._holders)
        self._known = _known(self._holders)

    def _tells_apart(self, name: _Name) -> bool:
        share = len(name.documents) / self._count
        if self._count < 4 or share <= COMMON_SHARE:
            return True
        # most of an index may be of one company, whose years then tell its documents apart
        return name.kind == "entity" and (name.documents <= self._dated or (name.field == "issuer" and share < 1))

    def _learn(self, at: int, names: DocumentNames, notice: str) -> None:
        keys = [key for field, value in names.entities if (key := self._add(at, "entity", field, value))]
        for one in keys:
            for other in keys:
                # the issuer of the table and the company of the file's name are one: their documents are shared
                if one != other and other.startswith(one):
                    first, second = self._names["entity", one], self._names["entity", other]
                    first.documents |= second.documents
                    second.documents = first.documents
        for field, value in names.titles:
            self._add(at, "title", field, value)
        if len(notice) >= 5 and re.search(r"\d", notice):
            self._add(at, "id", "notice_id", notice)
        for _, value in (*names.entities, *names.titles):
            for word in core_words(value):
                if len(word) > 1 or word.isascii():
                    self._holders[word][at] = 1.0
        for folder in names.folders:
            for word in core_words(folder):
                self._holders[word].setdefault(at, 0.5)

    def _add(self, at: int, kind: Kind, field: str, value: str) -> str | None:
        words = core_words(value) if kind == "title" else name_words(value)
        key = compact(words)
        if len(key) < 2 or (key.isdigit() and kind != "id"):
            return None
        name = self._names.get((kind, key))
        if name is None:
            name = self._names[kind, key] = _Name(kind, field, value, words)
        name.documents.add(at)
        return key

    def holders(self, word: str) -> dict[int, float]:
        """Documents whose names hold the word."""
        return self._holders.get(word, {})

    def rarity(self, word: str) -> float:
        """1 for a word that one document's names hold, 0 for a word of all."""
        held = len(self._known.get(word, ()))
        if not held or self._count == 1:
            return float(held > 0)
        return math.log(self._count / held) / math.log(self._count)

    def mentions(self, words: Sequence[Word]) -> list[Mention]:
        """The names in the question, longest first where they overlap; typos only where nothing else is found."""
        found: list[Mention] = []
        at = 0
        lower = not any(word.said[:1].isupper() for word in words)
        shouted = sum(word.said.isupper() for word in words) * 2 > len(words)
        while at < len(words):
            size, here = self._longest(words, at, lower=lower, shouted=shouted)
            found += here
            at += size
        if not any(mention.confidence >= SURE for mention in found):
            found += self._sounded(words)
        if not any(mention.confidence >= 0.6 for mention in found):
            found += self._misspelt(words)
        return found

    def _longest(self, words: Sequence[Word], at: int, *, lower: bool, shouted: bool) -> tuple[int, list[Mention]]:
        if words[at].form in CONNECTIVES:
            return 1, []
        for size in range(min(MOST_RUN, len(words) - at), 0, -1):
            run = words[at : at + size]
            for key in _keys(run):
                ways = self._ways.get(key, ())
                # whole names where there are any: 가람시 itself rather than 가람시 시설공단
                ways = [way for way in ways if way[1] == "full"] or ways
                said = " ".join(word.said for word in run)
                if mentions := [
                    _mention(name, said, confidence, how)
                    for name, how in ways
                    if (confidence := self._confidence(name, how, run, lower))
                ]:
                    return size, mentions
        return 1, [] if shouted else self._begun(words[at], first=at == 0)

    def _confidence(self, name: _Name, how: How, run: Sequence[Word], lower: bool) -> float:
        """How surely the run means the name; 0 for not at all."""
        written = [word.said for word in run if word.form not in CONNECTIVES]
        small = any(said[0].islower() for said in written if said[0].isascii())
        if name.kind == "id":
            return 1.0
        if name.kind == "title":
            if len(name.words) == 1:
                return 0.0 if small and not lower else 0.6
            rare = sum(self.rarity(word) for word in set(name.words))
            return 0.95 if len(compact(name.words)) >= 6 and rare >= 1 else 0.6
        if how == "initials":
            return 0.0 if small else 0.8
        if how == "lead":
            return 0.0 if small and not lower else 0.65 if len(run) > 1 else 0.5
        if small and not lower:
            return 0.6 if len(run) > 1 else 0.0  # `block` is a word, `best buy` hardly
        if small:
            return 0.9 if len(compact(name.words)) >= 6 else 0.6
        return 0.6 if name.place else 1.0

    def _begun(self, word: Word, *, first: bool) -> list[Mention]:
        """Entities of one spelling that begin with a word in capitals: CVS of CVSHEALTH, Pepsi of PEPSICO."""
        said = re.sub(r"['’]s$", "", word.said)
        capitals = len(said) >= 3 and said.isalpha() and said.isupper()
        capital = len(said) >= 4 and said[0].isupper() and not first
        if not said.isascii() or not (capitals or capital) or word.form in FUNCTION_WORDS:
            return _joined_initials(self._ways, word)
        key = said.lower()
        start = bisect_left(self._entities, key)
        near = takewhile(lambda entity: entity.startswith(key), self._entities[start : start + 8])
        begun = [self._names["entity", entity] for entity in near]
        owned = [name.documents <= begun[-1].documents or begun[-1].documents <= name.documents for name in begun]
        confidence = 0.5 if not all(owned) else 0.75 if capitals else 0.6
        return [_mention(name, word.said, confidence, "lead") for name in begun] or _joined_initials(self._ways, word)

    def _sounded(self, words: Sequence[Word]) -> list[Mention]:
        """Latin names that the question writes in Korean letters, the longest at each place: 아메리칸 워터 웍스."""
        if not self._sounds:
            return []
        found: list[Mention] = []
        at = 0
        while at < len(words):
            size, here = 1, list[Mention]()
            for size in range(min(MOST_SOUNDED, len(words) - at), 0, -1):
                run = words[at : at + size]
                if not any(_is_hangul(word.form) for word in run):
                    continue
                said = " ".join(word.said for word in run)
                head = " ".join(word.form for word in run[:-1])
                spellings = [f"{head} {last}" for last in _forms(run[-1].form)]
                alike = [
                    name
                    for one in spellings
                    for name in self._sounds.get(bones(sound(one)), ())
                    if sounds_alike(one, " ".join(name.words))
                ]
                here = [_mention(name, said, SOUNDED, "sound") for name in dict.fromkeys(alike)]
                if here:
                    break
            found += here
            at += size
        return found

    def _misspelt(self, words: Sequence[Word]) -> list[Mention]:
        found: list[Mention] = []
        for run in list(_worth_a_guess(words))[:MOST_FUZZY]:
            last = run[-1].form
            last = without_particles(last)[-1] if _is_hangul(last) else last.removesuffix("'s")
            key = compact([*(word.form for word in run[:-1]), last])
            letters = unicodedata.normalize("NFD", key)
            least = 80 if len(letters) < 7 else 85
            near = self._near.alike(letters, percent=least)
            best = self._extract(letters, near, scorer=self._ratio, score_cutoff=least)
            if best:
                name = self._names["entity", self._letters[best[0]]]
                found.append(_mention(name, " ".join(word.said for word in run), 0.65, "guess"))
        return found

    def matched_words(self, word: Word) -> dict[str, float]:
        """Words of names that a word of the question is or holds → how much of them, 0 to 1."""
        if word.form in FUNCTION_WORDS or word.form.isdigit():
            return {}
        forms = _forms(word.form)
        if whole := next((one for one in forms if one in self._holders), None):
            return {whole: 1.0}
        if not _is_hangul(word.form):
            return {}
        part = [(held, len(one) / len(held)) for one in forms for held in self._affixes.get(one, ())]
        pieces = [(piece, len(piece) / len(one)) for one in forms for piece in _pieces(one) if piece in self._holders]
        matched: dict[str, float] = {}
        for held, share in [*(pair for pair in part if pair[1] >= 0.4), *(pair for pair in pieces if pair[1] >= 0.5)]:
            matched[held] = max(share, matched.get(held, 0.0))
        return matched

    def evidence(self, matched: dict[str, float], *, without: frozenset[str] = frozenset()) -> dict[int, float]:
        """Documents whose names hold the words → sum of rarity."""
        scores: dict[int, float] = defaultdict(float)
        for word, share in matched.items():
            rarity = self.rarity(word)
            if word in without or not rarity:
                continue
            for document, weight in self._holders[word].items():
                scores[document] += rarity * share * weight
        return scores


def _mention(name: _Name, said: str, confidence: float, how: How) -> Mention:
    words = frozenset(name.words)
    return Mention(name.kind, name.field, name.value, said, confidence, frozenset(name.documents), words, how)


def _spellings(key: str, name: _Name) -> Iterator[tuple[str, How]]:
    yield key, "full"
    if name.whole != key:
        yield name.whole, "full"
    words = [word for word in name.words if word not in CONNECTIVES]
    if name.kind == "id":
        digits = re.sub(r"\D", "", key)
        if len(digits) >= 5 and digits != key:
            yield digits, "full"
    if name.kind != "entity" or len(words) < 2:
        return
    for size in range(1, len(words)):
        lead = "".join(words[:size])
        if len(lead) > 2 or _is_hangul(lead):
            yield lead, "lead"
    initials = "".join(word[0] for word in words)
    if initials.isascii():
        yield (initials if len(initials) > 2 else "&".join(initials)), "initials"


_JOINED = re.compile(r"([A-Z])n([A-Z])")


def _joined_initials(ways: dict[str, list[_Way]], word: Word) -> list[Mention]:
    """Names whose two initials are joined by an n: JnJ for Johnson & Johnson."""
    match = _JOINED.fullmatch(re.sub(r"['’]s$", "", word.said))
    key = f"{match[1]}&{match[2]}".lower() if match else ""
    return [_mention(name, word.said, 0.9, how) for name, how in ways.get(key, ()) if how == "initials"]


def _keys(run: Sequence[Word]) -> list[str]:
    """Lookup keys of a run of words: joined, the last word also without particles or 's."""
    head = "".join(form.removesuffix("'s") for word in run[:-1] if (form := word.form) not in CONNECTIVES)
    keys = [head + last for last in _forms(run[-1].form)]
    if len(run) == 2 and all(len(word.form.removesuffix("'s")) == 1 for word in run):
        sign = f"{run[0].form}&{run[1].form[0]}"
        keys += [sign] if run[1].start == run[0].end + 1 and sign not in _ABBREVIATIONS else []
    return keys


def _forms(form: str) -> tuple[str, ...]:
    if _is_hangul(form):
        return without_particles(form)
    if form.endswith("'s"):
        return (form.replace("'", ""), form[:-2])
    return (form, form[:-1]) if form.endswith("s") and len(form) > 4 else (form, f"{form}s")


def _is_hangul(text: str) -> bool:
    return "가" <= text[:1] <= "힣"


def _pieces(word: str) -> Iterator[str]:
    for size in range(len(word) - 1, 1, -1):
        yield word[:size]
        yield word[-size:]


def _affixes(words: Iterable[str]) -> dict[str, list[str]]:
    """Beginnings and ends of Korean compounds → the compounds: 관제 → 통합관제."""
    found: dict[str, list[str]] = defaultdict(list)
    for word in words:
        if _is_hangul(word):
            for piece in set(_pieces(word)):
                found[piece].append(word)
    return found


def _known(holders: dict[str, dict[int, float]]) -> dict[str, set[int]]:
    """Word → documents that hold it, alone or in a compound: 시스템 is as common as all that ends in it."""
    known = {word: set(documents) for word, documents in holders.items()}
    for word, documents in holders.items():
        if _is_hangul(word):
            for piece in _pieces(word):
                if piece in known:
                    known[piece].update(documents)
    return known


def _worth_a_guess(words: Sequence[Word]) -> Iterator[Sequence[Word]]:
    """Runs that look like a name: capital letters, or four syllables and more."""
    for size in (2, 1, 3):
        for at in range(len(words) - size + 1):
            run = words[at : at + size]
            length = sum(len(word.form) for word in run)
            if _is_hangul(run[0].form):
                if length >= SHORTEST_FUZZY["hangul"] and all(_is_hangul(word.form) for word in run):
                    yield run
            elif length >= SHORTEST_FUZZY["latin"] and all(word.said[0].isupper() for word in run):
                yield run
