"""Masks secrets in arguments and configurations before they are stored."""

from __future__ import annotations

import re
from typing import Any

MASK = "***"
NAMES = (
    r"(?:[a-z0-9]+_)*(?:api_?key|password|passwd|secret|secret_key|access_key|authorization)"
    r"|(?:hf_|auth_|access_)?token"  # max_tokens and eos_token are none
)
NAME = re.compile(NAMES, re.IGNORECASE)
ARGUMENT = re.compile(rf"(?<![A-Za-z0-9_])({NAMES})(\s*[=:]\s*)(?:bearer\s+)?[^,\s&]+", re.IGNORECASE)
IN_ADDRESS = re.compile(r"(://[^/@:\s]*:)[^/@\s]+@")


def masked(value: Any) -> Any:
    """`value`, text or plain data, with *** in place of secrets."""
    match value:
        case str():
            return IN_ADDRESS.sub(rf"\1{MASK}@", ARGUMENT.sub(rf"\1\2{MASK}", value))
        case dict():
            secret = {name for name in value if isinstance(name, str) and NAME.fullmatch(name.replace("-", "_"))}
            return {name: MASK if name in secret and item else masked(item) for name, item in value.items()}
        case list():
            return [masked(item) for item in value]
        case tuple():
            return tuple(masked(item) for item in value)
        case _:
            return value
