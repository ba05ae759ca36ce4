"""The pages: the front door and the rooms stay short, examples give what they show, links and commands exist."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from flows.cli import app

ROOT = Path(__file__).parents[1]
TRACKED = subprocess.run(["git", "ls-files", "*README.md"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
PAGES = [ROOT / name for name in TRACKED.splitlines()]
ROOMS = [page for page in PAGES if page.parent != ROOT and "tests" not in page.relative_to(ROOT).parts]
EXAMPLES = [page for page in ROOMS if page.parent.name != "deployments"]  # whose example is a service
EXAMPLE = re.compile(r"^## Example\n.*?^```(python|sh)\n(.*?)^```\n```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#:]+)\)")
COMMAND = re.compile(r"(?:^|[$`|(]\s?)trivet ((?:[a-z][a-z-]* ?){1,2})", re.MULTILINE)


def test_the_front_door_is_short() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    assert len(text.splitlines()) <= 180
    assert len(text.encode()) <= 12_000


@pytest.mark.parametrize("page", ROOMS, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_page_of_a_room_is_read_at_one_sitting(page: Path) -> None:
    lines = page.read_text("utf-8").splitlines()
    assert len(lines) <= 120
    assert not [line for line in lines if len(line) > 160]


@pytest.mark.parametrize("page", EXAMPLES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_example_of_a_room_prints_what_its_page_shows(page: Path, tmp_path: Path) -> None:
    [(language, program, output)] = EXAMPLE.findall(page.read_text("utf-8"))
    command = [sys.executable, "-"] if language == "python" else ["bash", "-e"]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = os.environ | {"TRIVET_HOME": str(tmp_path), "PYTHONPATH": str(ROOT), "PATH": path}
    done = subprocess.run(command, input=program, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == output


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
