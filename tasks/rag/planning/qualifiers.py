"""Years, quarters, forms, rounds and dates in a question or a name, and how well a document fits them."""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

from tasks.language.tokens import month_number

DAYS_TO_REPORT = 31
"""Maximum number of days between an event and its report."""


class Period(NamedTuple):
    """A year, or a quarter of it; of a Korean company also a business term (제23기)."""

    year: int | None = None
    quarter: int | None = None
    term: int | None = None


class Qualifiers(NamedTuple):
    """Years, forms, rounds and dates in a text."""

    periods: tuple[Period, ...] = ()
    forms: tuple[str, ...] = ()
    rounds: tuple[int, ...] = ()
    """0 is the original notice, 1 the first again."""
    dates: tuple[str, ...] = ()
    """As 2024-03-15."""


_PLAIN = re.compile(r"[\x00-\x7f가-힣]*")
_ACCENTS = re.compile("[\u0300-\u036f]+")


def folded(text: str) -> str:
    """NFC without case, accents and forms of width: ㈜ is (주), Ö is o."""
    if _PLAIN.fullmatch(text):
        return text.lower()
    letters = unicodedata.normalize("NFKD", text.replace("’", "'"))
    return unicodedata.normalize("NFC", _ACCENTS.sub("", letters)).lower()


_YEAR = r"(?:19[89]\d|20[0-4]\d)"
_FISCAL = r"(?:fy|cy|fiscal(?:\s+year)?|the\s+year)\s*['’]?\s*"
_COUNTED = "(?:명|건|개|원|곳|대|톤|억|만|백만|천|kg|km|employees|stores|units)"
_ORDINALS = {"first": 1, "second": 2, "third": 3, "fourth": 4, "1st": 1, "2nd": 2, "3rd": 3, "4th": 4}
_PERIODS = re.compile(
    rf"""
    (?<![\d.,$₩€-])(?:{_FISCAL})?(?P<y1>{_YEAR})[\s_-]*q(?P<q1>[1-4])(?!\d)
    | (?<![a-z\d])q(?P<q2>[1-4])[\s_,-]*(?:of\s+)?(?:the\s+)?(?:{_FISCAL})?['’]?(?P<y2>{_YEAR}|\d\d(?![\d%.,]))
    | (?<![a-z\d])(?P<q3>[1-4])q[\s_-]*['’]?(?P<y3>{_YEAR}|\d\d)(?!\d)
    | (?P<q4>first|second|third|fourth|1st|2nd|3rd|4th)[\s-]+(?:fiscal\s+)?quarter\s+(?:(?:of|in|for)\s+)?(?:the\s+)?
      (?:{_FISCAL})?['’]?(?P<y4>{_YEAR})
    | (?<![\d.,])(?P<y5>{_YEAR}|\d\d(?=년도?\s*제?[1-4]\s?분기))(?:년도?)?\s*제?(?P<q5>[1-4])\s?(?:분기|/4\s?분기)
    | 제?(?P<term>\d{{1,3}})기(?!\s?[가-힣]?(?:간|준|한))(?:\s*제?(?P<q6>[1-4])\s?분기)?
    | (?<![a-z\d]){_FISCAL}(?P<y6>{_YEAR}|\d\d)(?![\d%]|[.,]\d)
    | (?<![\d.,$₩€£#a-z-])(?P<y7>{_YEAR})(?![\d%]|[.,]\d|\s?{_COUNTED})
    | (?<![a-z\d])q(?P<q7>[1-4])(?![\da-z])
    | (?P<q8>first|second|third|fourth)[\s-]+(?:fiscal\s+)?quarter
    | (?<!\d)제?(?P<q9>[1-4])\s?분기
    """,
    re.VERBOSE,
)
_MONTH = r"(?P<{0}>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_DATES = re.compile(
    rf"""
    (?<!\d)(?P<y1>{_YEAR})(?:\s?[-./_]\s?|년\s?)(?P<m1>\d{{1,2}})(?:\s?[-./_]\s?|월\s?)(?P<d1>\d{{1,2}})(?!\d)
    | (?<!\d)(?P<y2>{_YEAR})(?P<m2>0[1-9]|1[0-2])(?P<d2>0[1-9]|[12]\d|3[01])(?!\d)
    | (?<![a-z]){_MONTH.format("m3")}\s(?P<d3>\d{{1,2}})(?:st|nd|rd|th)?,?\s(?P<y3>{_YEAR})
    | (?<!\d)(?P<d4>\d{{1,2}})(?:st|nd|rd|th)?\s(?:of\s)?{_MONTH.format("m4")},?\s(?P<y4>{_YEAR})
    """,
    re.VERBOSE,
)
_FORMS = {
    "10-k": r"10[\s_-]?k(?:/?a)?|annual\s+reports?|annual\s+filings?|사업보고서|연차보고서|연간보고서",
    "10-q": r"10[\s_-]?q(?:/?a)?|quarterly\s+(?:reports?|filings?)|분기보고서",
    "8-k": r"8[\s_-]?k(?:/?a)?|current\s+reports?",
    "20-f": r"20[\s_-]?f",
    "6-k": r"6[\s_-]?k",
    "40-f": r"40[\s_-]?f",
    "s-1": r"s[\s_-]?1(?:/?a)?(?=\s+(?:filing|registration)|$)",
    "proxy": r"def\s?14a|proxy\s+statements?",
    "half": r"반기보고서|half[\s-]?year(?:ly)?\s+reports?|interim\s+reports?",
    "earnings": r"(?<=\d\s)earnings(?=$)|earnings\s+(?:releases?|reports?|calls?|announcements?)|실적\s?발표",
    "correction": r"(?:정정|수정|변경)\s?(?:입찰\s?)?공고|정정\s?입찰|corrigend(?:um|a)|correction\s+notice",
}  # fmt: skip
_FORM_PATTERNS = {name: re.compile(rf"(?<![a-z\d.,$-])(?:{pattern})(?![a-z\d])") for name, pattern in _FORMS.items()}
_NOTICE = r"(?:notice|tender|rfp|announcement|invitation)"
_AGAIN = r"재\s?(?:입찰\s?공고|공고|입찰|발주)"
_AT_END = r"(?=\s*(?:[)\]]|$))"
_ROUNDS = re.compile(
    rf"""
    (?P<again>\d{{1,2}})\s?[차회]\s?{_AGAIN}
    | {_AGAIN}\s?[(\[]?\s?제?(?P<again_after>\d{{1,2}})\s?[차회](?![가-힣])
    | (?P<original>(?:최초|첫|첫\s?번째)\s?(?:입찰\s?)?공고|[원본]\s?공고|(?:original|first|1st|initial)\s+{_NOTICE})
    | (?:공고\s?)?차수\s?(?:는|가|:)?\s?(?P<number>\d{{1,2}})
    | 제?(?P<nth>\d{{1,2}})\s?[차회]\s?(?:입찰\s?)?공고
    | (?<![가-힣\d.])제?(?P<nth_alone>\d{{1,2}})\s?차{_AT_END}
    | (?P<word>first|second|third|fourth|1st|2nd|3rd|4th)\s+re-?(?:notice|tender|bid|issue|announcement)
    | (?P<nth_word>second|third|fourth|2nd|3rd|4th)\s+{_NOTICE}
    | (?<![a-z])(?:notice|round)\s?(?P<nth_after>\d{{1,2}}){_AT_END}
    | (?P<once>{_AGAIN}|(?<![a-z])re-?(?:notice|tender|bid(?:ding)?|issued?|announcement|advertise(?:ment|d)))
    """,
    re.VERBOSE,
)
_OF_A_ROUND = re.compile(rf"(?:최초|첫|[원본재])?(?:입찰)?공고[가-힣]{{0,2}}|(?:re-?)?{_NOTICE}s?")

