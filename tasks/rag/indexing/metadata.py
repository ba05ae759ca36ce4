"""What is known of documents beside their text: a CSV that lies with them, else what their first pages say plainly.

`read_table` and `match_rows` take the CSV, `read_facts` takes a parsed document.
"""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Literal

from storage.records import Record
from tasks.documents.blocks import Block, Document
from tasks.documents.document_errors import DocumentError
from tasks.documents.text_reader import decode, read_bytes
from tasks.rag.facts.fact_values import bare
from tasks.rag.rag_errors import MetadataUnusable

COLUMNS = {
    "공고번호": "notice_id",
    "공고차수": "notice_round",
    "사업명": "project_name",
    "사업금액": "project_amount",
    "발주기관": "issuer",
    "공개일자": "publish_date",
    "입찰참여시작일": "bid_start",
    "입찰참여마감일": "bid_end",
    "사업요약": "summary",
    "파일형식": "file_format",
    "파일명": "file_name",
}
"""Headers of the CSV, without spaces and brackets, and our names for them."""
MOST_FIELD_CHARS = 10_000_000


class MetadataRow(Record):
    """A line of the CSV."""

    line: int
    """1-based, the header is line 1; a record over several lines counts its last."""
    fields: dict[str, str]
    """Our names for known columns, the CSV's own for others; empty cells are left out."""

    @property
    def notice(self) -> tuple[str, str] | None:
        """Notice and round, which no two rows should share."""
        number = self.fields.get("notice_id")
        return (number, self.fields.get("notice_round", "")) if number else None


class MetadataWarning(Record):
    """Something about the CSV that its keeper should know."""

    code: Literal["duplicate_notice", "duplicate_file", "row_without_file", "file_without_row", "ragged_row"]
    message: str
    line: int | None = None
    file: str | None = None


class MetadataTable(Record):
    """The CSV."""

    rows: tuple[MetadataRow, ...]
    encoding: str
    warnings: tuple[MetadataWarning, ...] = ()


class MatchedMetadata(Record):
    """Which row belongs to which file."""

    by_file: dict[str, dict[str, str]]
    """Name of the file → its fields; files without a row are not here."""
    warnings: tuple[MetadataWarning, ...] = ()


def read_table(path: Path) -> MetadataTable:
    """The CSV at `path`: UTF-8 with or without mark, or CP949; separated by commas, semicolons or tabs.

    Raises MetadataUnusable.
    """
    csv.field_size_limit(MOST_FIELD_CHARS)
    try:
        decoded = decode(read_bytes(path))
        lines = _records(decoded.text)
    except OSError as error:
        raise MetadataUnusable(
            f"The metadata file {path} cannot be read: {error.strerror}; see `--metadata`"
        ) from error
    except (DocumentError, csv.Error) as error:
        raise MetadataUnusable(f"The metadata file {path} is no CSV: {error}; save it again as CSV UTF-8.") from error
    cells = lines[0][1] if lines else []
    header = [COLUMNS.get(_header(cell), unicodedata.normalize("NFC", cell).strip()) for cell in cells]
    if "file_name" not in header:
        seen = ", ".join(name for name in header if name)[:200]
        raise MetadataUnusable(f"The metadata file {path} has no column 파일명 (it has: {seen}); add the file names.")
    return _table(header, lines[1:], decoded.encoding)


def _records(text: str) -> list[tuple[int, list[str]]]:
    """Line number and cells of every record that is not empty, by the separator that knows most columns."""

    def known_columns(separator: str) -> int:
        header = next(csv.reader(io.StringIO(text, newline=""), delimiter=separator), [])
        return sum(_header(cell) in COLUMNS for cell in header)

    reader = csv.reader(io.StringIO(text, newline=""), delimiter=max(",\t;", key=known_columns))
    return [(reader.line_num, record) for record in reader if any(cell.strip() for cell in record)]


def _table(header: list[str], lines: list[tuple[int, list[str]]], encoding: str) -> MetadataTable:
    rows: list[MetadataRow] = []
    warnings: list[MetadataWarning] = []
    for number, cells in lines:
        named = zip(header, (unicodedata.normalize("NFC", cell).strip() for cell in cells), strict=False)
        rows.append(MetadataRow(line=number, fields={name: cell for name, cell in named if name and cell}))
        if len(cells) != len(header):
            message = f"Line {number} has {len(cells)} cells, the header {len(header)}; check its commas and quotes."
            warnings.append(MetadataWarning(code="ragged_row", message=message, line=number))
    count = Counter(row.notice for row in rows if row.notice)
    for row in rows:
        if row.notice and count[row.notice] > 1:
            number, round_ = row.notice
            name = f"{number} (차수 {round_})" if round_ else number
            kept = "all are kept, mend the CSV if one is wrong"
            message = f"The notice {name} stands in {count[row.notice]} rows; {kept}."
            warnings.append(MetadataWarning(code="duplicate_notice", message=message, line=row.line))
    return MetadataTable(rows=tuple(rows), encoding=encoding, warnings=tuple(warnings))


