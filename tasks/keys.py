"""Names for pieces of work, equal for equal work in every process and on every machine; and names for UI artifacts."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

from pydantic import TypeAdapter

_anything = TypeAdapter(dict[str, Any])
_IN_ORDER = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def digest(value: Any) -> str:
    """Return the SHA-256 (hex) of plain JSON, however its fields are ordered."""
    # names of files may hold lone surrogates
    return hashlib.sha256(_IN_ORDER.encode(value).encode("utf-8", "surrogatepass")).hexdigest()


def content_key(name: str, version: int, inputs: dict[str, Any], *more: str | None) -> str:
    """Return the SHA-256 (hex) of a piece of work: name, version, the JSON of its inputs by sorted keys, and `more`."""
    return digest([name, version, _anything.dump_python(inputs, mode="json"), *more])


def slug(name: str) -> str:
    """Return `name` as Prefect's artifact keys allow: small letters, digits, dashes; a short digest if none is left."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or hashlib.sha256(name.encode()).hexdigest()[:8]
