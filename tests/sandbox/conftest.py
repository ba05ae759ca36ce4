"""One arena for root and one for another user, for all attacks of a session."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.sandbox.attacking import SECRET, SECRET_NAME, Arena, Skipped, open_arena


@pytest.fixture(scope="session", params=["root", "user"])
def arena(request: pytest.FixtureRequest) -> Iterator[Arena]:
    """Where attacks run; else a skip with the reason."""
    yield from _open(request.param)


@pytest.fixture(scope="session")
def any_arena() -> Iterator[Arena]:
    """For what has nothing to do with who starts it."""
    yield from _open("user" if os.geteuid() else "root")


def _open(who: str) -> Iterator[Arena]:
    with ExitStack() as stack:
        stack.enter_context(pytest.MonkeyPatch.context()).setenv(SECRET_NAME, SECRET)
        try:
            arena = open_arena(who, stack)
        except Skipped as why:
            pytest.skip(str(why))
        yield arena
