"""What another account of this machine can read of a folder."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from storage.files import PARTS, PASSAGES

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can look as another account")


def read_by_another(home: Path) -> list[str]:
    """Files that the account nobody can read, from the home or from a folder in it whose name is known."""
    known = {home, *(home / passage / part for passage in PASSAGES for part in (*PARTS, "cluster", "place.json"))}
    look = ["find", *sorted(str(each) for each in known if each.exists()), "-type", "f", "-readable"]
    said = subprocess.run(
        look, user="nobody", group="nogroup", extra_groups=[], capture_output=True, text=True, check=False
    )
    return said.stdout.split()
