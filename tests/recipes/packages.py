"""A recipe's code blocks as an installed package: modules, and a folder of metadata with the entry points."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from tests.command import Done, run_apart

BLOCK = re.compile(r"```\w*\n# file: (\S+)\n(.*?)```", re.DOTALL)


def write_blocks(recipe: Path, folder: Path) -> None:
    """Write the code blocks of a recipe as the files that their first lines name."""
    for name, text in BLOCK.findall(recipe.read_text("utf-8")):
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")


class Package:
    """What `pip install` of a recipe leaves behind in the folder `site`."""

    def __init__(self, recipe: Path, site: Path) -> None:
        self.site = site
        write_blocks(recipe, site)
        self.project = tomllib.loads((site / "pyproject.toml").read_text("utf-8"))["project"]
        self.release(self.project["version"])

    def release(self, version: str) -> None:
        """Install a version of the recipe's package."""
        self.install(self.project["name"], version, self.project["entry-points"])

    def install(self, name: str, version: str, groups: dict[str, dict[str, str]]) -> None:
        """Leave the metadata of a package; an earlier version of it is replaced."""
        metadata = self.site / f"{name.replace('-', '_')}.dist-info"
        metadata.mkdir(exist_ok=True)
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        lines = (
            f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in points.items()) for group, points in groups.items()
        )
        (metadata / "entry_points.txt").write_text("\n".join(lines))

    def run(self, *arguments: object, **environment: Any) -> Done:
        """`trivet …` in a process that finds the package."""
        return run_apart(*arguments, PYTHONPATH=str(self.site), COLUMNS="200", **environment)
