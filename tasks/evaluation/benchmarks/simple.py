"""A benchmark that one YAML file describes."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from pydantic import JsonValue, ValidationError

from tasks.evaluation.benchmarks.base import BaseBenchmark, Summary, Tools
from tasks.evaluation.benchmarks.definition import Definition, Gold, Options, read_definition
from tasks.evaluation.evaluation_records import Item, Response, Sample
from tasks.evaluation.running.benchmark_data import Data, DataFile, Row
from tasks.grading.choice import LETTERS, canonical

PLACEHOLDER = re.compile(r"\{([^{}\n]{1,100})\}")


class Shown(NamedTuple):
    """The options of an item as they are shown."""

    options: tuple[str, ...]
    gold: str
    """Its letter."""


class SimpleBenchmark(BaseBenchmark):
    """Items, prompts and grader as a `Definition` has them."""

    def __init__(self, definition: Definition, *, folder: Path) -> None:
        """folder: where the definition stands; its data may stand beside it."""
        super().__init__()
        self.definition = definition
        self.name = definition.name
        self.version = definition.version
        self.summary = definition.summary
        self.family = definition.family
        self.sampling = definition.sampling
        self.repeats = definition.repeats
        self.format_checked_only = definition.format_checked_only
        source = definition.data
        self.files = (
            DataFile(
                file=source.file,
                hub=source.hub,
                hub_config=source.config,
                hub_split=source.split,
                get=source.get,
                beside=str(folder),
            ),
        )

    def items(self, data: Data) -> Iterator[Item]:
        return (self._item(row) for row in data.rows(self.files[0]))

    def grade(self, answered: Iterable[tuple[Item, Response]], tools: Tools) -> Iterator[Sample]:
        match self.definition.grader.kind:
            case "math":
                from tasks.grading.math.math_grader import grade_math

                return grade_math(answered, tools.math)
            case "choice":
                from tasks.grading.choice import grade_choice

                return grade_choice(answered)
            case "exact":
                from tasks.grading.exact import grade_exact

                return grade_exact(answered)
            case "rules":
                from tasks.grading.rules.rule_grading import grade_rules

                return grade_rules(answered)

    def summarise(self, samples: Iterable[Sample]) -> Summary:
        if self.definition.grader.kind == "rules":
            from tasks.grading.rules.rule_grading import summarise_rules

            return summarise_rules(samples)
        return super().summarise(samples)

    def check(self, items: Sequence[Item], tools: Tools) -> Iterator[str]:
        """As every benchmark; rules and their arguments must be known, too."""
        yield from super().check(items, tools)
        if self.definition.grader.kind == "rules":
            from tasks.grading.rules.rule_grading import check_rules

            yield from check_rules(items)

    def gold_response(self, item: Item) -> str | None:
        if self.definition.grader.kind == "exact" and isinstance(item.gold, list):
            return f"Answer: {item.gold[0]}" if item.gold else None
        return super().gold_response(item)

    def _item(self, row: Row) -> Item:
        told = self.definition
        shown = _shown(told, row)
        detail: dict[str, JsonValue] = {name: _field(row, field) for name, field in told.detail.items()}
        if shown:
            detail["options"] = list(shown.options)
        if told.grader.several:
            detail["several"] = True
        prompts = (told.prompt,) if isinstance(told.prompt, str) else told.prompt
        group = row.get(told.group) if told.group else None
        try:
            return Item(
                id=str(_field(row, told.id)) if told.id else row.id,
                prompts=tuple(render(prompt, row, shown.options if shown else (), told.options) for prompt in prompts),
                system=render(told.system, row) if told.system else None,
                gold=shown.gold if shown else _gold(told.gold, row),
                group=None if group is None else _words(group),
                detail=without_none(detail),
            )
        except ValidationError as error:
            row.unusable(f"the item is not usable ({error.errors()[0]['msg']})")


def open_yaml(path: Path) -> SimpleBenchmark:
    """The benchmark in a YAML file. Raises BenchmarkUnusable naming file and line."""
    return SimpleBenchmark(read_definition(path), folder=path.resolve().parent)


def render(template: str, row: Row, options: tuple[str, ...] = (), layout: Options | None = None) -> str:
    """The template with each `{field}` of the row in its place; all other braces, as LaTeX has them, stay."""
    values: dict[str, Any] = dict(row)
    if layout is not None:
        letters = LETTERS[: len(options)]
        listed = [f"{letter}) {option}" for letter, option in zip(letters, options, strict=True)]
        values |= {"options": ("\n" if layout.layout == "lines" else ", ").join(listed), "letters": letters}

    def value(match: re.Match[str]) -> str:
        return _words(values[match[1]]) if match[1] in values else match[0]

    return PLACEHOLDER.sub(value, template)


def without_none(value: Any) -> Any:
    """`value` without the keys that hold nothing: the hub's tables fill absent keys with nulls."""
    if isinstance(value, dict):
        pairs = cast("dict[str, Any]", value).items()
        return {name: without_none(one) for name, one in pairs if one is not None}
    if isinstance(value, list | tuple):
        return [without_none(one) for one in cast("list[Any]", value)]
    return value


