"""How commands speak: one JSON object on stdout with --json, words for people otherwise, errors in plain sentences."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import Any, NoReturn

import typer
from pydantic import BaseModel, ValidationError
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

DONE, FAILED, REFUSED, DONE_WITH_FAILURES = 0, 1, 2, 3
"""Exit codes: done · failed · usage or refused input · done, with documents that failed."""
INTERRUPTED = 130
"""Ctrl-C: 128 and the number of the signal, as shells have it."""

state = {"debug": False}
"""Set by the top-level `--debug`: show tracebacks."""

_STEERING = dict.fromkeys(
    sign
    for signs in (range(0x20), range(0x7F, 0xA0), range(0x202A, 0x202F), range(0x2066, 0x206A))
    for sign in signs
    if chr(sign) not in "\t\n"
)
"""Control signs, and those that turn the direction of writing."""


class Screen(Console):
    """A console whose text cannot steer the terminal: documents, file names and models may hold escape sequences."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=harmless(segment.text))


def harmless(text: str) -> str:
    """`text` without signs that steer a terminal."""
    return text.translate(_STEERING)


def emit(value: BaseModel | dict[str, Any], as_json: bool, human: Callable[[], None]) -> None:
    """Print `value` as one JSON object, or let `human` say it in words."""
    if not as_json:
        human()
        return
    plain = value.model_dump(mode="json") if isinstance(value, BaseModel) else value
    sys.stdout.write(json.dumps(plain, ensure_ascii=False) + "\n")


def fail(message: str, code: int = FAILED) -> NoReturn:
    """Say what went wrong on stderr and end with `code`."""
    typer.secho(f"error: {harmless(message)}", fg="red", err=True)
    raise typer.Exit(code)


@contextmanager
def plain_errors(*refused: type[Exception], failed: tuple[type[Exception], ...] = ()) -> Generator[None]:
    """Turn expected exceptions into one sentence: `refused` exit 2, `failed` exit 1; with --debug they propagate."""
    try:
        yield
    except (*refused, *failed) as error:
        if state["debug"]:
            raise
        fail(str(error), REFUSED if isinstance(error, refused) else FAILED)


def sentences(error: ValidationError, flag: Callable[[str], str] = str) -> str:
    """What pydantic refused, an option a line.

    flag: what the command calls a field, `figure qwen3_vl_max_tokens` for `figures.qwen3_vl_max_tokens`.
    """
    lines: list[str] = []
    for item in error.errors():
        name, given = flag(".".join(map(str, item["loc"]))), item["input"]
        if item["type"] == "value_error":
            said = item["msg"].removeprefix("Value error, ")
            value = f" {given}" if isinstance(given, str) else ""
            lines.append(f"{_option(name)}{value}: {said}" if name else said)
        else:
            lines.append(f"{_option(name)}: {item['msg']} (it is {given!r})")
    return "\n".join(lines)


def _option(name: str) -> str:
    """`--figure x` for `figure x`."""
    option, *more = name.split(" ")
    return " ".join((f"--{option.replace('_', '-')}", *more))
