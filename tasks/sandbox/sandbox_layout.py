"""What a program can see: a read-only root, without homes, secrets, sockets or the code of this project."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tasks.sandbox.sandbox_errors import SandboxUnavailable

INSIDE = Path(__file__).parent / "inside"
SEEN_AS = "/sandbox/inside"
NOTHING = "nothing"
"""An empty folder among the files for /etc, shown in place of what is to be hidden."""
LIBRARIES = "/packages"
PYTHON = ("bin", "lib", "lib64")
"""Folders taken from an interpreter's prefix, which may be a user's ~/.local."""
OURS = ("flows", "models", "storage", "tasks")
INSTALLED = (".dist-info", ".egg-info")
TOP = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
"""Beside /usr; on most systems they are links into it."""
CONFIGURED = (
    *("/etc/alternatives", "/etc/fonts", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/R"),
    *("/etc/services", "/etc/protocols", "/etc/mime.types", "/etc/ssl/certs"),
)
JAVA = "/etc/java-*"
PRELOAD = (
    *("typing", "collections", "itertools", "functools", "operator", "heapq", "bisect", "array", "enum", "string"),
    *("math", "cmath", "random", "statistics", "decimal", "fractions", "datetime", "json", "dataclasses", "re"),
    *("textwrap", "copy", "unittest"),
)
"""Modules that programs find imported; all are Python's own. Not `threading` (and `queue`, which needs it), nor
`hashlib`: what they do in every fork, and OpenSSL's memory, cost each program more than the few that want them."""
NOBODY = 65534
ENVIRONMENT = {
    "HOME": "/tmp/work",
    "USER": "nobody",
    "LOGNAME": "nobody",
    "LANG": "C.UTF-8",
    "TMPDIR": "/tmp",
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
    "MPLBACKEND": "Agg",
    "MPLCONFIGDIR": "/tmp",
    **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "POLARS_MAX_THREADS"), "1"),
    "OPENBLAS_NUM_THREADS": "1",
}
KERNELS = "OPENBLAS_CORETYPE"
"""Passed on: on some processors OpenBLAS computes correctly only with it."""


