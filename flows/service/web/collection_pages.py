"""The pages that change documents: upload, remove, read again; one document with its pages; the run that indexes."""

from __future__ import annotations

import secrets
import unicodedata
from collections import Counter, OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from fastapi.responses import RedirectResponse, Response

from flows.service.live_index import Indexing
from flows.service.web import doors, uploads
from flows.service.web.place_page import in_collection_of, place_address
from flows.service.web.visits import Page, Problem, Visit
from storage.engines import index_name
from storage.segments import CatalogueEntry
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


_uploads: OrderedDict[str, uploads.Upload] = OrderedDict()


def upload_of(visit: Visit) -> uploads.Upload | None:
    """The upload that the address of the page names."""
    return _uploads.get(visit.query.get("upload", ""))


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
        visit.request, indexing.documents, apart_from=indexing.index, admit=visit.refuse_token, limits=uploads.LIMITS
    )
    if not upload.taken and not upload.left:
        raise Problem(422, "no file was chosen; choose files, a folder or a ZIP")
    if upload.taken:
        indexing.start()
    name = secrets.token_hex(8)
    _uploads[name] = upload
    if len(_uploads) > UPLOADS_TOLD:
        _uploads.popitem(last=False)
    return RedirectResponse(visit.to("/documents", upload=name), 303)


def _indexing(visit: Visit) -> Indexing:
    return cast(Indexing, visit.indexing)  # a page that needs a folder is shown only where there is one


def files_in(indexing: Indexing) -> dict[str, Path]:
    """The files of the folder by the names that documents have; hidden ones and those of the index left out."""
    return {
        unicodedata.normalize("NFC", file.relative_to(indexing.documents).as_posix()): file
        for file in indexing.files()
        if not file.name.startswith("~$")
    }


def _file_of(name: str, known: Mapping[str, Path]) -> Path:
    """The file of a document, or the ZIP that holds it. Raises Problem."""
    for own, path in known.items():
        if name == own or name.startswith(f"{own}/"):
            return path
    raise Problem(404, f"{name[:80]} is no longer in the folder of the documents; load the list again")


def _document(visit: Visit) -> Response:
    """One document: its pages with status and reason, its passages, and what can be done with it."""
    first, visit = visit.number("first"), in_collection_of(visit, visit.path["document"])
    with visit.live.borrow() as current:
        entry = current.index.entry(visit.path["document"])
        if entry is None:
            raise Problem(404, "this document is no longer in the index; the list has those that are")
        chunks = map(current.index.chunk, current.index.rows_of([entry.document]).nonzero()[0].tolist())
        passages = Counter(Chunk.model_validate_json(chunk).page for chunk in chunks)
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
            "link": place_address(entry.document, page, None, ""),
        }
        for page in pages
    ]


def _ask_removal(visit: Visit) -> Response:
    """What would be removed, with the button that does it."""
    name = visit.query.get("file", "")
    (paths, archive), folder = _files_to_remove(visit, name), _indexing(visit).documents
    shown = [path.relative_to(folder).as_posix() for path in paths]
    return visit.page("remove.html", name=name, paths=shown, archive=archive, folder=str(folder))


def _files_to_remove(visit: Visit, name: str) -> tuple[list[Path], bool]:
    """The files that hold the bytes of a document, which is not the last one, and whether one is a ZIP with others.

    Raises Problem.
    """
    indexing, names = _indexing(visit), [name]
    with suppress(StorageError), visit.live.borrow() as current:  # no generation yet: known by its name alone
        names += next((one.aliases for one in current.index.catalogue if one.name == name), ())
    known = files_in(indexing)
    files = list(dict.fromkeys(_file_of(one, known) for one in names))
    if any(uploads.is_taken(one) for one, path in known.items() if path not in files):
        return files, any(one not in known for one in names)
    said = "it is the last document, and no index is made of none: upload another one first, or, to give up the index,"
    raise Problem(409, f"{said} end the server and delete {index_name(indexing.index)} and {indexing.documents}")


def _remove(visit: Visit) -> Response:
    for path in _files_to_remove(visit, visit.form.get("file", ""))[0]:
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
        _file_of(name, files_in(_indexing(visit)))
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
