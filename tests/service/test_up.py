"""`trivet up` and its sisters as a user meets them: everything runs, says where it is, and is closed to others."""

from __future__ import annotations

import json
import os
import shutil
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from flows.service.api import Api, ApiFailed, auth_of
from storage.files import AMONG_SECRETS
from tests.flows.web.served import sign_in
from tests.service.conftest import Started
from tests.service.serviced import DEPLOYMENTS, ROOT, deploy, diary_of, free_port, kill, service_home
from tests.storage.looking import as_root, read_by_another

pytestmark = [pytest.mark.engine, pytest.mark.postgres, pytest.mark.slow]
SUITE = ROOT / "tests" / "samples" / "nightly"
SECRET = "sk-4f0c2b9a7d"


def test_up_says_where_everything_is_and_twice_is_harmless(service: Started) -> None:
    running, said = service
    assert said["api_url"] == f"http://127.0.0.1:{running.port}/api"
    assert said["ui_url"] == f"http://127.0.0.1:{running.port}"
    assert (said["state"], said["pools"], said["failed"]) == ("started", ["cpu", "gpu"], None)
    assert set(said["deployments"]) >= DEPLOYMENTS
    assert (said["database"]["kind"], "pg_trgm" in said["database"]["why"]) == ("postgresql", True)
    before = {part: running.pid_of(part) for part in ("database", "server", "pages", "cpu", "gpu")}
    assert running.up()["state"] == "unchanged"
    assert {part: running.pid_of(part) for part in before} == before


def test_nights_are_scheduled_once_they_are_switched_on(service: Started) -> None:
    """They are not with SQLAlchemy 2.1, whose scheduler fails without a word but in its log."""
    running = service.running
    deployment = running.api.get("/deployments/name/nightly/nightly")
    [schedule] = deployment["schedules"]
    assert not schedule["active"]
    running.api.send("PATCH", f"/deployments/{deployment['id']}/schedules/{schedule['id']}", {"active": True})
    ahead = {"flow_runs": {"state": {"type": {"any_": ["SCHEDULED"]}}}, "flows": {"name": {"any_": ["nightly"]}}}
    running.until(lambda: running.api.post("/flow_runs/filter", ahead), "a night is planned")


def test_status_is_healthy_with_all_parts_and_pools(service: Started) -> None:
    done = service.running.trivet("status", "--json")
    found = done.json
    assert (done.code, found["state"], found["problems"]) == (0, "healthy", [])
    assert {part["name"]: part["state"] for part in found["parts"]} == dict.fromkeys(
        ("database", "server", "pages", "cpu", "gpu"), "running"
    )
    assert {pool["name"]: pool["worker_online"] for pool in found["pools"]} == {"cpu": True, "gpu": True}
    assert found["memory_bytes"] > 100_000_000


@pytest.mark.parametrize("command", ["status", "deploy"])
def test_this_machine_is_asked_past_the_users_proxy(service: Started, command: str) -> None:
    nobody = f"http://127.0.0.1:{free_port()}"
    done = service.running.trivet(command, http_proxy=nobody, HTTP_PROXY=nobody, no_proxy="example.org")
    assert done.code == 0, done.stdout + done.stderr


def test_both_pages_are_served_and_ask_for_the_auth_string(service: Started) -> None:
    url = service.said["ui_url"]
    assert all("<html" in httpx.get(url + path, follow_redirects=True).text for path in ("/", "/v2/"))
    settings = httpx.get(f"{url}/ui-settings").json()
    assert (settings["api_url"], settings["auth"]) == (service.said["api_url"], "BASIC")
    assert settings["available_uis"] == ["v1", "v2"]
    assert httpx.get(f"{service.said['api_url']}/metrics").status_code == 401
    for auth in (None, "trivet:guess"):
        with pytest.raises(ApiFailed) as refused:
            Api(service.said["api_url"], auth).post("/flow_runs/filter", {})
        assert refused.value.status == 401
    log = service.running.place.log_of("server")
    service.running.until(lambda: "status=401 from=127.0.0.1" in log.read_text(), "the refusal stands in the log")


