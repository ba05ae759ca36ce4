"""Finds and loads tasks of the lm-evaluation-harness by name, and user-defined ones also by YAML path."""

from __future__ import annotations

import difflib
import importlib.metadata
import json
import logging
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from models.permissions import require_code
from storage import files
from storage.storage_errors import StoreUnreachable
from tasks.evaluation.evaluation_errors import BenchmarkUnusable, DataMissing, UnknownTask
from tasks.evaluation.running.benchmark_data import skip_unreachable_hub

YAML = (".yaml", ".yml")
FILE_FORMATS = ("json", "csv", "parquet", "text", "arrow")
"""`dataset_path` of tasks whose data are files."""
LIKELIHOODS = ("loglikelihood", "loglikelihood_rolling", "multiple_choice")
"""Output types of tasks that need log-probabilities."""
LOCAL_DATA = (
    "make its data local: load it once where there is a network (the cache of the `datasets` library can be copied), "
    "or name files in the YAML, `dataset_path: json` and `dataset_kwargs: {data_files: {test: FILE.jsonl}}`"
)


class LoadedTasks(NamedTuple):
    """The tasks that a name of the harness stands for."""

    tasks: dict[str, Any]
    """lm_eval Task by name; more than one for a group or a tag."""
    manager: Any
    parts: list[Any]

    @property
    def wants_likelihoods(self) -> list[str]:
        """Names of those tasks that need log-probabilities."""
        return [name for name, task in self.tasks.items() if task.OUTPUT_TYPE in LIKELIHOODS]


def installed_version() -> str:
    """Return the version of lm_eval. Raises BenchmarkUnusable, naming the extra to install, where it is missing."""
    try:
        return importlib.metadata.version("lm_eval")
    except importlib.metadata.PackageNotFoundError:
        raise BenchmarkUnusable(
            "tasks of the lm-evaluation-harness need lm_eval, which is not installed; pip install 'trivet[harness]'"
        ) from None


def list_tasks(include_path: Path | None, *, cache_folder: Path) -> list[str]:
    """Return the names of all tasks, groups and tags, sorted.

    Those of the harness are cached in `cache_folder`: its 10,000 files take 4 s. Raises BenchmarkUnusable, UnknownTask.
    """
    path = cache_folder / f"lm_eval-{installed_version()}-tasks.json"
    try:
        names: list[str] = json.loads(path.read_bytes())
    except (OSError, ValueError):
        names = sorted(_load_index(None))
        with suppress(StoreUnreachable):  # then the next one reads the ten thousand files again
            files.write(path, json.dumps(names).encode(), durable=False)
    return sorted({*names, *(_load_index(include_path) if include_path else ())})


def load_tasks(name: str, include_path: Path | None = None, metadata: Mapping[str, Any] | None = None) -> LoadedTasks:
    """Load the tasks of a name or YAML file. Raises UnknownTask, BenchmarkUnusable, DataMissing, NotPermitted."""
    installed_version()
    if name.endswith(YAML):
        require_code(f"the harness task {name}")  # its `!function` imports what lies beside it
    if tokenizer := {"tokenizer", "pretrained"} & set(metadata or ()):  # ruler and babilong trust its code
        require_code(f"metadata {tokenizer}")
    import yaml
    from datasets.exceptions import DatasetsError

    skip_unreachable_hub()

    try:
        # the harness's own ten thousand files take 4 s to read: only where they are needed
        spec, folder, with_own = name, include_path, True
        own_entry = None if name.endswith(YAML) or include_path is None else _load_index(include_path).get(name)
        if name.endswith(YAML):
            from lm_eval.tasks._yaml_loader import load_yaml

            path = Path(name).expanduser().resolve()
            if not path.is_file():
                raise UnknownTask(f"there is no file {name}; give the path of a YAML task")
            group = load_yaml(path, resolve_func=False).get("group")
            spec, folder, with_own = (str(group), path.parent, True) if group else (str(path), None, False)
        elif own_entry:
            from lm_eval.tasks._index import Kind

            with_own = own_entry.kind not in (Kind.TASK, Kind.PY_TASK)
        manager = _open_manager(folder, with_own=with_own)
        manager._factory._meta = dict(metadata or {})  # private: the manager is shared by tasks with other values
        if not spec.endswith(YAML) and spec not in manager.task_index:
            near = difflib.get_close_matches(name, manager.all_tasks, n=5)
            hint = f"; did you mean {', '.join(near)}?" if near else "; `trivet eval list` shows all"
            raise UnknownTask(f"the lm-evaluation-harness has no task {name!r}{hint}")
        loaded: Mapping[str, Any] = manager.load([spec])
    except (UnknownTask, DataMissing):
        raise
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"{mark.name}:{mark.line + 1}" if mark else name
        raise BenchmarkUnusable(f"{where}: {error.problem}; see that the YAML is well-formed") from error
    except Exception as error:  # code of tasks runs here, which raises what it likes
        message = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        no_data = isinstance(error, DatasetsError | OSError)  # ConnectionError and FileNotFoundError among them
        if no_data or "Couldn't find" in str(error) or "offline" in str(error).lower():
            raise DataMissing(f"the data of {name} cannot be loaded ({message}); {LOCAL_DATA}") from error
        raise BenchmarkUnusable(f"{name} is not a task that the harness can load: {message}") from error
    tasks: dict[str, Any] = dict(loaded["tasks"])
    groups = list(loaded.get("groups", {}).values())
    child_names = {child for group in groups for child in group.child_names}
    roots = [group for group in groups if group.name not in child_names]  # a group brings those in it
    return LoadedTasks(tasks, manager, roots or list(tasks.values()))


