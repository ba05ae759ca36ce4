"""The PDF reader beside pdfplumber, in one run: CPU seconds, table pages, cell texts.

`python -m tests.benchmarks.bench_pdf DOCUMENTS_DIR [--json] [--peer-pages N] [--file NAME …]`
"""

from __future__ import annotations

import json
import time
from collections import Counter
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tasks.documents.document_readers import ReadOptions
from tasks.documents.pdf.pdf_reader import open_pdf
from tests.benchmarks.measuring import options

FILES = ("BESTBUY_2023_10K.pdf", "ULTABEAUTY_2023Q4_EARNINGS.pdf")
SIGNS = "$€£¥₩()% "
Cells = list[Counter[str] | None]
"""Per page: texts of its non-empty cells; None without a table."""


def measure(path: Path, *, peer_pages: int | None) -> dict[str, Any]:
    """Our reader and pdfplumber's default finder over one file; peer_pages: the first N pages only, None for all."""
    text_s, pages = _text_seconds(path)
    ours_s, ours = _our_tables(path)
    peer_s, peer = _peer_tables(path, peer_pages)
    wanted = sum(page.total() for page in peer if page)
    equal = sum((page & (own or Counter())).total() for page, own in zip(peer, ours, strict=False) if page)
    missed = [n for n, (page, own) in enumerate(zip(peer, ours, strict=False), 1) if page is not None and own is None]
    return {
        "file": path.name,
        "pages": pages,
        "text_pages_per_cpu_s": pages / text_s,
        "table_pages_per_cpu_s": pages / ours_s,
        "pdfplumber_pages_per_cpu_s": len(peer) / peer_s,
        "speed_ratio": (pages / ours_s) / (len(peer) / peer_s),
        "pdfplumber_table_pages": sum(page is not None for page in peer),
        "our_table_pages": sum(page is not None for page in ours),
        "missed_table_pages": missed,
        "pdfplumber_cells": wanted,
        "cells_equal_share": equal / wanted if wanted else 1.0,
    }


def main() -> None:
    """Measure each file and print the table."""
    parser = options(__doc__)
    parser.add_argument("documents", type=Path, help="folder that holds the files, at any depth")
    parser.add_argument("--file", action="append", help="name of a file; default: the two filings of the target")
    parser.add_argument("--peer-pages", type=int, help="pages that pdfplumber reads; default: all")
    chosen = parser.parse_args()
    found = [next(iter(sorted(chosen.documents.rglob(name)))) for name in chosen.file or FILES]
    versions = {name: version(name) for name in ("pymupdf", "pdfplumber")}
    rows = [measure(path, peer_pages=chosen.peer_pages) for path in found]
    if chosen.json:
        print(json.dumps({"versions": versions, "files": rows}))
        return
    print("  ".join(f"{name} {number}" for name, number in versions.items()))
    print(f"{'file':34}{'text p/s':>10}{'tables p/s':>12}{'pdfplumber':>12}{'ratio':>8}{'pages':>9}{'cells =':>9}")
    for row in rows:
        seen = row["pdfplumber_table_pages"]
        print(
            f"{row['file'][:33]:34}{row['text_pages_per_cpu_s']:>10.0f}{row['table_pages_per_cpu_s']:>12.1f}"
            f"{row['pdfplumber_pages_per_cpu_s']:>12.1f}{row['speed_ratio']:>7.1f}×"
            f"{seen - len(row['missed_table_pages']):>5}/{seen:<3}{row['cells_equal_share']:>9.1%}"
        )


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


if __name__ == "__main__":
    main()
