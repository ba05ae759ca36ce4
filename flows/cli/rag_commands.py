"""`trivet rag text`, `chunks`, `status`, `search`: what was read, what is indexed, what a question finds."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.padding import Padding

from flows.cli.commands import Flag, Json, Options, OptionValues, Settings, report_invalid
from flows.cli.index_command import require_variable
from flows.cli.output import REFUSED, Screen, emit, fail, plain_errors
from flows.cli.shared_options import DocumentOption, IndexFolder, Strategy, require_file
from flows.running.config_reading import merge_parameters
from storage.storage_errors import list_some
from tasks.rag import STRATEGY
from tasks.rag.answers import place_of

if TYPE_CHECKING:
    from storage.index import Index
    from tasks.documents.blocks import Document
    from tasks.rag.answers import Filters
    from tasks.rag.indexing.index_report import DocumentStatus, IndexStatus

console = Screen()
EXCERPT_CHARS = 240
MOST_DOCUMENTS = 100
"""Documents with problems that are shown; --all shows the rest."""
PAGES_SHOWN, NOTES_SHOWN, DOCUMENTS_SHOWN = 10, 3, 3
_LEADERS = re.compile(r"(?:[.·…]\s?){5,}")
"""Dots that lead to the page number in a table of contents."""
READING = Options("tasks.documents.document_readers:ReadOptions", {"pdf_reader": Flag()})


PasswordVariable = Annotated[
    str | None, typer.Option(metavar="NAME", help="Environment variable that holds the password of the document.")
]


def text(
    values: OptionValues,
    file: Annotated[Path, typer.Argument(help="A document.")],
    settings: Settings = None,
    password_env: PasswordVariable = None,
    receipt: Annotated[
        bool, typer.Option("--receipt", help="Show what was lost in place of what was read: letters, pages, pictures.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show what is read from one document, page by page and block by block."""
    read = read_file(values, file, password_env, settings=settings or ())
    if receipt:
        _show_receipt(read, file, password_env, as_json)
        return
    pages = [
        {
            "page": page.number,
            "status": page.status,
            "reason": page.reason,
            "blocks": [block.model_dump(mode="json", exclude={"page"}) for block in page.blocks],
        }
        for page in read.pages
    ]

    def show() -> None:
        console.print(f"[bold]{escape(read.title or 'untitled')}[/bold]  ({escape(read.reader)})")
        console.print_notes(read.notes)
        for page in read.pages:
            number = f"page {page.number}" if page.number else "without pages"
            reason = f": {page.reason}" if page.reason else ""
            console.rule(f"{number} · {page.status}{escape(reason)}")
            for block in page.blocks:
                if block.place.cells:
                    console.print(f"[dim]{escape(block.place.cells):>9}[/dim]")
                indented = textwrap.indent(block.text, " " * 10).lstrip()
                console.print(f"[cyan]{block.kind:>9}[/cyan] {escape(indented)}")

    facts = {"file": str(file), "reader": read.reader, "page_source": read.page_source, "pages": pages}
    emit(facts, as_json, show)


