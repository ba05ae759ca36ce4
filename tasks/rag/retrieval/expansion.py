"""Adds the words that documents use for what a question asks: capex → `purchases of property, plant and equipment`.

The tables hold general vocabulary of accounts and tenders, and no name of a company, a document or a data set.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple


class Expansion(NamedTuple):
    """What a question says in other words."""

    asked: str
    """The question without instructions to the answerer, such as how to round."""
    added: tuple[str, ...]
    """Phrases that documents may have instead, each once."""
    statements: tuple[str, ...]
    """Names of the financial statements that hold the answer, as in `STATEMENTS`."""


class _Term(NamedTuple):
    said: str
    """Pattern, matched without case between word boundaries; Korean may go on with a particle."""
    written: tuple[str, ...]
    """What the line of the statement or the clause of the tender is called, in several ways."""
    statements: tuple[str, ...]


def _term(said: str, written: str, *statements: str) -> _Term:
    """written: parted by ` / `."""
    return _Term(said, tuple(written.split(" / ")), statements)


CASH_FLOW, BALANCE, INCOME = "cash flows", "financial position", "income"
STATEMENTS = {
    CASH_FLOW: r"statements? of (?:consolidated )?cash flows?|cash flows? statements?|현금흐름표",
    BALANCE: r"balance sheets?|statements? of (?:consolidated )?financial (?:position|condition)|재무상태표|대차대조표",
    INCOME: r"statements? of (?:consolidated )?(?:net )?(?:income|operations|earnings|profit)|income statements?"
    r"|profit (?:and|or|&) loss|손익계산서",
}
"""Statement → pattern of its titles."""

_SAID_STATEMENTS = STATEMENTS | {INCOME: rf"{STATEMENTS[INCOME]}|p ?& ?l|p ?and ?l"}
_TITLES = {
    CASH_FLOW: ("consolidated statements of cash flows", "연결 현금흐름표"),
    BALANCE: ("consolidated balance sheets", "연결 재무상태표"),
    INCOME: ("consolidated statements of income operations earnings", "연결 손익계산서"),
}

# Names of line items as US GAAP and IFRS filings print them.
_ACCOUNTS = (
    _term(
        r"cap(?:ital )?ex(?:penditures?)?|capital (?:spending|investments?)",
        "capital expenditures / purchases of property, plant and equipment / additions to property",
        CASH_FLOW,
    ),
    _term(r"capital[- ]intensive", "property, plant and equipment / capital expenditures", BALANCE, CASH_FLOW, INCOME),
    _term(
        r"(?:net )?pp ?& ?e|ppne|fixed assets?|property,? plant,? (?:and|&) equipment",
        "property, plant and equipment, net",
        BALANCE,
    ),
    _term(
        r"cogs|cost of (?:goods sold|sales|revenues?|products sold)",
        "cost of goods sold / cost of sales / cost of revenue",
        INCOME,
    ),
    _term(r"(?:total |net )?revenues?|net sales|top[- ]line|turnover", "net sales / total revenues", INCOME),
    _term(r"gross (?:margins?|profits?)", "gross profit / gross margin / cost of sales", INCOME),
    _term(r"(?:operating|ebit) (?:margins?|income|profits?)|ebit", "operating income / income from operations", INCOME),
    _term(r"ebitda", "operating income / depreciation and amortization", INCOME, CASH_FLOW),
    _term(
        r"(?:net|profit) margins?|net (?:income|earnings|profit)|bottom[- ]line", "net income / net earnings", INCOME
    ),
    _term(r"sg ?& ?a|selling,? general", "selling, general and administrative expenses", INCOME),
    _term(r"r ?& ?d", "research and development", INCOME),
    _term(r"eps", "earnings per share diluted", INCOME),
    _term(r"(?:effective )?tax rates?", "effective tax rate / provision for income taxes / income tax expense", INCOME),
    _term(r"interest coverage", "interest expense / operating income", INCOME),
    _term(r"d ?& ?a|depreciation(?: and amorti[sz]ation)?", "depreciation and amortization", CASH_FLOW),
    _term(
        r"(?:operating )?cash flows? ratio|cash (?:flows? )?from operati(?:ons|ng activities)|operating cash flows?",
        "net cash provided by operating activities",
        CASH_FLOW,
    ),
    _term(
        r"free cash flows?|fcf",
        "net cash provided by operating activities / purchases of property, plant and equipment",
        CASH_FLOW,
    ),
    _term(r"dividends? (?:paid|payouts?|payments?)|(?:paid|pay) (?:in )?dividends?", "dividends paid", CASH_FLOW),
    _term(
        r"buy-?backs?|(?:share|stock) repurchases?|repurchas(?:ed?|ing) (?:of )?(?:shares?|stock)",
        "repurchases of common stock",
    ),
    _term(r"inventory turnover|days inventory|dio", "inventories / cost of sales", BALANCE, INCOME),
    _term(r"inventor(?:y|ies)", "inventories", BALANCE),
    _term(
        r"(?:net )?a/?r|dso|(?:accounts |trade )?receivables?", "accounts receivable, net / trade receivables", BALANCE
    ),
    _term(r"dpo|days payables?|(?:accounts |trade )?payables?", "accounts payable / trade payables", BALANCE),
    _term(
        r"working capital|(?:current|quick) (?:ratio|assets?|liabilities)|liquidity",
        "total current assets / total current liabilities",
        BALANCE,
    ),
    _term(r"total assets|(?:return on|asset) (?:assets?|turnover)|roa", "total assets", BALANCE),
    _term(r"return on (?:assets?|equity)|roa|roe", "net income", INCOME),
    _term(
        r"(?:share|stock)holders?['’]? equity|roe|return on equity|book value",
        "total stockholders' equity / shareholders' equity",
        BALANCE,
    ),
    _term(r"goodwill", "goodwill", BALANCE),
    _term(r"(?:long[- ]term|total) debt|leverage|borrowings?", "long-term debt / notes payable / borrowings", BALANCE),
    _term(r"(?:fixed )?asset turnover", "net sales / total revenues", INCOME),
)
# What filings call the rest of what is asked about them.
_FILINGS = (
    _term(r"ceo", "chief executive officer"),
    _term(r"cfo", "chief financial officer"),
    _term(r"competitors?|compete", "competition / competitors"),
    _term(r"lawsuits?|litigations?|legal (?:battles?|disputes?|proceedings?)", "legal proceedings / litigation"),
    _term(r"headcount|employees?|workforce", "employees"),
    _term(r"acquisitions?|m ?& ?a|acquired", "acquisitions"),
    _term(r"divestitures?|spin-?offs?", "divestitures / discontinued operations"),
    _term(r"auditors?", "report of independent registered public accounting firm"),
    _term(r"outlook|guidance", "outlook / guidance"),
    _term(r"customer concentration", "customers accounted for 10% or more of revenues"),
    _term(r"geograph(?:y|ies|ic)|regions?", "geographic segment"),
)
_KOREAN = (
    _term(r"(?:사업 ?)?예산|사업비|사업 ?금액", "사업예산 / 사업금액 / 사업비 / 추정가격"),
    _term(
        r"입찰 ?(?:참여 ?)?(?:마감|기한)|제출 ?(?:마감|기한)|마감 ?(?:일시|일|시각)", "입찰마감 / 마감일시 / 제출기한"
    ),
    _term(r"(?:사업|계약|과업|수행) ?기간", "사업기간 / 계약기간 / 과업기간"),
    _term(r"발주 ?(?:기관|처)|수요 ?기관", "발주기관 / 수요기관"),
    _term(r"배점", "배점 / 평가항목"),
    # with the English lines: a Korean question may be about a filing in English
    _term(
        r"설비 ?투자|자본적 ?지출|유형자산의? ?취득",
        "유형자산의 취득 / capital expenditures / purchases of property, plant and equipment",
        CASH_FLOW,
    ),
    _term(r"유형자산", "유형자산 / property, plant and equipment, net", BALANCE),
    _term(r"매출 ?원가", "매출원가 / cost of sales / cost of goods sold", INCOME),
    _term(r"매출 ?총이익(?:률)?", "매출총이익 / gross profit / gross margin", INCOME),
    _term(r"매출(?:액)?|영업 ?수익", "매출액 / 영업수익 / net sales / total revenues", INCOME),
    _term(r"영업 ?이익(?:률)?", "영업이익 / operating income", INCOME),
    _term(r"(?:당기 ?)?순이익(?:률)?", "당기순이익 / net income / net earnings", INCOME),
    _term(r"주당 ?(?:순)?이익", "주당이익 / earnings per share", INCOME),
    _term(r"판관비", "판매비와관리비 / selling, general and administrative expenses", INCOME),
    _term(r"영업 ?(?:활동 ?)?현금 ?흐름", "영업활동현금흐름 / net cash provided by operating activities", CASH_FLOW),
    _term(r"감가상각비?", "감가상각비 / depreciation and amortization", CASH_FLOW),
    _term(r"배당금?", "배당금의 지급 / dividends paid"),
    _term(r"자사주|자기주식", "자기주식의 취득 / repurchases of common stock"),
    _term(r"재고(?:자산)?", "재고자산 / inventories", BALANCE),
    _term(r"자본 ?총계|부채 ?비율", "자본총계 / 부채총계 / total shareholders' equity", BALANCE),
    _term(r"자산 ?총계|총 ?자산", "자산총계 / total assets", BALANCE),
    _term(r"회계 ?연도", "fiscal"),
)

_HANGUL = re.compile("[가-힣]")
_CLAUSE = re.compile(r"(?<=[.?!:;])\s+")
_ASKS = re.compile(
    r"(?:(?:and|so|then) )?(?:what|which|who|whom|whose|when|where|why|how|is|are|was|were|do|does|did|has|have|can)\b",
    re.IGNORECASE,
)
_TO_THE_ANSWERER = re.compile(
    r"\b(?:answers?|respon(?:se|d)|questions?|please|assume|assuming|you|your|explain why|round(?:ed)?|what was asked"
    r"|we (?:need|want|would like) to|help us)\b",
    re.IGNORECASE,
)
_FISCAL = re.compile(
    r"\b(?:FY|fiscal(?: year)?|(?:Q[1-4]|[1-4]Q)\s?(?:of\s)?(?:FY)?)\s?['’]?(\d{4}|\d{2})\b", re.IGNORECASE
)
_QUARTER = re.compile(r"\b(?:Q([1-4])|([1-4])Q)", re.IGNORECASE)
_ORDINALS = ("first", "second", "third", "fourth")


def expand(question: str) -> Expansion:
    """The question in the words of documents."""
    # the clauses that ask, without those that tell the answerer how to go about it
    clauses = _CLAUSE.split(question)
    asking = [clause for clause in clauses if _ASKS.match(clause) or not _TO_THE_ANSWERER.search(clause)]
    asked = " ".join(asking) if any(len(clause.split()) > 2 for clause in asking) else question
    added: dict[str, None] = {}
    meant: dict[str, None] = {}
    named = [name for name, pattern in _SAID_STATEMENTS.items() if _spoken(pattern).search(question)]
    for term in (*_ACCOUNTS, *_FILINGS, *_KOREAN):
        if _spoken(term.said).search(asked):
            added |= dict.fromkeys(term.written)
            meant |= dict.fromkeys(term.statements)
    statements = tuple(named or meant)
    korean = _HANGUL.search(question) is not None
    added |= dict.fromkeys(title for name in statements for title in _TITLES[name][: 1 + korean])
    # FY2023 and Q2 as filings write them: 2023, second quarter
    added |= dict.fromkeys(f"{'20' if len(match[1]) == 2 else ''}{match[1]}" for match in _FISCAL.finditer(question))
    quarters = (_ORDINALS[int(match[1] or match[2]) - 1] for match in _QUARTER.finditer(question))
    added |= dict.fromkeys(f"{quarter} quarter" for quarter in quarters)
    return Expansion(asked, tuple(added), statements)


def is_statement(title: str, statements: tuple[str, ...]) -> bool:
    """Whether a heading is the title of one of `statements`."""
    return any(_spoken(STATEMENTS[name]).search(title) for name in statements)


@cache
def _spoken(pattern: str) -> re.Pattern[str]:
    """`pattern` as whole words; Hangul may begin within a word and go on with a particle."""
    return re.compile(rf"(?<![A-Za-z0-9])(?:{pattern})(?![A-Za-z0-9])", re.IGNORECASE)
