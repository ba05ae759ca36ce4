"""The lists in tests/samples/inventory, and what a test says when the program has more or less."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pytest

LISTS = Path(__file__).parents[1] / "samples" / "inventory"
WRITE = "WRITE_INVENTORY"
"""Environment variable: write the lists in place of comparing them."""


def hold(name: str, lines: Iterable[str]) -> None:
    """Compare `lines` with the list `name`, or write it."""
    file, found = LISTS / f"{name}.txt", sorted(set(lines))
    if os.environ.get(WRITE):
        file.write_text("".join(f"{line}\n" for line in found), "utf-8")
        return
    kept = file.read_text("utf-8").splitlines()
    lost, added = sorted(set(kept) - set(found)), sorted(set(found) - set(kept))
    if lost or added:
        said = "\n".join([*(f"  lost:  {line}" for line in lost), *(f"  added: {line}" for line in added)])
        pytest.fail(
            f"{file.name} is not what the program has:\n{said}\n"
            f"Bring back what is lost. If it is meant: python -m tests.test_inventory {name}, and read the diff.",
            pytrace=False,
        )
