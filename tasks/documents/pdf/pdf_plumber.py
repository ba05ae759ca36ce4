"""pdfplumber behind the page model of the PDF reader: text and tables as it finds them by default."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import pdfplumber
import pymupdf

from tasks.documents.blocks import BBox
from tasks.documents.document_readers import storable
from tasks.documents.pdf.pdf_grids import Grid, grid_of_boxes
from tasks.documents.pdf.pdf_text import Fragment, PageText, Word

RUN_GAP_EMS = 0.8
"""White that ends a run of words, in font sizes."""


class Plumber:
    """An open document; raises whatever pdfplumber and pdfminer raise."""

    name = f"pdfplumber {version('pdfplumber')}"

    def __init__(self, path: Path, password: str | None) -> None:
        # from memory: a reader that is dropped half way leaves no open file behind
        self._document: Any = pdfplumber.open(BytesIO(path.read_bytes()), password=password or "")

    def text(self, number: int) -> PageText:
        """The text of a page (1-based)."""
        page = self._document.pages[number - 1]
        words: list[dict[str, Any]] = page.extract_words(
            keep_blank_chars=False, extra_attrs=["size", "fontname", "upright"], return_chars=True
        )
        runs = _runs(words)
        found = PageText(
            float(page.width),
            float(page.height),
            tuple(_fragment(run, i) for i, run in enumerate(runs)),
            words=lambda: [_word(word, i) for i, run in enumerate(runs) for word in run],
            chars=lambda: [_word(char, i) for i, run in enumerate(runs) for word in run for char in word["chars"]],
            to_reading=pymupdf.Matrix(1, 0, 0, 1, 0, 0),
        )
        page.close()
        return found

    def grids(self, number: int) -> list[Grid]:
        """Tables of a page (1-based) by pdfplumber's default finder."""
        page = self._document.pages[number - 1]
        grids = [grid_of_boxes([_box(cell) for cell in table.cells]) for table in page.find_tables()]
        page.close()
        return grids


def _runs(words: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    runs: list[list[dict[str, Any]]] = [[word] for word in words[:1]]
    for before, word in pairwise(words):
        gap = word["x0"] - before["x1"]
        same = abs(word["top"] - before["top"]) < 3 and -1 <= gap < RUN_GAP_EMS * word["size"]
        if same and word["upright"] == before["upright"] and abs(word["size"] - before["size"]) < 0.5:
            runs[-1].append(word)
        else:
            runs.append([word])
    return runs


def _fragment(run: Sequence[dict[str, Any]], number: int) -> Fragment:
    return Fragment(
        min(float(w["x0"]) for w in run),
        min(float(w["top"]) for w in run),
        max(float(w["x1"]) for w in run),
        max(float(w["bottom"]) for w in run),
        storable(" ".join(w["text"] for w in run)),
        float(run[0]["size"]),
        "Bold" in str(run[0]["fontname"]),
        bool(run[0]["upright"]),
        (number, 0),
    )


def _word(word: dict[str, Any], number: int) -> Word:
    box = (float(word["x0"]), float(word["top"]), float(word["x1"]), float(word["bottom"]))
    return Word(*box, storable(word["text"]), (number, 0))


def _box(cell: Sequence[float]) -> BBox:
    x0, y0, x1, y1 = map(float, cell)
    return (x0, y0, x1, y1)
