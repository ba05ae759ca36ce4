"""The engine without bubblewrap: what a command sees in it, and that it ends with it. As root, and as somebody else."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tasks.sandbox.inside import boot, kernel
from tasks.sandbox.sandbox_layout import INSIDE, TOP

PYTHON = "/usr/bin/python3"
SOMEBODY = 1_600_000_000 + os.getpid()
PATIENCE_S = 20.0
CONFIGURED = ("/etc/ld.so.cache", "/etc/alternatives", "/etc/passwd")
NAMESPACES = ("mnt", "pid", "ipc", "net", "uts")

TELLS = """
import json, os
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines())
print(json.dumps({
    "uid": os.getuid(), "gid": os.getgid(), "groups": os.getgroups(), "pid": os.getpid(), "cwd": os.getcwd(),
    "env": dict(os.environ), "umask": os.umask(0), "no_new_privileges": status["NoNewPrivs"],
    "capabilities": {name: int(status[name], 16) for name in status if name.startswith("Cap")},
    "namespaces": {name: os.stat("/proc/self/ns/" + name).st_ino for name in os.listdir("/proc/self/ns")},
    "mounts": [line.split()[4:6] for line in open("/proc/self/mountinfo")],
    "root": sorted(os.listdir("/")), "dev": sorted(os.listdir("/dev")),
    "fds": sorted(map(int, os.listdir("/proc/self/fd"))),
    "processes": sorted(int(name) for name in os.listdir("/proc") if name.isdigit()),
}))
"""
TRIES = """
import errno, json, os, sys
def error_of(path):
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT))
    except OSError as error:
        return errno.errorcode[error.errno]
print(json.dumps({path: error_of(path) for path in sys.argv[1:]}))
"""
LASTS = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: os._exit(5))
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True:
            signal.pause()
    os._exit(0)
os.wait()
print("ready", flush=True)
while True:
    time.sleep(0.1)  # a signal that comes just before `pause` would not end it
"""


class Caller(NamedTuple):
    """Who starts the engine."""

    uid: int | None
    """None: who runs the tests."""
    privileged: bool

    def popen(
        self, program: Path, told: dict[str, Any], *, stdin: int = subprocess.DEVNULL, pass_fds: Sequence[int] = ()
    ) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [PYTHON, "-I", "-S", str(program), json.dumps(told)],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd="/",
            env={"SECRET": "1"},
            pass_fds=pass_fds,
            user=self.uid,
            group=self.uid,
            extra_groups=None if self.uid is None else [],
        )

    @property
    def unable(self) -> str | None:
        """Why it cannot make namespaces, found out without the engine."""
        flags = kernel.CLONE_NEWNS if self.privileged else kernel.CLONE_NEWUSER
        makes = f"import ctypes, sys; sys.exit(ctypes.CDLL(None).unshare({flags}))"
        groups = None if self.uid is None else []
        command = [PYTHON, "-I", "-c", makes]
        made = subprocess.run(command, cwd="/", user=self.uid, group=self.uid, extra_groups=groups)
        return "the kernel makes no namespaces for this user" if made.returncode else None


ROOT_CALLS = Caller(None, privileged=True)
SOMEBODY_CALLS = Caller(SOMEBODY if os.geteuid() == 0 else None, privileged=False)
CALLERS = [pytest.param(ROOT_CALLS, id="root"), pytest.param(SOMEBODY_CALLS, id="somebody")]


@pytest.fixture(scope="module", params=CALLERS)
def caller(request: pytest.FixtureRequest) -> Caller:
    one: Caller = request.param
    if not Path(PYTHON).exists():
        pytest.skip(f"there is no {PYTHON}, which everybody may read")
    if one.privileged and os.geteuid() != 0:
        pytest.skip("the tests do not run as root")
    if why := one.unable:
        pytest.skip(why)
    return one


