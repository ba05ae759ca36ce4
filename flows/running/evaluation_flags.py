"""The configuration of an evaluation, from the flags of evalchemy and lm_eval and a YAML file, which overrides them."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from pydantic import ValidationError

from flows.running.config_reading import ConfigUnusable, explain_errors, explain_removal, nest_values, set_parameter
from flows.running.evaluation_config import EvaluateConfig
from models.backends import backends, parse_model_args
from models.model_errors import ModelUnavailable
from models.registry import VARIABLE, Entry, find_entry, registered_models
from tasks.evaluation.evaluation_errors import OptionUnusable
from tasks.evaluation.running.open_models import CALLS, ModelSpec
from tasks.evaluation.yaml_file import YamlFile, read_yaml
from tasks.sandbox.bubblewrap import refuse_unsafe

_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
FIELDS: dict[str, str] = _TABLES["fields"]
"""Flag as a file or a suite names it → field of the configuration."""
MODEL_SWITCHES = ("trust_remote_code", "assume_same_weights")
SWITCHES = ("unsafe_code", "fewshot_as_multiturn", *MODEL_SWITCHES, "overwrite", "debug")
"""Flags without a value; true or false in a file."""
ADDRESS_VARIABLE = "TRIVET_{}_BASE_URL"
"""Environment variable for an address with credentials, which the configuration must not hold."""
KEY_VARIABLE = "TRIVET_{}_API_KEY"
"""Environment variable for a key from model_args: the configuration names the variable and never holds the key."""
FILE_OF = {"scripted": "rules", "replay": "path"}
"""Argument of the backend that names its file."""
TASK_FILES = (".yaml", ".yml", ".py")
BACKENDS: dict[str, str] = _TABLES["backends"]
"""Names of models of lm_eval → our backend."""
IDLE_ARGS: dict[str, dict[str, str]] = _TABLES["idle_args"]
"""Backend → model_args of lm_eval that change no answer here, and why; of `openai` also for `curator`."""
WITHOUT_EFFECT: dict[str, str] = _TABLES["without_effect"]
"""Flags of `python -m eval.eval` and `lm_eval` that mean nothing here, and why."""
LIMITS = {"limit", "samples", "max_cost"}
"""Flags that precede the file: who types a limit means this run."""
OWN: list[str] = _TABLES["own"]["names"]
SHORT: dict[str, str] = _TABLES["short"]
"""Flags of one letter of lm_eval → flag."""
IDLE_SWITCHES: list[str] = _TABLES["switches"]["names"]
"""Flags of WITHOUT_EFFECT that take no value, or True or False."""
ENDPOINT_PATHS = ("/chat/completions", "/completions")
"""lm_eval's `base_url` ends in the path of the request."""

Note = Callable[[str], object]


def read_evaluation(
    flags: Mapping[str, Any], file: Path | None = None, *, settings: Sequence[str] = (), note: Note = lambda _: None
) -> EvaluateConfig:
    """Build the configuration of a run. Raises OptionUnusable, which names the flag, or the file and its line.

    flags: names of FIELDS → values; None where not given. settings: `a.b=value` of the configuration, which come last.
    note: told what was left out because it means nothing here.
    """
    read = read_flags(file) if file else None
    file_flags = {str(name).replace("-", "_"): value for name, value in read.values.items()} if read else {}
    typed = {name: value for name, value in flags.items() if value is not None}
    for name in LIMITS & typed.keys() & file_flags.keys():
        note(f"--{name.replace('_', '-')} {typed[name]} precedes {file_flags.pop(name)} of {file}")
    try:
        return _build_config(dict.fromkeys(FIELDS) | typed | file_flags, settings, note)
    except (OptionUnusable, ConfigUnusable, ValidationError) as error:
        message = str(error)
        if isinstance(error, ValidationError):  # the first thing that is wrong, named by its flag
            message = explain_errors(error, _flag_of).splitlines()[0]
        # an error about a flag is one about the line of the file that set it
        if read and (flag := re.match(r"--([\w-]+)", message)):
            name = flag[1].replace("-", "_")
            if written := next((key for key in read.values if str(key).replace("-", "_") == name), None):
                message = f"{read.path}, line {read.line(written)}: {name}{message[flag.end() :]}"
        raise OptionUnusable(message) from error


