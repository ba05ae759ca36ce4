"""Reads suites: which models meet which benchmarks every night, and what counts as a regression."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from storage.engines import is_address, read_address
from storage.records import Record
from storage.storage_errors import NotAnIndex
from tasks.evaluation.evaluation_records import mask_secrets
from tasks.evaluation.yaml_file import Place, YamlFile, read_yaml
from tasks.nightly.night_records import SuiteUnusable
from tasks.rag import STRATEGY
from tasks.rag.retrieval.strategies import StrategyName

OF_THE_SUITE = ("output_path", "save", "debug", "dry_run", "config", "as_json")
"""Options of `trivet eval run` that a suite sets itself."""
REMOVED = {
    "judge": "nights no longer ask a judge what people have labelled; leave the line out",
    "index.bm25_weight": "it is 1; `trivet rag eval --bm25-weight` measures another",
    "index.route": "the documents that a question names are searched first; leave the line out",
    "index.split": "write the lines of that split to a file, and name it as `questions`",
    "regression.least_drop": "what is beyond noise counts, however small; leave the line out",
}
"""Keys of suites of earlier versions, and what to do instead."""
FILES_IN_ARGS = ("rules", "path")
"""Arguments of scripted and recorded models that are files."""
PERHAPS_LOCAL = ("pretrained", "peft", "tokenizer")
"""Arguments that are a folder or a name of the hub."""
TASK_FILES = (".yaml", ".yml", ".py")


class SuiteModel(Record):
    """A model of the suite with its options of `trivet eval run`."""

    label: str
    """Name of the model in reports, and in the history of nights even if the weights change."""
    flags: dict[str, JsonValue]
    """Values by option of `trivet eval run`, including the suite's `settings` and `tasks`."""
    lines: dict[str, int] = Field(default_factory=dict)
    """Line of the suite file by option, for error messages."""
    line: int


class SuiteIndex(Record):
    """An index that is refreshed before the models are measured, and measured with questions."""

    build: dict[str, JsonValue]
    """Parameters of the flow `rag`: documents, index, embedder …"""
    questions: Path | None = None
    """JSONL of questions with their gold pages; None: the index is only refreshed."""
    strategy: StrategyName = STRATEGY
    """Retrieval strategy by which passages are found."""
    rerank: str | None = None
    """Name or path of the cross-encoder that reranks passages; None for none."""
    llm: str | None = None
    """Model that answers. Unset: the one configured on this machine."""
    answers: bool = False
    """Whether answers are generated and checked too."""
    line: int = 1


class SuiteSelector(Record):
    """The training of a selector of demonstrations."""

    config: Path
    """YAML of the parameters of the flow `lever`."""
    line: int = 1


class RegressionRules(Record):
    """The rules by which a night counts as regressed."""

    fail: bool = False
    """End the night as failed, with the state name `Regressed`."""


class NightBudget(Record):
    """Limits of a night's cost and tokens, beyond which a warning is sent; the night goes on."""

    cost: float | None = Field(default=None, gt=0)
    """Money of the model calls of this night's runs, in the currency of the prices."""
    tokens: int | None = Field(default=None, gt=0)
    """Tokens of all model calls that were stored since the night began."""

    def exceeded(self, *, cost: float, tokens: int) -> str | None:
        """Return in words what is over the budget, None within it; cost: in the currency of the prices."""
        over: list[str] = []
        if self.cost is not None and cost > self.cost:
            over.append(f"{cost:,.2f} of {self.cost:,.2f} in money")
        if self.tokens is not None and tokens > self.tokens:
            over.append(f"{tokens:,} of {self.tokens:,} tokens")
        return f"over its budget: {' and '.join(over)} spent so far" if over else None


class Suite(Record):
    """A suite file, read and checked; all paths are absolute."""

    name: str
    """Name of the suite: the stem of its file."""
    file: Path
    output: Path
    """Folder of report, plots and results files. Unset: `nightly/NAME` beside the file."""
    nights: int = Field(default=30, ge=2)
    """Number of nights in trends, including the last one."""
    models: tuple[SuiteModel, ...] = ()
    index: SuiteIndex | None = None
    selector: SuiteSelector | None = None
    regression: RegressionRules = RegressionRules()
    budget: NightBudget = NightBudget()


