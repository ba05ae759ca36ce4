"""The system calls that no program needs and that reach further than its own files and memory: a filter refuses them.

It is made here, by libseccomp through pyseccomp, as classic BPF that the sandbox loads with `prctl`. What is not named
is allowed: the walls are namespaces, limits and the lack of privileges, and the filter stands behind them, where a hole
in the kernel would be. Refused with EPERM; ENOSYS where callers then take another way. A call in another convention of
the processor (32 bits, x32), whose numbers mean something else, ends the process.

Sources: seccomp(2); the manual page of each call; linux/sched.h, linux/socket.h, asm-generic/ioctls.h, linux/stat.h.
"""

from __future__ import annotations

import errno
import logging
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from typing import NamedTuple

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
"""AF_UNIX, AF_INET, AF_INET6."""
TERMINAL_INPUT = (0x5412, 0x541C)
"""TIOCSTI and TIOCLINUX put characters into the terminal of whoever started us."""
FILE_KIND, DEVICES = 0o170000, (0o020000, 0o060000)
LOW_HALF = 0xFFFFFFFF
"""The kernel reads 32 bits of an int, and a filter compares 64."""
UNKNOWN = -1
"""What libseccomp resolves a name to that it does not know."""


class _Rule(NamedTuple):
    call: str
    error: int
    argument: int | None = None
    """Its place; None: the call is refused with any."""
    mask: int = LOW_HALF
    value: int = 0
    """Refused where the argument has these bits under the mask, or, of `beyond`, is more."""
    beyond: bool = False


@cache
def filter_program() -> bytes | None:
    """Instructions of 8 bytes each, for `kernel.load_filter`; None, with a line in the log, where it cannot be made."""
    try:
        return _made()
    except (ImportError, RuntimeError, OSError) as error:  # as pyseccomp has it, without libseccomp
        log.info("no filter of system calls: %s", error)
        return None


def _made() -> bytes:
    import pyseccomp

    made = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
    made.set_attr(pyseccomp.Attr.ACT_BADARCH, pyseccomp.KILL_PROCESS)
    with suppress(OSError):  # a binary tree, from libseccomp 2.5 on
        made.set_attr(pyseccomp.Attr.CTL_OPTIMIZE, 2)
    native = pyseccomp.system_arch()
    for rule in _rules():
        number = pyseccomp.resolve_syscall(native, rule.call)
        number = NEWER.get(rule.call, number) if number == UNKNOWN else number
        if number < 0:
            continue  # this architecture has no such call
        action = pyseccomp.ERRNO(rule.error)
        if rule.argument is None:
            made.add_rule(action, number)
        elif rule.beyond:
            made.add_rule(action, number, pyseccomp.Arg(rule.argument, pyseccomp.GT, rule.value))
        else:
            condition = pyseccomp.Arg(rule.argument, pyseccomp.MASKED_EQ, rule.mask, rule.value)
            made.add_rule(action, number, condition)
    with tempfile.TemporaryFile() as file:
        made.export_bpf(file)
        file.seek(0)
        return file.read()


def _rules() -> Iterator[_Rule]:
    yield from (_Rule(call, errno.EPERM) for call in REFUSED)
    yield from (_Rule(call, errno.ENOSYS) for call in ABSENT)
    yield _Rule("prlimit64", errno.EPERM, 0, beyond=True)  # of others: init, where it is of the same user
    yield from (_Rule("clone", errno.EPERM, 0, flag, flag) for flag in NAMESPACE_FLAGS)
    yield from (_Rule("ioctl", errno.EPERM, 1, LOW_HALF, request) for request in TERMINAL_INPUT)
    for call, place in (("mknod", 1), ("mknodat", 2)):
        yield from (_Rule(call, errno.EPERM, place, FILE_KIND, kind) for kind in DEVICES)
    for call in ("socket", "socketpair"):
        yield _Rule(call, errno.EPERM, 0, value=max(FAMILIES), beyond=True)
        others = (family for family in range(max(FAMILIES)) if family not in FAMILIES)
        yield from (_Rule(call, errno.EPERM, 0, value=family) for family in others)
    yield from _personalities()


def _personalities() -> Iterator[_Rule]:
    """All but 0, and 0xFFFFFFFF, which only asks: those whose highest bit differs from another.

    (One comparison with each of the two would do, but a rule compares an argument only once.)
    """
    top = 1 << 31
    for bit in (1 << place for place in range(31)):
        for value in (bit, top):
            yield _Rule("personality", errno.EPERM, 0, top | bit, value)
