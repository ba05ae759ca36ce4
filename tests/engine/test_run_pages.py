"""Runs on pages: what failed and why, Retry by those who may, lineage, cost by day; and a server that is away."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import expect

from flows.running.configuring import configure_steps

configure_steps()

from prefect import flow  # noqa: E402
from prefect.client.orchestration import SyncPrefectClient  # noqa: E402

from flows.running.shown import watched  # noqa: E402
from flows.service.flow_runs import RETRIED  # noqa: E402
from storage.evaluated import Run  # noqa: E402
from storage.records import Ref  # noqa: E402
from tasks.resources import artifacts, configure, evaluations, resources  # noqa: E402
from tasks.step import step  # noqa: E402
from tests.engine.deployed import Ran  # noqa: E402
from tests.flows.asks import publish_texts  # noqa: E402
from tests.flows.web.browsing import axe, chromium, signed_in  # noqa: E402
from tests.flows.web.served import PATIENCE_S, Site, sign_in, site  # noqa: E402

pytestmark = [pytest.mark.engine, pytest.mark.postgres]
VIEWER, OPERATOR = "viewer:a-viewer-of-the-tests", "operator:an-operator-of-the-tests"
HOSTILE = "<script>alert(1)</script>"


@step(version=7)
def weigh(text: str) -> Ref:
    return artifacts().put("note", text.encode())


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("runs")
    roles = {"viewer": VIEWER, "operator": OPERATOR}
    with site(publish_texts(folder / "index"), folder / "home", {}, roles=roles) as running:
        yield running


def browser(served: Site, auth: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=served.url, timeout=PATIENCE_S, follow_redirects=True) as client:
        sign_in(client, auth)
        yield client


@pytest.fixture
def viewer(served: Site) -> Iterator[httpx.Client]:
    yield from browser(served, VIEWER)


@pytest.fixture
def operator(served: Site) -> Iterator[httpx.Client]:
    yield from browser(served, OPERATOR)


def token_of(page: httpx.Response) -> str:
    return re.findall(r'name="token" value="(\w+)"', page.text)[0]


def test_a_run_that_failed_is_done_again_by_those_who_may(
    client: SyncPrefectClient, viewer: httpx.Client, operator: httpx.Client, tmp_path: Path
) -> None:
    fails = [True, False]

    @flow(name="weighing")
    @watched
    def weighing() -> None:
        weigh(f"first of {tmp_path}")
        if fails.pop(0):
            raise RuntimeError(f"no light {HOSTILE}")
        weigh(f"second of {tmp_path}")

    ran = Ran(client, weighing)
    told, page = operator.get("/ui/flows"), f"/ui/flows/{ran.id}"
    assert (ran.run.name in told.text, "no light &lt;script&gt;" in told.text, HOSTILE in told.text) == (
        True,
        True,
        False,
    )
    assert f'action="{page}/retry"' in told.text

    seen = viewer.get("/ui/flows")
    assert (ran.run.name in seen.text, "/retry" in seen.text, "/retry" in viewer.get(page).text) == (True, False, False)
    assert viewer.post(f"{page}/retry", data={"token": token_of(seen)}).status_code == 403
    assert operator.post(f"{page}/retry", data={"token": token_of(seen)}).status_code == 403
    assert ran.run.state_name == "Failed"

    after = operator.post(f"{page}/retry", data={"token": token_of(told)})
    assert (after.status_code, after.url.path, RETRIED.replace("'", "&#39;") in after.text) == (200, page, True)
    assert ran.run.state_name == "AwaitingRetry"
    again = operator.post(f"{page}/retry", data={"token": token_of(told)})
    assert (again.status_code, "has not ended" in again.text) == (409, True)

    ran.state = ran._run()
    assert ran.state.is_completed()
    drawn = operator.get(f"{page}/lineage.svg")
    assert "version 7 · 2 ran in" in drawn.text
    assert "default-src 'none'" in drawn.headers["content-security-policy"]
    [made, *_] = re.findall(r'href="(/ui/why\?thing=\w{64})"', operator.get(page).text)
    assert "weigh, version 7" in operator.get(made).text
    assert ">weigh</text>" in operator.get(made.replace("/why?", "/why.svg?")).text


def test_a_run_that_is_under_way_is_seen_to_end_and_programs_read_it(
    client: SyncPrefectClient, served: Site, operator: httpx.Client
) -> None:
    seen, part = list[str](), {"HX-Request": "true"}

    @flow(name="watched")
    def watched_flow() -> None:
        [run] = [one for one in served.program("/flows").json()["under_way"] if one["flow"] == "watched"]
        shown = operator.get(f"/ui/flows/{run['id']}", headers=part)
        told = served.program(f"/flows/{run['id']}").json()
        seen.extend([run["id"], told["state"], str('hx-trigger="every 3s"' in shown.text), str(shown.headers)])
        assert f"/ui/flows/{run['id']}" in operator.get("/ui/flows").text.partition('hx-select="#now"')[2]

    ran = Ran(client, watched_flow)
    assert (seen[:3], "hx-refresh" in seen[3]) == ([str(ran.id), "Running", "True"], False)
    after = operator.get(f"/ui/flows/{ran.id}", headers=part)  # as the page asks that saw it run
    assert (after.headers["HX-Refresh"], "every 3s" in after.text) == ("true", False)
    [ended] = [one for one in served.program("/flows").json()["ended"] if one["id"] == str(ran.id)]
    assert (ended["state"], served.program("/flows/nobody").status_code) == ("Completed", 404)


@pytest.mark.browser
def test_retry_is_clicked_on_a_page_in_which_axe_finds_nothing(client: SyncPrefectClient, served: Site) -> None:
    @flow(name="clicked")
    def clicked() -> None:
        raise RuntimeError("no light")

    ran = Ran(client, clicked)
    with chromium() as browser:
        page = signed_in(browser.new_context(locale="en-US", bypass_csp=True), served)
        page.goto(f"{served.url}/ui/flows")
        found = axe(page)
        page.get_by_role("button", name=f"Retry {ran.run.name}").click()
        expect(page.get_by_role("heading", name=ran.run.name)).to_be_visible()
        expect(page.get_by_text("AwaitingRetry")).to_be_visible()
        found += axe(page)
    assert (found, ran.run.state_name) == ([], "AwaitingRetry")


def test_costs_stand_by_day(operator: httpx.Client) -> None:
    now = datetime.now(UTC)
    for at, cost in enumerate((0.25, 0.5)):
        run = Run(id=f"{at}c" * 16, kind="benchmark", status="completed", version="1", started_at=now, cost=cost)
        evaluations().write_run(run)
    page = operator.get("/ui/flows").text
    assert f"<title>{now:%Y-%m-%d}: 0.75</title>" in page
    assert "benchmark 0.75" in page


def test_a_server_that_is_away_is_a_sentence_and_the_rest_goes_on(
    served: Site, operator: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    page = operator.get("/ui/flows")
    assert (page.status_code, "no Prefect server answers at http://127.0.0.1:9/api" in page.text) == (200, True)
    assert "Cost by day" in page.text
    assert operator.get("/ui/flows/0f3a1c1e-0000-4000-8000-000000000000").status_code == 503
    away = served.program("/flows")
    assert (away.status_code, "no Prefect server answers" in away.json()["error"]) == (503, True)
    assert operator.get("/ui/documents").status_code == 200


def test_a_database_that_is_away_is_a_sentence_and_the_runs_are_there(operator: httpx.Client) -> None:
    before = resources()
    configure(replace(before, database_url="postgresql://nobody@127.0.0.1:9/none"))
    try:
        page = operator.get("/ui/flows").text
    finally:
        configure(before)
    assert re.search(r'class="warn">[^<]*127\.0\.0\.1:9', page)
    assert "Under way" in page


@pytest.mark.parametrize(
    "path",
    ["/ui/flows/0f3a1c1e-0000-4000-8000-000000000000", "/ui/flows/nobody", "/ui/why?thing=no", "/ui/why?chunk=no"],
)
def test_what_is_not_there_is_a_sentence(operator: httpx.Client, path: str) -> None:
    reply = operator.get(path)
    assert (reply.status_code, 'role="alert"' in reply.text) == (404, True)
