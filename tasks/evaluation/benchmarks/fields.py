"""Reads fields of data rows and checks their types."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, cast

from tasks.evaluation.running.benchmark_data import Row


def text(row: Row, name: str) -> str:
    """A field that holds non-blank text. Raises DataUnusable."""
    value = row.get(name)
    if not isinstance(value, str) or not value.strip():
        row.unusable(f"`{name}` must hold text, found {_shown(value)}")
    return value


def texts(row: Row, name: str) -> list[str]:
    """A field that holds a list of texts. Raises DataUnusable."""
    value = row.get(name)
    if not isinstance(value, list) or not all(isinstance(one, str) for one in cast("list[Any]", value)):
        row.unusable(f"`{name}` must be a list of texts, found {_shown(value)}")
    return cast("list[str]", value)


def contents(row: Row, name: str) -> list[dict[str, Any]]:
    """A field that holds a list of objects, each with its text under `content`. Raises DataUnusable."""
    return _contents(row, row.get(name), f"`{name}`")


def answer_turns(row: Row) -> list[str]:
    """Turns of an answer in FastChat's `choices[0].turns`: texts, or objects with `content`. Raises DataUnusable."""
    try:
        turns: Any = row["choices"][0]["turns"]
    except (KeyError, IndexError, TypeError):
        row.unusable("an answer must have `choices`, whose first has `turns`")
    if isinstance(turns, list) and all(isinstance(turn, str) for turn in cast("list[Any]", turns)):
        return cast("list[str]", turns)
    return [turn["content"] for turn in _contents(row, turns, "`choices[0].turns`")]


def distinct(rows: Iterable[Row]) -> Iterator[Row]:
    """The rows. Raises DataUnusable for a repeated ID."""
    seen: dict[str, int] = {}
    for row in rows:
        if (first := seen.setdefault(row.id, row.line)) != row.line:
            row.unusable(f"line {first} has the id {row.id!r} too; give each its own")
        yield row


def _contents(row: Row, value: Any, name: str) -> list[dict[str, Any]]:
    objects = cast("list[Any]", value) if isinstance(value, list) else []
    if not objects or not all(isinstance(one, dict) and isinstance(one.get("content"), str) for one in objects):
        row.unusable(f"{name} must be a list of objects with `content`, found {_shown(value)}")
    return objects


def _shown(value: Any) -> str:
    return "nothing" if value is None else repr(value)[:80]
