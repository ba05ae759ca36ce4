"""The engine without bubblewrap: `python -I -S boot.py JSON` runs a command in new namespaces with its own root.

JSON: `readonly`, pairs of a path here and the path there; `symlinks`, pairs of a target and a path; `uid_map`, whether
a user namespace is needed, as for all but root; `command`; `env`, its whole environment. The command is process 1 of
its namespace, inherits the open descriptors and dies, with all it started, when this process does. SIGTERM is passed
on. Exit code: the command's, 128 + number for a signal, FAILED with one line on stderr where it could not be started.
Root keeps the capabilities with which a zygote makes namespaces and changes its user; any other caller is nobody in a
user namespace, with those that it needs to make namespaces.

Sources: namespaces(7), user_namespaces(7), pivot_root(2), mount_setattr(2), capabilities(7), prctl(2).
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import select
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, NoReturn

if not __package__:  # run as a file, see PEP 366
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # noqa: PTH100, PTH120
    __package__ = "inside"

from . import kernel

FAILED = 125
NOBODY = 65534
BASE = "/tmp"
"""Where the first root in memory is mounted: a folder that every system has."""
DEVICES = ("null", "zero", "full", "random", "urandom")
LINKS = {"fd": "", "stdin": "/0", "stdout": "/1", "stderr": "/2"}
NEEDED = {"SETPCAP": 8, "NET_ADMIN": 12, "SYS_ADMIN": 21}
"""Numbers of capabilities, see linux/capability.h."""
OF_ROOT = {"CHOWN": 0, "KILL": 5, "SETGID": 6, "SETUID": 7}

GUARDED = kernel.MS_RDONLY | kernel.MS_NOSUID | kernel.MS_NODEV
FLAGS = {
    "ro": kernel.MS_RDONLY,
    "nosuid": kernel.MS_NOSUID,
    "nodev": kernel.MS_NODEV,
    "noexec": kernel.MS_NOEXEC,
    "noatime": 1 << 10,
    "nodiratime": 1 << 11,
    "relatime": 1 << 21,
}
"""Options in mountinfo → flags of mount(2); those that are there must be said again when a mount is changed."""
PIVOT_ROOT = {"x86_64": 155, "aarch64": 41, "riscv64": 41, "ppc64le": 203, "s390x": 217}
MOUNT_SETATTR = 442
"""On every architecture. Its first three attributes are MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC by number."""
AWAITED = (signal.SIGTERM, signal.SIGCHLD)
AT_FDCWD = -100
AT_RECURSIVE = 0x8000
PR_CAP_AMBIENT_RAISE = 2

_libc = ctypes.CDLL(None, use_errno=True)


class Failed(Exception):
    """Which step did not work, and why."""


def main() -> NoReturn:
    """Never returns."""
    try:
        _boot(json.loads(sys.argv[1]))
    except Failed as error:
        os.write(2, f"boot: {error}\n".encode())
        os._exit(FAILED)


def _boot(told: dict[str, Any]) -> NoReturn:
    os.umask(0o022)
    _leave_namespaces(in_user_namespace=told["uid_map"])
    alive, held = os.pipe()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_BLOCK, AWAITED)  # before there is anything to tell, so that none is missed
    with _step("fork"):
        child = os.fork()
    if child:
        _stand_by(child, held)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, AWAITED)
    os.close(held)
    _die_with(alive)
    _build_root(told)
    _enter_root()
    _keep_capabilities(NEEDED if told["uid_map"] else {**NEEDED, **OF_ROOT}, ambient=told["uid_map"])
    with _step("no new privileges"):
        kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    with _step(f"exec {told['command'][0]}"):
        os.execve(told["command"][0], told["command"], told["env"])


def _leave_namespaces(*, in_user_namespace: bool) -> None:
    if in_user_namespace:
        uid, gid = os.geteuid(), os.getegid()
        with _step("unshare user"):
            kernel.unshare(kernel.CLONE_NEWUSER)
        for name, text in (("setgroups", "deny"), ("uid_map", f"{NOBODY} {uid} 1"), ("gid_map", f"{NOBODY} {gid} 1")):
            with _step(name):
                _write(f"/proc/self/{name}", text)
    with _step("unshare mount, pid, ipc, net, uts"):
        kernel.unshare(
            kernel.CLONE_NEWNS | kernel.CLONE_NEWPID | kernel.CLONE_NEWIPC | kernel.CLONE_NEWNET | kernel.CLONE_NEWUTS
        )
    try:
        kernel.unshare(kernel.CLONE_NEWCGROUP)
    except OSError:  # a kernel without: then the names of groups can be seen, but none of their folders
        return


def _stand_by(child: int, held: int) -> NoReturn:
    """Wait for the child, without holding open a descriptor whose end somebody waits for."""
    os.close(0)
    os.closerange(3, held)
    os.closerange(held + 1, 65536)
    while True:
        if signal.sigwait(AWAITED) == signal.SIGTERM:
            os.kill(child, signal.SIGTERM)
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            os._exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status))


def _die_with(alive: int) -> None:
    """Die when the parent does, or at once if it has: it holds the other end of `alive`."""
    with _step("die with the parent"):
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    ended = select.poll()
    ended.register(alive, 0)
    if ended.poll(0):
        os._exit(FAILED)


def _build_root(told: dict[str, Any]) -> None:
    """Mount the new root at /new; the machine's is then at /old."""
    shown = [(os.path.realpath(source), target) for source, target in told["readonly"]]
    with _step("private mounts"):
        kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    with _step("a first root"):
        kernel.mount("tmpfs", BASE, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "mode=755")
        os.mkdir(f"{BASE}/old")  # noqa: PTH102
        os.mkdir(f"{BASE}/new")  # noqa: PTH102
        _pivot_root(BASE, f"{BASE}/old")
        os.chdir("/")
        kernel.mount("tmpfs", "/new", "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "mode=755")
    for source, target in shown:
        with _step(f"bind {source}"):
            _bind(f"/old{source}", f"/new{target}")
            _guard(f"/new{target}", GUARDED)
    for target, path in told["symlinks"]:
        with _step(f"link {path}"):
            _folder(os.path.dirname(f"/new{path}"))  # noqa: PTH120
            os.symlink(target, f"/new{path}")  # noqa: PTH211
    _fill()


def _fill() -> None:
    """Make /dev, /proc and /tmp in the new root."""
    for path in ("/new/proc", "/new/tmp", "/new/dev/shm"):
        with _step(f"make {path[4:]}"):
            _folder(path)
    for name in DEVICES:
        with _step(f"bind /dev/{name}"):
            _bind(f"/old/dev/{name}", f"/new/dev/{name}")
            _guard(f"/new/dev/{name}", kernel.MS_RDONLY | kernel.MS_NOSUID | kernel.MS_NOEXEC)
    for name, end in LINKS.items():
        with _step(f"link /dev/{name}"):
            os.symlink(f"/proc/self/fd{end}", f"/new/dev/{name}")  # noqa: PTH211
    with _step("mount /proc"):  # while the old one is still seen: without, the kernel refuses it to users
        kernel.mount("proc", "/new/proc", "proc", GUARDED | kernel.MS_NOEXEC)


def _enter_root() -> None:
    """Make /new the root and detach the old one."""
    with _step("enter the root"):
        os.chdir("/new")
        _pivot_root(".", ".")
        kernel.unmount(".")
        os.chdir("/")
    with _step("read-only root"):
        kernel.mount("none", "/", None, kernel.MS_REMOUNT | kernel.MS_BIND | GUARDED)


def _bind(source: str, target: str) -> None:
    """Bind a file, or a folder with all that is mounted in it. Raises OSError."""
    if os.path.isdir(source):  # noqa: PTH112
        _folder(target)
    elif not os.path.exists(target):  # noqa: PTH110
        _folder(os.path.dirname(target))  # noqa: PTH120
        _write(target, "")
    kernel.mount(source, target, None, kernel.MS_BIND | kernel.MS_REC)


def _guard(target: str, flags: int) -> None:
    """Add flags to a mount and all below it. Raises OSError."""
    attributes = (ctypes.c_uint64 * 4)(flags, 0, 0, 0)
    size = ctypes.c_size_t(ctypes.sizeof(attributes))
    try:
        _call(MOUNT_SETATTR, ctypes.c_int(AT_FDCWD), target.encode(), ctypes.c_uint(AT_RECURSIVE), attributes, size)
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.EPERM):  # before Linux 5.12, or in a container that refuses it
            raise
        _guard_each(target, flags)


