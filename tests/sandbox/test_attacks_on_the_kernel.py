"""Programs that ask the kernel for what reaches further than they do: by C, and by numbers of system calls.

What is asked would do no harm where it is granted: pointers to nothing, numbers that are none, changes that change
nothing. Where there is a filter the answer is known; without one the kernel itself has to refuse.
"""

from __future__ import annotations

import json
import platform
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tasks.sandbox import Program, sandbox_worker
from tasks.sandbox.sandbox_records import MIB
from tests.sandbox.attacking import PRELUDE, PROGRAMS, SMALL, Arena, Skipped, open_arena, wait_for_name

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="the numbers of system calls are those of x86-64"
)

ASKS = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def ask(number, *arguments):
    ctypes.set_errno(0)
    given = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    answer = libc.syscall(ctypes.c_long(number), *given)
    return answer, ctypes.get_errno()
"""
FOR_ANYBODY = {
    "ptrace, traced",
    "process_vm_readv",
    "process_vm_writev",
    "kcmp",
    "perf_event_open",
    "unshare user",
    "clone into a user namespace",
    "keyctl",
    "keyctl of the session",
    "add_key",
    "adjtimex",
    "modify_ldt",
    "userfaultfd",
    "io_uring_setup",
    "name_to_handle_at",
    "fanotify_init",
    "shmget",
    "msgget",
    "semget",
    "mq_open",
    "personality",
    "vhangup",
    "memfd_create",
    "clone3",
}
"""Calls that the kernel grants to everybody, or on some machines."""


def test_the_filter_refuses_what_reaches_further(arena: Arena):
    """All in one program that survives each answer; what should not come back is asked in a fork."""
    if not arena.is_filtered:
        pytest.skip("no filter: pyseccomp or libseccomp is missing")
    source = (
        f"calls = {PROGRAMS['calls']!r}\n"
        + """
answers = {}
for name, text in calls.items():
    answer, error = ask(*eval(f'({text},)'))
    if answer == 0 and name.startswith('clone'): os._exit(1)
    answers[name] = (answer, error)
print(json.dumps(answers))
for name, (answer, error) in answers.items():
    if answer != -1 or error not in (1, 38): won.append((name, answer, error))
print(won)
"""
    )
    arena.attack(ASKS + source)


@pytest.fixture(scope="module", params=["root", "user"])
def unfiltered(request: pytest.FixtureRequest) -> Iterator[Arena]:
    """A sandbox as it is where there is no pyseccomp."""
    with ExitStack() as stack:
        stack.enter_context(pytest.MonkeyPatch.context()).setattr(sandbox_worker, "filter_program", lambda: None)
        try:
            arena = open_arena(request.param, stack)
        except Skipped as why:
            pytest.skip(str(why))
        assert not arena.is_filtered
        yield arena


def test_without_a_filter_the_kernel_refuses_what_needs_privileges(unfiltered: Arena):
    """What anybody may ask of it is left, and reaches no further than the program's own namespaces."""
    asked = {name: text for name, text in PROGRAMS["calls"].items() if name not in FOR_ANYBODY}
    source = (
        f"calls = {asked!r}\n"
        + """
answers = {name: ask(*eval(f'({text},)')) for name, text in calls.items()}
print(json.dumps(answers))
won += [(name, answer) for name, answer in answers.items() if answer[0] != -1]
print(won)
"""
    )
    unfiltered.attack(ASKS + source)


def test_without_a_filter_no_other_process_is_read(unfiltered: Arena):
    """The one beside it, by its number there, is out of sight; the first of its own namespace is closed to it."""
    source = """
for number in (1, os.getppid()):
    calls = {
        'ptrace': (101, 16, number, 0, 0),
        'seize': (101, 0x4206, number, 0, 0),
        'kcmp': (312, number, os.getpid(), 0, 0, 0),
    }
    for name, call in calls.items():
        answer = ask(*call)
        print(name, number, answer)
        if answer[0] != -1: won.append(name)
    buffer = ctypes.create_string_buffer(64)
    vector = (ctypes.c_void_p * 2)(ctypes.addressof(buffer), 64)
    answer = ask(310, number, vector, 1, vector, 1, 0)
    print('process_vm_readv', number, answer)
    if answer[0] != -1: won.append('process_vm_readv')
    fd = os.pidfd_open(number)
    answer = ask(438, fd, 1, 0)
    print('pidfd_getfd', answer)
    if answer[0] != -1: won.append('pidfd_getfd')
"""
    unfiltered.attack(ASKS + source)


