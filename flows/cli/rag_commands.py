"""`trivet rag`: documents become an index, which is searched, asked and measured."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli import show
from flows.cli.commands import App, Json
from flows.cli.index_command import register as register_index
from flows.cli.index_command import require_variable
from flows.cli.options import Flag, Given, Options, command, nested
from flows.cli.output import REFUSED, emit, fail, plain_errors
from flows.cli.shared_options import (
    Bm25Weight,
    DocumentOption,
    IndexFolder,
    RouteOption,
    Strategy,
    TopK,
    model_errors,
    require_file,
)
from tasks.rag.rag_defaults import STRATEGY

if TYPE_CHECKING:
    from storage.index import Index
    from tasks.rag.answers import Filters
    from tasks.rag.retrieval.search import Found

app = App(help="Index documents, and answer questions with the page of every claim.")
register_index(app)
PasswordEnv = Annotated[
    str | None, typer.Option(metavar="NAME", help="Environment variable that holds the password of the document.")
]
READING = Options(
    "tasks.documents.document_readers:ReadOptions",
    {"pdf_reader": Flag(), "tables": Flag("--tables/--no-tables"), "ocr": Flag()},
)


@command(app, "text", READING)
def text(
    given: Given,
    file: Annotated[Path, typer.Argument(help="A document.")],
    password_env: PasswordEnv = None,
    as_json: Json = False,
) -> None:
    """Show what is read from one document, page by page and block by block."""
    from tasks.documents.document_errors import DocumentError, ReaderUnusable
    from tasks.documents.document_readers import ReadOptions
    from tasks.documents.formats import sniff
    from tasks.documents.isolation import DocumentUnreadable, Job, ReadLimits, read_document

    password = require_variable(password_env)
    require_file(file, "a document")
    options = ReadOptions.model_validate(nested(given))
    with plain_errors(DocumentError, DocumentUnreadable, ReaderUnusable):
        sniffed = sniff(file)
        job = Job(path=file, digest="", format=sniffed.format, password=password)
        document = read_document(job, options=options, limits=ReadLimits()).document
        read = document.model_copy(update={"notes": (*sniffed.notes, *document.notes)})
    pages = [
        {
            "page": page.number,
            "status": page.status,
            "reason": page.reason,
            "blocks": [block.model_dump(mode="json", exclude={"page"}) for block in page.blocks],
        }
        for page in read.pages
    ]
    emit({"file": str(file), "reader": read.reader, "pages": pages}, as_json, lambda: show.text(read))


@app.command()
def chunks(
    index: IndexFolder,
    document: Annotated[str | None, typer.Option(help="Only chunks of this document (its path in the folder).")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many.")] = 20,
    every: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
    as_json: Json = False,
) -> None:
    """Print chunks as they are indexed."""
    from storage.index import open_index
    from storage.storage_errors import StorageError
    from tasks.rag.retrieval.search import read_chunk

    with plain_errors(StorageError), open_index(index) as opened:
        rows = range(len(opened))
        if document is not None:
            rows = [row for row in rows if document in (opened.document(row).name, *opened.document(row).aliases)]
            if not rows:
                names = ", ".join(entry.name for entry in opened.catalogue[:5])
                fail(f"the index holds no chunks of {document!r}; it has {names} …", REFUSED)
        shown = [(opened.document(row).name, read_chunk(opened, row)) for row in (rows if every else rows[:limit])]
    listed = [{"document_name": name, **chunk.model_dump(mode="json")} for name, chunk in shown]
    emit({"chunks": listed, "total": len(rows)}, as_json, lambda: show.chunks(listed, len(rows)))


@app.command()
def status(
    index: IndexFolder,
    every: Annotated[bool, typer.Option("--all", help="List the documents without trouble too.")] = False,
    as_json: Json = False,
) -> None:
    """Show what an index holds, what became of each document, and what a build is doing."""
    from storage.storage_errors import StorageError
    from tasks.rag.indexing.document_status import read_status

    with plain_errors(StorageError):
        found = read_status(index)
    if found is None:
        fail(f"{index} holds no index; make one with `trivet rag index FOLDER --index {index}`", REFUSED)
    emit(found, as_json, lambda: show.status(found, every=every))


@app.command()
def search(
    question: Annotated[str, typer.Argument(help="What to look for.")],
    index: IndexFolder,
    strategy: Annotated[Strategy, typer.Option(help="How chunks are found.")] = Strategy(STRATEGY),
    top_k: TopK = 5,
    bm25_weight: Bm25Weight = 1.0,
    document: DocumentOption = None,
    route: RouteOption = True,
    as_json: Json = False,
) -> None:
    """Find the chunks that answer a question best."""
    from storage.index import open_index
    from storage.storage_errors import StorageError

    with plain_errors(StorageError, ValueError, failed=model_errors()), open_index(index) as opened:
        found = _find(opened, question, strategy, top_k=top_k, bm25_weight=bm25_weight, names=document, route=route)
        found = found._replace(notes=(*found.notes, *_routed(opened, found.filters)))
    hits = [
        {
            "document": hit.document_name,
            "page": hit.chunk.page,
            "bbox": hit.chunk.bbox,
            "score": round(hit.score, 6),
            "text": hit.chunk.text,
            "chunk_id": hit.chunk.id,
            "heading_path": hit.chunk.heading_path,
            "ranks": hit.ranks,
        }
        for hit in found.hits
    ]
    emit({"hits": hits, "notes": found.notes}, as_json, lambda: show.hits(found))


NAMED = 3
"""Documents that a note lists."""


def _routed(opened: Index, filters: Filters) -> list[str]:
    """Where the search looked, if the question named documents, and which of its words did."""
    if filters.mode == "all":
        return []
    names = [entry.name for entry in opened.catalogue if entry.document in filters.documents]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    said = ", ".join(dict.fromkeys(match.said for match in filters.matches))
    where = "only" if filters.mode == "only" else "first"
    return [
        f"looked {where} in {', '.join(names[:NAMED])}{more}, which the question names: {said} (--no-route for all)"
    ]


def _find(
    opened: Index,
    question: str,
    strategy: Strategy,
    *,
    top_k: int,
    bm25_weight: float | None,
    names: list[str] | None,
    route: bool,
) -> Found:
    """The chunks that answer `question`: in the documents of these names, or those that it names, or all."""
    from tasks import resources
    from tasks.rag.answers import Filters
    from tasks.rag.planning.names import documents_named
    from tasks.rag.planning.routing import Router
    from tasks.rag.retrieval.search import search

    return search(
        opened,
        question,
        strategy=strategy.value,
        top_k=top_k,
        embedder=lambda: resources.embedder(str(opened.manifest.settings["embedder"])),
        bm25_weight=bm25_weight,
        documents=documents_named(names, opened.catalogue) if names else None,
        filters=Router(opened.catalogue).route(question) if route and not names else Filters(),
    )
