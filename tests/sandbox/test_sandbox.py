"""What a sandbox promises to who uses it: statuses, limits, what goes in and comes out, order, and going on."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks.sandbox import Program, Sandbox, sandbox_pool, shared_sandbox
from tasks.sandbox.inside.runner import REPORT
from tasks.sandbox.sandbox_worker import Worker, WorkerLost
from tests.sandbox.attacking import PROGRAMS, SMALL, watchdog


@pytest.fixture(scope="module")
def sandbox(sandbox: Sandbox) -> Iterator[Sandbox]:
    with watchdog(sandbox, 240):
        yield sandbox


@pytest.mark.parametrize(
    ("source", "tests", "status", "exit_code", "reason"),
    [
        ("x = 1", None, "ok", 0, ""),
        ("x = 1", "assert x == 1", "ok", 0, ""),
        ("raise SystemExit", None, "ok", 0, ""),
        ("raise SystemExit(0)", "assert True", "unfinished", 0, "it ended before its tests were through"),
        ("x = 1", "assert x == 2, 'no'", "failed", 1, "AssertionError: no"),
        ("raise SystemExit(3)", None, "failed", 3, "exit code 3"),
        ("raise SystemExit(259)", None, "failed", 3, "exit code 3"),
        ("raise SystemExit('a word')", None, "failed", 1, "a word"),
        ("1 / 0", None, "failed", 1, "ZeroDivisionError: division by zero"),
        ("import nothing", None, "failed", 1, "ModuleNotFoundError: No module named 'nothing'"),
        ("x = (", "assert True", "failed", 1, "SyntaxError: '(' was never closed"),
        ("x = 1", "x = (", "failed", 1, "SyntaxError: '(' was never closed"),
        ("import os\nos.kill(os.getpid(), 11)", None, "failed", 139, "it died of SIGSEGV"),
        ("import os\nos.kill(os.getpid(), 9)", None, "failed", 137, "it died of SIGKILL"),
        ("raise MemoryError", None, "memory", 1, "MemoryError"),
        (f"x = bytes({SMALL.memory_bytes})", None, "memory", 1, "MemoryError"),
        ("print('x' * 2_000_000)", None, "output", None, "it wrote more than 1 MiB to stdout"),
        ("import os\nos.write(2, b'x' * 2_000_000)", None, "output", None, "it wrote more than 1 MiB to stderr"),
        (f"import os\nos.write({REPORT}, b'x' * 8192)", None, "failed", None, "it wrote where only its harness writes"),
        ("", None, "ok", 0, ""),
        ("x = 1", "", "ok", 0, ""),
    ],
)
def test_a_status_says_what_came_of_a_program(
    sandbox: Sandbox, source: str, tests: str | None, status: str, exit_code: int | None, reason: str
):
    done = sandbox.run(Program(source, tests=tests, limits=SMALL))
    assert (done.status, done.exit_code, done.reason) == (status, exit_code, reason)
    assert done.passed == (status == "ok")


def test_time_on_the_clock_is_bounded(sandbox: Sandbox):
    source = "import sys, time\nprint('out', flush=True)\nprint('err', file=sys.stderr)\ntime.sleep(60)"
    done = sandbox.run(Program(source, limits=SMALL._replace(wall_s=0.3)))
    assert (done.status, done.exit_code, done.reason) == ("timeout", None, "killed after 0.3 s")
    assert (done.stdout, done.stderr, done.wall_s >= 0.3) == ("out\n", "err\n", True)


def test_time_that_it_waits_for_a_processor_is_not_its_own(sandbox: Sandbox):
    work = "import time\nend = time.process_time() + 0.5\nwhile time.process_time() < end: pass"
    busy = [sys.executable, "-c", "print(flush=True)\nwhile True: pass"]
    count = 4 * len(os.sched_getaffinity(0))  # each in a session of its own, as the kernel may share time among those
    others = [subprocess.Popen(busy, stdout=subprocess.PIPE, start_new_session=True) for _ in range(count)]
    try:
        assert all(other.stdout and other.stdout.readline() for other in others), "all are under way"
        worked = sandbox.run(Program(work, limits=SMALL._replace(wall_s=0.7)))
        endless = sandbox.run(Program("while True: pass", limits=SMALL._replace(wall_s=0.7)))
        slept = sandbox.run(Program("import time\ntime.sleep(10)", limits=SMALL._replace(wall_s=0.7)))
    finally:
        for other in others:
            other.kill()
            other.communicate()
    assert (worked.status, worked.wall_s > 0.7) == ("ok", True)
    assert (endless.status, endless.reason) == ("timeout", "killed after 0.7 s")
    assert (slept.status, slept.wall_s < 5) == ("timeout", True)


def test_processor_time_is_bounded(sandbox: Sandbox):
    done = sandbox.run(Program("while True: pass", limits=SMALL._replace(cpu_s=0.5)))
    assert (done.status, done.reason) == ("timeout", "it used more than 0.5 s of processor time")


@pytest.mark.parametrize("text", ["", "한국어 é 🦀", "a\r\nb\rc\n", "\x00\x1b[31m", "x" * 300_000])
def test_text_goes_in_by_stdin_and_out_by_stdout_unchanged(sandbox: Sandbox, text: str):
    """As bytes: text mode would take line ends apart."""
    source = "import sys\nsys.stdout.buffer.write(sys.stdin.buffer.read())"
    assert sandbox.run(Program(source, stdin=text.encode(), limits=SMALL)).stdout == text


def test_files_lie_in_the_folder_in_which_it_starts(sandbox: Sandbox):
    files = {"a": b"\x00\xff", "deep/er/b.txt": b"text", "with space": b""}
    source = """import os
