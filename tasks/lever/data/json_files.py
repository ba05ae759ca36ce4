"""Large JSON objects, one member at a time: only the text and one member are in memory."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

from tasks.lever.lever_errors import FileUnusable

SPACE = re.compile(r"[ \t\n\r]*")


def content_of(source: Path | bytes, what: str) -> tuple[str, str]:
    """The text of a file or of its bytes, and how to call it in an error. Raises FileUnusable."""
    where = str(source) if isinstance(source, Path) else what
    try:
        return (source.read_bytes() if isinstance(source, Path) else source).decode("utf-8-sig"), where
    except FileNotFoundError as error:
        raise FileUnusable(f"there is no {where}; name the file, or run the stage that writes it") from error
    except (OSError, UnicodeDecodeError) as error:
        raise FileUnusable(f"{where} cannot be read as UTF-8 ({error}); copy it again") from error


class Member(NamedTuple):
    """One entry of an object of objects."""

    key: str
    value: dict[str, Any]
    text: str
    """The value as it stands in the file."""


def members(text: str, where: str) -> Iterator[Member]:
    """The entries of an object of objects, in order.

    Raises FileUnusable naming `where` and the key: no JSON, cut short, NaN, a key twice, a member that is no object.
    """
    decoder = json.JSONDecoder(parse_constant=_no_number)
    at, key, seen = _past(text, 0, "{", where), "", set[str]()
    while at < len(text) and text[at] != "}":
        try:
            key, at = decoder.raw_decode(text, at)
            begin = _past(text, at, ":", where)
            value, at = decoder.raw_decode(text, begin)
        except (ValueError, RecursionError) as error:
            raise FileUnusable(f"{where}: after key {str(key)[:80]!r}: {str(error)[:200]}; write it again") from error
        if not isinstance(key, str) or not isinstance(value, dict) or key in seen:
            wrong = "stands there twice" if key in seen else "is no object"
            raise FileUnusable(f"{where}: {str(key)[:80]!r} {wrong}; an object for each query id is expected")
        seen.add(key)
        yield Member(key, cast(dict[str, Any], value), text[begin:at])
        at = _space(text, at)
        if text[at : at + 1] == ",":
            at = _space(text, at + 1)
            if text[at : at + 1] == "}":
                raise FileUnusable(f"{where}: after key {key[:80]!r}: a comma with nothing behind it; write it again")
        elif text[at : at + 1] != "}":
            raise FileUnusable(f"{where}: after key {key[:80]!r}: it was cut; write it again")
    if at >= len(text) or _space(text, at + 1) < len(text):
        raise FileUnusable(f"{where}: it was cut, or something follows; write it again")


def first_twice(ids: Iterable[str]) -> str | None:
    """The first id that stands there a second time."""
    seen = set[str]()
    # `add` gives None, so that every id is looked up before it is noted
    return next((id for id in ids if id in seen or seen.add(id)), None)


def _past(text: str, at: int, sign: str, where: str) -> int:
    at = _space(text, at)
    if text[at : at + 1] != sign:
        raise FileUnusable(f"{where}: no `{sign}` at character {at}; a JSON object by query id is expected")
    return _space(text, at + 1)


def _space(text: str, at: int) -> int:
    match = SPACE.match(text, at)
    assert match
    return match.end()


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no number")