class _File(BaseModel):
    """The suite file before the options of its models are checked."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    output: Path | None = None
    nights: int = Field(default=30, ge=2)
    tasks: JsonValue = None
    settings: dict[str, JsonValue] = Field(default_factory=dict)
    models: list[dict[str, JsonValue]] = Field(default_factory=list[dict[str, JsonValue]])
    index: dict[str, JsonValue] | None = None
    selector: str | None = None
    regression: RegressionRules = RegressionRules()
    budget: NightBudget = NightBudget()


def read_suite(path: Path) -> Suite:
    """Return the suite in a file. Raises SuiteUnusable; the meaning of options is checked later, by who reads them."""
    yaml = read_yaml(path, SuiteUnusable, expected="names with values, such as `models: […]`")
    for name, instead in REMOVED.items():
        outer, _, key = name.rpartition(".")
        table = yaml.values.get(outer) if outer else yaml.values
        if isinstance(table, dict) and key in table:
            raise _refusal(yaml, tuple(name.split(".")), f"{name} was removed: {instead}")
    try:
        read = _File.model_validate(yaml.values)
    except ValidationError as error:
        raise _refusal_of_first_error(yaml, error) from error
    if not (read.models or read.index or read.selector):
        raise SuiteUnusable(f"{path}, line 1: nothing to do; name `models` with `tasks`, an `index` or a `selector`")
    file = path.absolute()
    if read.selector is not None and not (file.parent / read.selector).is_file():
        why = f"there is no file {file.parent / read.selector}; name the YAML file of a `trivet lever run`"
        raise _refusal(yaml, ("selector",), f"selector: {why}")
    return Suite(
        name=file.stem,
        file=file,
        output=file.parent / (read.output or Path("nightly", file.stem)),
        nights=read.nights,
        models=_read_models(read, yaml, folder=file.parent),
        index=None if read.index is None else _read_index(read.index, yaml, folder=file.parent),
        selector=SuiteSelector(config=file.parent / read.selector, line=yaml.line("selector"))
        if read.selector
        else None,
        regression=read.regression,
        budget=read.budget,
    )


def _refusal(yaml: YamlFile, place: Place, why: str) -> SuiteUnusable:
    """Return the error to raise, with the line of the suite file at which `place` stands."""
    return SuiteUnusable(f"{yaml.path}, line {yaml.line(*place)}: {why}")


def _refusal_of_first_error(yaml: YamlFile, error: ValidationError, within: Place = ()) -> SuiteUnusable:
    """Return the first validation error as one to raise, with file and line."""
    first = error.errors()[0]
    place = (*within, *first["loc"])
    name = ".".join(str(part) for part in place)
    return _refusal(yaml, place, f"{name}: {first['msg']} (it is {str(first['input'])[:60]!r})")


def _read_models(read: _File, yaml: YamlFile, *, folder: Path) -> tuple[SuiteModel, ...]:
    """Return the models with their options: their own, then those of `settings`. Raises SuiteUnusable."""
    shared = _read_options(read.settings, ("settings",), yaml)
    if "tasks" in shared:
        raise _refusal(yaml, ("settings", "tasks"), "name `tasks` beside `settings`")
    models: dict[str, SuiteModel] = {}
    for number, entry in enumerate(read.models):
        place: Place = ("models", number)
        own = _read_options({name: value for name, value in entry.items() if name != "label"}, place, yaml)
        flags = {"tasks": read.tasks} | shared | own  # the nearest wins
        if not flags["tasks"]:
            raise _refusal(yaml, place, "no tasks; name some here, or `tasks: […]` for all models")
        if "model" not in own:
            raise _refusal(yaml, place, "no `model`; name its backend, such as `model: openai`")
        label = str(entry.get("label") or own.get("model_name") or own["model"])
        if label in models:
            why = f"{label!r} is in line {models[label].line} too; give each model a `label` of its own"
            raise _refusal(yaml, place, why)
        places = {name: place if name in own else ("settings",) if name in shared else () for name in flags}
        models[label] = SuiteModel(
            label=label,
            flags={name: _anchor(name, value, folder) for name, value in flags.items()},
            lines={name: yaml.line(*within, name) for name, within in places.items()},
            line=yaml.line(*place),
        )
    return tuple(models.values())


def _read_options(options: Mapping[str, JsonValue], place: Place, yaml: YamlFile) -> dict[str, JsonValue]:
    """Return options of `trivet eval run` under their names, with underscores for hyphens.

    Raises SuiteUnusable for options that a suite may not set, and for values that hold a key or a password.
    """
    for option, value in options.items():
        if option.replace("-", "_") in OF_THE_SUITE:
            why = ": a suite keeps its results itself, below `output`; leave it out"
            raise _refusal(yaml, (*place, option), f"{option}{why}")
        if mask_secrets(value) != value:
            why = "would be kept with the night; name the environment variable that has it: api_key_env"
            raise _refusal(yaml, (*place, option), f"{option} holds a key or a password, which {why}")
    return {name.replace("-", "_"): value for name, value in options.items()}


def _anchor(name: str, value: JsonValue, folder: Path) -> JsonValue:
    """Return an option's value with absolute paths; arguments written as one text become a dict, and tasks a list."""
    match name:
        case "data_dir" | "include_path" if isinstance(value, str):
            return str(folder / value)
        case "model_args" | "annotator_args" if value:
            from models.backends import parse_model_args
            from models.model_errors import ModelUnavailable

            try:
                args = dict(parse_model_args(value)) if isinstance(value, str) else value
            except (ModelUnavailable, ValueError):
                return value  # the reader of the flags reports what is wrong, with the line
            if not isinstance(args, dict):
                return args
            paths = {arg: folder / text for arg, text in args.items() if isinstance(text, str)}
            files = [arg for arg in paths if arg in FILES_IN_ARGS or (arg in PERHAPS_LOCAL and paths[arg].exists())]
            return args | {arg: str(paths[arg]) for arg in files}
        case "annotator_model" if isinstance(value, str) and value.startswith(("scripted:", "replay:")):
            backend, _, file = value.partition(":")
            return f"{backend}:{folder / file}"
        case "tasks":
            words = value.split(",") if isinstance(value, str) else value
            return [_anchor_task(word, folder) for word in words] if isinstance(words, list) else words
        case _:
            return value


