"""Asks a model all items of a benchmark, spools answers to a file as they come, and stores them in shards."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from heapq import merge
from io import SEEK_END
from itertools import chain, count, islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from models.model_errors import ContextOverflow, ModelError, RequestRefused
from models.protocols import ChatRequest, Message, Text
from storage import files
from storage.artifacts import Artifacts
from storage.records import Record, Ref
from tasks.budget import Prices
from tasks.calls import Answer
from tasks.evaluation.benchmarks.base import AskAll
from tasks.evaluation.evaluation_records import Item, Reply, Response, Sampling, Usage
from tasks.evaluation.record_lines import line_of, read_shards, write_lines
from tasks.evaluation.running.open_models import count_usage
from tasks.evaluation.running.planning import PlannedTask
from tasks.grading.reading import visible_answer

log = logging.getLogger(__name__)

SHARD_RESPONSES = 250
"""Number of responses in a shard, which one task run grades."""

Items = Callable[[], Iterable[Item]]
"""A function that iterates over all items anew at each call."""


class Generated(Record):
    """The answers of a model to a benchmark."""

    shards: tuple[Ref, ...]
    """JSONL of Response, in the order of the items and their repeats."""
    responses: int
    usage: Usage


class Outcome(NamedTuple):
    """The generated answers, and the reason for each item that could not be answered for now."""

    generated: Generated
    unfinished: dict[str, str]


class ConversationKey(NamedTuple):
    """A conversation, identified by the number of its item (from 0) and its repeat."""

    item: int
    repeat: int


def generate(
    task: PlannedTask,
    items: Items,
    *,
    ask_all: AskAll,
    artifacts: Artifacts,
    scratch: Path,
    prices: Prices | None = None,
    tell: Callable[[int], None],
) -> Outcome:
    """Ask for every item and repeat. Raises as `ask_all` does. tell: called with how many conversations ended since."""
    with files.scratch(scratch) as path, path.open("x+b") as file:
        conversations = _Conversations(task, items, file, prices)
        turns = [len(item.prompts) for item in items()]
        for turn in range(max(turns, default=0)):  # turn by turn: all conversations are asked at once
            for place, answer in ask_all(conversations.requests(turn)):
                conversations.keep(place, turn, answer)
                if turn + 1 == turns[place.item] and not isinstance(answer, ModelError):
                    tell(1)
        shards, response_count = store_shards(artifacts, conversations.responses())
        return Outcome(
            Generated(shards=shards, responses=response_count, usage=conversations.usage), conversations.unfinished
        )


class _Conversations:
    """All conversations of a benchmark, advanced turn by turn; replies lie in a file."""

    def __init__(self, task: PlannedTask, items: Items, file: BinaryIO, prices: Prices | None) -> None:
        self._task = task
        self._items = items
        self._file = file
        self._starts: dict[tuple[ConversationKey, int], int] = {}
        """Offset in the file at which the reply to a turn of a conversation begins."""
        self._prices = prices
        self._missed: dict[ConversationKey, RequestRefused] = {}
        self._away: dict[ConversationKey, str] = {}
        self.unfinished: dict[str, str] = {}
        self.usage = Usage()

    def requests(self, turn: int) -> Iterator[tuple[ConversationKey, ChatRequest]]:
        """Yield the requests of one turn of all conversations that are neither refused nor away."""
        for number, item in enumerate(self._items()):
            if turn >= len(item.prompts):
                continue
            for repeat in range(self._task.repeats):
                place = ConversationKey(number, repeat)
                if place not in self._missed and place not in self._away:
                    yield (
                        place,
                        build_request(self._task, item, repeat=repeat, earlier_replies=self._replies(place, turn)),
                    )

    def keep(self, place: ConversationKey, turn: int, answer: Answer | ModelError) -> None:
        """Store the reply to a turn, or note why there is none: for good if it was refused, else for now."""
        log.debug("answer item=%d repeat=%d turn=%d %s", *place, turn, answer)
        if isinstance(answer, RequestRefused):
            self._missed[place] = answer
        elif isinstance(answer, ModelError):
            self._away[place] = str(answer)
        else:
            self._starts[place, turn] = self._file.seek(0, SEEK_END)
            self._file.write(line_of(build_reply(answer)))
            self.usage = self.usage.plus(count_usage(answer, self._prices))

    def responses(self) -> Iterator[Response]:
        """Yield the responses in the order of the items; unfinished ones are left out and noted in `unfinished`."""
        for number, item in enumerate(self._items()):
            for repeat in range(self._task.repeats):
                place = ConversationKey(number, repeat)
                if place in self._away:
                    self.unfinished[item.id] = self._away[place]
                    continue
                yield Response(
                    item=item.id,
                    repeat=repeat,
                    turns=tuple(self._replies(place, len(item.prompts))),
                    missed=str(error) if (error := self._missed.get(place)) else None,
                    too_long=isinstance(error, ContextOverflow),
                )

    def _replies(self, place: ConversationKey, turns: int) -> Iterator[Reply]:
        """Yield the replies to the first turns of a conversation; a refused turn and those after it have none."""
        for turn in range(turns):
            start = self._starts.get((place, turn))
            if start is not None:
                self._file.seek(start)
                yield Reply.model_validate_json(self._file.readline())


def build_request(task: PlannedTask, item: Item, *, repeat: int, earlier_replies: Iterable[Reply] = ()) -> ChatRequest:
    """Return the request for the next turn; earlier replies go without reasoning, as in chat templates."""
    system = task.system or item.system
    turns = [_build_message("system", system)] if system else []
    turns += [_build_message(message.role, message.text) for message in item.history]
    replies = list(earlier_replies)
    for prompt, reply in zip(item.prompts, replies, strict=False):
        turns += [_build_message("user", prompt), _build_message("assistant", visible_answer(reply.text) or "")]
    turns.append(_build_message("user", item.prompts[len(replies)]))
    sampling = select_sampling(task, item)
    seed = None if sampling.seed is None else sampling.seed + repeat
    parameters: dict[str, Any] = sampling.model_dump() | {"seed": seed, "draw": repeat, "template": task.template}
    return ChatRequest(messages=tuple(turns), **parameters)


def select_sampling(task: PlannedTask, item: Item) -> Sampling:
    """Return the task's sampling, at the item's own temperature (as in MT-Bench) unless the run sets a temperature."""
    item_temperature = item.detail.get("temperature")
    if task.temperature_given or not isinstance(item_temperature, int | float):
        return task.sampling
    return task.sampling.model_copy(update={"temperature": float(item_temperature)})


def build_reply(answer: Answer) -> Reply:
    """Return the reply of a conversation that an answer of a model gives."""
    response = answer.response
    return Reply(
        text=response.text,
        finish_reason=response.finish_reason,
        key=answer.key,
        prompt_tokens=response.prompt_tokens,
        completion_tokens=response.completion_tokens,
        latency_s=answer.latency_s,
        sent=dict(sorted(response.sent.items())),  # the response store does not keep their order
    )


def _build_message(role: str, text: str) -> Message:
    return Message.model_validate({"role": role, "content": (Text(text=text),)})


def store_shards(artifacts: Artifacts, responses: Iterator[Response]) -> tuple[tuple[Ref, ...], int]:
    """Store responses, one in memory at a time, by SHARD_RESPONSES; return the shards and the number of responses."""
    # zip asks `responses` first, so that `numbers` stands at their count when they end
    numbers = count()
    counted = (response for response, _ in zip(responses, numbers, strict=False))
    # `first` shows that there is one more shard, whose others are read as they are written
    shards = tuple(
        write_lines(artifacts, "responses", chain((first,), islice(counted, SHARD_RESPONSES - 1))) for first in counted
    )
    return shards, next(numbers)


def merge_parts(parts: Sequence[Generated], items: Iterable[Item], artifacts: Artifacts) -> Generated:
    """Merge the responses of all ranks in the order of the items, into shards of SHARD_RESPONSES."""
    order = {item.id: number for number, item in enumerate(items)}
    streams = [read_shards(artifacts, part.shards, Response) for part in parts]
    shards, response_count = store_shards(artifacts, merge(*streams, key=lambda response: order[response.item]))
    usage = reduce(Usage.plus, (part.usage for part in parts), Usage())
    return Generated(shards=shards, responses=response_count, usage=usage)
