"""Where the service keeps its files below the home."""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
import time
from contextlib import AbstractContextManager
from pathlib import Path

from flows.service.api import AUTH_FILE, SERVICE_FILE, Refused
from storage import files

PARTS = ("server", "pages", "cpu", "gpu", "database", "supervisor")
"""Parts with a log: the server, the pages, each pool's worker, the keeper of Prefect's PostgreSQL, the supervisor."""
DEFAULT_PORT = 8766
"""Port of the pages, if nobody names another."""
SOCKET_PATH_BYTES = 80
"""What every system allows, less the ending that the supervisor adds while it makes the socket."""


class Place:
    """The files of one home's service."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.mark = os.path.realpath(home)
        """TRIVET_SERVICE in the environment of every process of this service."""
        self.name = hashlib.sha256(os.fsencode(self.mark)).hexdigest()[:8]
        """A short name that no other home has."""
        self.folder = home / "service"
        """Closed to other accounts."""
        self.auth = home / AUTH_FILE
        self.address = home / SERVICE_FILE
        """Where the server is; only there while it should run."""
        self.asked = self.folder / "asked.json"
        """Options of the last `trivet up`."""
        self.pages_port = self.folder / "pages-port"
        """Where the pages listen, by themselves; there once they do."""
        self.config = self.folder / "supervisord.conf"
        """What the supervisor reads; without secrets."""
        self.control = self.folder / "control"
        """The supervisor's socket: here, or in a private folder with a short name where this path is too long."""
        if len(os.fsencode(self.control)) > SOCKET_PATH_BYTES:
            self.control = Path(tempfile.gettempdir()) / f"trivet-{os.geteuid()}-{self.name}" / "control"
        self.database = home / "server"
        """Prefect's own database."""
        self.pages = self.folder / "ui"
        """The server's own copy of its pages: it may not be able to write to the package's folder."""
        self.scratch = self.folder / "tmp"
        """Temporary files of the workers: Prefect's folder in /tmp belongs to the first account that has used it."""
        self.logs = home / "logs"
        """One file for each part, with its rotated predecessors."""

    def log_of(self, part: str) -> Path:
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

    def alone(self) -> AbstractContextManager[None]:
        """Lock of the commands that start or stop the service of a home."""
        return files.alone(self.home, "service", wait=lambda: time.sleep(0.2))
