"""Labels of facts, and their values: checked against the label and brought into one canonical form."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Literal, NamedTuple

from tasks.language.numbers import Number, read_numbers, scales
from tasks.language.sentences import Language

FactName = Literal[
    "amount", "vat", "period", "published", "opening", "questions_due", "deadline", "points", "requirement", "notice",
    "project", "issuer", "place", "contact",
]  # fmt: skip

DISPLAY: dict[str, dict[Language, str]] = {
    "project": {"ko": "사업명", "en": "Project"},
    "issuer": {"ko": "발주 기관", "en": "Issuer"},
    "notice": {"ko": "공고 번호", "en": "Notice number"},
    "amount": {"ko": "사업 예산", "en": "Budget"},
    "vat": {"ko": "부가가치세", "en": "VAT"},
    "period": {"ko": "사업 기간", "en": "Contract period"},
    "published": {"ko": "공고일", "en": "Issued"},
    "opening": {"ko": "입찰 시작", "en": "Bids open"},
    "questions_due": {"ko": "질의 마감", "en": "Questions due"},
    "deadline": {"ko": "제출 마감", "en": "Proposals due"},
    "points": {"ko": "배점", "en": "Points"},
    "requirement": {"ko": "요구사항", "en": "Requirement"},
    "place": {"ko": "제출처", "en": "Place of submission"},
    "contact": {"ko": "문의처", "en": "Contact"},
}
"""In the order in which a table shows them."""

_LABELS: dict[FactName, str] = {
    "amount": r"""
        (?:총|추정|배정|소요|확보)?(?:사업|용역|과업|구매|계약|연구)?(?:예산액?|예산금액)|총?사업비
        |총?(?:사업|용역|추정|기초|예정|설계)금액|추정가격|예정가격|용역비
        |(?:the)?(?:total|project|estimated|available|maximum|approved|contract)*budget(?:ceiling|amount)?
        |(?:estimated|maximum)?(?:contract|tender)value|estimated(?:total)?(?:value|cost)|nottoexceed(?:amount)?
    """,
    "period": r"""
        총?(?:사업|계약|과업|용역|수행|이행|운영|위탁|과업수행|사업수행|계약이행)기간|납품기한|납기
        |(?:initial)?(?:contract|agreement)(?:term|period|duration)|term(?:of)?(?:the)?(?:contract|agreement)
        |periodofperformance|performanceperiod|(?:project)?duration|initialterm
    """,
    "questions_due": r"""
        (?:서면)?(?:질의|질문|문의)(?:서|사항)?(?:접수|제출|등록)?(?:마감|기한|기간)(?:일시|일자|일|시한|시각)?
        |(?:lastday|deadline|duedate|closingdate)for(?:submitting|submissionof|receiptof)?(?:written)?
        (?:questions|inquiries|enquiries)
        |(?:written)?(?:questions?|inquiries|enquiries)(?:are)?(?:due|deadline)(?:date|by)?
    """,
    "deadline": r"""
        (?:제안서|입찰서?|전자입찰|참가신청서?|신청서?|투찰|서류|제안)?(?:및가격제안서|및입찰서|및제안서)?
        (?:참여|참가|제출|접수|등록)?(?:마감|기한)(?:일시|일자|일|시한|시각)?
        |(?:제안서|입찰서|가격제안서|가격입찰서|투찰)(?:제출|접수)(?:기간|일시|일)?|입찰기간|제출일시
        |(?:the)?(?:proposals?|bids?|tenders?|offers?|responses?|submissions?|quotations?)(?:submission)?
        (?:are|is|mustbe|shallbe)?(?:due|deadline|closing|received|closingdate)(?:date|time|and|by|on|nolaterthan|at)*
        |(?:submission|closing|bid|proposal|tender)(?:deadline|duedate|date|dateandtime|time)|duedate(?:andtime)?|deadline
        |(?:deadline|duedate|closingdate)for(?:the)?(?:submissions?|receipt|submitting)?(?:of)?
        (?:proposals|bids|tenders|offers)?
    """,
    "opening": r"""
        (?:입찰서?|제안서|전자입찰|투찰|접수|제출)(?:참여|참가|제출|접수)?(?:시작|개시)(?:일시|일자|일|시각)?
        |bidsopen|bidopening(?:date)?
    """,
    "published": r"""
        (?:입찰)?공고(?:일시|일자|일)|입찰공고|공개일자?
        |(?:rfp)?(?:issued|released)(?:on)?|issuedate|dateofissue|releasedate
    """,
    "notice": r"""
        (?:입찰)?공고(?:번호|관리번호)|사업번호|noticenumber
        |(?:rfp|solicitation|tender|bid|reference|rfq|procurement)(?:no|number|ref|reference|id)
    """,
    "project": r"""
        (?:사업|용역|과업|공고|입찰건|공사|구매)명|건명|사업명칭|(?:project|contract|tender|rfp)(?:name|title)
    """,
    "issuer": r"""
        발주(?:기관|처|부서|자)|수요기관|공고기관|주관기관
        |issuer|issuedby|issuingagency|contractingauthority|agency|procuringentity
    """,
    "place": r"""
        (?:제안서|입찰서|서류)?(?:제출|접수)(?:처|장소)
        |(?:place|address)(?:of|for)submission|submissionaddress|submitto|deliverto
    """,
    "contact": r"""
        (?:사업|입찰|계약|제안)?(?:문의처?|담당자?|담당부서|문의및담당자)|연락처
        |contact(?:person|s|details|officer)?|inquiriesto
    """,
}
"""Labels as `bare` leaves them: without spaces, digits, signs, and what stands in brackets."""
_MATCHERS: tuple[tuple[FactName, re.Pattern[str]], ...] = tuple(
    (name, re.compile(pattern, re.VERBOSE)) for name, pattern in _LABELS.items()
)

REQUIREMENT_ID = re.compile(r"(?:[A-Z]{1,4}R|REQ)[-_‐–]\d{2,4}(?:-\d{1,3})?")
ANY_ID = re.compile(r"[A-Z]{1,5}[-_]?\d{1,4}(?:-\d{1,3})?")
VAT = re.compile(
    r"""
    (?:부가가치세|부가세|VAT|V\.A\.T\.?)(?:\s?\(?\s?VAT\s?\)?)?\s?(?:[를은을]\s?)?(?:10%\s?)?
        (?P<ko>포함|별도|제외|미포함|불포함)
    | (?P<before>inclu(?:ding|sive\sof)|incl\.?|exclu(?:ding|sive\sof)|excl\.?|plus|net\sof)\s(?:of\s)?
        (?:VAT|GST|(?:sales\s)?tax(?:es)?)
    | (?:VAT|GST|tax)\s(?P<after>included|excluded|inclusive|exclusive)
    """,
    re.IGNORECASE | re.VERBOSE,
)


def bare(text: str) -> str:
    """`사 업 명` and `가. 사업명(공고명)` are 사업명."""
    text = re.sub(r"^\s*(?:[가-하]|[0-9]{1,2}|[ivxIVXⅠ-Ⅻ]{1,4}|[a-z])[.)]\s*", "", text)
    return re.sub(r"\(.*?\)|\[.*?\]|[\W\d_]", "", text).casefold()


def fact_name(label: str) -> FactName | None:
    """Which fact a label names, if any."""
    squeezed = bare(label)
    return next((name for name, pattern in _MATCHERS if pattern.fullmatch(squeezed)), None) if squeezed else None


MOST_VALUE_CHARS = 200
MOST_NAME_CHARS = 80
LEAST_BARE_AMOUNT = 100_000
"""A smaller number without a currency may count anything."""
CURRENCIES = frozenset(["KRW", "USD", "EUR", "GBP", "JPY", "CNY"])
DURATIONS = {"months": ("months", 1), "years": ("months", 12), "weeks": ("days", 7), "days": ("days", 1)}
_POINTS = re.compile(r"\(?\s?([0-9]{1,4}(?:\.[0-9]{1,3})?)\s?(?:점|%|points?|pts?\.?)?\s?\)?", re.IGNORECASE)
PHONE_OR_MAIL = re.compile(r"[0-9]{2,4}[-).\s]\s?[0-9]{3,4}[-.\s][0-9]{4}|[\w.+-]+@[\w-]+\.[\w.]+")


class Stated(NamedTuple):
    """A fact as its block states it."""

    name: FactName
    label: str
    value: str
    canonical: str | None


def read_value(name: FactName, label: str, text: str) -> list[Stated]:
    """The fact, with a second one for the tax of an amount; none if `text` is no such value."""
    value = " ".join(text.split()).strip(" -–·,;")
    if not value or len(value) > MOST_VALUE_CHARS or name not in _READERS:
        return []
    read = _READERS[name](f"{label} | ", value)
    if read is None:
        return []
    label = " ".join(label.split()).strip(" -–·:：")
    found = [Stated(name, label, value, read or None)]
    if name == "amount" and (tax := VAT.search(f"{value} {label}")):
        found.append(tax_of(label, tax))
    return found


def tax_of(label: str, tax: re.Match[str]) -> Stated:
    """Whether the amount under that label holds the tax, by a match of `VAT`."""
    said = (tax["ko"] or tax["before"] or tax["after"] or "").lower()
    is_included = said == "포함" or said.startswith("incl")
    return Stated("vat", " ".join(label.split()), tax.group(), "included" if is_included else "excluded")


def points(label: str, text: str) -> Stated | None:
    """Points of a criterion: `20`, `20점`, `20 points`, `20%`."""
    match = _POINTS.fullmatch(text.strip())
    name = " ".join(label.split()).strip(" -–·:：,")
    if not match or not name or len(name) > MOST_NAME_CHARS:
        return None
    return Stated("points", name, text.strip(" ()"), plain(Decimal(match[1])))


def plain(value: Decimal) -> str:
    """Digits without an exponent or idle zeros."""
    return f"{value.normalize():f}"


def _amount(label: str, value: str) -> str | None:
    stated = scales(label.replace(" | ", ""))
    for number in read_numbers(value):
        if number.value <= 0:
            continue
        if number.unit in CURRENCIES:
            return plain(number.value) + ("" if number.unit == "KRW" else f" {number.unit}")
        if number.unit == "" and (stated or number.value >= LEAST_BARE_AMOUNT):
            return plain(number.value * (stated[0].factor if stated else 1))
    return None


def _period(_: str, value: str) -> str | None:
    numbers = read_numbers(value)
    for number in numbers:
        if number.unit in DURATIONS:
            unit, factor = DURATIONS[number.unit]
            return f"{plain(number.value * factor)} {unit}"
    days = [iso(number) for number in numbers if number.unit == "date"]
    return None if not days else f"{days[0]}/{days[-1]}" if len(days) > 1 else f"/{days[0]}"


def _day(value: str, *, first: bool) -> str | None:
    """The first or last day of the text with its hour; empty for a day without a year."""
    numbers = read_numbers(value)
    days = [number for number in numbers if number.unit == "date"]
    if not days:
        return "" if any(number.unit == "day of month" for number in numbers) else None
    day = days[0 if first else -1]
    if len(days) == 1:  # 3:00 PM on Friday, May 24, 2024
        hours = [number for number in numbers if number.unit == "time"]
        return iso(day) + (_clock(hours[0]) if hours else "")
    after = [number for number in numbers if number.start >= day.end and number.unit in ("date", "time")]
    return iso(day) + (_clock(after[0]) if after and after[0].unit == "time" else "")


def _clock(hour: Number) -> str:
    return f" {int(hour.value) // 100:02d}:{int(hour.value) % 100:02d}"


def iso(day: Number) -> str:
    """A day as 2024-05-07."""
    digits = f"{int(day.value):08d}"
    return f"{digits[:4]}-{digits[4:6]}-{digits[6:]}"


def _words(_: str, value: str) -> str | None:
    letters = sum(sign.isalpha() for sign in value)
    return "" if letters >= 2 and not _HEADER_WORD.fullmatch(re.sub(r"\s", "", value)) else None


_HEADER_WORD = re.compile(
    r"[가-힣()]{0,6}(?:금액|기간|명칭|성명|기관|일자|비고|내용|구분|번호|비율|여부|주소|직위|전화|연락처|규모|발주처)(?:\(.{1,6}\))?"
)
"""Where a value should stand: the header of another column."""
_READERS: dict[FactName, Callable[[str, str], str | None]] = {
    "amount": _amount,
    "period": _period,
    "published": lambda _, value: _day(value, first=True),
    "opening": lambda _, value: _day(value, first=True),
    "questions_due": lambda _, value: _day(value, first=False),
    "deadline": lambda _, value: _day(value, first=False),
    "notice": lambda _, value: value if any(map(str.isdigit, value)) and len(value) <= MOST_NAME_CHARS else None,
    "project": _words,
    "issuer": _words,
    "place": _words,
    "contact": lambda _, value: "" if PHONE_OR_MAIL.search(value) else None,
}
"""Label and value to the canonical form: empty where there is none, None where the value is of another kind."""
