"""Recorded answers take the place of a model's: what exists is scored.

Programs that a model wrote earlier are one to a line, `{task_id, completion}`, as openai/human-eval writes them.
Lines of one item are its repeats, in the order of the file; items may have different numbers of them, or none. An
optional `language` tells apart items of several languages that have one id; other fields are left unread.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, cast

from storage.artifacts import Artifacts
from tasks.evaluation.evaluation_errors import DataMissing, DataUnusable, OptionUnusable
from tasks.evaluation.evaluation_records import Item, Reply, Response, Usage
from tasks.evaluation.running.benchmark_data import Row, id_of, read_rows
from tasks.evaluation.running.generation import Generated, keep_shards
from tasks.evaluation.running.model_spec import ModelSpec
from tasks.evaluation.running.planning import PlannedTask, read_items
from tasks.sandbox.languages import language_named

SUFFIXES = (".jsonl", ".jsonl.gz")


def replay(task: PlannedTask, recorded: Path, artifacts: Artifacts) -> Generated:
    """The recorded answers to the items of a task. Raises DataUnusable naming the line."""
    limited = task.settings.get("limit") is not None
    responses = recorded_responses(read_items(artifacts, task.items), read_recorded(recorded), partial=limited)
    shards, count = keep_shards(artifacts, responses)
    return Generated(shards=shards, responses=count, usage=Usage())


def repeats_in(recorded: Path) -> int:
    """How many answers the file has to each item; of programs, to the item that has most."""
    return read_recorded(recorded).repeats


def recorded_of(model: ModelSpec, task: str) -> Path:
    """The recorded answers to a task: the file that `path` names, or the one of the task's name in that folder.

    Raises DataMissing, OptionUnusable.
    """
    if not (named := model.args.get("path")):
        raise OptionUnusable("--model replay needs the recorded answers: --model_args path=FOLDER (or a file)")
    path = Path(str(named))
    if path.is_file():
        return path
    for suffix in SUFFIXES:
        if (file := path / f"{task}{suffix}").is_file():
            return file
    raise DataMissing(
        f"{path} has no recorded answers to {task}: expected {task}.jsonl there, with lines {{id, response}}"
    )


def digest_of(path: Path) -> str:
    """SHA-256 (hex) of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


SHAPES = ("response", "responses", "turns", "completion")
EXPECTED = (
    "{id, response: text}, {id, responses: [a text for each repeat]}, {id, turns: [a text for each turn]} or "
    "{task_id, completion: text}, a line for each program"
)


class Recorded(dict[str, list[list[str]]]):
    """Id → repeats → turns. An answer that the file has as null has no turns."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.lines: dict[str, int] = {}
        """Id → the line that has it."""

    @property
    def repeats(self) -> int:
        """How many answers there are to each item."""
        return max(map(len, self.values()), default=1)


def read_recorded(path: Path) -> Recorded | Completions:
    """The answers in a file, whose first line says of which shape it is; programs, a line for each, are Completions.

    Raises DataUnusable naming the line: of a line of another shape, and what `Recorded` and `Completions` refuse.
    """
    rows = read_rows(path)
    first = next(rows, None)
    if first is None:
        raise DataUnusable(f"{path}: there is no answer in it; expected lines of {EXPECTED}")
    shape = _shape(first)
    alike = _of_shape(shape, chain((first,), rows))
    return read_completions(alike, path) if shape == "completion" else _read_answers(alike, path, shape)


def _read_answers(rows: Iterable[Row], path: Path, shape: str) -> Recorded:
    """Without any ids the answers are in the order of the items, and their ids are row numbers from 0.

    Raises DataUnusable naming the line: of a line without an id among lines with one, with the id of an earlier line,
    with another number of repeats.
    """
    recorded = Recorded(path)
    numbered, repeats = False, 0
    for row in rows:
        answers, own = _answers(row, shape), id_of(row)
        if not recorded:
            numbered, repeats = own is None, len(answers)
        if numbered != (own is None):
            there, before = ("no id", "ids") if own is None else ("an id", "none")
            row.unusable(f"it has {there}, and the lines before it have {before}; give every line an id, or none")
        if len(answers) != repeats:
            row.unusable(f"it has {len(answers)} responses, and the lines before it {repeats}; give all items as many")
        item = own or str(row.number)
        if item in recorded:
            row.unusable(f"item {item!r} stands on line {recorded.lines[item]} already; put repeats in `responses`")
        recorded[item], recorded.lines[item] = answers, row.line
    return recorded


def recorded_responses(
    items: Iterable[Item], recorded: Recorded | Completions, *, partial: bool = False
) -> Iterator[Response]:
    """The answers in the order of the items, each with its repeats; items without a recorded answer are left out.

    partial: `items` are not all of the benchmark, so answers to others are no mistake.
    Raises DataUnusable for an id that is no item's, an answer with more turns than the item, and when none matches.
    """
    if isinstance(recorded, Completions):
        yield from completion_responses(items, recorded, partial=partial)
        return
    found, first = set[str](), None
    for item in items:
        first = first or item.id
        if item.id in recorded:
            found.add(item.id)
            for repeat, turns in enumerate(recorded[item.id]):
                if len(turns) > len(item.prompts):
                    raise DataUnusable(
                        f"{recorded.path}, line {recorded.lines[item.id]}: {len(turns)} turns, and item {item.id!r} "
                        f"asks {len(item.prompts)}; repeats of one question go in `responses`"
                    )
                yield _response(item, repeat, turns)
    unknown = next((line for item, line in recorded.lines.items() if item not in found), None)
    if unknown is not None and not (partial and found):
        item = next(item for item in recorded if item not in found)
        why = f"the benchmark has no item {item!r}; its first is {first!r}"
        raise DataUnusable(f"{recorded.path}, line {unknown}: {why}")


def _response(item: Item, repeat: int, turns: Sequence[str]) -> Response:
    missed = None if len(turns) == len(item.prompts) else f"{len(turns)} of {len(item.prompts)} turns are recorded"
    return Response(item=item.id, repeat=repeat, turns=tuple(Reply(text=text) for text in turns), missed=missed)


def _of_shape(shape: str, rows: Iterable[Row]) -> Iterator[Row]:
    for row in rows:
        if (other := _shape(row)) != shape:
            row.unusable(f"it has {other!r}, and the lines before it {shape!r}; give all lines one shape")
        yield row


def _shape(row: Row) -> str:
    there = [shape for shape in SHAPES if shape in row]
    if len(there) != 1:
        row.unusable(f"it has {' and '.join(there) or 'no answer'}; expected {EXPECTED}")
    return there[0]


def _answers(row: Row, shape: str) -> list[list[str]]:
    """The repeats of turns on a line."""
    value = row[shape]
    if shape == "response":
        return [_turns(value, row, shape)]
    if not isinstance(value, list) or not value:
        row.unusable(f"{shape}: expected a list of texts; found {type(value).__name__ if value else 'an empty one'}")
    listed = cast("list[Any]", value)
    if shape == "turns":
        return [[text for one in listed for text in _turns(one, row, shape)]]
    # a repeat of several turns is a list of its own
    return [
        [text for turn in cast("list[Any]", one) for text in _turns(turn, row, shape)]
        if isinstance(one, list)
        else _turns(one, row, shape)
        for one in listed
    ]


def _turns(text: Any, row: Row, shape: str) -> list[str]:
    if text is None:
        return []
    if not isinstance(text, str):
        row.unusable(f"{shape}: expected a text, found {type(text).__name__}")
    return [text]


class Completion(NamedTuple):
    """One program."""

    text: str | None
    """None where the file has null: the model gave none."""
    language: str | None
    """As the line calls it; None where it says nothing."""
    line: int


class Completions(dict[str, list[Completion]]):
    """Id as the lines have it → its programs, in the order of the file."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path

    @property
    def repeats(self) -> int:
        """The most that an item has."""
        return max((_most(programs) for programs in self.values()), default=1)


