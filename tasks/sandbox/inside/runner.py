"""Runs one program in two processes: the runner, first of its namespace, and the program that it forks.

When the runner ends, everything in its process namespace does. It has a private folder in memory of limited size, a
/proc that shows only its namespace, and no network but its own loopback. The program has no privileges, only its own
descriptors, and limits that it cannot raise. The runner feeds it, collects its output, and ends it in time.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import socket
import time
from typing import Any, NamedTuple

from . import Frame, kernel, send

FOLDER = "/tmp/work"
REPORT = 251
"""Descriptor for the token once the tests are through; a number that programs do not use themselves."""
TOKEN = 252
"""Descriptor from which programs in other languages than Python read the token."""
STATUS = 253
STDIN = ".stdin"
STACK_BYTES = 8 << 20
READ_BYTES = 1 << 16
WAITING_S = 30.0
"""Most that a program's time is extended by, since it waited for a processor."""
COMPILER = {
    "cpu_s": 60,
    "memory_bytes": 4 << 30,
    "file_bytes": 512 << 20,
    "inodes": 20_000,
    "processes": 128,
    "open_files": 1024,
}


class Pipe(NamedTuple):
    """The two descriptors of a pipe."""

    read: int
    write: int


class Settings(NamedTuple):
    """The settings that hold for every program of a zygote."""

    system_calls: bytes
    """The filter of system calls; empty for none."""
    isolated: bool
    """Whether programs get namespaces of their own."""
    uid: int | None
    """User that programs run as; None: the zygote's, without privileges."""
    counted: int | None
    """Processes that the kernel counts with those of a program; None: all of a user's, so that none can be limited."""
    cgroup: tuple[int, ...] = ()
    """Descriptors of `cgroup.procs`, through which a process joins the group."""
    packages: tuple[str, ...] = ()


class Task(NamedTuple):
    """A program to run, as the request of the host describes it."""

    source: bytes
    tests: bytes | None
    stdin: bytes
    files: dict[str, bytes]
    token: bytes
    path: str
    """Path of the source, relative to the folder."""
    argv: list[str]
    """Command that runs the program; empty for Python, which runs in the fork."""
    compile: list[str]
    bound: str
    """Whether memory_bytes bounds the `address_space` or the `data`."""
    limits: dict[str, Any]
    folder: str
    number: int
    """Number of the request; the reply repeats it."""

    @classmethod
    def read(cls, request: Frame, folder: str) -> Task:
        """Return the task of a request; `{folder}` in its commands is replaced by the folder."""
        source, tests, stdin, *contents = request.blobs
        fields = dict(request.fields)
        tests = tests if fields.pop("tested") else None
        files = dict(zip(fields.pop("files"), contents))  # noqa: B905 Python 3.9 has no `strict`
        fields["token"] = fields["token"].encode()
        for command in ("argv", "compile"):
            fields[command] = [argument.replace("{folder}", folder) for argument in fields[command]]
        return cls(source=source, tests=tests, stdin=stdin, files=files, folder=folder, **fields)


def run(request: Frame, settings: Settings, channel: socket.socket) -> Task | None:
    """Execute a program, reply to the host and return None; the fork that becomes a Python program returns its task."""
    folder = FOLDER
    if not settings.isolated:
        import tempfile  # here, so that isolated programs do not pay for it

        folder = tempfile.mkdtemp(prefix="trivet-program-")
    task = Task.read(request, folder)
    pipes = {name: Pipe(*os.pipe()) for name in ("stdout", "stderr", "report", "token", "status")}
    os.write(pipes["token"].write, task.token)
    os.close(pipes["token"].write)
    running = _RunningProgram(pipes, task, channel)
    try:
        stdin = _become_init(settings, task)
        if task.compile:
            compiler = os.fork()
            if compiler == 0:
                _become_compiler(task, settings, pipes)
            running.wait_for(compiler, within_s=COMPILER["cpu_s"] * 2)
        running.compiled = running.waited in (None, 0) and not running.killed_for
        if running.compiled and not running.host_is_gone:
            program = os.fork()
            if program == 0:
                os.close(channel.detach())
                _become_program(task, settings, pipes, stdin=stdin)
                return task
            running.wait_for(program, within_s=task.limits["wall_s"])
    except OSError as error:
        running.failed = str(error)
    running.end_all()
    if not settings.isolated:
        import shutil

        shutil.rmtree(task.folder, ignore_errors=True)
    if not running.host_is_gone:
        send(channel, running.reply(), (bytes(running.taken["stdout"]), bytes(running.taken["stderr"])))
    return None


