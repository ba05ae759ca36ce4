"""A suite: which models are measured on what every night, and what counts as a regression.

`read_suite` reads it from a YAML file and names file and line of what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from storage.records import Record
from tasks.evaluation.masking import masked
from tasks.nightly.nightly_errors import SuiteUnusable
from tasks.rag import STRATEGY
from tasks.rag.retrieval.strategies import StrategyName

Place = tuple[str | int, ...]
"""Where in a YAML file a value is: `("models", 0, "limit")`."""

OF_THE_SUITE = ("output_path", "save", "debug", "dry_run", "config", "as_json")
"""Options of `trivet eval run` that a suite sets itself."""
TYPED = "unsafe_code"
"""An option that only the command line may set."""
PATHS = ("data_dir", "include_path")
FILES_IN_ARGS = ("rules", "path")
"""Arguments of scripted and recorded models that are files."""
PERHAPS_LOCAL = ("pretrained", "peft", "tokenizer")
"""Arguments that are a folder or a name of the hub."""
TASK_FILES = (".yaml", ".yml", ".py")


class SuiteModel(Record):
    """A model of the suite with the options of `trivet eval run` that measure it."""

    label: str
    """Its name in reports; the history of nights goes by this name, even if the weights change."""
    flags: dict[str, JsonValue]
    """Names of `trivet eval run` → values; what the suite's `settings` and `tasks` say is among them."""
    lines: dict[str, int] = Field(default_factory=dict)
    """Name → line of the suite file, so that a refusal names it."""
    line: int
    """First line of the entry in the suite file."""


class SuiteIndex(Record):
    """An index that is refreshed before anything is measured, and then measured with questions."""

    build: dict[str, JsonValue]
    """Parameters of the flow `rag`: documents, index, embedder …"""
    questions: Path | None = None
    """JSONL of questions with their gold pages; none: the index is refreshed and not measured."""
    split: str | None = None
    """Only the questions of this split."""
    strategy: StrategyName = STRATEGY
    """How chunks are found."""
    bm25_weight: float = Field(default=1.0, ge=0)
    route: bool = True
    """Look first in the documents that a question names."""
    rerank: str | None = None
    """Cross-encoder by name or path."""
    llm: str | None = None
    """Model that answers; unset: the one configured on this machine."""
    answers: bool = False
    """Check answers too."""
    line: int = 1


class SuiteSelector(Record):
    """The training of a selector of demonstrations."""

    config: Path
    """YAML of the parameters of the flow `lever`."""
    line: int = 1


class RegressionRules(Record):
    """When a night counts as regressed."""

    fail: bool = False
    """End the night as failed, with the name `Regressed`."""
    least_drop: float = Field(default=0.0, ge=0)
    """Smaller drops of a score are tolerated, even beyond chance; in the units of the score."""


class Suite(Record):
    """A suite file, read and checked; all paths are absolute."""

    name: str
    """Stem of the file."""
    file: Path
    output: Path
    """Folder of the report, the plots and the results files; `nightly/NAME` beside the file unless said."""
    nights: int = Field(default=30, ge=2)
    """Number of nights in trends, including the last one."""
    models: tuple[SuiteModel, ...] = ()
    index: SuiteIndex | None = None
    selector: SuiteSelector | None = None
    regression: RegressionRules = RegressionRules()


