"""Finds the documents of a folder, its subfolders and zips, by content.

Files that match no pattern are listed as `skipped`, those that must not or cannot be read as `refused`.
"""

from __future__ import annotations

import io
import os
import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import IO
from zipfile import ZipFile, ZipInfo

from storage.artifacts import Artifacts
from storage.files import AMONG_SECRETS, SECRET_PARTS, is_secret
from storage.records import Record, Ref
from tasks.documents.archives import ZipCaps, escape_unprintable, explain_refusal, member_name, open_zip, read_member
from tasks.documents.document_errors import DocumentError
from tasks.documents.formats import detect_by_members, find_outside_reader, formats, suffixes
from tasks.rag.corpus import Source
from tasks.rag.rag_errors import FolderUnusable

IN_MEMORY_BYTES = 64 << 20
"""Size up to which a file is read once, and hashed and stored from memory."""
_LOCK_PREFIX = "~$"  # Office's own mark beside a document that is open somewhere


class ScannedFile(Record):
    """A file that is a document: the first of its content, by name."""

    name: str
    """Path below the folder, `/` between folders, NFC; within a zip `archive.zip/inner.pdf`."""
    content: Ref
    suffix: str
    """Lower case, with its dot."""
    reader: str | None = None
    """Name and version of the installed package that reads it; None for built-in formats."""


class Alias(Record):
    """A file whose content is that of a document of another name."""

    name: str
    document: str
    """Name of the document: of all files with its content the first in sort order."""


class Refused(Record):
    """A file that must not or cannot be read, with the reason."""

    name: str
    reason: str
    """Short code: secret, link, unreadable, not_a_file, archive, corrupt, needs_password, refused, unsupported."""
    message: str


class ScanResult(Record):
    """The files of a folder by what becomes of them, each group in the order of names."""

    files: tuple[ScannedFile, ...]
    aliases: tuple[Alias, ...] = ()
    refused: tuple[Refused, ...] = ()
    skipped: tuple[str, ...] = ()

    @property
    def sources(self) -> list[Source]:
        """The documents without their names, in their order."""
        return [Source(content=file.content, suffix=file.suffix, reader=file.reader) for file in self.files]

    def digests_of(self, names: Collection[str]) -> set[str]:
        """Return the digests of the documents that have, or whose aliases have, these names."""
        first = {alias.document for alias in self.aliases if alias.name in names}.union(names)
        return {file.content.digest for file in self.files if file.name in first}

    def by_name(self, by_digest: Mapping[str, str]) -> dict[str, str]:
        """Return messages by the names of documents in place of the first twelve digits of their digests."""
        names = {file.content.digest[:12]: file.name for file in self.files}
        return {names.get(digest, digest): message for digest, message in by_digest.items()}


def scan_folder(
    folder: Path, *, artifacts: Artifacts, include: Sequence[str] = (), exclude: Sequence[str] = ()
) -> ScanResult:
    """Find the documents below `folder`, and store their bytes in `artifacts` as kind `document`.

    A pattern is compared with the path below the folder, whatever its case: `*` and `?` stop at `/`, `**` does not;
    without a `/` it is compared with the file name in any folder (`*.pdf`); with one at its end it means all that is
    in such a folder (`drafts/`). `include` empty means every known suffix; `exclude` wins. Zips are opened unless
    excluded, and patterns then choose among what they hold. Hidden files and Office's lock files are passed over.
    Raises FolderUnusable, ReaderUnusable.
    """
    require_folder(folder)
    include = include or [f"*{suffix}" for suffix in suffixes()]
    scan = _Scan(folder.resolve(), artifacts, tuple(map(_matcher, include)), tuple(map(_matcher, exclude)))
    scan.scan_folder(os.fsencode(folder), "")
    if not scan.documents:
        troubles = "".join(f" {refused.name}: {refused.message}" for refused in scan.refused[:5])
        unread = len(scan.skipped) + len(scan.refused)
        raise FolderUnusable(
            f"The folder {escape_unprintable(str(folder))} holds no document to index, and {unread} other files. "
            f"Documents end in {', '.join(sorted(suffixes()))}, .zip; `--include` names others.{troubles}"
        )
    ordered = sorted(scan.documents, key=lambda file: file.name)
    first: dict[str, ScannedFile] = {}
    for file in ordered:
        first.setdefault(file.content.digest, file)
    names = ((file.name, first[file.content.digest].name) for file in ordered)
    files = list(first.values())
    if any(format.distribution for format in formats()):  # an installed package may read some
        files = [
            file.model_copy(update={"reader": find_outside_reader(artifacts.path(file.content), suffix=file.suffix)})
            for file in files
        ]
    return ScanResult(
        files=tuple(files),
        aliases=tuple(Alias(name=name, document=document) for name, document in names if name != document),
        refused=tuple(sorted(scan.refused, key=lambda refused: refused.name)),
        skipped=tuple(sorted(scan.skipped)),
    )


