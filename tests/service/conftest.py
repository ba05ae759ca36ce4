"""One service for all tests that leave it as it is; modules of its folder have our names, and end who imports them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from tests.service.serviced import Running, service_home


class Started(NamedTuple):
    """A service, and what `trivet up` said."""

    running: Running
    said: dict[str, Any]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    folder = tmp_path_factory.mktemp("folder")
    for name in ("flows", "tasks", "models", "storage", "yaml"):
        (folder / f"{name}.py").write_text("raise SystemExit('code of the working folder')\n")
    with service_home() as running:
        in_folder = running._replace(folder=folder)
        yield Started(in_folder, in_folder.up())
