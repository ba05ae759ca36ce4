"""Facts in lines and sentences: `가. 사업 금액: 금 3억원`, `Proposals due April 12, 2024`, `기술 90점, 가격 10점`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tasks.rag.facts.values import CURRENCIES, DURATIONS, Stated, points, read_value
from tasks.rag.facts.words import REQUIREMENT_ID, VAT, FactName, fact_name
from tasks.rag.language.numbers import Number, read_numbers

MOST_LINE_CHARS = 2_000
DATED: frozenset[FactName] = frozenset(["published", "opening", "questions_due", "deadline"])
DOTTED = re.compile(r"\.{4}|…{2}|·{4}")
"""A table of contents."""
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
ENGLISH_DAYS: tuple[tuple[re.Pattern[str], FactName], ...] = (
    (
        re.compile(rf"\b(?P<label>(?:proposals?|bids?|tenders?|offers?|responses?){_SENT}){_BY}", re.IGNORECASE),
        "deadline",
    ),
    (re.compile(rf"\b(?P<label>(?:questions|inquiries|enquiries){_SENT}){_BY}", re.IGNORECASE), "questions_due"),
)
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
    """Facts of a block that is no table."""
    for line in text.splitlines():
        line = line.strip()[:MOST_LINE_CHARS]
        if not line or DOTTED.search(line):
            continue
        found = list(_line(line)) or list(_sentences(line))
        yield from found
        yield from _split(line)
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
    for pattern, name in ENGLISH_DAYS:
        for match in pattern.finditer(line):
            days = [one for one in read_numbers(match["rest"]) if one.unit in ("date", "time")]
            if days:
                yield from read_value(name, match["label"], match["rest"][days[0].start : days[-1].end])


def _next(line: str, position: int, *, of: FactName | None) -> Number | None:
    """The first number of the kind that the label promises, if it stands near."""
    units = CURRENCIES if of == "amount" else frozenset([*DURATIONS, "date"]) if of == "period" else frozenset[str]()
    numbers = read_numbers(line[position : position + 3 * REACH])
    near = next((number for number in numbers if number.unit in units and number.start <= REACH), None)
    return near and near._replace(start=near.start + position, end=near.end + position)


def _split(line: str) -> Iterator[Stated]:
    """How the points are split between the technical offer and the price, where both make 100."""
    found = [one for match in SPLIT.finditer(line) if (one := points(match["label"], match["points"]))]
    if len(found) == 2 and sum(float(one.canonical or 0) for one in found) in (100, 1000):
        yield from found
