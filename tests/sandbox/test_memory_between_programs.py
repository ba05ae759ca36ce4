"""What one program was given and wrote is not in the memory of the next one."""

from __future__ import annotations

import pytest

from tasks.sandbox import Program, Sandbox
from tasks.sandbox.sandbox_errors import SandboxUnavailable

LOOK = """
needle = 'KRAM_TERCES'[::-1].encode()
hits = 0
for line in open('/proc/self/maps'):
    place, rights, *_ = line.split()
    if 'r' in rights and '[v' not in line:
        low, high = (int(end, 16) for end in place.split('-'))
        try:
            memory = open('/proc/self/mem', 'rb')
            memory.seek(low)
            hits += memory.read(high - low).count(needle)
        except OSError:
            pass
print(hits, needle)
"""


def hits(sandbox: Sandbox) -> int:
    """How often the mark is found; once or so it is the needle itself."""
    done = sandbox.run(Program(LOOK))
    assert done.passed, done
    return int(done.stdout.split()[0])


def test_a_program_finds_nothing_of_the_one_before():
    try:
        with Sandbox(workers=1) as sandbox:
            alone = hits(sandbox)
            mark = "SECRET_MARK"
            first = Program(
                f"print('{mark}' * 1000)", tests=f"x = '{mark}'", stdin=mark.encode() * 99, files={mark: b"1"}
            )
            assert sandbox.run(first).stdout.count(mark) == 1000
            assert hits(sandbox) == alone
    except SandboxUnavailable as error:
        pytest.skip(str(error))