@pytest.fixture(scope="module")
def program() -> Iterator[Path]:
    """The engine, where everybody may read it."""
    folder = Path(tempfile.mkdtemp(prefix="trivet-boot-"))
    folder.chmod(0o755)
    shutil.copytree(INSIDE, folder / "inside", ignore=shutil.ignore_patterns("__pycache__"))
    yield folder / "inside/boot.py"
    shutil.rmtree(folder)


def told(code: str, *arguments: str, caller: Caller, **others: Any) -> dict[str, Any]:
    """What the engine is told, to run a line of Python."""
    shown = [path for path in ("/usr", *TOP, *CONFIGURED) if Path(path).exists() and not Path(path).is_symlink()]
    return {
        "readonly": [[path, path] for path in shown],
        "symlinks": [[str(Path(path).readlink()), path] for path in TOP if Path(path).is_symlink()],
        "uid_map": not caller.privileged,
        "command": [PYTHON, "-I", "-S", "-c", code, *arguments],
        "env": {"LANG": "C.UTF-8"},
        **others,
    }


def finished(process: subprocess.Popen[str]) -> subprocess.CompletedProcess[str]:
    with process:
        stdout, stderr = process.communicate(timeout=PATIENCE_S)
    return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)


def said(caller: Caller, program: Path, code: str, *arguments: str, **others: Any) -> Any:
    """The JSON that a command printed."""
    done = finished(caller.popen(program, told(code, *arguments, caller=caller, **others)))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def seen(caller: Caller, program: Path) -> dict[str, Any]:
    return said(caller, program, TELLS)


def mask(capabilities: dict[str, int]) -> int:
    return sum(1 << number for number in capabilities.values())


# what there is


def test_it_is_nobody_with_the_capabilities_that_it_needs(seen: dict[str, Any], caller: Caller):
    kept = mask(boot.NEEDED | (boot.OF_ROOT if caller.privileged else {}))
    outliving = 0 if caller.privileged else kept

    assert (seen["uid"], seen["gid"]) == ((0, 0) if caller.privileged else (boot.NOBODY, boot.NOBODY))
    assert seen["capabilities"] == {
        "CapInh": outliving,
        "CapPrm": kept,
        "CapEff": kept,
        "CapBnd": kept,
        "CapAmb": outliving,
    }
    assert seen["no_new_privileges"] == "1"


def test_it_is_alone_in_namespaces_of_its_own(seen: dict[str, Any], caller: Caller):
    ours = {name: Path(f"/proc/self/ns/{name}").stat().st_ino for name in seen["namespaces"]}
    private = {*NAMESPACES, *(() if caller.privileged else ("user",))}

    assert {name for name in private if seen["namespaces"][name] == ours[name]} == set()
    assert (seen["pid"], seen["processes"]) == (1, [1])


def test_it_has_the_environment_that_was_told_and_no_more(seen: dict[str, Any]):
    assert (seen["env"], seen["cwd"], seen["umask"]) == ({"LANG": "C.UTF-8"}, "/", 0o022)


def test_it_has_no_descriptors_but_those_of_its_caller(seen: dict[str, Any]):
    listing = 3  # the folder that is being listed
    assert seen["fds"] == [0, 1, 2, listing]


def test_the_root_holds_what_was_told(seen: dict[str, Any]):
    top = {Path(path).name for path in TOP if Path(path).exists() or Path(path).is_symlink()}

    assert set(seen["root"]) == {"dev", "etc", "proc", "tmp", "usr"} | top
    assert seen["dev"] == sorted([*boot.DEVICES, *boot.LINKS, "shm"])


def test_every_mount_is_read_only(seen: dict[str, Any]):
    options = {path: set(said.split(",")) for path, said in seen["mounts"]}

    assert {path for path in options if not {"ro", "nosuid"} <= options[path]} == set()
    assert {path for path in options if "nodev" not in options[path]} == {f"/dev/{name}" for name in boot.DEVICES}
    assert {path for path in options if path.startswith(("/old", "/new"))} == set()


