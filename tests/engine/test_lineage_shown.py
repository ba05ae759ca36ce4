"""Each run of a leg has its lineage as a picture in the Prefect UI, and commands that work."""

from __future__ import annotations

import re
from base64 import b64decode
from pathlib import Path
from uuid import uuid4

import pytest

from flows.running.configuring import configure_steps

configure_steps()

from prefect import flow  # noqa: E402
from prefect.client.orchestration import SyncPrefectClient  # noqa: E402

from flows.rag import build_index  # noqa: E402
from flows.running import lineage_shown  # noqa: E402
from flows.running.lineage_shown import with_lineage  # noqa: E402
from flows.running.shown import watched  # noqa: E402
from storage.records import Ref  # noqa: E402
from tasks.resources import artifacts, lineage  # noqa: E402
from tasks.step import inline, step  # noqa: E402
from tests.command import run_here  # noqa: E402
from tests.engine.deployed import Ran  # noqa: E402

pytestmark = pytest.mark.engine


@step(version=7)
def keep(text: str) -> Ref:
    return artifacts().put("note", text.encode())


def picture(ran: Ran, key: str) -> str:
    """The SVG, as the UI shows it."""
    told = str(ran.artifacts[key].data)
    [shown] = re.findall(r"\(data:image/svg\+xml;base64,(\S+)\)", told)
    return b64decode(shown).decode()


@pytest.fixture
def config(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "docs").mkdir()
    for number in range(3):
        (tmp_path / "docs" / f"{number}.txt").write_text(f"Lot {number} of {tmp_path.name} costs {number} million.")
    return {"documents": str(tmp_path / "docs"), "index": str(tmp_path / "index")}


def test_an_index_run_has_its_picture_and_the_command_of_its_result(
    client: SyncPrefectClient, config: dict[str, str]
) -> None:
    ran = Ran(client, build_index, config=config)

    told, drawn = str(ran.artifacts["rag-lineage"].data), picture(ran, "rag-lineage")
    for name in ("scan", "parse", "find_figures", "chunk", "embed", "catalogue", "publish_index"):
        assert f">{name}</text>" in drawn
    assert 'class="box before"' not in drawn
    [asked] = re.findall(r"`trivet (why \w+)`", told)
    assert asked.split()[1] in run_here(*asked.split()).stdout

    again = Ran(client, build_index, config=config)

    assert "0 steps made something new" in str(again.artifacts["rag-lineage"].data)
    assert 'class="box before"' in picture(again, "rag-lineage")
    assert ">publish_index</text>" in picture(again, "rag-lineage")


def test_a_run_that_fails_has_one_too_and_its_retry_goes_on_with_it(client: SyncPrefectClient, tmp_path: Path) -> None:
    fails = [True, False]

    @flow(name="fails-once")
    @watched
    @with_lineage
    def fails_once() -> None:
        keep(f"first of {tmp_path}")
        if fails.pop(0):
            raise RuntimeError("no light")
        keep(f"second of {tmp_path}")

    ran = Ran(client, fails_once)
    assert ran.state.is_failed()
    assert "version 7 · 1 ran in" in picture(ran, "fails-once-lineage")

    ran.retry()
    assert ran.state.is_completed()
    assert "version 7 · 2 ran in" in picture(ran, "fails-once-lineage")


def test_a_step_on_a_pool_is_one_of_the_run_that_sent_it(tmp_path: Path) -> None:
    sender = str(uuid4())

    @flow
    def on_the_pool() -> None:
        with inline(sent_by=sender):
            keep(f"on a pool for {tmp_path}")

    on_the_pool()
    assert [one.step.version for one in lineage().of_run(sender)] == [7]


def test_a_server_that_does_not_take_it_costs_no_run(
    client: SyncPrefectClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # nobody listens there
    monkeypatch.setattr(lineage_shown, "impatient_client", lambda: SyncPrefectClient("http://127.0.0.1:9/api"))

    @flow(name="unheard")
    @watched
    @with_lineage
    def unheard() -> None:
        keep(str(tmp_path))

    ran = Ran(client, unheard)
    assert ran.state.is_completed()
    assert ran.artifacts == {}