def _shown(told: Definition, row: Row) -> Shown | None:
    """The options in the order of this item, and the letter of the right one."""
    if told.options is None or told.gold is None:
        return None
    options = _options(told.options, row)
    right = _index(told.options, options, _gold(told.gold, row), row)
    order = list(range(len(options)))
    if told.options.shuffle:
        item_id = _field(row, told.id) if told.id else row.id
        random.Random(f"{told.options.seed}:{item_id}").shuffle(order)
    return Shown(tuple(options[index] for index in order), LETTERS[order.index(right)])


def _options(told: Options, row: Row) -> list[str]:
    listed = [_field(row, field) for field in told.fields] if told.fields else _field(row, cast("str", told.field))
    if not isinstance(listed, list):
        row.unusable(f"{told.field}: expected a list of options, found {type(listed).__name__}")
    options = [_words(option).strip() for option in cast("list[Any]", listed)]
    if not 2 <= len(options) <= len(LETTERS):
        row.unusable(f"expected 2 to {len(LETTERS)} options, found {len(options)}")
    return options


def _index(told: Options, options: list[str], gold: Any, row: Row) -> int:
    """Which option is right, as the data file orders them."""
    text = _words(gold).strip()
    if told.answer == "text":
        index = next((at for at, option in enumerate(options) if canonical(option) == canonical(text)), -1)
    elif told.answer == "letter":
        index = LETTERS.find(text.upper()) if len(text) == 1 else -1
    else:
        index = int(text) if text.isdecimal() else -1
    if not 0 <= index < len(options):
        row.unusable(f"the gold {text[:60]!r} is none of the {len(options)} options (as {told.answer})")
    return index


def _gold(told: Gold | None, row: Row) -> JsonValue:
    if told is None:
        return None
    value = _field(row, told.field)
    if told.boxed:
        from tasks.grading.math.math_extraction import last_boxed

        return last_boxed(_words(value)) or row.unusable(f"{told.field}: there is no \\boxed{{…}} in it")
    if told.pattern:
        match = re.search(told.pattern, _words(value))
        return match[1].strip() if match else row.unusable(f"{told.field}: {told.pattern!r} is not in it")
    return [_words(one) for one in cast("list[Any]", value)] if isinstance(value, list) else _words(value)


def _field(row: Row, name: str) -> Any:
    if name not in row:
        row.unusable(f"there is no field {name!r}; there are {', '.join(map(str, row))}")
    return row[name]


def _words(value: Any) -> str:
    if value is None:
        return ""
    return ", ".join(map(_words, cast("list[Any]", value))) if isinstance(value, list) else str(value)
