"""Programs that kill, that stay, and that look for other processes."""

from __future__ import annotations

import threading

import pytest

from tasks.sandbox import Program
from tests.sandbox.attacking import PROGRAMS, SMALL, Arena, command, wait_for_name, watchdog

NAMES_ITSELF = "import ctypes\nctypes.CDLL(None).prctl(15, b'trivet-ready', 0, 0, 0)\n"
"""What this machine sees of a program from outside."""
READY = "trivet-ready"


@pytest.mark.parametrize("number", [9, 15, 19])
def test_what_kills_reaches_nobody_else(arena: Arena, number: int):
    """The program may die of it, or be stopped; no neighbour is harmed, nor who judges it."""
    limits = SMALL._replace(wall_s=0.1)
    with arena.unharmed():
        for target in ("1", "os.getppid()", "-1", "0", "-os.getpgid(0)", "-1 << 31", "2"):
            program = Program(f"import os\nos.kill({target}, {number})", tests="assert 0", limits=limits)
            done = arena.sandbox.run(program)
            assert done.status in ("failed", "timeout"), (target, done)


@pytest.mark.parametrize("source", PROGRAMS["killing"].values(), ids=PROGRAMS["killing"])
def test_killing_at_large_reaches_nobody_else(arena: Arena, source: str):
    arena.attack(source, reason=None)


@pytest.mark.parametrize(
    "leaves",
    [
        "if os.fork() == 0:\n    if os.fork() == 0:\n        os.setsid()\n        stay()\n    os._exit(0)\nos.wait()",
        "if os.fork() == 0:\n    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())\n    stay()",
        "for _ in range(4):\n    if os.fork() == 0:\n        os.setsid()\n        stay()",
        "import subprocess\nsubprocess.Popen(['sh', '-c', 'trap \"\" TERM HUP; (setsid sleep 60 & sleep 60) &'])",
        "import subprocess\nsubprocess.Popen(['setsid', 'nohup', 'sleep', '60'])",
        "child = os.fork()\nif child == 0: stay()\nos.kill(child, signal.SIGSTOP)",
        "if os.fork() == 0:\n    os.close(0); os.close(1); os.closerange(2, 300)\n    os.chdir('/')\n    stay()",
        "import threading\nthreading.Thread(target=stay, daemon=True).start()",
    ],
    ids=["double fork", "ignores signals", "own sessions", "shell", "setsid", "stopped", "no descriptors", "thread"],
)
@pytest.mark.parametrize("ends", ["", "os._exit(0)", "os.kill(os.getpid(), 9)"], ids=["returns", "exits", "dies"])
def test_nothing_stays_behind_a_program(arena: Arena, leaves: str, ends: str):
    source = "import signal, time\ndef stay():\n    while True: time.sleep(60)\n"
    status = "unfinished" if "_exit" in ends else "failed"
    arena.attack(source + leaves + "\n" + ends, status=status, reason=None)


@pytest.mark.parametrize("source", PROGRAMS["processes"].values(), ids=PROGRAMS["processes"])
def test_a_program_has_no_process_descriptor_or_privilege_but_its_own(arena: Arena, source: str):
    arena.attack(source)


@pytest.mark.parametrize("limit", ["CPU", "AS", "NOFILE", "FSIZE", "DATA", "STACK"])
def test_the_limits_of_who_watches_a_program_are_not_changed(arena: Arena, limit: str):
    """It is of the same user where no other is to be had; one without time or memory could not judge the program."""
    arena.attack(f"""
import resource
attempt('limit', resource.prlimit, os.getppid(), resource.RLIMIT_{limit}, (0, 0))
attempt('priority', os.setpriority, os.PRIO_PROCESS, os.getppid(), 19)
attempt('scheduling', os.sched_setscheduler, os.getppid(), os.SCHED_IDLE, os.sched_param(0))
x = bytes(1 << 20)
if won: os._exit(7)
""")


@pytest.mark.parametrize("command", ["mount", "newgrp", "passwd", "chsh", "sudo", "pkexec", "unshare", "nsenter"])
def test_no_command_gives_privileges(arena: Arena, command: str):
    arguments = {
        "unshare": ["-r", "id"],
        "nsenter": ["-t", "1", "-a", "id"],
        "mount": ["-t", "tmpfs", "x", "/tmp/work"],
    }
    source = f"""
import shutil, subprocess
if shutil.which({command!r}):
    done = subprocess.run([{command!r}, *{arguments.get(command, [])}], stdin=subprocess.DEVNULL, capture_output=True)
    print(done)
    if done.returncode == 0 and (b'uid=0' in done.stdout or {command!r} == 'mount'): won.append('root')
"""
    arena.attack(source)


def test_the_arena_is_seen_from_outside_as_it_is_from_inside(arena: Arena):
    """What the other tests rest on: the programs that are looked for are those that run."""
    program = Program(NAMES_ITSELF + "import time\ntime.sleep(0.3)", limits=SMALL)
    with watchdog(arena.sandbox):
        thread = threading.Thread(target=arena.sandbox.run, args=(program,))
        thread.start()
        wait_for_name(arena.sandbox, READY)
        seen = {command(pid) for pid in arena.processes() - set(arena.known["processes"])}
        thread.join()
    assert READY in seen
    assert len(seen) == 2  # and the first of its namespace
