"""Which documents bear each name of a catalogue."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tasks.rag.planning.hash_table import HashTable
from tasks.rag.planning.learned_names import WHOLE, Learned


class Documents(NamedTuple):
    """The documents of each name, rising."""

    starts: NDArray[np.int64]
    """Where the documents of each name start."""
    documents: NDArray[np.uint32]
    more: Mapping[int, NDArray[np.uint32]]
    """All documents of the names that have others too."""
    counts: NDArray[np.int64]
    """How many documents each name has."""

    def of(self, name: int) -> NDArray[np.uint32]:
        """The documents of one name."""
        if name in self.more:
            return self.more[name]
        return self.documents[self.starts[name] : self.starts[name + 1]]


def first_of_each(keys: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Per key, the position of the first one that equals it."""
    _, firsts, at = np.unique(keys, return_index=True, return_inverse=True)
    return firsts[at]


def bearers_of(names: Learned, first: NDArray[np.int64], holders: HashTable) -> Documents:
    """The documents that bear each name, with those that a name's words or another name of its organisation lead to.

    first: per name, the first one that equals it, which alone gets documents.
    """
    count = max(len(names.said_of), 1)
    pairs = np.unique(first[names.borne] * count + names.bearers)
    owners, documents = np.divmod(pairs, count)
    starts = owners.searchsorted(np.arange(len(first) + 1))
    borne = Documents(starts, documents.astype(np.uint32), {}, np.diff(starts))
    groups = _joined(names, first)
    more: dict[int, NDArray[np.uint32]] = {}
    for name, meant in _led_to(names, first, holders):
        if name in groups:
            groups[name] |= set(meant.tolist())
        elif len(every := np.union1d(borne.of(name), meant)) > len(borne.of(name)):
            more[name] = every
    more |= {name: np.array(sorted(group), np.uint32) for name, group in groups.items()}
    for name, every in more.items():
        borne.counts[name] = len(every)
    return borne._replace(more=more)


def _joined(names: Learned, first: NDArray[np.int64]) -> dict[int, set[int]]:
    """The names that are one organisation with another in some document, and their documents, which they share.

    In the order of the documents: from a document on that says so, two names have the same set.
    """
    one, other = first[names.joint_first], first[names.joint_second]
    involved = np.unique(np.concatenate([one, other]))
    groups: dict[int, set[int]] = {name: set() for name in involved.tolist()}
    joints = _by_document(names.joint_in, zip(one.tolist(), other.tolist(), strict=True))
    borne = first[names.borne]
    concerned = np.isin(borne, involved)
    borne_in = _by_document(names.bearers[concerned], borne[concerned].tolist())
    for document in sorted(borne_in):
        for name in borne_in[document]:
            groups[name].add(document)
        for name, same in joints.get(document, ()):
            groups[name] |= groups[same]
            groups[same] = groups[name]
    return groups


def _by_document(documents: NDArray[np.uint32], held: Iterable[Any]) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = defaultdict(list)
    for document, one in zip(documents.tolist(), held, strict=True):
        found[document].append(one)
    return found


def _led_to(names: Learned, first: NDArray[np.int64], holders: HashTable) -> Iterable[tuple[int, NDArray[np.uint32]]]:
    """Entities, and the documents whose own names hold all of their words: a correction that no table lists."""
    own = HashTable(holders.keys[whole := holders.columns[1] == WHOLE], (holders.columns[0][whole],))
    entities = first[names.entity_of_word] == names.entity_of_word
    words, owners = names.entity_words[entities], names.entity_of_word[entities]
    begins, ends = own.keys.searchsorted(words, "left"), own.keys.searchsorted(words, "right")
    starts = np.flatnonzero(np.diff(owners, prepend=np.uint32(2**32 - 1)))
    least = np.minimum.reduceat(ends - begins, starts) if len(starts) else starts
    bounds = [*starts.tolist(), len(owners)]
    for (start, stop), held in zip(pairwise(bounds), least.tolist(), strict=True):
        if not held:
            continue
        spans = zip(begins[start:stop].tolist(), ends[start:stop].tolist(), strict=True)
        spans = sorted(spans, key=lambda span: span[1] - span[0])
        found = own.columns[0][slice(*spans[0])]
        for begin, last in spans[1:]:
            documents = own.columns[0][begin:last]
            places = np.minimum(documents.searchsorted(found), len(documents) - 1)
            found = found[documents[places] == found]
        if len(found):
            yield int(owners[start]), found
