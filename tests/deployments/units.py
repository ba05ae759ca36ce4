"""The systemd units of `deployments/`, as systemd reads them, and machines on which they run here."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from flows.service.api import Api
from flows.service.deploy import find_deployments_folder
from flows.service.place import DEFAULT_PORT, PORT
from tests.command import TRIVET
from tests.service.serviced import ROOT

FOLDER = find_deployments_folder() / "systemd"
AUTH = "operator:secret"


class Unit(NamedTuple):
    """What a unit runs."""

    command: list[str]
    environment: dict[str, str]
    unset: list[str]
    """Variables that its process does not get, whoever sets them."""
    text: str


def unit(name: str) -> Unit:
    """`unit("server")` is trivet-server.service."""
    text = (FOLDER / f"trivet-{name}.service").read_text()
    lines = [line.partition("=") for line in text.splitlines() if not line.startswith("#")]
    said = {key: [value for other, _, value in lines if other == key] for key, _, _ in lines}
    words = [word.partition("=") for value in said.get("Environment", []) for word in shlex.split(value)]
    [command] = said["ExecStart"]
    return Unit(
        command=shlex.split(command),
        environment={key: value for key, _, value in words},
        unset=[word for value in said.get("UnsetEnvironment", []) for word in value.split()],
        text=text,
    )


class Machine(NamedTuple):
    """Where units run that think that they are on a machine of their own."""

    home: Path
    port: int
    pages_port: int
    ended: ExitStack

    def start(self, name: str, **file: str) -> subprocess.Popen[bytes]:
        """What systemd starts.

        file: the variables of its EnvironmentFile.
        """
        read = unit(name)
        told = {key: self._here(value) for key, value in read.environment.items()} | file
        arguments = [self._here(word) for word in read.command[1:]]
        process = subprocess.Popen(
            [*PROGRAMS[read.command[0]], *(each for word in arguments for each in read_by_systemd(word, told))],
            env={"PATH": os.environ["PATH"], "HOME": str(self.home), "OMP_NUM_THREADS": "1", **told},
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
        )
        self.ended.callback(end, process)
        return process

    @property
    def api(self) -> Api:
        return Api(f"http://127.0.0.1:{self.port}/api", AUTH)

    def _here(self, text: str) -> str:
        here = {"/var/lib/trivet": str(self.home), str(PORT): str(self.port), str(DEFAULT_PORT): str(self.pages_port)}
        return re.sub("|".join(here), lambda found: here[found[0]], text)


PROGRAMS = {"/opt/trivet/bin/python": (sys.executable,), "/opt/trivet/bin/trivet": TRIVET}


def read_by_systemd(word: str, variables: dict[str, str]) -> list[str]:
    """The arguments that a word of a command line is: those of the variable, where it is `$NAME`."""
    return shlex.split(variables.get(word[1:], "")) if word.startswith("$") else [word]


def end(process: subprocess.Popen[bytes]) -> int:
    """As `systemctl stop` does, which kills what does not end in time; gives the exit status."""
    process.send_signal(signal.SIGTERM)
    try:
        return process.wait(timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()