def read_completions(rows: Iterable[Row], path: Path) -> Completions:
    """The programs in a file. Raises DataUnusable naming the line: without an id, or with a program that is no text."""
    completions = Completions(path)
    for row in rows:
        text, language = row["completion"], row.get("language")
        item = id_of({"id": row.get("task_id")}) or id_of(row)  # an `id` beside it is the program's own
        if item is None:
            row.unusable("it has no task_id; give every completion the id of its item")
        if not isinstance(text, str | None):
            row.unusable(f"completion: expected a text, found {type(text).__name__}")
        if not isinstance(language, str | None):
            row.unusable(f"language: expected a name such as python, found {type(language).__name__}")
        completions.setdefault(item, []).append(Completion(text, language or None, row.line))
    return completions


def completion_responses(items: Iterable[Item], completions: Completions, *, partial: bool) -> Iterator[Response]:
    """The programs in the order of the items, each with its repeats; items without any are left out.

    partial: `items` are not all of the benchmark, so programs for others are no mistake.
    Raises DataUnusable naming the line: of an id that is no item's, an id of another language than the line says, and
    an id that several languages have when the line says none.
    """
    groups = dict[str, str | None]()
    taken = set[int]()
    for item in items:
        own = [one for name in _names(item) for one in completions.get(name, ()) if _is_for(item, one)]
        own.sort(key=lambda one: one.line)
        groups |= dict.fromkeys(_names(item), item.group)
        for repeat, one in enumerate(own):
            if one.line in taken:
                raise DataUnusable(
                    f"{completions.path}, line {one.line}: several languages have an item of this id, {item.id!r} "
                    f"among them; say in `language` which one is meant"
                )
            taken.add(one.line)
            yield _response(item, repeat, () if one.text is None else (one.text,))
    if not (partial and taken):
        _refuse_the_rest(completions, taken, groups)


def _refuse_the_rest(completions: Completions, taken: set[int], groups: dict[str, str | None]) -> None:
    left = [(name, one) for name, own in completions.items() for one in own if one.line not in taken]
    if not left:
        return
    name, one = min(left, key=lambda pair: pair[1].line)
    why = f"the benchmark has no item {name!r}; its first is {next(iter(groups), None)!r}"
    if name in groups:
        why = f"its language is {one.language!r}, and item {name!r} is one of {groups[name]}"
    raise DataUnusable(f"{completions.path}, line {one.line}: {why}")


def _names(item: Item) -> tuple[str, ...]:
    """What a line may call an item: its id, and the one in the data where several items have that."""
    published = item.detail.get("task_id")
    return (item.id, published) if isinstance(published, str) and published != item.id else (item.id,)


def _is_for(item: Item, completion: Completion) -> bool:
    """Whether a line with the id of an item means it; an item that is of no language takes all."""
    language = language_named(item.group) if item.group else None
    return not language or not completion.language or language_named(completion.language) == language


def _most(programs: Sequence[Completion]) -> int:
    named = Counter(language_named(one.language) for one in programs if one.language)
    return len(programs) - named.total() + max(named.values(), default=0)
