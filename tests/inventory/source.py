"""Modules are found by what they define: code may move, and the inventory still finds it."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PACKAGES = ("flows", "tasks", "models", "storage")


def sources() -> Iterator[Path]:
    """Every file of the program."""
    for package in PACKAGES:
        yield from sorted((ROOT / package).rglob("*.py"))


@cache
def defined(named: str) -> Any:
    """The one class, function or constant of that name in the program; `Name.attribute` says which, of several."""
    name, _, attribute = named.partition(".")
    defines = re.compile(rf"^(?:(?:class|def) {name}\b|{name}(?:: [^=]+)? = )", re.MULTILINE)
    found = [
        getattr(importlib.import_module(dotted(file)), name)
        for file in sources()
        if defines.search(file.read_text("utf-8"))
    ]
    fitting = [one for one in found if not attribute or attribute in _attributes(one)]
    assert len(fitting) == 1, f"{named} is defined {len(fitting)} times; say as `Name.attribute` which one is meant"
    return fitting[0]


def _attributes(one: Any) -> set[str]:
    return {*dir(one), *getattr(one, "model_fields", ())}


def dotted(file: Path) -> str:
    """Name of the module that `file` is."""
    return ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
