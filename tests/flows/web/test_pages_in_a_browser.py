"""The pages in a real Chromium: an answer as it is written, the frame on the gold sentence, axe-core, keyboard."""

from __future__ import annotations

import importlib
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pymupdf
import pytest
from PIL import Image
from playwright.sync_api import Browser, Page, expect

from storage import connections
from storage.embedded import Cluster
from storage.sessions import Sessions
from tests.flows.web.browsing import axe, chromium, signed_in
from tests.flows.web.served import AUTH, Drawn, Site, answer, cited, ferry, publish_pdf, site

pytestmark = [pytest.mark.browser, pytest.mark.postgres]
PAGE_POINTS = 400
PATIENCE_MS = 60_000
"""The first question starts the database."""
RUN_MS = 240_000
"""A run loads the embedder, and starts a Prefect server."""
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
    sessions, documents = Sessions(lambda: connections.locate(None, home)), tmp_path_factory.mktemp("documents")
    shutil.copy(drawn.index.parent / "ferry.pdf", documents)
    own = tmp_path_factory.mktemp("home")
    with site(drawn.index, own, answers, sessions=sessions, documents=documents) as running:
        yield running
    connections.engine(Cluster(home).start()).dispose()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as opened:
        yield opened


@pytest.fixture
def page(browser: Browser, served: Site) -> Iterator[Page]:
    with browser.new_context(locale="en-US") as context:
        yield signed_in(context, served)


def ask(page: Page, question: str) -> None:
    page.get_by_label("Question").fill(question)
    page.keyboard.press("Enter")
    turn = page.locator("article.turn").last
    expect(turn.locator(".question")).to_have_text(question)
    expect(turn.get_by_text("How it was found")).to_be_visible(timeout=PATIENCE_MS)


def framed(picture: bytes, *, points: float = PAGE_POINTS) -> tuple[float, ...]:
    """The box around what is red, in points of the page; points: width of the page."""
    pixels = np.asarray(Image.open(BytesIO(picture)).convert("RGB")).astype(int)
    red = (pixels[..., 0] > 150) & (pixels[..., 1] < 90) & (pixels[..., 2] < 90)
    down, across = np.nonzero(red)
    scale = points / pixels.shape[1]
    return tuple(float(edge) * scale for edge in (across.min(), down.min(), across.max() + 1, down.max() + 1))


def around(box: Sequence[float]) -> Any:
    """Where the frame of a box is."""
    return pytest.approx((box[0] - 3, box[1] - 3, box[2] + 3, box[3] + 3), abs=2.5)


def shown(page: Page) -> bytes:
    """The picture of the cited page."""
    picture = page.locator("#place img")
    expect(picture).to_have_js_property("complete", True)
    expect(picture).not_to_have_js_property("naturalWidth", 0)
    assert picture.bounding_box()["width"] > 200  # pyright: ignore[reportOptionalSubscript]
    return page.request.get(page.evaluate("document.querySelector('#place img').src")).body()


def test_the_frame_lies_on_the_sentence_that_is_cited(page: Page, drawn: Drawn) -> None:
    ask(page, "What does the ferry cost?")
    assert framed(shown(page)) == around(drawn.box)


TOLL = "The toll of the Ostrava lock is 412 crowns for a barge."
SNOW = "hwp/마루군_제설 협조 안내.hwp"
SNOW_BOX, A4_POINTS = (85, 218, 510, 243), 595.28
"""Around the ink of its fourth item, measured on the picture of the page without a frame."""


def test_documents_are_uploaded_indexed_and_asked(page: Page, served: Site, samples: Path, tmp_path: Path) -> None:
    with pymupdf.open() as document:
        document.new_page(width=PAGE_POINTS, height=500).insert_text((60, 80), "Fees of the year")
        document.new_page(width=PAGE_POINTS, height=500).insert_text((60, 200), TOLL)
        [toll] = document[1].search_for(TOLL)
        document.save(tmp_path / "lock.pdf")
    page.goto(f"{served.url}/ui/documents")
    page.get_by_label("Files or ZIPs").set_input_files([tmp_path / "lock.pdf", samples / SNOW])
    page.get_by_role("button", name="Upload").click()
    expect(page.get_by_role("status")).to_contain_text(f"Taken: lock.pdf, {Path(SNOW).name}")
    expect(page.locator("#run progress")).to_be_visible()
    expect(page.get_by_text("Last run")).to_be_visible(timeout=RUN_MS)
    expect(page.get_by_role("row", name=re.compile("lock.pdf.*ok"))).to_be_visible()
    page.goto(f"{served.url}/ui/")
    ask(page, "What is the toll of the Ostrava lock?")
    assert framed(shown(page)) == around(toll)
    ask(page, "마을 안길의 눈은 누구의 신청을 받아 몇 시부터 치우나요?")
    expect(page.locator("#place h2")).to_have_text(Path(SNOW).name)
    assert framed(shown(page), points=A4_POINTS) == around(SNOW_BOX)


def test_what_is_dropped_is_sent_and_refused_by_name(page: Page, served: Site) -> None:
    page.goto(f"{served.url}/ui/documents")
    dropped = page.evaluate_handle(
        "() => { const all = new DataTransfer(); all.items.add(new File(['MZ'], '<b>run.exe')); return all; }"
    )
    page.dispatch_event("#upload", "drop", {"dataTransfer": dropped})
    expect(page.get_by_role("status")).to_contain_text("<b>run.exe: this format is not read")


def test_without_scripts_documents_are_uploaded_and_removed(browser: Browser, served: Site) -> None:
    with browser.new_context(locale="en-US", java_script_enabled=False) as context:
        page = signed_in(context, served)
        page.goto(f"{served.url}/ui/documents")
        page.get_by_label("Files or ZIPs").set_input_files(
            {"name": "empty.txt", "mimeType": "text/plain", "buffer": b""}
        )
        page.get_by_role("button", name="Upload").click()
        expect(page.get_by_role("status")).to_contain_text("empty.txt: the file is empty")
        page.get_by_role("link", name="Remove ferry.pdf").click()
        expect(page.get_by_role("heading")).to_have_text("Remove this document?")
        page.get_by_role("link", name="Keep it").click()
        expect(page.get_by_role("link", name="ferry.pdf", exact=True)).to_be_visible()


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
        expect(page.locator("#place .pages")).to_have_text("3 / 3쪽")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(browser: Browser, served: Site, drawn: Drawn, scheme: str) -> None:
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
            "/ui/documents/remove?file=ferry.pdf",
            "/ui/documents/run",
            f"/ui/documents/{drawn.digest}",
            "/ui/numbers",
            "/ui/evaluations",
            "/ui/runs",
            "/ui/nights",
            "/ui/why",
            f"/ui/why?session={conversation.rpartition('/')[2]}&turn=1",
            "/docs",
            "/ui/sign-in",
            "/ui/nowhere",
        ):
            page.goto(served.url + path)
            found[path] = axe(page)
    assert {path: names for path, names in found.items() if names} == {}
