"""Years and rounds in a question or a name, and how well a document fits them."""

from __future__ import annotations

import re
import unicodedata
from typing import Literal, NamedTuple


class Period(NamedTuple):
    """A year, or a business term of a Korean company (제23기)."""

    kind: Literal["year", "term"]
    number: int


class Qualifiers(NamedTuple):
    """Years and rounds in a text."""

    periods: tuple[Period, ...] = ()
    rounds: tuple[int, ...] = ()
    """0 is the original notice, 1 the first again."""


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
    (?<![\d.,$₩€£\#a-z-])(?:{_FISCAL})?(?P<year>{_YEAR})(?![\d%]|[.,]\d|\s?{_COUNTED})
    | (?<![a-z\d]){_FISCAL}(?P<short>\d\d)(?![\d%]|[.,]\d)
    | 제?(?P<term>\d{{1,3}})기(?!\s?[가-힣]?(?:간|준|한))
    """,
    re.VERBOSE,
)
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
    """Years, terms and rounds of a question or a name, each in its order."""
    plain = re.sub(r"_+", " ", folded(text))
    periods = tuple(dict.fromkeys(_period(match) for match in _PERIODS.finditer(plain)))
    return Qualifiers(periods, tuple(dict.fromkeys(_round(match) for match in _ROUNDS.finditer(plain))))


def without_qualifiers(text: str) -> str:
    """`text`, folded, without what `qualifiers` finds in it."""
    left = re.sub(r"_+", " ", folded(text))
    for pattern in (_ROUNDS, _PERIODS):
        left = pattern.sub(" ", left)
    return left


def _period(match: re.Match[str]) -> Period:
    if match["term"]:
        return Period("term", int(match["term"]))
    return Period("year", int(match["year"] or f"20{match['short']}"))


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


def fit_of(said: Qualifiers, document: Qualifiers, *, rounds: bool) -> float:
    """How well a document fits the question, 0 to 1; rounds: whether the candidate documents have rounds.

    The last of several years counts, whose report repeats the earlier ones; a report of the year after repeats it too.
    """
    fit = 0.2 if rounds and said.rounds and not set(said.rounds) & set(document.rounds) else 1.0
    if not said.periods:
        return fit
    last = max(said.periods)
    apart = [period.number - last.number for period in document.periods if period.kind == last.kind]
    return fit * max((_FITS.get(years, 0.1) for years in apart), default=0.5)


_FITS = {0: 1.0, 1: 0.5, 2: 0.4, -1: 0.2}
"""By how many years a document is of a later one."""