def _header(cell: str) -> str:
    """A header without spaces, brackets and what stands in them: `사업 금액(원)` is 사업금액."""
    text = unicodedata.normalize("NFC", cell).lstrip("\ufeff")
    return re.sub(r"\(.*?\)|\[.*?\]|（.*?）|\s", "", text)


def match_rows(table: MetadataTable, names: Iterable[str]) -> MatchedMetadata:
    """Give each file its row, by the file's name in NFC, with or without folder and suffix.

    Of several rows for a file the first counts, and later ones fill what it leaves open. Nothing is lost in silence:
    every row without a file and every file without a row gives a warning.
    """
    names = sorted(names)
    by_key: dict[str, list[str]] = {}
    for name in names:
        for key in _keys(name):
            by_key.setdefault(key, []).append(name)
    by_file: dict[str, dict[str, str]] = {}
    warnings: list[MetadataWarning] = []
    for row in table.rows:
        wanted = row.fields.get("file_name", "")
        # several files when the same name stands in several folders
        files = next((found for key in _keys(wanted) if (found := by_key.get(key))), []) if wanted else []
        if not files:
            message = f"Line {row.line} names the file `{wanted}`, which is not in the folder."
            warnings.append(MetadataWarning(code="row_without_file", message=message, line=row.line))
        for file in files:
            if file in by_file:
                message = f"Line {row.line} names a file that a row above names too: `{file}`; the first row counts."
                warnings.append(MetadataWarning(code="duplicate_file", message=message, line=row.line, file=file))
            by_file[file] = row.fields | by_file.get(file, {})
    for file in names:
        if file not in by_file:
            message = f"No row names the file `{file}`."
            warnings.append(MetadataWarning(code="file_without_row", message=message, file=file))
    return MatchedMetadata(by_file=by_file, warnings=(*table.warnings, *warnings))


def _keys(name: str) -> list[str]:
    """What a name may be matched by, the surest first."""
    path = unicodedata.normalize("NFC", name).replace("\\", "/").strip().lstrip("./").casefold()
    file = path.rpartition("/")[2]
    stem = re.sub(r"\.(pdf|hwpx?|docx?|docm|txt|md|html?)$", "", file)
    return list(dict.fromkeys((path, file, stem)))


FIRST_PAGES = 3
FIRST_BLOCKS = 60
"""Where a document has no pages, its opening is taken to be this long."""
MOST_VALUE_CHARS = 200

_LABELS = {
    "사업명": "project_name",
    "용역명": "project_name",
    "과업명": "project_name",
    "공고명": "project_name",
    "입찰건명": "project_name",
    "발주기관": "issuer",
    "발주처": "issuer",
    "수요기관": "issuer",
    "공고기관": "issuer",
    "주관기관": "issuer",
    "공고일": "publish_date",
    "공고일자": "publish_date",
    "공개일자": "publish_date",
    "사업금액": "project_amount",
    "사업예산": "project_amount",
    "소요예산": "project_amount",
    "추정가격": "project_amount",
    "공고번호": "notice_id",
    "입찰공고번호": "notice_id",
    "입찰마감일": "bid_end",
    "입찰마감일시": "bid_end",
    "제안서제출마감": "bid_end",
    "projectname": "project_name",
    "projecttitle": "project_name",
    "issuer": "issuer",
    "issuedby": "issuer",
    "contractingauthority": "issuer",
    "issuedate": "publish_date",
    "dateofissue": "publish_date",
    "budget": "project_amount",
    "rfpno": "notice_id",
    "rfpnumber": "notice_id",
}
_LINE = re.compile(r"[\s○●◦■□▪▶❍◎ㅇ\-•*·※]*(?:\(?[\d가-하]{1,2}[.)]\s*)?([^:：\n]{2,24}?)\s*[:：]\s*(\S.*)")
_MONTH = (
    r"(?:January|February|March|April|May|June|July|August|September|October|November|December"
    r"|Jan\.?|Feb\.?|Mar\.?|Apr\.?|Jun\.?|Jul\.?|Aug\.?|Sept?\.?|Oct\.?|Nov\.?|Dec\.?)"
)
_ENGLISH_DATE = rf"{_MONTH}\s+\d{{1,2}},?\s+\d{{4}}"
_PERIOD = re.compile(
    rf"(?:for\s+the\s+)?(?:fiscal\s+year|quarterly\s+period|transition\s+period|quarter|year)\s+ended:?\s*({_ENGLISH_DATE})",
    re.IGNORECASE,
)
_REPORT_DATE = re.compile(rf"date of (?:earliest event )?report[^:\n]{{0,40}}:?\s*({_ENGLISH_DATE})", re.IGNORECASE)
_COMPANY = re.compile(
    r"[A-Z0-9][\w&.,'’\- ]{1,80}?,?\s+(?:Inc\.?|Incorporated|Corp\.?|Corporation|Company|Co\.|Ltd\.?|Limited|plc|LLC"
    r"|N\.V\.|S\.A\.|INC\.?|CORP\.?|CORPORATION|COMPANY|LTD\.?|PLC)"
)
_NO_TITLE = re.compile(r"[\W\d_]*$|microsoft word|untitled|제목 ?없음|.*\.(?:docx?|hwpx?|pdf|indd)$", re.IGNORECASE)
_FORM = re.compile(r"form\s+(?:10-[KQ]|8-K|20-F|6-K|40-F|S-1)(?:/A)?", re.IGNORECASE)  # above it stands the commission
_REGISTRANT = re.compile(r"\(?\s*exact\s+name\s+of\s+(?:the\s+)?registrant", re.IGNORECASE)