class _File(BaseModel):
    """The file before its options are checked."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    output: Path | None = None
    nights: int = Field(default=30, ge=2)
    tasks: JsonValue = None
    settings: dict[str, JsonValue] = Field(default_factory=dict)
    models: list[dict[str, JsonValue]] = Field(default_factory=list[dict[str, JsonValue]])
    index: dict[str, JsonValue] | None = None
    selector: str | None = None
    regression: RegressionRules = RegressionRules()


def read_suite(path: Path, *, known: Mapping[str, Any]) -> Suite:
    """The suite in a YAML file.

    known: names of `trivet eval run` with their defaults. Raises SuiteUnusable naming file and line.
    """
    file = path.absolute()
    text = _text(path)
    plain, lines = _parsed(path, text)
    try:
        read = _File.model_validate(plain)
    except ValidationError as error:
        raise _refused(path, error, lines) from error
    if not (read.models or read.index or read.selector):
        raise SuiteUnusable(f"{path}, line 1: nothing to do; name `models` with `tasks`, an `index` or a `selector`")
    folder = file.parent
    return Suite(
        name=file.stem,
        file=file,
        output=folder / (read.output or Path("nightly", file.stem)),
        nights=read.nights,
        models=_models(read, path, lines, folder=folder, known=known),
        index=_index(read.index, path, lines, folder=folder),
        selector=_selector(read.selector, path, lines, folder=folder),
        regression=read.regression,
    )


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise SuiteUnusable(f"{path} cannot be read ({error}); name a suite file, as YAML in UTF-8") from error


def _parsed(path: Path, text: str) -> tuple[dict[str, Any], dict[Place, int]]:
    """The file's values, and the line of each."""
    import yaml

    try:
        node, plain = yaml.compose(text, Loader=yaml.SafeLoader), yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise SuiteUnusable(f"{path}, line {line}: not YAML: {error.problem}") from error
    except yaml.YAMLError as error:
        raise SuiteUnusable(f"{path} is not YAML: {error}") from error
    if not isinstance(plain, dict):
        raise SuiteUnusable(f"{path}, line 1: expected names with values, such as `models: […]` (it is {plain!r:.60})")
    return cast("dict[str, Any]", plain), dict(_lines(node, ()))


def _lines(node: Any, at: Place) -> Iterator[tuple[Place, int]]:
    import yaml

    if isinstance(node, yaml.MappingNode):
        for name, value in node.value:
            below = (*at, str(name.value))
            yield below, name.start_mark.line + 1
            yield from _lines(value, below)
    elif isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(node.value):
            yield (*at, number), value.start_mark.line + 1
            yield from _lines(value, (*at, number))


def _line(place: Place, lines: Mapping[Place, int]) -> int:
    """The line of a place, or of the nearest one around it."""
    while place and place not in lines:
        place = place[:-1]
    return lines.get(place, 1)


def _refused(path: Path, error: ValidationError, lines: Mapping[Place, int], within: Place = ()) -> SuiteUnusable:
    """The first validation error, with file and line."""
    first = error.errors()[0]
    place = (*within, *first["loc"])
    name = ".".join(str(part) for part in place)
    line = _line(place, lines)
    return SuiteUnusable(f"{path}, line {line}: {name}: {first['msg']} (it is {str(first['input'])[:60]!r})")


def _models(
    read: _File, path: Path, lines: Mapping[Place, int], *, folder: Path, known: Mapping[str, Any]
) -> tuple[SuiteModel, ...]:
    shared = _flags(read.settings, ("settings",), path, lines, known=known)
    if "tasks" in shared:
        raise SuiteUnusable(f"{path}, line {_line(('settings', 'tasks'), lines)}: name `tasks` beside `settings`")
    models: dict[str, SuiteModel] = {}
    for number, entry in enumerate(read.models):
        place: Place = ("models", number)
        line = _line(place, lines)
        own = _flags({name: value for name, value in entry.items() if name != "label"}, place, path, lines, known=known)
        flags = {"tasks": read.tasks} | shared | own
        if not flags["tasks"]:
            raise SuiteUnusable(f"{path}, line {line}: no tasks; name some here, or `tasks: […]` for all models")
        if "model" not in own:
            raise SuiteUnusable(f"{path}, line {line}: no `model`; name its backend, such as `model: openai`")
        label = str(entry.get("label") or own.get("model_name") or own["model"])
        if label in models:
            raise SuiteUnusable(
                f"{path}, line {line}: {label!r} is in line {models[label].line} too; give each model a `label` of "
                "its own"
            )
        at = {name: _line(_place_of(name, place, own=own, shared=shared), lines) for name in flags}
        models[label] = SuiteModel(label=label, flags=_anchored(flags, folder), lines=at, line=line)
    return tuple(models.values())


def _place_of(name: str, entry: Place, *, own: Mapping[str, Any], shared: Mapping[str, Any]) -> Place:
    """Where the value of a flag comes from."""
    if name in own:
        return (*entry, name)
    return ("settings", name) if name in shared else (name,)


