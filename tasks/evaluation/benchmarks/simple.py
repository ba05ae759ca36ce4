"""Benchmarks in YAML files: the schema of a file, and how it becomes items, prompts and a grader."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

import regex
from pydantic import Field, JsonValue, ValidationError, field_validator, model_validator

from storage.records import Record
from tasks.evaluation.benchmarks.base import BaseBenchmark, Summary, Tools
from tasks.evaluation.evaluation_errors import BenchmarkUnusable
from tasks.evaluation.evaluation_records import Example, Family, Item, Response, Sample, Sampling
from tasks.evaluation.running.benchmark_data import Data, DataFile, Row
from tasks.evaluation.yaml_file import read_yaml
from tasks.grading.choice import LETTERS, canonicalize, grade_choice
from tasks.grading.exact import Measure, are_same_words, f1, grade_exact, grade_text, includes, matches
from tasks.grading.reading import FLEXIBLE, STRICT, Rule, Step, count_groups
from tasks.grading.sample_statistics import tally_samples, unscored_metric
from tasks.measure.estimates import estimate_groups

NAME = r"^[A-Za-z][A-Za-z0-9_.-]*$"
PLACEHOLDER = re.compile(r"\{([^{}\n]{1,100})\}")
READING = ("math", "choice", "exact")
"""Kinds of graders that extract an answer from each response, under several policies."""
MEASURES: dict[str, Measure] = {"includes": includes, "f1": f1}
WITHOUT_GOLD = ("rules", "regex")
HARNESS_METRIC = "was removed: a YAML task of the lm-evaluation-harness has it in `metric_list`, and runs here too"
REMOVED = {
    "rouge": HARNESS_METRIC,
    "bleu": HARNESS_METRIC,
    "rubric": "was removed, as its judge's words were ours and compare with nothing; a class has a judge's prompt of "
    "your own (JudgedBenchmark; tests/recipes/add_a_benchmark.md shows one)",
}
"""Kind of grader of earlier versions → what takes its place."""


class Examples(DataFile):
    """Solved items, a training split say, from which a run may show demonstrations."""

    answer: str = Field(min_length=1)
    """Answer that is shown for an example; `{gold}` stands for the right answer, `{field}` for a field of its row."""


class Gold(Record):
    """Where the right answer stands in a row of the data."""

    field: str
    pattern: str | None = None
    """Regular expression; its one group is the answer."""
    boxed: bool = False
    """The answer is the last `\\boxed{…}` in the field."""

    @field_validator("pattern")
    @classmethod
    def _has_a_group(cls, pattern: str | None) -> str | None:
        if pattern is not None and (groups := count_groups(pattern)) != 1:
            raise ValueError(f"expected one group, the answer; it has {groups}")
        return pattern


class Options(Record):
    """Answer options; the prompt shows them as `{options}` and their letters as `{letters}`."""

    field: str | None = None
    """A field with the list of options."""
    fields: tuple[str, ...] = ()
    """Fields of the options, one for each, where no single field lists them."""
    answer: Literal["letter", "index", "text"] = "letter"
    """Whether the gold is the letter, the index (from 0) or the text of the right option."""
    shuffle: bool = False
    """Put the options of each item in an order of its own, the same in every run."""
    seed: int = 0
    """Seed of the shuffle, which is combined with the ID of each item."""
    layout: Literal["lines", "line"] = "lines"
    """Whether the prompt shows one option a line, or all options on one line."""

    @model_validator(mode="after")
    def _one_source(self) -> Options:
        if bool(self.field) == bool(self.fields):
            raise ValueError("name the options by `field` (a list) or by `fields` (one for each), and not by both")
        return self


class Grader(Record):
    """The grader that a YAML benchmark names, with its options."""

    kind: Literal["math", "choice", "exact", "rules", "includes", "regex", "f1"]
    several: bool = False
    """True for multiple choice with several right letters and partial credit."""
    published: tuple[Step, ...] = ()
    """How the source reads answers: the first step that finds one decides. A step is `last_box`, `strict`, `flexible`,
    or a regular expression whose first group is the answer, `{first: …}` or `{last: …}` by the match that decides.
    Unset: strict for mathematics, flexible for letters and words."""
    pattern: str | None = None
    """Of `regex`: is sought in the response; what its group matched last is compared with the gold, if there is one."""

    @field_validator("kind", mode="before")
    @classmethod
    def _is_still_here(cls, kind: object) -> object:
        if why := REMOVED.get(str(kind)):
            raise ValueError(why)
        return kind

    @field_validator("pattern")
    @classmethod
    def _is_a_pattern(cls, pattern: str | None) -> str | None:
        if pattern is not None:
            count_groups(pattern)
        return pattern

    @model_validator(mode="after")
    def _has_its_own(self) -> Grader:
        """Return the grader. Raises ValueError where `pattern` or `published` does not go with its kind."""
        if (self.pattern is not None) != (self.kind == "regex"):
            needed = "needs" if self.kind == "regex" else "does not take"
            raise ValueError(f"a {self.kind} grader {needed} `pattern`")
        if self.published and self.kind not in READING:
            raise ValueError(f"a {self.kind} grader reads no answer, so it takes no `published`")
        return self


class Definition(Record):
    """The content of a benchmark's YAML file."""

    name: str = Field(pattern=NAME)
    version: int = Field(default=1, ge=1)
    summary: str = ""
    family: Family = "own"
    data: DataFile
    examples: Examples | None = None
    ids: tuple[str, ...] = ()
    """IDs of the items that belong to the benchmark, where the file holds others too; empty for all."""
    id: str | None = None
    """Field with the item's id; else id, unique_id, idx, key, question_id, task_id, or the row number."""
    prompt: str | tuple[str, ...] = Field(min_length=1)
    """Prompt, or a list with one per turn; `{field}` stands for a field of the row, other braces for themselves."""
    system: str | None = None
    gold: Gold | None = None
    """A field name, or `{field, pattern}`, or `{field, boxed: true}`."""
    group: str | None = None
    """Field whose values form the groups for which metrics are given too."""
    detail: dict[str, str] = Field(default_factory=dict)
    """Further input of the grader: name under which the grader finds it, and field of the row."""
    options: Options | None = None
    sampling: Sampling = Sampling()
    repeats: int = Field(default=1, ge=1, le=1000)
    grader: Grader
    format_checked_only: bool = False
    """Whether the definition was written without access to the real data."""

    @field_validator("gold", mode="before")
    @classmethod
    def _a_field_name_is_short_for_a_gold(cls, gold: Any) -> Any:
        return {"field": gold} if isinstance(gold, str) else gold

    @model_validator(mode="after")
    def _grader_has_what_it_needs(self) -> Definition:
        """Return the definition. Raises ValueError where the grader lacks a field, or examples cannot be shown."""
        if self.grader.kind not in WITHOUT_GOLD and self.gold is None:
            raise ValueError(f"a {self.grader.kind} grader needs `gold`, the field with the right answer")
        if self.grader.kind == "rules" and {"instruction_id_list", "kwargs"} - self.detail.keys():
            raise ValueError("a rules grader needs `detail` with the fields of instruction_id_list and kwargs")
        if self.examples and not isinstance(self.prompt, str):
            raise ValueError("an example shows one prompt and its answer, and here are several turns; leave `examples`")
        return self


