"""The configuration of an evaluation, from options and a YAML file; as in evalchemy, the file overrides the options."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import yaml
from pydantic import ValidationError

from flows.cli.commands import nested
from flows.cli.evaluation import other_harnesses
from flows.cli.evaluation.run_options import OPTIONS
from flows.cli.shared_options import prices_of
from flows.running.evaluation_config import EvaluateConfig
from models.backends import PRESS, backends, parse_model_args
from models.model_errors import ModelUnavailable
from models.registry import VARIABLE, Entry, named, registered
from tasks.evaluation.evaluation_errors import OptionUnusable
from tasks.evaluation.running.model_spec import CALLS, ModelSpec
from tasks.sandbox.engines import refuse_unsafe

ADDRESS_VARIABLE = "TRIVET_{}_BASE_URL"
"""Environment variable for an address with credentials, which the configuration must not hold."""
KEY_VARIABLE = "TRIVET_{}_API_KEY"
"""Environment variable for a key from model_args: the configuration names the variable and never holds the key."""
OUTER = {"backend": "model", "name": "model_name", "judge": "annotator_model", "args": "model_args"}
INNER = {"prices": "price", "tries": "max_retries", "timeout_s": "timeout"}
"""Fields of the configuration, and the flags or model_args of another name."""
FILE_OF = {"scripted": "rules", "replay": "path"}
"""Argument of the backend that names its file."""
TASK_FILES = (".yaml", ".yml", ".py")
TYPED = ("unsafe_code",)
"""Options that must be typed, and may not stand in a file."""


def config_of(flags: Mapping[str, Any], file: Path | None) -> EvaluateConfig:
    """The configuration of a run. Raises OptionUnusable, which names the flag, or the file and its line."""
    given = read_yaml(file, known=flags) if file else {}
    try:
        return _config({**flags, **given})
    except (OptionUnusable, ValidationError) as error:
        said = str(error) if isinstance(error, OptionUnusable) else _refused(error)
        raise OptionUnusable(_in_file(said, file, given) if file else said) from error


def _config(chosen: Mapping[str, Any]) -> EvaluateConfig:
    if chosen["unsafe_code"]:
        refuse_unsafe()
    chosen = other_harnesses.options(chosen, _pairs(chosen["model_args"], "model_args"))
    chosen = resolved(chosen, chosen["model_args"])
    model = model_of(chosen)
    tasks = tasks_of(chosen["tasks"])
    if not tasks:
        raise OptionUnusable("no tasks; name some with --tasks AIME24,MATH500 (`trivet eval list` shows all)")
    annotator = str(chosen["annotator_model"] or "auto")
    template = str(chosen["apply_chat_template"])
    names = {path: flag.name(path) for path, flag in OPTIONS.flags.items()}
    plain = {path: chosen[name] for path, name in names.items() if not path.startswith(("model.", "judge."))}
    read = {
        **{name: _absolute(chosen[name], name) for name in ("data_dir", "include_path", "output_path")},
        "settings.gen_kwargs": _pairs(chosen["gen_kwargs"], "gen_kwargs"),
        "settings.seed": seeds_of(chosen["seed"]),
        "settings.apply_chat_template": {"true": True, "false": False}.get(template.lower(), template),
        "settings.ks": ks_of(chosen["k"]),
        "spending.prices": _prices(chosen["price"], max_cost=chosen["max_cost"]),
    }
    judge = judge_of(annotator, chosen["annotator_args"])
    models = {"model": model, "tasks": tasks, "judge": judge, "auto_judge": annotator == "auto"}
    return EvaluateConfig.model_validate(nested(plain | read) | models)


def read_yaml(path: Path, *, known: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a YAML file. Raises OptionUnusable naming file and line."""
    try:
        text = path.read_text("utf-8-sig")
        read: object = yaml.safe_load(text)
    except (OSError, UnicodeDecodeError) as error:
        raise OptionUnusable(f"{path} cannot be read ({error}); give a YAML file") from error
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise OptionUnusable(f"{path}, line {line}: not YAML: {error.problem}") from error
    if not isinstance(read, dict):
        raise OptionUnusable(f"{path}, line 1: expected names with values, such as `tasks: [AIME24]`")
    given = {str(name).replace("-", "_"): value for name, value in cast("dict[Any, Any]", read).items()}
    for name, value in given.items():
        place = f"{path}, line {_line_of(name, text)}"
        if name in TYPED:
            raise OptionUnusable(f"{place}: {name}: type --{name.replace('_', '-')} on the command line instead")
        if name not in known:
            raise OptionUnusable(f"{place}: {name!r} is not known; give {', '.join(sorted(known))}")
        if isinstance(known[name], bool) != isinstance(value, bool) and name != "apply_chat_template":
            expected = "true or false" if isinstance(known[name], bool) else "a value"
            raise OptionUnusable(f"{place}: {name}: expected {expected} (it is {value!r})")
    return given


def _line_of(name: str, text: str) -> int:
    """Line number of a setting in a YAML file, in either spelling."""
    lines = enumerate(text.split("\n"), 1)
    return next((number for number, words in lines if words.replace("-", "_").startswith(name)), 1)


