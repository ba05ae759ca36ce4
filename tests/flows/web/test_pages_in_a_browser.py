"""The pages in a real Chromium: an answer as it is written, the frame on the gold sentence, axe-core, keyboard."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Browser, Page, expect, sync_playwright

from storage import connections
from storage.embedded import Cluster
from storage.sessions import Sessions
from tests.flows.web.browsing import CHROMIUM, NOWHERE_ELSE, axe, signed_in
from tests.flows.web.served import AUTH, Drawn, Site, answer, cited, ferry, publish_pdf, site

pytestmark = [pytest.mark.browser, pytest.mark.postgres]
PAGE_POINTS = 400
PATIENCE_MS = 60_000
"""The first question starts the database."""
SCRIPT = "<img src=x onerror='document.title=1'><script>document.title=1</script>"
HOSTILE = answer("Is it safe?", f"{SCRIPT} [1]", cited(1, SCRIPT, page=None), unsupported=(SCRIPT,))


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Drawn:
    importlib.import_module("flows")  # configures the store

    return publish_pdf(tmp_path_factory.mktemp("browsed"))


@pytest.fixture(scope="module")
def served(drawn: Drawn, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    home = Path(os.environ["TRIVET_HOME"])
    answers = {one.question: one for one in (ferry(drawn), HOSTILE)}
    sessions = Sessions(lambda: connections.locate(None, home))
    with site(drawn.index, tmp_path_factory.mktemp("home"), answers, sessions=sessions) as running:
        yield running
    connections.engine(Cluster(home).start()).dispose()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", NOWHERE_ELSE])
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser, served: Site) -> Iterator[Page]:
    with browser.new_context(locale="en-US") as context:
        yield signed_in(context, served)


def ask(page: Page, question: str) -> None:
    page.get_by_label("Question").fill(question)
    page.keyboard.press("Enter")
    expect(page.get_by_text("How it was found").last).to_be_visible(timeout=PATIENCE_MS)


def framed(picture: bytes) -> tuple[float, ...]:
    """The box around what is red, in points of the page."""
    pixels = np.asarray(Image.open(BytesIO(picture)).convert("RGB")).astype(int)
    red = (pixels[..., 0] > 150) & (pixels[..., 1] < 90) & (pixels[..., 2] < 90)
    down, across = np.nonzero(red)
    scale = PAGE_POINTS / pixels.shape[1]
    return tuple(float(edge) * scale for edge in (across.min(), down.min(), across.max() + 1, down.max() + 1))


def test_the_frame_lies_on_the_sentence_that_is_cited(page: Page, drawn: Drawn) -> None:
    ask(page, "What does the ferry cost?")
    picture = page.locator("#place img")
    expect(picture).to_have_js_property("complete", True)
    expect(picture).not_to_have_js_property("naturalWidth", 0)
    source = page.evaluate("document.querySelector('#place img').src")
    box = framed(page.request.get(source).body())
    assert box == pytest.approx((drawn.box[0] - 3, drawn.box[1] - 3, drawn.box[2] + 3, drawn.box[3] + 3), abs=2.0)
    assert picture.bounding_box()["width"] > 200  # pyright: ignore[reportOptionalSubscript]


def test_pages_turn_and_the_address_brings_the_conversation_back(page: Page) -> None:
    ask(page, "What does the ferry cost?")
    page.get_by_role("link", name="Next page").click()
    expect(page.locator("#place .pages")).to_have_text("page 3 / 3")
    expect(page.get_by_role("link", name="Next page")).to_have_count(0)
    page.get_by_role("link", name="1", exact=True).first.click()
    expect(page.locator("#place .pages")).to_have_text("page 2 / 3")
    page.reload()
    expect(page.locator("article .question")).to_have_text("What does the ferry cost?")


def test_a_thumb_stays_in_place(page: Page) -> None:
    ask(page, "What does the ferry cost?")
    page.get_by_role("button", name="Right").click()
    expect(page.get_by_role("status")).to_contain_text("Kept as a labelled question: right")


def test_scripts_of_documents_and_models_do_not_run(page: Page) -> None:
    ask(page, HOSTILE.question)
    expect(page.locator("mark.doubt")).to_contain_text("<script>")
    page.reload()
    expect(page.locator("mark.doubt")).to_contain_text("<script>")
    assert page.title() != "1"


def test_without_scripts_the_same_page_comes(browser: Browser, served: Site) -> None:
    with browser.new_context(locale="ko-KR", java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(f"{served.url}/ui/")
        page.locator("#auth").fill(AUTH)
        page.locator("button.main").click()
        page.locator("#question").fill("What does the ferry cost?")
        page.get_by_role("button", name="질문").click()
        expect(page.locator("#place img")).to_be_visible()
        page.get_by_role("link", name="다음 쪽").click()
        expect(page.locator("#place .pages")).to_have_text("쪽 3 / 3")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(browser: Browser, served: Site, scheme: str) -> None:
    found = dict[str, list[str]]()
    with browser.new_context(locale="en-US", bypass_csp=True, color_scheme=scheme) as context:  # pyright: ignore[reportArgumentType]
        page = signed_in(context, served)
        ask(page, "What does the ferry cost?")
        conversation = page.url.removeprefix(served.url)
        for path in (
            conversation,
            "/ui/",
            "/ui/conversations",
            "/ui/documents",
            "/ui/numbers",
            "/ui/evaluations",
            "/ui/runs",
            "/ui/nights",
            "/ui/selectors",
            "/ui/flows",
            "/ui/plan",
            f"/ui/why?session={conversation.rpartition('/')[2]}&turn=1",
            "/docs",
            "/ui/sign-in",
            "/ui/nowhere",
        ):
            page.goto(served.url + path)
            found[path] = axe(page)
    assert {path: names for path, names in found.items() if names} == {}
