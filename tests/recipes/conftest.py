"""A package as the recipe of a module tells to write it."""

from pathlib import Path

import pytest

from tests.recipes.packages import Package


@pytest.fixture
def package(request: pytest.FixtureRequest, tmp_path: Path) -> Package:
    recipe = request.path.with_name(request.path.stem.removeprefix("test_") + ".md")
    return Package(recipe, tmp_path / "site")
