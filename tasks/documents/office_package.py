"""What the packages of Office have in common: relationships between parts, properties, encryption."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote
from xml.etree.ElementTree import ParseError, XMLParser

from tasks.documents.archives import OLE_MAGIC, Package, WithoutDoctype
from tasks.documents.document_errors import CorruptDocument, NeedsPassword, UnsupportedDocument
from tasks.documents.document_readers import storable

_CORE_NAMES = {
    "title": "title",
    "creator": "author",
    "subject": "subject",
    "keywords": "keywords",
    "created": "created",
    "modified": "modified",
    "lastModifiedBy": "last_modified_by",
}


class Link(NamedTuple):
    """A reference from one part to another, or to something outside the document."""

    type: str
    """Last segment of the type: `worksheet`, `comments` …"""
    target: str
    external: bool


def refuse_encrypted(path: Path, password: str | None, *, program: str) -> None:
    """Raises NeedsPassword for an encrypted document: an OLE container around the zip."""
    with path.open("rb") as file:
        if file.read(len(OLE_MAGIC)) != OLE_MAGIC:
            return
    remedy = f"save a copy without a password in {program} and index that"
    if password is None:
        raise NeedsPassword(f"The {program} document is encrypted, and its encryption is not supported; {remedy}.")
    raise UnsupportedDocument(f"The encryption of {program} documents is not supported, even with password; {remedy}.")


def links(package: Package, part: str) -> dict[str, Link]:
    """The relationships of a part by id; those of the package itself for ""."""
    folder, file = posixpath.split(part)
    listing = posixpath.join(folder, "_rels", f"{file}.rels")
    if listing not in package.names:
        return {}
    found: dict[str, Link] = {}
    for node in package.xml(listing):
        target, external = node.get("Target", ""), node.get("TargetMode") == "External"
        if not external:
            target = posixpath.normpath(posixpath.join("/", folder, unquote(target))).lstrip("/")
        found[node.get("Id", "")] = Link(node.get("Type", "").rpartition("/")[2], target, external)
    return found


def core_properties(package: Package) -> dict[str, str]:
    """Title, author and dates."""
    if "docProps/core.xml" not in package.names:
        return {}
    named = {local(node.tag): (node.text or "").strip() for node in package.xml("docProps/core.xml")}
    return {ours: storable(named[theirs]) for theirs, ours in _CORE_NAMES.items() if named.get(theirs)}


@lru_cache(maxsize=4096)
def local(tag: str) -> str:
    """A name without its namespace: the two variants of the standard differ in namespaces only."""
    return tag.rpartition("}")[2]


class Handler(WithoutDoctype):
    """Receives the elements of a part as they come."""


def stream(pieces: Iterable[bytes], handler: Handler, *, name: str, done: Callable[[], bool] = lambda: False) -> None:
    """Feed a part to its handler until its end, or until `done`. Raises CorruptDocument, RefusedDocument."""
    parser = XMLParser(target=handler)
    try:
        for piece in pieces:
            parser.feed(piece)
            if done():
                return
        parser.close()
    except (ParseError, ValueError, LookupError) as error:
        raise CorruptDocument(
            f"The part `{name}` is not well-formed XML ({error}); the file may be damaged."
        ) from error
