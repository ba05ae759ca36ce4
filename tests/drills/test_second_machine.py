"""A second machine joins in one command, works, is cut off and goes for ever; what would lose results is refused."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest

from flows.service.api import WORKER_LABEL
from flows.service.joining.tokens import read_token
from tests.drills.machines import Machine, Machines, two_machines
from tests.service.serviced import diary_of

pytestmark = [
    pytest.mark.drill,
    pytest.mark.engine,
    pytest.mark.postgres,
    pytest.mark.machine,
    pytest.mark.timeout(900),
]

CUT_S = 62.0
"""Longer than Prefect waits for an answer, and than it tries again by itself."""
BEATS_S = 30.0
"""Between two signs of life of a run: a link that is cut just before one is the worst."""
STEPS = 30
TRUE_S = 300.0
"""Until the server tells of a worker that has gone for ever: it looks for silence of two minutes every two minutes."""


@pytest.fixture(scope="module")
def machines() -> Iterator[Machines]:
    with two_machines() as both:
        (both.shared / "store").mkdir()
        yield both


def up(machines: Machines, *arguments: str) -> dict[str, Any]:
    """Start the server's machine, with a worker of the pool cpu."""
    one = machines.one
    done = one.trivet(
        *("up", "--json", "--listen", f"{one.address}:4200", "--pools", "cpu", *arguments),
        TRIVET_STORE=str(machines.shared / "store"),
    )
    assert done.code == 0, done.stderr + one.logs()
    return done.json


@pytest.fixture(scope="module")
def tokens(machines: Machines) -> tuple[str, str]:
    """Those of two starts."""
    return up(machines)["token"], up(machines)["token"]


@pytest.fixture(scope="module")
def token(tokens: tuple[str, str]) -> str:
    """The one that is good."""
    return tokens[-1]


def refused(machine: Machine, *arguments: str, **variables: str) -> str:
    """Why a token is not taken; nothing is kept."""
    done = machine.trivet("join", *arguments, **variables)
    assert done.code == 2, done.stdout + done.stderr
    assert not (machine.place.folder / "joined.json").exists()
    return " ".join(done.stderr.split())


def test_a_wrong_token_is_refused(machines: Machines, tokens: tuple[str, str]) -> None:
    earlier, last = tokens
    assert "token: it is not the last one" in refused(machines.other, earlier)
    assert "this is no token" in refused(machines.other, last[:-5])


def test_another_certificate_gets_nothing(machines: Machines, token: str) -> None:
    other = read_token(token).model_copy(update={"pin": "0" * 64}).line()
    assert "certificate:" in refused(machines.other, other)


def test_a_server_that_is_not_there_is_named(machines: Machines, token: str) -> None:
    nowhere = read_token(token).model_copy(update={"address": f"https://{machines.one.address}:4201"}).line()
    assert "server: nothing answers" in refused(machines.other, nowhere)


def test_another_version_is_refused_by_name(machines: Machines, token: str, tmp_path: Path) -> None:
    # metadata of another version would be found behind those of a checkout
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.metadata as told\n"
        "real = told.version\n"
        "told.version = lambda name: '9.9.9' if name == 'trivet' else real(name)\n"
    )
    said = refused(machines.other, token, PYTHONPATH=str(tmp_path))
    assert f"the server runs trivet {distribution('trivet').version}" in said
    assert "here is 9.9.9" in said


def test_without_a_shared_store_it_is_refused(machines: Machines, token: str, tmp_path: Path) -> None:
    """A folder of the same kind is not the same folder."""
    assert "is not the server's" in refused(machines.other, token, "--store", str(tmp_path))
    assert "there is no folder" in refused(machines.other, token, "--store", str(tmp_path / "none"))


def test_nothing_of_the_token_is_in_a_log(machines: Machines, token: str) -> None:
    logs = "".join(log.read_text() for log in machines.one.place.logs.glob("*.log"))
    assert read_token(token).secret not in logs
    assert token not in logs


