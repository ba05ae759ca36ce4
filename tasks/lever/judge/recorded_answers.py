"""A judge's answers from a file: to all ordered choices of up to two candidates of each query's pool.

A file is good for one judge that is prompted in one way, and for items as they were: an item that has changed since is
asked about anew, as is whatever the file does not hold.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, permutations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tasks.lever.judge.demonstration_task import PromptSettings
from tasks.lever.lever_errors import FileUnusable
from tasks.lever.lever_records import Item

MOST_SHOWN = 2
MISSING = 65_535
"""In place of an answer that the judge did not give."""
Choice = tuple[str, tuple[str, ...]]
"""A query, and its demonstrations in the order of their picks."""
Answers = Callable[[Sequence[Choice]], Sequence[str | None]]


class RecordedAnswers(NamedTuple):
    """Answers by query and demonstrations."""

    asking: str
    """`digest_of_asking`."""
    pools: Mapping[str, Mapping[str, int]]
    """Query → candidate → its place in the table, from 1 on."""
    tables: Mapping[str, NDArray[np.uint16]]
    """Query → (K + 1, K + 1) numbers of words, by first and second pick; at place 0 there is none."""
    words: Sequence[str]
    items: Mapping[str, str]
    """Id → `digest_of` the item."""

    def about(self, items: Mapping[str, Item]) -> RecordedAnswers:
        """Those about items that are as they were."""
        same = {name for name, digest in self.items.items() if name in items and digest_of(items[name]) == digest}
        kept = {
            query: {name: at for name, at in pool.items() if name in same}
            for query, pool in self.pools.items()
            if query in same
        }
        return self._replace(pools=kept)

    def answer(self, query: str, shown: Sequence[str]) -> str | None:
        """None where there is none."""
        pool = self.pools.get(query)
        if not pool or len(shown) > MOST_SHOWN or not all(one in pool for one in shown):
            return None
        number = int(self.tables[query][*_places([pool[one] for one in shown])])
        return None if number == MISSING else self.words[number]

    def to_bytes(self) -> bytes:
        """As a file."""
        names = list(self.items)
        number = {name: at for at, name in enumerate(names)}
        head = {"asking": self.asking, "items": names, "words": list(self.words)}
        out = io.BytesIO()
        np.savez_compressed(
            out,
            head=np.frombuffer(json.dumps(head).encode(), np.uint8),
            pools=np.array([[number[query], *map(number.__getitem__, pool)] for query, pool in self.pools.items()]),
            tables=np.stack(list(self.tables.values())),
            digests=np.array([list(bytes.fromhex(one)) for one in self.items.values()], np.uint8),
        )
        return out.getvalue()


def read_recorded(data: bytes) -> RecordedAnswers:
    """What `to_bytes` wrote. Raises FileUnusable."""
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            head: dict[str, Any] = json.loads(bytes(file["head"]).decode())
            names, tables = head["items"], file["tables"]
            pools = {
                names[query]: {names[one]: at for at, one in enumerate(pool, start=1)}
                for query, *pool in file["pools"].tolist()
            }
            items = {name: bytes(one).hex() for name, one in zip(names, file["digests"], strict=True)}
        return RecordedAnswers(head["asking"], pools, dict(zip(pools, tables, strict=True)), head["words"], items)
    except (ValueError, KeyError, IndexError, EOFError, OSError, zipfile.BadZipFile) as error:
        raise FileUnusable(f"this is no file of recorded judgments ({error}); record them anew") from error


def record(
    pools: Mapping[str, Sequence[str]], items: Mapping[str, Item], answers: Answers, *, asking: str
) -> RecordedAnswers:
    """Ask about all choices of up to two candidates of every pool; the pools are equally large.

    Raises OverflowError for more than 65,535 distinct answers.
    """
    size = len(next(iter(pools.values())))
    picks = list(chain.from_iterable(permutations(range(size), count) for count in range(MOST_SHOWN + 1)))
    asked = [(query, tuple(pool[at] for at in one)) for query, pool in pools.items() for one in picks]
    given, words = iter(answers(asked)), dict[str, int]()
    tables = {query: np.full((size + 1, size + 1), MISSING, np.uint16) for query in pools}
    for table in tables.values():
        for one, answer in zip(picks, given, strict=False):
            if answer is not None:
                table[*_places([at + 1 for at in one])] = words.setdefault(answer, len(words))
    known = dict.fromkeys(name for query, pool in pools.items() for name in (query, *pool))
    placed = {query: {name: at for at, name in enumerate(pool, start=1)} for query, pool in pools.items()}
    return RecordedAnswers(asking, placed, tables, list(words), {name: digest_of(items[name]) for name in known})


def digest_of_asking(judge: str, prompts: PromptSettings) -> str:
    """What answers depend on beside the items. judge: its id."""
    return _digest({"judge": judge, "prompts": prompts.model_dump(mode="json")})


def digest_of(item: Item) -> str:
    """Six bytes (hex) of the SHA-256 of an item, wherever its picture lies."""
    return _digest(item.model_dump(mode="json", exclude={"image"}))[:12]


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _places(picks: Sequence[int]) -> tuple[int, ...]:
    return (*picks, *[0] * (MOST_SHOWN - len(picks)))
