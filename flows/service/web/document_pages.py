"""The pages of documents: what became of each, and the numbers of their tables with filters and a download."""

from __future__ import annotations

import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from fastapi.responses import Response

from flows.service.web import doors
from flows.service.web.ask_pages import download
from flows.service.web.workplace import ROOT, Handler, Method, Problem, Visit
from storage.generations import CatalogueEntry

PAGE = 100
"""Rows of a page of numbers."""
MOST_DOCUMENTS = 500
"""Documents of a page; the filter finds others."""


def _documents(visit: Visit) -> Response:
    words, only = visit.query.get("words", "").lower().split(), visit.query.get("only", "")
    with visit.workplace.asking.live.borrow() as current:
        index, folder = current.index, visit.workplace.asking.live.folder
        entries = index.catalogue
        reasons = doors.reasons_of(folder)
    fits = [
        one
        for one in entries
        if all(word in one.name.lower() for word in words) and (only != "failed" or one.status != "ok")
    ]
    return visit.page(
        "documents.html",
        rows=[_row(one, reasons) for one in fits[:MOST_DOCUMENTS]],
        found=len(fits),
        documents=len(entries),
        failed=sum(one.status != "ok" for one in entries),
        chunks=sum(one.chunks for one in entries),
        generation=index.generation,
        words=visit.query.get("words", ""),
        only=only,
    )


def _row(entry: CatalogueEntry, reasons: dict[str, str]) -> dict[str, Any]:
    seen = urlencode({"document": entry.document, "page": 1 if entry.pages else ""})
    return {
        "entry": entry,
        "reason": reasons.get(entry.document, ""),
        "link": f"{ROOT}/place?{seen}",
        "numbers": f"{ROOT}/numbers?{urlencode({'entity': entry.name})}",
    }


def _asked(visit: Visit) -> dict[str, str]:
    return {name: visit.query.get(name, "").strip() for name in ("entity", "line", "period")}


def _numbers(visit: Visit) -> Response:
    asked, first = _asked(visit), visit.query.get("first", "0")
    if not first.isdecimal() or int(first) > 10**9:
        raise Problem(404, f"{first[:20]} is no row; rows count from 0")
    start = int(first)
    rows = doors.numbers(visit.workplace.asking.live, first=start, most=PAGE + 1, **asked)

    def link(path: str = "/numbers", **more: Any) -> str:
        return f"{ROOT}{path}?{urlencode(asked | more)}"

    return visit.page(
        "numbers.html",
        rows=[(one, _place(one), f"{Decimal(one['value']):,}") for one in rows[:PAGE]],
        asked=asked,
        start=start,
        more=link(first=start + PAGE) if len(rows) > PAGE else "",
        before=link(first=max(0, start - PAGE)) if start else "",
        download=link("/numbers.csv"),
    )


def _place(row: dict[str, Any]) -> str:
    box = ",".join(f"{edge:.2f}" for edge in row["bbox"] or ())
    said = {"document": row["digest"], "page": row["page"] or "", "box": box, "quote": f"{row['line']}: {row['shown']}"}
    return f"{ROOT}/place?{urlencode(said)}"


def _csv(visit: Visit) -> Response:
    """The numbers that the filters leave, as `trivet rag numbers --format csv` writes them."""
    from storage.numbers import copy_numbers

    filters = doors.number_filters(**_asked(visit))
    with (
        visit.workplace.asking.live.borrow() as current,
        tempfile.TemporaryDirectory(prefix="trivet-") as folder,
    ):
        out = Path(folder) / "numbers.csv"
        names = {entry.document: entry.name for entry in current.index.catalogue}
        copy_numbers(current.index.numbers, names, out, "csv", **filters)
        return download(out.read_bytes(), "numbers.csv", "text/csv")


PAGES: tuple[tuple[Method, str, Handler], ...] = (
    ("GET", "/documents", _documents),
    ("GET", "/numbers", _numbers),
    ("GET", "/numbers.csv", _csv),
)
