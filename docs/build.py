"""Builds the documentation site: the pages of the tree as they stand, and a reference made from docstrings.

`make docs` writes it to build/docs/site. Docstrings are read, not imported; a link that leads nowhere fails the build.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGES = (
    "README.md",
    "CHANGELOG.md",
    "docs/*.md",
    "docs/site.css",
    "deployments/README.md",
    "flows/README.md",
    "models/README.md",
    "storage/README.md",
    "tasks/*/README.md",
    "tests/benchmarks/README.md",
    "tests/benchmarks/aims.toml",
    "tests/benchmarks/*.png",
    "tests/recipes/*.md",
    "tests/samples/*.png",
    "tests/samples/lever/*.png",
)
"""What the site shows, under the paths that the tree has, so that links between pages hold in both."""


def main() -> int:
    """Copy the pages, write a reference page for each room of mkdocs.yml, and build. Returns the exit status."""
    build = ROOT / "build/docs"
    source = build / "source"
    shutil.rmtree(source, ignore_errors=True)
    for pattern in PAGES:
        for page in ROOT.glob(pattern):
            copy = source / page.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(page, copy)
    settings = (ROOT / "docs/mkdocs.yml").read_text(encoding="utf-8")
    (build / "mkdocs.yml").write_text(settings, encoding="utf-8")
    for line in settings.splitlines():
        _, found, name = line.strip().partition("reference/")
        if found:
            room = name.removesuffix(".md")
            page = source / "reference" / name
            page.parent.mkdir(exist_ok=True)
            page.write_text(f"# {room}\n\n::: {room}\n", encoding="utf-8")
    zensical = Path(sys.executable).with_name("zensical")
    return subprocess.run([zensical, "build", "--clean", "--strict", "--config-file", build / "mkdocs.yml"]).returncode


if __name__ == "__main__":
    sys.exit(main())
