"""The zygote: a Python interpreter in the sandbox that forks a runner for each program, which forks the program.

An engine (bubblewrap, or boot.py) starts it in a private root with one end of a socket pair as stdin; it ends when the
other end is closed. It and the runner are trusted, what the runner forks is not, see child.py. It reads no request
itself, since its memory is in every later program. A Python program cannot find variables of these functions, such as
the token, by walking up the stack: their frames are gone when it starts, except that of `main`, which holds nothing.
"""

from __future__ import annotations

import gc
import importlib
import operator
import os
import select
import signal
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from . import kernel
from .child import Settings
from .frames import receive, send
from .python import end, look_new, show, steps_of
from .running import run

CHANNEL = 0

Step = Callable[[], Any]


def main() -> None:
    """Serve; in the fork for a Python program, execute it."""
    code = 0
    try:
        for _ in map(_call, _serve()):
            pass
    except SystemExit as error:
        if error.code is None or isinstance(error.code, int):
            code = error.code or 0
        else:
            code = 1
            show(str(error.code))
    except BaseException as error:  # noqa: BLE001 what the program raised
        code = 1
        show(error)
    end(code)


def _call(step: Step) -> Any:
    return step()


_call = getattr(operator, "call", _call)  # without a frame of its own, from Python 3.11 on


def _serve() -> Iterable[Step]:
    """Serve until the host is gone; returns nothing there, and in a fork the steps of its program."""
    channel = socket.socket(fileno=os.dup(CHANNEL))
    os.dup2(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), CHANNEL)
    told = receive(channel)
    if told is None:
        return ()
    settings = Settings(system_calls=told.blobs[0], **told.fields["settings"])
    _keep_signals_from_runners()
    kernel.leave_session_keyring()
    if settings.isolated:
        kernel.drop_bounding_set()  # its own capabilities stay, and no program can get any
        with suppress(OSError):  # nobody but root may, behind bubblewrap
            kernel.name_host("sandbox")
    _add_what_site_adds()
    _import(told.fields["preload"])
    look_new(settings)
    gc.collect()
    gc.freeze()  # pages that forks share stay shared
    send(channel, {"ready": True, "pid": os.getpid()})
    while _is_asked(channel):
        runner = kernel.fork_into_pid_namespace() if settings.isolated else os.fork()
        if runner == 0:
            request = receive(channel)
            program = run(request, settings, channel) if request else None
            if program is None:
                os._exit(0)
            return steps_of(program)
        if os.waitpid(runner, 0)[1] != 0:
            break
    return ()


def _keep_signals_from_runners() -> None:
    """Leave only SIGCHLD handled: process 1 of a namespace gets no other signals than those that it handles.

    Runners inherit this, so that it costs them nothing, and programs reset it.
    """
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in range(1, signal.SIGRTMIN):  # `nohup`, or a shell in the background, has some ignored
        if number not in (signal.SIGPIPE, signal.SIGXFSZ) and signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, _wake)


def _wake(*_: object) -> None:
    """A signal only wakes the poll."""


def _is_asked(channel: socket.socket) -> bool:
    """Wait for a request; False when the host is gone."""
    waiting = select.poll()
    waiting.register(channel, select.POLLIN | select.POLLRDHUP)
    [(_, event)] = waiting.poll()
    return not event & (select.POLLRDHUP | select.POLLHUP | select.POLLERR)


def _add_what_site_adds() -> None:
    """Add `exit`, `quit` and `help`, which an interpreter without site lacks."""
    import _sitebuiltins
    import builtins

    for name in ("exit", "quit"):
        setattr(builtins, name, _sitebuiltins.Quitter(name, "Ctrl-D (i.e. EOF)"))
    builtins.help = _sitebuiltins._Helper()


def _import(names: Iterable[str]) -> None:
    """Import the modules that this Python has, so that programs need not."""
    for name in names:
        try:
            importlib.import_module(name)
        except Exception:  # noqa: BLE001 a library that fails at import fails again where it is needed
            continue
