"""What `trivet rag` shows to people; with --json the same values are printed as they are."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.padding import Padding

from flows.cli.output import Screen

if TYPE_CHECKING:
    from tasks.documents.blocks import Document
    from tasks.rag.indexing.figures import FigurePlan
    from tasks.rag.indexing.index_report import DocumentStatus, IndexReport, IndexStatus
    from tasks.rag.retrieval.search import Found

console = Screen(highlight=False)
EXCERPT_CHARS = 240
PAGES_SHOWN, NOTES_SHOWN = 10, 3
_LEADERS = re.compile(r"(?:[.·…]\s?){5,}")
"""Dots that lead to the page number in a table of contents."""


def report(report: IndexReport, index: Path) -> None:
    """What a build did."""
    documents, figures = report.documents, report.figures
    changes = ", ".join(f"{getattr(documents, name)} {name}" for name in _CHANGES if getattr(documents, name))
    console.print(f"[bold]{escape(str(index))}[/bold] is at generation {report.generation}")
    console.print(f"  documents  {documents.total}: {changes.replace('ok', 'indexed')}")
    console.print(f"  pages      {report.pages:,}")
    console.print(f"  chunks     {report.chunks:,}")
    console.print(
        f"  figures    {figures.found:,} found, {figures.kept:,} worth a question, "
        f"{figures.described:,} described, {figures.skipped:,} skipped"
    )
    console.print(f"  seconds    {report.seconds:.1f}")
    for warning in report.warnings:
        console.print(f"  [yellow]note[/yellow]       {escape(warning)}")
    if documents.failed:
        console.print(f"  see [bold]trivet rag status --index {escape(str(index))}[/bold] for what failed, and why")


_CHANGES = ("ok", "unchanged", "renamed", "failed", "removed")


def plan(plan: FigurePlan) -> None:
    """What describing the figures would take."""
    console.print(f"{plan.found:,} figures found, {plan.kept:,} worth a question, {plan.duplicates:,} duplicates")
    for reason, count in plan.dropped.items():
        console.print(f"  dropped {count:,}: {escape(reason)}")
    console.print(f"{plan.expected_calls:,} questions to a vision model ({plan.answered:,} answered before)")


def text(document: Document) -> None:
    """Blocks of a document, page by page."""
    console.print(f"[bold]{escape(document.title or 'untitled')}[/bold]  ({escape(document.reader)})")
    for note in document.notes:
        console.print(f"[yellow]note[/yellow] {escape(note)}")
    for page in document.pages:
        reason = f": {page.reason}" if page.reason else ""
        console.rule(
            f"{'page ' + str(page.number) if page.number else 'without pages'} · {page.status}{escape(reason)}"
        )
        for block in page.blocks:
            _line(f"[cyan]{block.kind:>9}[/cyan] {escape(textwrap.indent(block.text, ' ' * 10).lstrip())}")


def chunks(listed: Sequence[dict[str, Any]], total: int) -> None:
    """Chunks as they are indexed."""
    for chunk in listed:
        place = _place(chunk["document_name"], chunk["page"])
        console.rule(f"{escape(place)} · {chunk['kind']}")
        _line(f"[dim]{chunk['id']}[/dim]")
        if chunk["heading_path"]:
            _line(f"[dim]{escape(' › '.join(chunk['heading_path']))}[/dim]")
        _line(escape(chunk["text"]))
    console.print(f"[dim]{len(listed):,} of {total:,} chunks[/dim]")


def hits(found: Found) -> None:
    """Hits, best first."""
    for number, hit in enumerate(found.hits, start=1):
        ranks = ", ".join(f"{name} {rank}" for name, rank in hit.ranks.items())
        place = _place(hit.document_name, hit.chunk.page)
        _line(f"[bold]{number}. {escape(place)}[/bold]")
        console.print(f"   [dim]{hit.score:.4f} · {ranks}[/dim]")
        console.print(Padding(escape(_excerpt(hit.chunk.text)), (0, 0, 0, 3)))
    if not found.hits:
        console.print("nothing found; try other words, or another --strategy")
    for note in found.notes:
        console.print(f"[yellow]note[/yellow] {escape(note)}")


def status(status: IndexStatus, *, every: bool) -> None:
    """The state of an index, and the documents that a reader should know of; `every`: the others too."""
    colour = {"completed": "green", "running": "cyan"}.get(status.state, "yellow")
    state = status.state.replace("_", " ")
    console.print(f"[{colour}]{state}[/{colour}] at {status.step}, generation {status.generation or 'none yet'}")
    console.print(f"  started    {status.started:%Y-%m-%d %H:%M:%S}, heartbeat {status.heartbeat:%H:%M:%S} UTC")
    if status.error:
        _line(f"  [red]error[/red]      {escape(status.error)}")
    counts = Counter(item.status for item in status.documents)
    if counts:
        console.print(f"  documents  {', '.join(f'{count} {name}' for name, count in counts.items())}")
    if lengths := status.chunk_chars:
        console.print(f"  chunks     {lengths.min} to {lengths.max} characters, {lengths.mean:.0f} on average")
    for warning in status.warnings:
        _line(f"  [yellow]note[/yellow]       {escape(warning)}")
    _troubles(status.documents)
    if every:
        _list(status.documents)


def _troubles(documents: Sequence[DocumentStatus]) -> None:
    """What a reader should know, failed documents first; names are too long for a column of a table."""
    for item in sorted(documents, key=lambda item: item.status != "failed"):
        if item.status == "failed":
            _line(f"[red]failed[/red]  {escape(item.document)}")
            _line(f"        {escape(item.message or item.reason or '')}")
        elif item.troubled_pages or item.notes:
            _line(f"[yellow]note[/yellow]    {escape(item.document)}")
            for line in (*_troubled_pages(item), *item.notes[:NOTES_SHOWN]):
                _line(f"        {escape(line)}")


def _troubled_pages(item: DocumentStatus) -> Iterator[str]:
    """A line per kind of trouble: pages of a scan have the same one."""
    pages: dict[str, list[int | None]] = {}
    for page in item.troubled_pages:
        pages.setdefault(f"{page.status}, {page.reason}", []).append(page.page)
    for trouble, numbers in pages.items():
        named = ", ".join(str(number) for number in numbers[:PAGES_SHOWN] if number)
        more = f" and {len(numbers) - PAGES_SHOWN} more" if len(numbers) > PAGES_SHOWN else ""
        yield f"{'pages' if len(numbers) > 1 else 'page'} {named}{more}: {trouble}" if named else trouble


def _list(documents: Iterable[DocumentStatus]) -> None:
    console.print(f"[bold]{'status':<10} {'pages':>6} {'chunks':>7}  document[/bold]")
    for item in documents:
        same = f" [dim]({escape(item.message or '')})[/dim]" if item.status == "duplicate" else ""
        _line(f"{item.status:<10} {item.pages:>6} {item.chunks:>7}  {escape(item.document)}{same}")


def _line(markup: str) -> None:
    """Text of documents and names: the terminal breaks it, a file or pipe gets it whole."""
    console.print(markup, soft_wrap=True)


def _excerpt(text: str) -> str:
    return textwrap.shorten(_LEADERS.sub(" … ", text), EXCERPT_CHARS, placeholder=" …")


def _place(name: str, page: int | None) -> str:
    return f"{name}, page {page}" if page else name
