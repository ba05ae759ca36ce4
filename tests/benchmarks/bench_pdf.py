"""The PDF reader beside pdfplumber, in one run: CPU seconds, table pages, cell texts."""

from __future__ import annotations

import time
from collections import Counter
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tasks.documents.document_readers import ReadOptions
from tasks.documents.pdf.pdf_reader import open_pdf
from tests.benchmarks.measuring import Figures

FILES = ["BESTBUY_2023_10K.pdf", "ULTABEAUTY_2023Q4_EARNINGS.pdf"]
SIGNS = "$€£¥₩()% "
Cells = list[Counter[str] | None]
"""Per page: texts of its non-empty cells; None without a table."""


def measure(documents: Path, file: list[str] = FILES, peer_pages: int | None = None) -> Figures:
    """documents: folder that holds the files, at any depth. peer_pages: that pdfplumber reads; all by default."""
    yield from ((f"version of {name}", version(name)) for name in ("pymupdf", "pdfplumber"))
    for name in file:
        told = compare(next(iter(sorted(documents.rglob(name)))), peer_pages=peer_pages)
        yield from ((f"{name}: {figure}", value) for figure, value in told.items())


def compare(path: Path, *, peer_pages: int | None) -> dict[str, Any]:
    """Our reader and pdfplumber's default finder over one file; peer_pages: the first N pages only, None for all."""
    text_s, pages = _text_seconds(path)
    ours_s, ours = _our_tables(path)
    peer_s, peer = _peer_tables(path, peer_pages)
    wanted = sum(page.total() for page in peer if page)
    equal = sum((page & (own or Counter())).total() for page, own in zip(peer, ours, strict=False) if page)
    missed = [n for n, (page, own) in enumerate(zip(peer, ours, strict=False), 1) if page is not None and own is None]
    return {
        "pages": pages,
        "text, pages a CPU s": pages / text_s,
        "with tables, pages a CPU s": pages / ours_s,
        "pdfplumber, pages a CPU s": len(peer) / peer_s,
        "pdfplumber's pages with tables": sum(page is not None for page in peer),
        "our pages with tables": sum(page is not None for page in ours),
        "missed pages": missed,
        "share of pdfplumber's pages with tables": 1 - len(missed) / max(1, sum(page is not None for page in peer)),
        "share of equal cells": equal / wanted if wanted else 1.0,
    }


def _text_seconds(path: Path) -> tuple[float, int]:
    started = time.process_time()
    pages = sum(1 for _ in open_pdf(path, password=None, options=ReadOptions(tables=False, ocr="off")).pages())
    return time.process_time() - started, pages


def _our_tables(path: Path) -> tuple[float, Cells]:
    started = time.process_time()
    pages = list(open_pdf(path, password=None, options=ReadOptions(ocr="off")).pages())
    spent = time.process_time() - started
    tables = [[block for block in page.blocks if block.kind == "table"] for page in pages]
    return spent, [_texts([c.text for b in blocks for c in b.cells]) if blocks else None for blocks in tables]


def _peer_tables(path: Path, page_limit: int | None) -> tuple[float, Cells]:
    import pdfplumber

    cells: Cells = []
    started = time.process_time()
    with pdfplumber.open(path) as document:
        for page in document.pages[:page_limit]:
            tables = [rows for table in page.find_tables() if _has_columns(rows := table.extract())]
            cells.append(_texts([text for rows in tables for row in rows for text in row]) if tables else None)
            page.close()
    return time.process_time() - started, cells


def _has_columns(rows: list[list[str | None]]) -> bool:
    """Whether most rows with text have it in two cells: sentences with coloured parts come as tables, too."""
    filled = [sum(bool(text and text.strip()) for text in row) for row in rows]
    return sum(count > 1 for count in filled) > sum(count == 1 for count in filled) / 2


def _texts(cells: list[str | None] | list[str]) -> Counter[str]:
    """Multiset of the cells' texts, white space normalised, without empty ones.

    Signs around an amount do not count: where they have a column of their own, we put them into the amount's cell.
    """
    return Counter(text for cell in cells if (text := " ".join((cell or "").split()).strip(SIGNS)))
