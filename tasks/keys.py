"""Names for pieces of work: equal work has an equal key, in every process and on every machine."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from pydantic import TypeAdapter

_anything = TypeAdapter(dict[str, Any])


def content_key(name: str, version: int, inputs: dict[str, Any], *more: str | None) -> str:
    """SHA-256 (hex) of a piece of work: its name, version and the JSON of its inputs, keys sorted."""
    plain = _anything.dump_python(inputs, mode="json")
    text = json.dumps([name, version, plain, *more], sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
