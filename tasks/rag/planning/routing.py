"""Finds the documents that a question means, by the names of the catalogue, without a model.

Names (`name_lookup`) choose the documents; years and rounds (`read_qualifiers`) choose among them.
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
from tasks.rag.planning.learned_names import load_names, qualifiers_in
from tasks.rag.planning.name_lookup import CERTAIN, Mention, NameLookup
from tasks.rag.planning.names import Qualifiers, fit_of, is_of_a_round, read_qualifiers, stem_of, words_of

MOST_CHARS = 2_000
"""Characters of a question, from its beginning, by which it is routed."""
MOST_SIDES = 6
"""Most sides of a comparison."""
MOST_NAMED = 8
"""Most documents that are named where a question is ambiguous."""
VAGUE = 0.6
"""Confidence of a name that may mean something else, such as a place."""
FEW_WORDS = 0.9
"""Sum of rarities from which two words of a name choose a document."""
WITH_PLACE = 0.4
"""Rarity from which a word of a project makes a place beside it certain: places stand in others' documents too."""
NEAR_BEST = 0.6
"""Share of the best score that a document needs to be among those that vague names mean."""
CAN_HOLD = 0.3
"""Fit from which a document of another year or round may hold the answer."""


def store_learned_names(index: Index) -> None:
    """Learn the names of an index and store them, so that the first question does not wait for it."""
    load_names(index.catalogue, kept_at=_names_folder())


def _names_folder() -> Path:
    """Return the folder that learned names are stored in."""
    return resources.resources().home / "cache" / "names"


_routers: WeakKeyDictionary[Index, Router] = WeakKeyDictionary()  # a router goes with its index
_learning = Lock()


def open_router(index: Index) -> Router:
    """Return the router of an index, one for all callers in this process; learned names are stored in the home."""
    with _learning:
        if index not in _routers:
            _routers[index] = Router(index.catalogue, kept_at=_names_folder())
        return _routers[index]


class Router:
    """Routes questions to the documents of a catalogue."""

    def __init__(self, catalogue: Sequence[CatalogueEntry], *, kept_at: Path | None = None) -> None:
        """Make a router; kept_at: the folder where the learned names of parts of catalogues are stored."""
        names = load_names(catalogue, kept_at=kept_at)
        if isinstance(catalogue, Catalogue):
            self.digests, self.files = catalogue.documents, catalogue.names
        else:
            self.digests, self.files = [entry.document for entry in catalogue], [entry.name for entry in catalogue]
        distinct = qualifiers_in(names.said)
        self.qualifiers = [distinct[at] for at in names.said_of.tolist()]
        have_period = np.array([bool(qualifiers.periods) for qualifiers in distinct], np.bool_)
        self.lookup = NameLookup(names, have_period[names.said_of])
        self.sames, self.dated = names.sames, names.dated
        self._owners, self._owned = names.owners, names.owned

    def route(self, question: str, *, query_type: QueryType = "single", history: Sequence[Turn] = ()) -> Filters:
        """Return the documents that a question and, for a follow-up, the history mean; mode `all` if they name none."""
        return _Routing(self, question[:MOST_CHARS], query_type, history).filters()

    def lacks_round(self, question: str, filters: Filters) -> bool:
        """Return whether the question names a notice of a round, and all documents found for it are of others.

        최초 공고 and re-notice name one. A document without a round may be of any.
        """
        question_rounds = set(read_qualifiers(question[:MOST_CHARS]).rounds)
        positions = [self.places[digest] for digest in filters.documents if digest in self.places]
        if not (question_rounds and positions):
            return False
        document_rounds = [self.qualifiers[position].rounds for position in positions]
        return all(rounds > (0,) and question_rounds.isdisjoint(rounds) for rounds in document_rounds)

    @cached_property
    def places(self) -> Mapping[str, int]:
        """The position of each document in the catalogue, by digest."""
        return {digest: at for at, digest in enumerate(self.digests)}

    def stem(self, at: int) -> str:
        """Return the name of the file at this position without folders and ending."""
        return stem_of(self.files[at])

    def kin(self, documents: Iterable[int]) -> list[int]:
        """Return the documents that share an issuer or a project with one of these, rising."""
        owners = self._owners[np.isin(self._owned, list(documents))]
        return np.unique(self._owned[np.isin(self._owners, owners)]).tolist()


