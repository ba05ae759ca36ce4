"""The facts that a request for proposals states: amount, period, deadlines, points, requirements; read without a model.

A fact stands beside or below its label, after a colon, or in a sentence. Other documents have none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from storage.catalogue import Fact
from tasks.documents.blocks import Cell, Document
from tasks.language.numbers import Number, read_numbers
from tasks.rag.facts.fact_values import (
    ANY_ID,
    CURRENCIES,
    DURATIONS,
    REQUIREMENT_ID,
    VAT,
    FactName,
    Stated,
    bare,
    fact_name,
    points,
    read_value,
    tax_of,
)

SOLICITATION = re.compile(
    r"제\s?안\s?요\s?청\s?서|입찰\s?공고|과업\s?(?:지시|내용|설명)서|제안\s?요청|사업\s?공고|용역\s?공고|공고\s?번호|입찰\s?참가"
    r"|requests?\s+for\s+(?:proposals?|quotations?|tenders?|bids?)|\bRF[PQT]\b|invitation\s+(?:to|for)\s+(?:bids?|tenders?)"
    r"|call\s+for\s+(?:proposals|tenders)|statement\s+of\s+work|terms\s+of\s+reference|solicitation\s+(?:no|number)",
    re.IGNORECASE,
)
EVALUATION = re.compile(r"평가|배점|evaluation|criteria|scoring|award", re.IGNORECASE)
POINTS_HEADER = re.compile(
    r"배점|배점한도|평점|점수|가중치|(?:max(?:imum)?)?(?:points|score)|weight(?:ing|s)?|points?available"
)
CRITERION_HEADER = re.compile(r".*(?:항목|요소|지표)|criteri(?:on|a)|factor|item")
DESCRIPTION_HEADER = re.compile(r".*(?:기준|내용|설명|방법|비고|방식|근거|구성)|description|remarks?|notes?|howjudged")
TOTAL = re.compile(r"합계|총계|계|총점|total")
SUBTOTAL = re.compile(r"소계|sub-?total")
ID_HEADER = re.compile(r"(?:요구사항)?(?:고유번호|id|번호|식별자)|no|requirement(?:id|no|number)|ref(?:erence)?")
ID_LABEL = re.compile(r"(?:요구사항)?고유번호|요구사항(?:id|번호)|requirement(?:id|no|number)")
REQUIREMENT_NAME = re.compile(r"(?:요구사항|기능)(?:명칭|명)|명칭|requirement(?:name|title)")
REQUIREMENT_HEADER = re.compile(r".*요구사항.*|.*requirements?.*")

MOST_FACTS = 300
OPENING_BLOCKS = 60
"""Blocks at the beginning of a document that are searched for `SOLICITATION`."""
TELLING = frozenset(["amount", "period", "deadline"])
"""Two of these facts also mark a document as a request for proposals."""


def extract_facts(document: Document) -> tuple[Fact, ...]:
    """The facts of a request for proposals in reading order, each once; none of another document."""
    blocks = [block for page in document.pages for block in page.blocks]
    kept: dict[tuple[str, str], Fact] = {}
    in_evaluation = False  # whether the heading or caption above speaks of evaluation
    for block in blocks:
        if block.kind in ("header", "footer"):
            continue
        if block.kind in ("heading", "caption"):
            in_evaluation = EVALUATION.search(block.text) is not None
        if block.kind == "table":
            found = read_table_facts(block.cells, in_evaluation=in_evaluation)
        else:
            found = read_lines(block.text, in_evaluation=in_evaluation)
        for stated in found:
            day = f"{stated.canonical} "  # the same day may be known with its hour
            same = [fact.canonical or "" for fact in kept.values() if fact.name == stated.name]
            known = _key(stated) in kept or (stated.canonical and any(one.startswith(day) for one in same))
            if len(kept) < MOST_FACTS and not known:
                kept[_key(stated)] = Fact(**stated._asdict(), page=block.page, bbox=block.bbox)
    names = {fact.name for fact in kept.values()}
    opening = " ".join(block.text for block in blocks[:OPENING_BLOCKS])
    is_request = len(names & TELLING) >= 2 or SOLICITATION.search(f"{document.title or ''} {opening}")
    return tuple(kept.values()) if is_request else ()


def _key(stated: Stated) -> tuple[str, str]:
    """Key for removing duplicates: label and points of a criterion, canonical value of any other fact."""
    if stated.name == "points":
        return stated.name, f"{bare(stated.label)}={stated.canonical}"
    return stated.name, stated.canonical or " ".join(stated.value.split())


MOST_LINE_CHARS = 2_000
DATED: frozenset[FactName] = frozenset(["published", "opening", "questions_due", "deadline"])
DOTTED = re.compile(r"\.{4}|…{2}|·{4}")
"""Dot leaders of a table of contents."""
_BULLET = r"[\s○●◦■□▪▶❍◎ㅇ•*·※◇◆△▷-]{0,12}(?:\(?(?:[0-9]{1,2}|[가-하]|[a-z])[.)]\s*)?"
LINE = re.compile(
    rf"{_BULLET}(?P<label>(?:[^:：\n(（]|[(（][^)）\n]{{0,30}}[)）]){{2,60}}?)\s?(?:(?<![0-9])[:：]|[:：](?=\s))\s*(?P<value>\S.*)"
)
BULLET = re.compile(_BULLET)
NOTICE = re.compile(
    r"(?:RFP|RFQ|ITT|IFB|ITB|Solicitation|Tender)\s*(?:No\.?|Number|#)?\s*(?P<id>(?=\S*\d)[\w./-]+)", re.IGNORECASE
)
REQUIREMENT = re.compile(rf"\[?(?P<id>{REQUIREMENT_ID.pattern})[\s:.)\]]+(?P<name>\S.{{0,200}})")
KOREAN_SENTENCE = re.compile(
    r"(?:사\s?업|용\s?역|계\s?약|과\s?업|추\s?정|기\s?초|소\s?요|배\s?정|총)\s?"
    r"(?:예\s?산|금\s?액|가\s?격|기\s?간|사업비)(?=\s?(?:은|는|[(（]))"
)
ENGLISH_AMOUNT = re.compile(
    r"\b(?:the\s)?(?P<label>(?:\w+\s)?budget(?:ed)?|contract value)\b"
    r"(?P<between>[^.\n:;]{0,100}?)\s(?:is|of|exceeds?|up\sto)\s",
    re.IGNORECASE,
)
ENGLISH_PERIOD = re.compile(
    r"\b(?P<label>(?:initial\s)?(?:contract|agreement)\s(?:term|period)|term of (?:the|this) (?:contract|agreement)"
    r"|period of performance)\b(?P<between>[^.\n:;]{0,60}?)\s(?:is|of|be|for|from)\s",
    re.IGNORECASE,
)
RANGE = re.compile(r"\s?(?:to|through|until|and|-|–)\s.{6,30}")
_BY = r"(?P<rest>\s[^\n]{0,20}?\b(?:by|before|no later than|until|on)\s[^\n]{0,80})"
_SENT = (
    r"(?:\s(?:are|is|must be|shall be|should be|will be))?"
    r"\s(?:due|received|submitted|accepted|delivered)(?:\sin writing)?"
)
ENGLISH_DAYS: dict[FactName, re.Pattern[str]] = {
    "deadline": re.compile(
        rf"\b(?P<label>(?:proposals?|bids?|tenders?|offers?|responses?){_SENT}){_BY}", re.IGNORECASE
    ),
    "questions_due": re.compile(rf"\b(?P<label>(?:questions|inquiries|enquiries){_SENT}){_BY}", re.IGNORECASE),
}
SPLIT = re.compile(
    r"(?P<label>(?:기술|입찰\s?가격|가격|제안서|technical|price|cost)(?:\s?능력)?(?:\s?(?:평가|점수|proposal|score|부문))*)"
    r"\s?[:(（]?\s?(?P<points>[0-9]{1,4}\s?(?:점|%|points?))",
    re.IGNORECASE,
)
CRITERION = re.compile(
    rf"{_BULLET}(?P<label>[^:：\n|]{{3,60}}?)\s?[:：–(-]\s?(?P<points>[0-9]{{1,3}}\s?(?:점|points?|%))\)?\s?"
)
ASIDE = re.compile(r"\s?(?:[(（][^)）]{0,20}[)）]\s?)?[은는]?\s*")
"""Between a label in a sentence and its value: `사업예산(안)은 `."""
REACH = 30
"""Characters between a label in a sentence and its value."""


def read_lines(text: str, *, in_evaluation: bool) -> Iterator[Stated]:
    """Facts stated in the lines of a text block."""
    for line in text.splitlines():
        line = line.strip()[:MOST_LINE_CHARS]
        if not line or DOTTED.search(line):
            continue
        found = list(_line(line)) or list(_sentences(line))
        yield from found
        # points that are split between the technical offer and the price, where both make 100
        split = [one for match in SPLIT.finditer(line) if (one := points(match["label"], match["points"]))]
        if len(split) == 2 and sum(float(one.canonical or 0) for one in split) in (100, 1000):
            yield from split
        if in_evaluation and (match := CRITERION.fullmatch(line)) and (one := points(match["label"], match["points"])):
            yield one


def _line(line: str) -> Iterator[Stated]:
    """`Label: value`, `Label date`, `SFR-001 name`, `RFP 24-017`."""
    if (match := LINE.match(line)) and (name := fact_name(match["label"])):
        yield from read_value(name, match["label"], match["value"])
        return
    if match := NOTICE.fullmatch(line):
        yield Stated("notice", line[: match.start("id")].strip(), match["id"], match["id"])
        return
    if match := REQUIREMENT.match(BULLET.sub("", line, count=1)):
        number = re.sub("[_‐–]", "-", match["id"])
        yield Stated("requirement", number, match["name"], number)
        return
    day = next((number for number in read_numbers(line) if number.unit in ("date", "day of month")), None)
    if day and (name := fact_name(line[: day.start])) in DATED and name:
        yield from read_value(name, BULLET.sub("", line[: day.start], count=1), line[day.start :])


def _sentences(line: str) -> Iterator[Stated]:
    for match in KOREAN_SENTENCE.finditer(line):
        name = fact_name(match.group())
        if name and (number := _next(line, match.end(), of=name)):
            aside = ASIDE.match(line, match.end())
            tax = VAT.search(line, number.end, number.end + REACH) if name == "amount" else None
            end = tax.end() + line.startswith((")", "）"), tax.end()) if tax else number.end
            yield from read_value(name, match.group(), line[aside.end() if aside else match.end() : end])
    for match in ENGLISH_AMOUNT.finditer(line):
        if number := _next(line, match.end(), of="amount"):
            yield from read_value("amount", match["label"], line[number.start : number.end])
    for match in ENGLISH_PERIOD.finditer(line):
        if number := _next(line, match.end(), of="period"):
            until = RANGE.match(line, number.end) if number.unit == "date" else None
            days = [one for one in read_numbers(line[number.end : until.end()]) if one.unit == "date"] if until else []
            end = number.end + days[-1].end if days else number.end
            yield from read_value("period", match["label"], line[match.end() : end])  # three (3) years
    for name, pattern in ENGLISH_DAYS.items():
        for match in pattern.finditer(line):
            days = [one for one in read_numbers(match["rest"]) if one.unit in ("date", "time")]
            if days:
                yield from read_value(name, match["label"], match["rest"][days[0].start : days[-1].end])


def _next(line: str, position: int, *, of: FactName | None) -> Number | None:
    """The first number near `position` whose unit fits the fact."""
    units = CURRENCIES if of == "amount" else frozenset([*DURATIONS, "date"]) if of == "period" else frozenset[str]()
    numbers = read_numbers(line[position : position + 3 * REACH])
    near = next((number for number in numbers if number.unit in units and number.start <= REACH), None)
    return near and near._replace(start=near.start + position, end=near.end + position)


HEADER_ROWS = 3
MOST_LABEL_CHARS = 60
MOST_REQUIREMENT_CHARS = 200
MOST_GRID_CELLS = 100_000
_GROUP = re.compile(
    r"(?P<name>[^()\n]{1,60}?)\s?\(\s?(?P<points>[0-9]{1,4}\s?(?:점|%|points?|pts?))\s?\)\s*", re.IGNORECASE
)

Grid = dict[tuple[int, int], Cell]
"""Row and column → the cell that covers it."""


def read_table_facts(cells: Sequence[Cell], *, in_evaluation: bool) -> Iterator[Stated]:
    """Facts of a table, row by row; first the labelled, then points, then requirements."""
    grid = _grid(cells)
    if not grid:
        return
    yield from _labelled(cells, grid)
    yield from _points(grid, in_evaluation=in_evaluation)
    yield from _requirements(cells, grid)


def _grid(cells: Sequence[Cell]) -> Grid:
    if sum(cell.row_span * cell.col_span for cell in cells) > MOST_GRID_CELLS:
        return {(cell.row, cell.col): cell for cell in cells}
    return {
        (cell.row + down, cell.col + right): cell
        for cell in cells
        for down in range(cell.row_span)
        for right in range(cell.col_span)
    }


def _labelled(cells: Sequence[Cell], grid: Grid) -> Iterator[Stated]:
    rows = 1 + max(row for row, _ in grid)
    for cell in cells:
        name = fact_name(cell.text) if len(cell.text) <= MOST_LABEL_CHARS else None
        if name is None:
            continue
        beside = grid.get((cell.row, cell.col + cell.col_span))
        text = beside.text if beside else ""
        if name == "contact" and beside:
            text = " ".join(_row_after(grid, beside))
        found = read_value(name, cell.text, text) if not fact_name(text) else []
        if name == "amount" and beside and len(found) == 1 and (tax := VAT.search(" ".join(_row_after(grid, beside)))):
            found.append(tax_of(cell.text, tax))
        # one row below its header; in a longer table every row is another project
        if not found and name != "contact" and cell.row == 0 and rows == cell.row_span + 1:
            below = grid.get((cell.row + cell.row_span, cell.col))
            found = read_value(name, cell.text, below.text) if below else []
        yield from found


def _row_after(grid: Grid, cell: Cell) -> Iterator[str]:
    col = cell.col
    while other := grid.get((cell.row, col)):
        yield other.text
        col = other.col + other.col_span


def _points(grid: Grid, *, in_evaluation: bool) -> Iterator[Stated]:
    top = (cell for (row, _), cell in sorted(grid.items(), key=lambda item: item[0]) if row < HEADER_ROWS)
    header = next((cell for cell in top if POINTS_HEADER.fullmatch(bare(cell.text))), None)
    if header is None:
        return
    headers = {col: bare(cell.text) for (row, col), cell in grid.items() if row == header.row}
    is_criteria = any(CRITERION_HEADER.fullmatch(text) or "평가" in text for text in headers.values())
    if not (in_evaluation or is_criteria):
        return
    columns = [col for col in sorted(headers) if POINTS_HEADER.fullmatch(headers[col])]
    for row in range(header.row + header.row_span, 1 + max(row for row, _ in grid)):
        for before, col in zip([-1, *columns], columns, strict=False):
            cell = grid.get((row, col))
            if cell and (cell.row, cell.col) == (row, col):
                # what gets points is named by the last column called so, else by the nearest that does not describe
                left = [one for one in sorted(headers) if before < one < col]
                named = [one for one in left if CRITERION_HEADER.fullmatch(headers[one])]
                plain = [one for one in left if not DESCRIPTION_HEADER.fullmatch(headers[one])]
                yield from _row_points(grid, row, column=(named or plain or left or [0])[-1], cell=cell)


def _row_points(grid: Grid, row: int, *, column: int, cell: Cell) -> Iterator[Stated]:
    for col in range(cell.col):
        group = grid.get((row, col))
        match = _GROUP.fullmatch(group.text) if group and group.row == row and group is not cell else None
        if match and (stated := points(match["name"], match["points"])):
            yield stated
    name = grid.get((row, column))
    first = grid.get((row, 0))
    if first and TOTAL.fullmatch(bare(first.text)):
        name = first
    while name and name.row_span > cell.row_span and name.col + name.col_span < cell.col:
        name = grid.get((row, name.col + name.col_span))  # the group's name; the criterion stands beside it
    if column == 0 and cell.row_span > 1 and first and first.row_span == cell.row_span:
        name = first
    named = name and name is not cell and not _GROUP.fullmatch(name.text) and not SUBTOTAL.fullmatch(bare(name.text))
    if name and named and (stated := points(name.text, cell.text)):
        yield stated


def _requirements(cells: Sequence[Cell], grid: Grid) -> Iterator[Stated]:
    headers = {col: bare(cell.text) for (row, col), cell in grid.items() if row == 0}
    listed = any(REQUIREMENT_HEADER.fullmatch(text) or REQUIREMENT_NAME.fullmatch(text) for text in headers.values())
    numbered = {col for col, text in headers.items() if listed and ID_HEADER.fullmatch(text)}
    labelled = {(cell.row, cell.col + cell.col_span) for cell in cells if ID_LABEL.fullmatch(bare(cell.text))}
    ids: list[Cell] = []
    for cell in cells:
        is_numbered = (cell.row, cell.col) in labelled or (cell.row > 0 and cell.col in numbered)
        text = cell.text.strip()
        if REQUIREMENT_ID.fullmatch(text) or (is_numbered and ANY_ID.fullmatch(text)):
            ids.append(cell)
    # a table of a single requirement names it beside a label
    pairs = ((cell, grid.get((cell.row, cell.col + cell.col_span))) for cell in cells if len(ids) == 1)
    own = next((beside.text for cell, beside in pairs if beside and REQUIREMENT_NAME.fullmatch(bare(cell.text))), "")
    columns = [col for col, text in headers.items() if REQUIREMENT_NAME.fullmatch(text)]
    for cell in ids:
        named = grid.get((cell.row, columns[0])) if columns and cell.row else None
        beside = named or grid.get((cell.row, cell.col + cell.col_span))
        name = own or (beside.text if beside and beside is not cell else "")
        number = re.sub("[_‐–]", "-", cell.text.strip())
        value = " ".join(name.split())[:MOST_REQUIREMENT_CHARS] or number
        yield Stated("requirement", number, value, number)
