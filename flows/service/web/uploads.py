"""Files that a browser sends: streamed to the disk, checked, and put among the documents when all of them are there.

    parts of the body ─► .uploading-…/1, 2, 3 … (hidden, so no run reads them) ─► names, sizes and ZIPs are checked ─►
    the folder of the documents

What is wrong with one file is told of that file; what is wrong with the whole upload keeps none of it.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import time
import unicodedata
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import aclosing, closing, contextmanager, suppress
from dataclasses import dataclass, field
from filecmp import cmp
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from fastapi import Request
from fastapi.concurrency import run_in_threadpool
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from flows.service.web.visits import Problem
from tasks.documents.archives import ZipCaps, open_zip, printable, refusal
from tasks.documents.document_errors import DocumentError
from tasks.documents.formats import suffixes

if TYPE_CHECKING:
    from python_multipart.multipart import MultipartCallbacks

MOST_BYTES = 1_000_000_000
"""Most bytes of an upload, all its files together."""
MOST_FILES = 5_000
MOST_FIELD_BYTES = 1_000
SPARE_BYTES = 200_000_000
"""Room that an upload leaves on the disk, for the index and the database."""
STAGING = ".uploading-"
KEPT_S = 24 * 3600
"""Age from which what is left of an upload belongs to none that is under way."""
PIECE_BYTES = 1 << 20
PASSED_OVER = 3
"""Times the limit that is read of an upload."""
NAME_BYTES, PATH_BYTES, DEPTH = 255, 1_000, 20
"""What every file system takes."""
FULL = (errno.ENOSPC, errno.EDQUOT)


class Left(NamedTuple):
    """A file that was not taken."""

    name: str
    why: str


class Upload(NamedTuple):
    """What became of the files of an upload."""

    taken: tuple[str, ...]
    left: tuple[Left, ...]


class Limits(NamedTuple):
    """Of one upload, in bytes; spare: what stays free on the disk."""

    upload: int = MOST_BYTES
    spare: int = SPARE_BYTES


LIMITS = Limits()


class Staged(NamedTuple):
    """A file that has arrived."""

    name: str
    path: Path


_placing = Lock()


async def receive(
    request: Request, folder: Path, *, apart_from: Path, admit: Callable[[str], None], limits: Limits
) -> Upload:
    """Take the files of a multipart form into `folder`. Raises Problem, and has kept nothing then.

    apart_from: a folder that may lie within and takes no files, the index. admit: called with the field `token`, which
    must come before the first file; raises for one that is not ours.
    """
    kind, options = parse_options_header(request.headers.get("Content-Type"))
    if kind != b"multipart/form-data" or b"boundary" not in options:
        raise Problem(422, "this is no form with files; choose them on the page of the documents")
    with _staging(folder) as staging, closing(_Arriving(staging, folder, admit, limits)) as arriving:
        try:
            parser = MultipartParser(options[b"boundary"], arriving.callbacks)
            async with aclosing(_pieces(request)) as pieces:
                async for piece in pieces:
                    await run_in_threadpool(_feed, parser, piece, arriving)
        except FormParserError as error:
            said = f"the form cannot be read ({error}); load the page and send the files again"
            raise Problem(422, said) from error
        if arriving.problem:
            raise arriving.problem
        if not arriving.whole:
            raise Problem(422, "the upload ended before its last byte; send the files again")
        return await run_in_threadpool(_placed, arriving, folder, apart_from)


async def _pieces(request: Request) -> AsyncGenerator[bytes]:
    """The body in larger pieces: each costs a change of threads."""
    kept = bytearray()
    async for part in request.stream():
        kept += part
        if len(kept) >= PIECE_BYTES:
            yield bytes(kept)
            kept.clear()
    yield bytes(kept)


def _feed(parser: MultipartParser, piece: bytes, arriving: _Arriving) -> None:
    """Parse a piece. What follows a problem is passed over: a browser looks at the answer when it has sent all."""
    arriving.arrived += len(piece)
    if arriving.problem is None:
        try:
            with _told(arriving.folder):
                arriving.refuse_size()
                arriving.refuse_full_disk()
                parser.write(piece)
        except Problem as problem:
            arriving.problem = problem
    if arriving.problem and (not arriving.admitted or arriving.arrived > PASSED_OVER * arriving.limits.upload):
        raise arriving.problem


@contextmanager
def _staging(folder: Path) -> Generator[Path]:
    """A hidden folder on the disk of the documents, gone afterwards."""
    with _told(folder):
        for left in folder.glob(f"{STAGING}*"):  # of a server that was killed
            if time.time() - left.stat().st_mtime > KEPT_S:
                shutil.rmtree(left, ignore_errors=True)
        staging = Path(tempfile.mkdtemp(prefix=STAGING, dir=folder))
    try:
        yield staging
    finally:
        shutil.rmtree(staging, ignore_errors=True)


@contextmanager
def _told(folder: Path) -> Generator[None]:
    """What the system refuses, as a Problem."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            raise _full(folder) from error
        why = error.strerror or str(error)
        raise Problem(507, f"{folder} cannot be written ({why}); nothing of this upload was kept") from error