def _build_config(flags: Mapping[str, Any], settings: Sequence[str], note: Note) -> EvaluateConfig:
    """Build a configuration from flags. Raises OptionUnusable, ConfigUnusable, UnsafeCodeRefused, ValidationError."""
    if flags["unsafe_code"]:
        refuse_unsafe()
    flags = _translate_names({**flags, "model": flags["model"] or "hf"}, note)
    flags = _resolve_entry(flags)
    tasks = tasks_of(flags["tasks"])
    if not tasks:
        raise OptionUnusable("no tasks; name some with --tasks AIME24,MATH500 (`trivet eval list` shows all)")
    annotator = str(flags["annotator_model"] or "auto")
    template = flags["apply_chat_template"]
    plain = {path: flags[name] for name, path in FIELDS.items() if not path.startswith(("model.", "judge."))}
    output = flags["output_path"] or EvaluateConfig.model_fields["output_path"].default
    read = {
        "data_dir": _absolute_path(flags["data_dir"], "data_dir"),
        "include_path": _absolute_path(flags["include_path"], "include_path"),
        "output_path": _absolute_path(output, "output_path"),
        "settings.samples": _read_table(flags["samples"], "samples"),
        "settings.metadata": _read_table(flags["metadata"], "metadata"),
        "settings.gen_kwargs": _read_pairs(flags["gen_kwargs"], "gen_kwargs"),
        "settings.seed": None if flags["seed"] is None else seeds_of(flags["seed"]),
        "settings.apply_chat_template": {"true": True, "false": False}.get(str(template).lower(), template),
        "settings.ks": ks_of(flags["k"]),
        "spending.prices": _read_prices(flags["price"], max_cost=flags["max_cost"]),
    }
    judge = judge_of(annotator, flags["annotator_args"])
    fields = nest_values(plain | read) | {
        "model": _model_of(flags).model_dump(exclude_unset=True),
        "tasks": tasks,
        "judge": judge.model_dump(exclude_unset=True),
        "auto_judge": annotator == "auto",
    }
    for text in settings:
        set_parameter(fields, text)
    return EvaluateConfig.model_validate(fields)


def read_flags(path: Path) -> YamlFile:
    """Read the flags in a YAML file. Raises OptionUnusable, which names file and line."""
    file = read_yaml(path, OptionUnusable, expected="names with values, such as `tasks: [AIME24]`")
    for name, value in file.values.items():
        if why := explain_flag(str(name).replace("-", "_"), value):
            raise OptionUnusable(f"{path}, line {file.line(str(name))}: {why}")
    return file


def explain_flag(name: str, value: Any) -> str | None:
    """Say why a flag may not stand in a file with this value; None if it may."""
    if name == "unsafe_code":
        return "unsafe_code: type --unsafe-code on the command line instead"
    if name not in FIELDS:
        removed = explain_removal("option", f"eval run --{name.replace('_', '-')}")
        return removed or f"{name!r} is not known; give {', '.join(sorted(FIELDS))}"
    if (name in SWITCHES) != isinstance(value, bool) and name != "apply_chat_template":
        return f"{name}: expected {'true or false' if name in SWITCHES else 'a value'} (it is {value!r})"
    return None


def _flag_of(path: str) -> str:
    """Return the flag of a field or of its table, `--max-tokens` for `settings.max_tokens`; `path` if none has one."""
    flags = {field: flag for flag, field in FIELDS.items()}
    parts = path.split(".")
    fields = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    flag = next((flags[field] for field in fields if field in flags), None)
    return f"--{flag.replace('_', '-')}" if flag else path


