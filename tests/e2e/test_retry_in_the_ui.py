"""A fault that passes fails a run of each pipeline; Retry in each UI, and `prefect flow-run retry`, do the rest.

Three models of one endpoint leave most questions unanswered, and answer a part more before each retry. What is done is
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
    model: str
    """Of the endpoint: which one it needs."""
    item: str
    """How the message names the first item that is not finished."""
    unfinished: frozenset[str]
    """Steps that lacked answers, and those that wait for them."""


PIPELINES = {
    "rag": Pipeline(
        "rag/index",
        "figures",
        "figures",
        frozenset({"extract_figures", "chunk", "embed", "catalogue", "segment", "publish_index", "publish_report"}),
    ),
    "evaluation": Pipeline(
        "evaluation/evaluate",
        "sums",
        "sum/",
        frozenset(
            {"generate", "score", "aggregate", "compare_with_last", "write_database", "write_json", "publish_report"}
        ),
    ),
    "lever": Pipeline(
        "lever/train",
        "judge",
        ", query ",
        frozenset(
            {"evaluate_selector", "summarise", "draw_results", "export_files", "publish_report", "write_database"}
        ),
    ),
}
WAYS = ("v1", "v2", "command")
"""In this order: Retry in the one UI and in the other, and the command."""


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
    """The first one, and one for each way."""


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
    _finish(stories, house, faults, begun=1)
    for number, way in enumerate(WAYS, start=1):
        for fault in faults.values():
            fault.mended = number
        for name, story in stories.items():
            if way in pages:
                _retry_on(pages[way], story.run, shot=f"{name}-failed")
            else:
                house.retry(story.run)
        _finish(stories, house, faults, begun=1 + number)
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


def _finish(stories: dict[str, Story], house: House, faults: dict[str, Fault], *, begun: int) -> None:
    """Wait for all runs, and note what each has done since the last time."""
    for name, story in stories.items():
        state = house.ended(story.run, begun=begun)
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


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", PIPELINES)
def test_a_retry_asks_only_what_was_not_answered(stories: dict[str, Story], name: str, way: str) -> None:
    attempts = stories[name].attempts
    number = 1 + WAYS.index(way)
    here = attempts[number]
    earlier = sum((one.answered for one in attempts[:number]), Counter[str]())
    assert here.answered, "there was something left to do"
    assert not here.answered.keys() & earlier.keys()
    assert not here.refused.keys() & earlier.keys()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", PIPELINES)
def test_a_retry_does_no_step_that_had_finished(stories: dict[str, Story], name: str, way: str) -> None:
    steps = stories[name].attempts[1 + WAYS.index(way)].steps
    assert steps
    assert steps.keys() <= PIPELINES[name].unfinished
    assert set(stories[name].attempts[0].steps) > PIPELINES[name].unfinished, "the first attempt did all of it"


@pytest.mark.parametrize("name", PIPELINES)
def test_in_the_end_each_question_was_answered_once_and_the_run_is_complete(
    stories: dict[str, Story], name: str
) -> None:
    attempts = stories[name].attempts
    answered = sum((one.answered for one in attempts), Counter[str]())
    assert [one.state.type for one in attempts] == [*["FAILED"] * len(WAYS), "COMPLETED"]
    assert set(answered.values()) == {1}
    assert sum((one.refused for one in attempts), Counter[str]()).keys() <= answered.keys()


def test_documents_were_parsed_once(stories: dict[str, Story], house: House) -> None:
    read = [line for line in house.parsed.read_text().splitlines() if line.startswith("finish read ")]
    assert len(read) == len(set(read)) == 2


def test_pictures_of_all_pages_are_kept(stories: dict[str, Story], shots: Path) -> None:
    wanted = {f"{name}-{what}-{ui}.png" for name in stories for what in ("failed", "completed") for ui in ("v1", "v2")}
    assert wanted <= {path.name for path in shots.iterdir()}