def test_the_pages_open_to_the_auth_string_of_the_service_and_come_back_after_a_kill(service: Started) -> None:
    running, url = service.running, service.said["pages_url"]
    assert running.trivet("status", "--json").json["pages_url"] == url
    before = running.pid_of("pages")
    kill(before)

    def is_there() -> bool:
        with suppress(httpx.HTTPError):
            return httpx.get(f"{url}/ui/", follow_redirects=True).url.path == "/ui/sign-in"
        return False

    running.until(is_there, "the pages are there again")
    assert running.pid_of("pages") != before
    with httpx.Client(base_url=url, timeout=60, follow_redirects=True) as browser:
        sign_in(browser, auth_of(running.place.home) or "")
        assert "Ask the documents" in browser.get("/ui/").text


def test_pages_that_die_again_and_again_are_failed_with_their_last_line_until_they_answer(service: Started) -> None:
    running, token = service.running, service.running.place.home / "serve-token"
    secret = token.read_text()
    token.write_text("short\n")
    kill(running.pid_of("pages"))

    def failed() -> bool:
        done = running.trivet("status", "--json")
        return done.code == 1 and any(
            problem.startswith("pages: failed; ") and "holds no usable auth string" in problem
            for problem in done.json["problems"]
        )

    running.until(failed, "the pages have failed")
    assert "has failed: " in running.trivet("up", "--port", str(running.port)).stderr
    token.write_text(secret)
    running.up()
    assert running.trivet("status", "--json").json["state"] == "healthy"


def test_the_auth_string_is_in_one_closed_file_and_on_no_command_line(service: Started) -> None:
    place = service.running.place
    secret = auth_of(place.home)
    assert secret
    holders = [file for file in place.home.rglob("*") if file.is_file() and secret.encode() in file.read_bytes()]
    assert holders == [place.auth]
    assert place.auth.stat().st_mode & 0o777 == 0o600
    assert place.folder.stat().st_mode & 0o777 == 0o700
    assert [each.command for each in service.running.processes() if secret in each.command] == []
    assert (place.scratch / "runner_storage").is_dir(), "workers share no folder with other accounts"


def test_the_prefect_command_reads_what_env_prints(service: Started) -> None:
    trivet = f"'{sys.executable}' -c 'from flows.cli import main; main()' status --shell"
    script = f"""eval "$({trivet})" && '{sys.executable}' -m prefect work-pool ls && echo zone=$TRIVET_TIMEZONE"""
    done = subprocess.run(
        ["sh", "-c", script], env=service.running.environment(), cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, "cpu" in done.stdout, "gpu" in done.stdout) == (0, True, True), done.stderr
    assert done.stdout.splitlines()[-1] == "zone=UTC"  # or `prefect deploy --all` would put an empty one on schedules


def test_of_two_nights_at_once_the_worker_does_one(service: Started, tmp_path: Path) -> None:
    running = service.running
    suite = shutil.copytree(SUITE, tmp_path / "suite") / "suite.yaml"
    nightly = running.api.get("/deployments/name/nightly/nightly")["id"]
    nights = [running.start(nightly, {"config": {"suite": str(suite)}}) for _ in range(2)]

    def ended() -> list[str]:
        return sorted(running.state_of(night) for night in nights)

    running.until(lambda: ended() == ["Cancelled", "Completed"], "one night is measured, the other cancelled")
    assert "careful" in (suite.parent / "out" / "report.md").read_text()


def test_a_run_waits_for_room_in_a_full_pool(service: Started, tmp_path: Path) -> None:
    running, diary = service.running, tmp_path / "diary"
    doze = deploy(running.api, "doze", name="one after the other", pool="gpu")
    runs = [running.run(doze, diary, seconds=3) for _ in range(2)]
    running.until(lambda: {running.state_of(run) for run in runs} == {"Completed"}, "both are done")
    assert [line.split()[0] for line in diary_of(diary)] == ["began", "done", "began", "done"]


