"""The filter of system calls refuses what no program needs, and programs run behind it."""

from __future__ import annotations

import errno
import json
import platform
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tasks.sandbox import sandbox_worker

ROOT = Path(__file__).parents[2]
FILTER = sandbox_worker.filter_program()
if FILTER is None:
    pytest.skip("pyseccomp or libseccomp is not installed", allow_module_level=True)

BEHIND_IT = """
import ctypes, json, os, sys
from tasks.sandbox.inside import kernel
libc = ctypes.CDLL(None, use_errno=True)
kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
kernel.load_filter(bytes.fromhex(sys.argv[1]))
assert "Seccomp:\\t2" in open("/proc/self/status").read()
"""
TRIED = """
def error_of(call):
    result = libc.syscall(*map(ctypes.c_long, call))
    if result == 0 and call[0] == 56:
        os._exit(1)
    return ctypes.get_errno() if result == -1 else 0
print(json.dumps([error_of(call) for call in json.loads(sys.argv[2])]))
"""
THIRTY_TWO_BITS = """
import mmap
code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
code.write(bytes.fromhex("b814000000cd80c3"))  # mov eax, 20 (getpid); int 0x80; ret
ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))()
"""

on_x86_64 = pytest.mark.skipif(platform.machine() != "x86_64", reason="the numbers of calls here are x86-64's")


def behind_it(what: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A Python that loads the filter and then does `what`."""
    command = [sys.executable, "-c", BEHIND_IT + what, FILTER.hex() if FILTER else "", *arguments]
    return subprocess.run(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, start_new_session=True
    )


def errors_of(*calls: tuple[int, ...]) -> list[int]:
    """The error of each call, given as its number and arguments; 0: it was allowed."""
    return json.loads(behind_it(TRIED, json.dumps(calls)).stdout)


@on_x86_64
@pytest.mark.parametrize("flag", [f"{flag:#x}" for flag in sandbox_worker.NAMESPACE_FLAGS])
def test_clone_makes_no_namespaces(flag: str):
    assert errors_of((56, int(flag, 16) | signal.SIGCHLD, 0, 0, 0, 0)) == [errno.EPERM]


@on_x86_64
@pytest.mark.parametrize(
    ("call", "expected"),
    [
        pytest.param((41, 1, 1, 0), 0, id="unix"),
        pytest.param((41, 2, 1, 0), 0, id="inet"),
        pytest.param((41, 10, 2, 0), 0, id="inet6"),
        pytest.param((41, 0, 1, 0), errno.EPERM, id="unspecified"),
        pytest.param((41, 4, 1, 0), errno.EPERM, id="ipx"),
        pytest.param((41, 16, 3, 0), errno.EPERM, id="netlink"),
        pytest.param((41, 17, 3, 0), errno.EPERM, id="packet"),
        pytest.param((41, 38, 5, 0), errno.EPERM, id="crypto"),
        pytest.param((41, 40, 1, 0), errno.EPERM, id="vsock"),
        pytest.param((41, (1 << 32) + 40, 1, 0), errno.EPERM, id="vsock with high bits"),
        pytest.param((41, (1 << 32) + 4, 1, 0), errno.EPERM, id="ipx with high bits"),
        pytest.param((53, 16, 3, 0, 0), errno.EPERM, id="pair of netlink"),
        pytest.param((16, -1, 0x5412, 0), errno.EPERM, id="characters into the terminal"),
        pytest.param((16, -1, 0x541C, 0), errno.EPERM, id="console"),
        pytest.param((16, -1, (1 << 32) + 0x5412, 0), errno.EPERM, id="characters, with high bits"),
        pytest.param((16, -1, 0x5413, 0), errno.EBADF, id="size of the terminal"),
        pytest.param((133, -1, 0o020666, 259), errno.EPERM, id="character device"),
        pytest.param((133, -1, 0o060666, 259), errno.EPERM, id="block device"),
        pytest.param((259, -1, -1, 0o020666, 259), errno.EPERM, id="character device at"),
        pytest.param((133, -1, 0o010666, 0), errno.EFAULT, id="fifo"),
        pytest.param((135, 0), 0, id="usual personality"),
        pytest.param((135, 0xFFFFFFFF), 0, id="asked personality"),
        pytest.param((135, 0x0040000), errno.EPERM, id="no random addresses"),
        pytest.param((135, 0x80040000), errno.EPERM, id="no random addresses, with the highest bit"),
        pytest.param((135, 0xFFFFFFFE), errno.EPERM, id="nearly asked"),
        pytest.param((135, 8), errno.EPERM, id="32 bits"),
    ],
)
def test_arguments_decide(call: tuple[int, ...], expected: int):
    assert errors_of(call) == [expected]


@on_x86_64
@pytest.mark.parametrize("what", ["libc.syscall(ctypes.c_long(0x40000000 + 39))", THIRTY_TWO_BITS], ids=["x32", "i386"])
def test_other_conventions_end_the_process(what: str):
    assert behind_it(what).returncode == -signal.SIGSYS


def test_without_the_library_there_is_none(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "pyseccomp", None)
    sandbox_worker.filter_program.cache_clear()

    made = sandbox_worker.filter_program()

    sandbox_worker.filter_program.cache_clear()
    assert made is None
