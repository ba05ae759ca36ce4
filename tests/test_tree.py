"""The house as it is drawn: packages are ours, names do not clash, the wheel carries what it needs."""

from __future__ import annotations

import importlib
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("flows", "tasks", "models", "storage", "eval")


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_resolves_inside_the_repository(name: str) -> None:
    assert Path(str(importlib.import_module(name).__file__)).is_relative_to(ROOT)


def test_no_file_of_flows_is_named_like_a_package() -> None:
    # `python flows/x.py` puts flows/ on the path, where such a file would hide the package
    assert not {path.stem for path in (ROOT / "flows").glob("*.py")} & set(PACKAGES)


@pytest.mark.slow
def test_the_wheel_carries_all_that_the_packages_hold(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--wheel-dir", str(tmp_path), str(ROOT)], check=True, capture_output=True)
    names = zipfile.ZipFile(next(tmp_path.glob("trivet-*.whl"))).namelist()

    listed = subprocess.run(["git", "ls-files", *PACKAGES], cwd=ROOT, check=True, capture_output=True, text=True)
    tracked = {name for name in listed.stdout.splitlines() if not name.endswith("README.md")}
    assert len(tracked) > 400
    assert tracked <= set(names)
    assert not any(name.startswith("tests/") for name in names)
