"""Figures go to the evaluation tables; a database that is away costs a note, not the figures."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from storage.evaluations import Evaluated
    from storage.index import Index
    from tasks.rag.measuring.recording import Subject

StoreOption = Annotated[bool, typer.Option(help="Keep the figures in the evaluation tables of the database.")]

GIT_TIMEOUT_S = 5


def keep(evaluated: Sequence[Evaluated]) -> str | None:
    """Write to the database of the settings; returns a note where that is not possible."""
    from flows.settings import configure_steps
    from storage.errors import StorageError
    from tasks.resources import evaluations

    configure_steps()
    try:
        evaluations().write(evaluated)
    except StorageError as error:
        return f"the figures are not in the database: {error}"
    return None


def subject_of(opened: Index, folder: Path) -> Subject:
    """The index as a run names it."""
    from tasks.rag.measuring.recording import Subject

    manifest = opened.manifest
    return Subject(
        generation=opened.generation,
        digest=opened.digest,
        environment={
            "index": str(folder.absolute()),
            "embedder": manifest.embedder,
            "tokenizer": manifest.tokenizer,
            "documents": manifest.documents,
            "chunks": manifest.chunks,
            "settings": manifest.settings,
        },
    )


def program_version() -> str:
    """Of this installation."""
    return version("trivet")


@cache
def git_commit() -> str | None:
    """Of the checkout that runs; None for an installed wheel."""
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