def _flags(
    given: Mapping[str, JsonValue], place: Place, path: Path, lines: Mapping[Place, int], *, known: Mapping[str, Any]
) -> dict[str, JsonValue]:
    """Names of `trivet eval run` with their values; refuses others, and what a suite may not say."""
    flags = {name.replace("-", "_"): value for name, value in given.items()}
    for written, name in zip(given, flags, strict=True):
        where = f"{path}, line {_line((*place, written), lines)}: {written}"
        if name == TYPED:
            raise SuiteUnusable(f"{where}: no file may say that programs run without a sandbox; leave it out")
        if name in OF_THE_SUITE:
            raise SuiteUnusable(f"{where}: a suite keeps its results itself, below `output`; leave it out")
        if name not in known:
            names = ", ".join(sorted(set(known) - {*OF_THE_SUITE, TYPED}))
            raise SuiteUnusable(f"{where} is not known; give {names}")
        if isinstance(known[name], bool) and not isinstance(flags[name], bool):
            raise SuiteUnusable(f"{where}: expected true or false (it is {flags[name]!r})")
        if masked(flags[name]) != flags[name]:
            raise SuiteUnusable(
                f"{where} holds a key or a password, which would be kept with the night; name the environment variable "
                "that has it: api_key_env"
            )
    return flags


def _anchored(flags: dict[str, JsonValue], folder: Path) -> dict[str, JsonValue]:
    """The flags with paths relative to the folder of the suite made absolute."""
    found = dict(flags)
    for name in PATHS:
        if isinstance(given := found.get(name), str):
            found[name] = str(folder / given)
    for name in ("model_args", "annotator_args"):
        if found.get(name):
            found[name] = _anchored_args(found[name], folder)
    if isinstance(judge := found.get("annotator_model"), str) and judge.startswith(("scripted:", "replay:")):
        backend, _, file = judge.partition(":")
        found["annotator_model"] = f"{backend}:{folder / file}"
    found["tasks"] = _anchored_tasks(found["tasks"], folder)
    return found


def _anchored_args(given: JsonValue, folder: Path) -> JsonValue:
    from models.backends import parse_model_args
    from models.model_errors import ModelUnavailable

    if isinstance(given, str):
        try:
            given = dict(parse_model_args(given))
        except (ModelUnavailable, ValueError):
            return given  # the reader of the flags reports what is wrong, with the line
    if not isinstance(given, dict):
        return given
    args = dict(given)
    for name, value in given.items():
        local = name in FILES_IN_ARGS or (name in PERHAPS_LOCAL and (folder / str(value)).exists())
        if isinstance(value, str) and local:
            args[name] = str(folder / value)
    return args


def _anchored_tasks(given: JsonValue, folder: Path) -> JsonValue:
    words = given.split(",") if isinstance(given, str) else given
    if not isinstance(words, list):
        return given
    return [_anchored_task(word, folder) for word in words]


def _anchored_task(word: JsonValue, folder: Path) -> JsonValue:
    if isinstance(word, dict):
        return word | {"task_name": _anchored_task(word.get("task_name"), folder)}
    if not isinstance(word, str):
        return word
    file, colon, name = word.strip().partition(":")
    return f"{folder / file}{colon}{name}" if Path(file).suffix in TASK_FILES else word.strip()


def _index(
    given: dict[str, JsonValue] | None, path: Path, lines: Mapping[Place, int], *, folder: Path
) -> SuiteIndex | None:
    if given is None:
        return None
    line = _line(("index",), lines)
    for needed in ("documents", "index"):
        if not isinstance(given.get(needed), str):
            raise SuiteUnusable(f"{path}, line {line}: index: `{needed}` is missing; name a folder")
    own = {name: value for name, value in given.items() if name in SuiteIndex.model_fields}
    build = {name: value for name, value in given.items() if name not in SuiteIndex.model_fields}
    for name in ("documents", "index", "metadata"):
        if isinstance(build.get(name), str):
            build[name] = str(folder / str(build[name]))
    if isinstance(own.get("questions"), str):
        own["questions"] = str(folder / str(own["questions"]))
    for taken in ("build", "line"):
        if taken in given:
            raise SuiteUnusable(f"{path}, line {_line(('index', taken), lines)}: index.{taken} is not known")
    try:
        return SuiteIndex.model_validate({**own, "build": build, "line": line})
    except ValidationError as error:
        raise _refused(path, error, lines, ("index",)) from error


def _selector(given: str | None, path: Path, lines: Mapping[Place, int], *, folder: Path) -> SuiteSelector | None:
    if given is None:
        return None
    line = _line(("selector",), lines)
    if not (folder / given).is_file():
        raise SuiteUnusable(
            f"{path}, line {line}: selector: there is no file {folder / given}; name the YAML file of a "
            "`trivet lever run`"
        )
    return SuiteSelector(config=folder / given, line=line)
