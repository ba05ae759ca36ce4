"""The READMEs: the front door stays short, links lead somewhere, and every command that is shown exists."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from flows.cli import app

ROOT = Path(__file__).parents[1]
TRACKED = subprocess.run(["git", "ls-files", "*README.md"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
PAGES = [ROOT / name for name in TRACKED.splitlines()]
LINK = re.compile(r"\]\(([^)#:]+)\)")
COMMAND = re.compile(r"(?:^|[$`|(]\s?)trivet ((?:[a-z][a-z-]* ?){1,2})", re.MULTILINE)


def test_the_front_door_is_short() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    assert len(text.splitlines()) <= 180
    assert len(text.encode()) <= 12_000


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_of_the_repository(page: Path) -> None:
    broken = [link for link in LINK.findall(page.read_text("utf-8")) if not (page.parent / link).exists()]
    assert not broken


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_that_is_shown_exists(page: Path) -> None:
    unknown = [words for words in COMMAND.findall(page.read_text("utf-8")) if not _exists(words.split())]
    assert not unknown


def _exists(words: list[str]) -> bool:
    """Whether the words begin with a command; a group needs a subcommand unless nothing follows it."""
    group: Any = get_command(app)
    for word in words:
        if (commands := getattr(group, "commands", None)) is None:
            return True
        if word not in commands:
            return False
        group = commands[word]
    return True
