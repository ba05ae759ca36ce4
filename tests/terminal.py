"""A program at a real pseudo-terminal, typed at and read like a person would."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager

ROWS, COLUMNS = 40, 100
PATIENCE_S = 90.0
CTRL_C, CTRL_D, UP = "\x03", "\x04", "\x1b[A"
ESCAPES = re.compile(r"\x1b(?:\[[0-9;?<>=]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][0-9A-B]|[=>78M])|\r")
"""What moves the cursor, colours, and names the window."""


class Terminal:
    """What a program shows, as text without escapes, and the keys that it gets."""

    def __init__(self, process: subprocess.Popen[bytes], screen: int) -> None:
        self.process = process
        self.screen = screen
        self._shown = b""
        self._seen = 0

    def type(self, keys: str) -> None:
        """Press keys; `\\r` is Enter."""
        os.write(self.screen, keys.encode())

    def expect(self, wanted: str) -> str:
        """Everything up to and with `wanted`, from where the last `expect` ended; fails when it does not come."""
        deadline = time.monotonic() + PATIENCE_S
        while (at := self.text.find(wanted, self._seen)) < 0:
            assert time.monotonic() < deadline, f"no {wanted!r} in {self.text[self._seen :]!r}"
            assert self._read(), f"ended without {wanted!r}: {self.text[self._seen :]!r}"
        start, self._seen = self._seen, at + len(wanted)
        return self.text[start : self._seen]

    def ends(self) -> int:
        """The exit code; reads what is still shown."""
        deadline = time.monotonic() + PATIENCE_S
        while self._read():
            assert time.monotonic() < deadline, f"does not end: {self.text[self._seen :]!r}"
        return self.process.wait(timeout=PATIENCE_S)

    @property
    def text(self) -> str:
        """All that was shown so far."""
        return ESCAPES.sub("", self._shown.decode(errors="replace"))

    def _read(self) -> bool:
        """Take in what has come; False when the program has ended and all is read."""
        ready, _, _ = select.select([self.screen], [], [], 0.1)
        if not ready:
            return True
        try:
            part = os.read(self.screen, 65536)
        except OSError:  # Linux says so when the other end is closed
            return False
        self._shown += part
        return bool(part)


@contextmanager
def at_terminal(command: Sequence[str], **environment: str) -> Generator[Terminal]:
    """Run `command` at a terminal of its own, which is gone at the end, and the command with it."""
    screen, keyboard = pty.openpty()
    fcntl.ioctl(screen, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    # nobody here answers the question where the cursor is
    own = {"TERM": "xterm-256color", "PROMPT_TOOLKIT_NO_CPR": "1", "LANG": "C.UTF-8"}
    process = subprocess.Popen(
        command,
        stdin=keyboard,
        stdout=keyboard,
        stderr=keyboard,
        env={name: value for name, value in os.environ.items() if name != "NO_COLOR"} | own | environment,
        start_new_session=True,
        preexec_fn=_take_terminal,
    )
    os.close(keyboard)
    try:
        yield Terminal(process, screen)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        os.close(screen)


def _take_terminal() -> None:
    """In the child: the terminal on stdin is its own, so that Ctrl-C reaches it."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
