"""Asks a model all items of a benchmark, or takes recorded answers in its place, and stores the answers in shards.

Answers of a model are spooled to a file as they come. Recorded programs are one to a line, `{task_id, completion}`, as
in openai/human-eval. Lines of one item are its repeats, in the order of the file; items may have different numbers of
them, or none; other fields are ignored.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from heapq import merge
from io import SEEK_END
from itertools import chain, count, islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

from models.model_errors import ContextOverflow, ModelError, RequestRefused
from models.protocols import ChatRequest, Message, Text
from storage import files
from storage.artifacts import Artifacts
from storage.records import Record, Ref
from tasks.budget import Prices
from tasks.calls import Answer
from tasks.evaluation.benchmarks.base import AskAll
from tasks.evaluation.evaluation_errors import DataMissing, DataUnusable, OptionUnusable
from tasks.evaluation.evaluation_records import Item, Reply, Response, Sampling, Usage
from tasks.evaluation.record_lines import line_of, read_lines, read_shards, write_lines
from tasks.evaluation.running.benchmark_data import Row, read_id, read_rows
from tasks.evaluation.running.open_models import ModelSpec, count_usage
from tasks.evaluation.running.planning import PlannedTask
from tasks.grading.reading import visible_answer

log = logging.getLogger(__name__)

SHARD_RESPONSES = 250
"""Number of responses in a shard, which one task run grades."""
SUFFIXES = (".jsonl", ".jsonl.gz")
"""Ends of the names of files with recorded answers."""
SHAPES = ("response", "responses", "turns", "completion")
"""Names of the field with the answers; each is a form of file."""
EXPECTED = (
    "{id, response: text}, {id, responses: [a text for each repeat]}, {id, turns: [a text for each turn]} or "
    "{task_id, completion: text}, a line for each program"
)

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
    """Ask for every item and repeat. Raises as `ask_all` does. tell: called with 1 as each last turn is answered."""
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
    """Merge the responses of all ranks in the order of the items, into shards of SHARD_RESPONSES; usage is summed."""
    order = {item.id: number for number, item in enumerate(items)}
    streams = [read_shards(artifacts, part.shards, Response) for part in parts]
    shards, response_count = store_shards(artifacts, merge(*streams, key=lambda response: order[response.item]))
    usage = reduce(Usage.plus, (part.usage for part in parts), Usage())
    return Generated(shards=shards, responses=response_count, usage=usage)


def replay(task: PlannedTask, recorded: Path, artifacts: Artifacts) -> Generated:
    """Store the recorded answers to a task. Raises DataUnusable, which names the line."""
    limited = task.settings.get("limit") is not None
    responses = match_responses(read_lines(artifacts, task.items, Item), read_recorded(recorded), partial=limited)
    shards, response_count = store_shards(artifacts, responses)
    return Generated(shards=shards, responses=response_count, usage=Usage())


def find_recorded(model: ModelSpec, task: str) -> Path:
    """Return the file of recorded answers: `path`, or TASK.jsonl in that folder. Raises DataMissing, OptionUnusable."""
    location = model.args.get("path")
    if not location:
        raise OptionUnusable("--model replay needs the recorded answers: --model_args path=FOLDER (or a file)")
    path = Path(str(location))
    if path.is_file():
        return path
    for suffix in SUFFIXES:
        file = path / f"{task}{suffix}"
        if file.is_file():
            return file
    raise DataMissing(
        f"{path} has no recorded answers to {task}: expected {task}.jsonl there, with lines {{id, response}}"
    )


class RecordedLine(NamedTuple):
    """The answers on one line of the file."""

    repeats: list[list[str]]
    """The turns of each repeat; an answer that the file has as null has no turns."""
    line: int


class RecordedAnswers(dict[str, list[RecordedLine]]):
    """The lines of each ID of the file, in order: a line for each program, else a single line."""

    def __init__(self, path: Path, *, programs: bool) -> None:
        super().__init__()
        self.path = path
        self.programs = programs

    @property
    def repeats(self) -> int:
        """Number of answers to each item; of programs the most that an item has."""
        return max((sum(len(line.repeats) for line in lines) for lines in self.values()), default=1)


def read_recorded(path: Path) -> RecordedAnswers:
    """Return the answers in a file, all in the form of its first line. Raises DataUnusable, which names the line.

    Without any IDs the answers are in the order of the items, and their IDs are row numbers from 0.
    """
    recorded, shape = RecordedAnswers(path, programs=False), ""
    numbered, repeats = False, 0
    for row in read_rows(path):
        shapes = [name for name in SHAPES if name in row]
        if len(shapes) != 1:
            row.unusable(f"it has {' and '.join(shapes) or 'no answer'}; expected {EXPECTED}")
        if shape and shapes[0] != shape:
            row.unusable(f"it has {shapes[0]!r}, and the lines before it {shape!r}; give all lines one shape")
        is_first, shape = not shape, shapes[0]
        answers, row_id = _read_answers(row, shape), read_id(row)
        if shape == "completion":
            recorded.programs = True
            item = read_id({"id": row.get("task_id")}) or row_id  # an `id` beside it is the program's own
            if item is None:
                row.unusable("it has no task_id; give every completion the id of its item")
            recorded.setdefault(item, []).append(RecordedLine(answers, row.line))
            continue
        if is_first:
            numbered, repeats = row_id is None, len(answers)
        if numbered != (row_id is None):
            has, before = ("no id", "ids") if row_id is None else ("an id", "none")
            row.unusable(f"it has {has}, and the lines before it have {before}; give every line an id, or none")
        if len(answers) != repeats:
            row.unusable(f"it has {len(answers)} responses, and the lines before it {repeats}; give all items as many")
        item = row_id or str(row.number)
        if item in recorded:
            row.unusable(f"item {item!r} stands on line {recorded[item][0].line} already; put repeats in `responses`")
        recorded[item] = [RecordedLine(answers, row.line)]
    if not shape:
        raise DataUnusable(f"{path}: there is no answer in it; expected lines of {EXPECTED}")
    return recorded


def match_responses(items: Iterable[Item], recorded: RecordedAnswers, *, partial: bool = False) -> Iterator[Response]:
    """Yield the answers in the order of the items, each with its repeats; items without a recorded answer are left out.

    partial: `items` are not all of the benchmark, so answers to others are no mistake if one line matches.
    Raises DataUnusable naming the line: an id that is no item's or that of several, or more turns than the item has.
    """
    first: str | None = None
    used_lines = set[int]()
    for item in items:
        first = first or item.id
        # a line may name an item by its published ID, without the language before it
        published = item.detail.get("task_id") if recorded.programs else None
        names = (item.id, published) if isinstance(published, str) and published != item.id else (item.id,)
        item_lines = [entry for name in names for entry in recorded.get(name, ())]
        repeat, turn_count = count(), len(item.prompts)
        for entry in sorted(item_lines, key=lambda entry: entry.line):
            place = f"{recorded.path}, line {entry.line}"
            if entry.line in used_lines:
                raise DataUnusable(
                    f"{place}: several items have this id, {item.id!r} among them; name the one that is meant so"
                )
            used_lines.add(entry.line)
            for turns in entry.repeats:
                if len(turns) > turn_count:
                    raise DataUnusable(
                        f"{place}: {len(turns)} turns, and item {item.id!r} asks {turn_count}; repeats of one question "
                        "go in `responses`"
                    )
                replies = tuple(Reply(text=text) for text in turns)
                yield Response(item=item.id, repeat=next(repeat), turns=replies)
    lines = ((entry.line, name) for name, entries in recorded.items() for entry in entries)
    unmatched = [(line, name) for line, name in lines if line not in used_lines]
    if unmatched and not (partial and used_lines):
        line, name = min(unmatched)  # the first of them in the file
        why = f"the benchmark has no item {name!r}; its first is {first!r}"
        raise DataUnusable(f"{recorded.path}, line {line}: {why}")


def _read_answers(row: Row, shape: str) -> list[list[str]]:
    """Return the answers on a line, as the turns of each repeat; null gives no turn. Raises DataUnusable."""
    value = [row[shape]] if shape in ("response", "completion") else row[shape]
    if not isinstance(value, list) or not value:
        row.unusable(f"{shape}: expected a list of texts; found {type(value).__name__ if value else 'an empty one'}")
    listed = cast("list[Any]", value)
    # only of `responses` each entry is a repeat, which is a list of its own where it has several turns
    repeats = [turns if isinstance(turns, list) else [turns] for turns in listed] if shape == "responses" else [listed]
    for turn in chain.from_iterable(repeats):
        if not isinstance(turn, str | None):
            row.unusable(f"{shape}: expected a text, found {type(turn).__name__}")
    return [[turn for turn in turns if turn is not None] for turns in repeats]
