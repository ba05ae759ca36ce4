"""One service for all tests of a file, as `trivet up` gives it, and one browser; both end with it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.e2e.faults import Fault, set_up
from tests.e2e.running import ROOT, House
from tests.flows.web.browsing import chromium
from tests.models.server import Server, serving
from tests.storage.conftest import open_home

DRAWS = "--enable-unsafe-swiftshader"
"""The timeline of a run, without a device."""


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
def house(endpoint: Server) -> Iterator[House]:
    """The whole product, from an empty home."""
    models = {"OPENAI_BASE_URL": endpoint.base_url, "OPENAI_API_KEY": "none"}
    with open_home() as home:
        house = House(home, **models)
        try:
            house.up()
            yield house
        finally:
            house.down()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium(DRAWS) as opened:
        yield opened
