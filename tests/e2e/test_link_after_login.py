"""A link to a run, as notifications have it, opens that run after the login."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, expect

from tests.e2e.pages import FOLDERS, PATIENCE_MS, Ui
from tests.service.serviced import Running, deploy_doze, service_home

pytestmark = [pytest.mark.browser, pytest.mark.engine, pytest.mark.postgres, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with service_home() as one:
        one.up("--pools", "cpu")
        yield one


@pytest.fixture(scope="module")
def link(running: Running) -> str:
    """The path of a run that waits for its time."""
    state = {"type": "SCHEDULED", "state_details": {"scheduled_time": "2099-01-01T00:00:00Z"}}
    told = {"parameters": {"diary": "none", "seconds": 0}, "state": state, "name": "patient-pigeon"}
    run = running.api.post(f"/deployments/{deploy_doze(running.api)}/create_flow_run", told)["id"]
    return f"/runs/flow-run/{run}"


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A browser that was never here."""
    fresh = browser.new_context()
    yield fresh
    fresh.close()


@pytest.mark.parametrize("ui", FOLDERS)
def test_a_link_opens_after_the_login_on_pages_that_may_ask_nobody_else(
    running: Running, link: str, context: BrowserContext, ui: Ui
) -> None:
    page = context.new_page()
    response = page.goto(f"http://127.0.0.1:{running.port}{FOLDERS[ui]}{link}")
    assert response
    assert response.headers["content-security-policy"].startswith("connect-src 'self' http://127.0.0.1:")
    page.get_by_placeholder("admin:pass").fill(running.place.auth.read_text().strip())
    page.get_by_role("button", name="Login").click()
    expect(page.get_by_text("patient-pigeon").first).to_be_visible(timeout=PATIENCE_MS)
    assert link in page.url


def test_a_password_that_has_changed_is_asked_for_again(running: Running, link: str, context: BrowserContext) -> None:
    page = context.new_page()
    page.add_init_script("localStorage.setItem('prefect-password', btoa('trivet:old'))")
    page.goto(f"http://127.0.0.1:{running.port}{link}")
    expect(page.get_by_placeholder("admin:pass")).to_be_visible(timeout=PATIENCE_MS)