PERIOD_TOKEN = re.compile(
    rf"(?:fy)?{_YEAR}(?:q[1-4]|h[12])?|{_YEAR}\d{{4}}|q[1-4]|[1-4]q(?:\d\d|{_YEAR})?|fy\d\d|제?\d+기|dated.*"
)
FORM_TOKEN = re.compile(
    r"10-?[kq]a?|8-?ka?|20-?f|6-?k|40-?f|s-?1|def14a|earnings|annual|quarterly|사업보고서|분기보고서|반기보고서"
)


def qualifiers(text: str) -> Qualifiers:
    """Years, quarters, forms, rounds and dates of a question or a name, each in its order."""
    plain = folded(text)
    dates: list[str] = []
    for match in _DATES.finditer(plain):
        parts = {key[0]: value for key, value in match.groupdict().items() if value}
        month = month_number(parts["m"])
        if 1 <= month <= 12 and 1 <= int(parts["d"]) <= 31:
            dates.append(f"{parts['y']}-{month:02d}-{int(parts['d']):02d}")
    spaced = re.sub(r"_+", " ", _DATES.sub(" ", plain))
    forms = [name for name, pattern in _FORM_PATTERNS.items() if pattern.search(spaced)]
    periods = tuple(dict.fromkeys(_period(match) for match in _PERIODS.finditer(spaced)))
    rounds = tuple(dict.fromkeys(_round(match) for match in _ROUNDS.finditer(spaced)))
    return Qualifiers(_joined(periods), tuple(forms), rounds, tuple(dict.fromkeys(dates)))