def read_facts(document: Document) -> dict[str, str]:
    """What the first pages say plainly: title, project_name, issuer, publish_date, project_amount, bid_end, notice_id,
    period_end. Each fact with a known page comes with `…_page`. What is not labelled as such is not guessed.
    """
    facts: dict[str, str] = {}
    blocks = [block for page in document.pages[:FIRST_PAGES] for block in page.blocks]
    blocks = blocks[:FIRST_BLOCKS] if document.page_source == "none" else blocks
    for block in blocks:
        for name, value in _labelled(block):
            _note(facts, name, value, block)
        for name, pattern in (("period_end", _PERIOD), ("publish_date", _REPORT_DATE)):
            if match := pattern.search(" ".join(block.text.split())):
                _note(facts, name, match[1], block)
    lines = [(line.strip(), block) for block in blocks for line in block.text.splitlines() if line.strip()]
    for (above, block), (line, _) in pairwise(lines):  # a filing names the company above `(Exact name of registrant …)`
        if _REGISTRANT.match(line) and not _REGISTRANT.search(above):
            _note(facts, "issuer", above, block)
    for line, block in lines:
        if block.kind == "heading" and _COMPANY.fullmatch(line):
            _note(facts, "issuer", line, block)
    _note_title(facts, document, blocks)
    return facts


def _note(facts: dict[str, str], name: str, value: str, block: Block) -> None:
    """Keep a fact; the first place that states it counts."""
    value = " ".join(value.split()).strip(" -–·")
    if name in facts or not value or len(value) > MOST_VALUE_CHARS:
        return
    facts[name] = value
    if block.page is not None:
        facts[f"{name}_page"] = str(block.page)


def _labelled(block: Block) -> Iterator[tuple[str, str]]:
    """Facts that a label names: in the cell to its left, or before a colon."""
    if block.kind == "table":
        starts = {(cell.row, cell.col): cell for cell in block.cells}
        for cell in block.cells:
            name = _LABELS.get(bare(cell.text))
            value = starts.get((cell.row, cell.col + cell.col_span))
            if name and value and value.text.strip() and bare(value.text) not in _LABELS:
                yield name, value.text
        return
    for line in block.text.splitlines():
        match = _LINE.match(line)
        if match and (name := _LABELS.get(bare(match[1]))):
            yield name, match[2]


def _note_title(facts: dict[str, str], document: Document, blocks: Sequence[Block]) -> None:
    """The title that the file states, else the form that a filing names, else the first page's highest heading."""
    if document.title and document.title.strip() and not _NO_TITLE.match(document.title):
        facts.setdefault("title", " ".join(document.title.split())[:MOST_VALUE_CHARS])
        return
    for block in blocks:
        if _FORM.fullmatch(" ".join(block.text.split())):
            _note(facts, "title", block.text, block)
            return
    first = blocks[0].page if blocks else None
    headings = [block for block in blocks if block.kind == "heading" and block.page == first]
    if headings:
        highest = min(headings, key=lambda block: block.level or 1)
        _note(facts, "title", highest.text, highest)
