"""Lines from a person at the terminal, or from a pipe, and what Ctrl-C does meanwhile."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from itertools import takewhile
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prompt_toolkit.history import History

QUIT = "/quit"


def line_editor() -> Callable[[], str | None]:
    """Gives the next line that holds something; None after Ctrl-D or /quit. Ctrl-C gives up a line."""
    from prompt_toolkit import PromptSession

    editor = PromptSession[str](history=_past_lines())

    def read() -> str | None:
        while True:
            try:
                line = _whole(editor.prompt("› ")).strip()
            except KeyboardInterrupt:
                continue
            except EOFError:
                return None
            if line:
                return None if line == QUIT else line

    return read


@contextmanager
def ctrl_c(handler: Callable[[int, FrameType | None], object]) -> Generator[None]:
    """What Ctrl-C does meanwhile."""
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def nothing(_signal: int, _frame: FrameType | None) -> None:
    """The line editor reads Ctrl-C as a key; between lines there is nothing to stop."""


@contextmanager
def no_echo() -> Generator[None]:
    """What is typed during an answer waits for the next line, and is not written into the answer."""
    import termios

    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    silent = termios.tcgetattr(terminal)
    silent[3] &= ~termios.ECHO
    termios.tcsetattr(terminal, termios.TCSADRAIN, silent)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def _past_lines() -> History:
    """Lines of earlier conversations, for the arrow keys; a home that cannot be written has none."""
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    from flows.settings import settings
    from storage import files
    from storage.errors import StorageError

    class Past(FileHistory):
        def store_string(self, string: str) -> None:
            super().store_string(_whole(string))

    path = settings().home / "chat_history"
    try:
        files.make_folder(path.parent)
        path.touch(mode=0o600)
    except (OSError, StorageError):
        return InMemoryHistory()
    return Past(str(path))


def _whole(text: str) -> str:
    """`text` without the lone surrogates that stand for bytes that are no UTF-8."""
    return text.encode(errors="replace").decode()


def piped_lines() -> Iterator[str]:
    """Lines that hold something, until there is none or one says /quit."""
    # bytes that are no UTF-8 must not end the conversation
    sys.stdin.reconfigure(errors="replace")  # pyright: ignore[reportAttributeAccessIssue]
    lines = (line.strip() for line in sys.stdin)
    return takewhile(lambda line: line != QUIT, filter(None, lines))
