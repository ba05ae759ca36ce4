"""The house as it is drawn: packages are ours, names do not clash, the wheel carries what it needs."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import venv
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


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--wheel-dir", str(folder), str(ROOT)], check=True, capture_output=True)
    [wheel] = folder.glob("trivet-*.whl")
    return wheel


@pytest.mark.slow
def test_the_wheel_carries_all_that_the_packages_hold(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    listed = subprocess.run(["git", "ls-files", *PACKAGES], cwd=ROOT, check=True, capture_output=True, text=True)
    tracked = {name for name in listed.stdout.splitlines() if not name.endswith("README.md")}
    assert len(tracked) > 400
    assert tracked <= set(names)
    assert not any(name.startswith("tests/") for name in names)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_first_lines_of_the_readme_need_no_checkout(wheel: Path, tmp_path: Path) -> None:
    """In an environment of its own, which borrows from ours what the wheel depends on, but not the editable Trivet."""
    readme = (ROOT / "README.md").read_text("utf-8").splitlines()
    assert [line.split()[0] for line in readme[2:5]] == ["pip", "trivet", "trivet"]
    assert f"dist/{wheel.name}[cpu]" in readme[2]

    venv.create(tmp_path / "venv")
    folders = [folder for folder in sys.path if folder.endswith("site-packages")]
    python = tmp_path / "venv" / "bin" / "python"
    [own] = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    (own / "borrowed.pth").write_text("\n".join(folders))
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", str(wheel)]
    subprocess.run(pip, check=True, capture_output=True)

    (tmp_path / "papers").mkdir()
    (tmp_path / "papers" / "notes.md").write_text("# Lighthouse\n\nThe lamp of the lighthouse was lit in 1869.\n")
    home = {"TRIVET_HOME": str(tmp_path / "home"), "PATH": os.environ["PATH"]}

    def run(*words: str) -> str:
        command = [str(python.with_name("trivet")), *words]
        done = subprocess.run(command, cwd=tmp_path, env=home, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    try:
        assert "1 indexed" in run("rag", "index", "papers")
        assert "1869" in run("rag", "ask", "When was the lamp of the lighthouse lit?")
        assert "are at revision" in run("db", "upgrade")
        code = "from flows.service.deploy import find_deployments_folder as f; print(f() / 'pools' / 'cpu.json')"
        file = subprocess.run(
            [str(python), "-c", code], cwd=tmp_path, env=home, capture_output=True, text=True, check=True
        )
        assert Path(file.stdout.strip()).is_relative_to(tmp_path)
        assert Path(file.stdout.strip()).is_file()
    finally:
        run("down")
