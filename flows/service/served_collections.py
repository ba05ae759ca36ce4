"""The collections that a server shows: each an index, and the folder that it is made of where operators change that."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from flows.running.config_reading import index_place
from flows.service.api import Refused
from storage.engines import index_name, short_name
from storage.files import AMONG_SECRETS, is_secret
from storage.records import Record
from storage.storage_errors import StorageError

if TYPE_CHECKING:
    from flows.service.live_index import Indexing, LiveIndex

NO_INDEX = "no-index"
"""Folder below the home that stands for the index of a server without one."""
NAME_AND_FOLDER = re.compile(r"([^/\\=]+)=(.+)")


class UnknownCollection(Exception):
    """No collection has this name, or several could be meant; the sentence names them."""


class Folders(Record):
    """The folders of a collection: its index, and the documents that the index is made of."""

    index: Path
    documents: Path | None = None
    """Folder that the index is made of, if the server keeps it up to date."""


class Collection(NamedTuple):
    """An index that the service offers under a name, with its folder of documents if it has one."""

    name: str
    live: LiveIndex
    indexing: Indexing | None = None
    """Keeps the index up to date with its folder of documents; None: nothing can be uploaded."""


class Collections:
    """The collections of a server by name; the first one is shown where none is chosen."""

    def __init__(self, served: Sequence[Collection]) -> None:
        self._served = {collection.name: collection for collection in served}

    def __iter__(self) -> Iterator[Collection]:
        return iter(self._served.values())

    @property
    def first(self) -> Collection:
        return next(iter(self))

    @property
    def names(self) -> tuple[str, ...]:
        """Names to choose from; none where there is one collection."""
        return tuple(self._served) if len(self._served) > 1 else ()

    def find(self, name: str | None) -> Collection:
        """Return the collection of this name; None: the only one. Raises UnknownCollection."""
        if name is None and not self.names:
            return self.first
        if name is None or name not in self._served:
            problem = "name a collection" if name is None else f"there is no collection {name[:80]!r}"
            raise UnknownCollection(f"{problem}; there are {', '.join(self._served)}")
        return self._served[name]


def folders_of(indexes: Sequence[str], documents: Sequence[str]) -> dict[str, Folders]:
    """Return the folders of `[NAME=]DIR` by name, else the folder's or schema's. Raises Refused, NotAnIndex."""
    collections: dict[str, Folders] = {}
    for word in indexes:
        name, folder = _split(word)
        index = index_place(folder)
        name = name or short_name(index)
        if name in collections:
            place = index_name(index)
            raise Refused(f"--index {place}: another collection is called {name}; write --index NAME={place}")
        collections[name] = Folders(index=index)
    for word in documents:
        name, folder = _split(word)
        if name is None and len(collections) == 1:
            [name] = collections
        if name is None or name not in collections:
            if not collections:
                raise Refused("--documents needs --index DIR, the folder of the index that is made of them")
            names = ", ".join(collections)
            raise Refused(f"--documents {word}: name its collection, one of {names}: NAME={Path(folder)}")
        if collections[name].documents:
            raise Refused(f"--documents {word}: the collection {name} has a folder of documents already")
        collections[name] = Folders(index=collections[name].index, documents=Path(folder))
    return collections


def _split(word: str) -> tuple[str | None, str]:
    """Split `[NAME=]DIR` into name and folder; the name is None if it is not given."""
    match = NAME_AND_FOLDER.fullmatch(word)
    return (match[1].strip(), match[2]) if match else (None, word)


def make_absolute(collections: Mapping[str, Folders]) -> dict[str, Folders]:
    """Return the collections with absolute folders, which do not depend on the working folder."""
    return {
        name: Folders(index=folders.index.absolute(), documents=folders.documents and folders.documents.absolute())
        for name, folders in collections.items()
    }


def require_own_folders(collections: Mapping[str, Folders]) -> None:
    """Refuse documents that made another index, and a folder with something else. Raises Refused, StorageError."""
    from storage.index import refuse_foreign
    from tasks.rag.indexing.index_report import read_status

    for folders in collections.values():
        if folders.documents:
            if is_secret(folders.documents):
                raise Refused(f"--documents {folders.documents}: {AMONG_SECRETS}")
            refuse_foreign(folders.index)
            with suppress(StorageError):  # no build has left a status that can be read
                status = read_status(folders.index)
                before = status.parameters.get("documents") if status else None
                # one that is relative was read in another folder, by an earlier version
                if before and Path(before).is_absolute() and Path(before) != folders.documents:
                    problem = f"--documents {folders.documents}: the index was made of {before}"
                    raise Refused(f"{problem}; name that folder, or another --index")


def require_indexes(collections: Mapping[str, Folders]) -> None:
    """Refuse a place without an index, unless documents are there to make it. Raises Refused, StorageError."""
    from storage.index import is_published

    for folders in collections.values():
        if folders.documents is None and not is_published(folders.index):
            remedy = "write one with `trivet rag index`, or name the folder of its documents by --documents"
            raise Refused(f"--index {index_name(folders.index)} holds no index; {remedy}")
