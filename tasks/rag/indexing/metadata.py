"""Metadata of documents: the rows of a CSV, and what their first pages state."""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from tasks.documents.blocks import Block, Document
from tasks.documents.document_errors import DocumentError
from tasks.documents.text_reader import decode, read_bytes
from tasks.rag.indexing.notice_facts import WORDS, strip_label
from tasks.rag.rag_errors import MetadataUnusable

COLUMNS: dict[str, str] = WORDS["columns"]
"""Header of a column of the CSV, without spaces and brackets → the name of its field."""
MOST_FIELD_CHARS = 10_000_000  # of a cell; the csv module's own limit is 131,072


class MetadataTable(NamedTuple):
    """The rows of a CSV of metadata."""

    rows: dict[int, dict[str, str]]
    """Line of the file (1-based, the last one of a record over several) → its cells that are not empty, by the names
    of COLUMNS where these know a column, and else by its header."""
    warnings: tuple[str, ...]


class MatchedMetadata(NamedTuple):
    """The rows of a CSV of metadata, each with the file that it describes."""

    by_file: dict[str, dict[str, str]]
    """File name → the cells of its row; files without a row are not here."""
    warnings: tuple[str, ...] = ()
    """A sentence for each row of the CSV that could not be used as it stands."""
    files_without_row: tuple[str, ...] = ()


def read_table(path: Path) -> MetadataTable:
    """Return rows of a CSV (UTF-8 or CP949; `,`, `;` or tabs) by line, and warnings. Raises MetadataUnusable."""
    csv.field_size_limit(MOST_FIELD_CHARS)
    try:
        text = decode(read_bytes(path)).text
        # the separator is the one by which most columns are known
        separator = max(
            ",\t;", key=lambda sign: sum(_plain_header(cell) in COLUMNS for cell in next(_open_csv(text, sign), []))
        )
        reader = _open_csv(text, separator)
        # line number and cells of every record that is not empty
        lines = [(reader.line_num, record) for record in reader if any(cell.strip() for cell in record)]
    except OSError as error:
        raise MetadataUnusable(
            f"The metadata file {path} cannot be read: {error.strerror}; see `--metadata`"
        ) from error
    except (DocumentError, csv.Error) as error:
        raise MetadataUnusable(f"The metadata file {path} is no CSV: {error}; save it again as CSV UTF-8.") from error
    cells = lines[0][1] if lines else []
    header = [COLUMNS.get(_plain_header(cell), unicodedata.normalize("NFC", cell).strip()) for cell in cells]
    if "file_name" not in header:
        columns = ", ".join(name for name in header if name)[:200]
        raise MetadataUnusable(
            f"The metadata file {path} has no column 파일명 (it has: {columns}); add the file names."
        )
    rows: dict[int, dict[str, str]] = {}
    warnings: list[str] = []
    for line, cells in lines[1:]:
        named_cells = zip(header, (unicodedata.normalize("NFC", cell).strip() for cell in cells), strict=False)
        rows[line] = {name: cell for name, cell in named_cells if name and cell}
        if len(cells) != len(header):
            warnings.append(
                f"Line {line} has {len(cells)} cells, the header {len(header)}; check its commas and quotes."
            )
    notices = [(row["notice_id"], row.get("notice_round", "")) for row in rows.values() if "notice_id" in row]
    counted = Counter(notices)
    for number, round_ in notices:
        if (count := counted[number, round_]) > 1:
            name = f"{number} (차수 {round_})" if round_ else number
            warnings.append(f"The notice {name} stands in {count} rows; all are kept, mend the CSV if one is wrong.")
    return MetadataTable(rows, tuple(warnings))


def _open_csv(text: str, separator: str) -> Any:
    return csv.reader(io.StringIO(text, newline=""), delimiter=separator)


def _plain_header(cell: str) -> str:
    """Return a header without spaces, brackets and their contents: `사업 금액(원)` is 사업금액."""
    text = unicodedata.normalize("NFC", cell).lstrip("\ufeff")
    return re.sub(r"\(.*?\)|\[.*?\]|（.*?）|\s", "", text)


def match_rows(table: MetadataTable, names: Iterable[str]) -> MatchedMetadata:
    """Match rows to files by name, with or without folder and suffix; a second row of a file only fills gaps."""
    names = sorted(names)
    by_key: dict[str, list[str]] = {}
    for name in names:
        for key in _file_keys(name):
            by_key.setdefault(key, []).append(name)
    by_file: dict[str, dict[str, str]] = {}
    warnings = list(table.warnings)
    for line, row in table.rows.items():
        file_name = row.get("file_name", "")
        # several files when the same name stands in several folders
        keys = _file_keys(file_name) if file_name else []
        files = next((by_key[key] for key in keys if key in by_key), [])
        if not files:
            warnings.append(f"Line {line} names the file `{file_name}`, which is not in the folder.")
        for file in files:
            if file in by_file:
                warnings.append(f"Line {line} names a file that a row above names too: `{file}`; the first row counts.")
            by_file[file] = row | by_file.get(file, {})
    return MatchedMetadata(by_file, tuple(warnings), tuple(name for name in names if name not in by_file))


def _file_keys(name: str) -> list[str]:
    """Return the keys by which a file name is matched, the most specific first: path, name, name without suffix."""
    # lstrip takes off `./`, `../` and `/` alike; no file begins with a dot, as the scan passes hidden ones over
    path = unicodedata.normalize("NFC", name).replace("\\", "/").strip().lstrip("./").casefold()
    file = path.rpartition("/")[2]
    stem = re.sub(r"\.(pdf|hwpx?|docx?|docm|txt|md|html?)$", "", file)
    return list(dict.fromkeys((path, file, stem)))


