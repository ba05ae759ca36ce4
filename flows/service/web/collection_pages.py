"""The pages that change documents: upload, remove, read again; one document with its pages; the run that indexes.

    parts of a form ─► .uploading-…/1, 2, 3 … (hidden, so no run reads them) ─► names, sizes and ZIPs are checked ─►
    the folder of the documents

What is wrong with one file is told of that file; what is wrong with the whole upload keeps none of it.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import tempfile
import time
import unicodedata
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from filecmp import cmp
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

from fastapi import Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse, Response
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException

from flows.service.live_index import Indexing
from flows.service.web import doors
from flows.service.web.place_page import in_collection_of, place_address
from flows.service.web.visits import Pages, Problem, Visit
from storage.engines import index_name
from storage.storage_errors import StorageError
from tasks.documents.archives import ZipCaps, escape_unprintable, explain_refusal, open_zip
from tasks.documents.document_errors import DocumentError
from tasks.documents.formats import suffixes
from tasks.rag.indexing.chunks import Chunk

STEPS = {
    "": "Starting",
    "scan": "Looking at the files",
    "parse": "Reading the documents",
    "extract_figures": "Looking at the figures",
    "chunk": "Cutting into passages",
    "embed": "Making them findable",
    "publish_index": "Publishing the index",
}
PAGE = 200
"""Pages of a document on one page."""
MOST_UPLOADS = 50
"""Uploads whose outcome is kept for their page."""
MOST_BYTES = 1_000_000_000
"""Most bytes of an upload, all its files together."""
MOST_FILES, MOST_FIELDS, MOST_FIELD_BYTES = 5_000, 10, 1_024
SPARE_BYTES = 200_000_000
"""Room that an upload leaves on the disk, for the index and the database."""
STAGING = ".uploading-"
KEPT_S = 24 * 3600
"""Age from which what is left of an upload belongs to none that is under way."""
NAME_BYTES, PATH_BYTES, DEPTH = 255, 1_000, 20
"""Longest name, longest path and deepest folder that every file system takes."""
FULL = (errno.ENOSPC, errno.EDQUOT)


class RefusedFile(NamedTuple):
    """A file of an upload that was refused, with the reason."""

    name: str
    why: str


class Upload(NamedTuple):
    """The files of an upload that were accepted, by name, and those that were refused."""

    accepted: tuple[str, ...]
    refused: tuple[RefusedFile, ...]


_placing = Lock()
pages = Pages()
_uploads: OrderedDict[str, Upload] = OrderedDict()


def upload_of(visit: Visit) -> Upload | None:
    """Return the upload that the address of the page names; None where it is forgotten."""
    return _uploads.get(visit.query.get("upload", ""))


def run_values(visit: Visit) -> dict[str, Any] | None:
    """Return what the template of the run needs; None where nothing is indexed here."""
    indexing = visit.indexing
    if indexing is None:
        return None
    state, status = indexing.state(), indexing.status()
    return {
        "state": state,
        "said": STEPS.get(state.step, state.step),
        "at": status.ended if status else None,
        "link": visit.to("/documents/run", ended=state.ended),
    }


@pages.get("/documents/run")
def show_indexing(visit: Visit) -> Response:
    """Show the run as a part of the page, which loads anew when the run has ended. Raises Problem."""
    values = run_values(visit)
    if values is None:
        raise Problem(404, "nothing is indexed here; start the server with --documents DIR")
    response = visit.page("run_part.html" if visit.is_part else "run_page.html", indexing=values, documents=1)
    if visit.is_part and not values["state"].running:
        response.headers["HX-Refresh"] = "true"
    return response


@pages.post("/documents/upload", multipart=True)
async def upload_files(visit: Visit) -> Response:
    """Take files into the folder of the documents, and index. Raises Problem."""
    indexing = _indexing(visit)
    upload = await receive_files(visit.request, indexing.documents, apart_from=indexing.index, admit=visit.refuse_token)
    if not upload.accepted and not upload.refused:
        raise Problem(422, "no file was chosen; choose files, a folder or a ZIP")
    if upload.accepted:
        visit.note_act("upload", *upload.accepted)
        indexing.start()
    name = secrets.token_hex(8)
    _uploads[name] = upload
    if len(_uploads) > MOST_UPLOADS:
        _uploads.popitem(last=False)
    return RedirectResponse(visit.to("/documents", upload=name), 303)


def _indexing(visit: Visit) -> Indexing:
    """Return what indexes the documents that a page changes. Raises Problem where there are none to change."""
    if visit.indexing is None:
        raise Problem(409, "this server has no folder of documents; start it with --documents DIR")
    return visit.indexing


def files_in(indexing: Indexing) -> dict[str, Path]:
    """Return the files of the folder by the names that documents have, without hidden ones and those of the index."""
    return {
        unicodedata.normalize("NFC", file.relative_to(indexing.documents).as_posix()): file
        for file in indexing.files()
        if not file.name.startswith("~$")  # lock files of Office
    }


def _find_file(name: str, files_by_name: Mapping[str, Path]) -> Path:
    """Return the file of a document, or the ZIP that holds it. Raises Problem."""
    for own, path in files_by_name.items():
        if name == own or name.startswith(f"{own}/"):
            return path
    raise Problem(404, f"{name[:80]} is no longer in the folder of the documents; load the list again")


@pages.get("/documents/remove")
def confirm_removal(visit: Visit) -> Response:
    """Show what would be removed, with the button that does it. Raises Problem."""
    name = visit.query.get("file", "")
    (files, archive), folder = _files_to_remove(visit, name), _indexing(visit).documents
    paths = [path.relative_to(folder).as_posix() for path in files]
    return visit.page("remove.html", name=name, paths=paths, archive=archive, folder=str(folder))


def _files_to_remove(visit: Visit, name: str) -> tuple[list[Path], bool]:
    """Return the files with a document's bytes; whether one is a ZIP of more. Raises Problem, also for the last one."""
    indexing, names = _indexing(visit), [name]
    with suppress(StorageError), visit.live.borrow() as current:  # no generation yet: known by its name alone
        names += next((entry.aliases for entry in current.index.catalogue if entry.name == name), ())
    files_by_name = files_in(indexing)
    files = list(dict.fromkeys(_find_file(alias, files_by_name) for alias in names))
    if any(is_taken(file_name) for file_name, path in files_by_name.items() if path not in files):
        return files, any(alias not in files_by_name for alias in names)
    raise Problem(
        409,
        "it is the last document, and no index is made of none: upload another one first, or, to give up the index, "
        f"end the server and delete {index_name(indexing.index)} and {indexing.documents}",
    )


