"""Programs that are wrong and want to pass: none does.

Engines have no part in it, so one is enough.
"""

from __future__ import annotations

import pytest

from tasks.sandbox import Program
from tests.sandbox.attacking import SMALL, Arena
from tests.sandbox.deceiving import DECEITS, EXITS, aimed

FAIR = SMALL._replace(open_files=256)
"""So many that the descriptors of the harness can be replaced."""
WRONG = "def answer(): return 41\n"
TESTS = "assert answer() == 42"
OVERALL = "import math\nassert all([answer() == 42]), 'all'\nassert not any([answer() == 41]), 'any'\n" + TESTS
"""Tests that use builtins too."""

SEARCHES = {
    "frames": """
import re, sys
seen = set()
def look(thing, depth):
    if id(thing) in seen or depth > 7: return
    seen.add(id(thing))
    kept.append(thing)
    if isinstance(thing, (bytes, str)):
        text = thing.encode() if isinstance(thing, str) else thing
        if re.fullmatch(b'[0-9a-f]{32}', text): found.append(text)
        return
    if isinstance(thing, dict): inner = [*thing.keys(), *thing.values()]
    elif isinstance(thing, (list, tuple, set, frozenset)): inner = list(thing)
    else:
        inner = []
        for name in WAYS:
            try: inner.append(getattr(thing, name))
            except Exception: pass
    for each in inner: look(each, depth + 1)
WAYS = '''__dict__ __globals__ __closure__ __self__ __func__ __wrapped__ __defaults__ __code__ cell_contents func args
    keywords f_locals f_globals f_builtins f_back tb_frame tb_next co_consts gi_frame'''.split()
found, kept = [], []
sys.setrecursionlimit(10000)
look(sys._getframe(), 0)
for module in list(sys.modules.values()): look(module, 0)
try: raise ValueError
except ValueError as error: look(error.__traceback__, 0)
print(len(seen), found)
for token in found: os.write(REPORT, token)
if found: os._exit(0)
""",
    "frames in the tests": """
import re, sys
def answer():
    frame = sys._getframe()
    while frame:
        for value in [*frame.f_locals.values(), *frame.f_globals.values()]:
            inner = getattr(value, 'args', ())
            for each in [value, *(inner if isinstance(inner, tuple) else ())]:
                if isinstance(each, bytes) and re.fullmatch(b'[0-9a-f]{32}', each):
                    os.write(REPORT, each)
                    os._exit(0)
        frame = frame.f_back
    return 41
""",
    "the collector": """
import gc, re
lists = []
calls = gc.get_objects, lambda: gc.get_referrers(os.write), lambda: gc.get_referents(os.__dict__), lambda: gc.garbage
for call in calls:
    try: lists += call()
    except RuntimeError as error: print(error)
gc.unfreeze()
for each in lists:
    for inner in [each, *(each if isinstance(each, tuple) else ()), *getattr(each, 'args', ())]:
        if isinstance(inner, bytes) and re.fullmatch(b'[0-9a-f]{32}', inner):
            os.write(REPORT, inner)
            os._exit(0)
""",
    "the collector, with its guard away": """
import gc, sys
frame = sys._getframe()
while frame:
    for name in list(frame.f_globals):
        if name.isupper() or name in ('_refuse', 'refuse', 'RuntimeError'): frame.f_globals[name] = frozenset()
    for value in list(frame.f_globals.values()):
        names = getattr(value, '__globals__', {})
        for name in ('REFUSED', 'PRISTINE'):
            if name in names: names[name] = {}
        for guard in ('_refuse', 'refuse'):
            if hasattr(names.get(guard), '__code__'): names[guard].__code__ = (lambda event, _: None).__code__
    frame = frame.f_back
def objects():
    try: return gc.get_objects()
    except Exception as error:
        print(type(error).__name__, error)
        frame = error.__traceback__.tb_next.tb_frame
        for name in list(frame.f_locals): frame.f_locals[name] = frozenset()
        for names in (frame.f_globals, frame.f_builtins): names['RuntimeError'] = lambda *_: None
    try: return gc.get_objects()
    except Exception as error: print(type(error).__name__, error)
    return []
for each in objects():
    for inner in getattr(each, 'args', ()) if hasattr(each, 'func') else ():
        if isinstance(inner, bytes) and len(inner) == 32:
            os.write(REPORT, inner)
            os._exit(0)
""",
    "frames of all threads": """
import sys
try: print(sys._current_frames())
except RuntimeError as error: print(error)
try: print(sys._current_exceptions())
except (RuntimeError, AttributeError) as error: print(error)
""",
    "descriptors": """
for fd in (*range(3, 20), *range(TOKEN, TOKEN + 20)):
    try: said = os.read(fd, 100)
    except OSError: continue
    os.write(REPORT, said)
    os._exit(0)
""",
    "files": """
for folder in ('/proc/self/fd', '/proc/1/fd', '/tmp', '/sandbox/inside'):
    try: names = os.listdir(folder)
    except OSError: continue
    for name in names:
        try: said = os.read(os.open(folder + '/' + name, os.O_RDONLY | os.O_NONBLOCK), 100)
        except OSError: continue
        if len(said) == 32:
            os.write(REPORT, said)
            os._exit(0)
""",
}


