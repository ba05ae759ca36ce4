"""Files that a browser sends: taken from the form, checked, and put among the documents.

    parts of the form ─► .uploading-…/1, 2, 3 … (hidden, so no run reads them) ─► names, sizes and ZIPs are checked ─►
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
from collections.abc import Callable, Generator
from contextlib import contextmanager
from filecmp import cmp
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from fastapi import Request
from fastapi.concurrency import run_in_threadpool
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException

from flows.service.web.visits import Problem
from tasks.documents.archives import ZipCaps, open_zip, printable, refusal
from tasks.documents.document_errors import DocumentError
from tasks.documents.formats import suffixes

MOST_BYTES = 1_000_000_000
"""Most bytes of an upload, all its files together."""
MOST_FILES, MOST_FIELDS, MOST_FIELD_BYTES = 5_000, 10, 1_000
SPARE_BYTES = 200_000_000
"""Room that an upload leaves on the disk, for the index and the database."""
STAGING = ".uploading-"
KEPT_S = 24 * 3600
"""Age from which what is left of an upload belongs to none that is under way."""
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
_placing = Lock()


async def receive(
    request: Request, folder: Path, *, apart_from: Path, admit: Callable[[str], None], limits: Limits
) -> Upload:
    """Take the files of a multipart form into `folder`. Raises Problem, and has kept nothing then.

    apart_from: a folder that may lie within and takes no files, the index. admit: called with the field `token`;
    raises for one that is not ours.
    """
    if not request.headers.get("Content-Type", "").startswith("multipart/form-data"):
        raise Problem(422, "this is no form with files; choose them on the page of the documents")
    size = request.headers.get("Content-Length", "")
    if not size.isdecimal():
        raise Problem(411, "this upload does not say how large it is; send it from a browser")
    if int(size) > limits.upload:
        most = f"{limits.upload:,} bytes"
        raise Problem(413, f"an upload has at most {most}; send fewer files at once, or copy them into {folder}")
    # Starlette's copy lies in the system's folder of temporary files until ours stands among the documents
    spool = Path(tempfile.gettempdir())
    copies = 2 if spool.stat().st_dev == folder.stat().st_dev else 1
    if shutil.disk_usage(folder).free - copies * int(size) < limits.spare:
        raise _full(folder)
    if shutil.disk_usage(spool).free < int(size):
        raise _full(spool)
    try:
        with _told(folder):
            form = request.form(max_files=MOST_FILES, max_fields=MOST_FIELDS, max_part_size=MOST_FIELD_BYTES)
            async with form as parts:
                admit(str(parts.get("token", "")))
                return await run_in_threadpool(_place, parts, folder, apart_from)
    except Problem:
        raise
    except HTTPException as error:
        too_much = error.detail.startswith("Too many") or "exceeded" in error.detail
        said = f"the form cannot be read ({error.detail}); send a ZIP or fewer files, or load the page again"
        raise Problem(413 if too_much else 422, said) from error


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


def _place(parts: FormData, folder: Path, apart_from: Path) -> Upload:
    """Copy the files to a hidden folder on the disk of the documents, check them, and move them into place."""
    for old in folder.glob(f"{STAGING}*"):  # of a server that was killed
        if time.time() - old.stat().st_mtime > KEPT_S:
            shutil.rmtree(old, ignore_errors=True)
    replace, taken, left = bool(parts.get("replace")), dict[str, None](), list[Left]()
    with tempfile.TemporaryDirectory(prefix=STAGING, dir=folder, ignore_cleanup_errors=True) as staging:
        staged: list[tuple[str, Path]] = []
        for number, part in enumerate(part for _, part in parts.multi_items() if isinstance(part, UploadFile)):
            name = unicodedata.normalize("NFC", part.filename or "")
            if not name:  # an input without a file sends an empty name
                continue
            if why := fault_of_name(name):
                left.append(Left(printable(name), why))
                continue
            staged.append((name, Path(staging, str(number))))
            with staged[-1][1].open("xb") as file:
                shutil.copyfileobj(part.file, file)
        with _placing:
            for name, path in staged:
                why = "it came twice in this upload; the first was taken" if name in taken else ""
                why = why or _fault_of_content(name, path)
                why = why or _fault_of_place(path, folder / name, folder, apart_from, replace=replace)
                if why:
                    left.append(Left(name, why))
                    continue
                taken[name] = None
                target = folder / name
                if not (target.exists() and cmp(path, target, shallow=False)):
                    target.parent.mkdir(parents=True, exist_ok=True)
                    path.replace(target)
    return Upload(tuple(taken), tuple(left))


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


def _fault_of_content(name: str, path: Path) -> str:
    if path.stat().st_size == 0:
        return "the file is empty"
    if not name.lower().endswith(".zip"):
        return ""
    caps = ZipCaps()
    try:
        with open_zip(path, caps=caps) as archive:
            faults = (refusal(info, caps=caps) for info in archive.infolist())
            return next((f"{fault}; the ZIP was not taken" for fault in faults if fault), "")
    except DocumentError as error:
        return str(error)


def _fault_of_place(path: Path, target: Path, folder: Path, apart_from: Path, *, replace: bool) -> str:
    """Why the file cannot stand at `target`; empty if it can."""
    above = next(parent for parent in target.parents if parent.exists())
    if not above.is_dir():
        return f"{above.name} is a file, not a folder; rename the one or the other"
    if not above.resolve().is_relative_to(folder.resolve()):
        return "a link leads from there out of the folder of the documents"
    if target.resolve().is_relative_to(apart_from.resolve()):
        return "the index itself lies there; choose another name"
    if target.is_dir():
        return "a folder has this name; rename the one or the other"
    if target.is_symlink() or (target.exists() and not replace and not cmp(path, target, shallow=False)):
        return "another document has this name; remove that one first, or choose to replace it"
    return ""
