"""A suite becomes what the flows of its parts are told, before any of them begins; mistakes are named with the line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from tasks.evaluation.evaluation_errors import OptionUnusable
from tasks.nightly.night_records import SuiteUnusable
from tasks.nightly.suite import Suite, SuiteModel

if TYPE_CHECKING:
    from flows.running.evaluation_config import EvaluateConfig
    from flows.running.lever_config import LeverConfig
    from flows.running.rag_config import IndexConfig

RESULTS, SELECTOR = "results", "selector"
"""Folders below the output of a suite: results files of models, and what the selector leaves."""


@dataclass(frozen=True)
class Planned:
    """What a night will run."""

    models: dict[str, EvaluateConfig]
    """Label → how it is measured."""
    index: IndexConfig | None
    selector: LeverConfig | None


def plan_of(suite: Suite) -> Planned:
    """Everything that a night will run. Raises SuiteUnusable naming file and line."""
    return Planned(
        models={model.label: _evaluation_of(model, suite) for model in suite.models},
        index=_index_of(suite),
        selector=_selector_of(suite),
    )


@cache
def known_flags() -> dict[str, Any]:
    """The names that `trivet eval run` takes, with their defaults."""
    from flows.cli.evaluation.run_command import OPTIONS

    return OPTIONS.named(OPTIONS.defaults())


def _evaluation_of(model: SuiteModel, suite: Suite) -> EvaluateConfig:
    from flows.cli.evaluation.eval_config import config_of

    flags = known_flags() | model.flags | {"output_path": suite.output / RESULTS}
    try:
        return config_of(flags, None)
    except OptionUnusable as error:
        said = str(error)
        found = re.match(r"--([\w-]+)", said)
        name = found[1].replace("-", "_") if found else ""
        where = f"{suite.file}, line {model.lines.get(name, model.line)}"
        raise SuiteUnusable(f"{where}: {model.label}: {said.removeprefix('--')}") from error


def _index_of(suite: Suite) -> IndexConfig | None:
    from flows.running.rag_config import IndexConfig

    if suite.index is None:
        return None
    try:
        return IndexConfig.model_validate(suite.index.build)
    except ValidationError as error:
        raise _refused(error, suite, line=suite.index.line, what="index") from error


def _selector_of(suite: Suite) -> LeverConfig | None:
    """The parameters of `trivet lever run --config FILE`, with paths as seen from that file."""
    if suite.selector is None:
        return None
    import yaml

    from flows.cli.lever.lever_run_command import config_of
    from flows.running.lever_config import LeverConfig

    file = suite.selector.config
    try:
        read: Any = yaml.safe_load(file.read_text("utf-8-sig"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise SuiteUnusable(f"{file} cannot be read ({error}); name the YAML file of a `trivet lever run`") from error
    if not isinstance(read, dict):
        raise SuiteUnusable(f"{file}, line 1: it holds no parameters; write them as `name: value`")
    try:
        chosen = config_of({}, until="evaluate", file=file)
    except ValidationError as error:
        raise _refused(error, suite, line=suite.selector.line, what=f"selector: {file.name}") from error
    plain = _seen_from(file.parent, chosen.model_dump())
    if "results" not in read:
        plain["results"] = suite.output / SELECTOR
    return LeverConfig.model_validate(plain)


def _refused(error: ValidationError, suite: Suite, *, line: int, what: str) -> SuiteUnusable:
    first = error.errors()[0]
    name = ".".join(map(str, first["loc"]))
    return SuiteUnusable(f"{suite.file}, line {line}: {what}: {name}: {first['msg']} (it is {first['input']!r:.60})")


def _seen_from(folder: Path, value: Any) -> Any:
    """`value` with all relative paths in it below `folder`."""
    if isinstance(value, Path):
        return folder / value
    if isinstance(value, dict):
        return {name: _seen_from(folder, one) for name, one in value.items()}
    if isinstance(value, BaseModel):
        return _seen_from(folder, value.model_dump())
    return value