def _full(folder: Path) -> Problem:
    return Problem(507, f"the disk of {folder} is full; nothing of this upload was kept: free space and send it again")


@dataclass
class _Arriving:
    """The parts of a form as they come; each file is written as it comes."""

    staging: Path
    folder: Path
    admit: Callable[[str], None]
    limits: Limits
    arrived: int = 0
    """Bytes."""
    whole: bool = False
    problem: Problem | None = None
    staged: list[Staged] = field(default_factory=list[Staged])
    left: list[Left] = field(default_factory=list[Left])
    fields: dict[str, str] = field(default_factory=dict[str, str])
    admitted: bool = False
    _header: bytes = b""
    _value: bytes = b""
    _headers: dict[str, bytes] = field(default_factory=dict[str, bytes])
    _field: str | None = None
    _said: bytearray = field(default_factory=bytearray)
    _file: BinaryIO | None = None
    _files: int = 0

    @property
    def callbacks(self) -> MultipartCallbacks:
        """What the parser calls."""
        return {
            "on_part_begin": self._begin,
            "on_header_field": self._name_header,
            "on_header_value": self._read_header,
            "on_header_end": self._end_header,
            "on_headers_finished": self._open,
            "on_part_data": self._write,
            "on_part_end": self._close,
            "on_end": self._end,
        }

    def close(self) -> None:
        """Close the file that has not arrived."""
        if self._file:
            with suppress(OSError):  # what it still holds does not fit on the disk
                self._file.close()

    def refuse_size(self) -> None:
        """Raise Problem if more has come than is taken."""
        if self.arrived <= self.limits.upload:
            return
        most = f"{self.limits.upload:,} bytes"
        raise Problem(413, f"an upload has at most {most}; send fewer files at once, or copy them into {self.folder}")

    def refuse_full_disk(self) -> None:
        """Raise Problem if less than the spare room is left."""
        if shutil.disk_usage(self.folder).free < self.limits.spare:
            raise _full(self.folder)

    def _begin(self) -> None:
        self._headers, self._header, self._value = {}, b"", b""
        self._field, self._file = None, None
        self._said.clear()

    def _name_header(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def _read_header(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _end_header(self) -> None:
        self._headers[self._header.decode("latin-1").lower()] = self._value
        self._header, self._value = b"", b""

    def _open(self) -> None:
        told = self._headers.get("content-disposition", b"")
        _, options = parse_options_header(told.decode("latin-1"))
        name = options.get(b"filename")
        if name is None:
            self._field = options.get(b"name", b"").decode(errors="replace")
            return
        if not self.admitted:
            self.admit("")
        if name:  # an input without a file sends an empty name
            self._stage(unicodedata.normalize("NFC", name.decode(errors="replace")))

    def _stage(self, name: str) -> None:
        self._files += 1
        if self._files > MOST_FILES:
            raise Problem(413, f"an upload has at most {MOST_FILES:,} files; send a ZIP, or fewer of them")
        if why := fault_of_name(name):
            self.left.append(Left(printable(name), why))
            return
        path = self.staging / str(self._files)
        self.staged.append(Staged(name, path))
        self._file = path.open("xb")

    def _write(self, data: bytes, start: int, end: int) -> None:
        if self._file:
            self._file.write(data[start:end])
        elif self._field is not None:
            self._said += data[start:end]
            if len(self._said) > MOST_FIELD_BYTES:
                raise Problem(413, f"a field of this form has at most {MOST_FIELD_BYTES:,} bytes; load the page again")

    def _close(self) -> None:
        if self._file:
            self._file.close()
        elif self._field == "token":
            self.admit(self._said.decode(errors="replace"))
            self.admitted = True
        elif self._field is not None:
            self.fields[self._field] = self._said.decode(errors="replace")

    def _end(self) -> None:
        self.whole = True


def fault_of_name(name: str) -> str:
    """Why a file of this name is not taken; empty for one that is. Folders are parted by `/`."""
    parts = name.split("/")
    if name.startswith("/") or name[1:2] == ":":
        return "the name is an absolute one; a document lies below the folder of the documents"
    if "\\" in name or any(unicodedata.category(sign) in ("Cc", "Cs", "Zl", "Zp") for sign in name):
        return "the name has a backslash or a control character; rename the file"
    if any(part in ("", ".", "..") for part in parts):
        return "the name leads out of the folder of the documents, or has an empty part; rename the file"
    if any(part.startswith((".", "~$")) for part in parts):
        return "hidden files and lock files are not indexed"
    if max(len(os.fsencode(part)) for part in parts) > NAME_BYTES or len(parts) > DEPTH:
        return f"the name is too long: {NAME_BYTES} bytes a part, and {DEPTH} folders, are the most"
    if len(os.fsencode(name)) > PATH_BYTES:
        return f"the path is too long: {PATH_BYTES:,} bytes are the most"
    if not is_taken(name):
        return f"this format is not read; formats: {', '.join(sorted(suffixes()))}, .zip"
    return ""


def is_taken(name: str) -> bool:
    """Whether the name has the suffix of a format that is read, or of a ZIP."""
    return Path(name).suffix.lower() in {*suffixes(), ".zip"}


def _placed(arriving: _Arriving, folder: Path, apart_from: Path) -> Upload:
    """Put the files in place. Raises Problem."""
    replace, taken, left = bool(arriving.fields.get("replace")), dict[str, None](), list(arriving.left)
    with _placing, _told(folder):
        for one in arriving.staged:
            why = "it came twice in this upload; the first was taken" if one.name in taken else ""
            why = why or _fault_of_content(one) or _fault_of_place(one, folder, apart_from, replace=replace)
            if why:
                left.append(Left(one.name, why))
            else:
                taken[one.name] = None
                _move(one, folder)
    return Upload(tuple(taken), tuple(left))


def _fault_of_content(one: Staged) -> str:
    if one.path.stat().st_size == 0:
        return "the file is empty"
    if not one.name.lower().endswith(".zip"):
        return ""
    caps = ZipCaps()
    try:
        with open_zip(one.path, caps=caps) as archive:
            faults = (refusal(info, caps=caps) for info in archive.infolist())
            return next((f"{fault}; the ZIP was not taken" for fault in faults if fault), "")
    except DocumentError as error:
        return str(error)


def _fault_of_place(one: Staged, folder: Path, apart_from: Path, *, replace: bool) -> str:
    """Why the file cannot stand where its name says; empty if it can."""
    target = folder / one.name
    above = next(parent for parent in target.parents if parent.exists())
    if not above.is_dir():
        return f"{above.name} is a file, not a folder; rename the one or the other"
    if not above.resolve().is_relative_to(folder.resolve()):
        return "a link leads from there out of the folder of the documents"
    if target.resolve().is_relative_to(apart_from.resolve()):
        return "the index itself lies there; choose another name"
    if target.is_dir():
        return "a folder has this name; rename the one or the other"
    if target.is_symlink() or (target.exists() and not replace and not cmp(one.path, target, shallow=False)):
        return "another document has this name; remove that one first, or choose to replace it"
    return ""


def _move(one: Staged, folder: Path) -> None:
    """Into place; a file with the same bytes that is there already stays as it is."""
    target = folder / one.name
    if target.exists() and cmp(one.path, target, shallow=False):
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    one.path.replace(target)
