"""Names for pieces of work, equal for equal work in every process and on every machine; and names for UI artifacts."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

from pydantic import TypeAdapter

_anything = TypeAdapter(dict[str, Any])


def content_key(name: str, version: int, inputs: dict[str, Any], *more: str | None) -> str:
    """Return the SHA-256 (hex) of a piece of work: name, version, the JSON of its inputs by sorted keys, and `more`."""
    plain = _anything.dump_python(inputs, mode="json")
    text = json.dumps([name, version, plain, *more], sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()  # names of files may hold lone surrogates


def slug(name: str) -> str:
    """Return `name` as Prefect's artifact keys allow: small letters, digits, dashes; a short digest if none is left."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or hashlib.sha256(name.encode()).hexdigest()[:8]
