"""Executes a Python program in the process that was forked for it."""

from __future__ import annotations

import atexit
import builtins
import io
import os
import signal
import sys
import types
from collections.abc import Callable
from functools import partial
from typing import Any

from .child import REPORT, Settings, Task

OURS = os.path.dirname(os.path.dirname(__file__))  # noqa: PTH120
TESTS = "<tests>"
DEFAULT = int(signal.SIG_DFL)
_at_the_end = {"wait": True}
_signal: Any = sys.modules["_signal"]
"""The C module behind `signal`, whose enumerations cost more than all else here."""

Step = Callable[[], Any]


def look_new(settings: Settings) -> None:
    """Put the zygote's interpreter into the state that programs find, once all that it needs itself is imported."""
    os.environ["PYTHONPATH"] = os.pathsep.join(settings.packages)  # for interpreters that a program starts itself
    sys.path = [*(one for one in sys.path if one not in ("", OURS)), *settings.packages]
    for name in [name for name in sys.modules if name.partition(".")[0] == __package__]:
        del sys.modules[name]
    _open_streams()


def _open_streams() -> None:
    """Open the standard streams on descriptors of the kinds that a program's fork has there: a file, and pipes."""
    sys.stdin = sys.__stdin__ = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, "r")), "utf-8", "surrogateescape")
    sys.stdin.mode = "r"  # type: ignore[misc] as the interpreter does
    before = os.dup(1), os.dup(2)
    read, write = os.pipe()
    os.dup2(write, 1)
    os.dup2(write, 2)
    sys.stdout = sys.__stdout__ = _writer(1, "surrogateescape")
    sys.stderr = sys.__stderr__ = _writer(2, "backslashreplace", line_buffering=True)
    os.dup2(before[0], 1)
    os.dup2(before[1], 2)
    for fd in (*before, read, write):
        os.close(fd)


def steps_of(task: Task) -> tuple[Step, ...]:
    """The steps of a program: its source, its tests, and the token after them. Raises SyntaxError.

    All is bound before the source is executed, and C code calls it, so that a program finds no frame, function or
    variable that it could change.
    """
    path = os.path.join(task.folder, task.path)  # noqa: PTH118
    _as_in_a_new_interpreter(task.folder, path)
    names = _module("__main__" if task.tests is None else "__test__", path)
    source = compile(task.source, path, "exec", dont_inherit=True)
    run = partial(exec, source, names)
    if task.tests is None:
        return (run,)
    _at_the_end["wait"] = False
    copied: dict[str, Any] = {}
    tests = partial(exec, compile(task.tests, TESTS, "exec", dont_inherit=True), copied)
    fresh = partial(copied.__setitem__, "__builtins__", dict(vars(builtins)))
    _forbid_tracing()
    return (run, partial(copied.update, names), fresh, tests, partial(os.write, REPORT, task.token), partial(end, 0))


def _as_in_a_new_interpreter(folder: str, path: str) -> None:
    _signal.signal(signal.SIGINT, signal.default_int_handler)
    _signal.signal(signal.SIGCHLD, DEFAULT)
    signal.set_wakeup_fd(-1)
    sys.argv = [path]
    sys.path.insert(0, folder)


def _module(name: str, path: str) -> dict[str, Any]:
    """The names of a new module."""
    module = sys.modules[name] = types.ModuleType(name)
    module.__file__ = path
    names = vars(module)
    names["__builtins__"] = builtins
    return names


def _forbid_tracing() -> None:
    """Refuse what would let a program skip its tests or find the token."""

    def refuse(event: str, _: tuple[Any, ...]) -> None:
        # the names stand in the code, since a variable could be changed
        if event in {
            "sys.settrace",
            "sys.setprofile",
            "sys.monitoring.register_callback",
            "sys._current_frames",
            "gc.get_objects",
            "gc.get_referrers",
            "gc.get_referents",
        }:
            raise RuntimeError(event + " is not to be had in a sandbox")

    sys.settrace = sys.setprofile = _nothing
    sys.addaudithook(refuse)


def show(error: BaseException | str) -> None:
    """Print what the program died of, without the frames outside it."""
    try:
        if isinstance(error, str):
            print(error, file=sys.stderr)
            return
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename.startswith(os.path.dirname(__file__)):  # noqa: PTH120
            trace = trace.tb_next
        sys.excepthook(type(error), error.with_traceback(trace), trace)
    except BaseException:  # noqa: BLE001 it closed stderr, or is out of memory
        os.write(2, type(error).__name__.encode())


def end(code: int) -> None:
    """End as an interpreter does: wait for threads, call exit functions, flush; after tests only flush."""
    waited: tuple[Step, ...] = ()
    if _at_the_end["wait"]:
        threads = getattr(sys.modules.get("threading"), "_shutdown", _nothing)
        waited = (threads, atexit._run_exitfuncs)  # type: ignore[attr-defined]
    for last in (*waited, *(getattr(stream, "flush", _nothing) for stream in (sys.stdout, sys.stderr))):
        try:
            last()
        except BaseException:  # noqa: BLE001 as the interpreter does, but silently
            continue
    os._exit(code & 0xFF)


def _writer(fd: int, errors: str, *, line_buffering: bool = False) -> io.TextIOWrapper:
    writer = io.TextIOWrapper(io.BufferedWriter(io.FileIO(fd, "w")), "utf-8", errors, line_buffering=line_buffering)
    writer.mode = "w"  # type: ignore[misc]
    return writer


def _nothing(*_: object) -> None:
    """Stands in for functions that would let a program skip its tests."""