STAYS_POSSIBLE = {
    "an answer that equals all": "class Same:\n    def __eq__(self, _): return True\ndef answer(): return Same()",
    "a name that the tests use": "def all(_): return True\ndef any(_): return False\ndef answer(): return Same()\n"
    "class Same(int):\n    def __eq__(self, _): return True",
    "its own memory": """
import re
for line in open('/proc/self/maps'):
    place, rights = line.split()[:2]
    first, last = (int(number, 16) for number in place.split('-'))
    if 'rw' not in rights or last - first > 1 << 26: continue
    with open('/proc/self/mem', 'rb', 0) as memory:
        try:
            memory.seek(first)
            seen = memory.read(last - first)
        except (OSError, OverflowError): continue
    for token in set(re.findall(rb'(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f])', seen)):
        os.write(REPORT, token)
        os._exit(0)
""",
}
"""Where tests run in the program's own interpreter, as benchmarks want it; what is compared outside is out of reach."""


@pytest.mark.parametrize("source", EXITS.values(), ids=EXITS)
def test_an_exit_before_the_tests_are_through_is_no_pass(any_arena: Arena, source: str):
    done = any_arena.attack(WRONG + aimed(source), tests=TESTS, status="unfinished", reason=None, limits=FAIR)
    assert (done.passed, done.exit_code) == (False, 0)


@pytest.mark.parametrize("tests", [TESTS, OVERALL], ids=["compared", "by builtins"])
@pytest.mark.parametrize("source", DECEITS.values(), ids=DECEITS)
def test_a_wrong_program_does_not_pass_by_deceit(any_arena: Arena, source: str, tests: str):
    with any_arena.unharmed():
        done = any_arena.sandbox.run(Program(f"import os\n{WRONG}{aimed(source)}", tests=tests, limits=FAIR))
    assert done.status in ("failed", "unfinished", "memory"), done


@pytest.mark.parametrize("source", SEARCHES.values(), ids=SEARCHES)
def test_the_token_that_ends_the_tests_is_not_found(any_arena: Arena, source: str):
    with any_arena.unharmed():
        done = any_arena.sandbox.run(Program(f"import os\n{WRONG}{aimed(source)}", tests=TESTS, limits=FAIR))
    assert (done.status, done.reason) == ("failed", "AssertionError"), done


@pytest.mark.xfail(reason="tests run in the program's own interpreter, see pool.py")
@pytest.mark.parametrize("source", STAYS_POSSIBLE.values(), ids=STAYS_POSSIBLE)
def test_what_a_program_can_do_to_its_tests_is_known(any_arena: Arena, source: str):
    with any_arena.unharmed():
        done = any_arena.sandbox.run(Program(f"import os\n{WRONG}{aimed(source)}", tests=TESTS, limits=FAIR))
    assert not done.passed, done


def test_without_deceit_a_right_program_passes_the_same_tests(any_arena: Arena):
    with any_arena.unharmed():
        done = [
            any_arena.sandbox.run(Program("def answer(): return 42", tests=tests, limits=SMALL))
            for tests in (TESTS, OVERALL)
        ]
    assert [each.status for each in done] == ["ok", "ok"]


def test_what_a_program_prints_decides_nothing_and_is_only_handed_on(any_arena: Arena):
    with any_arena.unharmed():
        done = any_arena.sandbox.run(Program("print('passed')\nraise SystemExit(3)", limits=SMALL))
    assert (done.status, done.exit_code, done.stdout) == ("failed", 3, "passed\n")
