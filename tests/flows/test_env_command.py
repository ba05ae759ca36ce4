"""`eval "$(trivet status --shell)"` gives a shell the server, and the commands of this installation."""

from __future__ import annotations

import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from flows.cli.service_commands import on_path
from flows.service.api import SERVICE_FILE, Service
from tests.command import TRIVET

SYSTEM = "/usr/bin:/bin"


def told_by_sh(script: str, **environment: str) -> list[str]:
    done = subprocess.run(
        ["/bin/sh", "-c", script], env=environment, capture_output=True, text=True, check=True, timeout=120
    )
    return done.stdout.splitlines()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with a service, in a folder that a shell would tear apart."""
    home = tmp_path / "it's a home"
    (home / SERVICE_FILE).parent.mkdir(parents=True)
    url = "http://127.0.0.1:9"
    service = Service(api_url=f"{url}/api", ui_url=url, auth_file="auth", database=None, pools=(), folder=str(home))
    (home / SERVICE_FILE).write_text(service.model_dump_json())
    return home


def test_a_shell_finds_the_commands_and_the_server(home: Path) -> None:
    scripts = Path(sysconfig.get_path("scripts"))
    evaluated = f'eval "$({shlex.join(TRIVET)} status --shell)"'
    show = "command -v trivet; command -v prefect; echo $PREFECT_API_URL; echo $TRIVET_HOME; echo $PATH"
    shown = told_by_sh(
        f"{evaluated}; {evaluated}; {show}", PATH=SYSTEM, TRIVET_HOME=str(home), PYTHONPATH=str(Path.cwd())
    )
    assert shown == [
        str(scripts / "trivet"),
        str(scripts / "prefect"),
        "http://127.0.0.1:9/api",
        str(home),
        f"{scripts}:{SYSTEM}",
    ]
    assert Path(sys.executable).parent == scripts


@pytest.mark.parametrize("folder", ["/it's a folder/bin", "/a*b/bin", "/a$HOME/bin"])
def test_any_folder_goes_on_the_path_once(folder: str) -> None:
    assert told_by_sh(f'{on_path(folder)}\n{on_path(folder)}\necho "$PATH"', PATH=SYSTEM) == [f"{folder}:{SYSTEM}"]


def test_an_empty_path_gets_no_empty_entry() -> None:
    assert told_by_sh(f'{on_path("/a b")}\necho "$PATH"', PATH="") == ["/a b"]