@pages.post("/documents/remove")
def remove_document(visit: Visit) -> Response:
    """Remove the files that hold a document, and index. Raises Problem."""
    for path in _files_to_remove(visit, visit.form.get("file", ""))[0]:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise Problem(507, f"{path.name} cannot be removed ({error.strerror}); see who owns it") from error
    visit.note_act("removal", visit.form.get("file", ""))
    _indexing(visit).start()
    return RedirectResponse(visit.to("/documents"), 303)


@pages.post("/documents/again")
def read_again(visit: Visit) -> Response:
    """Index once more; a document that is named is read again. Raises Problem."""
    name = visit.form.get("file", "")
    if name:
        _find_file(name, files_in(_indexing(visit)))
    visit.note_act("rerun", name)
    _indexing(visit).start([name] if name else ())
    return RedirectResponse(visit.to("/documents"), 303)


@pages.get("/documents/{document}")
def show_document(visit: Visit) -> Response:
    """Show a document: pages with status and reason, passages, and what can be done with it. Raises Problem."""
    first, visit = visit.number("first"), in_collection_of(visit, visit.path["document"])
    with visit.live.borrow() as current:
        entry = current.index.entry(visit.path["document"])
        if entry is None:
            raise Problem(404, "this document is no longer in the index; the list has those that are")
        chunks = map(current.index.chunk, current.index.rows_of([entry.document]).nonzero()[0].tolist())
        passages = Counter(Chunk.model_validate_json(chunk).page for chunk in chunks)
    status = doors.statuses_of(visit.live.folder).get(entry.document)
    troubled = {page.page: page for page in (status.troubled_pages if status else ())}
    pages: list[int | None] = [*range(1, entry.pages + 1)] if entry.pages else [None]  # a row for all without pages
    rows = [
        {
            "page": page,
            "status": troubled[page].status if page in troubled else entry.status,
            "reason": troubled[page].reason if page in troubled else "",
            "passages": passages[page],
            "link": place_address(entry.document, page, None, ""),
        }
        for page in pages
    ]
    return visit.page(
        "document.html",
        entry=entry,
        told=status,
        reason=status.message or status.reason if status else "",
        notes=status.notes if status else (),
        rows=rows[first : first + PAGE],
        troubled=len(status.troubled_pages) if status else 0,
        more=visit.to(f"/documents/{entry.document}", first=first + PAGE) if len(rows) > first + PAGE else "",
        before=visit.to(f"/documents/{entry.document}", first=max(0, first - PAGE)) if first else "",
    )


