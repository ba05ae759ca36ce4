"""Programs that take more than they may: processes, memory, files, descriptors, output and time."""

from __future__ import annotations

import pytest

from tasks.sandbox import Program
from tasks.sandbox.inside.runner import REPORT
from tasks.sandbox.sandbox_records import MIB
from tests.sandbox.attacking import PROGRAMS, SMALL, SPARE, Arena

MEMORY = SMALL.memory_bytes + 64 * MIB
FILES = SMALL.file_bytes + 16 * MIB


def test_an_attempt_that_goes_through_passes_the_tests_of_an_attack(arena: Arena):
    """So that an attack which fails did not fail for another reason."""
    with pytest.raises(AssertionError, match="status='ok'"):
        arena.attack("attempt('arithmetic', divmod, 7, 3)")


@pytest.mark.parametrize("source", PROGRAMS["forks"].values(), ids=PROGRAMS["forks"])
def test_a_fork_bomb_ends_at_the_limit(arena: Arena, source: str):
    done = arena.attack(source + f"\nprint(made)\nif made > {SMALL.processes + SPARE}: won.append('processes')")
    assert 1 < int(done.stdout.split()[-1]) <= SMALL.processes + SPARE


@pytest.mark.parametrize(
    "source",
    [
        f"bytearray({MEMORY})",
        f"blocks = []\nfor _ in range({MEMORY // MIB}): blocks.append(bytearray({MIB}))",
        f"import mmap\nmmap.mmap(-1, {MEMORY})",
        f"import mmap\nmmap.mmap(-1, {MEMORY}, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)",
        f"'x' * {MEMORY}",
    ],
    ids=["at once", "little by little", "shared", "private", "text"],
)
def test_memory_beyond_the_limit_is_not_given(arena: Arena, source: str):
    arena.attack(
        f"def more():\n    {source.replace(chr(10), chr(10) + '    ')}\nattempt('memory', more)", status="failed"
    )
    assert arena.attack(source, status="memory" if "mmap" not in source else "failed", reason=None).reason


@pytest.mark.machine
def test_children_do_not_have_more_memory_together_where_a_group_holds_it(any_arena: Arena):
    if not any_arena.sandbox.grouped:
        pytest.skip("no cgroup can be made here: each process has the limit for itself")
    each = (SMALL.memory_bytes + 64 * MIB + 128 * MIB) // 4
    source = f"""
import time
children = []
for _ in range(4):
    child = os.fork()
    if child == 0:
        block = bytearray({each})
        for place in range(0, len(block), 4096):
            block[place] = 1
        time.sleep(0.3)
        os._exit(0)
    children.append(child)
if all(os.waitpid(child, 0)[1] == 0 for child in children):
    won.append('memory')
"""
    any_arena.attack(source, reason=None)


@pytest.mark.machine
def test_ten_gigabytes_are_not_given_where_a_group_holds_them(any_arena: Arena):
    if not any_arena.sandbox.grouped:
        pytest.skip("no cgroup can be made here, and without one nobody tries")
    any_arena.attack("attempt('memory', bytearray, 10 << 30)")
    any_arena.attack("""
def fill():
    with open('file', 'wb') as file:
        for _ in range(10 << 10):
            file.write(bytes(1 << 20))
attempt('file', fill)
""")


def test_a_recursion_without_an_end_fails_and_no_more(arena: Arena):
    arena.attack("def f(): f()\nattempt('recursion', f)")
    endless = "import sys\nsys.setrecursionlimit(10**9)\nclass Endless:\n    def __repr__(self): return repr(self)\n"
    arena.attack(endless + "repr(Endless())", reason=None)


@pytest.mark.parametrize(
    "source",
    [
        f"open('file', 'wb').write(bytes({FILES}))",
        f"with open('file', 'wb') as file:\n    for _ in range({FILES // MIB}): file.write(bytes({MIB}))",
        f"for n in range({FILES // MIB}):\n    with open(f'{{n}}', 'wb') as file: file.write(bytes({MIB}))",
        f"for n in range({FILES // MIB}):\n    with open(f'/dev/shm/{{n}}', 'wb') as file: file.write(bytes({MIB}))",
        f"with open('file', 'wb') as file: os.truncate(file.fileno(), {FILES})",
        f"with open('file', 'wb') as file: os.posix_fallocate(file.fileno(), 0, {FILES})",
    ],
    ids=["at once", "little by little", "many files", "shared memory", "with holes", "reserved"],
)
def test_files_beyond_the_limit_are_not_written(arena: Arena, source: str):
    arena.attack("def more():\n    " + source.replace("\n", "\n    ") + "\nattempt('file', more)")


