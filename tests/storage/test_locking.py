"""One holder at a time, and none after its death."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from storage.files import alone

HOLDS = """
import sys
from pathlib import Path
from storage.files import alone
with alone(Path(sys.argv[1]), "run", wait=lambda: None):
    print("held", flush=True)
    sys.stdin.read()
"""


class Waited(Exception):
    pass


def give_up() -> None:
    raise Waited


def test_another_process_waits_until_the_holder_is_gone_even_when_it_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDS, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(Waited), alone(tmp_path, "run", wait=give_up):
            pass
        holder.kill()
        holder.wait()
        with alone(tmp_path, "run", wait=give_up):
            pass
