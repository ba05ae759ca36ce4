"""Environment of Prefect and the model libraries, set before they are imported; and the version of the program."""

from __future__ import annotations

import importlib
import os
import platform
import runpy
import ssl
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from platformdirs import user_data_path
from pydantic import JsonValue

from storage.files import close_home, make_folder
from storage.storage_errors import StoreUnreachable

QUIET = {
    "DO_NOT_TRACK": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "LANGSMITH_TRACING": "false",
    "TOKENIZERS_PARALLELISM": "false",
    "RAY_USAGE_STATS_ENABLED": "0",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "90",
    "PREFECT_LOGGING_SERVER_LEVEL": "CRITICAL",
    "PYTHONSAFEPATH": "1",
}
"""No telemetry, a patient start of Prefect's own server on a busy laptop, no modules of a child's working folder."""
LOOPBACK = ("127.0.0.1", "localhost", "::1")
"""Hosts that no proxy stands before."""
AUTHORITY = "PREFECT_API_SSL_CERT_FILE"
"""Prefect's variable with a PEM file of what clients of the server trust; unset: what the system trusts."""
GIT_TIMEOUT_S = 5
ANSWER_S = 5.0
"""Longest wait for the answer of a Prefect server that the user names."""
ENGINE = (sys.executable, "-P", "-c", "from flows.running.environment import run_engine; run_engine()")
"""Command of the process of a run."""
LIBRARIES = ("torch", "transformers", "vllm", "openai", "lm_eval", "sympy", "math-verify")


def home_folder() -> Path:
    """Return TRIVET_HOME, or the user's data folder; absolute, so that a child started elsewhere finds the same one."""
    return Path(os.environ.get("TRIVET_HOME") or user_data_path("trivet")).expanduser().absolute()


def trust() -> ssl.SSLContext:
    """Return what a connection to the Prefect server trusts: certificates of Prefect's variable, or the system's.

    Raises OSError where there is no such file.
    """
    return ssl.create_default_context(cafile=os.environ.get(AUTHORITY) or None)


def why_silent(url: str, patience_s: float | None = None, *, goes_on: Callable[[], bool] = lambda: True) -> str | None:
    """Return None as soon as the Prefect API at `url` answers, or else why it does not.

    patience_s: longest wait; None: `ANSWER_S`. goes_on: whether the server may still come to answer.
    """
    import http.client
    import urllib.request

    deadline = time.monotonic() + (ANSWER_S if patience_s is None else patience_s)
    context = trust() if url.startswith("https:") else None
    while True:
        try:
            with urllib.request.urlopen(f"{url.rstrip('/')}/health", timeout=5, context=context):
                return None
        except (OSError, http.client.HTTPException, ValueError) as error:  # the last: it is no address
            why = str(getattr(error, "reason", error))
        if time.monotonic() > deadline or not goes_on():
            return why
        time.sleep(0.05)


def describe_silence(url: str, why: str) -> str:
    """Return the error message about a server of the user's that does not answer."""
    return (
        f"no Prefect server answers at {url}, which PREFECT_API_URL names ({why}); start it (that of this home: "
        "`trivet up`), or unset PREFECT_API_URL"
    )


def prepare_environment() -> None:
    """Set variables that are not set yet, and no_proxy for loopback; Prefect's home goes below ours unless chosen."""
    close_home(home_folder())
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    # loopback past the user's proxy: a proxy elsewhere would ask itself
    direct = [host.strip() for host in (os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or "").split(",")]
    if "*" not in direct:
        hosts = ",".join(dict.fromkeys((*filter(None, direct), *LOOPBACK)))
        os.environ.update(no_proxy=hosts, NO_PROXY=hosts)  # libraries read either
    if not os.environ.get("PREFECT_HOME"):  # an empty one would put its database into the current folder
        os.environ["PREFECT_HOME"] = str(home_folder() / "prefect")
    if "prefect" not in sys.modules and not any(isinstance(finder, _HomeFirst) for finder in sys.meta_path):
        sys.meta_path.insert(0, _HomeFirst())
    if "PREFECT_API_URL" not in os.environ:
        os.environ.setdefault("PREFECT_SERVER_ALLOW_EPHEMERAL_MODE", "true")


class _HomeFirst:
    """Makes the home when Prefect, which warns of a missing one, is imported; other commands make none."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:  # noqa: ARG002
        """Make Prefect's home when prefect is first imported; always None, so that the import goes on."""
        if fullname == "prefect":
            sys.meta_path.remove(self)
            with suppress(StoreUnreachable):  # a home that cannot be made is refused when something is kept there
                make_folder(home_folder())
                folder = Path(os.environ["PREFECT_HOME"])
                if folder.parent == home_folder():
                    make_folder(folder)  # or Prefect makes it, open to other accounts


def import_installed_alone() -> None:
    """Have Prefect import flows without the working folder, where a user's `tasks.py` would take the place of ours."""
    from prefect.utilities import importtools

    importtools.load_module = importlib.import_module


def run_engine() -> None:
    """Be Prefect's engine, in the process of a run that a worker has started."""
    from tasks.step import be_patient

    import_installed_alone()
    be_patient()  # a server that is killed now has not been asked yet
    runpy.run_module("prefect.engine", run_name="__main__", alter_sys=True)


def program_version() -> str:
    """Return the version of the installed package, `1.4.0`."""
    return version("trivet")


@cache
def git_commit() -> str | None:
    """Return the commit of the checkout that runs; None for an installed wheel, or where git cannot tell."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    try:
        process = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=root, capture_output=True, text=True, timeout=GIT_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return process.stdout.strip()


def program() -> str:
    """Return the version with the commit of a checkout: `1.4.0`, or `1.4.0+6c1f2ab9`."""
    commit = git_commit()
    return f"{program_version()}+{commit[:8]}" if commit else program_version()


def environment() -> dict[str, JsonValue]:
    """Return Python, platform and the versions of those LIBRARIES that are installed: they may be why a score moved."""
    facts: dict[str, JsonValue] = {"python": platform.python_version(), "platform": platform.platform()}
    for library in LIBRARIES:
        with suppress(PackageNotFoundError):
            facts[library] = version(library)
    return facts
