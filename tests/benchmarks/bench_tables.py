"""Tables of PDFs beside pdfplumber and PyMuPDF, in one run: adjacency relations (Göbel et al. 2012) and CPU seconds.

A folder holds NAME.pdf beside NAME-str.xml, as the competition of ICDAR 2013 published them. A relation is two
neighbouring texts and a direction; recall and precision are means over the documents.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple
from xml.etree import ElementTree

from tasks.documents.document_readers import ReadOptions
from tasks.documents.pdf.pdf_reader import open_pdf
from tests.benchmarks.measuring import Figures

AMOUNT = re.compile(r"(?<![\w.])\(?[$€₩]?\s?\(?(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+\.\d+|\d{2,})\)?(?![\w.])")
YEAR = re.compile(r"\(?(?:19|20)\d\d\)?")


class Placed(NamedTuple):
    """A cell: first and last row, first and last column."""

    top: int
    bottom: int
    left: int
    right: int
    text: str


Table = Sequence[Placed]
Reader = Callable[[Path], list[Table]]


def relations(table: Table) -> Counter[tuple[str, str, str]]:
    """Neighbours to the right and below, over empty places; letters and digits alone are compared."""
    cells = [(cell, text) for cell in table if (text := re.sub(r"[\W_]", "", cell.text).lower())]
    at = {
        (row, col): number
        for number, (cell, _) in enumerate(cells)
        for row in range(cell.top, cell.bottom + 1)
        for col in range(cell.left, cell.right + 1)
    }
    rows, cols = (max((place[axis] for place in at), default=0) for axis in (0, 1))
    found: Counter[tuple[str, str, str]] = Counter()
    for cell, text in cells:
        right = {
            _first(at, ((row, col) for col in range(cell.right + 1, cols + 1)))
            for row in range(cell.top, cell.bottom + 1)
        }
        below = {
            _first(at, ((row, col) for row in range(cell.bottom + 1, rows + 1)))
            for col in range(cell.left, cell.right + 1)
        }
        for direction, neighbours in (("right", right), ("below", below)):
            found.update((text, cells[number][1], direction) for number in neighbours if number is not None)
    return found


def _first(at: dict[tuple[int, int], int], places: Iterable[tuple[int, int]]) -> int | None:
    return next((at[place] for place in places if place in at), None)


def true_tables(file: Path) -> Iterator[Table]:
    """The tables that people marked."""
    for table in ElementTree.parse(file).iter("table"):
        cells: list[Placed] = []
        for region in table.iter("region"):
            down, along = (int(region.get(name) or 0) for name in ("row-increment", "col-increment"))
            for cell in region.iter("cell"):
                top, left = int(cell.get("start-row", 0)) + down, int(cell.get("start-col", 0)) + along
                bottom = int(cell.get("end-row") or top - down) + down
                right = int(cell.get("end-col") or left - along) + along
                cells.append(Placed(top, bottom, left, right, cell.findtext("content") or ""))
        yield cells


def ours(file: Path) -> list[Table]:
    """Tables of our reader."""
    pages = open_pdf(file, password=None, options=ReadOptions(ocr="off")).pages()
    return [
        [Placed(c.row, c.row + c.row_span - 1, c.col, c.col + c.col_span - 1, c.text) for c in block.cells]
        for page in pages
        for block in page.blocks
        if block.kind == "table"
    ]


def with_pymupdf(file: Path) -> list[Table]:
    """Tables of PyMuPDF's own finder."""
    import pymupdf

    document: Any  # its annotations say that a page may have no finder
    with pymupdf.open(file) as document:
        return [_plain(table.extract()) for page in document for table in page.find_tables().tables]


def with_pdfplumber(file: Path) -> list[Table]:
    """Tables of pdfplumber's default finder."""
    import pdfplumber

    with pdfplumber.open(file) as document:
        return [_plain(table) for page in document.pages for table in page.extract_tables()]


def _plain(rows: Sequence[Sequence[str | None]]) -> Table:
    return [Placed(r, r, c, c, text or "") for r, row in enumerate(rows) for c, text in enumerate(row)]


READERS: dict[str, Reader] = {"ours": ours, "pymupdf": with_pymupdf, "pdfplumber": with_pdfplumber}


def measure(folder: Path, filings: Path | None = None) -> Figures:
    """folder: NAME.pdf beside NAME-str.xml. filings: PDFs whose rows of amounts are counted."""
    for name, read in READERS.items():
        yield f"{name}, version", "" if name == "ours" else version(name)
        yield from ((f"{name}: {figure}", value) for figure, value in of_reader(folder, read).items())
    for file in sorted(filings.glob("*.pdf")) if filings else ():
        yield from ((f"{file.name}: {figure}", count) for figure, count in collapsed(file).items())


def of_reader(folder: Path, read: Reader) -> dict[str, float]:
    """Recall, precision and F1 over the documents of a folder, and pages a CPU second."""
    import pymupdf

    scores: list[tuple[float, float]] = []
    pages, spent = 0, 0.0
    for truth in sorted(folder.glob("*-str.xml")):
        file = truth.with_name(truth.name.replace("-str.xml", ".pdf"))
        with pymupdf.open(file) as document:
            pages += document.page_count
        started = time.process_time()
        tables = read(file)
        spent += time.process_time() - started
        wanted, given = (sum(map(relations, found), Counter[Any]()) for found in (true_tables(truth), tables))
        both = (wanted & given).total()
        scores.append((both / max(1, wanted.total()), both / given.total() if given else 0.0))
    recall, precision = (fmean(score[side] for score in scores) for side in (0, 1))
    f1 = 2 * recall * precision / (recall + precision) if recall + precision else 0.0
    return {"recall": recall, "precision": precision, "F1": f1, "pages a CPU s": pages / spent}


def collapsed(file: Path) -> dict[str, int]:
    """Rows with two amounts or more, and those that keep two of them in one cell; years do not count."""
    rows = shared = 0
    for table in ours(file):
        counts: dict[int, list[int]] = {}
        for cell in table:
            amounts = [found for found in AMOUNT.findall(cell.text) if not YEAR.fullmatch(found.strip())]
            counts.setdefault(cell.top, []).append(len(amounts))
        rows += sum(sum(row) > 1 for row in counts.values())
        shared += sum(max(row) > 1 for row in counts.values())
    return {"rows of amounts": rows, "of them with two in one cell": shared}
