"""A fault that passes fails a run of each pipeline; Retry in a UI, or `prefect flow-run retry`, does the rest.

A link to a run, as notifications have it, opens that run after the login.
Three models of one endpoint leave half of the questions unanswered until the runs have failed. What is done is
counted where it is done: by the endpoint, by the functions of the steps, by the parsers.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from playwright.sync_api import Browser, BrowserContext, expect

from tests.e2e import worlds
from tests.e2e.pages import FOLDERS, PATIENCE_MS, RunPage, Ui
from tests.e2e.worlds import SAID, Fault, set_up
from tests.models.server import Server, serving
from tests.service.serviced import ROOT, Running, counting, deploy, service_home

pytestmark = [pytest.mark.browser, pytest.mark.engine, pytest.mark.postgres, pytest.mark.slow, pytest.mark.timeout(900)]


class Pipeline(NamedTuple):
    """What a run of it is, and what a retry may do again."""

    deployment: str
    way: str
    """How it is tried again: on the page of a UI, or by the command."""
    model: str
    """Of the endpoint: which one it needs."""
    item: str
    """How the message names the first item that is not finished."""
    unfinished: frozenset[str]
    """Steps that lacked answers, and those that wait for them."""


PIPELINES = {
    "rag": Pipeline(
        "rag/index",
        "v1",
        "figures",
        "figures",
        frozenset({"extract_figures", "chunk", "embed", "catalogue", "segment", "publish_index", "publish_report"}),
    ),
    "evaluation": Pipeline(
        "evaluation/evaluate",
        "v2",
        "sums",
        "sum/",
        frozenset(
            {"generate", "score", "aggregate", "compare_with_last", "write_database", "write_json", "publish_report"}
        ),
    ),
    "lever": Pipeline(
        "lever/train",
        "command",
        "judge",
        ", query ",
        frozenset(
            {"evaluate_selector", "make_card", "summarise", "draw_results", "export_files"}
            | {"publish_report", "write_database"}
        ),
    ),
}


FINAL = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")


class Attempt(NamedTuple):
    """One execution of a run."""

    state: str
    """Type of its final state."""
    message: str
    answered: Counter[str]
    """Questions that the model answered meanwhile."""
    refused: Counter[str]
    steps: Counter[str]
    """Steps whose functions ran."""


class Story(NamedTuple):
    """The run of a pipeline from its failure to its end."""

    run: str
    attempts: list[Attempt]
    """The one that fails, and the one that completes it."""

    @property
    def answered(self) -> Counter[str]:
        return self.attempts[0].answered + self.attempts[1].answered


@pytest.fixture(scope="module")
def shots() -> Path:
    """Where pictures of the pages are kept, for somebody to look at; those of an earlier time are gone."""
    folder = Path(os.environ.get("TRIVET_E2E_SCREENSHOTS") or ROOT / "build" / "e2e")
    for picture in folder.glob("*-v[12].png"):
        picture.unlink()
    return folder


@pytest.fixture(scope="module")
def faults() -> dict[str, Fault]:
    """A fault for each model of the endpoint: of the figures, of the sums, of the judge."""
    return {name: Fault() for name in ("figures", "sums", "judge")}


@pytest.fixture(scope="module")
def endpoint(faults: dict[str, Fault]) -> Iterator[Server]:
    with serving() as server:
        set_up(server, faults)
        yield server


@pytest.fixture(scope="module")
def house(endpoint: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """The whole product, from an empty home; a run does all steps itself, which spares ten starts of a process."""
    told = {"OPENAI_BASE_URL": endpoint.base_url, "OPENAI_API_KEY": "none", "TRIVET_GPU_DEPLOYMENT": ""}
    with service_home(variables=told | counting(tmp_path_factory.mktemp("counted") / "steps")) as running:
        running.up()
        yield running


@pytest.fixture(scope="module")
def stories(
    house: Running, endpoint: Server, faults: dict[str, Fault], pages: dict[str, RunPage], place: Path
) -> dict[str, Story]:
    """All three runs at once: they wait more than they work."""
    faults["judge"].begins = lambda: worlds.has_trained(place / "lever")
    configs = {
        "rag": worlds.rag(place / "rag"),
        "evaluation": worlds.evaluation(place / "evaluation", endpoint.base_url),
        "lever": worlds.lever(place / "lever"),
    }
    stories: dict[str, Story] = {}
    for name, pipeline in PIPELINES.items():
        deployment = house.api.get(f"/deployments/name/{pipeline.deployment}")["id"]
        stories[name] = Story(house.start(deployment, {"config": configs[name]}), [])
    _finish(stories, house, faults)
    for fault in faults.values():
        fault.mended = True
    for name, pipeline in PIPELINES.items():
        if pipeline.way in pages:
            _retry_on(pages[pipeline.way], stories[name].run, shot=f"{name}-failed")
        else:
            house.retry(stories[name].run)
    _finish(stories, house, faults)
    for name, pipeline in PIPELINES.items():
        if pipeline.way in pages:
            pages[pipeline.way].open(stories[name].run, shows="Completed")
            pages[pipeline.way].shoot(f"{name}-completed")
    return stories


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("worlds")


@pytest.fixture(scope="module")
def pages(browser: Browser, house: Running, shots: Path) -> Iterator[dict[str, RunPage]]:
    """Each UI in a browser that has never been there."""
    address, auth = house.api.url.removesuffix("/api"), house.api.auth or ""
    pages: dict[str, RunPage] = {}
    for ui in FOLDERS:
        context = browser.new_context(viewport={"width": 1400, "height": 1300})
        pages[ui] = RunPage(context, ui, address=address, auth=auth, shots=shots)
        pages[ui].log_in()
    yield pages
    for page in pages.values():
        page.page.context.close()


def _retry_on(page: RunPage, run: str, *, shot: str) -> None:
    page.open(run, shows="Failed")
    page.reads(SAID)
    page.shoot(shot)
    page.retry()


def _finish(stories: dict[str, Story], house: Running, faults: dict[str, Fault]) -> None:
    """Wait for the next attempt of all runs, and note what each has done since the last one."""
    for name, story in stories.items():
        told: dict[str, Any] = {}

        def has_ended(story: Story = story, told: dict[str, Any] = told) -> bool:
            told |= house.api.get(f"/flow_runs/{story.run}")
            return told["state"]["type"] in FINAL and told["run_count"] > len(story.attempts)

        house.until(has_ended, f"{name} ends")
        fault, before = faults[PIPELINES[name].model], story.attempts
        lines = (line.split() for line in Path(house.variables["TRIVET_STEPS_RUN"]).read_text().splitlines())
        steps = Counter(step for module, step in lines if module.startswith(f"tasks.{name}."))
        story.attempts.append(
            Attempt(
                told["state"]["type"],
                told["state"]["message"] or "",
                fault.answered - sum((one.answered for one in before), Counter[str]()),
                fault.refused - sum((one.refused for one in before), Counter[str]()),
                steps - sum((one.steps for one in before), Counter[str]()),
            )
        )


@pytest.mark.parametrize("name", PIPELINES)
def test_a_fault_fails_the_run_and_its_message_names_item_cause_and_remedy(
    stories: dict[str, Story], name: str
) -> None:
    first = stories[name].attempts[0]
    assert first.state == "FAILED"
    assert PIPELINES[name].item in first.message
    assert SAID in first.message
    assert "again" in first.message
    assert first.answered
    assert first.refused


@pytest.mark.parametrize("name", PIPELINES)
def test_a_retry_asks_only_what_was_not_answered_and_completes_the_run(stories: dict[str, Story], name: str) -> None:
    first, second = stories[name].attempts
    assert second.state == "COMPLETED"
    assert second.answered, "there was something left to do"
    assert not second.refused
    assert not second.answered.keys() & first.answered.keys()
    assert set(stories[name].answered.values()) == {1}
    assert first.refused.keys() <= second.answered.keys()


@pytest.mark.parametrize("name", PIPELINES)
def test_a_retry_does_no_step_that_had_finished(stories: dict[str, Story], name: str) -> None:
    first, second = stories[name].attempts
    assert second.steps
    assert second.steps.keys() <= PIPELINES[name].unfinished
    assert set(first.steps) > PIPELINES[name].unfinished, "the first attempt did all of it"


def test_documents_were_parsed_once(stories: dict[str, Story], house: Running) -> None:
    log = house.place.logs / "documents.log"
    read = [line for line in log.read_text().splitlines() if line.startswith("finish read ")]
    assert len(read) == len(set(read)) == 2


def test_pictures_of_all_pages_are_kept(stories: dict[str, Story], shots: Path) -> None:
    tried = {f"{name}-{{}}-{one.way}.png" for name, one in PIPELINES.items() if one.way != "command"}
    wanted = {name.format(state) for name in tried for state in ("failed", "completed")}
    assert wanted <= {path.name for path in shots.iterdir()}


@pytest.fixture(scope="module")
def link(house: Running) -> str:
    """The path of a run that waits for its time."""
    state = {"type": "SCHEDULED", "state_details": {"scheduled_time": "2099-01-01T00:00:00Z"}}
    told = {"parameters": {"diary": "none", "seconds": 0}, "state": state, "name": "patient-pigeon"}
    run = house.api.post(f"/deployments/{deploy(house.api)}/create_flow_run", told)["id"]
    return f"/runs/flow-run/{run}"


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A browser that was never here."""
    fresh = browser.new_context()
    yield fresh
    fresh.close()


@pytest.mark.parametrize("ui", FOLDERS)
def test_a_link_opens_after_the_login_on_pages_that_may_ask_nobody_else(
    house: Running, link: str, context: BrowserContext, ui: Ui
) -> None:
    page = context.new_page()
    response = page.goto(f"http://127.0.0.1:{house.port}{FOLDERS[ui]}{link}")
    assert response
    assert response.headers["content-security-policy"].startswith("connect-src 'self' http://127.0.0.1:")
    page.get_by_placeholder("admin:pass").fill(house.place.auth.read_text().strip())
    page.get_by_role("button", name="Login").click()
    expect(page.get_by_text("patient-pigeon").first).to_be_visible(timeout=PATIENCE_MS)
    assert link in page.url


def test_a_password_that_has_changed_is_asked_for_again(house: Running, link: str, context: BrowserContext) -> None:
    page = context.new_page()
    page.add_init_script("localStorage.setItem('prefect-password', btoa('trivet:old'))")
    page.goto(f"http://127.0.0.1:{house.port}{link}")
    expect(page.get_by_placeholder("admin:pass")).to_be_visible(timeout=PATIENCE_MS)
