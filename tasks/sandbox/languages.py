"""The languages that programs are written in: how a source is compiled and run, and whether this machine can.

A program that calls `exit(0)` has not passed its tests, so after their last line a token is written to the descriptor
REPORT. inside/zygote.py does that for Python. Bash: a line after the tests copies the token from the descriptor TOKEN
if the line before it had status 0. JavaScript: its runner in languages.toml reads the token, closes TOKEN, runs the
program as the main module and writes the token once nothing is left to do. Other languages: only the exit code counts,
so `exit(0)` passes.

Tests run in the program's own process, so on purpose a Bash script can read TOKEN itself or redefine `builtin`, and
JavaScript find the token through the inspector or /proc/self/mem, or fire `beforeExit` and exit in a timer between
asynchronous tests; both can replace what the tests compare with.
"""

from __future__ import annotations

import os
import shutil
import tomllib
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import TypeAdapter

from tasks.sandbox.bubblewrap import TOP_FOLDERS
from tasks.sandbox.inside.runner import REPORT, TOKEN
from tasks.sandbox.sandbox_records import LanguageUnavailable

SHOWN_FOLDERS = ("/usr", *TOP_FOLDERS)
"""Folders of this machine in which programs find their tools."""
SYSTEM_PATH = os.pathsep.join(("/usr/local/bin", "/usr/bin", "/bin"))


class Language(NamedTuple):
    """How programs of a language are compiled and run; `{source}` and `{binary}` in its commands stand for paths."""

    name: str
    aliases: tuple[str, ...]
    """Other names, also as tags of fenced blocks."""
    file: str
    run: tuple[str, ...]
    """Command that runs a program; empty for Python, which runs in the fork itself."""
    tools: tuple[str, ...] = ()
    compile: tuple[str, ...] = ()
    run_tested: tuple[str, ...] = ()
    """Command that runs a program with tests; empty where it is that without tests."""
    ends: str = ""
    """Appended to the tests, see above."""
    limits_memory_by: Literal["address_space", "data"] = "address_space"
    """data: it reserves far more addresses than it uses."""

    @property
    def marks_end(self) -> bool:
        """Whether the token shows that the tests are through; else exit code 0 is all that is known."""
        return self.name == "python" or bool(self.ends or self.run_tested)

    def run_command(self, *, tested: bool) -> tuple[str, ...]:
        """Return the program and its arguments, with `{folder}` for where the source is; empty for Python."""
        return self._filled((tested and self.run_tested) or self.run)

    def compile_command(self) -> tuple[str, ...]:
        """Return the compiler and its arguments, with `{folder}` as above; empty where nothing is compiled."""
        return self._filled(self.compile)

    def _filled(self, argv: tuple[str, ...]) -> tuple[str, ...]:
        """Return a command with paths in place of its tools, `{source}` and `{binary}`."""
        tools = {tool: _find_tool(tool, os.environ.get("PATH", os.defpath)) or tool for tool in self.tools}
        values = {"{source}": f"{{folder}}/{self.file}", "{binary}": "{folder}/main", **tools}
        return tuple(values.get(argument, argument) for argument in argv)


_TABLE = Path(__file__).with_name("languages.toml").read_text("utf-8")
LANGUAGES = TypeAdapter(tuple[Language, ...]).validate_python(
    tomllib.loads(_TABLE.replace("{token}", str(TOKEN)).replace("{report}", str(REPORT)))["language"]
)
_BY_NAME = {name: language for language in LANGUAGES for name in (language.name, *language.aliases)}


def find_language(name: str) -> Language:
    """Return the language of a name or an alias, in any case. Raises LanguageUnavailable, which lists the names."""
    language = _BY_NAME.get(name.strip().lower())
    if language is None:
        names = ", ".join(" or ".join((language.name, *language.aliases)) for language in LANGUAGES)
        raise LanguageUnavailable(f"no language is called {name!r}; there are {names}")
    return language


def find_language_name(name: str) -> str | None:
    """Return the name of a language by its name or an alias; None for an unknown one."""
    language = _BY_NAME.get(name.strip().lower())
    return language.name if language else None


def why_unavailable(language: Language) -> str | None:
    """Return why programs of a language cannot be run here; None where they can."""
    for tool in language.tools:
        if _find_tool(tool, os.environ.get("PATH", os.defpath)):
            continue
        path = shutil.which(tool)
        if path is None:
            return f"{tool} is not on PATH"
        where = os.path.realpath(path) if _is_shown(Path(path)) else path
        return f"{tool} is at {where}, outside of what the sandbox shows ({SHOWN_FOLDERS[0]})"
    return None


@cache
def _find_tool(tool: str, path: str) -> str | None:
    """Return the path of a tool that the sandbox shows; None where it shows none."""
    for candidate in filter(None, (shutil.which(tool, path=SYSTEM_PATH), shutil.which(tool, path=path))):
        real = os.path.realpath(candidate)
        if _is_shown(Path(real)):
            return candidate if _is_shown(Path(candidate)) else real
    return None


def _is_shown(path: Path) -> bool:
    return any(path.is_relative_to(folder) for folder in SHOWN_FOLDERS)