for root, _, names in sorted(os.walk('.')):
    for name in sorted(names):
        print(root, name, open(os.path.join(root, name), 'rb').read()[:4])
"""
    done = sandbox.run(Program(source, files=files))
    assert done.stdout.splitlines() == [
        r". a b'\x00\xff'",
        ". main.py b'impo'",
        ". with space b''",
        "./deep/er b.txt b'text'",
    ]


@pytest.mark.parametrize("path", ["", "..", "/tmp/work/a", "a/../../b", "a\0b"])
def test_a_path_that_leads_out_of_the_folder_is_refused(sandbox: Sandbox, path: str):
    with pytest.raises(ValueError, match="no relative path within a program's folder"):
        sandbox.run(Program("x = 1", files={path: b""}))


def test_with_tests_a_module_is_imported_and_not_started(sandbox: Sandbox):
    source = "started = __name__ == '__main__'\ndef name(): return __name__"
    assert sandbox.run(Program(source, tests="assert not started and name() == '__test__'")).passed
    assert sandbox.run(Program(source + "\nassert started")).passed


def test_tests_see_the_names_of_the_source_and_builtins_as_they_were(sandbox: Sandbox):
    source = "import builtins, math\nbuiltins.sorted = None\n_private, value = 1, math.pi"
    assert sandbox.run(Program(source, tests="assert sorted([2, 1]) == [1, 2] and _private == 1 and value > 3")).passed


def test_a_program_pickles_and_looks_at_itself_as_a_module_does(sandbox: Sandbox):
    """What libraries of tests do."""
    source = "import dataclasses, inspect, pickle, typing\n@dataclasses.dataclass\nclass Point:\n    x: 'int'\n"
    tests = """assert pickle.loads(pickle.dumps(Point(1))) == Point(1)
