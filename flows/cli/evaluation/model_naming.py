"""What `--model NAME` and `--model auto` stand for: a model of the user's own file, or what is at hand here."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from flows.cli.output import harmless
from models.backends import PRESS
from tasks.evaluation.evaluation_errors import OptionUnusable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic import SecretStr

    from models.auto import Place
    from models.registry import Entry

CALLS = {**PRESS, "timeout_s": ("timeout_s", "timeout", "request_timeout")}
"""Fields of CallSettings, and what model_args call them."""
FILE_OF = {"scripted": "rules", "replay": "path"}
"""What the file behind `scripted` and `replay` is called among the arguments of the backend."""


def entry_of(name: str, flag: str) -> Entry | None:
    """The model that the user's file calls `name`. Raises OptionUnusable for a file that cannot be read."""
    from models.model_errors import ModelUnavailable
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
    called = chosen["model_name"] or given.get("model") or given.get("pretrained")
    if name == "auto":
        entry, called = _picked(called, chosen, given), None  # who was picked has its own name
        given = {name: value for name, value in given.items() if name not in ("model", "pretrained")}
    else:
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


def _picked(called: str | None, chosen: Mapping[str, Any], given: Mapping[str, Any]) -> Entry:
    """The model of `--model auto`; a note on stderr names it."""
    from models.auto import pick
    from models.model_errors import ModelUnavailable

    try:
        picked = pick(called, _usual_places(chosen, given), given=_given_place(chosen, given))
    except ModelUnavailable as error:
        raise OptionUnusable(f"--model auto: {error}") from error
    what = f"{picked.entry.backend} {picked.entry.name or ''}".strip()
    typer.secho(harmless(f"note: --model auto is {what}: {picked.why}"), err=True)
    return picked.entry


def _given_place(chosen: Mapping[str, Any], given: Mapping[str, Any]) -> Place | None:
    from models.auto import Place

    address = chosen["base_url"] or given.get("base_url") or given.get("api_base")
    return Place("--base-url", str(address), _key(chosen, given), of_user=True) if address else None


def _usual_places(chosen: Mapping[str, Any], given: Mapping[str, Any]) -> Sequence[Place]:
    from models.auto import LOCAL, Place

    usual = os.environ.get("OPENAI_BASE_URL")
    mine = (Place("OPENAI_BASE_URL", usual, _key(chosen, given), of_user=True),) if usual else ()
    return (*mine, *LOCAL)


def _key(chosen: Mapping[str, Any], given: Mapping[str, Any]) -> SecretStr | None:
    from pydantic import SecretStr

    variable = chosen["api_key_env"] or given.get("api_key_env") or "OPENAI_API_KEY"
    key = given.get("api_key") or os.environ.get(str(variable))
    return SecretStr(str(key)) if key else None


def _refuse_unknown(name: str) -> None:
    from models.backends import backends
    from models.registry import VARIABLE, registered

    if name in backends() or "." in name:
        return
    own = ", ".join(registered()) or "no models"
    raise OptionUnusable(
        f"--model {name}: there is no such backend, and no such model of yours; backends are {', '.join(backends())}, "
        f"auto, and any lm_eval model class by its dotted path; the file that {VARIABLE} names has {own}"
    )
