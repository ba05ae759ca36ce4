"""Finds the documents that a question means, by the names of the catalogue, without a model.

Names (`name_lookup`) choose the documents; year and round (`qualifiers`) choose among them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from storage.index import Index
from storage.segments import Catalogue, CatalogueEntry
from tasks import resources
from tasks.rag.answers import Filters, NameMatch, QueryType, RouteMode, Turn
from tasks.rag.planning.learned_names import learned, qualifiers_in
from tasks.rag.planning.name_lookup import SURE, Mention, NameLookup
from tasks.rag.planning.names import Qualifiers, fit_of, is_of_a_round, qualifiers, stem_of, words_of

MOST_CHARS = 2_000
"""A longer question is routed by its beginning."""
MOST_SIDES = 6
MOST_NAMED = 8
"""Maximum number of documents named when a question is ambiguous."""
VAGUE = 0.6
"""Confidence of a name that may mean something else, such as a place."""
FEW_WORDS = 0.9
"""Rarity, summed, from which two words of a name speak for a document."""
WITH_PLACE = 0.4
"""Rarity from which a word of a project beside a place makes the place sure: places stand in others' documents too."""
NEAR_BEST = 0.6
"""Share of the best score that a document needs to be among those that vague names mean."""
CAN_HOLD = 0.3
"""Fit from which a document of another year or round may hold the answer."""


def learn_names(index: Index) -> None:
    """Keep what the names of an index teach, so that the first question need not wait for it."""
    learned(index.catalogue, kept_at=_kept_names())


def _kept_names() -> Path:
    return resources.resources().home / "cache" / "names"


_routers: WeakKeyDictionary[Index, Router] = WeakKeyDictionary()
_learning = Lock()


def open_router(index: Index) -> Router:
    """The router of an index, one for all who ask; what the parts of its catalogue teach is kept in the home."""
    with _learning:
        if index not in _routers:
            _routers[index] = Router(index.catalogue, kept_at=_kept_names())
        return _routers[index]


class Router:
    """Routes questions to the documents of a catalogue."""

    def __init__(self, catalogue: Sequence[CatalogueEntry], *, kept_at: Path | None = None) -> None:
        """kept_at: the folder of what the parts of catalogues teach."""
        names = learned(catalogue, kept_at=kept_at)
        if isinstance(catalogue, Catalogue):
            self.digests, self.files = catalogue.documents, catalogue.names
        else:
            self.digests, self.files = [entry.document for entry in catalogue], [entry.name for entry in catalogue]
        said = qualifiers_in(names.said)
        self.said = [said[at] for at in names.said_of.tolist()]
        self.lookup = NameLookup(names, np.array([bool(one.periods) for one in said], np.bool_)[names.said_of])
        self.sames, self.dated = names.sames, names.dated
        self._owners, self._owned = names.owners, names.owned

    def route(self, question: str, *, query_type: QueryType = "single", history: Sequence[Turn] = ()) -> Filters:
        """The documents that `question` and, for a follow-up, `history` mean; mode `all` if they name none."""
        return _Routing(self, question[:MOST_CHARS], query_type, history).filters()

    def lacks_round(self, question: str, filters: Filters) -> bool:
        """Whether the question names a notice (최초 공고, re-notice), and all found for it are later or earlier ones.

        A document that tells of no round may be any.
        """
        asked = set(qualifiers(question[:MOST_CHARS]).rounds)
        found = [self.said[self.places[digest]].rounds for digest in filters.documents if digest in self.places]
        return bool(asked and found) and all(rounds > (0,) and asked.isdisjoint(rounds) for rounds in found)

    @cached_property
    def places(self) -> Mapping[str, int]:
        """The position of each digest."""
        return {digest: at for at, digest in enumerate(self.digests)}

    def stem(self, at: int) -> str:
        """What people call the document."""
        return stem_of(self.files[at])

    def kin(self, documents: Iterable[int]) -> list[int]:
        """The documents that share an issuer or a project with one of these, rising."""
        owners = self._owners[np.isin(self._owned, list(documents))]
        return np.unique(self._owned[np.isin(self._owners, owners)]).tolist()


