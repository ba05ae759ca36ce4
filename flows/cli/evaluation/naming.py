"""What `--model NAME` and `--model auto` stand for: a model of the user's own file, or what is at hand here."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from flows.cli.output import harmless
from tasks.evaluation.errors import OptionUnusable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from models.auto import Place
    from models.registry import Entry

CALLS = {
    "concurrency": ("concurrency", "num_concurrent", "max_concurrent_requests"),
    "requests_per_minute": ("requests_per_minute", "max_requests_per_minute"),
    "tokens_per_minute": ("tokens_per_minute", "max_tokens_per_minute"),
    "timeout_s": ("timeout_s", "timeout", "request_timeout"),
}
"""Fields of CallSettings, and what model_args call them (LiteLLM's and lm_eval's names too)."""
FILE_OF = {"scripted": "rules", "replay": "path"}
"""What the file behind `scripted` and `replay` is called among the arguments of the backend."""


def entry_of(name: str, flag: str) -> Entry | None:
    """The model that the user's file calls `name`. Raises OptionUnusable for a file that cannot be read."""
    from models.errors import ModelUnavailable
    from models.registry import named

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
    """As results show it; a recording or a script is named by its backend."""
    return None if entry.backend in FILE_OF else entry.name


def resolved(chosen: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The flags with a model's own in place of its name; what is given goes before the file. Raises OptionUnusable.

    given: the model_args.
    """
    if not isinstance(name := chosen["model"], str):
        return dict(chosen)  # what checks the values refuses it
    entry = _picked(chosen, given) if name == "auto" else entry_of(name, "model")
    if entry is None:
        _refuse_unknown(name)
        return {**chosen, "model_args": dict(given)}
    price = entry.price and f"{entry.price.prompt},{entry.price.answer}"
    return {
        **chosen,
        "model": entry.backend,
        "model_name": _name_in(chosen, given) or model_name_of(entry),
        "model_args": args_of(entry, given),
        "price": chosen["price"] or price,
    }


def _name_in(chosen: Mapping[str, Any], given: Mapping[str, Any]) -> str | None:
    return chosen["model_name"] or given.get("model") or given.get("pretrained")


def _picked(chosen: Mapping[str, Any], given: Mapping[str, Any]) -> Entry:
    """The model of `--model auto`, which is said."""
    from models.auto import pick
    from models.errors import ModelUnavailable

    try:
        picked = pick(_name_in(chosen, given), _places(chosen, given))
    except ModelUnavailable as error:
        raise OptionUnusable(f"--model auto: {error}") from error
    what = f"{picked.entry.backend} {picked.entry.name or ''}".strip()
    typer.secho(harmless(f"note: --model auto is {what}: {picked.why}"), err=True)
    return picked.entry


def _places(chosen: Mapping[str, Any], given: Mapping[str, Any]) -> Sequence[Place]:
    """The endpoint that is given, else the usual ones."""
    from pydantic import SecretStr

    from models.auto import LOCAL, Place

    variable = chosen["api_key_env"] or given.get("api_key_env") or "OPENAI_API_KEY"
    key = given.get("api_key") or os.environ.get(str(variable))
    secret = SecretStr(str(key)) if key else None
    if address := chosen["base_url"] or given.get("base_url") or given.get("api_base"):
        return (Place("--base-url", str(address), secret, of_user=True),)
    usual = os.environ.get("OPENAI_BASE_URL")
    return (*((Place("OPENAI_BASE_URL", usual, secret, of_user=True),) if usual else ()), *LOCAL)


def _refuse_unknown(name: str) -> None:
    from models.backends import KINDS
    from models.registry import VARIABLE, registered

    if name in KINDS or "." in name:
        return
    own = ", ".join(registered()) or "no models"
    raise OptionUnusable(
        f"--model {name}: there is no such backend, and no such model of yours; backends are {', '.join(KINDS)}, auto, "
        f"and any lm_eval model class by its dotted path; the file that {VARIABLE} names has {own}"
    )
