"""Sets up namespaces, limits and privileges in two processes, init and the program that it forks.

Init is process 1 of a new process namespace: when it ends, everything there does. It has a private folder in memory of
limited size, a /proc that shows only its namespace, and no network but its own loopback. The program has no privileges,
only its own descriptors, and limits that it cannot raise.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
from typing import Any, NamedTuple

from . import kernel
from .frames import Frame

FOLDER = "/tmp/work"
REPORT = 251
"""Descriptor for the token once the tests are through; a number that programs do not use themselves."""
TOKEN = 252
"""Descriptor from which programs in other languages than Python read the token."""
STATUS = 253
STDIN = ".stdin"
OPEN_STACK = 8 << 20
COMPILER = {
    "cpu_s": 60,
    "memory_bytes": 4 << 30,
    "file_bytes": 512 << 20,
    "inodes": 20_000,
    "processes": 128,
    "open_files": 1024,
}


class Pipe(NamedTuple):
    read: int
    write: int


class Settings(NamedTuple):
    system_calls: bytes
    """The filter; empty: none."""
    isolated: bool
    """False: programs get no namespaces."""
    uid: int | None
    """User that programs run as; None: the zygote's, without privileges."""
    counted: int | None
    """Processes that the kernel counts with those of a program; None: all of a user's, so that none can be limited."""
    cgroup: tuple[int, ...] = ()
    """Descriptors of `cgroup.procs`, through which a process joins the group."""
    packages: tuple[str, ...] = ()


class Task(NamedTuple):
    source: bytes
    tests: bytes | None
    stdin: bytes
    files: dict[str, bytes]
    token: bytes
    path: str
    """Path of the source, relative to the folder."""
    argv: list[str]
    """Empty: Python, which runs in the fork."""
    compile: list[str]
    bound: str
    """`address_space` or `data`: what memory_bytes bounds."""
    limits: dict[str, Any]
    folder: str
    number: int
    """Number of the request; the reply repeats it."""

    @classmethod
    def of(cls, request: Frame, folder: str) -> Task:
        """The task of a request; `{folder}` in its commands stands for the folder."""
        source, tests, stdin, *contents = request.blobs
        told = dict(request.fields)
        tests = tests if told.pop("tested") else None
        files = dict(zip(told.pop("files"), contents))  # noqa: B905 Python 3.9 has no `strict`
        told["token"] = told["token"].encode()
        for command in ("argv", "compile"):
            told[command] = [argument.replace("{folder}", folder) for argument in told[command]]
        return cls(source=source, tests=tests, stdin=stdin, files=files, folder=folder, **told)

    @property
    def wall_s(self) -> float:
        return self.limits["wall_s"]

    @property
    def compile_s(self) -> float:
        return COMPILER["cpu_s"] * 2 if self.compile else 0.0

    def most(self, name: str) -> int:
        """Most bytes that are read from a pipe."""
        return self.limits["output_bytes"] if name in ("stdout", "stderr") else 4096


