"""System calls that Python has no function for. Sources: their manual pages, linux/prctl.h, linux/sched.h."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import signal
import socket
import struct
from typing import Any

CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWPID, CLONE_NEWNET = 0x00020000, 0x08000000, 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 1, 4, 22, 38
PR_CAPBSET_DROP, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 24, 47, 4
SECCOMP_MODE_FILTER = 2
LAST_CAPABILITY = 63
CAPABILITY_VERSION_3 = 0x20080522
KEYCTL_JOIN_SESSION_KEYRING = 1
SIOCSIFFLAGS, IFF_UP = 0x8914, 1

CLONE = {"x86_64": 56, "aarch64": 220, "riscv64": 220, "loongarch64": 220, "ppc64le": 120, "s390x": 120}
"""Number of the system call `clone`, by machine."""
KEYCTL = {"x86_64": 250, "aarch64": 219}  # elsewhere the keyring stays, and the filter refuses keyctl

_libc = ctypes.CDLL(None, use_errno=True)
_libc_with_gil = ctypes.PyDLL(None, use_errno=True)
"""libc, called with the interpreter's lock held."""


def _declared(function: Any, *types: Any) -> Any:
    """Return a libc function with its types declared, looked up before anything is forked."""
    function.argtypes = types
    return function


_unshare = _declared(_libc.unshare, ctypes.c_int)
_mount = _declared(_libc.mount, *[ctypes.c_char_p] * 3, ctypes.c_ulong, ctypes.c_char_p)
_prctl = _declared(_libc.prctl, ctypes.c_int, *[ctypes.c_ulong] * 4)
_capset = _declared(_libc.capset, ctypes.c_void_p, ctypes.c_void_p)
_clone = _declared(_libc_with_gil.syscall, *[ctypes.c_long] * 6)
_THIS_PROCESS = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
_NO_CAPABILITIES = (ctypes.c_uint32 * 6)()


def unshare(flags: int) -> None:
    """Move this process to new namespaces. Raises OSError."""
    _check(_unshare(flags), "unshare")


def fork_into_pid_namespace() -> int:
    """Fork as os.fork does, with the child as first process of a new PID namespace; return its ID, 0 in the child.

    For a process of one thread, which can do it again. The fork handlers of C library and Python, which take longest,
    do not run: random state is shared, and the child has to use os.fork before it runs anything else. Raises OSError.
    """
    machine, flags = os.uname().machine, CLONE_NEWPID | signal.SIGCHLD
    number = CLONE.get(machine)
    if number is None:
        raise OSError(errno.ENOSYS, f"the number of clone on {machine} is not known here")
    # s390x takes the stack before the flags, see clone(2)
    child = _clone(number, *((0, flags) if machine == "s390x" else (flags, 0)), 0, 0, 0)
    _check(min(child, 0), "clone")
    return child


def mount(source: str, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    """Mount a file system, as mount(2) does. Raises OSError."""
    texts = [text and text.encode() for text in (source, target, kind, options)]
    _check(_mount(*texts[:3], flags, texts[3]), f"mount {target}")


def prctl(option: int, value: int = 0, more: int = 0) -> None:
    """Change a property of this process, as prctl(2) does. Raises OSError."""
    _check(_prctl(option, value, more, 0, 0), f"prctl {option}")


def drop_bounding_set() -> None:
    """Clear the bounding set, so that no file can give a capability; needs CAP_SETPCAP."""
    for capability in range(LAST_CAPABILITY + 1):
        try:
            prctl(PR_CAPBSET_DROP, capability)
        except OSError:  # numbers that this kernel does not know
            break


def drop_capabilities() -> None:
    """Drop all capabilities of this process, in its user namespace too."""
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    _check(_capset(_THIS_PROCESS, _NO_CAPABILITIES), "capset")


class _Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]


def load_filter(program: bytes) -> None:
    """Filter the system calls of this process by classic BPF, 8 bytes an instruction; needs no-new-privileges."""
    loaded = _Filter(len(program) // 8, program)
    _check(_prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.addressof(loaded), 0, 0), "seccomp")


def leave_session_keyring() -> None:
    """Replace the session keyring of the user by a new, empty one."""
    number = KEYCTL.get(os.uname().machine)
    if number is not None:
        _libc.syscall(ctypes.c_long(number), ctypes.c_long(KEYCTL_JOIN_SESSION_KEYRING), None)


def raise_loopback() -> None:
    """Bring the loopback device of this network namespace up."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))


def _check(result: int, call: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")
