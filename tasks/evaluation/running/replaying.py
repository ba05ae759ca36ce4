"""Grades recorded answers in place of a model's.

Programs are one to a line, `{task_id, completion}`, as in openai/human-eval. Lines of one item are its repeats, in the
order of the file; items may have different numbers of them, or none. An optional `language` distinguishes items of
several languages that share an ID; other fields are ignored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, cast

from storage.artifacts import Artifacts
from tasks.evaluation.evaluation_errors import DataMissing, DataUnusable, OptionUnusable
from tasks.evaluation.evaluation_records import Item, Reply, Response, Usage
from tasks.evaluation.running.benchmark_data import Row, id_of, read_rows
from tasks.evaluation.running.generation import Generated, keep_shards
from tasks.evaluation.running.open_models import ModelSpec
from tasks.evaluation.running.planning import PlannedTask, read_items
from tasks.sandbox.languages import language_named

SUFFIXES = (".jsonl", ".jsonl.gz")
SHAPES = ("response", "responses", "turns", "completion")
EXPECTED = (
    "{id, response: text}, {id, responses: [a text for each repeat]}, {id, turns: [a text for each turn]} or "
    "{task_id, completion: text}, a line for each program"
)


def replay(task: PlannedTask, recorded: Path, artifacts: Artifacts) -> Generated:
    """Store the recorded answers to a task. Raises DataUnusable naming the line."""
    limited = task.settings.get("limit") is not None
    responses = recorded_responses(read_items(artifacts, task.items), read_recorded(recorded), partial=limited)
    shards, kept = keep_shards(artifacts, responses)
    return Generated(shards=shards, responses=kept, usage=Usage())


def recorded_of(model: ModelSpec, task: str) -> Path:
    """The file of recorded answers: `path`, or TASK.jsonl in that folder. Raises DataMissing, OptionUnusable."""
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


class Line(NamedTuple):
    """The answers on one line of the file."""

    repeats: list[list[str]]
    """Repeats → turns; an answer that the file has as null has no turns."""
    line: int
    language: str | None = None
    """Of a program, as the line names it."""


class Recorded(dict[str, list[Line]]):
    """Id as the file has it → its lines in order: one for each program, else a single one."""

    def __init__(self, path: Path, *, programs: bool) -> None:
        super().__init__()
        self.path = path
        self.programs = programs

    @property
    def repeats(self) -> int:
        """Answers to each item; of programs, the most that an item has."""
        most = 1
        for lines in self.values():
            # in one language; lines that name none count in each
            named = Counter(language_named(one.language) for one in lines if one.language)
            most = max(most, sum(len(one.repeats) for one in lines) - named.total() + max(named.values(), default=0))
        return most


def read_recorded(path: Path) -> Recorded:
    """The answers in a file, all in the shape of its first line. Raises DataUnusable naming the line.

    Without any IDs the answers are in the order of the items, and their IDs are row numbers from 0.
    """
    recorded, shape = Recorded(path, programs=False), ""
    numbered, repeats = False, 0
    for row in read_rows(path):
        there = [name for name in SHAPES if name in row]
        if len(there) != 1:
            row.unusable(f"it has {' and '.join(there) or 'no answer'}; expected {EXPECTED}")
        if shape and there[0] != shape:
            row.unusable(f"it has {there[0]!r}, and the lines before it {shape!r}; give all lines one shape")
        is_first, shape = not shape, there[0]
        answers, own = _answers(row, shape), id_of(row)
        if shape == "completion":
            recorded.programs = True
            item = id_of({"id": row.get("task_id")}) or own  # an `id` beside it is the program's own
            if item is None:
                row.unusable("it has no task_id; give every completion the id of its item")
            language = row.get("language")
            if not isinstance(language, str | None):
                row.unusable(f"language: expected a name such as python, found {type(language).__name__}")
            recorded.setdefault(item, []).append(Line(answers, row.line, language or None))
            continue
        if is_first:
            numbered, repeats = own is None, len(answers)
        if numbered != (own is None):
            has, before = ("no id", "ids") if own is None else ("an id", "none")
            row.unusable(f"it has {has}, and the lines before it have {before}; give every line an id, or none")
        if len(answers) != repeats:
            row.unusable(f"it has {len(answers)} responses, and the lines before it {repeats}; give all items as many")
        item = own or str(row.number)
        if item in recorded:
            row.unusable(f"item {item!r} stands on line {recorded[item][0].line} already; put repeats in `responses`")
        recorded[item] = [Line(answers, row.line)]
    if not shape:
        raise DataUnusable(f"{path}: there is no answer in it; expected lines of {EXPECTED}")
    return recorded


def recorded_responses(items: Iterable[Item], recorded: Recorded, *, partial: bool = False) -> Iterator[Response]:
    """The answers in the order of the items, each with its repeats; items without a recorded answer are left out.

    partial: `items` are not all of the benchmark, so answers to others are no mistake.
    Raises DataUnusable naming the line: an id that is no item's, more turns than the item has, an id of another
    language than the line says, an id that several languages have when the line says none; and when no id matches.
    """
    groups = dict[str, str | None]()
    taken = set[int]()
    for item in items:
        # a line may name an item by the published ID that several languages share
        published = item.detail.get("task_id") if recorded.programs else None
        names = (item.id, published) if isinstance(published, str) and published != item.id else (item.id,)
        groups |= dict.fromkeys(names, item.group)
        language = language_named(item.group) if item.group else None  # an item of none takes every line
        own = [
            one
            for name in names
            for one in recorded.get(name, ())
            if not language or not one.language or language_named(one.language) == language
        ]
        repeat, asked = count(), len(item.prompts)
        for one in sorted(own, key=lambda one: one.line):
            place = f"{recorded.path}, line {one.line}"
            if one.line in taken:
                raise DataUnusable(
                    f"{place}: several languages have an item of this id, {item.id!r} among them; say in `language` "
                    "which one is meant"
                )
            taken.add(one.line)
            for turns in one.repeats:
                if len(turns) > asked:
                    raise DataUnusable(
                        f"{place}: {len(turns)} turns, and item {item.id!r} asks {asked}; repeats of one question go "
                        "in `responses`"
                    )
                replies = tuple(Reply(text=text) for text in turns)
                missed = None if len(turns) == asked else f"{len(turns)} of {asked} turns are recorded"
                yield Response(item=item.id, repeat=next(repeat), turns=replies, missed=missed)
    left = [(one.line, name, one) for name, own in recorded.items() for one in own if one.line not in taken]
    if left and not (partial and taken):
        line, name, one = min(left)
        why = f"the benchmark has no item {name!r}; its first is {next(iter(groups), None)!r}"
        if name in groups:
            why = f"its language is {one.language!r}, and item {name!r} is one of {groups[name]}"
        raise DataUnusable(f"{recorded.path}, line {line}: {why}")


def _answers(row: Row, shape: str) -> list[list[str]]:
    """The answers on a line: repeats → turns."""

    def turns_of(text: Any) -> list[str]:
        if text is None:
            return []
        if not isinstance(text, str):
            row.unusable(f"{shape}: expected a text, found {type(text).__name__}")
        return [text]

    value = row[shape]
    if shape in ("response", "completion"):
        return [turns_of(value)]
    if not isinstance(value, list) or not value:
        row.unusable(f"{shape}: expected a list of texts; found {type(value).__name__ if value else 'an empty one'}")
    listed = cast("list[Any]", value)
    if shape == "turns":
        return [[text for one in listed for text in turns_of(one)]]
    # a repeat of several turns is a list of its own
    return [
        [text for turn in (cast("list[Any]", one) if isinstance(one, list) else [one]) for text in turns_of(turn)]
        for one in listed
    ]
