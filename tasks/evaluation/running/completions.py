"""Programs that a model wrote earlier, a line for each: `{task_id, completion}`, as openai/human-eval writes them.

Lines of one item are its repeats, in the order of the file; items may have different numbers of them, or none. An
optional `language` tells apart items of several languages that have one id; other fields are left unread.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tasks.evaluation.evaluation_errors import DataUnusable
from tasks.evaluation.evaluation_records import Item, Reply, Response
from tasks.evaluation.running.benchmark_data import Row, id_of
from tasks.sandbox.languages import language_named


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
            yield _response(item, repeat, one.text)
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


def _response(item: Item, repeat: int, text: str | None) -> Response:
    turns = () if text is None else (Reply(text=text),)
    missed = None if len(turns) == len(item.prompts) else f"{len(turns)} of {len(item.prompts)} turns are recorded"
    return Response(item=item.id, repeat=repeat, turns=turns, missed=missed)
