"""One browser for all tests of a file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.flows.web.browsing import chromium

DRAWS = "--enable-unsafe-swiftshader"
"""The timeline of a run, without a device."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium(DRAWS) as opened:
        yield opened