@pytest.mark.parametrize(
    ("path", "config"),
    [
        ("create_flow_run", {"model": {"backend": "openai", "args": {"api_key": SECRET}}}),
        ("create_flow_run", {"judge": {"backend": "openai", "base_url": f"https://{SECRET}@host/v1"}}),
        ("create_flow_run", {"index": f"postgresql://me:{SECRET}@host/db"}),
        ("create_flow_run", {"vlm": f'openai:m,{{"base_url": "http://me:{SECRET}@host/v1"}}'}),
        ("schedules", {"index": f"postgresql://host/db?password={SECRET}"}),
        ("", {"index": f"postgresql://me:{SECRET}@host/db"}),
    ],
)
def test_a_secret_among_parameters_is_refused_before_it_is_stored(
    service: Started, path: str, config: dict[str, object]
) -> None:
    api = service.running.api
    place = f"/deployments/{api.get('/deployments/name/rag/index')['id']}"
    body = {"parameters": {"config": config}}
    sent: Any = [{"schedule": {"interval": 60}} | body] if path == "schedules" else body
    with pytest.raises(ApiFailed, match="api_key_env") as refused:
        _ = api.post(f"{place}/{path}", sent) if path else api.send("PATCH", place, body)
    assert SECRET not in str(refused.value)
    assert SECRET not in json.dumps(api.get(place))


def test_a_body_without_end_is_refused_and_not_held(service: Started) -> None:
    api, server = service.running.api, psutil.Process(service.running.pid_of("server"))

    def zeros() -> Iterator[bytes]:
        yield from (bytes(1 << 20) for _ in range(200))

    before = server.memory_info().rss
    login = httpx.BasicAuth(*str(api.auth).split(":", 1))
    for auth, status in ((None, 401), (login, 413)):
        with suppress(httpx.WriteError, httpx.ReadError):  # the server does not wait for the rest
            assert httpx.post(f"{api.url}/flow_runs/filter", content=zeros(), auth=auth).status_code == status
    assert server.memory_info().rss - before < 100 << 20


def test_a_run_executes_no_code_and_reads_no_variable_or_secret_that_its_worker_does_not_offer(
    service: Started, tmp_path: Path
) -> None:
    running = service.running
    home, link = running.place.home, tmp_path / "notices.jsonl"
    link.symlink_to(running.place.auth)
    own: dict[str, Any] = {"data_dir": str(ROOT / "tests/samples/benchmarks"), "output_path": str(tmp_path)}
    own |= {"model": {"backend": "scripted"}, "tasks": [{"task": "MATH500"}]}
    asking = {"backend": "openai", "name": "m", "base_url": "http://127.0.0.1:9/v1", "api_key_env": "HOME"}
    of_secrets = {"index": str(tmp_path / "out"), "include": ["auth*"]}
    refused: list[tuple[str, dict[str, Any], str]] = [
        ("evaluation/evaluate", own | {"tasks": [{"task": f"{running.folder}/tasks.py"}]}, "TRIVET_CODE=1"),
        ("evaluation/evaluate", own | {"tasks": [{"task": "json:JSONDecoder"}]}, "TRIVET_CODE=1"),
        ("evaluation/evaluate", own | {"model": asking}, "TRIVET_KEYS"),
        ("evaluation/evaluate", own | {"data_dir": os.path.relpath(home / "service", running.folder)}, AMONG_SECRETS),
        ("rag/index", {"documents": f"{home}/logs/../service"} | of_secrets, AMONG_SECRETS),
        ("rag/index", {"documents": str(home)} | of_secrets, AMONG_SECRETS),
        ("rag-answer/answer", {"questions": str(link), "index": "in", "out": "out"}, AMONG_SECRETS),
    ]
    for name, config, why in refused:  # one after the other, as of two of rag/index at once one is cancelled
        run = running.start(running.api.get(f"/deployments/name/{name}")["id"], {"config": config})
        running.until(lambda run=run: running.state_of(run) == "Failed", "it is refused")
        assert why in running.api.get(f"/flow_runs/{run}")["state"]["message"]