def become_init(settings: Settings, task: Task) -> int:
    """Set up namespaces and the folder; returns a descriptor of the program's stdin, a file that can be read again."""
    if settings.isolated:
        with contextlib.suppress(OSError):
            os.close(_written("/proc/self/oom_score_adj", b"1000"))
    else:  # the first process of the zygote's namespace would take all others with it
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - {signal.SIGCHLD})
    kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
    limits = task.limits
    if settings.isolated:
        kernel.unshare(kernel.CLONE_NEWNS | kernel.CLONE_NEWIPC | kernel.CLONE_NEWNET)
        kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
        given = len(task.source) + len(task.stdin) + sum(map(len, task.files.values()))
        size = max(limits["file_bytes"], COMPILER["file_bytes"] if task.compile else 0) + given
        inodes = limits["inodes"] + len(task.files) + (COMPILER["inodes"] if task.compile else 8)
        sizes = f"size={size},nr_inodes={inodes},mode=1777"
        kernel.mount("tmpfs", "/tmp", "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, sizes)
        os.mkdir("/tmp/.shm", 0o1777)  # noqa: PTH102
        os.chmod("/tmp/.shm", 0o1777)  # noqa: PTH101
        kernel.mount("/tmp/.shm", "/dev/shm", None, kernel.MS_BIND)
        guarded = kernel.MS_RDONLY | kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC
        kernel.mount("proc", "/proc", "proc", guarded)
        kernel.raise_loopback()
    os.umask(0o022)
    os.makedirs(task.folder, exist_ok=True)  # noqa: PTH103
    os.chdir(task.folder)
    owner = -1 if settings.uid is None else settings.uid
    folders = {"."}
    for path, content in {**task.files, task.path: task.source}.items():
        folder = os.path.dirname(path)  # noqa: PTH120
        os.makedirs(folder or ".", exist_ok=True)  # noqa: PTH103
        while folder:
            folders.add(folder)
            folder = os.path.dirname(folder)  # noqa: PTH120
        os.close(_written(path, content, owner))
    stdin = _written(STDIN, task.stdin, owner)
    os.unlink(STDIN)  # noqa: PTH108
    for folder in folders:
        os.chown(folder, owner, owner)
    return stdin


def _written(path: str, content: bytes, owner: int = -1) -> int:
    """Descriptor of a new file, open for reading."""
    written = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    while content:
        content = content[os.write(written, content) :]
    os.fchown(written, owner, owner)
    os.close(written)
    return os.open(path, os.O_RDONLY)


def become_compiler(task: Task, settings: Settings, pipes: dict[str, Pipe]) -> None:
    """Never returns."""
    try:
        _join(settings)
        _wire(pipes, stdin=os.open(os.devnull, os.O_RDONLY))
        _limit(settings, {**task.limits, **COMPILER}, task.bound)
        _execute(task.compile)
    except BaseException as error:  # noqa: BLE001 said on stderr, as a shell does
        os.write(2, f"{task.compile[0]}: {error}".encode())
        os._exit(127)


def become_program(task: Task, settings: Settings, pipes: dict[str, Pipe], *, stdin: int) -> None:
    """Returns in the process that is to execute a program of Python's."""
    status = pipes["status"].write
    try:
        _join(settings)
        status = _wire(pipes, stdin=stdin)
        _limit(settings, task.limits, task.bound)
        if task.argv:
            os.set_inheritable(REPORT, task.tests is not None)
            os.set_inheritable(TOKEN, task.tests is not None)
            os.write(status, b"S")
            _execute(task.argv)
        os.close(TOKEN)
        os.write(status, b"S")
        os.close(status)
    except BaseException as error:  # noqa: BLE001 init is told
        with contextlib.suppress(OSError):
            os.write(status, b"E" + f"{type(error).__name__}: {error}".encode()[:1000])
        os._exit(1)


def _join(settings: Settings) -> None:
    """Join the cgroup, with every process forked from here on."""
    for fd in settings.cgroup:
        os.write(fd, b"0")


def _wire(pipes: dict[str, Pipe], *, stdin: int) -> int:
    """Keep the standard descriptors, REPORT, TOKEN and STATUS, no others; returns STATUS, which closes on exec."""
    wanted = {0: stdin, 1: pipes["stdout"].write, 2: pipes["stderr"].write}
    for number, fd in {**wanted, REPORT: pipes["report"].write, TOKEN: pipes["token"].read}.items():
        os.dup2(fd, number, inheritable=number <= 2)
    os.dup2(pipes["status"].write, STATUS, inheritable=False)
    os.closerange(3, REPORT)
    os.closerange(STATUS + 1, 4096)
    return STATUS


def _limit(settings: Settings, limits: dict[str, Any], bound: str) -> None:
    """Set the limits and drop privileges."""
    os.setsid()
    cpu_s = int(-(-limits["cpu_s"] // 1))
    _, stack = resource.getrlimit(resource.RLIMIT_STACK)
    for what, value in {
        resource.RLIMIT_CPU: (cpu_s, cpu_s + 1),
        resource.RLIMIT_FSIZE: limits["file_bytes"],
        resource.RLIMIT_NOFILE: limits["open_files"],
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_MEMLOCK: 64 << 10,
        resource.RLIMIT_MSGQUEUE: 0,
        resource.RLIMIT_STACK: (OPEN_STACK, stack),
        resource.RLIMIT_AS if bound == "address_space" else resource.RLIMIT_DATA: limits["memory_bytes"],
    }.items():
        resource.setrlimit(what, value if isinstance(value, tuple) else (value, value))
    if settings.isolated:
        if settings.counted is not None:
            resource.setrlimit(resource.RLIMIT_NPROC, (limits["processes"] + settings.counted,) * 2)
    else:
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
    if settings.uid is not None:
        for fd in (0, 1, 2):  # else /dev/stdin and kin cannot be opened
            os.fchown(fd, settings.uid, settings.uid)
        os.setgroups([])
        os.setresgid(settings.uid, settings.uid, settings.uid)
        os.setresuid(settings.uid, settings.uid, settings.uid)
    if settings.isolated:
        kernel.drop_capabilities()
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    kernel.prctl(kernel.PR_SET_DUMPABLE, 1)  # of itself a program may know: /dev/stdin leads there
    if settings.system_calls:
        kernel.load_filter(settings.system_calls)


def _execute(argv: list[str]) -> None:
    """Raises OSError, or never returns."""
    for number in (signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    os.environ.pop("PYTHONPATH", None)  # of another interpreter than what this may start
    os.execve(argv[0], argv, dict(os.environ))
