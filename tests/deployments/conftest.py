"""A copy of `deployments/`."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from flows.service.deploy import find_deployments_folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the folder, to change."""
    return Path(shutil.copytree(find_deployments_folder(), tmp_path / "deployments"))
