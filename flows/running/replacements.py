"""What takes the place of a command, option, format, configuration key or variable that an earlier version had."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Literal

Kind = Literal["command", "option", "format", "configuration", "environment"]


@cache
def replacements() -> dict[str, dict[str, str]]:
    """The table beside this file: kind → name → what to do instead."""
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))


def explain_removal(kind: Kind, name: str) -> str | None:
    """One sentence on what replaces `name`; None if no version ever had it."""
    instead = replacements()[kind].get(name)
    return instead and f"{name} was removed: {instead}"
