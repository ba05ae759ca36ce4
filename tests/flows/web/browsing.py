"""A Chromium on the pages of a site, and axe-core in it."""

from __future__ import annotations

import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from tests.flows.web.served import AUTH, Site

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
NOWHERE_ELSE = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
"""What the pages would load from other machines is not loaded."""
AXE = Path(__file__).parents[2] / "samples" / "axe" / "axe.min.js"


@contextmanager
def chromium(*arguments: str) -> Generator[Browser]:
    """Debian's Chromium: no browser is downloaded; skips where there is none."""
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", NOWHERE_ELSE, *arguments])
        yield browser
        browser.close()


def signed_in(context: BrowserContext, served: Site) -> Page:
    page = context.new_page()
    page.goto(f"{served.url}/ui/")
    page.get_by_label("Auth string").fill(AUTH)
    page.get_by_role("button", name="Sign in").click()
    return page


def axe(page: Page) -> list[str]:
    """What axe-core finds on the page above `minor`; its context has to bypass the content security policy."""
    page.add_script_tag(path=AXE)
    return page.evaluate("axe.run().then(r => r.violations.filter(v => v.impact !== 'minor').map(v => v.id))")