PARTS = {"data": DataFile, "gold": Gold, "options": Options, "sampling": Sampling, "grader": Grader}
"""Records of those keys of a definition whose values have keys of their own."""


def open_yaml(path: Path) -> SimpleBenchmark:
    """Return the benchmark in a YAML file. Raises BenchmarkUnusable, naming file and line."""
    file = read_yaml(path, BenchmarkUnusable, expected="`name`, `data`, `prompt` … of a benchmark")
    for key, line in file.repeated:
        raise BenchmarkUnusable(f"{path}, line {line}: {key!r} stands there twice")
    try:
        return SimpleBenchmark(Definition.model_validate(file.values), folder=path.resolve().parent)
    except ValidationError as error:
        sentences: list[str] = []
        for problem in error.errors():
            message, place = problem["msg"].removeprefix("Value error, "), problem["loc"]
            if problem["type"] == "extra_forbidden":
                kind = PARTS.get(str(place[0]), Definition) if len(place) == 2 else Definition
                message = f"there is no such key; there are {', '.join(kind.model_fields)}"
            elif problem["type"] == "missing":
                message = "is missing"
            keys = ".".join(str(part) for part in place if part not in ("str", "tuple[str, ...]"))
            sentences.append(f"{path}, line {file.line(*place)}: {keys + ': ' if keys else ''}{message}")
        raise BenchmarkUnusable("; ".join(sentences)) from error


class ShuffledOptions(NamedTuple):
    """The options of an item in the order in which they are shown."""

    options: tuple[str, ...]
    gold: str
    """Letter of the right option in this order."""


