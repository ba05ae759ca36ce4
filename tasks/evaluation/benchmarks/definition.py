"""What a benchmark's YAML file may say, and how it is read: every mistake is named with file and line."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import Any, Literal, cast

from pydantic import Field, ValidationError, field_validator, model_validator

from storage.records import Record
from tasks.evaluation.evaluation_errors import BenchmarkUnusable
from tasks.evaluation.evaluation_records import Family, Sampling

NAME = r"^[A-Za-z][A-Za-z0-9_.-]*$"


class DataSource(Record):
    """Where the items are."""

    file: str = Field(min_length=1)
    """Name in `--data-dir`, or beside the YAML file."""
    hub: str | None = None
    """Id on the Hugging Face hub."""
    config: str | None = None
    split: str | None = None
    get: str = ""
    """One sentence: where to get it."""


class Gold(Record):
    """Where the right answer stands in a row."""

    field: str
    pattern: str | None = None
    """Regular expression; its one group is the answer."""
    boxed: bool = False
    """The answer is the last `\\boxed{…}` in the field."""

    @field_validator("pattern")
    @classmethod
    def _has_a_group(cls, pattern: str | None) -> str | None:
        if pattern is not None:
            try:
                groups = re.compile(pattern).groups
            except re.error as error:
                raise ValueError(f"not a regular expression ({error})") from error
            if groups != 1:
                raise ValueError(f"expected one group, the answer; it has {groups}")
        return pattern


class Options(Record):
    """What there is to choose from; the prompt shows it as `{options}` and the letters as `{letters}`."""

    field: str | None = None
    """A field with the list of options."""
    fields: tuple[str, ...] = ()
    """Or a field for each option."""
    answer: Literal["letter", "index", "text"] = "letter"
    """What the gold is."""
    shuffle: bool = False
    """Put the options of each item in an order of its own, the same in every run."""
    seed: int = 0
    """Seed of the shuffle."""
    layout: Literal["lines", "line"] = "lines"
    """One option a line, or all on one."""

    @model_validator(mode="after")
    def _one_source(self) -> Options:
        if bool(self.field) == bool(self.fields):
            raise ValueError("name the options by `field` (a list) or by `fields` (one for each), and not by both")
        return self


class Grader(Record):
    """Who grades."""

    kind: Literal["math", "choice", "exact", "rules"]
    several: bool = False
    """True for multiple choice with several right letters and partial credit."""


class Definition(Record):
    """A benchmark as a YAML file has it."""

    name: str = Field(pattern=NAME)
    version: int = Field(default=1, ge=1)
    summary: str = ""
    family: Family = "own"
    data: DataSource
    id: str | None = None
    """Field with the item's id; else id, unique_id, idx, key, question_id, task_id, or the row number."""
    prompt: str | tuple[str, ...] = Field(min_length=1)
    """Words to the model, or a list of them, one a turn; `{field}` stands for a field of the row. Other braces stay."""
    system: str | None = None
    gold: Gold | None = None
    """A field name, or `{field, pattern}`, or `{field, boxed: true}`."""
    group: str | None = None
    """Field by which figures are grouped."""
    detail: dict[str, str] = Field(default_factory=dict)
    """Name → field: what else the grader needs."""
    options: Options | None = None
    sampling: Sampling = Sampling()
    repeats: int = Field(default=1, ge=1, le=1000)
    grader: Grader
    format_checked_only: bool = False
    """The real data was not at hand when it was written."""

    @field_validator("gold", mode="before")
    @classmethod
    def _a_field_name_is_short_for_a_gold(cls, gold: Any) -> Any:
        return {"field": gold} if isinstance(gold, str) else gold

    @field_validator("prompt", mode="before")
    @classmethod
    def _lists_are_tuples(cls, prompt: Any) -> Any:
        return tuple(cast("list[Any]", prompt)) if isinstance(prompt, list) else prompt

    @model_validator(mode="after")
    def _grader_has_what_it_needs(self) -> Definition:
        if self.grader.kind != "rules" and self.gold is None:
            raise ValueError(f"a {self.grader.kind} grader needs `gold`, the field with the right answer")
        if self.grader.kind == "rules" and {"instruction_id_list", "kwargs"} - self.detail.keys():
            raise ValueError("a rules grader needs `detail` with the fields of instruction_id_list and kwargs")
        return self


def read_definition(path: Path) -> Definition:
    """The definition in a YAML file. Raises BenchmarkUnusable naming file and line."""
    import yaml

    try:
        text = path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise BenchmarkUnusable(f"{path}: cannot be read as UTF-8 text ({error})") from error
    try:
        root = yaml.compose(text, Loader=_loader())
        plain = yaml.load(text, Loader=_loader())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        raise BenchmarkUnusable(f"{path}, line {line}: not YAML ({error.problem or error.context})") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise BenchmarkUnusable(f"{path}: not YAML ({error})") from error
    if not isinstance(plain, dict):
        raise BenchmarkUnusable(f"{path}, line 1: expected `name`, `data`, `prompt` … of a benchmark")
    for key, line in _repeated_keys(root):
        raise BenchmarkUnusable(f"{path}, line {line}: {key!r} stands there twice")
    try:
        return Definition.model_validate(plain)
    except ValidationError as error:
        raise BenchmarkUnusable("; ".join(_sentences(error, root, path))) from error


def _loader() -> Any:
    import yaml

    # the same as SafeLoader, in C and ten times as fast
    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _sentences(error: ValidationError, root: Any, path: Path) -> Iterator[str]:
    for one in error.errors():
        message = one["msg"].removeprefix("Value error, ")
        keys = ".".join(str(part) for part in one["loc"] if part not in ("str", "tuple[str, ...]"))
        if one["type"] == "extra_forbidden":
            message = f"there is no such key; there are {', '.join(_keys_at(one['loc'][:-1]))}"
        elif one["type"] == "missing":
            message = "is missing"
        yield f"{path}, line {_line_of(root, one['loc'])}: {keys + ': ' if keys else ''}{message}"


def _keys_at(loc: tuple[int | str, ...]) -> list[str]:
    kinds: dict[tuple[int | str, ...], type[Record]] = {
        (): Definition,
        ("data",): DataSource,
        ("gold",): Gold,
        ("options",): Options,
        ("sampling",): Sampling,
        ("grader",): Grader,
    }
    return list(kinds.get(loc, Definition).model_fields)


def _line_of(node: Any, loc: tuple[int | str, ...]) -> int:
    """1-based line of the key that `loc` leads to; of the innermost one that is there."""
    line = node.start_mark.line + 1
    for part in loc:
        pairs = cast("list[tuple[Any, Any]]", node.value if node.id == "mapping" else [])
        found = next(((key, value) for key, value in pairs if key.value == part), None)
        if found is None:
            break
        line, node = found[0].start_mark.line + 1, found[1]
    return line


def _repeated_keys(node: Any) -> Iterator[tuple[str, int]]:
    """Keys that stand twice in one mapping: YAML forbids them, and PyYAML takes the last."""
    if node.id != "mapping":
        return
    seen = set[Hashable]()
    for key, value in node.value:
        if key.value in seen:
            yield str(key.value), key.start_mark.line + 1
        if isinstance(key.value, str):
            seen.add(key.value)
        yield from _repeated_keys(value)