def _guard_each(target: str, flags: int) -> None:
    """Add flags to each mount, one by one."""
    with open("/old/proc/self/mountinfo") as file:  # noqa: PTH123
        mounts = [line.split()[4:6] for line in file]
    for point, options in mounts:
        path = point.replace("\\040", " ")
        if path == target or path.startswith(f"{target}/"):
            has = sum(FLAGS.get(option, 0) for option in options.split(","))
            kernel.mount("none", path, None, kernel.MS_REMOUNT | kernel.MS_BIND | has | flags)


def _keep_capabilities(kept: dict[str, int], *, ambient: bool) -> None:
    """Drop all other capabilities. ambient: keep these across exec, which only root's survive by themselves."""
    mask = sum(1 << number for number in kept.values())
    with _step("capabilities"):
        for number in set(range(kernel.LAST_CAPABILITY + 1)) - set(kept.values()):
            try:
                kernel.prctl(kernel.PR_CAPBSET_DROP, number)
            except OSError as error:
                if error.errno != errno.EINVAL:  # a number that this kernel does not know
                    raise
        halves = [mask, mask, mask if ambient else 0]
        header = (ctypes.c_uint32 * 2)(kernel.CAPABILITY_VERSION_3, 0)
        told = (ctypes.c_uint32 * 6)(*halves, 0, 0, 0)  # effective, permitted, inheritable; numbers below 32
        if _libc.capset(header, told):
            raise _error()
        kernel.prctl(kernel.PR_CAP_AMBIENT, kernel.PR_CAP_AMBIENT_CLEAR_ALL)
        for number in kept.values() if ambient else ():
            kernel.prctl(kernel.PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, number)


def _pivot_root(new: str, old: str) -> None:
    """Raises OSError."""
    number = PIVOT_ROOT.get(os.uname().machine)
    if number is None:
        raise OSError(errno.ENOSYS, f"the number of pivot_root on {os.uname().machine} is not known here")
    _call(number, new.encode(), old.encode())


def _call(number: int, *arguments: Any) -> None:
    if _libc.syscall(ctypes.c_long(number), *arguments) == -1:
        raise _error()


def _error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))


def _folder(path: str) -> None:
    os.makedirs(path, exist_ok=True)  # noqa: PTH103


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:  # noqa: PTH123
        file.write(text)


@contextmanager
def _step(what: str) -> Generator[None, None, None]:
    try:
        yield
    except OSError as error:
        name = errno.errorcode.get(error.errno or 0, "?")
        raise Failed(f"{what}: {name} ({error.strerror})") from error


if __name__ == "__main__":
    main()