@as_root
def test_another_account_reads_nothing_of_a_home_that_has_worked(service: Started, tmp_path: Path) -> None:
    running = service.running
    documents = tmp_path / "documents"
    documents.mkdir()
    (documents / "one.md").write_text("# One\n\nA page.\n")
    run = running.run(deploy(running.api), tmp_path / "diary", seconds=0)
    running.until(lambda: running.state_of(run) == "Completed", "a worker has worked")
    assert running.trivet("rag", "index", str(documents), "--index", str(tmp_path / "index")).code == 0
    assert read_by_another(running.place.home) == []
    umask = os.umask(0o077)
    os.umask(umask)
    opened = stat.S_IMODE((tmp_path / "index").stat().st_mode)
    assert opened == 0o777 & ~umask, "what was asked for is as open as the user's umask says"


def test_a_second_home_joins_the_server_and_starts_again_when_asked_for_more(service: Started) -> None:
    url, secret = service.said["api_url"], auth_of(service.running.place.home)
    assert secret
    with service_home() as other:
        words = ("up", "--workers-only", "--json")
        refused = other.trivet(*words, PREFECT_API_URL=url, PREFECT_API_AUTH_STRING="trivet:guess")
        joined = other.trivet(*words, "--pools", "cpu", PREFECT_API_URL=url, PREFECT_API_AUTH_STRING=secret)
        workers = service.running.api.post("/work_pools/cpu/workers/filter", {})
        more = {"PREFECT_API_AUTH_STRING": secret, "ANTHROPIC_API_KEY": "sk-of-the-test"}
        again = other.trivet(*words, "--pools", "cpu,gpu", PREFECT_API_URL=url, **more)
        handed = [psutil.Process(other.pid_of(pool)).environ().get("ANTHROPIC_API_KEY") for pool in ("cpu", "gpu")]
        stopped = other.trivet("down", "--json")
    assert (refused.code, "PREFECT_API_AUTH_STRING" in refused.stderr) == (2, True)
    assert (joined.code, joined.json["pools"], joined.json["database"]) == (0, ["cpu"], None)
    assert len([each for each in workers if each["status"] == "ONLINE"]) == 2
    assert (again.json["state"], again.json["changed"]) == (
        "restarted",
        ["pools", "the variable ANTHROPIC_API_KEY"],
    )
    assert (again.json["pools"], handed) == (["cpu", "gpu"], ["sk-of-the-test"] * 2)
    assert stopped.json == {"stopped": ["the service"]}
    assert service.running.trivet("status").code == 0


def test_a_port_that_is_taken_is_refused_and_nothing_is_left_behind() -> None:
    with socket.socket() as taken, service_home() as running:
        taken.bind(("127.0.0.1", running.port))
        taken.listen()
        done = running.trivet("up", "--port", str(running.port))
        assert (done.code, f"127.0.0.1:{running.port} cannot be used" in done.stderr) == (2, True)
        assert "--port" in done.stderr
        assert running.processes() == []
        assert not running.place.address.exists()


def test_workers_alone_need_a_server_that_is_elsewhere_and_answers() -> None:
    nobody = f"http://127.0.0.1:{free_port()}"
    with service_home() as running:
        port = running.trivet("up", "--workers-only", "--port", "4300", PREFECT_API_URL="http://127.0.0.1:9/api")
        address = running.trivet("up", "--workers-only", PREFECT_API_URL="kitchen")
        silent = running.trivet("up", "--workers-only", PREFECT_API_URL=nobody)
    assert (port.code, "--workers-only starts none" in port.stderr) == (2, True), port.stderr
    assert (address.code, "set PREFECT_API_URL, as http://host:4200/api" in address.stderr) == (2, True)
    assert (silent.code, "no Prefect server answers at http://127.0.0.1" in silent.stderr) == (1, True), silent.stderr


def test_where_nothing_was_started_down_and_status_say_so(tmp_path: Path) -> None:
    with service_home() as running:
        assert running.trivet("down", "--json").json == {"stopped": []}
        found = running.trivet("status", "--json")
        assert (found.code, found.json["state"]) == (1, "down")
        assert running.trivet("status", "--shell").code == 1