class _Route(NamedTuple):
    """The documents that the names in the question choose."""

    documents: list[int]
    scores: dict[int, float]
    """Evidence for each document, by its position."""
    is_certain: bool
    """Whether all other documents are ruled out."""
    mentions: list[Mention]


class _Fitting(NamedTuple):
    """Chosen documents in the order of their fit in year and round."""

    documents: list[int]
    """The documents, the best first; the best alone if the question singles them out."""
    best_fitting: list[int]
    """The documents whose fit equals that of the first."""


class _Routing:
    """The routing of one question, step by step."""

    def __init__(self, router: Router, question: str, query_type: QueryType, history: Sequence[Turn]) -> None:
        self.router, self.lookup, self.query_type = router, router.lookup, query_type
        self.qualifiers = read_qualifiers(question)
        words = (word for word in words_of(question) if word.form)
        # 공고 of a question for the first one would mean the documents that are called a notice, such as the second
        self.words = [word for word in words if not (self.qualifiers.rounds and is_of_a_round(word.form))]
        self.by_word = [(word, self.lookup.matched_words(word)) for word in self.words]
        self.matched: dict[str, float] = {}
        """Words of names → how much of them the question holds."""
        for _, shares in self.by_word:
            self.matched |= {name: max(share, self.matched.get(name, 0.0)) for name, share in shares.items()}
        last = next((turn.documents for turn in reversed(history) if turn.documents), ())
        self.last = [router.places[digest] for digest in last if digest in router.places]

    def filters(self) -> Filters:
        """Return the documents that the question names, with the names and sides of a comparison; empty for none."""
        route = self._choose_documents()
        if not route.documents:
            return Filters()
        mode: RouteMode = "only" if route.is_certain else "prefer"
        sides = self._find_sides(route) if self.query_type == "compare" else []
        if len(sides) > 1:
            groups = tuple(self._digests(side) for side in sides)
            documents = tuple(dict.fromkeys(digest for group in groups for digest in group))
            matches = tuple(_make_match(mention) for mention in route.mentions)
            return Filters(mode=mode, documents=documents, matches=matches, groups=groups)
        fitting = self._rank_by_qualifiers(route.documents, route.scores)
        favoured = fitting.best_fitting if len(fitting.best_fitting) < len(fitting.documents) else []
        digests = self._digests(fitting.documents)
        # matched names, then the years and rounds on which question and document agree
        names = list(dict.fromkeys(map(_make_match, route.mentions)))[:MOST_NAMED]
        document = self.router.qualifiers[fitting.best_fitting[0]]
        agreed = [
            ("year", f"제{period.number}기" if period.kind == "term" else str(period.number))
            for period in self.qualifiers.periods
            if period in document.periods
        ]
        agreed += [("round", str(number)) for number in self.qualifiers.rounds if number in document.rounds]
        qualifier_matches = (NameMatch(field=field, value=value, said=value, confidence=0.6) for field, value in agreed)
        return Filters(
            mode=mode,
            documents=digests,
            favoured=self._digests(favoured),
            matches=(*names, *qualifier_matches),
            groups=(digests,),
            ambiguous=self._find_ambiguous(fitting, route),
        )

    def _choose_documents(self) -> _Route:
        """Choose by ids, else by certain names, else by vague ones."""
        mentions = self.lookup.mentions(self.words)
        ids = [mention for mention in mentions if mention.kind == "id"]
        if ids:
            return _Route(_documents_of(ids), {}, is_certain=True, mentions=ids)
        certain = [mention for mention in mentions if mention.confidence >= CERTAIN]
        by_project = self._confirm_by_project(mentions)
        if self.query_type == "compare" and len({m.documents for m in mentions if m.kind == "entity"}) > 1:
            # the documents of every issuer named; sure if every match is
            better = {mention.value: mention for mention in certain + by_project}
            entities = [better.get(m.value, m) for m in mentions if m.kind == "entity"]
            scores = self.lookup.evidence(self.matched, without=_words_of(entities))
            all_sure = all(mention.confidence >= CERTAIN for mention in entities)
            return _Route(_documents_of(entities), scores, is_certain=all_sure, mentions=entities)
        if not (certain or by_project):
            return self._choose_vaguely(mentions)
        # issuers that are named in full beside the sure ones, and may mean documents of their own
        wordings = {mention.spelling for mention in certain + by_project}
        full = [mention for mention in mentions if mention.kind == "entity" and mention.match_kind == "full"]
        further = [mention for mention in full if mention.spelling not in wordings and mention.confidence >= VAGUE]
        return self._choose_surely(certain + by_project, further=further)

    def _choose_surely(self, mentions: list[Mention], *, further: list[Mention]) -> _Route:
        """Choose by entity and title where both are named, else by either; `further`, vaguer names add documents."""
        entities = [mention for mention in mentions if mention.kind == "entity"]
        titles = [mention for mention in mentions if mention.kind == "title"]
        documents, agree = _documents_of(entities or titles), True
        if entities and titles:
            common = set(_documents_of(entities)) & set(_documents_of(titles))
            documents, agree = (sorted(common), True) if common else (_documents_of(mentions), False)
        scores = self.lookup.evidence(self.matched, without=_words_of(entities))
        documents = sorted({*documents, *_documents_of(further)})
        return _Route(documents, scores, is_certain=agree and not further, mentions=[*mentions, *further])

    def _confirm_by_project(self, mentions: Sequence[Mention]) -> list[Mention]:
        """Return names that are too vague alone, with those of their documents whose project the question names too."""
        confirmed: list[Mention] = []
        for mention in mentions:
            if mention.kind != "entity" or mention.match_kind != "full" or not VAGUE <= mention.confidence < CERTAIN:
                continue
            scores = self.lookup.evidence(self.matched, without=mention.words)
            best_score = max((scores.get(at, 0.0) for at in mention.documents), default=0.0)
            if best_score >= WITH_PLACE:
                documents = frozenset(at for at in mention.documents if scores.get(at, 0.0) >= NEAR_BEST * best_score)
                confirmed.append(mention._replace(documents=documents, confidence=0.9))
        return confirmed

    def _choose_vaguely(self, mentions: list[Mention]) -> _Route:
        """Choose by vague names and by words of names, where these are rare or several are of one document."""
        scores = self.lookup.evidence(self.matched)
        name_scores: dict[int, float] = {}
        for mention in mentions:
            for at in mention.documents:
                name_scores[at] = name_scores.get(at, 0.0) + mention.confidence
        word_counts = Counter(at for word in self.matched for at in self.lookup.documents_holding(word).tolist())
        distinctive = {at for word in self._distinctive() for at in self.lookup.documents_holding(word).tolist()}
        accepted = {
            at: scores.get(at, 0.0) + name_scores.get(at, 0.0)
            for at in {*scores, *name_scores}
            if at in name_scores or (word_counts[at] > 1 and scores[at] >= FEW_WORDS) or at in distinctive
        }
        if not accepted:
            # siblings of the last documents, where the question only adds a year or a round
            follows = self.query_type in {"followup", "compare"}
            if not self.last or not (self.qualifiers.periods or self.qualifiers.rounds):
                return _Route([], {}, is_certain=False, mentions=[])
            return _Route(sorted({*self.router.kin(self.last), *self.last}), {}, is_certain=follows, mentions=[])
        best_score = max(accepted.values())
        documents = [at for at, score in accepted.items() if score >= NEAR_BEST * best_score]
        if len(documents) > max(4, len(self.router.files) // 2):
            return _Route([], {}, is_certain=False, mentions=[])  # what half of all documents share tells nothing
        if mentions:
            return _Route(documents, accepted, is_certain=False, mentions=mentions)
        by_words: list[Mention] = []
        for document in documents:
            words = frozenset(word for word in self.matched if self.lookup.holds(document, word))
            wording = " ".join(word.spelling for word, word_counts in self.by_word if words & word_counts.keys())
            own = frozenset([document])
            by_words.append(Mention("title", "name", self.router.stem(document), wording, 0.5, own, words, "lead"))
        return _Route(documents, accepted, is_certain=False, mentions=by_words)

    def _distinctive(self) -> set[str]:
        """Return the words that few names hold and that are long or written as names; one of them is enough."""
        capital = {
            form
            for word in self.words
            if word.spelling[0].isupper()
            for form in (word.form, word.form.removesuffix("'s"))
        }
        words: set[str] = set()
        for word, share in self.matched.items():
            rarity = self.lookup.rarity(word) if share == 1 else 0.0
            long = len(word) >= (8 if word.isascii() else 4)
            is_name = word in capital if word.isascii() else len(word) >= 3
            if (rarity >= 0.9 and is_name) or (rarity >= 0.55 and long):
                words.add(word)
        return words

    def _rank_by_qualifiers(
        self, documents: Collection[int], scores: dict[int, float], qualified: Qualifiers | None = None
    ) -> _Fitting:
        """Return documents that can fit, best first in year and round. qualified: what to fit; None: the question's."""
        qualified = qualified or self.qualifiers
        rounds = any(self.router.qualifiers[at].rounds > (0,) for at in documents)
        shares = {at: fit_of(qualified, self.router.qualifiers[at], rounds=rounds) for at in documents}
        can = [at for at in documents if shares[at] >= CAN_HOLD] or list(documents)
        order = sorted(can, key=lambda at: (-shares[at], -scores.get(at, 0.0), self.router.files[at]))
        best_fitting = [at for at in order if shares[at] == shares[order[0]]]
        exact = shares[order[0]] == 1.0 and rounds and qualified.rounds  # a year alone does not single a document out
        return _Fitting(best_fitting if exact else order, best_fitting)

    def _find_sides(self, route: _Route) -> list[list[int]]:
        """Return the documents of each side: of issuers, else of rounds or years, else each file; [] for too many."""
        entities = [mention for mention in route.mentions if mention.kind == "entity"]
        sides = _distinct([self._rank_by_qualifiers(sorted(m.documents), route.scores).documents for m in entities])
        if len(sides) > 1:
            return sides
        documents = route.documents
        for parts in (
            [Qualifiers(rounds=(number,)) for number in self.qualifiers.rounds],
            [Qualifiers(periods=(period,)) for period in self.qualifiers.periods],
        ):
            if len(parts) > 1:
                sides = _distinct(
                    [self._rank_by_qualifiers(documents, route.scores, part).best_fitting for part in parts]
                )
                if len(sides) > 1:
                    return sides
        if self.last and not set(self.last) & set(documents):
            return [self.last, self._rank_by_qualifiers(documents, route.scores).documents]
        families = self._families(self._rank_by_qualifiers(documents, route.scores).documents)
        return families if len(families) <= MOST_SIDES else []

    def _families(self, documents: Iterable[int]) -> list[list[int]]:
        """Return the documents grouped by file stem: one document in several formats is one family."""
        families: dict[str, list[int]] = {}
        for at in documents:
            families.setdefault(self.router.stem(at), []).append(at)
        return list(families.values())

    def _find_ambiguous(self, fitting: _Fitting, route: _Route) -> tuple[str, ...]:
        """Return up to MOST_NAMED names of documents of a kind that fit equally well, where one is meant; else none."""
        if self.query_type not in {"single", "followup"}:
            return ()
        top = fitting.best_fitting[0]
        kind, score = self.router.sames[top], route.scores.get(top, 0.0)
        if route.is_certain and score < WITH_PLACE and not self.router.dated[top]:
            # an issuer alone: unless all of its documents are of one kind, the content tells which is meant
            kind = kind if (self.router.sames[fitting.documents] == kind).all() else 0
        alike = [
            at
            for at in fitting.best_fitting
            if kind
            and self.router.sames[at] == kind
            and (route.is_certain or route.scores.get(at, 0.0) >= score * 0.95)
        ]
        families = self._families(alike)
        return tuple(self.router.files[family[0]] for family in families[:MOST_NAMED]) if len(families) > 1 else ()

    def _digests(self, documents: Iterable[int]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.router.digests[at] for at in documents))


def _make_match(mention: Mention) -> NameMatch:
    return NameMatch(field=mention.field, value=mention.value, said=mention.spelling, confidence=mention.confidence)


def _documents_of(mentions: Iterable[Mention]) -> list[int]:
    """Return the documents of all mentions, rising."""
    return sorted({at for mention in mentions for at in mention.documents})


def _words_of(mentions: Iterable[Mention]) -> frozenset[str]:
    """Return the words of all mentions."""
    return frozenset(word for mention in mentions for word in mention.words)


def _distinct(sides: Iterable[Sequence[int]]) -> list[list[int]]:
    """Return the sides that share no document; of two that do, the first stays."""
    distinct: list[list[int]] = []
    for side in sides:
        if side and not any(set(side) & set(earlier) for earlier in distinct):
            distinct.append(list(side))
    return distinct