def test_files_and_links_are_there(caller: Caller, program: Path):
    reads = """
import json, os
print(json.dumps([open("/etc/passwd").read(), os.readlink("/etc/here"), open("/a/b/c").read()]))
"""
    note = program.parent / "__init__.py"

    usual = told("", caller=caller)

    read = said(
        caller,
        program,
        reads,
        symlinks=[*usual["symlinks"], ["/there", "/etc/here"]],
        readonly=[*usual["readonly"], [str(note), "/a/b/c"]],
    )

    assert read == [Path("/etc/passwd").read_text(), "/there", note.read_text()]


def test_devices_are_devices(caller: Caller, program: Path):
    uses = """
import json
open("/dev/null", "w").write("x")
try:
    open("/dev/full", "w", buffering=1).write("x\\n")
except OSError as error:
    full = error.errno
print(json.dumps([open("/dev/zero", "rb").read(2).hex(), len(open("/dev/urandom", "rb").read(9)), full,
    open("/dev/stdin").read()]))
"""
    assert said(caller, program, uses) == ["0000", 9, errno.ENOSPC, ""]


# what there is not


def test_nothing_of_the_machine_is_there(caller: Caller, program: Path):
    looks = "import json, os, sys; print(json.dumps([path for path in sys.argv[1:] if os.path.lexists(path)]))"
    project = str(Path(__file__).parents[2])
    hidden = ("/etc/shadow", "/root", "/home", "/var", "/run", "/sys", "/old", "/new", project, str(program))

    assert said(caller, program, looks, *hidden) == []


def test_nothing_can_be_written(caller: Caller, program: Path):
    folders = ("/", "/tmp", "/usr", "/usr/bin", "/etc", "/dev", "/dev/shm", "/proc")
    note = program.parent / "note"  # on this machine anybody may write it
    note.touch()
    note.chmod(0o666)
    files = (*(f"{folder}/x" for folder in folders), "/etc/note", "/proc/sys/kernel/hostname")
    readonly = [*told("", caller=caller)["readonly"], [str(note), "/etc/note"]]

    errors = said(caller, program, TRIES, *files, readonly=readonly)

    assert {
        path: error for path, error in errors.items() if error not in ("EROFS", "ENOENT" if path == "/proc/x" else "")
    } == {}


def test_devices_cannot_be_changed(caller: Caller, program: Path):
    changes = """
import json, os
try:
    os.chmod("/dev/null", 0o600)
except OSError as error:
    print(json.dumps(error.errno))
"""
    assert said(caller, program, changes) == errno.EROFS


@pytest.mark.parametrize("number", ["442", "9999"], ids=["at once", "one by one"])
def test_what_is_mounted_within_is_read_only_too(number: str, caller: Caller, program: Path):
    """9999: as on a kernel without mount_setattr."""
    other = program.with_name("other.py")
    other.write_text(program.read_text().replace("MOUNT_SETATTR = 442", f"MOUNT_SETATTR = {number}"))
    within = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    within = sorted({path for path in within if path.startswith("/dev/")})
    shown = [*told("", caller=caller)["readonly"], ["/dev", "/machine"]]

    mounts = said(caller, other, TELLS, readonly=shown)["mounts"]

    options = {path: set(said.split(",")) for path, said in mounts if path.startswith("/machine")}
    assert set(options) == {"/machine", *(f"/machine{path.removeprefix('/dev')}" for path in within)}
    assert {path for path in options if not {"ro", "nosuid", "nodev"} <= options[path]} == set()


def test_no_listener_of_the_machine_is_reached(caller: Caller, program: Path):
    calls = """
import json, socket, sys
try:
    socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=5)
except OSError as error:
    print(json.dumps(error.errno))
"""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert said(caller, program, calls, str(listener.getsockname()[1])) == errno.ENETUNREACH


# how it ends