class Interpreter(NamedTuple):
    """The Python that executes programs."""

    path: str
    prefix: str
    """Where it and its standard library are."""
    packages: tuple[str, ...]
    version: str

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of its version and its installed packages, on which the outcome of programs depends."""
        found = (one for folder in self.packages for one in Path(folder).iterdir() if one.suffix in INSTALLED)
        names = sorted(one.name for one in found)
        return hashlib.sha256("\n".join([self.version, *names]).encode()).hexdigest()

    def shown(self) -> dict[str, str]:
        """Path here → path there of what is not below /usr; libraries do not reveal where they are here."""
        packages = {path: f"{LIBRARIES}/{number}" for number, path in enumerate(self.packages)}
        root = Path("/python") if Path(self.prefix).is_relative_to("/tmp") else Path(self.prefix)
        own = {f"{self.prefix}/{name}": str(root / name) for name in PYTHON if Path(self.prefix, name).is_dir()}
        return {here: there for here, there in (own | packages).items() if not Path(here).is_relative_to("/usr")}

    def there(self, path: str) -> str:
        """The path there of a path here."""
        for here, there in self.shown().items():
            if Path(path).is_relative_to(here):
                return str(Path(there) / Path(path).relative_to(here))
        return path


class Layout(NamedTuple):
    """What an engine is to show; `there` is within the sandbox, here and below."""

    readonly: tuple[tuple[str, str], ...]
    """Path here, path there."""
    links: tuple[tuple[str, str], ...]
    """Target, path there."""
    command: tuple[str, ...]
    """Command line of the zygote."""
    environment: dict[str, str]
    python: str
    """Path of the interpreter on this machine."""


def layout(python: Interpreter, etc: Path, *, walled: bool = True) -> Layout:
    """What is shown to programs. etc: folder of files for /etc. walled=False: programs see this machine as it is."""
    seen = tuple(dict.fromkeys(_seen(python, etc)))
    links = tuple((str(Path(top).readlink()), top) for top in TOP if Path(top).is_symlink())
    program = python.there(python.path) if walled else python.path
    path = dict.fromkeys([str(Path(python.there(python.path)).parent), "/usr/local/bin", "/usr/bin", "/bin"])
    environment = {"PATH": os.pathsep.join(path), **ENVIRONMENT}
    if KERNELS in os.environ:
        environment[KERNELS] = os.environ[KERNELS]
    ours = str((Path(SEEN_AS) if walled else INSIDE).parent)
    boot = f"import sys; sys.path.insert(0, {ours!r}); from inside.serve import main; main()"
    return Layout(seen, links, (program, "-s", "-S", "-c", boot), environment, python.path)


def write_etc(folder: Path, uid: int) -> None:
    """Write the files of /etc: one user, one host, and a name server that does not exist."""
    users = f"nobody:x:{uid}:{uid}:nobody:/tmp/work:/bin/sh\n"
    files = {
        "passwd": users if uid == 0 else f"root:x:0:0:root:/:/bin/sh\n{users}",
        "group": f"nogroup:x:{uid}:\n",
        "hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
        "resolv.conf": "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n",
        "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
    }
    (folder / NOTHING).mkdir(mode=0o755, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o644)


def interpreter(python: Path | None = None) -> Interpreter:
    """The Python named, else that of TRIVET_SANDBOX_PYTHON, else this one. Raises SandboxUnavailable."""
    named = python or os.environ.get("TRIVET_SANDBOX_PYTHON") or sys.executable
    return _examined(str(named))


def another_python() -> str:
    """Version and digest of the Python that TRIVET_SANDBOX_PYTHON names; empty where it is equivalent to this one."""
    own, named = "", interpreter()
    with suppress(SandboxUnavailable):  # this one may be of no use, which is why another is named
        own = _examined(sys.executable).digest
    return "" if named.digest == own else f"{named.version}-{named.digest[:12]}"


@cache
def _examined(path: str) -> Interpreter:
    asks = (
        "import json, os, sys, sysconfig; paths = sysconfig.get_paths(); "
        "print(json.dumps([os.path.realpath(getattr(sys, '_base_executable', '') or sys.executable), sys.base_prefix, "
        "sorted({paths['purelib'], paths['platlib'], *[p for p in sys.path if p.endswith('-packages')]}), "
        "sys.version.split()[0], list(sys.version_info[:2])]))"
    )
    try:
        said = subprocess.run([path, "-I", "-c", asks], capture_output=True, text=True, timeout=60, check=True).stdout
        real, prefix, packages, version, number = json.loads(said.splitlines()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError, TypeError) as error:
        raise SandboxUnavailable(
            f"{path} is no Python that can execute programs ({_short(error)}); name one with TRIVET_SANDBOX_PYTHON"
        ) from error
    if number < [3, 9]:
        raise SandboxUnavailable(f"{path} is Python {version}; name 3.9 or newer with TRIVET_SANDBOX_PYTHON")
    if Path.home().is_relative_to(prefix):
        raise SandboxUnavailable(
            f"{path} has its library in {prefix}, which programs would see with all that is in it; "
            "name another Python with TRIVET_SANDBOX_PYTHON"
        )
    return Interpreter(real, prefix, tuple(one for one in packages if Path(one).is_dir()), version)


def _short(error: Exception) -> str:
    """The error without the command line, which is long."""
    if isinstance(error, subprocess.CalledProcessError):
        said = str(error.stderr).strip().splitlines()
        return f"exit code {error.returncode}{f': {said[-1][:200]}' if said else ''}"
    return "it takes too long" if isinstance(error, subprocess.TimeoutExpired) else str(error)


def _seen(python: Interpreter, etc: Path) -> Iterator[tuple[str, str]]:
    yield "/usr", "/usr"
    for path in (*TOP, *CONFIGURED, *map(str, Path("/").glob(JAVA.lstrip("/")))):
        if Path(path).exists() and not Path(path).is_symlink():
            yield path, path
    yield from python.shown().items()
    yield str(INSIDE), SEEN_AS
    for file in sorted(one for one in etc.iterdir() if one.is_file()):
        yield str(file), f"/etc/{file.name}"
    packages = INSIDE.parents[3]
    if str(packages) in python.packages:  # this is an installed wheel
        for here, there in python.shown().items():
            if packages.is_relative_to(here):
                place = Path(there) / packages.relative_to(here)
                yield from ((str(etc / NOTHING), str(place / name)) for name in OURS)
