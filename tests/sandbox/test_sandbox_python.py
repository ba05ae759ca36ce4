"""The Python that executes programs: which one, its digest, and where it stands in the sandbox."""

from __future__ import annotations

import sys
import tempfile
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks.sandbox.sandbox_python import Interpreter, find_interpreter, identify_other_python
from tasks.sandbox.sandbox_records import SandboxUnavailable

HOME = "/home/somebody"


def python_of(prefix: str, *packages: str) -> Interpreter:
    return Interpreter(f"{prefix}/bin/python3", prefix, packages, "3.12.1")


@pytest.fixture
def below_tmp() -> Iterator[str]:
    """A prefix with programs and a library."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        for name in ("bin", "lib", "share"):
            Path(folder, name).mkdir()
        yield folder


def stands_for_python(path: Path, says: str) -> Path:
    """A program that answers as a Python would, whatever it is asked."""
    path.write_text(f"#!/bin/sh\ncat <<'END'\n{says}\nEND\n")
    path.chmod(0o755)
    return path


def test_without_another_named_it_is_this_python(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("TRIVET_SANDBOX_PYTHON", raising=False)
    found = find_interpreter()
    assert found.version == ".".join(map(str, sys.version_info[:3]))
    assert Path(found.path).samefile(sys.executable)
    assert found.prefix == sys.base_prefix
    assert str(Path(pytest.__file__).parents[1]) in found.packages


def test_the_environment_names_another_and_an_argument_goes_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    one, two = (
        stands_for_python(tmp_path / name, f'["/usr/bin/{name}", "/usr", [], "{version}", [3, 12]]')
        for name, version in (("one", "3.12.1"), ("two", "3.12.2"))
    )
    monkeypatch.setenv("TRIVET_SANDBOX_PYTHON", str(one))
    assert find_interpreter() == Interpreter("/usr/bin/one", "/usr", (), "3.12.1")
    assert find_interpreter(two).version == "3.12.2"


def test_another_python_is_told_where_it_is_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("TRIVET_SANDBOX_PYTHON", raising=False)
    told = [identify_other_python()]
    other = stands_for_python(tmp_path / "one", '["/usr/bin/one", "/usr", [], "3.12.1", [3, 12]]')
    for named in (sys.executable, str(other)):
        monkeypatch.setenv("TRIVET_SANDBOX_PYTHON", named)
        told.append(identify_other_python())
    assert told == ["", "", f"3.12.1-{find_interpreter().digest[:12]}"]


def test_where_this_python_is_of_no_use_the_other_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    other = stands_for_python(tmp_path / "one", '["/usr/bin/one", "/usr", [], "3.12.1", [3, 12]]')
    monkeypatch.setenv("TRIVET_SANDBOX_PYTHON", str(other))
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    assert identify_other_python().startswith("3.12.1-")


@pytest.mark.parametrize("symlinks", [True, False], ids=["links", "copies"])
def test_a_virtual_environment_brings_its_libraries_and_the_python_below_it(tmp_path: Path, symlinks: bool):
    venv.create(tmp_path / "venv", symlinks=symlinks)
    found = find_interpreter(tmp_path / "venv" / "bin" / "python")
    (packages,) = (tmp_path / "venv" / "lib").glob("python3*/site-packages")
    assert found.prefix == sys.base_prefix
    assert found.packages == (str(packages),)
    assert Path(found.path).resolve() == Path(sys.executable).resolve()


@pytest.mark.parametrize("says", ["", "[1, 2", '{"a": 1}', "null"], ids=["nothing", "half", "object", "null"])
def test_what_does_not_answer_as_python_is_refused(tmp_path: Path, says: str):
    path = stands_for_python(tmp_path / "python", says)
    with pytest.raises(SandboxUnavailable, match=r"is no Python that can execute programs.*TRIVET_SANDBOX_PYTHON"):
        find_interpreter(path)


@pytest.mark.parametrize("name", ["absent", "not executable", "failing"])
def test_what_cannot_be_started_is_refused_by_its_path(tmp_path: Path, name: str):
    path = tmp_path / name
    if name != "absent":
        path.write_text("#!/bin/sh\nexit 3\n")
        path.chmod(0o755 if name == "failing" else 0o644)
    with pytest.raises(SandboxUnavailable) as refused:
        find_interpreter(path)
    assert str(refused.value).startswith(f"{path} is no Python that can execute programs (")


@pytest.mark.parametrize(("number", "refused"), [([3, 8], True), ([3, 9], False)])
def test_an_old_python_is_refused(tmp_path: Path, number: list[int], refused: bool):
    version = f"{number[0]}.{number[1]}.5"
    path = stands_for_python(tmp_path / "python", f'["/usr/bin/x", "/usr", [], "{version}", {number}]')
    if not refused:
        assert find_interpreter(path).version == version
        return
    with pytest.raises(SandboxUnavailable, match=f"{path} is Python {version}; .* TRIVET_SANDBOX_PYTHON, of 3.9"):
        find_interpreter(path)


def test_a_digest_changes_with_what_is_installed_and_with_the_version(tmp_path: Path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    python = python_of("/opt/python", str(tmp_path / "one"), str(tmp_path / "two"))
    digests = [python.digest]
    for added in ("one/numpy-2.1.0.dist-info", "two/six-1.0.egg-info", "one/numpy-2.2.0.dist-info"):
        (tmp_path / added).mkdir()
        digests.append(python.digest)
    digests.append(python._replace(version="3.12.2").digest)
    assert len(set(digests)) == len(digests) == 5
    assert {len(digest) for digest in digests} == {64}


def test_a_digest_does_not_change_with_where_it_stands_or_what_it_has_compiled(tmp_path: Path):
    pythons: list[Interpreter] = []
    for name in ("here", "there"):
        (tmp_path / name / "b-1.dist-info").mkdir(parents=True)
        (tmp_path / name / "a-1.egg-info").touch()
        pythons.append(python_of(f"/{name}", str(tmp_path / name)))
    (tmp_path / "there" / "__pycache__").mkdir()
    (tmp_path / "there" / "a.py").touch()
    assert pythons[0].digest == pythons[1].digest


@pytest.mark.parametrize(
    ("python", "shown"),
    [
        pytest.param(python_of("/usr", "/usr/lib/python3/dist-packages"), {}, id="of the system"),
        pytest.param(python_of("/usr/local", "/usr/local/lib/python3.12/site-packages"), {}, id="below it"),
        pytest.param(
            python_of("/usr", f"{HOME}/project/.venv/lib/python3.12/site-packages", "/srv/more"),
            {f"{HOME}/project/.venv/lib/python3.12/site-packages": "/packages/0", "/srv/more": "/packages/1"},
            id="libraries in a home show nothing of it",
        ),
        pytest.param(python_of("/usr", "/usrs/x"), {"/usrs/x": "/packages/0"}, id="a name that begins alike"),
    ],
)
def test_what_usr_does_not_show_is_shown_by_itself(python: Interpreter, shown: dict[str, str]):
    assert python.bound_paths() == shown


def test_of_a_prefix_only_programs_and_libraries_are_shown_and_below_tmp_elsewhere(below_tmp: str):
    """It may be ~/.local, where others keep what is secret; and programs have a /tmp of their own."""
    assert python_of(below_tmp).bound_paths() == {f"{below_tmp}/bin": "/python/bin", f"{below_tmp}/lib": "/python/lib"}


@pytest.mark.parametrize(
    ("here", "there"),
    [
        ("{prefix}/bin/python3", "/python/bin/python3"),
        ("{prefix}/lib", "/python/lib"),
        ("{prefix}/library", "{prefix}/library"),
        ("{prefix}/share/x", "{prefix}/share/x"),
        ("/srv/b/numpy", "/packages/1/numpy"),
        ("{prefix}/lib/site-packages", "/python/lib/site-packages"),
        ("/usr/bin/python3", "/usr/bin/python3"),
    ],
)
def test_a_path_here_has_one_there(below_tmp: str, here: str, there: str):
    python = python_of(below_tmp, "/srv/a", "/srv/b", f"{below_tmp}/lib/site-packages")
    assert python.inside_path(here.format(prefix=below_tmp)) == there.format(prefix=below_tmp)


@pytest.mark.parametrize("prefix", ["/", "/home", "/home/somebody"])
def test_a_python_whose_library_is_a_home_or_above_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prefix: str
):
    """Programs would see all of it."""
    monkeypatch.setenv("HOME", HOME)
    path = stands_for_python(tmp_path / "python", f'["{prefix}/bin/x", "{prefix}", [], "3.12.1", [3, 12]]')
    with pytest.raises(SandboxUnavailable, match=f"its library in {prefix}, which programs would see"):
        find_interpreter(path)