class SimpleBenchmark(BaseBenchmark):
    """A benchmark that is defined by a YAML file."""

    def __init__(self, definition: Definition, *, folder: Path) -> None:
        """Take name, version, sampling and files from a definition. folder: that of its YAML, searched for data too."""
        super().__init__()
        self.definition = definition
        self.name = definition.name
        self.version = definition.version
        self.summary = definition.summary
        self.family = definition.family
        self.sampling = definition.sampling
        self.repeats = definition.repeats
        self.format_checked_only = definition.format_checked_only
        self.reads_answers = definition.grader.kind in READING
        place = {"beside": str(folder)}
        self.files = (definition.data.model_copy(update=place),)
        self.example_file = definition.examples.model_copy(update=place) if definition.examples else None

    def read_row(self, row: Row) -> Iterator[Item]:
        item = self._item(row)
        if not self.definition.ids or item.id in self.definition.ids:
            yield item

    def examples(self, data: Data) -> Iterator[Example]:
        """Yield the solved items of the example file, by ID `example ID`. Raises DataUnusable for an odd row."""
        solved_items = self.definition.examples
        assert solved_items
        assert self.example_file
        for row in data.rows(self.example_file):
            item = self._item(row)
            solved = Row({**row, "gold": item.gold}, file=row.file, line=row.line, number=row.number)
            yield Example(id=f"example {item.id}", prompt=item.prompts[0], answer=render(solved_items.answer, solved))

    def question_in(self, prompt: str) -> str:
        """Return a prompt without the fixed words of its template; unchanged if the template has several turns."""
        template = self.definition.prompt
        # of the parts every second is a name, which the pattern captures
        for words in PLACEHOLDER.split(template)[::2] if isinstance(template, str) else ():
            prompt = prompt.replace(words.strip(), "", 1)
        return prompt.strip()

    def grade(self, answered: Iterable[tuple[Item, Response]], tools: Tools) -> Iterator[Sample]:
        """Yield a sample for each response, in order, by the grader of the definition."""
        grader = self.definition.grader
        default = STRICT if grader.kind == "math" else FLEXIBLE
        rule = Rule(grader.published or default.published, headline=tools.extract)
        match grader.kind:
            case "math":
                from tasks.grading.math.math_grader import grade_math

                return grade_math(answered, tools.math, rule)
            case "choice":
                return grade_choice(answered, rule)
            case "exact":
                return grade_exact(answered, rule)
            case "rules":
                from tasks.grading.rules.rule_grading import grade_rules

                return grade_rules(answered)
            case kind:
                return grade_text(answered, matches(grader.pattern) if grader.pattern else MEASURES[kind])

    def summarise(self, samples: Iterable[Sample]) -> Summary:
        """Return the figures of all samples: of rules, the mean f1, or accuracies."""
        match self.definition.grader.kind:
            case "rules":
                from tasks.grading.rules.rule_grading import summarise_rules

                return summarise_rules(samples)
            case "f1":  # mean scores from 0 to 1, which are no shares of right answers
                totals = tally_samples(samples)
                headline = estimate_groups("f1", totals.scores, groups=totals.groups, headline=True)
                value = headline[0].value if headline else None
                metrics: dict[str, JsonValue] = {"num_total": totals.counts.items, "f1": value}
                return Summary(metrics | unscored_metric(totals.counts), headline, totals.counts)
            case _:
                return super().summarise(samples)

    def same_answer(self, first: str, second: str) -> bool:
        """Return whether two extracted answers count as one vote."""
        match self.definition.grader.kind:
            case "math":
                from tasks.grading.math.math_grader import shared_grader

                return shared_grader().compare(first, second).equal
            case "exact":
                return are_same_words(first, second)
            case _:
                return first == second

    def check(self, items: Sequence[Item], tools: Tools) -> Iterator[str]:
        """Yield the problems that the base class finds, and unknown rules or arguments of rules."""
        yield from super().check(items, tools)
        if self.definition.grader.kind == "rules":
            from tasks.grading.rules.rule_grading import check_rules

            yield from check_rules(items)

    def gold_response(self, item: Item) -> str | None:
        """Return a response that the grader has to accept; None where no gold tells one."""
        kind, gold = self.definition.grader.kind, item.gold
        if kind == "exact" and isinstance(gold, list):
            return f"Answer: {gold[0]}" if gold else None
        if kind in (*READING, "rules"):
            return super().gold_response(item)
        first = next(iter(gold), None) if isinstance(gold, list) else gold
        return str(first) if kind in MEASURES and first is not None else None

    def _item(self, row: Row) -> Item:
        """Return the item of a row, with prompts, options and gold as the definition has them. Raises DataUnusable."""
        definition = self.definition
        shuffled = _shuffle_options(definition, row)
        detail: dict[str, JsonValue] = {name: _read_field(row, field) for name, field in definition.detail.items()}
        if shuffled:
            detail["options"] = list(shuffled.options)
        if definition.grader.several:
            detail["several"] = True
        prompts = (definition.prompt,) if isinstance(definition.prompt, str) else definition.prompt
        group = row.get(definition.group) if definition.group else None
        try:
            return Item(
                id=str(_read_field(row, definition.id)) if definition.id else row.id,
                prompts=tuple(
                    render(prompt, row, shuffled.options if shuffled else (), definition.options) for prompt in prompts
                ),
                system=render(definition.system, row) if definition.system else None,
                gold=shuffled.gold if shuffled else _read_gold(definition.gold, row),
                group=None if group is None else _join_words(group),
                detail=drop_none(detail),
            )
        except ValidationError as error:
            row.unusable(f"the item is not usable ({error.errors()[0]['msg']})")


