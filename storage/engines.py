"""An index in PostgreSQL in place of a folder, named by its URL.

An address such as `postgresql://host/name` stands for a folder of the home that holds `engine.json` (the address
without a password) and what lies beside an index: the status file, the preview, and a cache of the index's files. All
other code is given that folder, and opens what its address names.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from storage import files
from storage.storage_errors import NotAnIndex

if TYPE_CHECKING:
    from storage.pg_index import PostgresEngine

ENGINE_FILE = "engine.json"
SCHEMES = ("postgresql", "postgres")
ADDRESS = re.compile(rf"[a-z][a-z0-9+]*://|(?:{'|'.join(SCHEMES)}|lancedb):", re.IGNORECASE)
SECRETS = ("password", "sslpassword", "passfile", "token")
"""Parameters of an address that are never kept."""

LANCEDB = (
    "an index is no longer kept in LanceDB; index again with `trivet rag index DIR --index FOLDER`, "
    "or into PostgreSQL with --index postgresql://host/name"
)


class Address(NamedTuple):
    """An address of an engine, and the password that it came with."""

    url: str
    password: str | None = None


def is_address(word: str) -> bool:
    """Return whether `word` is an address and not a folder; one without slashes counts as an address that is broken."""
    return ADDRESS.match(word) is not None


def read_address(word: str) -> Address:
    """Return a URL such as postgresql://host without SECRETS, and its password. Raises NotAnIndex for other text."""
    try:
        parts = urlsplit(word)
        password = parts.password
        if "://" not in word:
            raise ValueError
    except ValueError:
        example = "postgresql://user@host:5432/name"
        raise NotAnIndex(f"the address of the index cannot be read; write {example}") from None
    if parts.scheme.startswith("lancedb"):
        raise NotAnIndex(LANCEDB)
    if parts.scheme not in SCHEMES:
        raise NotAnIndex(f"no engine is called {parts.scheme}; name a folder, or an address such as postgresql://host")
    parameters = parse_qsl(parts.query, keep_blank_values=True)
    password = unquote(password) if password else dict(parameters).get("password")
    query = urlencode([(name, value) for name, value in parameters if name not in SECRETS], quote_via=quote)
    host = parts.netloc.rpartition("@")[2]
    user = f"{quote(parts.username, safe='%')}@" if parts.username else ""  # it may be quoted already
    # by hand: urlunsplit writes `postgresql:/name` for `postgresql:///name`
    return Address(f"{parts.scheme}://{user}{host}{parts.path}{f'?{query}' if query else ''}", password)


def place_of(url: str, home: Path) -> Path:
    """Return the folder that stands for an address without a password; made when it is missing."""
    name = re.sub(r"[^\w.-]+", "-", urlsplit(url).path.strip("/")).strip("-.") or "index"
    folder = home / "indexes" / f"{name[:40]}-{hashlib.sha256(url.encode()).hexdigest()[:12]}"
    if not (folder / ENGINE_FILE).exists():
        files.write(folder / ENGINE_FILE, json.dumps({"address": url}).encode())
    return folder


def address_of(folder: Path) -> str | None:
    """Return the address that `folder` stands for; None for one that holds its index itself. Raises NotAnIndex."""
    try:
        return str(json.loads((folder / ENGINE_FILE).read_bytes())["address"])
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise NotAnIndex(f"{folder / ENGINE_FILE} is not of this program or version; remove it") from error


def index_name(folder: Path) -> str:
    """Return the index's name as users write it: its address, or the folder."""
    return address_of(folder) or str(folder)


def lasting_name(folder: Path) -> str:
    """Return a name that holds in every working folder: the index's address, or its absolute path."""
    return address_of(folder) or str(folder.resolve())


def short_name(folder: Path) -> str:
    """Return a word for the index: schema, database or host of an address; else the name of the folder."""
    url = address_of(folder)
    if url is None:
        return folder.absolute().name
    parts = urlsplit(url)
    name = dict(parse_qsl(parts.query)).get("schema") or PurePosixPath(parts.path).name
    return name or parts.hostname or parts.scheme  # not the whole of it, which may hold a password


def engine_of(folder: Path) -> PostgresEngine | None:
    """Return the engine of the address that `folder` stands for; None for a folder that holds its index itself."""
    url = address_of(folder)
    if url is None:
        return None
    from storage.pg_index import PostgresEngine

    return PostgresEngine(read_address(url).url, folder)
