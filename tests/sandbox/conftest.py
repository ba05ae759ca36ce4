"""One arena for each engine, for all attacks of a session."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.sandbox.attacking import CASES, SECRET, SECRET_NAME, Arena, Case, Skipped, attackable, open_arena


@pytest.fixture(scope="session", params=CASES, ids=lambda case: case.label)
def opened(request: pytest.FixtureRequest) -> Iterator[tuple[Arena, list[str]]]:
    """An engine that starts, and the walls that it lacks; else a skip with the reason."""
    case: Case = request.param
    with ExitStack() as stack:
        stack.enter_context(pytest.MonkeyPatch.context()).setenv(SECRET_NAME, SECRET)
        try:
            both = open_arena(case, stack)
        except Skipped as why:
            pytest.skip(str(why))
        yield both


@pytest.fixture(scope="session")
def arena(opened: tuple[Arena, list[str]]) -> Arena:
    """Where attacks run: walls that stand, seen from outside; else a skip with the reason."""
    try:
        return attackable(opened)
    except Skipped as why:
        pytest.skip(str(why))


@pytest.fixture(scope="session")
def any_arena() -> Iterator[Arena]:
    """The first engine that can be attacked, for what has nothing to do with engines."""
    why: list[str] = []
    for case in CASES:
        with ExitStack() as stack:
            try:
                yield attackable(open_arena(case, stack))
            except Skipped as skipped:
                why.append(str(skipped))
                continue
            return
    pytest.skip("; ".join(why))