def _anchor_task(word: JsonValue, folder: Path) -> JsonValue:
    """Return a task, or a dict with its `task_name`, so: a file of tasks, `own.yaml:NAME`, below the suite's folder."""
    if isinstance(word, dict):
        return word | {"task_name": _anchor_task(word.get("task_name"), folder)}
    if not isinstance(word, str):
        return word
    file, colon, name = word.strip().partition(":")
    return f"{folder / file}{colon}{name}" if Path(file).suffix in TASK_FILES else word.strip()


def _read_index(options: dict[str, JsonValue], yaml: YamlFile, *, folder: Path) -> SuiteIndex:
    """Return the index, with parameters of the flow `rag` in `build`. Raises SuiteUnusable, also for a password."""
    for needed in ("documents", "index"):
        if not isinstance(options.get(needed), str):
            raise _refusal(yaml, ("index",), f"index: `{needed}` is missing; name a folder")
    for reserved in ("build", "line"):  # fields of the record, no keys of the file
        if reserved in options:
            raise _refusal(yaml, ("index", reserved), f"index.{reserved} is not known")
    paths = ("documents", "metadata", "questions")
    values = options | {name: str(folder / str(options[name])) for name in paths if isinstance(options.get(name), str)}
    place = values["index"] = str(options["index"])
    if is_address(place):  # of an engine, which stays as it stands
        try:
            values["index"], password = read_address(place)
        except NotAnIndex as error:
            raise _refusal(yaml, ("index", "index"), f"index.index: {error}") from error
        if password:
            why = "the suite is kept with what it measured; leave the password to PGPASSWORD or ~/.pgpass"
            raise _refusal(yaml, ("index", "index"), f"index.index: {why}")
    else:
        values["index"] = str(folder / place)
    own = {name: value for name, value in values.items() if name in SuiteIndex.model_fields}
    build = {name: value for name, value in values.items() if name not in SuiteIndex.model_fields}
    try:
        return SuiteIndex.model_validate({**own, "build": build, "line": yaml.line("index")})
    except ValidationError as error:
        raise _refusal_of_first_error(yaml, error, ("index",)) from error