def test_it_exits_as_the_command_did(caller: Caller, program: Path):
    assert finished(caller.popen(program, told("raise SystemExit(7)", caller=caller))).returncode == 7


def test_a_descriptor_is_handed_on_and_not_kept(caller: Caller, program: Path):
    writes = "import os, sys; os.write(int(sys.argv[1]), b'9'); os.close(int(sys.argv[1])); sys.stdin.read()"
    ours, theirs = socket.socketpair()
    ours.settimeout(PATIENCE_S)
    with ours:
        with theirs:
            process = caller.popen(
                program,
                told(writes, str(theirs.fileno()), caller=caller),
                stdin=subprocess.PIPE,
                pass_fds=[theirs.fileno()],
            )
        assert (ours.recv(9), ours.recv(9)) == (b"9", b"")  # the end, while both processes are there
        assert process.poll() is None
        assert finished(process).returncode == 0


def test_sigterm_is_passed_on(caller: Caller, program: Path):
    with lasting(caller, program) as process:
        process.terminate()

        assert process.wait(PATIENCE_S) == 5


def test_sigterm_is_passed_on_by_an_engine_that_had_no_turn_yet(caller: Caller, program: Path):
    """On a busy machine the command may run long before the process that waits for it goes on."""
    late = program.with_name("late.py")
    late.write_text(program.read_text().replace(" _stand_by(child", " __import__('time').sleep(1), _stand_by(child", 1))
    with lasting(caller, late) as process:
        process.terminate()

        assert process.wait(PATIENCE_S) == 5


def test_a_killed_command_is_told_as_a_shell_does(caller: Caller, program: Path):
    with lasting(caller, program) as process:
        (first,) = children_of(process.pid)
        os.kill(first, signal.SIGKILL)

        assert process.wait(PATIENCE_S) == 128 + signal.SIGKILL


def test_nothing_outlives_the_engine(caller: Caller, program: Path):
    with lasting(caller, program) as process:
        (first,) = children_of(process.pid)
        (left,) = children_of(first)  # in a session of its own, its parent gone

        process.kill()

        try:
            assert is_gone(first)
            assert is_gone(left)
        finally:
            with suppress(ProcessLookupError):
                os.kill(first, signal.SIGKILL)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (
            {"readonly": [["/nowhere/at all", "/usr"]]},
            "bind /nowhere/at all: ENOENT (mount /new/usr: No such file or directory)",
        ),
        ({"command": ["/nowhere"]}, "exec /nowhere: ENOENT (No such file or directory)"),
        ({"symlinks": [["a", "/etc"], ["b", "/etc"]]}, "link /etc: EEXIST (File exists)"),
    ],
    ids=["bind", "exec", "link"],
)
def test_a_failure_names_its_step(change: dict[str, Any], what: str, caller: Caller, program: Path):
    done = finished(caller.popen(program, {**told("", caller=caller, readonly=[["/usr", "/usr"]]), **change}))

    assert (done.returncode, done.stdout) == (boot.FAILED, "")
    assert done.stderr == f"boot: {what}\n"


def test_without_privileges_there_is_only_a_user_namespace(caller: Caller, program: Path):
    done = finished(caller.popen(program, told("", caller=caller, uid_map=False)))

    if caller.privileged:  # root needs none
        assert done.returncode != boot.FAILED
        return
    assert done.returncode == boot.FAILED
    assert done.stderr.startswith("boot: unshare mount, pid, ipc, net, uts: EPERM (")


@contextmanager
def lasting(caller: Caller, program: Path) -> Generator[subprocess.Popen[str]]:
    """A command that waits, with a process that ran away from it."""
    with caller.popen(program, told(LASTS, caller=caller)) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            for first in children_of(process.pid) if process.poll() is None else ():
                os.kill(first, signal.SIGKILL)
            process.kill()


def children_of(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_gone(pid: int) -> bool:
    """Before long."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.01)
    return False