assert typing.get_type_hints(Point) == {'x': int}
assert 'class Point' in inspect.getsource(Point)
"""
    assert sandbox.run(Program(source, tests=tests)).passed
    assert sandbox.run(Program(f"{source}{tests}")).passed


@pytest.mark.parametrize("source", PROGRAMS["common"].values(), ids=PROGRAMS["common"])
def test_what_programs_commonly_do_works(sandbox: Sandbox, source: str):
    done = sandbox.run(Program(source))
    assert done.passed, done


SIGNALS = {"blocked": "SigBlk", "ignored": "SigIgn", "handled": "SigCgt"}
TELLS_SIGNALS = """import signal, threading
for line in open('/proc/self/status'):
    print(line, end='')
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
assert signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL
assert signal.set_wakeup_fd(-1) == -1
assert threading.main_thread() is threading.current_thread()
"""


@pytest.mark.parametrize(
    ("language", "source", "ignored", "handled"),
    [("python", TELLS_SIGNALS, {13, 25}, {2}), ("bash", "exec cat /proc/self/status", set(), set())],
    ids=["python", "bash"],
)
def test_signals_are_as_a_new_process_has_them(
    sandbox: Sandbox, language: str, source: str, ignored: set[int], handled: set[int]
):
    """SIGPIPE and SIGXFSZ are ignored by every Python, which handles SIGINT."""
    done = sandbox.run(Program(source, language))
    assert done.passed, done
    told = dict(line.split(":\t", 1) for line in done.stdout.splitlines() if ":\t" in line)
    masks = {name: int(told[field], 16) for name, field in SIGNALS.items()}
    found = {name: {bit + 1 for bit in range(31) if mask >> bit & 1} for name, mask in masks.items()}
    assert found == {"blocked": set(), "ignored": ignored, "handled": handled}


LIBC_SIGNALS = 0b11 << 31
"""32 and 33: the C library keeps them for its threads, and lets no program touch how they are inherited."""
UNDER_NOHUP = """
import signal
for number in (signal.SIGHUP, signal.SIGQUIT):
    signal.signal(number, signal.SIG_IGN)
from tasks.sandbox import Program, Sandbox
with Sandbox(workers=1) as started:
    print(started.run(Program("exec cat /proc/self/status", "bash")).stdout)
"""


def test_what_nohup_ignores_programs_hear():
    done = subprocess.run([sys.executable, "-c", UNDER_NOHUP], capture_output=True, text=True, timeout=60, check=True)
    [ignored] = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("SigIgn:")]
    assert int(ignored, 16) & ~LIBC_SIGNALS == 0, ignored


def test_a_program_finds_none_of_our_modules_and_streams_of_its_own(sandbox: Sandbox):
    source = """import sys
