"""What programs are shown, and the Python that executes them: which one, its digest, and where it stands there."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks.sandbox.sandbox_errors import SandboxUnavailable
from tasks.sandbox.sandbox_layout import (
    ENVIRONMENT,
    INSIDE,
    SEEN_AS,
    Interpreter,
    another_python,
    interpreter,
    layout,
    write_etc,
)

HOME = "/home/somebody"


def python_of(prefix: str, *packages: str) -> Interpreter:
    return Interpreter(f"{prefix}/bin/python3", prefix, packages, "3.12.1")


@pytest.fixture
def elsewhere() -> Iterator[Path]:
    """A folder that is neither below /tmp nor below /usr."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        yield Path(folder)


@pytest.fixture
def below_tmp() -> Iterator[str]:
    """A prefix with programs and a library."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        for name in ("bin", "lib"):
            Path(folder, name).mkdir()
        yield folder


def stands_for_python(path: Path, says: str) -> Path:
    """A program that answers as a Python would, whatever it is asked."""
    path.write_text(f"#!/bin/sh\ncat <<'END'\n{says}\nEND\n")
    path.chmod(0o755)
    return path


def test_without_another_named_it_is_this_python(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("TRIVET_SANDBOX_PYTHON", raising=False)
    found = interpreter()
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
    assert interpreter() == Interpreter("/usr/bin/one", "/usr", (), "3.12.1")
    assert interpreter(two).version == "3.12.2"


def test_another_python_is_told_where_it_is_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("TRIVET_SANDBOX_PYTHON", raising=False)
    told = [another_python()]
    other = stands_for_python(tmp_path / "one", '["/usr/bin/one", "/usr", [], "3.12.1", [3, 12]]')
    for named in (sys.executable, str(other)):
        monkeypatch.setenv("TRIVET_SANDBOX_PYTHON", named)
        told.append(another_python())
    assert told == ["", "", f"3.12.1-{interpreter().digest[:12]}"]


def test_where_this_python_is_of_no_use_the_other_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    other = stands_for_python(tmp_path / "one", '["/usr/bin/one", "/usr", [], "3.12.1", [3, 12]]')
    monkeypatch.setenv("TRIVET_SANDBOX_PYTHON", str(other))
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    assert another_python().startswith("3.12.1-")


def test_an_empty_name_is_none(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TRIVET_SANDBOX_PYTHON", "")
    assert interpreter().version == ".".join(map(str, sys.version_info[:3]))


@pytest.mark.parametrize("symlinks", [True, False], ids=["links", "copies"])
def test_a_virtual_environment_brings_its_libraries_and_the_python_below_it(tmp_path: Path, symlinks: bool):
    venv.create(tmp_path / "venv", symlinks=symlinks)
    found = interpreter(tmp_path / "venv" / "bin" / "python")
    (packages,) = (tmp_path / "venv" / "lib").glob("python3*/site-packages")
    assert found.prefix == sys.base_prefix
    assert found.packages == (str(packages),)
    assert Path(found.path).resolve() == Path(sys.executable).resolve()


def test_folders_of_libraries_that_are_not_there_are_left_out(tmp_path: Path):
    said = f'["/usr/bin/x", "/usr", ["/nowhere/site-packages", "{tmp_path}"], "3.9.0", [3, 9]]'
    assert interpreter(stands_for_python(tmp_path / "python", said)).packages == (str(tmp_path),)


@pytest.mark.parametrize(
    "says", ["", "Python 3.12.1", "[1, 2", '{"a": 1}', "null"], ids=["nothing", "words", "half", "object", "null"]
)
def test_what_does_not_answer_as_python_is_refused(tmp_path: Path, says: str):
    path = stands_for_python(tmp_path / "python", says)
    with pytest.raises(SandboxUnavailable, match=r"is no Python that can execute programs.*TRIVET_SANDBOX_PYTHON"):
        interpreter(path)


@pytest.mark.parametrize("name", ["absent", "not executable", "folder", "failing"])
def test_what_cannot_be_started_is_refused_by_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str):
    path = tmp_path / name
    if name == "folder":
        path.mkdir()
    elif name != "absent":
        path.write_text("#!/bin/sh\nexit 3\n")
        path.chmod(0o755 if name == "failing" else 0o644)
    monkeypatch.setenv("TRIVET_SANDBOX_PYTHON", str(path))
    with pytest.raises(SandboxUnavailable) as refused:
        interpreter()
    assert str(refused.value).startswith(f"{path} is no Python that can execute programs (")


@pytest.mark.parametrize(("number", "refused"), [([3, 8], True), ([2, 7], True), ([3, 9], False), ([3, 10], False)])
def test_an_old_python_is_refused(tmp_path: Path, number: list[int], refused: bool):
    version = f"{number[0]}.{number[1]}.5"
    path = stands_for_python(tmp_path / "python", f'["/usr/bin/x", "/usr", [], "{version}", {number}]')
    if not refused:
        assert interpreter(path).version == version
        return
    with pytest.raises(SandboxUnavailable) as why:
        interpreter(path)
    assert str(why.value) == f"{path} is Python {version}; name 3.9 or newer with TRIVET_SANDBOX_PYTHON"


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
    assert python.shown() == shown


def test_of_a_prefix_only_programs_and_libraries_are_shown(elsewhere: Path):
    """It may be ~/.local, where others keep what is secret."""
    for name in ("bin", "lib", "share", "etc"):
        (elsewhere / name).mkdir()
    (elsewhere / "lib64").touch()
    assert python_of(str(elsewhere)).shown() == {
        f"{elsewhere}/{name}": f"{elsewhere}/{name}" for name in ("bin", "lib")
    }


def test_a_prefix_below_tmp_is_shown_elsewhere_since_programs_have_an_empty_one(below_tmp: str):
    assert python_of(below_tmp).shown() == {f"{below_tmp}/bin": "/python/bin", f"{below_tmp}/lib": "/python/lib"}


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
    assert python.there(here.format(prefix=below_tmp)) == there.format(prefix=below_tmp)


def test_a_layout_names_nothing_but_the_system_the_python_and_our_own_files(tmp_path: Path, below_tmp: str):
    write_etc(tmp_path, 65534)
    made = layout(python_of(below_tmp, "/srv/packages"), tmp_path)
    targets = {there for _, there in made.readonly}
    ours = {"/python/bin", "/python/lib", "/packages/0", SEEN_AS, "/usr"}
    etc = {f"/etc/{name}" for name in ("passwd", "group", "hosts", "resolv.conf", "nsswitch.conf")}
    assert ours | etc <= targets
    configured = {there for there in targets - ours - etc if there.startswith("/etc/")}
    assert not {there for there in configured if any(word in there for word in ("shadow", "private", "ssh", "sudo"))}
    assert targets - ours - etc - configured <= {"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"}
    assert dict(made.readonly)[str(INSIDE)] == SEEN_AS
    assert {here for here, _ in made.readonly if here.startswith(str(Path.home()))} <= {str(INSIDE)}


def test_where_this_program_is_installed_its_code_is_hidden_among_the_libraries(tmp_path: Path):
    write_etc(tmp_path, 65534)
    installed = str(INSIDE.parents[3])
    made = layout(python_of("/usr", "/srv/packages", installed), tmp_path)
    hidden = [there for here, there in made.readonly if here == str(tmp_path / "nothing")]
    assert hidden == [f"/packages/1/{name}" for name in ("flows", "models", "storage", "tasks")]
    assert list((tmp_path / "nothing").iterdir()) == []
    order = [there for _, there in made.readonly]
    assert order.index("/packages/1") < min(map(order.index, hidden))


def test_the_zygote_is_started_by_the_path_there_and_looked_for_by_the_path_here(tmp_path: Path, below_tmp: str):
    made = layout(python_of(below_tmp), tmp_path)
    assert (made.command[0], made.python) == ("/python/bin/python3", f"{below_tmp}/bin/python3")
    assert made.environment["PATH"].split(":") == ["/python/bin", "/usr/local/bin", "/usr/bin", "/bin"]


def test_without_walls_the_zygote_is_started_where_it_is(tmp_path: Path):
    made = layout(python_of("/tmp/x/python"), tmp_path, walled=False)
    assert made.command[0] == "/tmp/x/python/bin/python3"
    assert str(INSIDE.parent) in made.command[-1]


def test_the_environment_is_ours_and_hands_on_one_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SECRET", "1")
    monkeypatch.delenv("OPENBLAS_CORETYPE", raising=False)
    assert layout(python_of("/usr"), tmp_path).environment == {
        "PATH": "/usr/bin:/usr/local/bin:/bin",
        **ENVIRONMENT,
    }
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    assert layout(python_of("/usr"), tmp_path).environment["OPENBLAS_CORETYPE"] == "Haswell"


@pytest.mark.parametrize(("uid", "users"), [(65534, ["root", "nobody"]), (0, ["nobody"])])
def test_etc_knows_one_user_one_host_and_a_name_server_that_nobody_is(tmp_path: Path, uid: int, users: list[str]):
    old = os.umask(0o077)
    try:
        write_etc(tmp_path, uid)
    finally:
        os.umask(old)
    lines = [line.split(":") for line in (tmp_path / "passwd").read_text().splitlines()]
    assert [line[0] for line in lines] == users
    assert lines[-1] == ["nobody", "x", str(uid), str(uid), "nobody", "/tmp/work", "/bin/sh"]
    assert all(len(line) == 7 for line in lines)
    assert (tmp_path / "group").read_text() == f"nogroup:x:{uid}:\n"
    assert (tmp_path / "hosts").read_text().split()[:2] == ["127.0.0.1", "localhost"]
    assert (tmp_path / "resolv.conf").read_text().splitlines()[0] == "nameserver 127.0.0.1"
    files = [path for path in tmp_path.iterdir() if path.is_file()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o644}


def test_etc_is_written_again_into_the_same_files(tmp_path: Path):
    """The sandbox shows these, and learns later which user it is."""
    write_etc(tmp_path, 65534)
    before = (tmp_path / "passwd").stat().st_ino
    write_etc(tmp_path, 1_900_000_001)
    assert (tmp_path / "passwd").stat().st_ino == before
    assert "nobody:x:1900000001:1900000001:" in (tmp_path / "passwd").read_text()


@pytest.mark.parametrize("prefix", ["/", "/home", "/home/somebody"])
def test_a_python_whose_library_is_a_home_or_above_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prefix: str
):
    """Programs would see all of it."""
    monkeypatch.setenv("HOME", HOME)
    path = stands_for_python(tmp_path / "python", f'["{prefix}/bin/x", "{prefix}", [], "3.12.1", [3, 12]]')
    with pytest.raises(SandboxUnavailable, match=f"its library in {prefix}, which programs would see"):
        interpreter(path)


def test_a_python_in_a_folder_of_the_home_is_none_of_these(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", HOME)
    said = f'["{HOME}/python/bin/x", "{HOME}/python", [], "3.12.1", [3, 12]]'
    assert interpreter(stands_for_python(tmp_path / "python", said)).prefix == f"{HOME}/python"
