"""Output of commands: one JSON object on stdout with --json, else text; errors as one sentence on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import Any, NoReturn

import typer
from pydantic import BaseModel
from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.segment import Segment

DONE, FAILED, REFUSED, DONE_WITH_FAILURES = 0, 1, 2, 3
"""Exit codes: done · failed · usage error or refused input · done, but some documents failed."""
INTERRUPTED = 130
"""Exit code after Ctrl-C: 128 plus the number of the signal."""

state = {"debug": False}
"""Set by the top-level `--debug`: show tracebacks."""

_STEERING = dict.fromkeys(
    sign
    for signs in (range(0x20), range(0x7F, 0xA0), range(0x202A, 0x202F), range(0x2066, 0x206A))
    for sign in signs
    if chr(sign) not in "\t\n"
)
"""Control characters, and those that change the direction of writing."""


class Screen(Console):
    """A console that shows the text of documents and models as it is: no escape sequences, no emoji for `:x:`."""

    def __init__(self, **how: Any) -> None:
        super().__init__(highlight=False, emoji=False, **how)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=harmless(segment.text))

    def print_line(self, markup: str) -> None:
        """Print a line, which a terminal wraps; files and pipes get it whole."""
        self.print(markup, soft_wrap=True)

    def print_notes(self, notes: Iterable[str]) -> None:
        """Print notes, a line each."""
        for note in notes:
            self.print_line(f"[yellow]note[/yellow] {escape(note)}")


def harmless(text: str) -> str:
    """`text` without characters that control a terminal."""
    return text.translate(_STEERING)


def emit(value: BaseModel | dict[str, Any], as_json: bool, human: Callable[[], None]) -> None:
    """Print `value` as one JSON object, or call `human` to print it as text."""
    if not as_json:
        human()
        return
    plain = value.model_dump(mode="json") if isinstance(value, BaseModel) else value
    sys.stdout.write(json.dumps(plain, ensure_ascii=False) + "\n")


def fail(message: str, code: int = FAILED) -> NoReturn:
    """Print an error on stderr and exit with `code`."""
    typer.secho(f"error: {harmless(message)}", fg="red", err=True)
    raise typer.Exit(code)


@contextmanager
def plain_errors(
    *refused: type[Exception], failed: tuple[type[Exception], ...] = (), option: str = ""
) -> Generator[None]:
    """Turn expected exceptions into one sentence: `refused` exit 2, `failed` exit 1; with --debug they propagate.

    option: the option with its value that the sentence is about.
    """
    try:
        yield
    except (*refused, *failed) as error:
        if state["debug"]:
            raise
        fail(f"{option}: {error}" if option else str(error), REFUSED if isinstance(error, refused) else FAILED)