print([name for name in sys.modules if name.partition('.')[0] == 'inside'], sys.path[0], sys.argv)
print([one.fileno() for one in (sys.stdin, sys.stdout, sys.stderr)], sys.stdin.seekable(), sys.stdout.seekable())
print([one.mode for one in (sys.stdin, sys.stdout, sys.stderr)], sys.stderr.line_buffering, sys.__stdin__ is sys.stdin)
print(sys.stdin.read(), sys.stdin.seek(0), sys.stdin.read(1))
"""
    done = sandbox.run(Program(source, stdin="é!".encode()))
    assert done.stdout.splitlines() == [
        "[] /tmp/work ['/tmp/work/main.py']",
        "[0, 1, 2] True False",
        "['r', 'w', 'w'] True True",
        "é! 0 é",
    ], done


def test_a_thread_that_is_no_daemon_is_waited_for(sandbox: Sandbox):
    source = "import threading, time\nthreading.Thread(target=lambda: (time.sleep(0.2), print('done'))).start()"
    assert sandbox.run(Program(source)).stdout == "done\n"


def test_two_programs_draw_other_numbers_but_hash_alike():
    """Random numbers that repeat would be a state that is shared; an order of sets that varies would be luck."""
    source = "import random\nprint(random.random(), hash('a'))"
    lines: list[list[str]] = []
    for _ in range(2):
        with Sandbox(workers=1) as sandbox:
            lines += [sandbox.run(Program(source)).stdout.split() for _ in range(2)]
    assert len({number for number, _ in lines}) == 4
    assert len({hashed for _, hashed in lines}) == 1


def test_two_programs_at_one_time_have_each_their_own(sandbox: Sandbox):
    """The same names of files, ports and shared memory."""
    source = (
        "import os, socket, sys, time\nme = input()\nserver = socket.create_server(('127.0.0.1', 40404))\n"
        "for path in ('x', '/tmp/x', '/dev/shm/x'):\n    with open(path, 'x') as file: file.write(me)\n"
        "time.sleep(0.2)\nprint([open(path).read() for path in ('x', '/tmp/x', '/dev/shm/x')], os.getpid())"
    )
    done = list(sandbox.map(lambda name: sandbox.run(Program(source, stdin=name.encode())), ["one", "two"]))
    assert [each.stdout for each in done] == [f"{[name] * 3} 2\n" for name in ("one", "two")], done


def test_map_keeps_the_order_whatever_takes_longer(sandbox: Sandbox):
    def run(number: int) -> str:
        time.sleep(random.Random(number).random() / 100)
        return sandbox.run(Program(f"print({number})")).stdout

    assert list(sandbox.map(run, range(40))) == [f"{number}\n" for number in range(40)]


def test_more_threads_than_workers_get_each_their_own_answer(sandbox: Sandbox):
    answers: dict[int, list[str]] = {}

    def ask(number: int) -> None:
        answers[number] = [
            sandbox.run(Program(f"print({number}, input())", stdin=str(n).encode())).stdout for n in range(10)
        ]

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {number: [f"{number} {n}\n" for n in range(10)] for number in range(8)}
    assert len(sandbox.pids()) <= sandbox.workers


def test_what_breaks_once_is_tried_again_and_what_breaks_twice_is_broken(monkeypatch: pytest.MonkeyPatch):
    asked: list[Worker] = []
    ask = Worker.ask

    def breaks(self: Worker, *arguments: object) -> object:
        asked.append(self)
        if len(asked) in fails:
            raise WorkerLost("on purpose")
        return ask(self, *arguments)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(Worker, "ask", breaks)
    with Sandbox(workers=1) as sandbox:
        fails = {1}
        assert sandbox.run(Program("x = 1", tests="assert x == 1")).status == "ok"
        assert len(set(asked)) == 2
        fails = {3, 4}
        done = sandbox.run(Program("x = 1", tests="assert x == 2"))
        assert (done.status, done.passed) == ("broken", False)
        assert done.reason == "the sandbox broke: on purpose"
        assert len(asked) == 4
        assert sandbox.run(Program("x = 1", tests="assert x == 2")).status == "failed"


def test_a_kill_on_a_full_machine_is_tried_again_in_the_same_zygote(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    vmstat = tmp_path / "vmstat"
    vmstat.write_text("oom_kill 1\n")
    monkeypatch.setattr(sandbox_pool, "VMSTAT", vmstat)
    with Sandbox(workers=1) as sandbox:
        assert sandbox.run(Program("x = 1")).passed
        first = sandbox.pids()
        elsewhere = threading.Timer(0.3, vmstat.write_text, ["oom_kill 2\n"])
        elsewhere.start()
        began = time.monotonic()
        done = sandbox.run(Program("import os, time\ntime.sleep(1)\nos.kill(os.getpid(), 9)"))
        elsewhere.join()
        assert (done.status, done.reason) == ("failed", "it died of SIGKILL")
        assert time.monotonic() - began > 2, "it was not tried again"
        assert sandbox.pids() == first


@pytest.mark.parametrize("files", [{"a": b"", "a/b": b""}, {"main.py/x": b""}])
def test_what_cannot_be_set_up_is_broken_and_not_failed(files: dict[str, bytes]):
    done = shared_sandbox().run(Program("x = 1", tests="assert x == 1", files=files, limits=SMALL))
    assert done.status == "broken"
    assert done.reason.startswith("the sandbox could not set it up")