def require_folder(folder: Path) -> None:
    """Raise FolderUnusable where there is no such folder, a file of that name, or one among a home's secrets."""
    name = escape_unprintable(str(folder))
    if is_secret(folder):
        raise FolderUnusable(f"The folder {name} is not read: {AMONG_SECRETS}.")
    if not folder.is_dir():
        problem = "is not a folder" if folder.exists() else "does not exist"
        raise FolderUnusable(f"{name} {problem}; name the folder that the documents lie in.")


@dataclass
class _Scan:
    """A walk through a folder and what it found. Paths are bytes: not every name on a disk is text."""

    root: Path
    artifacts: Artifacts
    include: tuple[re.Pattern[str], ...]
    exclude: tuple[re.Pattern[str], ...]
    caps: ZipCaps = field(default_factory=ZipCaps)
    documents: list[ScannedFile] = field(default_factory=list[ScannedFile])
    refused: list[Refused] = field(default_factory=list[Refused])
    skipped: list[str] = field(default_factory=list[str])
    _names: set[str] = field(default_factory=set[str])
    _unpackable: int = 0
    """Number of bytes that the current zip, with the zips in it, may still unpack to."""

    def scan_folder(self, path: bytes, prefix: str) -> None:
        """Add everything below one folder to what was found, without hidden and lock files.

        A folder that cannot be opened is refused. prefix: its path below the root, with `/` at the end.
        """
        try:
            with os.scandir(path) as entries:
                ordered = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            self._refuse(prefix.rstrip("/") or ".", "unreadable", f"The folder cannot be opened ({error.strerror}).")
            return
        for entry in ordered:
            if not entry.name.startswith(b".") and not entry.name.startswith(_LOCK_PREFIX.encode()):
                self._scan_entry(entry, prefix + _name(entry.name))

    def _scan_entry(self, entry: os.DirEntry[bytes], name: str) -> None:
        """Add a file, or what a folder or zip holds, if the patterns take it; note what is skipped or refused."""
        is_zip = name.lower().endswith(".zip")
        at_risk = entry.is_symlink() or os.fsdecode(entry.name) in SECRET_PARTS
        if at_risk and is_secret(os.fsdecode(entry.path)):
            self._refuse(name, "secret", f"It is not read: {AMONG_SECRETS}.")
        elif entry.is_symlink() and (message := self._bad_link(entry)):
            self._refuse(name, "link", message)
        elif entry.is_dir():
            if not self._excludes(f"{name}/"):
                self.scan_folder(entry.path, f"{name}/")
        elif is_zip and self._excludes(name):
            return
        elif not is_zip and not self._takes(name):
            self.skipped.append(name)
        elif not entry.is_file():
            self._refuse(name, "not_a_file", "It is neither a file nor a folder, and is not opened.")
        else:
            try:
                if is_zip:
                    with open(entry.path, "rb") as file:  # noqa: PTH123 a Path cannot be made of bytes
                        self._unpackable = self.caps.total_bytes
                        self._scan_archive(file, name, nested=False)
                elif entry.stat().st_size <= IN_MEMORY_BYTES:
                    with open(entry.path, "rb") as file:  # noqa: PTH123 as above
                        self._add(name, self.artifacts.put("document", file.read()))
                else:
                    self._add(name, self.artifacts.put_file("document", Path(os.fsdecode(entry.path))))
            except OSError as error:
                self._refuse(name, "unreadable", f"The file cannot be read ({error.strerror}); check its permissions.")

    def _bad_link(self, entry: os.DirEntry[bytes]) -> str | None:
        """Return why a link is not followed; None for a link to a file of the folder."""
        try:
            target = Path(os.fsdecode(entry.path)).resolve(strict=True)
        except (OSError, RuntimeError):  # before Python 3.13 a loop of links is a RuntimeError
            return "The link leads nowhere, or to itself."
        if not target.is_relative_to(self.root):
            return "The link leads out of the folder; put the file itself there, or index its own folder."
        if target.is_dir():
            return "The link leads to a folder that is searched under its own name."
        return None

    def _scan_archive(self, file: IO[bytes], name: str, *, nested: bool) -> None:
        """Scan the members of a zip (`nested`: one in another); a document with the suffix of a zip is added as one."""
        try:
            archive = open_zip(file, caps=self.caps)
        except DocumentError as error:
            self._refuse(name, error.reason, str(error))
            return
        with archive:
            if detect_by_members(frozenset(archive.namelist())):  # a document under the wrong suffix
                file.seek(0)
                self._add(name, self.artifacts.put("document", file.read()))
                return
            for info in archive.infolist():
                inner = member_name(info)
                # hidden members, Office's lock files, and the shadows that a Mac packs beside every file
                parts = inner.split("/")
                hidden = any(part.startswith(".") and part.strip(".") for part in parts)
                passed_over = hidden or parts[-1].startswith(_LOCK_PREFIX) or parts[0] == "__MACOSX"
                if not info.is_dir() and not passed_over:
                    self._scan_member(archive, info, f"{name}/{escape_unprintable(inner)}", nested=nested)

    def _scan_member(self, archive: ZipFile, info: ZipInfo, name: str, *, nested: bool) -> None:
        """Add a file of a zip, or the files of a zip in it, if the patterns take it; note what is refused."""
        if message := explain_refusal(info, caps=self.caps):
            self._refuse(name, "refused", f"{message}.")
            return
        is_zip = name.lower().endswith(".zip")
        if is_zip and nested:
            self._refuse(name, "archive", "It is a zip within a zip within a zip; unpack it and index the folder.")
            return
        if not is_zip and not self._takes(name):
            self.skipped.append(name)
            return
        self._unpackable -= info.file_size  # what the zip says of itself; read_member unpacks no more than that
        if self._unpackable < 0:
            most = f"{self.caps.total_bytes:,} bytes"
            self._refuse(name, "refused", f"The zip and the zips in it unpack to more than {most}; unpack it yourself.")
            return
        try:
            data = read_member(archive, info)
        except DocumentError as error:
            self._refuse(name, error.reason, str(error))
            return
        if not is_zip:
            self._add(name, self.artifacts.put("document", data))
        elif not self._excludes(name):
            self._scan_archive(io.BytesIO(data), name, nested=True)

    def _add(self, name: str, content: Ref) -> None:
        suffix = os.path.splitext(name)[1].lower()  # noqa: PTH122 a thousand Paths cost more than the files
        self.documents.append(ScannedFile(name=self._free_name(name), content=content, suffix=suffix))

    def _refuse(self, name: str, reason: str, message: str) -> None:
        self.refused.append(Refused(name=self._free_name(name), reason=reason, message=message))

    def _excludes(self, name: str) -> bool:
        return any(pattern.fullmatch(name) for pattern in self.exclude)

    def _takes(self, name: str) -> bool:
        return any(pattern.fullmatch(name) for pattern in self.include) and not self._excludes(name)

    def _free_name(self, name: str) -> str:
        """Return the name, numbered if another file has it too: two names on the disk may be one in NFC."""
        stem, suffix = os.path.splitext(name)  # noqa: PTH122 as in _add
        free, number = name, 2
        while free in self._names:
            free, number = f"{stem} ({number}){suffix}", number + 1
        self._names.add(free)
        return free


