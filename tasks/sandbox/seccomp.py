"""A filter that refuses system calls which no program needs and which reach beyond its own files and memory.

libseccomp makes it, through pyseccomp, as classic BPF that the sandbox loads with `prctl`. It is a deny list: the walls
are namespaces, limits and the lack of privileges, and the filter guards against holes in the kernel. A call is refused
with EPERM, or with ENOSYS where callers then fall back; a call by another ABI (32 bits, x32) ends the process.

Sources: seccomp(2); the manual page of each call; linux/sched.h, linux/socket.h, asm-generic/ioctls.h, linux/stat.h.
"""

from __future__ import annotations

import errno
import logging
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from typing import Any

log = logging.getLogger(__name__)

DEBUGGING = "ptrace process_vm_readv process_vm_writev pidfd_getfd kcmp perf_event_open lookup_dcookie"
MOUNTING = (
    "mount umount umount2 pivot_root chroot move_mount open_tree open_tree_attr fsopen fsconfig fsmount fspick "
    "mount_setattr quotactl quotactl_fd swapon swapoff"
)
NAMESPACES = "unshare setns sethostname setdomainname"
KERNEL = (
    "bpf init_module finit_module delete_module create_module kexec_load kexec_file_load reboot acct syslog "
    "iopl ioperm modify_ldt vm86 vm86old uselib vhangup userfaultfd io_uring_setup io_uring_enter io_uring_register"
)
CLOCKS = "settimeofday clock_settime clock_settime64 adjtimex clock_adjtime clock_adjtime64 stime"
KEYS = "keyctl add_key request_key"
HANDLES = "open_by_handle_at name_to_handle_at fanotify_init fanotify_mark"
BEYOND_LIMITS = "shmget shmat shmctl shmdt semget semop semctl semtimedop msgget msgsnd msgrcv msgctl mq_open ipc"
"""Memory that is nobody's: it counts in no process."""
REFUSED = f"{DEBUGGING} {MOUNTING} {NAMESPACES} {KERNEL} {CLOCKS} {KEYS} {HANDLES} {BEYOND_LIMITS}".split()
ABSENT = ("clone3", "memfd_create", "memfd_secret")
"""Callers go on without: C libraries take clone for clone3, whose flags a filter cannot read."""
NEWER = {"mount_setattr": 442, "quotactl_fd": 443, "memfd_secret": 447, "open_tree_attr": 467}
"""Numbers, the same on every architecture, of calls that a libseccomp may not know yet."""

NAMESPACE_FLAGS = (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000)
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET."""
FAMILIES = (1, 2, 10)
"""The allowed socket families: AF_UNIX, AF_INET, AF_INET6."""
TERMINAL_INPUT = (0x5412, 0x541C)
"""TIOCSTI and TIOCLINUX put characters into the terminal of whoever started us."""
FILE_KIND, DEVICES = 0o170000, (0o020000, 0o060000)
LOW_HALF = 0xFFFFFFFF
"""The kernel reads 32 bits of an int, and a filter compares 64."""
UNKNOWN = -1
"""Number to which libseccomp resolves a name that it does not know."""


@cache
def filter_program() -> bytes | None:
    """Return instructions of 8 bytes each, for `kernel.load_filter`; None, with a line in the log, where that fails."""
    try:
        import pyseccomp

        rules = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
        rules.set_attr(pyseccomp.Attr.ACT_BADARCH, pyseccomp.KILL_PROCESS)
        with suppress(OSError):  # a binary tree, from libseccomp 2.5 on
            rules.set_attr(pyseccomp.Attr.CTL_OPTIMIZE, 2)
        native = pyseccomp.system_arch()
        for call, error, *condition in _rules():
            number = pyseccomp.resolve_syscall(native, call)
            number = NEWER.get(call, number) if number == UNKNOWN else number
            if number >= 0:  # else this architecture has no such call
                rules.add_rule(pyseccomp.ERRNO(error), number, *condition)
        with tempfile.TemporaryFile() as file:
            rules.export_bpf(file)
            file.seek(0)
            return file.read()
    except (ImportError, RuntimeError, OSError) as error:  # as pyseccomp has it, without libseccomp
        log.info("no filter of system calls: %s", error)
        return None


def _rules() -> Iterator[tuple[Any, ...]]:
    """Yield the name of a call, its error and, where only some calls are refused, a condition on one argument."""
    from pyseccomp import GT, MASKED_EQ, Arg

    yield from ((call, errno.EPERM) for call in REFUSED)
    yield from ((call, errno.ENOSYS) for call in ABSENT)
    yield "prlimit64", errno.EPERM, Arg(0, GT, 0)  # of others: init, where it is of the same user
    yield from (("clone", errno.EPERM, Arg(0, MASKED_EQ, flag, flag)) for flag in NAMESPACE_FLAGS)
    yield from (("ioctl", errno.EPERM, Arg(1, MASKED_EQ, LOW_HALF, request)) for request in TERMINAL_INPUT)
    for call, place in (("mknod", 1), ("mknodat", 2)):
        yield from ((call, errno.EPERM, Arg(place, MASKED_EQ, FILE_KIND, kind)) for kind in DEVICES)
    for call in ("socket", "socketpair"):
        yield call, errno.EPERM, Arg(0, GT, max(FAMILIES))
        refused_families = set(range(max(FAMILIES))) - set(FAMILIES)
        yield from ((call, errno.EPERM, Arg(0, MASKED_EQ, LOW_HALF, family)) for family in sorted(refused_families))
    # all but 0, and 0xFFFFFFFF, which only asks: those whose highest bit differs from another
    top = 1 << 31
    for bit in (1 << place for place in range(31)):
        yield "personality", errno.EPERM, Arg(0, MASKED_EQ, top | bit, bit)
        yield "personality", errno.EPERM, Arg(0, MASKED_EQ, top | bit, top)