def _resolve_files(file_names: Any, folder: Path) -> Any:
    """Return a YAML's file names, whole where they are in its folder; URLs and patterns stay. Raises DataMissing."""
    if isinstance(file_names, Mapping):
        return {split: _resolve_files(each, folder) for split, each in file_names.items()}
    if isinstance(file_names, list | tuple):
        return [_resolve_files(each, folder) for each in file_names]
    if "://" in str(file_names) or any(sign in str(file_names) for sign in "*?["):
        return file_names
    place = folder / str(file_names)
    if not place.is_file() and not Path(str(file_names)).is_file():
        raise DataMissing(f"there is no file {place}, which the YAML names as its data; put it there")
    return str(place if place.is_file() else file_names)


@cache
def _open_manager(include_path: Path | None, *, with_own: bool) -> Any:
    """Return a TaskManager of a folder and, with_own, of the harness's own tasks; it reads each folder once."""
    with silence_loggers():
        from lm_eval.tasks import TaskManager
        from lm_eval.tasks._factory import TaskFactory

        class Factory(TaskFactory):
            """Resolves data files relative to their YAML; lm_eval resolves them relative to the current folder."""

            def _load_full_config(self, entry: Any, overrides: dict[str, Any] | None = None) -> dict[str, Any]:
                """Return the task's configuration, paths of its data files resolved from its YAML file."""
                config = super()._load_full_config(entry, overrides)
                kwargs: Any = config.get("dataset_kwargs")
                reads_files = config.get("dataset_path") in FILE_FORMATS and isinstance(kwargs, dict)
                if entry.yaml_path and reads_files and "data_files" in kwargs:
                    resolved_files = _resolve_files(kwargs["data_files"], entry.yaml_path.parent)
                    config["dataset_kwargs"] = kwargs | {"data_files": resolved_files}
                return config

        manager = TaskManager(include_path=include_path, include_defaults=with_own)
        manager._factory = Factory()  # private: a TaskManager of lm_eval 0.4.13 makes its own
        return manager


def _load_index(include_path: Path | None) -> Mapping[str, Any]:
    """Return the index of the harness's tasks, or that of `include_path` alone. Raises UnknownTask, NotPermitted."""
    if include_path is None:
        return _open_manager(None, with_own=True).task_index
    require_code(f"include_path {include_path}")
    if not include_path.is_dir():
        raise UnknownTask(f"there is no folder {include_path}; `--include_path` names one with YAML tasks")
    return _open_manager(include_path, with_own=False).task_index


@contextmanager
def silence_loggers() -> Generator[None]:
    """Let the harness and its data loaders log nothing but errors."""
    loggers = [logging.getLogger(name) for name in ("lm_eval", "datasets", "huggingface_hub", "fsspec")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
