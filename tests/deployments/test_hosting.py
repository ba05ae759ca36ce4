"""Units and compose.yaml run what `trivet up` runs, with the same variables, and no secret stands in them."""

from __future__ import annotations

import re
import shlex
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from redis import Redis

from flows.running.environment import QUIET
from flows.service.api import Database
from flows.service.deploy import find_deployments_folder
from flows.service.place import DEFAULT_PORT, PORT, Place, ServiceSettings
from flows.service.run_server import AUTOMATIONS, EVENTS, LOOPBACK, skip_events, variables
from flows.service.supervising import GPU_DEPLOYMENT, MARK, environment_of, programs_of
from tests.deployments import units
from tests.deployments.units import unit
from tests.service.serviced import free_port

PATIENCE_S = 60.0
HOME = Place(Path("/var/lib/trivet"))
ASKED = ServiceSettings(folder="/srv/trivet")
DATABASE = Database(kind="postgresql", kept=False, why="", url="postgresql+asyncpg://prefect:secret@127.0.0.1/prefect")
PROGRAMS = {program.name: program for program in programs_of(ASKED, DATABASE, umask=0o022)}
SECRETS = {
    *("PREFECT_SERVER_DATABASE_CONNECTION_URL", "PREFECT_SERVER_API_AUTH_STRING", "PREFECT_API_AUTH_STRING"),
}
OF_PROGRAMS = {MARK, "PREFECT_SERVER_UI_ENABLED", *QUIET, *variables(HOME, str(PORT), LOOPBACK)}
"""What the programs set themselves, and what is so anyway."""
OF_ALL = {
    *("PREFECT_API_URL", "PREFECT_API_AUTH_STRING", "PREFECT_HOME", "TRIVET_HOME"),
    "PREFECT_SERVER_ALLOW_EPHEMERAL_MODE",
}
COMPOSE: dict[str, Any] = yaml.safe_load((find_deployments_folder() / "compose.yaml").read_text())["services"]


UNITS = [("server", "server"), ("pages", "pages"), ("worker-cpu", "cpu"), ("worker-gpu", "gpu")]


def read_by_pages(host: str, collections: str, name: str) -> list[str]:
    """The arguments by which the pages, and no other program, listen at a port of their own for good."""
    return [str(DEFAULT_PORT), host, collections] if name == "pages" else []


def told(name: str) -> dict[str, str]:
    """What `trivet up` tells its server, or the worker of a pool."""
    everything = environment_of(HOME, ASKED, DATABASE, "user:password", {})
    of_server = {each for each in everything if each.startswith("PREFECT_SERVER_")} - OF_ALL
    wanted = of_server | OF_ALL if name == "server" else everything.keys() - of_server
    return {each: everything[each] for each in wanted - OF_PROGRAMS}


@pytest.mark.parametrize(("name", "program"), UNITS)
def test_a_unit_runs_the_program_of_trivet_up_with_its_variables(name: str, program: str) -> None:
    read, expected = unit(name), told(program)
    plain = {key: value for key, value in expected.items() if key not in SECRETS | {"TRIVET_GPU_DEPLOYMENT"}}

    assert read.command[1:] == [*PROGRAMS[program].command[1:], *read_by_pages("127.0.0.1", "$TRIVET_PAGES", name)]
    assert {key: read.environment.get(key) for key in plain} == plain


def test_a_unit_asks_for_its_secrets_in_a_file() -> None:
    for name in (*dict(UNITS), "deploy"):
        assert SECRETS.isdisjoint(unit(name).environment)
    assert all(f"{secret}=" in unit("server").text for secret in SECRETS)
    assert f"TRIVET_GPU_DEPLOYMENT={GPU_DEPLOYMENT}" in unit("worker-cpu").text


def test_gpu_steps_of_the_gpu_worker_go_no_further() -> None:
    """They would wait for the place that they hold; systemd lets a file that both workers read count more."""
    assert "TRIVET_GPU_DEPLOYMENT" in unit("worker-gpu").unset
    assert COMPOSE["gpu"]["environment"]["TRIVET_GPU_DEPLOYMENT"] == ""


