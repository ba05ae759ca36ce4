"""Reads tables that are kept as text: CSV and TSV, in any encoding, with the delimiter that fits."""

from __future__ import annotations

import csv
import io
import itertools
from collections import Counter
from pathlib import Path

from tasks.documents.document_errors import CorruptDocument
from tasks.documents.document_readers import BlockList, Reader, ReadOptions, make_storable, read_whole
from tasks.documents.sheets.grid import AMOUNT, Cells, Value, find_pieces
from tasks.documents.sheets.xlsx_reader import MOST_CELLS, add_pieces
from tasks.documents.text_reader import decode, read_bytes

READER = "trivet csv 1"
DELIMITERS = "\t;|,"
"""In the order in which they are preferred where two fit equally well: a comma may stand before decimals."""
SAMPLED_ROWS = 200
MOST_FIELD_CHARS = 1_000_000


def open_csv(path: Path, *, password: str | None, options: ReadOptions) -> Reader:  # noqa: ARG001
    """Read a CSV or TSV file up to MOST_CELLS, its cells named as spreadsheet programs do. Raises DocumentError."""
    decoded = decode(read_bytes(path))
    cells, last = _cells(decoded.text)
    blocks, notes = BlockList(), list(decoded.notes)
    add_pieces(blocks, find_pieces(cells)[0], sheet=None)
    if last is not None:
        notes.append(f"Only rows up to {last:,} were read, as the file has more than {MOST_CELLS:,} cells; split it.")
    return read_whole(blocks.unpaged(), format="csv", reader=READER, notes=tuple(notes))


def detect_delimiter(text: str) -> str:
    """Return the delimiter that gives most of SAMPLED_ROWS rows the same number of fields, over one; else the comma."""
    preferred, best_share = ",", 0.0
    for delimiter in DELIMITERS:
        rows = [row for row in itertools.islice(_rows(text, delimiter), SAMPLED_ROWS) if row]
        widths = Counter(len(row) for row in rows if len(row) > 1)
        share = widths.most_common(1)[0][1] / len(rows) if widths else 0.0
        if share > best_share:
            preferred, best_share = delimiter, share
    return preferred


def _rows(text: str, delimiter: str) -> csv.reader:  # type: ignore[valid-type]
    csv.field_size_limit(MOST_FIELD_CHARS)
    return csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)


def _cells(text: str) -> tuple[Cells, int | None]:
    """Return cells by row and column, and the row where the text is cut, or None. Raises CorruptDocument."""
    cells: dict[int, dict[int, Value]] = {}
    count = 0
    try:
        for number, row in enumerate(_rows(text, detect_delimiter(text))):
            # formulas, which some files hold, are text, as they were never worked out
            texts = {column: make_storable(field.strip()) for column, field in enumerate(row) if field.strip()}
            row_cells = {at: Value(text, "number" if AMOUNT.fullmatch(text) else "text") for at, text in texts.items()}
            if count + len(row_cells) > MOST_CELLS:
                return cells, number  # counted from 0, so the number of the last row that was read
            if row_cells:
                cells[number] = row_cells
                count += len(row_cells)
    except csv.Error as error:
        raise CorruptDocument(f"The table cannot be read ({error}); its quotes may not be closed.") from error
    return cells, None