def _refused(error: ValidationError) -> str:
    """The first error of pydantic, with the name of the flag."""
    first = error.errors()[0]
    outer, *inner = (str(part) for part in first["loc"])
    name = OUTER.get(outer, outer)
    if outer in ("settings", "spending", "calls") and inner:
        name = INNER.get(inner[0], inner[0])
    return f"--{name.replace('_', '-')}: {first['msg']} (it is {first['input']!r})"


def _in_file(said: str, file: Path, given: Mapping[str, Any]) -> str:
    """An error about a flag, as one about the line of the file that set it."""
    found = re.match(r"--([\w-]+)", said)
    name = found[1].replace("-", "_") if found else ""
    if not found or name not in given:
        return said
    return f"{file}, line {_line_of(name, file.read_text('utf-8-sig'))}: {name}{said[found.end() :]}"


def model_of(chosen: Mapping[str, Any]) -> ModelSpec:
    """The model that is measured. Raises OptionUnusable."""
    args = _pairs(chosen["model_args"], "model_args")
    if chosen["device"]:
        args["device"] = chosen["device"]
    if chosen["trust_remote_code"]:
        args["trust_remote_code"] = True
    if not str(chosen["batch_size"] or "auto").startswith("auto"):  # lm_eval has `auto:4` too
        args["batch_size"] = _whole(chosen["batch_size"], "batch_size")
    for name in FILE_OF.values():
        if name in args:
            args[name] = str(Path(str(args[name])).absolute())
    name = chosen["model_name"] or args.get("model") or args.get("pretrained")
    given = {field: chosen[field] for field in ("base_url", "api_key_env", "concurrency")}
    return _spec(chosen["model"], name, args, who="MODEL", **given)


def judge_of(annotator: str, annotator_args: Any) -> ModelSpec | None:
    """The judge; a name without a backend is a model at an OpenAI-compatible endpoint."""
    args = _pairs(annotator_args, "annotator_args")
    if entry := entry_of(annotator, "annotator_model"):
        return _spec(entry.backend, model_name_of(entry), args_of(entry, args), who="JUDGE")
    backend, _, name = annotator.partition(":")
    if backend not in backends():
        backend, name = "openai", annotator
    if name and (file := FILE_OF.get(backend)):
        args[file] = str(Path(name).absolute())
    return _spec(backend, name or None, args, who="JUDGE")


def _spec(
    backend: str,
    name: str | None,
    args: Mapping[str, Any],
    *,
    who: str,
    base_url: str | None = None,
    api_key_env: str | None = None,
    concurrency: int | None = None,
) -> ModelSpec:
    """The model; `args` may hold its endpoint, its rates, and a key, which goes to the environment.

    Rates that are not given are the defaults of an evaluation.
    """
    own = PRESS["concurrency"] if concurrency else ()  # what the flag precedes
    rest = {name: value for name, value in args.items() if name not in own}
    own_url = rest.pop("base_url", None) or rest.pop("api_base", None)
    if key := rest.pop("api_key", None):
        rest["api_key_env"] = KEY_VARIABLE.format(who)
        os.environ[rest["api_key_env"]] = str(key)
    if concurrency:
        rest["concurrency"] = concurrency
    return ModelSpec.model_validate(
        {
            "backend": backend,
            "name": name,
            "args": rest,
            **address_of(base_url or own_url, who=who),
            "api_key_env": api_key_env,
        }
    )


def address_of(base_url: str | None, *, who: str) -> dict[str, str | None]:
    """An endpoint as a run may store it; one with credentials or a query goes to the environment."""
    try:
        parts = urlsplit(base_url or "")
    except ValueError:
        return {"base_url": base_url}  # the backend says what is wrong with it
    if not (parts.query or "@" in parts.netloc):
        return {"base_url": base_url}
    variable = ADDRESS_VARIABLE.format(who)
    os.environ[variable] = str(base_url)
    plain = parts._replace(netloc=parts.netloc.rpartition("@")[2], query="").geturl()
    return {"base_url": plain, "base_url_env": variable}


def tasks_of(named: Any) -> list[dict[str, Any]]:
    """Tasks of a comma-separated flag, or of the YAML's list of names or `{task_name, batch_size}`, each once."""
    words: Any = named.split(",") if isinstance(named, str) else named or []
    if not isinstance(words, list):
        raise OptionUnusable(f"--tasks: expected names, or a list of them (it is {words!r})")
    tasks: list[dict[str, Any]] = []
    for word in cast("list[Any]", words):
        if isinstance(word, str):
            tasks += [{"task": _found(word.strip())}] if word.strip() else []
        elif isinstance(word, dict) and isinstance(word.get("task_name"), str):  # pyright: ignore[reportUnknownMemberType]
            given = cast("dict[str, Any]", word)
            size = given.get("batch_size")
            whole = None if size in (None, "auto") else _whole(size, "tasks: batch_size")
            tasks.append({"task": _found(given["task_name"]), "batch_size": whole})
        else:
            raise OptionUnusable(f"--tasks: {word!r} is neither a name nor {{task_name: …, batch_size: …}}")
    return [task for number, task in enumerate(tasks) if task["task"] not in {one["task"] for one in tasks[:number]}]


