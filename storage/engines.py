"""Engines that keep an index in place of a folder, chosen by URL.

An address such as `postgresql://host/name` stands for a folder of the home that holds `engine.json` (the address
without a password) and what lies beside an index: the status file, the preview, and a cache of the engine's smaller
files. All other code is given that folder, and opens what its address names.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple, Protocol
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from storage import files
from storage.storage_errors import IndexUnusable, NotAnIndex

if TYPE_CHECKING:
    from storage.index_generation import Index
    from storage.manifest import Generation, Manifest, Pointer

ENGINE_FILE = "engine.json"
LOCAL = "lancedb://"
"""Begins the addresses of indexes that lie in a folder of this machine."""
ENGINES = {
    "postgresql": ("storage.pg_index", "PostgresEngine"),
    "postgres": ("storage.pg_index", "PostgresEngine"),
    "lancedb": ("storage.lance_index", "LanceEngine"),
    "lancedb+s3": ("storage.lance_index", "LanceEngine"),
}
"""Module and class that open the addresses of a scheme."""
ADDRESS = re.compile(rf"[a-z][a-z0-9+]*://|(?:{'|'.join(map(re.escape, ENGINES))}):", re.IGNORECASE)
SECRETS = ("password", "sslpassword", "passfile", "token")
"""Parameters of an address that are never kept."""


class Engine(Protocol):
    """What keeps an index outside a folder."""

    def __init__(self, address: str, folder: Path) -> None: ...

    def claim(self) -> None:
        """Make room for an index where there is none. Raises EngineAway."""
        ...

    def pointer(self) -> Pointer:
        """Which generation readers open. Raises NotAnIndex, EngineAway."""
        ...

    def open(self) -> Index:
        """The current generation, pinned. Raises NotAnIndex, DamagedIndex, EngineAway."""
        ...

    def publish(self, manifest: Manifest, path_of: Callable[[str], Path]) -> Generation:
        """Put what is missing there, and switch; path_of: where the file of a name in the manifest lies."""
        ...


class Address(NamedTuple):
    """An address of an engine, and the password that it came with."""

    url: str
    password: str | None = None


def is_address(word: str) -> bool:
    """Whether `word` names an engine and not a folder; one that lacks a slash is an address that cannot be read."""
    return ADDRESS.match(word) is not None


def read_address(word: str) -> Address:
    """An address, and its password apart. Raises NotAnIndex for an engine that there is not."""
    try:
        parts = urlsplit(word)
        password = parts.password
        if "://" not in word:
            raise ValueError
    except ValueError:
        what = "postgresql://user@host:5432/name or lancedb:///folder"
        raise NotAnIndex(f"the address of the index cannot be read; write {what}") from None
    if parts.scheme not in ENGINES:
        known = ", ".join(f"{name}://" for name in ENGINES)
        raise NotAnIndex(f"no engine is called {parts.scheme}; name a folder, or an address of {known}")
    if parts.scheme == "lancedb" and (parts.netloc or len(parts.path) < 2):
        raise NotAnIndex(f"{word}: name an absolute folder, such as lancedb:///data/index")
    given = parse_qsl(parts.query, keep_blank_values=True)
    password = unquote(password) if password else dict(given).get("password")
    kept = urlencode([(name, value) for name, value in given if name not in SECRETS], quote_via=quote)
    host = parts.netloc.rpartition("@")[2]
    user = f"{quote(parts.username, safe='%')}@" if parts.username else ""
    # by hand: urlunsplit writes `postgresql:/name` for `postgresql:///name`
    return Address(f"{parts.scheme}://{user}{host}{parts.path}{f'?{kept}' if kept else ''}", password)


def place_of(url: str, home: Path) -> Path:
    """The folder that stands for an address without a password; made when it is missing."""
    name = re.sub(r"[^\w.-]+", "-", urlsplit(url).path.strip("/")).strip("-.") or "index"
    folder = home / "indexes" / f"{name[:40]}-{hashlib.sha256(url.encode()).hexdigest()[:12]}"
    if not (folder / ENGINE_FILE).exists():
        files.write(folder / ENGINE_FILE, json.dumps({"address": url}).encode())
    return folder


def address_of(folder: Path) -> str | None:
    """The address that `folder` stands for; None for a folder that holds its index itself."""
    try:
        return str(json.loads((folder / ENGINE_FILE).read_bytes())["address"])
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise NotAnIndex(f"{folder / ENGINE_FILE} is not of this program or version; remove it") from error


def index_name(folder: Path) -> str:
    """How users name the index: its address, or the folder."""
    return address_of(folder) or str(folder)


def lasting_name(folder: Path) -> str:
    """By which what is kept about an index knows it, whatever the current folder: its address, or the whole path."""
    return address_of(folder) or str(folder.resolve())


def short_name(folder: Path) -> str:
    """A word for the index: of an address the schema, or the last part of the path; else the name of the folder."""
    url = address_of(folder)
    if url is None:
        return folder.absolute().name
    parts = urlsplit(url)
    return dict(parse_qsl(parts.query)).get("schema") or PurePosixPath(parts.path).name or parts.netloc


def files_place(folder: Path) -> Path:
    """The folder that the files of an index lie in, on this machine; for PostgreSQL and S3 the one of the home."""
    url = address_of(folder) or ""
    return Path(url.removeprefix(LOCAL)) if url.startswith(LOCAL) else folder


def engine_of(folder: Path) -> Engine | None:
    """The engine that keeps the index of `folder`; None for a folder that holds its index itself.

    Raises IndexUnusable where its package is missing.
    """
    url = address_of(folder)
    if url is None:
        return None
    module, name = ENGINES[read_address(url).url.partition(":")[0]]
    try:
        opened = import_module(module)
    except ImportError as error:
        raise IndexUnusable(f"{url} needs LanceDB ({error}); install it with: pip install 'trivet[lancedb]'") from error
    return getattr(opened, name)(url, folder)
