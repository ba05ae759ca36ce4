"""The pages that change documents: upload, remove, read again; one document with its pages; the run that indexes."""

from __future__ import annotations

import secrets
import unicodedata
from collections import Counter, OrderedDict
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, cast
from urllib.parse import urlencode

from fastapi.responses import RedirectResponse, Response

from flows.service.indexing import Indexing, files_below
from flows.service.web import doors, uploads
from flows.service.web.place_page import in_collection_of
from flows.service.web.visits import ROOT, Page, Problem, Visit
from storage.catalogue import CatalogueEntry
from storage.engines import index_name
from storage.index import Index
from storage.storage_errors import StorageError
from tasks.rag.indexing.chunks import Chunk
from tasks.rag.indexing.index_report import DocumentStatus

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
UPLOADS_TOLD = 50
"""Uploads whose outcome is kept for their page."""


class _Told:
    """What became of the last uploads, by a name that their page's address has."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._uploads: OrderedDict[str, uploads.Upload] = OrderedDict()

    def keep(self, upload: uploads.Upload) -> str:
        name = secrets.token_hex(8)
        with self._lock:
            self._uploads[name] = upload
            if len(self._uploads) > UPLOADS_TOLD:
                self._uploads.popitem(last=False)
        return name

    def find(self, name: str) -> uploads.Upload | None:
        with self._lock:
            return self._uploads.get(name)


_told = _Told()


def upload_told(visit: Visit) -> uploads.Upload | None:
    """The upload that the address of the page names."""
    return _told.find(visit.query.get("upload", ""))


def run_values(visit: Visit) -> dict[str, Any] | None:
    """What the template of the run needs; None where nothing is indexed here."""
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


def _run(visit: Visit) -> Response:
    """The run as a part of the page, which loads anew when the run has ended."""
    values = run_values(visit)
    if values is None:
        raise Problem(404, "nothing is indexed here; start the server with --documents DIR")
    response = visit.page("run_part.html" if visit.is_part else "run_page.html", indexing=values, documents=1)
    if visit.is_part and not values["state"].running:
        response.headers["HX-Refresh"] = "true"
    return response


async def _upload(visit: Visit) -> Response:
    indexing = _indexing(visit)
    upload = await uploads.receive(
        visit.request,
        indexing.documents,
        apart_from=indexing.index,
        admit=visit.refuse_token,
        limits=uploads.LIMITS,
    )
    if not upload.taken and not upload.left:
        raise Problem(422, "no file was chosen; choose files, a folder or a ZIP")
    if upload.taken:
        indexing.start()
    return RedirectResponse(visit.to("/documents", upload=_told.keep(upload)), 303)


def _indexing(visit: Visit) -> Indexing:
    return cast(Indexing, visit.indexing)  # a page that needs a folder is shown only where there is one


class Files(NamedTuple):
    """What a document is on the disk."""

    paths: tuple[Path, ...]
    archive: bool
    """It lies in a ZIP, which holds others too."""


def files_of(name: str, indexing: Indexing) -> Files:
    """The file of this name, or the ZIP that holds it. Raises Problem."""
    known = files_in(indexing)
    if name in known:
        return Files((known[name],), archive=False)
    holding = [path for own, path in known.items() if name.startswith(f"{own}/")]
    if not holding:
        raise Problem(404, f"{name[:80]} is no longer in the folder of the documents; load the list again")
    return Files((holding[0],), archive=True)


def files_in(indexing: Indexing) -> dict[str, Path]:
    """The files of the folder by the names that documents have; hidden ones and those of the index left out."""
    return {
        unicodedata.normalize("NFC", file.relative_to(indexing.documents).as_posix()): file
        for file in files_below(indexing.documents, apart_from=indexing.index)
        if not file.name.startswith("~$")
    }


def _document(visit: Visit) -> Response:
    """One document: its pages with status and reason, its passages, and what can be done with it."""
    start = visit.query.get("first", "0")
    if not start.isdecimal() or int(start) > 10**7:
        raise Problem(404, f"{start[:20]} is no page; pages count from 0 here")
    first, visit = int(start), in_collection_of(visit, visit.path["document"])
    with visit.live.borrow() as current:
        entry = _entry(visit, current.index)
        passages = _passages(current.index, entry)
    status = doors.statuses_of(visit.live.folder).get(entry.document)
    rows = _pages(entry, status, passages)
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
        numbers=visit.to("/numbers", entity=entry.name),
    )


def _entry(visit: Visit, index: Index) -> CatalogueEntry:
    found = index.entry(visit.path["document"])
    if found is None:
        raise Problem(404, "this document is no longer in the index; the list has those that are")
    return found


def _passages(index: Index, entry: CatalogueEntry) -> Counter[int | None]:
    """Passages by page."""
    rows = index.rows_of([entry.document]).nonzero()[0]
    return Counter(Chunk.model_validate_json(index.chunk(int(row))).page for row in rows)


def _pages(entry: CatalogueEntry, status: DocumentStatus | None, passages: Counter[int | None]) -> list[dict[str, Any]]:
    """A row for each page; one for all where there are no pages."""
    troubled = {one.page: one for one in (status.troubled_pages if status else ())}
    pages: list[int | None] = [*range(1, entry.pages + 1)] if entry.pages else [None]
    return [
        {
            "page": page,
            "status": troubled[page].status if page in troubled else entry.status,
            "reason": troubled[page].reason if page in troubled else "",
            "passages": passages[page],
            "link": f"{ROOT}/place?{urlencode({'document': entry.document, 'page': page or ''})}",
        }
        for page in pages
    ]


def _ask_removal(visit: Visit) -> Response:
    """What would be removed, with the button that does it."""
    name = visit.query.get("file", "")
    paths, archive = _to_remove(visit, name)
    folder = _indexing(visit).documents
    shown = [path.relative_to(folder).as_posix() for path in paths]
    return visit.page("remove.html", name=name, paths=shown, archive=archive, folder=str(folder))


def _to_remove(visit: Visit, name: str) -> Files:
    """The files of a document that is not the last one. Raises Problem."""
    indexing, files = _indexing(visit), _with_aliases(visit, name)
    others = (one for one, path in files_in(indexing).items() if path not in files.paths)
    if any(uploads.is_taken(one) for one in others):
        return files
    said = "it is the last document, and no index is made of none: upload another one first, or, to give up the index,"
    raise Problem(409, f"{said} end the server and delete {index_name(indexing.index)} and {indexing.documents}")


def _with_aliases(visit: Visit, name: str) -> Files:
    """The files of a document: each of them holds the same bytes. Raises Problem."""
    names = [name]
    try:
        with visit.live.borrow() as current:
            names += next((one.aliases for one in current.index.catalogue if one.name == name), ())
    except StorageError:  # no generation yet: the file is known by its name alone
        pass
    found = [files_of(one, _indexing(visit)) for one in names]
    paths = dict.fromkeys(path for one in found for path in one.paths)
    return Files(tuple(paths), any(one.archive for one in found))


def _remove(visit: Visit) -> Response:
    for path in _to_remove(visit, visit.form.get("file", "")).paths:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise Problem(507, f"{path.name} cannot be removed ({error.strerror}); see who owns it") from error
    _indexing(visit).start()
    return RedirectResponse(visit.to("/documents"), 303)


def _read_again(visit: Visit) -> Response:
    """Index once more; a document that is named is read again."""
    name = visit.form.get("file", "")
    if name:
        files_of(name, _indexing(visit))
    _indexing(visit).start([name] if name else ())
    return RedirectResponse(visit.to("/documents"), 303)


PAGES = (
    Page("GET", "/documents/run", _run),
    Page("POST", "/documents/upload", _upload, needs_folder=True, multipart=True),
    Page("GET", "/documents/remove", _ask_removal, needs_folder=True),
    Page("POST", "/documents/remove", _remove, needs_folder=True),
    Page("POST", "/documents/again", _read_again, needs_folder=True),
    Page("GET", "/documents/{document}", _document),
)