class _Route(NamedTuple):
    """Documents chosen by the names in the question."""

    documents: list[int]
    scores: dict[int, float]
    sure: bool
    mentions: list[Mention]


class _Fitting(NamedTuple):
    """Chosen documents, by their fit in year and round."""

    documents: list[int]
    """The best first; the best alone if the question singles them out."""
    best: list[int]


class _Routing:
    """The routing of one question."""

    def __init__(self, router: Router, question: str, query_type: QueryType, history: Sequence[Turn]) -> None:
        self.router, self.lookup, self.query_type = router, router.lookup, query_type
        self.said = qualifiers(question)
        words = (word for word in words_of(question) if word.form)
        # 공고 of a question for the first one would mean the documents that are called a notice, such as the second
        self.words = [word for word in words if not (self.said.rounds and is_of_a_round(word.form))]
        self.by_word = [(word, self.lookup.matched_words(word)) for word in self.words]
        self.matched: dict[str, float] = {}
        """Words of names → how much of them the question holds."""
        for _, held in self.by_word:
            self.matched |= {name: max(share, self.matched.get(name, 0.0)) for name, share in held.items()}
        last = next((turn.documents for turn in reversed(history) if turn.documents), ())
        self.last = [router.places[digest] for digest in last if digest in router.places]

    def filters(self) -> Filters:
        chosen = self._choose_documents()
        if not chosen.documents:
            return Filters()
        mode: RouteMode = "only" if chosen.sure else "prefer"
        if self.query_type == "compare" and len(sides := self._sides(chosen)) > 1:
            groups = tuple(self._digests(side) for side in sides)
            documents = tuple(dict.fromkeys(digest for group in groups for digest in group))
            matches = tuple(_match(mention) for mention in chosen.mentions)
            return Filters(mode=mode, documents=documents, matches=matches, groups=groups)
        fitting = self._fitting(chosen.documents, chosen.scores)
        favoured = fitting.best if len(fitting.best) < len(fitting.documents) else []
        digests = self._digests(fitting.documents)
        # matched names, then the years and rounds on which question and document agree
        names = list(dict.fromkeys(map(_match, chosen.mentions)))[:MOST_NAMED]
        document = self.router.said[fitting.best[0]]
        agreed = [
            ("year", f"제{one.number}기" if one.kind == "term" else str(one.number))
            for one in self.said.periods
            if one in document.periods
        ]
        agreed += [("round", str(number)) for number in self.said.rounds if number in document.rounds]
        beside = (NameMatch(field=field, value=value, said=value, confidence=0.6) for field, value in agreed)
        return Filters(
            mode=mode,
            documents=digests,
            favoured=self._digests(favoured),
            matches=(*names, *beside),
            groups=(digests,),
            ambiguous=self._ambiguous(fitting, chosen),
        )

    def _choose_documents(self) -> _Route:
        mentions = self.lookup.mentions(self.words)
        ids = [mention for mention in mentions if mention.kind == "id"]
        if ids:
            return _Route(_all(ids), {}, sure=True, mentions=ids)
        sure = [mention for mention in mentions if mention.confidence >= SURE]
        placed = self._sure_by_project(mentions)
        if self.query_type == "compare" and len({m.documents for m in mentions if m.kind == "entity"}) > 1:
            # the documents of every issuer named; sure if every match is
            better = {mention.value: mention for mention in sure + placed}
            entities = [better.get(m.value, m) for m in mentions if m.kind == "entity"]
            scores = self.lookup.evidence(self.matched, without=_words(entities))
            all_sure = all(mention.confidence >= SURE for mention in entities)
            return _Route(_all(entities), scores, sure=all_sure, mentions=entities)
        if not (sure or placed):
            return self._chosen_vaguely(mentions)
        # issuers that are named in full beside the sure ones, and have documents of their own
        told = {mention.said for mention in sure + placed}
        full = [mention for mention in mentions if mention.kind == "entity" and mention.how == "full"]
        beside = [mention for mention in full if mention.said not in told and mention.confidence >= VAGUE]
        return self._chosen_surely(sure + placed, beside=beside)

    def _chosen_surely(self, mentions: list[Mention], *, beside: list[Mention]) -> _Route:
        """By entity and title together where both are named, else by what is named; a vaguer name beside it counts."""
        entities = [mention for mention in mentions if mention.kind == "entity"]
        titles = [mention for mention in mentions if mention.kind == "title"]
        documents, agree = _all(entities or titles), True
        if entities and titles:
            both = set(_all(entities)) & set(_all(titles))
            documents, agree = (sorted(both), True) if both else (_all(mentions), False)
        scores = self.lookup.evidence(self.matched, without=_words(entities))
        documents = sorted({*documents, *_all(beside)})
        return _Route(documents, scores, sure=agree and not beside, mentions=[*mentions, *beside])

    def _sure_by_project(self, mentions: Sequence[Mention]) -> list[Mention]:
        """Names that are too vague alone, with those of their documents whose project the question names too."""
        found: list[Mention] = []
        for mention in mentions:
            if mention.kind != "entity" or mention.how != "full" or not VAGUE <= mention.confidence < SURE:
                continue
            scores = self.lookup.evidence(self.matched, without=mention.words)
            best = max((scores.get(at, 0.0) for at in mention.documents), default=0.0)
            if best >= WITH_PLACE:
                kept = frozenset(at for at in mention.documents if scores.get(at, 0.0) >= NEAR_BEST * best)
                found.append(mention._replace(documents=kept, confidence=0.9))
        return found

    def _chosen_vaguely(self, mentions: list[Mention]) -> _Route:
        scores = self.lookup.evidence(self.matched)
        named: dict[int, float] = {}
        for mention in mentions:
            for at in mention.documents:
                named[at] = named.get(at, 0.0) + mention.confidence
        held = Counter(at for word in self.matched for at in self.lookup.documents_holding(word).tolist())
        distinctive = {at for word in self._distinctive() for at in self.lookup.documents_holding(word).tolist()}
        accepted = {
            at: scores.get(at, 0.0) + named.get(at, 0.0)
            for at in {*scores, *named}
            if at in named or (held[at] > 1 and scores[at] >= FEW_WORDS) or at in distinctive
        }
        if not accepted:
            # siblings of the last documents, where the question only adds a year or a round
            follows = self.query_type in {"followup", "compare"}
            if not self.last or not (self.said.periods or self.said.rounds):
                return _Route([], {}, sure=False, mentions=[])
            return _Route(sorted({*self.router.kin(self.last), *self.last}), {}, sure=follows, mentions=[])
        best = max(accepted.values())
        documents = [at for at, score in accepted.items() if score >= NEAR_BEST * best]
        if len(documents) > max(4, len(self.router.files) // 2):
            return _Route([], {}, sure=False, mentions=[])
        if mentions:
            return _Route(documents, accepted, sure=False, mentions=mentions)
        by_words: list[Mention] = []
        for document in documents:
            words = frozenset(word for word in self.matched if self.lookup.holds(document, word))
            said = " ".join(word.said for word, held in self.by_word if words & held.keys())
            own = frozenset([document])
            by_words.append(Mention("title", "name", self.router.stem(document), said, 0.5, own, words, "lead"))
        return _Route(documents, accepted, sure=False, mentions=by_words)

    def _distinctive(self) -> set[str]:
        """Words that few names hold and that are long or written as a name; one of them is enough."""
        capital = {
            form for word in self.words if word.said[0].isupper() for form in (word.form, word.form.removesuffix("'s"))
        }
        found: set[str] = set()
        for word, share in self.matched.items():
            rarity = self.lookup.rarity(word) if share == 1 else 0.0
            long = len(word) >= (8 if word.isascii() else 4)
            named = word in capital if word.isascii() else len(word) >= 3
            if (rarity >= 0.9 and named) or (rarity >= 0.55 and long):
                found.add(word)
        return found

    def _fitting(
        self, documents: Collection[int], scores: dict[int, float], said: Qualifiers | None = None
    ) -> _Fitting:
        said = said or self.said
        rounds = any(self.router.said[at].rounds > (0,) for at in documents)
        fits = {at: fit_of(said, self.router.said[at], rounds=rounds) for at in documents}
        can = [at for at in documents if fits[at] >= CAN_HOLD] or list(documents)
        order = sorted(can, key=lambda at: (-fits[at], -scores.get(at, 0.0), self.router.files[at]))
        best = [at for at in order if fits[at] == fits[order[0]]]
        exact = fits[order[0]] == 1.0 and rounds and said.rounds  # a year alone does not single a document out
        return _Fitting(best if exact else order, best)

    def _sides(self, chosen: _Route) -> list[list[int]]:
        """What is compared: issuers, else rounds or years of one, else the documents themselves."""
        entities = [mention for mention in chosen.mentions if mention.kind == "entity"]
        sides = _distinct([self._fitting(sorted(m.documents), chosen.scores).documents for m in entities])
        if len(sides) > 1:
            return sides
        documents = chosen.documents
        for parts in (
            [Qualifiers(rounds=(one,)) for one in self.said.rounds],
            [Qualifiers(periods=(one,)) for one in self.said.periods],
        ):
            if len(parts) > 1:
                sides = _distinct([self._fitting(documents, chosen.scores, part).best for part in parts])
                if len(sides) > 1:
                    return sides
        if self.last and not set(self.last) & set(documents):
            return [self.last, self._fitting(documents, chosen.scores).documents]
        families = self._families(self._fitting(documents, chosen.scores).documents)
        return families if len(families) <= MOST_SIDES else []

    def _families(self, documents: Iterable[int]) -> list[list[int]]:
        """Documents grouped by file stem: one document in several formats."""
        families: dict[str, list[int]] = {}
        for at in documents:
            families.setdefault(self.router.stem(at), []).append(at)
        return list(families.values())

    def _ambiguous(self, fitting: _Fitting, chosen: _Route) -> tuple[str, ...]:
        """Names of documents of one kind that fit equally well, where the question means one."""
        if self.query_type not in {"single", "followup"}:
            return ()
        top = fitting.best[0]
        kind, score = self.router.sames[top], chosen.scores.get(top, 0.0)
        if chosen.sure and score < WITH_PLACE and not self.router.dated[top]:
            # an issuer alone: unless all of its documents are of one kind, the content tells which is meant
            kind = kind if (self.router.sames[fitting.documents] == kind).all() else 0
        alike = [
            at
            for at in fitting.best
            if kind and self.router.sames[at] == kind and (chosen.sure or chosen.scores.get(at, 0.0) >= score * 0.95)
        ]
        families = self._families(alike)
        return tuple(self.router.files[family[0]] for family in families[:MOST_NAMED]) if len(families) > 1 else ()

    def _digests(self, documents: Iterable[int]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.router.digests[at] for at in documents))


def _match(mention: Mention) -> NameMatch:
    return NameMatch(field=mention.field, value=mention.value, said=mention.said, confidence=mention.confidence)


def _all(mentions: Iterable[Mention]) -> list[int]:
    return sorted({at for mention in mentions for at in mention.documents})


def _words(mentions: Iterable[Mention]) -> frozenset[str]:
    return frozenset(word for mention in mentions for word in mention.words)


def _distinct(sides: Iterable[Sequence[int]]) -> list[list[int]]:
    """Sides that share no document; of two that do the first stays."""
    found: list[list[int]] = []
    for side in sides:
        if side and not any(set(side) & set(other) for other in found):
            found.append(list(side))
    return found
