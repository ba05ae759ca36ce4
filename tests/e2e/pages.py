"""The page of a flow run in both UIs that Prefect ships, used as a person uses it."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from playwright.sync_api import BrowserContext, Page, expect

Ui = Literal["v1", "v2"]
FOLDERS: dict[Ui, str] = {"v1": "", "v2": "/v2"}
PATIENCE_MS = 60_000
DRAWING_MS = 2_000


class RunPage:
    """The page of one run, behind the login."""

    def __init__(self, context: BrowserContext, ui: Ui, *, address: str, auth: str, shots: Path) -> None:
        self.page: Page = context.new_page()
        self.page.set_default_timeout(PATIENCE_MS)
        self._ui: Ui = ui
        self._address = address + FOLDERS[ui]
        self._auth = auth
        self._shots = shots

    def log_in(self) -> None:
        """Say the auth string. A link to a run comes later: without a login the older UI shows it as missing."""
        self.page.goto(f"{self._address}/login")
        self.page.get_by_placeholder("admin:pass").fill(self._auth)
        self.page.get_by_role("button", name="Login").click()
        self.page.wait_for_url(lambda url: not url.endswith("/login"))

    def open(self, run: str, *, shows: str) -> None:
        """Go to the run, and see that it is in this state."""
        self.page.goto(f"{self._address}/runs/flow-run/{run}?tab=Details")
        expect(self.page.get_by_text(shows, exact=True).first).to_be_visible(timeout=PATIENCE_MS)

    def reads(self, words: str) -> None:
        """Find the words in what the page says of the state."""
        if self._ui == "v1":
            self.page.get_by_text("See More").first.click()
        expect(self.page.get_by_text(words).first).to_be_visible(timeout=PATIENCE_MS)

    def retry(self) -> None:
        """Click Retry, and Retry again where it asks; it asks no more once the server has agreed."""
        if self._ui == "v1":
            self.page.get_by_role("button", name="Retry").first.click()
        else:
            self.page.get_by_role("button", name="Open menu").first.click()
            self.page.get_by_role("menuitem", name="Retry").click()
        asks = self.page.get_by_role("dialog" if self._ui == "v1" else "alertdialog")
        asks.get_by_role("button", name="Retry").click()
        expect(asks).to_be_hidden(timeout=PATIENCE_MS)

    def shoot(self, name: str) -> None:
        """A picture of the page as it is now, once its timeline has been drawn."""
        self.page.wait_for_timeout(DRAWING_MS)
        self._shots.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=self._shots / f"{name}-{self._ui}.png")