def without_qualifiers(text: str) -> str:
    """`text`, folded, without what `qualifiers` finds in it."""
    left = re.sub(r"_+", " ", _DATES.sub(" ", folded(text)))
    for pattern in (_ROUNDS, *_FORM_PATTERNS.values(), _PERIODS):
        left = pattern.sub(" ", left)
    return left


def _period(match: re.Match[str]) -> Period:
    parts = {key[0]: value for key, value in match.groupdict().items() if value}
    year = int(parts["y"]) if "y" in parts else None
    if year is not None and year < 100:
        year += 2000
    quarter = parts.get("q")
    number = None if quarter is None else _ORDINALS.get(quarter) or int(quarter)
    return Period(year, number, int(parts["t"]) if "t" in parts else None)


def _joined(periods: tuple[Period, ...]) -> tuple[Period, ...]:
    """A lone quarter beside a lone year belongs to it: `in 2022 … Q2`."""
    years = [period for period in periods if period.year]
    quarters = [period for period in periods if not period.year and not period.term and period.quarter]
    if len(years) == 1 and len(quarters) == 1 and not years[0].quarter:
        return (Period(years[0].year, quarters[0].quarter),)
    return tuple(period for period in periods if period not in quarters or not years)


def _round(match: re.Match[str]) -> int:
    if match["original"]:
        return 0
    if nth := match["nth"] or match["nth_alone"] or match["nth_after"]:
        return max(int(nth) - 1, 0)
    if match["nth_word"]:
        return _ORDINALS[match["nth_word"]] - 1
    if match["word"]:
        return _ORDINALS[match["word"]]
    return int(match["again"] or match["again_after"] or match["number"] or 1)


def is_of_a_round(word: str) -> bool:
    """Whether a folded word belongs to what says a round (최초 공고, re-notice), and not to a name."""
    return _OF_A_ROUND.fullmatch(word) is not None


def says_which(said: Qualifiers, *, rounds: bool) -> bool:
    """A round, a date, or a form with its period single a document out; a year alone does not."""
    return bool((rounds and said.rounds) or said.dates or (said.forms and said.periods))


def fit_of(said: Qualifiers, document: Qualifiers, *, rounds: bool) -> float:
    """How well a document fits the question, 0 to 1; rounds: whether the candidate documents have rounds."""
    fit = _period_fit(said, document) * _form_fit(said, document)
    if said.dates:
        between = [_days(dated) - _days(asked) for asked in said.dates for dated in document.dates]
        soon = any(0 < days <= DAYS_TO_REPORT for days in between)
        fit *= 1.0 if set(said.dates) & set(document.dates) else 0.9 if soon else 0.5
    if rounds and said.rounds:
        fit *= 1.0 if set(said.rounds) & set(document.rounds) else 0.2
    return fit


def _days(date: str) -> int:
    """Days since a fixed date, with months of 31: exact enough for weeks."""
    year, month, day = map(int, date.split("-"))
    return (year * 12 + month) * 31 + day


def _form_fit(said: Qualifiers, document: Qualifiers) -> float:
    if not said.forms:
        # a year as a whole is what an annual report tells; events and single quarters are told elsewhere
        whole = said.periods and not any(period.quarter for period in said.periods) and not said.dates
        return 0.6 if whole and set(document.forms) & {"8-k", "6-k", "correction", "proxy"} else 1.0
    if not document.forms:
        return 0.5
    return 1.0 if set(said.forms) & set(document.forms) else 0.2


def _period_fit(said: Qualifiers, document: Qualifiers) -> float:
    """The last of several years counts most: its report repeats the earlier ones."""
    if not said.periods:
        return 1.0
    if not document.periods:
        return 0.5
    last = max((period.year or 0, period.term or 0, period.quarter or 0) for period in said.periods)
    fits = [
        _one_period_fit(asked, period)
        * (1.0 if (asked.year or 0, asked.term or 0, asked.quarter or 0) == last else 0.6)
        for asked in said.periods
        for period in document.periods
    ]
    return max(fits)


def _one_period_fit(asked: Period, period: Period) -> float:
    if asked.term and period.term:
        return {0: 1.0, 1: 0.5}.get(period.term - asked.term, 0.2)
    if asked.year is None and asked.quarter:
        return 1.0 if asked.quarter == period.quarter else 0.5
    if asked.year is None or period.year is None:
        return 0.5
    fit = {0: 1.0, 1: 0.5, 2: 0.4, -1: 0.2}.get(period.year - asked.year, 0.1)
    if asked.quarter:
        return fit if asked.quarter == period.quarter else fit * (0.35 if period.quarter else 0.5)
    # what is published after the fourth quarter tells of the whole year
    return fit * (1.0 if period.quarter in {None, 4} else 0.8)
