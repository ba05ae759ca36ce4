"""The Python that executes programs: TRIVET_SANDBOX_PYTHON, else the one that runs Trivet."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tasks.sandbox.sandbox_records import SandboxUnavailable

LIBRARIES = "/packages"
PYTHON = ("bin", "lib", "lib64")
"""Folders taken from an interpreter's prefix, which may be a user's ~/.local."""
INSTALLED = (".dist-info", ".egg-info")
EXAMINATION = (
    "import json, os, sys, sysconfig; paths = sysconfig.get_paths(); "
    # of a virtual environment it is the Python below, which the sandbox shows
    "print(json.dumps([os.path.realpath(getattr(sys, '_base_executable', '') or sys.executable), sys.base_prefix, "
    "sorted({paths['purelib'], paths['platlib'], *[p for p in sys.path if p.endswith('-packages')]}), "
    "sys.version.split()[0], list(sys.version_info[:2])]))"
)


class Interpreter(NamedTuple):
    """A Python of this machine with its version and packages."""

    path: str
    prefix: str
    """Folder that holds the interpreter and its standard library."""
    packages: tuple[str, ...]
    version: str

    @property
    def digest(self) -> str:
        """Return the SHA-256 (hex) of version and installed packages, on which the outcome of programs depends."""
        installed = (entry for folder in self.packages for entry in Path(folder).iterdir() if entry.suffix in INSTALLED)
        names = sorted(entry.name for entry in installed)
        return hashlib.sha256("\n".join([self.version, *names]).encode()).hexdigest()

    def bound_paths(self) -> dict[str, str]:
        """Return the paths outside /usr that the sandbox shows: path on this machine → path inside.

        Libraries get neutral names, so that they do not reveal where they are here.
        """
        packages = {path: f"{LIBRARIES}/{number}" for number, path in enumerate(self.packages)}
        root = Path("/python") if Path(self.prefix).is_relative_to("/tmp") else Path(self.prefix)
        in_prefix = {f"{self.prefix}/{name}": str(root / name) for name in PYTHON if Path(self.prefix, name).is_dir()}
        return {
            host_path: inside_path
            for host_path, inside_path in (in_prefix | packages).items()
            if not Path(host_path).is_relative_to("/usr")
        }

    def inside_path(self, path: str) -> str:
        """Return the path inside the sandbox of a path on this machine; outside of `bound_paths` it is the same."""
        for host_path, inside_path in self.bound_paths().items():
            if Path(path).is_relative_to(host_path):
                return str(Path(inside_path) / Path(path).relative_to(host_path))
        return path


def find_interpreter(python: Path | None = None) -> Interpreter:
    """Return the Python named, else that of TRIVET_SANDBOX_PYTHON, else this one. Raises SandboxUnavailable."""
    return _examine(str(python or os.environ.get("TRIVET_SANDBOX_PYTHON") or sys.executable))


def identify_other_python() -> str:
    """Return `VERSION-DIGEST` of TRIVET_SANDBOX_PYTHON; empty where it equals this one. Raises SandboxUnavailable."""
    own_digest, configured = "", find_interpreter()
    with suppress(SandboxUnavailable):  # this one may be of no use, which is why another is named
        own_digest = _examine(sys.executable).digest
    return "" if configured.digest == own_digest else f"{configured.version}-{configured.digest[:12]}"


@cache
def _examine(path: str) -> Interpreter:
    """Return an interpreter's path, prefix, packages and version. Raises SandboxUnavailable, with the remedy."""
    another = "name another Python with TRIVET_SANDBOX_PYTHON, of 3.9 or later"
    try:
        printed = subprocess.run(
            [path, "-I", "-c", EXAMINATION], capture_output=True, text=True, timeout=60, check=True
        )
        real, prefix, packages, version, number = json.loads(printed.stdout.splitlines()[-1])
    except subprocess.CalledProcessError as error:
        raise SandboxUnavailable(
            f"{path} is no Python that can execute programs (exit code {error.returncode}); {another}"
        ) from error
    except (OSError, subprocess.SubprocessError, ValueError, IndexError, TypeError) as error:
        raise SandboxUnavailable(
            f"{path} is no Python that can execute programs ({type(error).__name__}); {another}"
        ) from error
    if number < [3, 9]:
        raise SandboxUnavailable(f"{path} is Python {version}; {another}")
    if Path.home().is_relative_to(prefix):
        raise SandboxUnavailable(
            f"{path} has its library in {prefix}, which programs would see with all that is in it; {another}"
        )
    return Interpreter(real, prefix, tuple(folder for folder in packages if Path(folder).is_dir()), version)
