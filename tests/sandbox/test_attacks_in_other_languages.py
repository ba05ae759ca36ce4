"""The same in Bash and JavaScript: programs that exit, multiply, write without an end, kill, look and call."""

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


@pytest.mark.parametrize(
    ("language", "source"),
    [
        (
            "bash",
            "while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done",
        ),
        ("bash", "yes"),
        ("bash", "yes >&2"),
        ("bash", "cat /dev/zero"),
        ("javascript", "while (true) require('fs').writeSync(1, 'x'.repeat(10000));"),
        ("javascript", "require('child_process').spawnSync('yes', { stdio: 'inherit' });"),
    ],
    ids=["bash", "yes", "stderr", "zeros", "javascript", "javascript's child"],
)
def test_endless_output_of_other_languages_is_cut_and_ended(arena: Arena, language: str, source: str):
    needs(language)
    arena.attack(
        source,
        tests=None,
        language=language,
        status="output",
        reason=None,
        limits=NODE if language != "bash" else SMALL,
    )


@pytest.mark.parametrize(
    ("language", "source"),
    [
        ("bash", "while :; do :; done"),
        ("bash", "trap '' TERM INT HUP; sleep 1000"),
        ("bash", "trap '' TERM; (trap '' TERM; sleep 1000) & setsid sleep 1000 & wait"),
        ("bash", "kill -STOP $$"),
        ("bash", "mkfifo p; read < p"),
        ("javascript", "while (true) { }"),
        ("javascript", "setInterval(() => { }, 1000); process.on('SIGTERM', () => { });"),
    ],
)
def test_a_program_of_another_language_without_an_end_is_ended(arena: Arena, language: str, source: str):
    needs(language)
    limits = (NODE if language != "bash" else SMALL)._replace(wall_s=0.25)
    arena.attack(source, tests=None, language=language, status="timeout", reason=None, limits=limits)


def test_a_fork_bomb_in_bash_ends_at_the_limit(arena: Arena):
    """Bash tries again for seconds, and its time ends it."""
    most = SMALL.processes + 16
    source = f"for n in $(seq {most}); do sleep 60 & echo $n; done; echo all"
    with arena.unharmed():
        done = arena.sandbox.run(Program(source, "bash", limits=SMALL._replace(wall_s=0.5)))
    assert done.status in ("timeout", "failed"), done
    assert 0 < len(done.stdout.split()) <= SMALL.processes + SPARE


def test_a_fork_bomb_in_javascript_ends_at_the_limit(arena: Arena):
    needs("javascript")
    source = f"""
const {{ spawn }} = require('child_process');
let made = 0, refused = 0;
const told = () => {{ if (made + refused == {NODE.processes}) process.exit(made < {NODE.processes} ? 1 : 0); }};
for (let n = 0; n < {NODE.processes}; n++) {{
  const child = spawn('sleep', ['60']);
  child.on('spawn', () => {{ made++; told(); }});
  child.on('error', () => {{ refused++; told(); }});
}}
"""
    arena.attack(source, tests=None, language="javascript", reason=None, limits=NODE)


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


@pytest.mark.parametrize("target", ["1", "$PPID", "-1", "0", "-- -$$"])
def test_a_kill_in_bash_reaches_nobody_else(arena: Arena, target: str):
    with arena.unharmed():
        done = arena.sandbox.run(Program(f"kill -9 {target}; kill -TERM {target}; exit 3", "bash", limits=SMALL))
    assert done.status == "failed", done


@pytest.mark.parametrize("target", ["1", "process.ppid", "-1", "0"])
def test_a_kill_in_javascript_reaches_nobody_else(arena: Arena, target: str):
    needs("javascript")
    source = (
        f"try {{ process.kill({target}, 'SIGKILL'); }} catch (error) {{ console.log(error.code); }}\nprocess.exit(3);"
    )
    arena.attack(source, tests=None, language="javascript", reason=None, limits=NODE)


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
