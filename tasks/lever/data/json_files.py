"""JSON objects by query id: files whose every entry is checked, and an error that names the field that is wrong."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar, cast

from pydantic import BaseModel, ValidationError

from tasks.lever.lever_errors import FileUnusable

Model = TypeVar("Model", bound=BaseModel)


def read_by_query(source: Path | bytes, what: str) -> tuple[dict[str, dict[str, Any]], str]:
    """A JSON object of an object for each query id, and how errors name the file. what: how they name bytes.

    Raises FileUnusable: no such file, no UTF-8, no JSON, NaN, a key twice, an entry that is no object.
    """
    where = str(source) if isinstance(source, Path) else what
    try:
        text = (source.read_bytes() if isinstance(source, Path) else source).decode("utf-8-sig")
        found: Any = json.loads(text, object_pairs_hook=_each_once, parse_constant=_no_number)
    except FileNotFoundError as error:
        raise FileUnusable(f"there is no {where}; name the file, or run the stage that writes it") from error
    except (OSError, UnicodeDecodeError) as error:
        raise FileUnusable(f"{where} cannot be read as UTF-8 ({error}); copy it again") from error
    except (ValueError, RecursionError) as error:
        raise FileUnusable(f"{where}: no whole JSON ({str(error)[:200]}); write it again") from error
    if not isinstance(found, dict):
        raise FileUnusable(f"{where}: {str(found)[:80]!r} is no JSON object by query id")
    entries = cast(dict[str, Any], found)
    if wrong := [key for key, value in entries.items() if not isinstance(value, dict)]:
        raise FileUnusable(f"{where}: {wrong[0][:80]!r} is no object; an object for each query id is expected")
    return entries, where


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(found := dict(pairs)) < len(pairs):
        raise ValueError(f"{str(first_twice(key for key, _ in pairs))[:80]!r} stands there twice")
    return found


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no number")


def validated(model: type[Model], value: Any, where: str) -> Model:
    """`value` as a `model`, its types as JSON has them. Raises FileUnusable naming `where` and the field."""
    try:
        return model.model_validate_json(json.dumps(value), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"]).lstrip(".")
        raise FileUnusable(f"{where}: `{field}`: {first['msg']}, not {str(first['input'])[:80]!r}") from error


def first_twice(ids: Iterable[str]) -> str | None:
    """The first id that stands there a second time."""
    seen = set[str]()
    # `add` gives None, so that every id is looked up before it is noted
    return next((id for id in ids if id in seen or seen.add(id)), None)