def test_a_mapped_file_with_holes_is_not_filled_beyond_the_limit(arena: Arena):
    source = f"""
import mmap
maps = []
for name in 'ab':
    with open(name, 'w+b') as file:
        os.truncate(file.fileno(), {SMALL.file_bytes})
        maps.append(mmap.mmap(file.fileno(), {SMALL.file_bytes}))
for each in maps:
    for place in range(0, {SMALL.file_bytes}, 4096):
        each[place] = 1
won.append('file')
"""
    assert arena.attack(source, reason=None).reason == "it died of SIGBUS"


@pytest.mark.parametrize(
    "makes",
    [
        "open(name, 'w').close()",
        "os.mkdir(name)",
        "os.symlink('/', name)",
        "os.link('aims.json', name)",
        "os.mkfifo(name)",
        "open('/dev/shm/' + name, 'w').close()",
    ],
)
def test_files_beyond_the_number_are_not_made(arena: Arena, makes: str):
    source = f"def more():\n    for n in range({SMALL.inodes + 100}):\n        name = str(n)\n        {makes}\n"
    done = arena.attack(source + "attempt('files', more)")
    assert "No space left on device" in done.stdout


@pytest.mark.parametrize(
    "opens", ["os.open('/', os.O_RDONLY)", "os.pipe()", "os.dup(0)", "socket.socket()", "select.epoll()"]
)
def test_descriptors_beyond_the_number_are_not_given(arena: Arena, opens: str):
    source = f"import select, socket\nkept = []\ndef more():\n    for _ in range({SMALL.open_files + 16}):\n"
    done = arena.attack(source + f"        kept.append({opens})\nattempt('descriptors', more)\nkept.clear()")
    assert "Too many open files" in done.stdout


def test_descriptors_at_their_end_do_not_keep_a_program_from_being_judged(arena: Arena):
    source = "kept = []\nwhile True:\n    try: kept.append(os.dup(0))\n    except OSError: break\nx = 1"
    program = Program("import os\n" + source, tests="assert x == 1", limits=SMALL)
    with arena.unharmed():
        assert arena.sandbox.run(program).passed
        assert not arena.sandbox.run(program._replace(tests="assert x == 2")).passed


def test_a_limit_is_not_raised(arena: Arena):
    arena.attack("""
import resource
for name in 'NPROC AS FSIZE NOFILE CPU MEMLOCK CORE MSGQUEUE'.split():
    what = getattr(resource, 'RLIMIT_' + name)
    soft, hard = resource.getrlimit(what)
    print(name, soft, hard)
    if hard == resource.RLIM_INFINITY: won.append(name)
    attempt(name, resource.setrlimit, what, (hard + 1, hard + 1))
    attempt(name, resource.setrlimit, what, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
""")


@pytest.mark.parametrize("source", PROGRAMS["talkative"].values(), ids=PROGRAMS["talkative"])
def test_endless_output_is_cut_and_ended(arena: Arena, source: str):
    done = arena.attack(source, status="output", reason=None)
    assert max(len(done.stdout), len(done.stderr)) == SMALL.output_bytes


@pytest.mark.parametrize(
    ("source", "status"),
    [
        ("print('x' * 100_000_000)", "output"),
        ("raise ValueError('x' * 100_000_000)", "output"),
        ("raise SystemExit('x' * 100_000_000)", "output"),
        ("answer = 'x' * 100_000_000", "failed"),
        (f"os.write({REPORT}, b'x' * 100_000_000)", "failed"),
    ],
    ids=["printed", "an error", "an exit", "compared", "to the harness"],
)
def test_a_result_of_100_megabytes_is_no_pass(arena: Arena, source: str, status: str):
    limits = SMALL._replace(memory_bytes=768 * MIB)
    done = arena.attack(source, tests="assert answer == 'y' * 100_000_000", status=status, reason=None, limits=limits)
    assert len(done.reason) <= 200


@pytest.mark.parametrize("source", PROGRAMS["endless"].values(), ids=PROGRAMS["endless"])
def test_a_program_without_an_end_is_ended(arena: Arena, source: str):
    done = arena.attack(source, status="timeout", reason=None, limits=SMALL._replace(wall_s=0.1))
    assert done.reason == "killed after 0.1 s"


@pytest.mark.parametrize(
    "source",
    [
        "import sys\nsys.stdout.buffer.write(b'\\xff\\xfe\\x80 \\xed\\xa0\\x80')",
        "os.write(2, bytes(range(256)))",
        "print('\\udcff \\ud800')",
        "raise ValueError('\\udcff \\ud800 \\x00')",
        "open(b'\\xff\\xfe', 'w').close()",
        "class \udcff: pass",
        "x = '\ud800'",
        "x = '\x00'",
        "# coding: rot13",
        "import ctypes\nctypes.CDLL(None).prctl(15, b'\\xff\\xfe) R 1')",
    ],
    ids=lambda source: ascii(source)[:30],
)
def test_what_is_no_utf_8_breaks_nothing(arena: Arena, source: str):
    done = arena.attack(source, reason=None)
    (done.stdout + done.stderr + done.reason).encode()