def _become_init(settings: Settings, task: Task) -> int:
    """Set up namespaces and the folder; return a descriptor of the program's stdin, a file that can be read again."""
    kernel.prctl(kernel.PR_SET_DUMPABLE, 0)  # else a program could read the token in /proc/1/mem, see proc(5)
    limits = task.limits
    if settings.isolated:
        with contextlib.suppress(OSError):
            os.close(_write("/proc/self/oom_score_adj", b"1000"))  # the kernel kills it first
        kernel.unshare(kernel.CLONE_NEWNS | kernel.CLONE_NEWIPC | kernel.CLONE_NEWNET)
        kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)  # no mount below reaches the zygote
        input_bytes = len(task.source) + len(task.stdin) + sum(map(len, task.files.values()))
        size = max(limits["file_bytes"], COMPILER["file_bytes"] if task.compile else 0) + input_bytes
        inodes = limits["inodes"] + len(task.files) + (COMPILER["inodes"] if task.compile else 8)
        sizes = f"size={size},nr_inodes={inodes},mode=1777"
        kernel.mount("tmpfs", "/tmp", "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, sizes)
        os.mkdir("/tmp/.shm", 0o1777)  # noqa: PTH102
        os.chmod("/tmp/.shm", 0o1777)  # noqa: PTH101 mkdir obeys the umask
        kernel.mount("/tmp/.shm", "/dev/shm", None, kernel.MS_BIND)  # shared memory counts in the same size
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
        os.close(_write(path, content, owner))
    stdin = _write(STDIN, task.stdin, owner)
    os.unlink(STDIN)  # noqa: PTH108 it stays open, without a name among the program's files
    for folder in folders:
        os.chown(folder, owner, owner)
    return stdin


def _write(path: str, content: bytes, owner: int = -1) -> int:
    """Write a file, replacing its content, and return a descriptor that is open for reading. owner: -1 keeps it."""
    written = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    while content:
        content = content[os.write(written, content) :]
    os.fchown(written, owner, owner)
    os.close(written)
    return os.open(path, os.O_RDONLY)


def _become_compiler(task: Task, settings: Settings, pipes: dict[str, Pipe]) -> None:
    """Execute the compiler in place of this process; never returns."""
    try:
        _join(settings)
        _set_descriptors(pipes, stdin=os.open(os.devnull, os.O_RDONLY))
        _restrict(settings, {**task.limits, **COMPILER}, task.bound)
        _execute(task.compile)
    except BaseException as error:  # noqa: BLE001 said on stderr, as a shell does
        os.write(2, f"{task.compile[0]}: {error}".encode())
        os._exit(127)


def _become_program(task: Task, settings: Settings, pipes: dict[str, Pipe], *, stdin: int) -> None:
    """Become the program; returns only in the process that is to execute Python."""
    status = pipes["status"].write
    try:
        _join(settings)
        status = _set_descriptors(pipes, stdin=stdin)
        _restrict(settings, task.limits, task.bound)
        if task.argv:
            os.set_inheritable(REPORT, task.tests is not None)
            os.set_inheritable(TOKEN, task.tests is not None)
            _execute(task.argv)
        os.close(TOKEN)
        os.close(status)
    except BaseException as error:  # noqa: BLE001 the runner tells the host
        with contextlib.suppress(OSError):
            os.write(status, f"{type(error).__name__}: {error}".encode()[:1000])
        os._exit(1)


def _join(settings: Settings) -> None:
    """Join the cgroup, with every process forked from here on."""
    for fd in settings.cgroup:
        os.write(fd, b"0")


def _set_descriptors(pipes: dict[str, Pipe], *, stdin: int) -> int:
    """Keep the standard descriptors, REPORT, TOKEN and STATUS, no others; return STATUS, which closes on exec."""
    standard = {0: stdin, 1: pipes["stdout"].write, 2: pipes["stderr"].write}
    for number, fd in {**standard, REPORT: pipes["report"].write, TOKEN: pipes["token"].read}.items():
        os.dup2(fd, number, inheritable=number <= 2)
    os.dup2(pipes["status"].write, STATUS, inheritable=False)  # closed by exec: nothing in it means that exec worked
    os.closerange(3, REPORT)
    os.closerange(STATUS + 1, 4096)
    return STATUS


def _restrict(settings: Settings, limits: dict[str, Any], bound: str) -> None:
    """Set the limits and drop privileges."""
    os.setsid()
    cpu_s = int(-(-limits["cpu_s"] // 1))
    _, stack = resource.getrlimit(resource.RLIMIT_STACK)
    for resource_id, value in {
        resource.RLIMIT_CPU: (cpu_s, cpu_s + 1),  # SIGXCPU, which tells the reason; where it is caught, SIGKILL
        resource.RLIMIT_FSIZE: limits["file_bytes"],
        resource.RLIMIT_NOFILE: limits["open_files"],
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_MEMLOCK: 64 << 10,  # Linux's default until 5.16
        resource.RLIMIT_MSGQUEUE: 0,  # no POSIX queues, also where there is no filter
        resource.RLIMIT_STACK: (STACK_BYTES, stack),  # which a program may raise to the hard limit
        resource.RLIMIT_AS if bound == "address_space" else resource.RLIMIT_DATA: limits["memory_bytes"],
    }.items():
        resource.setrlimit(resource_id, value if isinstance(value, tuple) else (value, value))
    if settings.isolated:
        if settings.counted is not None:
            resource.setrlimit(resource.RLIMIT_NPROC, (limits["processes"] + settings.counted,) * 2)
    else:
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
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
    """Execute a command in place of this process. Raises OSError, or never returns."""
    for number in (signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):  # ignored ones would stay so through exec
        signal.signal(number, signal.SIG_DFL)
    os.environ.pop("PYTHONPATH", None)  # of another interpreter than what this may start
    os.execve(argv[0], argv, dict(os.environ))


class _RunningProgram:
    """A program that is running, with what it has written so far."""

    def __init__(self, pipes: dict[str, Pipe], task: Task, channel: socket.socket) -> None:
        self.taken = {name: bytearray() for name in ("stdout", "stderr", "report", "status")}
        self.host_is_gone = False
        self.compiled = False
        self.killed_for = ""
        self.failed = ""
        self.waited: int | None = None
        """Wait status of the last child waited for."""
        self._task = task
        self._wall_s = 0.0
        self._names = {pipes[name].read: name for name in self.taken}
        self._channel = channel.fileno()
        self._wake, waking = os.pipe()  # SIGCHLD writes to it: else poll would sleep over the end
        for fd in (*self._names, self._wake, waking):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(waking, warn_on_full_buffer=False)

    def wait_for(self, child: int, *, within_s: float) -> None:
        """Wait until `child` ends, its time is over, it wrote too much or the host is gone.

        Time in which it waited for a processor because others were running does not count.
        """
        poll = select.poll()
        for fd in (*self._names, self._wake):
            poll.register(fd, select.POLLIN)
        poll.register(self._channel, select.POLLRDHUP)  # only its end: nobody sends while a program runs
        self.waited, began, extended_s = None, time.monotonic(), 0.0
        while not self.killed_for and not self._has_ended(child):
            remaining_s = began + within_s + extended_s - time.monotonic()
            if remaining_s <= 0:
                waited_s = min(_measure_waiting(child), WAITING_S)
                remaining_s += waited_s - extended_s
                extended_s = waited_s
            if remaining_s <= 0:
                self.killed_for = "wall"
            for fd, _ in poll.poll(max(remaining_s, 0) * 1000 + 1):
                if fd == self._channel:
                    self.host_is_gone = True
                    return
                if fd == self._wake:
                    os.read(fd, READ_BYTES)
                else:
                    self._read_pipe(poll, fd)
        self._wall_s = time.monotonic() - began
        if self.killed_for and os.getpid() != 1:  # without isolation: its session
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)

    def end_all(self) -> None:
        """Kill every process that is left, and read what they wrote last."""
        if os.getpid() == 1:  # else -1 would be everybody
            with contextlib.suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while True:
                os.waitpid(-1, 0)
        for fd in list(self._names):
            while not self.killed_for and fd in self._names and self._read_pipe(None, fd):
                pass

    def reply(self) -> dict[str, Any]:
        """Return the fields of the reply to the host."""
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        report = bytes(self.taken["report"])
        return {
            "number": self._task.number,
            "failed": self.failed or self.taken["status"].decode("utf-8", "replace"),
            "cpu_s": usage.ru_utime + usage.ru_stime,
            "wall_s": self._wall_s,
            # the token came, and nothing else; more than once from a program that forked within its tests
            "finished": report != b"" and report.replace(self._task.token, b"") == b"",
            "killed_for": self.killed_for,
            "compiled": self.compiled,
            "waited": self.waited,
        }

    def _has_ended(self, child: int) -> bool:
        """Reap ended processes; return whether the child is among them."""
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    break
                if pid == child:
                    self.waited = status
        return self.waited is not None

    def _read_pipe(self, poll: Any, fd: int) -> bool:
        """Read from a pipe; return False when nothing is there, it ended, or it fills its limit (then `killed_for`)."""
        name = self._names[fd]
        try:
            block = os.read(fd, READ_BYTES)
        except BlockingIOError:
            return False
        if not block:
            del self._names[fd]
            if poll is not None:
                poll.unregister(fd)
            os.close(fd)
            return False
        most = self._task.limits["output_bytes"] if name in ("stdout", "stderr") else 4096
        output = self.taken[name]
        output += block[: most - len(output)]
        if len(output) >= most:
            self.killed_for = self.killed_for or name
            return False
        return True


def _measure_waiting(child: int) -> float:
    """Return the seconds that a program's threads waited on run queues; 0 where the kernel keeps no such statistics.

    In a namespace of its own those of all its processes count. Source: Documentation/scheduler/sched-stats.rst.
    """
    pids = [str(child)]
    if os.getpid() == 1:
        pids = [name for name in os.listdir("/proc") if name.isdigit() and name != "1"]  # noqa: PTH208
    waited_ns = 0
    for pid in pids:
        with contextlib.suppress(OSError, IndexError, ValueError):  # it may end meanwhile
            for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
                with open(f"/proc/{pid}/task/{thread}/schedstat") as file:  # noqa: PTH123
                    waited_ns += int(file.read().split()[1])
    return waited_ns / 1e9
