"""A fault that passes fails a run of each pipeline; Retry in a UI, or `prefect flow-run retry`, does the rest.

Three models of one endpoint leave half of the questions unanswered until the runs have failed. What is done is
counted where it is done: by the endpoint, by the functions of the steps, by the parsers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from playwright.sync_api import Browser

from tests.e2e import worlds
from tests.e2e.faults import SAID, Fault
from tests.e2e.pages import RunPage
from tests.e2e.running import House, State
from tests.models.server import Server

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
            {"evaluate_selector", "summarise", "draw_results", "export_files", "publish_report", "write_database"}
        ),
    ),
}


class Attempt(NamedTuple):
    """One execution of a run."""

    state: State
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
def stories(
    house: House, endpoint: Server, faults: dict[str, Fault], pages: dict[str, RunPage], place: Path
) -> dict[str, Story]:
    """All three runs at once: they wait more than they work."""
    faults["judge"].begins = lambda: worlds.has_trained(place / "lever")
    configs = {
        "rag": worlds.rag(place / "rag"),
        "evaluation": worlds.evaluation(place / "evaluation", endpoint.base_url),
        "lever": worlds.lever(place / "lever"),
    }
    stories = {
        name: Story(house.start(pipeline.deployment, {"config": configs[name]}), [])
        for name, pipeline in PIPELINES.items()
    }
    _finish(stories, house, faults)
    for fault in faults.values():
        fault.mended = True
    for name, pipeline in PIPELINES.items():
        if pipeline.way in pages:
            _retry_on(pages[pipeline.way], stories[name].run, shot=f"{name}-failed")
        else:
            house.retry(stories[name].run)
    _finish(stories, house, faults)
    for page in pages.values():
        for name, story in stories.items():
            page.open(story.run, shows="Completed")
            page.shoot(f"{name}-completed")
    return stories


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("worlds")


@pytest.fixture(scope="module")
def pages(browser: Browser, house: House, shots: Path) -> Iterator[dict[str, RunPage]]:
    """Each UI in a browser that has never been there."""
    contexts = {way: browser.new_context(viewport={"width": 1400, "height": 1300}) for way in ("v1", "v2")}
    pages = {
        "v1": RunPage(contexts["v1"], "v1", address=house.ui, auth=house.auth, shots=shots),
        "v2": RunPage(contexts["v2"], "v2", address=house.ui, auth=house.auth, shots=shots),
    }
    for page in pages.values():
        page.log_in()
    yield pages
    for context in contexts.values():
        context.close()


def _retry_on(page: RunPage, run: str, *, shot: str) -> None:
    page.open(run, shows="Failed")
    page.reads(SAID)
    page.shoot(shot)
    page.retry()


def _finish(stories: dict[str, Story], house: House, faults: dict[str, Fault]) -> None:
    """Wait for the next attempt of all runs, and note what each has done since the last one."""
    for name, story in stories.items():
        state = house.ended(story.run, begun=1 + len(story.attempts))
        fault, before = faults[PIPELINES[name].model], story.attempts
        steps = Counter(step for module, step in _steps_run(house) if module.startswith(f"tasks.{name}."))
        story.attempts.append(
            Attempt(
                state,
                fault.answered - sum((one.answered for one in before), Counter[str]()),
                fault.refused - sum((one.refused for one in before), Counter[str]()),
                steps - sum((one.steps for one in before), Counter[str]()),
            )
        )


def _steps_run(house: House) -> list[tuple[str, str]]:
    lines = (line.split() for line in house.steps.read_text().splitlines())
    return [(module, step) for module, step in lines]


@pytest.mark.parametrize("name", PIPELINES)
def test_a_fault_fails_the_run_and_its_message_names_item_cause_and_remedy(
    stories: dict[str, Story], name: str
) -> None:
    first = stories[name].attempts[0]
    assert first.state.type == "FAILED"
    assert PIPELINES[name].item in first.state.message
    assert SAID in first.state.message
    assert "again" in first.state.message
    assert first.answered
    assert first.refused


@pytest.mark.parametrize("name", PIPELINES)
def test_a_retry_asks_only_what_was_not_answered_and_completes_the_run(stories: dict[str, Story], name: str) -> None:
    first, second = stories[name].attempts
    assert second.state.type == "COMPLETED"
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


def test_documents_were_parsed_once(stories: dict[str, Story], house: House) -> None:
    read = [line for line in house.parsed.read_text().splitlines() if line.startswith("finish read ")]
    assert len(read) == len(set(read)) == 2


def test_pictures_of_all_pages_are_kept(stories: dict[str, Story], shots: Path) -> None:
    failed = {f"{name}-failed-{one.way}.png" for name, one in PIPELINES.items() if one.way != "command"}
    completed = {f"{name}-completed-{ui}.png" for name in stories for ui in ("v1", "v2")}
    assert failed | completed <= {path.name for path in shots.iterdir()}
