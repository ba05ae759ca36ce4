"""Programs that read what is not theirs, write where they should not, and leave something for the next one."""

from __future__ import annotations

import secrets
import threading
from pathlib import Path

import pytest

from tasks.sandbox import Execution, Program
from tests.sandbox.attacking import PRELUDE, PROGRAMS, ROOT, SECRET, SMALL, Arena, wait_for_name, watchdog

FOREIGN = (*PROGRAMS["paths"]["foreign"].split(), str(ROOT / "pyproject.toml"), __file__)
KERNELS = PROGRAMS["paths"]["kernel"].split()
"""Files that would tell the kernel something; they are opened, and nothing is written to them."""
LEAVES, LOOKS = PROGRAMS["left"]["leaves"], PROGRAMS["left"]["looks"]
"""Puts something of its own wherever another program might find it; and looks for it there."""


def test_the_environment_of_the_host_is_not_there(arena: Arena):
    source = """
import subprocess
seen = [repr(os.environ), subprocess.run('env; set', shell=True, capture_output=True, text=True).stdout]
for pid in ('self', '1', '2', os.getpid(), os.getppid()):
    try: seen.append(open(f'/proc/{pid}/environ').read())
    except OSError as error: print(error)
print(*seen)
if any(aims['secret_name'] in each for each in seen): won.append('secret')
"""
    done = arena.attack(source)
    assert SECRET not in done.stdout
    assert "PATH" in done.stdout
    assert not {"PREFECT", "TRIVET", "OPENAI", "POSTGRES"} & set(done.stdout.upper().replace("_", " ").split())


def test_files_of_this_machine_are_not_read(arena: Arena):
    """Nor their folders, but for the way to the interpreter."""
    python = arena.sandbox.python
    shown = [Path(path) for path in (python.prefix, *python.packages)]
    foreign = [path for path in FOREIGN if not any(each.is_relative_to(path) for each in shown)]
    source = f"""
for path in {foreign!r}:
    attempt('read ' + path, lambda: open(path, 'rb').read(1))
    attempt('list ' + path, lambda: os.listdir(path)[0])
    attempt('change ' + path, os.chmod, path, 0o777)
"""
    arena.attack(source)


@pytest.mark.parametrize("source", (FILES := PROGRAMS["files"] | PROGRAMS["links"]).values(), ids=FILES)
def test_no_file_but_its_own_is_read_made_or_changed_nor_through_links(arena: Arena, source: str):
    arena.attack(source)


def test_the_kernel_is_not_told_otherwise(arena: Arena):
    arena.attack(f"for path in {KERNELS!r}: attempt(path, os.open, path, os.O_WRONLY)")


@pytest.mark.parametrize("source", PROGRAMS["traps"].values(), ids=PROGRAMS["traps"])
def test_a_work_folder_that_is_made_a_trap_is_none_for_the_next_program(arena: Arena, source: str):
    """Which the arena executes, and it reads and writes files of its own."""
    waits = source.endswith("raise ValueError")  # for the line of the source that is to be shown
    arena.attack(
        source, reason=None, status="timeout" if waits else "failed", limits=SMALL._replace(wall_s=0.3 if waits else 10)
    )
    after = "import os\nopen('x', 'w').write('x')\nprint(sorted(os.listdir('.')), open('own').read(), os.getcwd())"
    with watchdog(arena.sandbox):
        done = arena.sandbox.run(Program(after, files={"own": b"mine"}, limits=SMALL))
    assert done.stdout == "['main.py', 'own', 'x'] mine /tmp/work\n"


def test_a_program_finds_nothing_of_the_one_before_it(arena: Arena):
    """In the same worker: its zygote is the one that was used last."""
    with watchdog(arena.sandbox):
        left = arena.sandbox.run(Program(PRELUDE + LEAVES, files={"aims.json": b"{}"}, limits=SMALL))
    assert left.passed, left
    arena.attack(LOOKS)


def test_a_program_finds_nothing_of_the_one_before_it_in_its_memory(arena: Arena):
    """Which the zygote has, and every program behind it has the zygote's."""
    word = secrets.token_hex(16)
    before = Program(f"x = {word!r}", tests=f"assert {word!r}", stdin=word.encode(), files={word: word.encode()})
    with watchdog(arena.sandbox):
        assert arena.sandbox.run(before).passed
        assert arena.sandbox.run(before._replace(source=f"raise ValueError({word!r})")).status == "failed"
    source = f"""
half, other = {word[:16]!r}, {word[16:]!r}
for line in open('/proc/self/maps'):
    place, rights = line.split()[:2]
    first, last = (int(number, 16) for number in place.split('-'))
    if 'r' not in rights or last - first > 1 << 26: continue
    with open('/proc/self/mem', 'rb', 0) as memory:
        try:
            memory.seek(first)
            seen = memory.read(last - first)
        except (OSError, OverflowError, ValueError): continue
    at = seen.find(half.encode())
    while at >= 0:
        if seen[at + 16 : at + 32] == other.encode(): won.append(line)
        at = seen.find(half.encode(), at + 1)
"""
    arena.attack(source)


def test_a_program_finds_nothing_of_the_one_beside_it(arena: Arena):
    """In two workers at one time."""
    ready = "\nlibc.prctl(15, b'trivet-left', 0, 0, 0)\nimport time\ntime.sleep(0.5)\n"
    leaving = Program(PRELUDE + LEAVES + ready, files={"aims.json": b"{}"}, limits=SMALL)
    done: list[Execution] = []
    thread = threading.Thread(target=lambda: done.append(arena.sandbox.run(leaving)))
    with arena.unharmed():
        thread.start()
        wait_for_name(arena.sandbox, "trivet-left")
        looked = arena.sandbox.run(
            Program(PRELUDE + LOOKS, tests="assert won == [], won", files={"aims.json": b"{}"}, limits=SMALL)
        )
        assert thread.is_alive()
        thread.join()
    assert looked.passed, looked
    assert done[0].passed, done