FIRST_PAGES = 3
FIRST_BLOCKS = 60
"""Number of blocks that are read of a document that stores no pages."""
MOST_VALUE_CHARS = 200

_LABELS = {label: name for name, labels in WORDS["first_pages"].items() for label in str(labels).split()}
_LINE = re.compile(r"[\s○●◦■□▪▶❍◎ㅇ\-•*·※]*(?:\(?[\d가-하]{1,2}[.)]\s*)?([^:：\n]{2,24}?)\s*[:：]\s*(\S.*)")
_ENGLISH_DATE = r"[A-Z][a-z]{2,8}\.?\s+\d{1,2},?\s+\d{4}"
_PERIOD = re.compile(
    rf"(?:for\s+the\s+)?(?:fiscal\s+year|quarterly\s+period|transition\s+period|quarter|year)\s+ended:?\s*({_ENGLISH_DATE})",
    re.IGNORECASE,
)
_REPORT_DATE = re.compile(rf"date of (?:earliest event )?report[^:\n]{{0,40}}:?\s*({_ENGLISH_DATE})", re.IGNORECASE)
_COMPANY = re.compile(
    r"[A-Z0-9][\w&.,'’\- ]{1,80}?,?\s+(?:Inc\.?|Incorporated|Corp\.?|Corporation|Company|Co\.|Ltd\.?|Limited|plc|LLC"
    r"|N\.V\.|S\.A\.|INC\.?|CORP\.?|CORPORATION|COMPANY|LTD\.?|PLC)"
)
# what programs fill in by themselves: the file's name, `untitled`, a number
_NO_TITLE = re.compile(r"[\W\d_]*$|microsoft word|untitled|제목 ?없음|.*\.(?:docx?|hwpx?|pdf|indd)$", re.IGNORECASE)
_FORM = re.compile(r"form\s+(?:10-[KQ]|8-K|20-F|6-K|40-F|S-1)(?:/A)?", re.IGNORECASE)  # above it stands the commission
_REGISTRANT = re.compile(r"\(?\s*exact\s+name\s+of\s+(?:the\s+)?registrant", re.IGNORECASE)


def read_facts(document: Document) -> dict[str, str]:
    """Return what the first pages state, by the name of its field: title, project_name, issuer, publish_date,
    project_amount, bid_end, notice_id and period_end; `…_page` is the page of a field. Nothing is guessed.
    """
    facts: dict[str, str] = {}
    blocks = [block for page in document.pages[:FIRST_PAGES] for block in page.blocks]
    blocks = blocks[:FIRST_BLOCKS] if document.page_source == "none" else blocks
    for block in blocks:
        for name, value in _find_labelled(block):
            _add_fact(facts, name, value, block)
        for name, pattern in (("period_end", _PERIOD), ("publish_date", _REPORT_DATE)):
            if match := pattern.search(" ".join(block.text.split())):
                _add_fact(facts, name, match[1], block)
    lines = [(line.strip(), block) for block in blocks for line in block.text.splitlines() if line.strip()]
    for (above, block), (line, _) in pairwise(lines):  # a filing names the company above `(Exact name of registrant …)`
        if _REGISTRANT.match(line) and not _REGISTRANT.search(above):
            _add_fact(facts, "issuer", above, block)
    for line, block in lines:
        if block.kind == "heading" and _COMPANY.fullmatch(line):
            _add_fact(facts, "issuer", line, block)
    _add_title(facts, document, blocks)
    return facts


def _add_fact(facts: dict[str, str], name: str, value: str, block: Block) -> None:
    """Add a fact with its page, unless an earlier place has stated it, or it is empty, or too long a value."""
    value = " ".join(value.split()).strip(" -–·")
    if name in facts or not value or len(value) > MOST_VALUE_CHARS:
        return
    facts[name] = value
    if block.page is not None:
        facts[f"{name}_page"] = str(block.page)


def _find_labelled(block: Block) -> Iterator[tuple[str, str]]:
    """Yield the facts of a block that a label names: in the cell to the left, or before a colon."""
    if block.kind == "table":
        starts = {(cell.row, cell.col): cell for cell in block.cells}
        for cell in block.cells:
            name = _LABELS.get(strip_label(cell.text))
            value = starts.get((cell.row, cell.col + cell.col_span))
            if name and value and value.text.strip() and strip_label(value.text) not in _LABELS:
                yield name, value.text
        return
    for line in block.text.splitlines():
        match = _LINE.match(line)
        if match and (name := _LABELS.get(strip_label(match[1]))):
            yield name, match[2]


def _add_title(facts: dict[str, str], document: Document, blocks: Sequence[Block]) -> None:
    """Add a title: the one that the file states, else the form of a filing, else the first page's highest heading."""
    if document.title and document.title.strip() and not _NO_TITLE.match(document.title):
        facts.setdefault("title", " ".join(document.title.split())[:MOST_VALUE_CHARS])
        return
    for block in blocks:
        if _FORM.fullmatch(" ".join(block.text.split())):
            _add_fact(facts, "title", block.text, block)
            return
    first = blocks[0].page if blocks else None
    headings = [block for block in blocks if block.kind == "heading" and block.page == first]
    if headings:
        highest = min(headings, key=lambda block: block.level or 1)
        _add_fact(facts, "title", highest.text, highest)
