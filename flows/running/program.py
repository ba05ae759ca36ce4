"""Which program runs: what a result names, so that a figure can be made again."""

from __future__ import annotations

import platform
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from pydantic import JsonValue

GIT_TIMEOUT_S = 5
LIBRARIES = ("torch", "transformers", "vllm", "openai", "lm_eval", "sympy", "math-verify")


def program_version() -> str:
    """Version of this installation."""
    return version("trivet")


@cache
def git_commit() -> str | None:
    """Commit of the checkout that runs; None for an installed wheel."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    try:
        said = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=root, capture_output=True, text=True, timeout=GIT_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return said.stdout.strip()


def environment() -> dict[str, JsonValue]:
    """Machine and libraries: for people who wonder why a figure moved."""
    found: dict[str, JsonValue] = {"python": platform.python_version(), "platform": platform.platform()}
    for library in LIBRARIES:
        try:
            found[library] = version(library)
        except PackageNotFoundError:
            continue
    return found