def render(template: str, row: Row, options: tuple[str, ...] = (), layout: Options | None = None) -> str:
    """Return the template with the row's values for `{field}`, lists joined by `, `, and options; other braces stay."""
    values: dict[str, Any] = dict(row)
    if layout is not None:
        letters = LETTERS[: len(options)]
        listed = [f"{letter}) {option}" for letter, option in zip(letters, options, strict=True)]
        values |= {"options": ("\n" if layout.layout == "lines" else ", ").join(listed), "letters": letters}

    def value(match: re.Match[str]) -> str:
        return _join_words(values[match[1]]) if match[1] in values else match[0]

    return PLACEHOLDER.sub(value, template)


def drop_none(value: Any) -> Any:
    """Return `value` without keys that are None, at any depth: the hub's tables fill absent keys with nulls."""
    if isinstance(value, dict):
        pairs = cast("dict[str, Any]", value).items()
        return {name: drop_none(field) for name, field in pairs if field is not None}
    if isinstance(value, list | tuple):
        return [drop_none(entry) for entry in cast("list[Any]", value)]
    return value


def _shuffle_options(definition: Definition, row: Row) -> ShuffledOptions | None:
    """Return the options as shown and the right letter; None without options or gold. Raises DataUnusable."""
    source = definition.options
    if source is None or definition.gold is None:
        return None
    if source.field is not None:
        listed = _read_field(row, source.field)
        if not isinstance(listed, list):
            row.unusable(f"{source.field}: expected a list of options, found {type(listed).__name__}")
    else:
        listed = [_read_field(row, field) for field in source.fields]
    options = [_join_words(option).strip() for option in cast("list[Any]", listed)]
    if not 2 <= len(options) <= len(LETTERS):
        row.unusable(f"expected 2 to {len(LETTERS)} options, found {len(options)}")

    # which of them is right, in the order of the data file
    text = _join_words(_read_gold(definition.gold, row)).strip()
    if source.answer == "text":
        right = next((index for index, option in enumerate(options) if canonicalize(option) == canonicalize(text)), -1)
    elif source.answer == "letter":
        right = LETTERS.find(text.upper()) if len(text) == 1 else -1
    else:
        right = int(text) if text.isdecimal() else -1
    if not 0 <= right < len(options):
        row.unusable(f"the gold {text[:60]!r} is none of the {len(options)} options (as {source.answer})")

    order = list(range(len(options)))
    if source.shuffle:
        item_id = _read_field(row, definition.id) if definition.id else row.id
        random.Random(f"{source.seed}:{item_id}").shuffle(order)  # of a text: the same everywhere, unlike hash()
    return ShuffledOptions(tuple(options[index] for index in order), LETTERS[order.index(right)])


def _read_gold(gold: Gold | None, row: Row) -> JsonValue:
    """Return a row's gold as text or texts: its field, the last box in it, or the first match. Raises DataUnusable."""
    if gold is None:
        return None
    value = _read_field(row, gold.field)
    if gold.boxed:
        from tasks.grading.math.boxes import last_boxed

        return last_boxed(_join_words(value)) or row.unusable(f"{gold.field}: there is no \\boxed{{…}} in it")
    if gold.pattern:
        match = regex.search(gold.pattern, _join_words(value))
        return match[1].strip() if match and match[1] else row.unusable(f"{gold.field}: {gold.pattern!r} is not in it")
    return [_join_words(entry) for entry in cast("list[Any]", value)] if isinstance(value, list) else _join_words(value)


def _read_field(row: Row, name: str) -> Any:
    if name not in row:
        row.unusable(f"there is no field {name!r}; there are {', '.join(map(str, row))}")
    return row[name]


def _join_words(value: Any) -> str:
    if value is None:
        return ""
    return ", ".join(map(_join_words, cast("list[Any]", value))) if isinstance(value, list) else str(value)