async def receive_files(request: Request, folder: Path, *, apart_from: Path, admit: Callable[[str], None]) -> Upload:
    """Take the files of a multipart form into `folder`; return what was taken. Raises Problem, and keeps nothing then.

    apart_from: a folder that may lie within and takes no files, the index. admit: called with the field `token`;
    raises for one that is not ours.
    """
    if not request.headers.get("Content-Type", "").startswith("multipart/form-data"):
        raise Problem(422, "this is no form with files; choose them on the page of the documents")
    size = request.headers.get("Content-Length", "")
    if not size.isdecimal():
        raise Problem(411, "this upload does not say how large it is; send it from a browser")
    if int(size) > MOST_BYTES:
        limit = f"{MOST_BYTES:,} bytes"
        raise Problem(413, f"an upload has at most {limit}; send fewer files at once, or copy them into {folder}")
    # Starlette's copy lies in the system's folder of temporary files until ours stands among the documents
    spool = Path(tempfile.gettempdir())
    copies = 2 if spool.stat().st_dev == folder.stat().st_dev else 1
    if shutil.disk_usage(folder).free - copies * int(size) < SPARE_BYTES:
        raise _disk_full(folder)
    if shutil.disk_usage(spool).free < int(size):
        raise _disk_full(spool)
    try:
        form = request.form(max_files=MOST_FILES, max_fields=MOST_FIELDS, max_part_size=MOST_FIELD_BYTES)
        async with form as parts:
            admit(str(parts.get("token", "")))
            return await run_in_threadpool(_place_files, parts, folder, apart_from)
    except Problem:
        raise
    except OSError as error:
        if error.errno in FULL:
            raise _disk_full(folder) from error
        why = error.strerror or str(error)
        raise Problem(507, f"{folder} cannot be written ({why}); nothing of this upload was kept") from error
    except HTTPException as error:
        too_much = error.detail.startswith("Too many") or "exceeded" in error.detail  # Starlette has no code for it
        problem = f"the form cannot be read ({error.detail}); send a ZIP or fewer files, or load the page again"
        raise Problem(413 if too_much else 422, problem) from error


def _disk_full(folder: Path) -> Problem:
    return Problem(507, f"the disk of {folder} is full; nothing of this upload was kept: free space and send it again")


def _place_files(parts: FormData, folder: Path, apart_from: Path) -> Upload:
    """Copy the files to a hidden folder on the disk of the documents, check them, and move what passes into place."""
    for old in folder.glob(f"{STAGING}*"):  # of a server that was killed
        if time.time() - old.stat().st_mtime > KEPT_S:
            shutil.rmtree(old, ignore_errors=True)
    replace, accepted, refused = bool(parts.get("replace")), dict[str, None](), list[RefusedFile]()
    with tempfile.TemporaryDirectory(prefix=STAGING, dir=folder, ignore_cleanup_errors=True) as staging:
        staged: list[tuple[str, Path]] = []
        for number, part in enumerate(part for _, part in parts.multi_items() if isinstance(part, UploadFile)):
            name = unicodedata.normalize("NFC", part.filename or "")  # macOS sends Hangul and accents decomposed
            if not name:  # an input without a file sends an empty name
                continue
            if why := fault_of_name(name):
                refused.append(RefusedFile(escape_unprintable(name), why))
                continue
            staged.append((name, Path(staging, str(number))))
            with staged[-1][1].open("xb") as file:
                shutil.copyfileobj(part.file, file)
        with _placing:
            for name, path in staged:
                why = "it came twice in this upload; the first was taken" if name in accepted else ""
                why = why or _fault_of_content(name, path)
                why = why or _fault_of_place(path, folder / name, folder, apart_from, replace=replace)
                if why:
                    refused.append(RefusedFile(name, why))
                    continue
                accepted[name] = None
                target = folder / name
                if not (target.exists() and cmp(path, target, shallow=False)):
                    target.parent.mkdir(parents=True, exist_ok=True)
                    path.replace(target)
    return Upload(tuple(accepted), tuple(refused))


def fault_of_name(name: str) -> str:
    """Return why a file of this name is not taken; empty for one that is. Folders are parted by `/`."""
    parts = name.split("/")
    if name.startswith("/") or name[1:2] == ":":  # the latter: a drive of Windows
        return "the name is an absolute one; a document lies below the folder of the documents"
    if "\\" in name or escape_unprintable(name) != name:  # such a sign may turn round what follows: `fdp.exe`
        return "the name has a backslash, a control character or an invisible one; rename the file"
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
    """Return whether the name has the suffix of a format that is read, or of a ZIP."""
    return Path(name).suffix.lower() in {*suffixes(), ".zip"}


def _fault_of_content(name: str, path: Path) -> str:
    """Return why an uploaded file is not taken; empty for one that is."""
    if path.stat().st_size == 0:
        return "the file is empty"
    if not name.lower().endswith(".zip"):
        return ""
    caps = ZipCaps()
    try:
        with open_zip(path, caps=caps) as archive:
            faults = (
                "a name in it has an invisible character"
                if escape_unprintable(info.filename) != info.filename
                else explain_refusal(info, caps=caps)
                for info in archive.infolist()
            )
            return next((f"{fault}; the ZIP was not taken" for fault in faults if fault), "")
    except DocumentError as error:
        return str(error)


def _fault_of_place(path: Path, target: Path, folder: Path, apart_from: Path, *, replace: bool) -> str:
    """Return why the file cannot stand at `target`; empty if it can."""
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