def _show_receipt(read: Document, file: Path, password_env: str | None, as_json: bool) -> None:
    """Print what reading a document lost; its numbers are those that `rag numbers` would have."""
    from tasks.documents.isolation import Job, ReadLimits, find_images
    from tasks.documents.receipt import make_receipt
    from tasks.rag.numbers.document_numbers import document_numbers

    made = make_receipt(read)
    job = Job(path=file, digest="", format=read.format, password=require_variable(password_env))
    with TemporaryDirectory() as scratch:
        pictures = sum(1 for _ in find_images(job, scratch=Path(scratch), limits=ReadLimits()))
    numbers = document_numbers(read.pages, document="")
    unscaled = sum(not number.unit for number in numbers)
    share = "not counted" if made.share_kept is None else f"{made.share_kept:.2%}"

    def show() -> None:
        """Print what was read and lost, and the hidden pieces of text."""
        console.print(f"[bold]{escape(file.name)}[/bold]  ({escape(read.reader)})")
        rows = {
            "pages read": f"{made.pages_read:,} of {made.pages:,}",
            "letters kept": f"{share}; {made.letters_lost:,} of {made.letters or 0:,} in no block",
            "hidden text": f"{len(made.hidden):,} piece{'s' * (len(made.hidden) != 1)}, neither indexed nor cited",
            "drawn text": f"{len(made.drawn_text):,} pages whose letters are curves",
            "pictures": f"{pictures:,}, read by a model where one is configured",
            "tables": f"{made.tables:,}, {len(made.unsure_tables):,} of them with two amounts in a cell",
            "numbers": f"{len(numbers):,}, {unscaled:,} of them without a unit",
            "characters": f"{made.replaced:,} without Unicode",
        }
        for name, value in rows.items():
            console.print(f"  {name:<13} {value}")
        for page in read.pages:
            if page.reason:
                console.print(f"  [dim]page {page.number or 1}: {escape(page.reason)}[/dim]")
        for piece in made.hidden:
            where = f"page {piece.page}, " if piece.page else ""
            console.print(f"  [dim]hidden ({escape(where + piece.reason)}): {escape(piece.text[:EXCERPT_CHARS])}[/dim]")

    facts = {"file": str(file), **made.model_dump(mode="json"), "share_kept": made.share_kept}
    emit(facts | {"pictures": pictures, "numbers": len(numbers), "numbers_without_unit": unscaled}, as_json, show)


def read_file(values: OptionValues, file: Path, password_env: str | None, *, settings: Sequence[str] = ()) -> Document:
    """Read a document as the options say; one that cannot be read ends the command."""
    from tasks.documents.document_readers import ReadOptions
    from tasks.documents.formats import sniff
    from tasks.documents.isolation import Job, ReadLimits, read_document

    password = require_variable(password_env)
    require_file(file, "a document")
    with report_invalid(READING):
        options = ReadOptions.model_validate(merge_parameters(values, settings=settings))
    sniffed = sniff(file)
    job = Job(path=file, digest="", format=sniffed.format, password=password)
    document = read_document(job, options=options, limits=ReadLimits()).document
    return document.model_copy(update={"notes": (*sniffed.notes, *document.notes)})


def chunks(
    index: IndexFolder,
    document: Annotated[str | None, typer.Option(help="Only chunks of this document, or of a pattern.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Number of chunks to print.")] = 20,
    every: Annotated[bool, typer.Option("--all", help="Print all chunks.")] = False,
    as_json: Json = False,
) -> None:
    """Print chunks as they are indexed."""
    from storage.index import open_index
    from tasks.rag.planning.names import find_named_documents
    from tasks.rag.retrieval.search import read_chunk

    with open_index(index) as opened:
        rows = range(len(opened))
        if document is not None:
            with plain_errors(ValueError):
                documents = find_named_documents([document], opened.catalogue)
            rows = [row for row in rows if opened.document(row).document in documents]
        selected = [(opened.document(row).name, read_chunk(opened, row)) for row in (rows if every else rows[:limit])]
    listed: list[dict[str, Any]] = [
        {"document_name": name, **chunk.model_dump(mode="json")} for name, chunk in selected
    ]

    def show() -> None:
        for chunk in listed:
            console.rule(f"{escape(place_of(chunk['document_name'], chunk['page']))} · {chunk['kind']}")
            console.print(f"[dim]{chunk['id']}[/dim]")
            if chunk["heading_path"]:
                console.print(f"[dim]{escape(' › '.join(chunk['heading_path']))}[/dim]")
            console.print(escape(chunk["text"]))
        console.print(f"[dim]{len(listed):,} of {len(rows):,} chunks[/dim]")

    emit({"chunks": listed, "total": len(rows)}, as_json, show)


