"""A build as the Prefect UI shows it: its numbers in words, and a table of what could not be read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from tasks.rag.indexing.report import IndexReport
from tasks.rag.indexing.status import DocumentStatus

MOST_ROWS = 500
"""Documents that the table names; the artifact lies in Prefect's database."""


def headline(report: IndexReport) -> str:
    """The build in a line: `25 documents, 1 of them failed; 120 pages, 300 chunks`."""
    failed = f", {report.documents.failed:,} of them failed" if report.documents.failed else ""
    return f"{report.documents.total:,} documents{failed}; {report.pages:,} pages, {report.chunks:,} chunks"


def rows_of(failed: Sequence[DocumentStatus]) -> list[dict[str, str]]:
    """A row per document that could not be read, as a table artifact wants them."""
    return [
        {
            "document": one.document,
            "reason": one.reason or "",
            "message": one.message or "",
            "digest": (one.digest or "")[:12],
        }
        for one in failed[:MOST_ROWS]
    ]


def markdown_of(report: IndexReport, *, failed: Sequence[DocumentStatus], documents: Path, index: Path) -> str:
    """The build in words."""
    return "\n".join(_lines(report, failed, documents=documents, index=index))


def _lines(report: IndexReport, failed: Sequence[DocumentStatus], *, documents: Path, index: Path) -> Iterator[str]:
    yield f"# {headline(report)}"
    yield f"documents `{documents}` · index `{index}` · generation `{report.generation}` · {report.seconds:,.1f} s"
    yield from ("", "| | |", "|---|---:|")
    for name, count in report.documents.model_dump(exclude={"total"}).items():
        yield f"| documents {name} | {count:,} |"
    for name, count in report.figures.model_dump().items():
        yield f"| figures {name} | {count:,} |"
    if failed:
        yield from ("", "## Could not be read", f"`trivet rag status --index {index}` tells more of each document.", "")
        yield from (f"- `{one.document}`: {one.message or one.reason}" for one in failed[:MOST_ROWS])
        if len(failed) > MOST_ROWS:
            yield f"- … and {len(failed) - MOST_ROWS:,} more"
    if report.warnings:
        yield from ("", "## To know", *(f"- {warning}" for warning in report.warnings))