def _found(task: str) -> str:
    """A task; a file by its absolute path."""
    file, colon, name = task.partition(":")
    return f"{Path(file).absolute()}{colon}{name}" if Path(file).suffix in TASK_FILES and Path(file).is_file() else task


def seeds_of(given: Any) -> tuple[int, ...]:
    """Four seeds, of python, numpy, torch and few-shot examples; one number stands for all."""
    words = str(given).split(",")
    try:
        seeds = tuple(int(word) for word in words)
    except ValueError:
        raise OptionUnusable(f"--seed {given}: expected a number, or four of them: 0,1234,1234,1234") from None
    if len(seeds) not in (1, 4):
        raise OptionUnusable(f"--seed {given}: {len(seeds)} numbers; give one, or four: 0,1234,1234,1234")
    return seeds if len(seeds) == 4 else seeds * 4


def ks_of(given: Any) -> tuple[int, ...]:
    """The values of k for pass@k, separated by commas or, in YAML, a list; empty where none are given."""
    words: list[Any] = given.split(",") if isinstance(given, str) else given if isinstance(given, list) else [given]
    ks = tuple(sorted({_whole(word, "k") for word in words if word is not None}))
    if ks and ks[0] < 1:
        raise OptionUnusable(f"--k {given}: give numbers from 1, such as 1,10,100")
    return ks


def _pairs(given: Any, what: str) -> dict[str, Any]:
    if not isinstance(given, str):
        if given is not None and not isinstance(given, Mapping):
            raise OptionUnusable(f"--{what}: expected k=v,k=v or a table of names and values (it is {given!r})")
        return dict(cast("Mapping[str, Any]", given or {}))
    try:
        return dict(parse_model_args(given))
    except (ModelUnavailable, ValueError) as error:
        raise OptionUnusable(f"--{what}: {error}") from error


def _prices(given: Any, *, max_cost: Any) -> dict[str, float] | None:
    if not given:
        if max_cost is not None:
            raise OptionUnusable(
                f"--max-cost {max_cost}: it needs the model's prices per million tokens; give --price PROMPT,ANSWER, "
                "such as --price 0.15,0.6"
            )
        return None
    try:
        return prices_of(str(given))
    except ValueError as error:
        raise OptionUnusable(f"--price {given}: {error}") from None


def _whole(given: Any, what: str) -> int:
    try:
        return int(given)
    except (TypeError, ValueError):
        raise OptionUnusable(f"--{what} {given!r} is not a whole number") from None


def _absolute(path: Any, what: str) -> Path | None:
    if path and not isinstance(path, str | Path):
        raise OptionUnusable(f"--{what.replace('_', '-')}: expected a path (it is {path!r})")
    return Path(path).absolute() if path else None


def entry_of(name: str, flag: str) -> Entry | None:
    """The model that the user's file calls `name`. Raises OptionUnusable for a file that cannot be read."""
    try:
        return named(name)
    except ModelUnavailable as error:
        raise OptionUnusable(f"--{flag} {name}: {error}") from error


def args_of(entry: Entry, given: Mapping[str, Any]) -> dict[str, Any]:
    """The model_args of an entry, under those that are given."""
    own: dict[str, Any] = {"base_url": entry.base_url, "api_key_env": entry.api_key_env, **entry.own_args}
    if entry.name and (file := FILE_OF.get(entry.backend)):
        own[file] = entry.name
    over = {"base_url" if name == "api_base" else name: value for name, value in given.items()}
    again = {alias for names in CALLS.values() for alias in names if over.keys() & set(names)}
    return {name: value for name, value in own.items() if value is not None and name not in again} | over


def model_name_of(entry: Entry) -> str | None:
    """Name of the model in results; none for a recording or a script."""
    return None if entry.backend in FILE_OF else entry.name


def resolved(chosen: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The flags, with `--model NAME` replaced by the entry it stands for; given flags precede the entry.

    given: the model_args. Raises OptionUnusable.
    """
    if not isinstance(name := chosen["model"], str):
        return dict(chosen)  # the validation of the model refuses it
    called = chosen["model_name"] or given.get("model") or given.get("pretrained")
    entry = entry_of(name, "model")
    if entry is None:
        _refuse_unknown(name)
        return {**chosen, "model_args": dict(given)}
    price = f"{entry.price.prompt},{entry.price.answer}" if entry.price and called in (None, entry.name) else None
    return {
        **chosen,
        "model": entry.backend,
        "model_name": called or model_name_of(entry),
        "model_args": args_of(entry, given),
        "price": chosen["price"] or price,
    }


def _refuse_unknown(name: str) -> None:
    if name in backends() or "." in name:
        return
    if name == "auto":
        raise OptionUnusable("--model auto is gone; name a backend and its model: --model hf --model_name FOLDER")
    own = ", ".join(registered()) or "no models"
    raise OptionUnusable(
        f"--model {name}: there is no such backend, and no such model of yours; backends are {', '.join(backends())}, "
        f"and any lm_eval model class by its dotted path; the file that {VARIABLE} names has {own}"
    )
