"""Groups bound what their processes use together. Version 2 is shown by files in a folder, not by a kernel."""

from __future__ import annotations

import errno
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tasks.sandbox import cgroups

pytestmark = pytest.mark.machine

MIB = 1 << 20


def why_not() -> str | None:
    """Why no group can be made here; None: one can, which was tried."""
    try:
        cgroups.make_group(f"trivet-{os.getpid()}-{secrets.token_hex(4)}", memory_bytes=1 << 30, processes=16).remove()
    except cgroups.NoCgroup as error:
        return str(error)
    return None


UNUSABLE = why_not()
needs_groups = pytest.mark.skipif(UNUSABLE is not None, reason=f"no cgroup can be made here: {UNUSABLE}")

ENTERS = """
import os, sys
for path in sys.argv[1:]:
    open(path, "w").write("0")
"""
USES = "bytearray(int({mib} * 2**20)); print('through')"
FORKS = """
children = []
try:
    while len(children) < 8:
        child = os.fork()
        if child == 0:
            import signal
            signal.pause()
        children.append(child)
except BlockingIOError:
    pass
print(len(children))
for child in children:
    os.kill(child, 9)
    os.wait()
"""


def new_name(pid: int | None = None) -> str:
    return f"trivet-{os.getpid() if pid is None else pid}-{secrets.token_hex(4)}"


def ran_in(group: cgroups.Cgroup, what: str) -> subprocess.CompletedProcess[str]:
    """A Python of its own that enters the group and then does `what`."""
    return subprocess.run([sys.executable, "-c", ENTERS + what, *map(str, group.procs)], capture_output=True, text=True)


def dead_pid() -> int:
    with subprocess.Popen(["true"]) as process:
        return process.pid


@pytest.fixture
def group() -> Iterator[cgroups.Cgroup]:
    """Of 64 MiB and 4 processes."""
    made = cgroups.make_group(new_name(), memory_bytes=64 * MIB, processes=4)
    yield made
    made.remove()


@needs_groups
def test_memory_beyond_the_limit_kills(group: cgroups.Cgroup):
    done = ran_in(group, USES.format(mib=96))

    assert (done.returncode, done.stdout, group.oom_kills()) == (-signal.SIGKILL, "", 1)


@needs_groups
def test_processes_are_bounded_together(group: cgroups.Cgroup):
    assert ran_in(group, FORKS).stdout == "3\n"  # besides the one that forks


@needs_groups
def test_limits_go_up_and_down(group: cgroups.Cgroup):
    for mib, processes in ((256, 16), (32, 2), (128, 8)):
        group.set_limits(mib * MIB, processes)

    assert ran_in(group, USES.format(mib=96)).stdout == "through\n"
    assert ran_in(group, FORKS).stdout == "7\n"


@needs_groups
def test_groups_of_dead_processes_go_and_others_stay(group: cgroups.Cgroup):
    left = cgroups.make_group(new_name(dead_pid()), memory_bytes=64 * MIB, processes=4)

    following = cgroups.make_group(new_name(), memory_bytes=64 * MIB, processes=4)

    following.remove()
    assert not any(path.exists() for path in left.procs)
    assert all(path.exists() for path in group.procs)


@needs_groups
def test_a_group_that_holds_a_process_is_not_removed(group: cgroups.Cgroup, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cgroups, "PATIENCE_S", 0.0)
    process = subprocess.Popen(
        [sys.executable, "-c", ENTERS + "print(flush=True); input()", *map(str, group.procs)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with process:
        assert process.stdout
        process.stdout.readline()
        with pytest.raises(OSError, match="busy"):
            group.remove()


# where groups can be made


Fake = Callable[[str, str], None]


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    """Writes what /proc/self says of our groups and of mounts; `{top}` is a folder of the test."""
    monkeypatch.setattr(cgroups, "PROC", tmp_path)

    def write(own: str, mounts: str) -> None:
        (tmp_path / "cgroup").write_text(own)
        (tmp_path / "mountinfo").write_text(mounts.format(top=tmp_path))

    return write


def parents() -> list[tuple[Path, Path]]:
    return [(memory, pids) for memory, pids, _ in cgroups._parents()]


def test_version_1_is_found_below_our_own_groups(fake: Fake):
    fake(
        "4:memory:/a/b\n8:pids:/\n3:cpu,cpuacct:/c\n0::/\n",
        "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
        "39 31 0:36 / /sys/fs/cgroup/pids rw shared:3 - cgroup cgroup rw,pids\n"
        "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
    )

    assert parents() == [(Path("/sys/fs/cgroup/memory/a/b"), Path("/sys/fs/cgroup/pids"))]


def test_a_container_sees_its_own_part_of_a_hierarchy(fake: Fake):
    fake(
        "4:memory:/docker/1/x\n8:pids:/docker/1\n",
        "35 31 0:32 /docker/1 /sys/fs/c\\040g/memory rw - cgroup cgroup rw,memory\n"
        "39 31 0:36 /docker/1 /sys/fs/c\\040g/pids rw - cgroup cgroup rw,pids\n",
    )

    assert parents() == [(Path("/sys/fs/c g/memory/x"), Path("/sys/fs/c g/pids"))]


def test_a_hierarchy_of_which_we_see_another_part_is_none(fake: Fake):
    fake("0::/../other\n", "41 31 0:38 / {top} rw - cgroup2 cgroup2 rw\n")

    assert why_not() == "no group that is ours bounds memory and processes"


@pytest.mark.parametrize(("uid", "found"), [(1000, ["user/app", "user"]), (0, ["user/app"])], ids=["user", "root"])
def test_version_2_climbs_for_users_and_not_for_root(
    uid: int, found: list[str], fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    fake("0::/user/app\n", "41 31 0:38 / {top} rw - cgroup2 cgroup2 rw\n")
    (tmp_path / "user/app").mkdir(parents=True)
    for folder in (tmp_path / "user", tmp_path / "user/app"):
        (folder / "cgroup.controllers").write_text("cpu memory pids\n")
        (folder / "cgroup.procs").touch()

    assert parents() == [(tmp_path / one, tmp_path / one) for one in found]


def test_version_2_takes_limits_and_tells_kills(tmp_path: Path):
    for name, text in {
        "memory.max": "max",
        "memory.swap.max": "m",
        "pids.max": "m",
        "memory.events": "oom 3\noom_kill 2\noom_group_kill 0\n",
    }.items():
        (tmp_path / name).write_text(text)
    group = cgroups.Cgroup(tmp_path, tmp_path, is_v2=True)

    group.set_limits(64 * MIB, 4)

    assert [(tmp_path / name).read_text() for name in ("memory.max", "memory.swap.max", "pids.max")] == [
        "67108864",
        "0",
        "4",
    ]
    assert group.procs == (tmp_path / "cgroup.procs",)
    assert group.oom_kills() == 2


def test_what_is_busy_is_tried_again():
    errors = [OSError(errno.EBUSY, "busy")] * 2

    def then() -> None:
        if errors:
            raise errors.pop()

    cgroups._retry_while_busy(then)

    assert errors == []