def status(
    index: IndexFolder,
    every: Annotated[bool, typer.Option("--all", help="Also list documents without problems.")] = False,
    verify: Annotated[bool, typer.Option("--verify", help="Compare every file of the index with its digest.")] = False,
    as_json: Json = False,
) -> None:
    """Show what an index holds, what became of each document, and what a build is doing."""
    from storage.engines import index_name
    from storage.index import is_published, open_index
    from tasks.rag.answering.graph import confidence_threshold, load_calibration
    from tasks.rag.answers import MAX_WRONG, AnswerSettings
    from tasks.rag.indexing.index_report import read_status

    current, where = read_status(index), index_name(index)
    if verify:
        with open_index(index) as opened:
            opened.verify()
    if current is None and is_published(index):
        fail(f"{where} was published from another TRIVET_HOME, which has the status of its builds", REFUSED)
    if current is None:
        fail(f"{where} holds no index; make one with `trivet rag index FOLDER --index {where}`", REFUSED)
    calibration, least = load_calibration(), confidence_threshold(AnswerSettings())
    answers = {"max_wrong": MAX_WRONG, "least_confidence": least}
    answers |= {"calibration": calibration.model_dump(mode="json", exclude={"right", "wrong"})}

    def show() -> None:
        """Print the state of the index, and how sure its answers are."""
        _show_status(current, every=every)
        if verify:
            console.print("  verified   every file has its digest")
        promise = f", at most {MAX_WRONG:.0%} wrong" if MAX_WRONG < 1 else ""
        console.print(f"  answers    from confidence {least:.2f}{promise}")
        console.print(f"  calibrated on {calibration.questions}: {calibration.n}, {calibration.made_on}")

    verified = {"verified": True} if verify else {}
    emit({**current.model_dump(mode="json"), "answers": answers} | verified, as_json, show)