@pytest.mark.parametrize("name", ["server", "pages", "cpu", "gpu"])
def test_compose_runs_the_programs_of_trivet_up_with_their_variables(name: str) -> None:
    listening = ["0.0.0.0"] if name == "server" else read_by_pages("0.0.0.0", "${TRIVET_PAGES:-}", name)
    command = COMPOSE[name]["command"]
    expected = told(name)
    environment = COMPOSE[name]["environment"]
    of_image = {"TRIVET_HOME", "PREFECT_HOME", "TRIVET_GPU_DEPLOYMENT"}

    assert (shlex.split(command) if name == "pages" else command) == ["python", *PROGRAMS[name].command[1:], *listening]
    assert expected.keys() - of_image <= environment.keys()
    same = {key: value for key, value in expected.items() if re.fullmatch(r"\w+", value)}
    assert {key: environment[key] for key in same} == same


def test_compose_has_every_secret_from_the_environment_and_waits_for_health() -> None:
    example = (find_deployments_folder() / "compose.env.example").read_text()

    assert COMPOSE.keys() == {"postgres", "redis", "server", "pages", "proxy", "deploy", "cpu", "gpu"}
    secrets = [
        value
        for service in COMPOSE.values()
        for name, value in service.get("environment", {}).items()
        if name.endswith(("PASSWORD", "AUTH_STRING")) or (name.endswith("URL") and "@" in value)
    ]
    assert len(secrets) >= 8
    assert all("${" in value for value in secrets)
    for name in ("PREFECT_AUTH", "POSTGRES_PASSWORD", "PREFECT_DB_PASSWORD", "TRIVET_DB_PASSWORD"):
        assert f"{name}=" in example
    for name in ("pages", "deploy", "cpu", "gpu"):
        assert COMPOSE[name]["depends_on"]["server"] == {"condition": "service_healthy"}


def test_the_proxy_names_whoever_connects_in_place_of_what_a_client_claims() -> None:
    text = (find_deployments_folder() / "tls.cfg").read_text()
    assert text.count("http-request set-header X-Forwarded-For %[src]") == text.count("\nfrontend ")


@pytest.mark.machine
@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd here")
def test_systemd_understands_every_unit(tmp_path: Path) -> None:
    for path in units.FOLDER.iterdir():
        text = re.sub(r"^(ExecStart=)/opt/trivet\S*", r"\1/bin/true", path.read_text(), flags=re.MULTILINE)
        (tmp_path / path.name).write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", *tmp_path.iterdir()], capture_output=True, text=True, check=False
    )
    assert (done.returncode, [line for line in done.stderr.splitlines() if "trivet-" in line]) == (0, [])


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[str]:
    """The address of a Redis."""
    port = free_port()
    command = ["redis-server", "--bind", "127.0.0.1", "--port", str(port), "--dir", str(tmp_path), "--save", ""]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as server:
        try:
            wait_for(port)
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            server.terminate()


def wait_for(port: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    with socket.socket() as probe:
        while probe.connect_ex(("127.0.0.1", port)):
            assert time.monotonic() < deadline, "Redis does not start"
            time.sleep(0.05)


@pytest.mark.machine
@pytest.mark.skipif(not shutil.which("redis-server"), reason="no Redis here")
def test_a_server_on_redis_begins_with_the_events_of_now(redis: str) -> None:
    """Those that its predecessor left there are for the history, and would be waits of before for the automations."""
    skip_events(redis)  # a new one has nothing to forget
    with Redis.from_url(redis, decode_responses=True) as client:
        assert client.xinfo_groups(EVENTS)[0]["last-delivered-id"] == "0-0"
        client.delete(EVENTS)
        for group in (AUTOMATIONS, "event-persister"):
            client.xgroup_create(EVENTS, group, id="0", mkstream=True)
        client.xadd(EVENTS, {"data": "was being read"})
        client.xreadgroup(AUTOMATIONS, "server", {EVENTS: ">"})
        client.xadd(EVENTS, {"data": "waits"})

        skip_events(redis)
        client.xadd(EVENTS, {"data": "new"})

        assert read_by(client, AUTOMATIONS) == ["new"]
        assert read_by(client, "event-persister") == ["was being read", "waits", "new"]
        assert client.xpending(EVENTS, AUTOMATIONS)["pending"] == 1  # the new one


def read_by(client: Redis, group: str) -> list[str]:
    streams = cast("list[Any]", client.xreadgroup(group, "server", {EVENTS: ">"}))
    return [message["data"] for _, messages in streams for _, message in messages]
