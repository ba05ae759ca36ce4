"""Where the service keeps its files below the home, and what it remembers between two starts."""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from flows.service.api import AUTH_FILE, SERVICE_FILE, Refused
from storage import files

PARTS = ("server", "cpu", "gpu", "database", "supervisor")
"""What has a log: the server, the worker of each pool, who keeps Prefect's PostgreSQL running, and who keeps all."""
SOCKET_PATH_BYTES = 80
"""What every system allows, less the ending that the supervisor adds while it makes the socket."""


class Place(NamedTuple):
    """The files of one home's service."""

    home: Path

    @property
    def mark(self) -> str:
        """What every process of this service has in its environment, as TRIVET_SERVICE."""
        return os.path.realpath(self.home)

    @property
    def name(self) -> str:
        """A short name that no other home has."""
        return hashlib.sha256(os.fsencode(self.mark)).hexdigest()[:8]

    @property
    def folder(self) -> Path:
        """Closed to other accounts."""
        return self.home / "service"

    @property
    def auth(self) -> Path:
        """The auth string, `user:password`."""
        return self.home / AUTH_FILE

    @property
    def address(self) -> Path:
        """Where the server is; only there while it should run."""
        return self.home / SERVICE_FILE

    @property
    def asked(self) -> Path:
        """What the last `trivet up` was asked for."""
        return self.folder / "asked.json"

    @property
    def config(self) -> Path:
        """What the supervisor reads; without secrets."""
        return self.folder / "supervisord.conf"

    @property
    def control(self) -> Path:
        """The supervisor's socket: here, or in a private folder with a short name where this path is too long."""
        near = self.folder / "control"
        if len(os.fsencode(near)) <= SOCKET_PATH_BYTES:
            return near
        return Path(tempfile.gettempdir()) / f"trivet-{os.geteuid()}-{self.name}" / "control"

    @property
    def database(self) -> Path:
        """Prefect's own database."""
        return self.home / "server"

    @property
    def pages(self) -> Path:
        """The server's own copy of its pages: where the package lies, it may not write."""
        return self.folder / "ui"

    @property
    def scratch(self) -> Path:
        """The workers' own temporary files: Prefect's folder in /tmp belongs to the first account that has used it."""
        return self.folder / "tmp"

    @property
    def logs(self) -> Path:
        """One file a part; older ones beside it."""
        return self.home / "logs"

    def log_of(self, part: str) -> Path:
        """What a part says."""
        return self.logs / f"{part}.log"

    def prepare(self) -> None:
        """Make the folders, those with secrets closed. Raises Refused, StoreUnreachable."""
        for folder in (self.home, self.logs, self.database):
            files.make_folder(folder)
        for folder in (self.folder, self.control.parent, self.pages, self.scratch):
            folder.mkdir(mode=0o700, exist_ok=True)
            facts = folder.lstat()
            if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid():
                raise Refused(f"{folder} belongs to somebody else; remove it, or choose another TRIVET_HOME")
            folder.chmod(0o700)

    def keep(self, file: Path, text: str) -> None:
        """Write one of the service's own files, for this account alone."""
        files.write(file, text.encode())
        file.chmod(0o600)

    @contextmanager
    def alone(self) -> Generator[None]:
        """One command at a time starts or stops the service of a home."""
        with files.alone(self.home, "service", wait=lambda: time.sleep(0.2)):
            yield
