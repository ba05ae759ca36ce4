"""The embedded PostgreSQL: started on demand, shared, recovered, refused by name; never on a network."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import psycopg
import pytest

from storage import embedded
from storage.embedded import Cluster
from storage.postgres_binaries import SERVER_ACCOUNTS
from storage.storage_errors import WrongPostgresVersion

pytestmark = pytest.mark.postgres
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to have an account to drop to")

START = """
import sys
from pathlib import Path
from storage.embedded import Cluster
print(Cluster(Path(sys.argv[1])).start(), flush=True)
if len(sys.argv) > 2: input()
"""


def starter(home: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", START, str(home), *arguments]
    environment = {"PYTHONPATH": os.getcwd()}  # noqa: PTH109
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)


def ask(url: str, query: str) -> object:
    with psycopg.connect(url) as connection:
        row = connection.execute(query.encode()).fetchone()
        return row[0] if row else None


def kill(home: Path) -> int:
    """Kill the postmaster as the kernel would when memory runs out."""
    pid = Cluster(home).status().pid
    assert pid
    os.kill(pid, signal.SIGKILL)
    return pid


def test_a_start_gives_a_database_in_utf8_without_a_network(running: Path) -> None:
    url = Cluster(running).start()
    assert ask(url, "select current_database()") == "trivet"
    assert ask(url, "show server_encoding") == "UTF8"
    assert ask(url, "show listen_addresses") == ""


def test_processes_that_start_at_once_share_one_server(home: Path) -> None:
    starters = [starter(home) for _ in range(4)]
    said = {each.communicate(timeout=120)[0] for each in starters}
    assert len(said) == 1
    assert [each.returncode for each in starters] == [0] * 4


def test_the_server_outlives_the_killed_process_that_started_it(home: Path) -> None:
    owner = starter(home, "stay")
    assert owner.stdout
    url = owner.stdout.readline().strip()
    owner.kill()
    owner.communicate()
    assert ask(url, "select 1") == 1
    assert Cluster(home).start() == url


def test_a_killed_server_is_started_again_with_its_data(home: Path) -> None:
    url = Cluster(home).start()
    with psycopg.connect(url) as connection:
        connection.execute("create table kept as select 7 as number")
    busy = psycopg.connect(url)  # a child that holds the shared memory a moment longer
    killed = kill(home)
    assert ask(Cluster(home).start(), "select number from kept") == 7
    assert Cluster(home).status().pid != killed
    busy.close()


def test_a_lock_file_with_the_pid_of_somebody_else_is_no_obstacle(home: Path) -> None:
    cluster = Cluster(home)
    cluster.start()
    data = cluster.status().folder
    assert data
    kill(home)
    lock = data / "data" / "postmaster.pid"
    lock.write_text("\n".join([str(os.getpid()), *lock.read_text().splitlines()[1:]]) + "\n")
    assert ask(cluster.start(), "select 1") == 1


def test_a_killed_first_start_leaves_no_half_cluster(home: Path) -> None:
    folder = home / "postgres" / "cluster" / "data.new"
    folder.mkdir(parents=True)
    (folder / "PG_VERSION").write_text("18\n")
    assert ask(Cluster(home).start(), "select 1") == 1
    assert not folder.exists()


def test_a_cluster_of_another_major_version_is_refused_by_name(home: Path) -> None:
    cluster = Cluster(home)
    cluster.start()
    cluster.stop()
    folder = cluster.status().folder
    assert folder
    version = folder / "data" / "PG_VERSION"
    version.write_text("9\n")
    with pytest.raises(WrongPostgresVersion, match=r"made by PostgreSQL 9, .*trivet backup"):
        cluster.start()
    version.write_text("18\n")


def test_a_long_home_gets_a_short_socket_folder_which_is_made_again_when_it_is_swept(home: Path) -> None:
    deep = home / ("long" * 30)
    deep.mkdir(parents=True)
    cluster = Cluster(deep)
    try:
        cluster.start()
        cluster.stop()
        assert "trivet-pg-" in str(cluster.status().url)
        for swept in Path("/tmp").glob("trivet-pg-*"):
            if str(swept).replace("/", "%2F") in str(cluster.status().url):
                shutil.rmtree(swept)
        assert ask(cluster.start(), "select 1") == 1
    finally:
        cluster.remove()


@root_only
def test_root_runs_the_server_as_another_account(running: Path) -> None:
    pid = Cluster(running).status().pid
    assert pwd.getpwuid(Path(f"/proc/{pid}").stat().st_uid).pw_name in SERVER_ACCOUNTS


@root_only
def test_a_home_that_this_account_may_not_enter_gets_its_cluster_elsewhere(home: Path) -> None:
    closed = Path(tempfile.mkdtemp(prefix="trivet-closed-", dir="/tmp"))  # 0700
    cluster = Cluster(closed, shelter=home / "shelter")
    try:
        assert ask(cluster.start(), "select 1") == 1
        assert home in (cluster.status().folder or Path()).parents
        # recorded: another process needs not know the shelter
        assert Cluster(closed).start() == cluster.start()
    finally:
        cluster.remove()
        shutil.rmtree(closed)


@root_only
def test_programs_that_this_account_may_not_run_are_copied(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = Path(tempfile.mkdtemp(prefix="trivet-closed-", dir="/tmp"))
    try:
        from storage.postgres_binaries import copy_to, installed

        within = copy_to(closed, next(installed()))
        monkeypatch.setattr(embedded, "installed", lambda: iter([within]))
        assert ask(Cluster(home, shelter=home / "shelter").start(), "select 1") == 1
    finally:
        shutil.rmtree(closed)