def search(
    question: Annotated[str, typer.Argument(help="What to look for.")],
    index: IndexFolder,
    strategy: Annotated[Strategy, typer.Option(help="How chunks are found.")] = Strategy(STRATEGY),
    top_k: Annotated[int, typer.Option(min=1, max=1000, help="Number of chunks.")] = 5,
    document: DocumentOption = None,
    no_route: Annotated[
        bool, typer.Option("--no-route", help="Do not look first in the documents that the question names.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Find the chunks that answer a question best."""
    from storage.index import open_index
    from tasks import resources
    from tasks.rag.answers import Filters
    from tasks.rag.planning.names import find_named_documents
    from tasks.rag.planning.routing import open_router
    from tasks.rag.retrieval import search as retrieval

    with plain_errors(ValueError), open_index(index) as opened:
        result = retrieval.search(
            opened,
            question,
            strategy=strategy.value,
            top_k=top_k,
            embedder=lambda: resources.embedder(str(opened.manifest.settings["embedder"])),
            documents=find_named_documents(document, opened.catalogue) if document else None,
            filters=open_router(opened).route(question) if not (no_route or document) else Filters(),
        )
        result = result._replace(notes=(*result.notes, *_note_route(opened, result.filters)))
    hits = [
        {
            "document": hit.document_name,
            "page": hit.chunk.page,
            "page_source": hit.page_source,
            "cells": hit.chunk.cells,
            "bbox": hit.chunk.bbox,
            "score": round(hit.score, 6),
            "text": hit.chunk.text,
            "chunk_id": hit.chunk.id,
            "heading_path": hit.chunk.heading_path,
            "ranks": hit.ranks,
        }
        for hit in result.hits
    ]

    def show() -> None:
        for number, hit in enumerate(result.hits, start=1):
            ranks = ", ".join(f"{name} {rank}" for name, rank in hit.ranks.items())
            excerpt = textwrap.shorten(_LEADERS.sub(" … ", hit.chunk.text), EXCERPT_CHARS, placeholder=" …")
            where = place_of(hit.document_name, hit.chunk.page, hit.page_source, hit.chunk.cells)
            console.print(f"[bold]{number}. {escape(where)}[/bold]")
            console.print(f"   [dim]{hit.score:.4f} · {ranks}[/dim]")
            console.print(Padding(escape(excerpt), (0, 0, 0, 3)))
        if not result.hits:
            console.print("nothing found; try other words, or another --strategy")
        console.print_notes(result.notes)

    emit({"hits": hits, "notes": result.notes}, as_json, show)


def _note_route(opened: Index, filters: Filters) -> list[str]:
    """Return a note on the first documents that the question names, with the words that name them; empty if none."""
    if filters.mode == "all":
        return []
    names = [entry.name for entry in opened.catalogue if entry.document in filters.documents]
    words = ", ".join(dict.fromkeys(match.said for match in filters.matches))
    where = "only" if filters.mode == "only" else "first"
    listed = list_some(names, DOCUMENTS_SHOWN)
    return [f"looked {where} in {listed}, which the question names: {words} (--no-route for all)"]


def _show_status(status: IndexStatus, *, every: bool) -> None:
    """Print the state of an index and its first documents with problems; every: all documents, those without too."""
    colour = {"completed": "green", "running": "cyan"}.get(status.state, "yellow")
    state = status.state.replace("_", " ")
    console.print(f"[{colour}]{state}[/{colour}] at {status.step}, version {status.generation or 'none yet'}")
    console.print(f"  started    {status.started:%Y-%m-%d %H:%M:%S}, heartbeat {status.heartbeat:%H:%M:%S} UTC")
    if status.error:
        console.print(f"  [red]error[/red]      {escape(status.error)}")
    counts = Counter(item.status for item in status.documents)
    if counts:
        console.print(f"  documents  {', '.join(f'{count} {name}' for name, count in counts.items())}")
    if lengths := status.chunk_chars:
        console.print(f"  chunks     {lengths.min} to {lengths.max} characters, {lengths.mean:.0f} on average")
    for warning in status.warnings:
        console.print(f"  [yellow]note[/yellow]       {escape(warning)}")
    for item in [item for item in status.documents if item.status == "duplicate" and not every][:MOST_DOCUMENTS]:
        console.print(f"[dim]same[/dim]    {escape(item.document)}: {escape(item.message or '')}")
    troubled = [item for item in status.documents if item.status == "failed" or item.troubled_pages or item.notes]
    limit = slice(None if every else MOST_DOCUMENTS)
    # names of documents are too long for a column of a table
    for item in sorted(troubled, key=lambda item: item.status != "failed")[limit]:
        lines, label = (*_troubled_pages(item), *item.notes[:NOTES_SHOWN]), "[yellow]note[/yellow]    "
        if item.status == "failed":
            lines, label = (item.message or item.reason or "",), "[red]failed[/red]  "
        console.print(label + escape(item.document))
        for line in lines:
            console.print(f"        {escape(line)}")
    if every:
        console.print(f"[bold]{'status':<10} {'pages':>6} {'chunks':>7}  document[/bold]")
        for item in status.documents:
            duplicate_of = f" [dim]({escape(item.message or '')})[/dim]" if item.status == "duplicate" else ""
            line = f"{item.status:<10} {item.pages:>6} {item.chunks:>7}  {escape(item.document)}{duplicate_of}"
            console.print(line)
    elif len(troubled) > MOST_DOCUMENTS:
        console.print(f"  {len(troubled) - MOST_DOCUMENTS:,} more documents have problems; --all shows them")


def _troubled_pages(item: DocumentStatus) -> Iterator[str]:
    """Yield a line for each kind of problem, with the first PAGES_SHOWN of its pages: those of a scan share one."""
    pages: dict[str, list[int | None]] = {}
    for page in item.troubled_pages:
        pages.setdefault(f"{page.status}, {page.reason}", []).append(page.page)
    for trouble, numbers in pages.items():
        listed = list_some(filter(None, numbers), PAGES_SHOWN)
        yield f"{'pages' if len(numbers) > 1 else 'page'} {listed}: {trouble}" if listed else trouble