def _name(raw: bytes) -> str:
    """Return a file's name as text in NFC; bytes that are not UTF-8 are read as CP949, which old Korean disks use."""
    for encoding in ("utf-8", "cp949"):
        try:
            return escape_unprintable(unicodedata.normalize("NFC", raw.decode(encoding)))
        except UnicodeDecodeError:
            continue
    return raw.decode("utf-8", errors="backslashreplace")


_WILDCARDS = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


@cache
def _matcher(pattern: str) -> re.Pattern[str]:
    """Compile a glob to a regular expression over a whole relative path."""
    glob = unicodedata.normalize("NFC", pattern).removeprefix("./").lstrip("/")
    anywhere = "/" not in glob.rstrip("/")
    glob = ("**/" if anywhere else "") + glob + ("**" if glob.endswith("/") else "")
    expression = ""
    for part in re.findall(r"\*\*/|\*\*|\*|\?|\[!?\]?[^\]]*\]|.", glob, re.DOTALL):
        if part in _WILDCARDS:
            expression += _WILDCARDS[part]
        elif len(part) > 1:  # a set of characters, of which `]` may be the first, as in fnmatch
            negated = part[1] == "!"
            expression += ("[^" if negated else "[") + re.escape(part[1 + negated : -1]).replace(r"\-", "-") + "]"
        else:
            expression += re.escape(part)
    return re.compile(expression, re.IGNORECASE | re.DOTALL)
