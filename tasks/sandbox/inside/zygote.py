"""The zygote: a Python interpreter in the sandbox that forks a runner for each program, which forks the program.

Bubblewrap starts it in a private root with one end of a socket pair as stdin; it ends when the other end is closed. It
and the runner (runner.py) are trusted, what the runner forks is not. It reads no request itself, since its memory is in
every later program. A Python program cannot find variables of these functions, such as the token, by walking up the
stack: their frames are gone when it starts, except that of `main`, which holds nothing.
"""

from __future__ import annotations

import atexit
import builtins
import gc
import importlib
import io
import operator
import os
import select
import signal
import socket
import sys
import types
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any

from . import kernel, receive, send
from .runner import REPORT, Settings, Task, run

OURS = os.path.dirname(os.path.dirname(__file__))  # noqa: PTH120
TESTS = "<tests>"
DEFAULT = int(signal.SIG_DFL)
CHANNEL = 0

_at_exit = {"wait": True}
_signal: Any = sys.modules["_signal"]
"""The C module behind `signal`, whose enumerations cost more than all else here."""

Step = Callable[[], Any]


def main() -> None:
    """Serve requests until the host is gone; in the fork of a Python program, execute it and exit with its code."""
    code = 0
    try:
        for _ in map(_call, _serve()):
            pass
    except SystemExit as error:
        if error.code is None or isinstance(error.code, int):
            code = error.code or 0
        else:
            code = 1
            _print_error(str(error.code))
    except BaseException as error:  # noqa: BLE001 what the program raised
        code = 1
        _print_error(error)
    _end(code)


def _call(step: Step) -> Any:
    return step()


_call = getattr(operator, "call", _call)  # without a frame of its own, from Python 3.11 on


def _serve() -> Iterable[Step]:
    """Serve until the host is gone and return no steps; in the fork of a Python program, return its steps."""
    channel = socket.socket(fileno=os.dup(CHANNEL))
    os.dup2(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), CHANNEL)  # else programs would inherit the channel
    greeting = receive(channel)
    if greeting is None:
        return ()
    settings = Settings(system_calls=greeting.blobs[0], **greeting.fields["settings"])
    _keep_signals_from_runners()
    kernel.leave_session_keyring()
    if settings.isolated:
        kernel.drop_bounding_set()  # its own capabilities stay, and no program can get any
    for name in greeting.fields["preload"]:
        with suppress(Exception):  # a library that fails at import fails again where it is needed
            importlib.import_module(name)
    _reset_interpreter(settings)
    gc.collect()
    gc.freeze()  # pages that forks share stay shared
    send(channel, {"ready": True, "pid": os.getpid()})
    waiting = select.poll()
    waiting.register(channel, select.POLLIN | select.POLLRDHUP)
    while True:
        [(_, event)] = waiting.poll()
        if event & (select.POLLRDHUP | select.POLLHUP | select.POLLERR):  # the host is gone
            return ()
        runner = kernel.fork_into_pid_namespace() if settings.isolated else os.fork()
        if runner == 0:
            request = receive(channel)
            program = run(request, settings, channel) if request else None
            if program is None:
                os._exit(0)
            return _list_steps(program)
        if os.waitpid(runner, 0)[1] != 0:  # the runner itself broke: the host starts another zygote
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
    signal.signal(signal.SIGCHLD, _do_nothing)  # with a handler, it wakes the poll through the wakeup descriptor


def _reset_interpreter(settings: Settings) -> None:
    """Set up builtins, paths and standard streams as a program finds them, and forget the sandbox's own modules."""
    import _sitebuiltins

    for name in ("exit", "quit"):  # what an interpreter without site lacks
        setattr(builtins, name, _sitebuiltins.Quitter(name, "Ctrl-D (i.e. EOF)"))
    builtins.help = _sitebuiltins._Helper()
    os.environ["PYTHONPATH"] = os.pathsep.join(settings.packages)  # for interpreters that a program starts itself
    sys.path = [*(folder for folder in sys.path if folder not in ("", OURS)), *settings.packages]
    for name in [name for name in sys.modules if name.partition(".")[0] == __package__]:
        del sys.modules[name]
    # the standard streams, on descriptors of the kinds that a program's fork has there: a file, and pipes
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


def _list_steps(task: Task) -> tuple[Step, ...]:
    """Return the steps of a program: its source, its tests, and the token after them. Raises SyntaxError.

    All is bound before the source is executed, and C code calls it, so that a program finds no frame, function or
    variable that it could change.
    """
    path = os.path.join(task.folder, task.path)  # noqa: PTH118
    # as in a new interpreter
    _signal.signal(signal.SIGINT, signal.default_int_handler)
    _signal.signal(signal.SIGCHLD, DEFAULT)
    signal.set_wakeup_fd(-1)
    sys.argv = [path]
    sys.path.insert(0, task.folder)
    name = "__main__" if task.tests is None else "__test__"
    module = sys.modules[name] = types.ModuleType(name)
    module.__file__ = path
    names = vars(module)
    names["__builtins__"] = builtins
    source = compile(task.source, path, "exec", dont_inherit=True)
    run = partial(exec, source, names)
    if task.tests is None:
        return (run,)
    _at_exit["wait"] = False
    copied: dict[str, Any] = {}
    tests = partial(exec, compile(task.tests, TESTS, "exec", dont_inherit=True), copied)
    fresh = partial(copied.__setitem__, "__builtins__", dict(vars(builtins)))
    _forbid_tracing()
    return (run, partial(copied.update, names), fresh, tests, partial(os.write, REPORT, task.token), partial(_end, 0))


def _forbid_tracing() -> None:
    """Refuse what would let a program skip its tests or find the token."""

    def refuse(event: str, _: tuple[Any, ...]) -> None:
        """Raise RuntimeError for an audit event by which a program could see the zygote's frames or objects."""
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

    sys.settrace = sys.setprofile = _do_nothing
    sys.addaudithook(refuse)


def _print_error(error: BaseException | str) -> None:
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


def _end(code: int) -> None:
    """End as an interpreter does: wait for threads, call exit functions, flush; after tests only flush."""
    waited: tuple[Step, ...] = ()
    if _at_exit["wait"]:
        threads = getattr(sys.modules.get("threading"), "_shutdown", _do_nothing)
        waited = (threads, atexit._run_exitfuncs)  # type: ignore[attr-defined]
    for last in (*waited, *(getattr(stream, "flush", _do_nothing) for stream in (sys.stdout, sys.stderr))):
        try:
            last()
        except BaseException:  # noqa: BLE001 as the interpreter does, but silently
            continue
    os._exit(code & 0xFF)  # as exit(3) cuts it


def _writer(fd: int, errors: str, *, line_buffering: bool = False) -> io.TextIOWrapper:
    writer = io.TextIOWrapper(io.BufferedWriter(io.FileIO(fd, "w")), "utf-8", errors, line_buffering=line_buffering)
    writer.mode = "w"  # type: ignore[misc]
    return writer


def _do_nothing(*_: object) -> None:
    """Do nothing, in place of functions that would let a program skip its tests and of streams that are gone."""
