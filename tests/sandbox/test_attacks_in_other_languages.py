"""The same in Bash and JavaScript: programs that exit, multiply, look and call. Walls are those of any process."""

from __future__ import annotations

import json

import pytest

from tasks.sandbox import Program
from tasks.sandbox.languages import find_language, why_unavailable
from tasks.sandbox.sandbox_records import MIB
from tests.sandbox.attacking import PROGRAMS, ROOT, SECRET, SECRET_NAME, SMALL, SPARE, Arena

NODE = SMALL._replace(memory_bytes=1024 * MIB, processes=24, open_files=128)
"""It has a dozen threads of its own."""


@pytest.mark.parametrize("source", PROGRAMS["bash"].values(), ids=PROGRAMS["bash"])
def test_an_exit_in_bash_before_the_tests_are_through_is_no_pass(any_arena: Arena, source: str):
    tests = '[[ "$(answer)" == 42 ]] || exit 1\n[[ $(answer) == 42 ]]'
    with any_arena.unharmed():
        done = any_arena.sandbox.run(Program(f"answer() {{ echo 41; }}\n{source}", "bash", tests, limits=SMALL))
    assert done.status in ("failed", "unfinished"), done


@pytest.mark.parametrize("source", PROGRAMS["javascript"].values(), ids=PROGRAMS["javascript"])
def test_an_exit_in_javascript_before_the_tests_are_through_is_no_pass(any_arena: Arena, source: str):
    needs("javascript")
    tests = "if (answer() != 42) throw new Error('wrong');"
    with any_arena.unharmed():
        done = any_arena.sandbox.run(
            Program(f"let answer = () => 41;\n{source}", "javascript", tests, limits=NODE._replace(wall_s=5))
        )
    assert done.status in ("failed", "unfinished"), done


def test_right_programs_pass_the_same_tests(arena: Arena):
    needs("javascript")
    with arena.unharmed():
        bash = arena.sandbox.run(Program("answer() { echo 42; }", "bash", "[[ $(answer) == 42 ]]", limits=SMALL))
        node = Program("let answer = () => 42;", "javascript", "if (answer() != 42) throw 1;", limits=NODE)
        assert (bash.status, arena.sandbox.run(node).status) == ("ok", "ok")


def test_a_fork_bomb_in_bash_ends_at_the_limit(arena: Arena):
    """Bash tries again for seconds, and its time ends it."""
    most = SMALL.processes + 16
    source = f"for n in $(seq {most}); do sleep 60 & echo $n; done; echo all"
    with arena.unharmed():
        done = arena.sandbox.run(Program(source, "bash", limits=SMALL._replace(wall_s=0.5)))
    assert done.status in ("timeout", "failed"), done
    assert 0 < len(done.stdout.split()) <= SMALL.processes + SPARE


def test_memory_beyond_the_limit_is_not_given_to_javascript(arena: Arena):
    needs("javascript")
    blocks = (NODE.memory_bytes + 64 * MIB) // (16 * MIB)
    source = (
        f"const kept = []; for (let n = 0; n < {blocks}; n++) kept.push(Buffer.alloc(16 << 20, 1)); console.log('all');"
    )
    with arena.unharmed():
        done = arena.sandbox.run(Program(source, "javascript", limits=NODE))
    assert done.status in ("failed", "memory"), done
    assert "all" not in done.stdout


def test_bash_reads_writes_and_calls_nothing_outside(arena: Arena):
    aims = arena.bystanders
    source = f"""
won=
env; set
cat /etc/shadow && won=shadow
cat {aims.file} && won=file
ls {ROOT} && won=project
ls ~root/.ssh && won=home
cat /proc/1/environ && won=environment
echo x > /x && won=root
echo x >> /etc/passwd && won=passwd
echo x > {aims.file} && won=written
ln {aims.file} link && won=link
for port in {" ".join(map(str, aims.ports))}; do
  (echo x > /dev/tcp/127.0.0.1/$port) && won=tcp
  (echo x > /dev/udp/127.0.0.1/$port)
done
mount -t tmpfs none /tmp/work && won=mount
unshare -Ur true && won=namespace
echo "won: $won"
[[ -n $won ]]
"""
    done = arena.attack(source, tests=None, language="bash", reason=None)
    assert done.stdout.endswith("won: \n")
    assert SECRET_NAME not in done.stdout
    assert SECRET not in done.stdout


def test_javascript_reads_writes_and_calls_nothing_outside(arena: Arena):
    needs("javascript")
    done = arena.attack(PROGRAMS["outside"]["javascript"], tests=None, language="javascript", reason=None, limits=NODE)
    assert json.loads(done.stdout) == []


def needs(language: str) -> None:
    if why := why_unavailable(find_language(language)):
        pytest.skip(why)