def test_without_a_filter_two_programs_share_no_queues_and_no_segments(unfiltered: Arena):
    leaves = """
print(libc.shmget(0x5EC, 4096, 0o1666), libc.msgget(0x5EC, 0o1666), libc.semget(0x5EC, 1, 0o1666))
libc.prctl(15, b'trivet-left', 0, 0, 0)
import time
time.sleep(0.4)
"""
    looks = """
answers = libc.shmget(0x5EC, 4096, 0), libc.msgget(0x5EC, 0), libc.semget(0x5EC, 1, 0)
assert answers == (-1, -1, -1), answers
"""
    files = {"aims.json": json.dumps({}).encode()}
    leaving = Program(PRELUDE + ASKS + leaves, files=files, limits=SMALL)
    thread = threading.Thread(target=unfiltered.sandbox.run, args=(leaving,))
    with unfiltered.unharmed():
        thread.start()
        wait_for_name(unfiltered.sandbox, "trivet-left")
        beside = unfiltered.sandbox.run(Program(PRELUDE + ASKS + looks, files=files, limits=SMALL))
        thread.join()
        behind = unfiltered.sandbox.run(Program(PRELUDE + ASKS + looks, files=files, limits=SMALL))
    assert (beside.status, behind.status) == ("ok", "ok"), (beside, behind)


def test_without_a_filter_a_namespace_of_its_own_reaches_nothing_outside(unfiltered: Arena):
    """Where the kernel lets users make namespaces, a program may be root there, and only there."""
    source = """
uid = os.getuid()
print('user namespace', ask(272, 0x10000000 | 0x20000 | 0x40000000))
try: open('/proc/self/uid_map', 'w').write(f'0 {uid} 1')
except OSError as error: print(error)
print(ask(165, b'none', b'/', None, 16384 | (1 << 18), None), ask(165, None, b'/', None, 32 | 4096, None))
print('writable', ask(165, None, b'/', None, 32 | 4096 | 0, None))
for path in ('/x', '/usr/x', '/etc/passwd', '/usr/bin/env'): attempt(path, open, path, 'a')
for path in ('/etc/shadow', aims['file'], aims['home'] + '/.ssh'): attempt(path, os.stat, path)
attempt('proc', open, '/proc/sys/kernel/hostname', 'w')
attempt('module', lambda: ask(175, b'none', 4, b'')[0] == 0 or 1 / 0)
attempt('kill', lambda: ask(62, 1, 9)[0] == 0 and os.getppid() != 1 or 1 / 0)
import socket
for port in aims['ports']: attempt('tcp', socket.create_connection, ('127.0.0.1', port), 1)
"""
    done = unfiltered.attack(ASKS + source)
    assert "user namespace" in done.stdout


def test_memory_in_files_that_are_nowhere_ends_at_the_limit(arena: Arena):
    """Anonymous files, segments and folders of its own making: none is a way around the limits."""
    source = f"""
BLOCK = bytes({MIB})
def anonymous():
    fd = os.memfd_create('x')
    for _ in range({(SMALL.file_bytes + 16 * MIB) // MIB}): os.write(fd, BLOCK)
def segment():
    number = libc.shmget(0, {SMALL.memory_bytes + 64 * MIB}, 0o1600)
    if number < 0 or libc.shmat(number, None, 0) in (-1, 0xffffffff): raise OSError('refused')
def folder():
    if ask(272, 0x10000000 | 0x20000)[0]: raise OSError('refused')
    if ask(165, b'none', b'/tmp/work', b'tmpfs', 0, None)[0]: raise OSError('refused')
    for n in range({(SMALL.file_bytes + 16 * MIB) // MIB}): open(f'/tmp/work/{{n}}', 'wb').write(BLOCK)
for way in (anonymous, segment, folder): attempt(way.__name__, way)
"""
    arena.attack(ASKS + source)
