"""Grades recorded answers in place of a model's.

Programs are one to a line, `{task_id, completion}`, as in openai/human-eval. Lines of one item are its repeats, in the
order of the file; items may have different numbers of them, or none; other fields are ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, cast

from storage.artifacts import Artifacts
from tasks.evaluation.evaluation_errors import DataMissing, DataUnusable, OptionUnusable
from tasks.evaluation.evaluation_records import Item, Reply, Response, Usage
from tasks.evaluation.record_lines import read_lines
from tasks.evaluation.running.benchmark_data import Row, read_id, read_rows
from tasks.evaluation.running.generation import Generated, store_shards
from tasks.evaluation.running.open_models import ModelSpec
from tasks.evaluation.running.planning import PlannedTask

SUFFIXES = (".jsonl", ".jsonl.gz")
"""Ends of the names of files with recorded answers."""
SHAPES = ("response", "responses", "turns", "completion")
"""Names of the field with the answers; each is a form of file."""
EXPECTED = (
    "{id, response: text}, {id, responses: [a text for each repeat]}, {id, turns: [a text for each turn]} or "
    "{task_id, completion: text}, a line for each program"
)


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

    partial: `items` are not all of the benchmark, so answers to others are no mistake.
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

    def turns_of(text: Any) -> list[str]:
        """Return a recorded text as the only turn; no turn for None."""
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
        return [[text for entry in listed for text in turns_of(entry)]]
    # a repeat of several turns is a list of its own
    return [
        [text for turn in (cast("list[Any]", entry) if isinstance(entry, list) else [entry]) for text in turns_of(turn)]
        for entry in listed
    ]
