"""Output of commands: one JSON object on stdout with --json, else text; errors as one sentence on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import typer
from pydantic import BaseModel
from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from flows.running.environment import home_folder
from storage.files import describe_full_disk
from storage.storage_errors import StoreUnreachable

SUCCEEDED, FAILED, REFUSED, DONE_WITH_FAILURES = 0, 1, 2, 3
"""Exit codes: done · failed · usage error or refused input · done, but some documents failed."""
INTERRUPTED = 130
"""Exit code after Ctrl-C: 128 plus the number of the signal."""

OURS = ("flows.", "tasks.", "models.", "storage.")
"""Modules whose errors are whole sentences; those of other libraries are unexpected."""
REFUSALS = {
    *("ConfigUnusable", "OptionUnusable", "SuiteUnusable", "NoNight", "NoIncident", "Refused", "NotAdmitted"),
    *("FolderUnusable", "MetadataUnusable", "QuestionsUnusable", "UnknownDocument", "StrategyUnusable"),
    *("DocumentError", "DocumentUnreadable", "ReaderUnusable", "IndexUnusable", "QueryUnusable"),
    *("UnknownTask", "UnknownRun", "DataMissing", "DataUnusable", "BenchmarkUnusable", "PreflightFailed"),
    *("NeedsLogLikelihood", "ResultsUnusable", "TemplateUnusable", "LanguageUnavailable", "UnsafeCodeRefused"),
    *("DatasetUnusable", "FileUnusable", "PoolTooSmall", "PointerUnusable", "RewardUnusable", "BackupUnusable"),
    "DeployFailed",
}
"""Errors by name, which spares their imports, of a request that cannot be served as it stands: they exit with 2."""

state = {"debug": False}
"""Set by the top-level `--debug`: show tracebacks."""

_STEERING = dict.fromkeys(
    sign
    for signs in (range(0x20), range(0x7F, 0xA0), range(0x202A, 0x202F), range(0x2066, 0x206A))  # C0; DEL, C1; UAX #9
    for sign in signs
    if chr(sign) not in "\t\n"
)
"""Control characters, and those that change the direction of writing."""


class Screen(Console):
    """A console that shows the text of documents and models as it is: no escape sequences, no emoji for `:x:`."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(highlight=False, emoji=False, **settings)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=harmless(segment.text))

    def print(self, *objects: Any, **options: Any) -> None:
        """Print; text is wrapped between words on a terminal only, and files and pipes get each line in one piece."""
        if not self.is_terminal and all(isinstance(each, (str, Text)) for each in objects):
            options.setdefault("soft_wrap", True)
        super().print(*objects, **options)

    def print_notes(self, notes: Iterable[str]) -> None:
        """Print each note on a line of its own, behind the word `note`."""
        for note in notes:
            self.print(f"[yellow]note[/yellow] {escape(note)}")


def make_table(*columns: str, rows: Iterable[Sequence[object]], title: str | None = None) -> Table:
    """Return a table without lines; a column named `>…` is flush right, and cells are text, not markup."""
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, header_style="bold")
    cells = [[cell if isinstance(cell, Text) else Text(str(cell)) for cell in row] for row in rows]
    for number, name in enumerate(columns):
        is_number = name.startswith(">")
        longest = max((row[number].cell_len for row in cells), default=0)  # a heading may wrap, a number not
        justify = "right" if is_number else "left"
        least = longest if is_number else None
        table.add_column(Text(name.removeprefix(">")), justify=justify, min_width=least, overflow="fold")
    for row in cells:
        table.add_row(*row)
    return table


def harmless(text: str) -> str:
    """Return `text` without characters that control a terminal or change the direction of writing."""
    return text.translate(_STEERING)


def emit(value: BaseModel | dict[str, Any], as_json: bool, human: Callable[[], None]) -> None:
    """Print `value` as one JSON object, or call `human` to print it as text."""
    if not as_json:
        human()
        return
    plain = value.model_dump(mode="json") if isinstance(value, BaseModel) else value
    # escaped where the terminal lacks characters: a program reads every one of them
    is_whole = (getattr(sys.stdout, "encoding", None) or "utf-8").lower().startswith("utf")
    sys.stdout.write(json.dumps(plain, ensure_ascii=not is_whole) + "\n")


def fail(message: str, code: int = FAILED) -> NoReturn:
    """Print an error on stderr and exit with `code`."""
    typer.secho(f"error: {harmless(message)}", fg="red", err=True)
    raise typer.Exit(code)


def find_full_disk(error: Exception) -> str | None:
    """Return the sentence about the home's disk where it is full, which made a database or server fail; else None."""
    return None if isinstance(error, StoreUnreachable) else describe_full_disk(home_folder())


@contextmanager
def plain_errors(*also_refused: type[Exception], option: str = "") -> Generator[None]:
    """Turn expected errors into one sentence on stderr and an exit code; others propagate, with --debug all.

    also_refused: further classes that exit with 2. option: the option with its value that the sentence is about.
    """
    try:
        yield
    except Exception as error:
        kinds = {kind.__name__ for kind in type(error).__mro__ if kind.__module__.startswith(OURS)}
        is_refusal = isinstance(error, also_refused) or kinds & REFUSALS
        if state["debug"] or not (is_refusal or kinds):
            raise
        sentence = (not is_refusal and find_full_disk(error)) or str(error)
        fail(f"{option}: {sentence}" if option else sentence, REFUSED if is_refusal else FAILED)