def _translate_names(flags: Mapping[str, Any], note: Note) -> dict[str, Any]:
    """Return the flags with our names in place of lm_eval's: models, model_args and addresses."""
    model = str(flags["model"])
    backend = BACKENDS.get(model, flags["model"])
    if "completions" in model.split("-") and "chat" not in model.split("-"):  # `local-completions` of lm_eval
        note(f"--model {model}: the model is asked as a chat; give --apply_chat_template False for raw text")
    args = _read_pairs(flags["model_args"], "model_args")
    longest = args.pop("max_gen_toks", None)  # lm_eval's name of max_tokens
    idle = IDLE_ARGS.get("openai" if backend == "curator" else str(backend), {})
    for name in [name for name in args if name in idle]:
        del args[name]
        note(f"model_args {name} is not needed: {idle[name]}")
    if backend == "hf" and args.pop("parallelize", False):
        args.setdefault("device_map", "auto")  # what lm_eval asks of transformers for it
    address = args.get("base_url")
    if isinstance(address, str):
        args["base_url"] = _without_path(address)
    return {
        **flags,
        "model": backend,
        "model_args": args,
        "base_url": flags["base_url"] and _without_path(str(flags["base_url"])),
        "max_tokens": longest if flags["max_tokens"] is None else flags["max_tokens"],
    }


def _without_path(address: str) -> str:
    plain = address.rstrip("/")
    return next((plain.removesuffix(path) for path in ENDPOINT_PATHS if plain.endswith(path)), address)


