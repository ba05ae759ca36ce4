"""What reaches the terminal: words, and nothing that steers it."""

from __future__ import annotations

import signal
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from flows.cli.output import Screen, harmless
from tasks.rag.indexing.index_report import read_status

MASKED = """
import pathlib, signal, sys, time, typer
from flows.cli.engine import interruptible
from tasks.rag.indexing.index_report import status_of_build
signal.signal(signal.SIGINT, signal.default_int_handler)
index = pathlib.Path(sys.argv[1])
try:
    with interruptible(outcome="all is kept"), status_of_build(index, generation=None, run=None, parameters={}):
        try:
            signal.raise_signal(signal.SIGINT)
            time.sleep(60)
        except KeyboardInterrupt:
            raise ValueError("Task run is not set")
except typer.Exit as ended:
    sys.exit(ended.exit_code)
"""
HOSTILE = "a \x1b[31mred\x1b[0m \x1b]0;title\x07 \x9b2J \u202eword"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (HOSTILE, "a [31mred[0m ]0;title 2J word"),
        ("줄\n바꿈\t㎡ & ₩ 👩‍👧", "줄\n바꿈\t㎡ & ₩ 👩‍👧"),
    ],
    ids=["escape sequences", "text"],
)
def test_text_loses_the_signs_that_steer_a_terminal_and_no_other(text: str, shown: str) -> None:
    assert harmless(text) == shown


@pytest.mark.parametrize("shown", [Text(HOSTILE), HOSTILE.replace("[", "\\[")], ids=["text", "markup"])
def test_a_screen_draws_its_own_colours_alone(shown: object) -> None:
    file = StringIO()
    screen = Screen(file=file, force_terminal=True, color_system="standard", width=80)
    screen.print("[green]ok[/green]", shown)
    assert file.getvalue() == "\x1b[32mok\x1b[0m a [31mred[0m ]0;title 2J word\n"


@pytest.mark.parametrize("text", ["root:x:0:0", "4:cat:7", "[red]5[/red]"], ids=["accounts", "ratio", "markup"])
@pytest.mark.parametrize("in_table", [False, True], ids=["line", "table"])
def test_text_of_documents_is_no_markup(text: str, in_table: bool) -> None:
    file = StringIO()
    table = Table(escape(text), box=None)
    Screen(file=file, width=80 if in_table else 3).print(table if in_table else escape(text))
    assert file.getvalue().strip() == text


@pytest.mark.parametrize(("program", "is_quiet"), [("/usr/bin/trivet", True), ("own_script.py", False)])
def test_only_the_command_hides_the_traceback_of_ctrl_c_while_modules_load(program: str, is_quiet: bool) -> None:
    interrupted = f"import sys; sys.argv[0] = {program!r}; import flows; raise KeyboardInterrupt"
    assert (subprocess.run([sys.executable, "-c", interrupted], capture_output=True).stderr == b"") is is_quiet


def test_an_error_that_hides_ctrl_c_is_told_as_the_interruption(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", MASKED, tmp_path], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (128 + signal.SIGINT, "error: interrupted; all is kept\n")
    status = read_status(tmp_path)
    assert (status and status.state) == "interrupted"
