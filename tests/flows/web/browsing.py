"""A Chromium on the pages of a site, and axe-core in it."""

from __future__ import annotations

import shutil
from pathlib import Path

from playwright.sync_api import BrowserContext, Page

from tests.flows.web.served import AUTH, Site

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
NOWHERE_ELSE = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
AXE = Path(__file__).parents[2] / "samples" / "axe" / "axe.min.js"


def signed_in(context: BrowserContext, served: Site) -> Page:
    page = context.new_page()
    page.goto(f"{served.url}/ui/")
    page.get_by_label("Auth string").fill(AUTH)
    page.get_by_role("button", name="Sign in").click()
    return page


def axe(page: Page) -> list[str]:
    """What axe-core finds on the page; its context has to bypass the content security policy."""
    page.add_script_tag(path=AXE)
    return page.evaluate("axe.run({runOnly: ['wcag2a', 'wcag2aa', 'wcag21aa']}).then(r => r.violations.map(v => v.id))")