@pytest.fixture(scope="module")
def joined(machines: Machines, token: str) -> Machine:
    """The second machine, with a worker of the pool gpu."""
    other = machines.other
    done = other.trivet("join", "--json", token)
    assert done.code == 0, done.stderr
    assert list(done.json["checks"]) == ["server", "certificate", "version", "auth", "store", "database"]
    done = other.trivet("up", "--pools", "gpu", "--json")
    assert done.code == 0, done.stderr + other.logs()
    assert (done.json["pools"], done.json["deployments"]) == (["gpu"], [])
    return other


def test_a_run_uses_both_machines(machines: Machines, joined: Machine, samples: Path) -> None:
    one = machines.one
    documents, index = machines.shared / "documents", machines.shared / "index"
    documents.mkdir()
    (documents / "notice.txt").write_text("Notices are kept for thirty days.\n" * 20)
    [deployment] = one.ask("/deployments/filter", {"deployments": {"name": {"any_": ["index"]}}})
    config = {"documents": str(documents), "index": str(index)}
    run = one.ask(f"/deployments/{deployment['id']}/create_flow_run", {"parameters": {"config": config}})["id"]
    one.until(lambda: one.state_of(run) in ("Completed", "Failed", "Crashed"), "the index is made")
    assert one.state_of(run) == "Completed", one.logs() + joined.logs()
    flows = {each["id"]: each["name"] for each in one.ask("/flows/filter", {})}
    taken = {(flows[each["flow_id"]], each["labels"].get(WORKER_LABEL)) for each in one.ask("/flow_runs/filter", {})}
    workers = {flow: worker for flow, worker in taken if worker}
    assert one.place.name in workers["rag"]
    assert joined.place.name in workers["gpu-step"]


def deployed(one: Machine, flow: str) -> str:
    """A deployment of a flow of `dozing` on the pool of the second machine."""
    asked = {
        "name": "elsewhere",
        "flow_id": one.ask("/flows/", {"name": flow})["id"],
        "work_pool_name": "gpu",
        "entrypoint": f"tests.service.dozing.{flow}",
        "pull_steps": [],
    }
    return one.ask("/deployments/", asked)["id"]


def begun(one: Machine, flow: str, diary: Path, **parameters: float) -> str:
    """A run that has begun on the second machine."""
    told = {"parameters": {"diary": str(diary), **parameters}}
    run = one.ask(f"/deployments/{deployed(one, flow)}/create_flow_run", told)["id"]
    one.until(lambda: diary_of(diary), "it has begun")
    return run


def beats(one: Machine, run: str) -> int:
    """Signs of life of a run that the server has heard."""
    wanted = {
        "event": {"name": ["prefect.flow-run.heartbeat"]},
        "resource": {"id": [f"prefect.flow-run.{run}"]},
        "occurred": {"since": (datetime.now(UTC) - timedelta(hours=1)).isoformat()},
    }
    return len(one.ask("/events/filter", {"filter": wanted})["events"])


def test_a_link_that_is_cut_for_a_minute_loses_nothing(machines: Machines, joined: Machine) -> None:
    one, diary = machines.one, machines.shared / "cut"
    run = begun(one, "count", diary, steps=STEPS, seconds=4)
    one.until(lambda: beats(one, run), "it lives")
    time.sleep(0.8 * BEATS_S)
    machines.cut()
    time.sleep(CUT_S)
    machines.mend()
    one.until(lambda: one.state_of(run) in ("Completed", "Failed"), "it ends")
    assert diary_of(diary) == [str(number) for number in range(STEPS)]
    states = [each["name"] for each in one.ask(f"/flow_run_states/?flow_run_id={run}")]
    assert (states[-1], "Crashed" in states) == ("Completed", False), joined.logs()


def test_a_worker_that_leaves_for_ever_is_noticed_and_replaced(machines: Machines, joined: Machine) -> None:
    one, diary = machines.one, machines.shared / "gone"
    run = begun(one, "doze", diary, seconds=600)
    one.until(lambda: beats(one, run), "it lives")
    joined.vanish()
    one.until(lambda: one.state_of(run) == "Crashed", "the server knows", within_s=TRUE_S)
    Path(f"{diary}.enough").touch()
    up(machines, "--pools", "cpu,gpu")  # a worker of the pool here does what was left
    one.until(lambda: one.state_of(run) == "Completed", "it is done again by itself")
