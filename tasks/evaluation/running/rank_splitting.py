"""Items over several ranks, and their answers together again, as one rank would have given them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from storage.artifacts import Artifacts
from tasks.evaluation.evaluation_records import Item, Response, Usage
from tasks.evaluation.record_lines import read_lines
from tasks.evaluation.running.generation import Generated, keep_shards


def part_of(items: Iterable[Item], *, part: int, parts: int) -> Iterator[Item]:
    """Every `parts`-th item, beginning with the one of number `part`."""
    return islice(items, part, None, parts)


def merge_parts(parts: Sequence[Generated], items: Iterable[Item], artifacts: Artifacts) -> Generated:
    """The responses of all ranks in the order of the items, in shards of the usual size."""
    shards, count = keep_shards(artifacts, _in_order(parts, items, artifacts))
    usage = Usage()
    for part in parts:
        usage = usage.plus(part.usage)
    return Generated(shards=shards, responses=count, usage=usage)


def _in_order(parts: Sequence[Generated], items: Iterable[Item], artifacts: Artifacts) -> Iterator[Response]:
    streams = [_Ahead(_responses(part, artifacts)) for part in parts]
    for number, item in enumerate(items):
        yield from streams[number % len(streams)].of(item.id)


def _responses(part: Generated, artifacts: Artifacts) -> Iterator[Response]:
    for shard in part.shards:
        yield from read_lines(artifacts, shard, Response)


class _Ahead:
    """A stream of responses that can be looked into."""

    def __init__(self, responses: Iterator[Response]) -> None:
        self._responses = responses
        self._next = next(responses, None)

    def of(self, item: str) -> Iterator[Response]:
        """The responses to `item`, if they are next."""
        while self._next is not None and self._next.item == item:
            yield self._next
            self._next = next(self._responses, None)