def _resolve_entry(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Replace `--model NAME` by the user's entry, if there is one; typed flags win over it. Raises OptionUnusable."""
    name, model_args = flags["model"], flags["model_args"]
    if not isinstance(name, str):
        return dict(flags)  # the validation of the model refuses it
    called = flags["model_name"] or model_args.get("model") or model_args.get("pretrained")
    entry = _entry_of(name, "model")
    if entry is None:
        if name not in backends() and "." not in name:
            if removal := explain_removal("format", f"eval run --model {name}"):
                raise OptionUnusable(removal)
            raise OptionUnusable(
                f"--model {name}: no backend, and no model of yours; a server's is --model openai --model_name {name}; "
                f"backends are {', '.join(backends())}, and any lm_eval model class by its dotted path; the file that "
                f"{VARIABLE} names has {', '.join(registered_models()) or 'no models'}"
            )
        return dict(flags)
    price = f"{entry.price.prompt},{entry.price.answer}" if entry.price and called in (None, entry.name) else None
    return {
        **flags,
        "model": entry.backend,
        "model_name": called or (None if entry.backend in FILE_OF else entry.name),
        "model_args": _args_of(entry, model_args),
        "price": flags["price"] or price,
    }


def _entry_of(name: str, flag: str) -> Entry | None:
    """Return the entry `name` of the user's file; None if there is none. Raises OptionUnusable if it cannot be read."""
    try:
        return find_entry(name)
    except ModelUnavailable as error:
        raise OptionUnusable(f"--{flag} {name}: {error}") from error


def _args_of(entry: Entry, model_args: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the model_args of an entry with the typed ones, which precede."""
    own: dict[str, Any] = {"base_url": entry.base_url, "api_key_env": entry.api_key_env, **entry.own_args}
    if entry.name and (file := FILE_OF.get(entry.backend)):
        own[file] = entry.name
    typed = {"base_url" if name == "api_base" else name: value for name, value in model_args.items()}
    # a rate has several names: a typed one replaces that of the entry under any of them
    replaced = {alias for names in CALLS.values() for alias in names if typed.keys() & set(names)}
    return {name: value for name, value in own.items() if value is not None and name not in replaced} | typed


def _model_of(flags: Mapping[str, Any]) -> ModelSpec:
    """Build the spec of the model that is measured. Raises OptionUnusable."""
    args = dict(flags["model_args"])
    if flags["device"]:
        args["device"] = flags["device"]
    args |= {name: True for name in MODEL_SWITCHES if flags[name]}
    if not str(flags["batch_size"] or "auto").startswith("auto"):  # lm_eval has `auto:4` too
        args["batch_size"] = _read_whole_number(flags["batch_size"], "batch_size")
    for name in FILE_OF.values():
        if name in args:
            args[name] = str(Path(str(args[name])).absolute())
    name = flags["model_name"] or args.get("model") or args.get("pretrained")
    return _build_spec(
        flags["model"],
        name,
        args,
        role="MODEL",
        base_url=flags["base_url"],
        api_key_env=flags["api_key_env"],
    )


def judge_of(annotator: str, annotator_args: Any) -> ModelSpec:
    """Build the spec of the judge; without a backend it is at an OpenAI-compatible endpoint. Raises OptionUnusable."""
    args = _read_pairs(annotator_args, "annotator_args")
    if entry := _entry_of(annotator, "annotator_model"):
        name = None if entry.backend in FILE_OF else entry.name  # a recording or a script has none in results
        return _build_spec(entry.backend, name, _args_of(entry, args), role="JUDGE")
    backend, _, name = annotator.partition(":")
    if backend not in backends():
        backend, name = "openai", annotator
    if name and (file := FILE_OF.get(backend)):
        args[file] = str(Path(name).absolute())
    return _build_spec(backend, name or None, args, role="JUDGE")


def _build_spec(
    backend: str,
    name: str | None,
    args: Mapping[str, Any],
    *,
    role: str,
    base_url: str | None = None,
    api_key_env: str | None = None,
) -> ModelSpec:
    """Build the spec of a model; a key in `args`, or an address with credentials, goes to the environment.

    role: MODEL or JUDGE, in names of variables. Rates that are not given are the defaults of an evaluation.
    """
    rest = dict(args)
    own_url = rest.pop("base_url", None) or rest.pop("api_base", None)
    if key := rest.pop("api_key", None):
        rest["api_key_env"] = KEY_VARIABLE.format(role)
        os.environ[rest["api_key_env"]] = str(key)
    address = _address_of(base_url or own_url, role=role)
    fields = {"backend": backend, "name": name, "args": rest, **address, "api_key_env": api_key_env}
    try:
        return ModelSpec.model_validate(fields)
    except ValidationError as error:
        outer = role.lower()
        raise OptionUnusable(explain_errors(error, lambda path: _flag_of(f"{outer}.{path}")).splitlines()[0]) from error


def _address_of(base_url: str | None, *, role: str) -> dict[str, str | None]:
    """Return `base_url` as a run may store it; with `base_url_env` if credentials or a query went to that variable."""
    try:
        parts = urlsplit(base_url or "")
    except ValueError:
        return {"base_url": base_url}  # the backend says what is wrong with it
    if not (parts.query or "@" in parts.netloc):
        return {"base_url": base_url}
    variable = ADDRESS_VARIABLE.format(role)
    os.environ[variable] = str(base_url)
    plain = parts._replace(netloc=parts.netloc.rpartition("@")[2], query="").geturl()
    return {"base_url": plain, "base_url_env": variable}


def tasks_of(tasks_flag: Any) -> list[dict[str, Any]]:
    """Read tasks, each once, from `a,b` or a YAML list of names or `{task_name, batch_size}`. Raises OptionUnusable."""
    words: Any = tasks_flag.split(",") if isinstance(tasks_flag, str) else tasks_flag or []
    if not isinstance(words, list):
        raise OptionUnusable(f"--tasks: expected names, or a list of them (it is {words!r})")
    tasks: dict[str, dict[str, Any]] = {}
    for word in cast("list[Any]", words):
        entry: Any = {"task_name": word.strip()} if isinstance(word, str) else word
        if not isinstance(entry, dict) or not isinstance(entry.get("task_name"), str):
            raise OptionUnusable(f"--tasks: {word!r} is neither a name nor {{task_name: …, batch_size: …}}")
        if not entry["task_name"]:
            continue
        file, colon, name = entry["task_name"].partition(":")
        is_file = Path(file).suffix in TASK_FILES and Path(file).is_file()
        task = {"task": f"{Path(file).absolute()}{colon}{name}" if is_file else entry["task_name"]}
        if not isinstance(word, str):
            size = entry.get("batch_size")
            task["batch_size"] = None if size in (None, "auto") else _read_whole_number(size, "tasks: batch_size")
        tasks.setdefault(task["task"], task)
    return list(tasks.values())


def seeds_of(seed_flag: Any) -> tuple[int, ...]:
    """Return four seeds, of python, numpy, torch and few-shot examples; one stands for all. Raises OptionUnusable."""
    words = ",".join(map(str, seed_flag)) if isinstance(seed_flag, list | tuple) else str(seed_flag)
    try:
        seeds = tuple(int(word) for word in words.split(","))
    except ValueError:
        raise OptionUnusable(f"--seed {seed_flag}: expected a number, or four of them: 0,1234,1234,1234") from None
    if len(seeds) not in (1, 4):
        raise OptionUnusable(f"--seed {seed_flag}: {len(seeds)} numbers; give one, or four: 0,1234,1234,1234")
    return seeds if len(seeds) == 4 else seeds * 4


def ks_of(k_flag: Any) -> tuple[int, ...]:
    """Return the distinct k of pass@k, rising, from `1,10` or a YAML list; empty for none. Raises OptionUnusable."""
    words: list[Any] = (
        k_flag.split(",") if isinstance(k_flag, str) else k_flag if isinstance(k_flag, list) else [k_flag]
    )
    ks = tuple(sorted({_read_whole_number(word, "k") for word in words if word is not None}))
    if ks and ks[0] < 1:
        raise OptionUnusable(f"--k {k_flag}: give numbers from 1, such as 1,10,100")
    return ks


def _read_table(value: Any, flag: str) -> dict[str, Any]:
    """Read a table as lm_eval takes it: JSON, a file of it, or k=v pairs; {} for none. Raises OptionUnusable."""
    text = str(value or "").strip()
    try:
        if text.endswith(".json"):
            text = Path(text).read_text("utf-8-sig").strip()
        return json.loads(text) if isinstance(value, str) and text.startswith("{") else _read_pairs(value, flag)
    except (OSError, ValueError) as error:
        raise OptionUnusable(f"--{flag} {value}: expected a JSON object, or a file of one ({error})") from error


def complete_flag(word: str) -> str:
    """Return the one flag of evalchemy or lm_eval that `word`, a letter or a beginning, can mean; else `word`."""
    name, equals, value = word.partition("=")
    plain = name.removeprefix("--").replace("-", "_")
    names = [*FIELDS, *WITHOUT_EFFECT, "config"]
    if not name.startswith("--") or plain in names:
        return SHORT.get(word, word)
    matches = [flag for flag in names if plain and flag.startswith(plain) and flag not in OWN]
    return f"--{matches[0]}{equals}{value}" if len(matches) == 1 else word


def _read_pairs(value: Any, flag: str) -> dict[str, Any]:
    """Read a table, or `k=v,k=v`; empty where none is given. Raises OptionUnusable."""
    if not isinstance(value, str):
        if value is not None and not isinstance(value, Mapping):
            raise OptionUnusable(f"--{flag}: expected k=v,k=v or a table of names and values (it is {value!r})")
        return dict(cast("Mapping[str, Any]", value or {}))
    try:
        return dict(parse_model_args(value))
    except (ModelUnavailable, ValueError) as error:
        raise OptionUnusable(f"--{flag}: {error}") from error


def _read_prices(price_flag: Any, *, max_cost: Any) -> dict[str, float] | None:
    """Read prices per million prompt and answer tokens from `0.15,0.6`; None without any. Raises OptionUnusable."""
    if not price_flag:
        if max_cost is not None:
            raise OptionUnusable(
                f"--max-cost {max_cost}: it needs the model's prices per million tokens; give --price PROMPT,ANSWER, "
                "such as --price 0.15,0.6"
            )
        return None
    try:
        prompt, answer = (float(word) for word in str(price_flag).split(","))
    except ValueError:
        prompt = answer = inf  # refused below, with the same sentence
    if not (0 <= prompt < inf and 0 <= answer < inf):
        raise OptionUnusable(
            f"--price {price_flag}: expected PROMPT,ANSWER, two numbers from 0 per million tokens, such as 0.15,0.6"
        )
    return {"prompt": prompt, "answer": answer}


def _read_whole_number(value: Any, flag: str) -> int:
    try:
        return int(value)
    except (TypeError, ValueError):
        raise OptionUnusable(f"--{flag} {value!r} is not a whole number") from None


def _absolute_path(path: Any, flag: str) -> Path | None:
    if path and not isinstance(path, str | Path):
        raise OptionUnusable(f"--{flag.replace('_', '-')}: expected a path (it is {path!r})")
    return Path(path).absolute() if path else None
