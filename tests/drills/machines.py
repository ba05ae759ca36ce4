"""Two machines on one: network namespaces with addresses of their own, a link that can be cut, and a PostgreSQL."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from flows.service import processes
from flows.service.api import address_of, auth_of
from flows.service.place import Place
from flows.service.service_start import end
from storage.embedded import Cluster
from storage.postgres_binaries import installed
from tests.command import TRIVET, Done

ROOT = Path(__file__).parents[2]
PATIENCE_S = 240.0
ASK = """
import json, sys
from pathlib import Path
from flows.service.api import Api
url, auth, authority, path, body = json.load(sys.stdin)
api = Api(url, auth, authority)
print(json.dumps(api.get(path) if body is None else api.post(path, body)))
"""


class Machine(NamedTuple):
    """A namespace with an address, and a home."""

    namespace: str
    address: str
    place: Place
    variables: Mapping[str, str]

    def execute(self, *command: str, text: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a command there."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "TRIVET_"))}
        ours = {"TRIVET_HOME": str(self.place.home), "TRIVET_API_LINGER_S": "0", "OMP_NUM_THREADS": "1"}
        return subprocess.run(
            ["ip", "netns", "exec", self.namespace, *command],
            env=kept | ours | dict(self.variables) | variables,
            cwd=ROOT,
            input=text,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )

    def trivet(self, *arguments: str, **variables: str) -> Done:
        """The command as a user types it there."""
        done = self.execute(*TRIVET, *arguments, **variables)
        return Done(done.returncode, done.stdout, done.stderr)

    def ask(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """The answer of this machine's server."""
        address = address_of(self.place.home)
        assert address is not None
        asked = (address.api_url, auth_of(self.place.home), address.authority, path, body)
        done = self.execute(sys.executable, "-c", ASK, text=json.dumps(asked))
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def state_of(self, run: str) -> str:
        """The name of a run's state."""
        return self.ask(f"/flow_runs/{run}")["state"]["name"]

    def until(self, holds: Callable[[], Any], what: str, *, within_s: float = PATIENCE_S) -> None:
        """Wait for something to become true."""
        deadline = time.monotonic() + within_s
        while not holds():
            assert time.monotonic() < deadline, f"{what}: not within {within_s:g} s\n{self.logs()}"
            time.sleep(0.5)

    def logs(self) -> str:
        """The end of every log."""
        return "\n".join(f"{log}: {log.read_text()[-2000:]}" for log in self.place.logs.glob("*.log"))

    def vanish(self) -> None:
        """Everything that runs here is gone from one moment to the next."""
        processes.kill(each.process for each in processes.of_service(self.place.mark))


class Machines(NamedTuple):
    """Two of them; what both reach, and the link between."""

    one: Machine
    other: Machine
    shared: Path
    """A folder that both have."""
    link: str
    """Its end at the second machine."""

    def cut(self) -> None:
        """Nothing passes any more, and nobody is told."""
        _ip("-n", self.other.namespace, "link", "set", self.link, "down")

    def mend(self) -> None:
        """It passes again."""
        _ip("-n", self.other.namespace, "link", "set", self.link, "up")


@contextmanager
def two_machines() -> Generator[Machines]:
    """Two homes in two namespaces; skips where namespaces are not allowed."""
    names = tuple(f"trivet-{os.getpid()}-{number}" for number in (1, 2))
    folder = Path(tempfile.mkdtemp(prefix="trivet-machines-"))
    folder.chmod(0o755)
    try:
        ends = _linked(names)
        addresses = [f"10.213.{os.getpid() % 250}.{number}" for number in (1, 2)]
        for name, end_of, address in zip(names, ends, addresses, strict=True):
            _ip("-n", name, "address", "add", f"{address}/24", "dev", end_of)
            _ip("-n", name, "link", "set", end_of, "up")
            _ip("-n", name, "link", "set", "lo", "up")
        (folder / "shared").mkdir()
        with _postgres(names[0], addresses[0], folder / "postgres") as database:
            one, other = (
                Machine(name, address, Place(folder / f"home-{number}"), variables)
                for number, (name, address, variables) in enumerate(
                    zip(names, addresses, ({"DATABASE_URL": database}, {}), strict=True), start=1
                )
            )
            try:
                yield Machines(one, other, folder / "shared", ends[1])
            finally:
                for machine in (other, one):
                    machine.trivet("down")
                    machine.vanish()
                    end(machine.place)
                    Cluster(machine.place.database).remove()
                    Cluster(machine.place.home).remove()
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
        shutil.rmtree(folder, ignore_errors=True)


def _linked(names: tuple[str, ...]) -> tuple[str, str]:
    """Both namespaces, and the ends of the link between them."""
    ends = (f"tv{os.getpid()}a", f"tv{os.getpid()}b")
    if os.geteuid() != 0 or not shutil.which("ip"):
        pytest.skip("network namespaces need root and iproute2")
    try:
        for name in names:
            _ip("netns", "add", name)
        _ip("link", "add", ends[0], "netns", names[0], "type", "veth", "peer", "name", ends[1], "netns", names[1])
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no network namespaces here: {error.stderr}")
    return ends


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


@contextmanager
def _postgres(namespace: str, address: str, folder: Path) -> Generator[str]:
    """A PostgreSQL at the address of a machine; gives its URL."""
    binaries = next(each for each in installed() if each.folder.is_relative_to("/usr"))
    folder.mkdir()
    shutil.chown(folder, "postgres", "postgres")
    as_server = ("ip", "netns", "exec", namespace, "runuser", "-u", "postgres", "--")
    data = folder / "data"

    def run(program: str, *arguments: str) -> None:
        command = (*as_server, str(binaries.folder / program), "-D", str(data), *arguments)
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr

    run("initdb", "--auth", "trust", "--username", "trivet")
    with (data / "pg_hba.conf").open("a") as rules:
        rules.write("host all all 10.213.0.0/16 trust\n")
    run("pg_ctl", "-w", "-l", str(folder / "log"), "-o", f"-h {address} -k {folder}", "start")
    try:
        yield f"postgresql://trivet@{address}:5432/postgres"
    finally:
        run("pg_ctl", "-w", "-m", "immediate", "stop")
