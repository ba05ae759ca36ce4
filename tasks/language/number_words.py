"""Patterns and words for dates, amounts, units and non-numbers; all are bounded, so that reading stays linear."""

from __future__ import annotations

import re
import tomllib
from decimal import Decimal
from importlib.resources import files

PLAIN_SIGNS = str.maketrans("０１２３４５６７８９，．％（）：’‘ʼ´`′‑－﹣", "0123456789,.%():''''''---")
"""Signs of which one is enough to read a number: full width, apostrophes, hyphens."""
SMALL = {"십": 10, "백": 100, "천": 1_000}
LARGE = {"만": 10**4, "억": 10**8, "조": 10**12}
DIGIT_SYLLABLES = dict(zip("일이삼사오육칠팔구", range(1, 10), strict=True)) | {"륙": 6}  # 륙: 육 inside a word

_WORDS = tomllib.loads((files("tasks.language") / "number_words.toml").read_text("utf-8"))
MONTHS: list[str] = _WORDS["months"].split()
NUMBER_NAMES: list[str] = _WORDS["number_names"].split()
SCALE_WORDS = {
    word: Decimal(10 ** int(power)) for power, words in _WORDS["scales"].items() for word in str(words).split()
}
"""The factor of each word of scale: 1,000 for `thousand` and 천."""
_CODES = _WORDS["currency_codes"].split()
CURRENCIES: dict[str, str] = {code: code for code in _CODES} | {
    sign: name for name, signs in _WORDS["currencies"].items() for sign in str(signs).split()
}
"""Code of the currency by itself, by its sign, and by its word in upper case, singular, without spaces and points."""
OTHER_DOLLARS = frozenset[str](_WORDS["other_dollars"].split())
CODE = rf"(?-i:{'|'.join(_CODES)})"
SIGN = "[$£¤¥؋৳฿៛₠-⃀﷼＄￠￡￥￦]"
CURRENCY = rf"U\.?S\.?\s?\$|[A-Z]{{0,3}}{SIGN}|S/\.?|(?:Rs|Fr|SFr|RM|RMB|Rp|Tk|NIS|kr|zł|Kč)(?![A-Za-z])\.?|{CODE}"
"""A currency beside a number or a scale, of whichever country: US$, A$, ₹, CHF, Rs., S/."""
ORDINALS = {"first": 1, "second": 2, "third": 3, "fourth": 4, "1st": 1, "2nd": 2, "3rd": 3, "4th": 4}

# groups of other countries where no other reading is possible: 1'234.50, 1.234,56, 12,34,567
_NUMBER = (
    r"[0-9]{1,3}(?:'[0-9]{3})++(?:\.[0-9]++)?(?![0-9])|[1-9][0-9]{0,2}(?:\.[0-9]{3})++,[0-9]{1,2}(?![0-9]|,[0-9])"
    r"|[0-9]{1,2}(?:,[0-9]{2}(?![0-9]))++,[0-9]{3}(?:\.[0-9]++)?(?![0-9]|,[0-9])"
    r"|[0-9]{1,3}(?:,[0-9]{3})++(?:\.[0-9]++)?(?![0-9])|[0-9]++(?:\.[0-9]++)?"
)
_GLUED = ["USD", "KRW", "EUR", "GBP", "JPY", "CNY", "CHF", "INR", "AUD", "CAD", "HKD", "SGD", "FY"]
DIGITS = re.compile(rf"(?:(?<![A-Za-z0-9_])|{'|'.join(f'(?<={code})' for code in _GLUED)})(?:{_NUMBER})")
FIRST_DIGITS = re.compile(rf"(?P<digits>{_NUMBER}|[일이삼사오육륙칠팔구](?=[십백천만억조]))")
MORE_DIGITS = re.compile(
    rf"\s?(?P<digits>(?:{_NUMBER})(?=\s?[십백천만억조]|\s?(?:원|달러))|[일이삼사오육륙칠팔구](?=\s?[십백천만억조원]))"
)
# 3 조직 is no 3조: behind a multiplier comes another, a unit, a particle or no Hangul; only money has a space before
_AFTER_MULTIPLIER = (
    r"(?=\s?(?:[십백천만억]|조(?!직|건|치|사|기|항))|\s?여?\s?(?:원|달러|불|유로|엔|위안)|[^가-힣]|$"
    r"|[일이삼사오육륙칠팔구][십백천만억조원]"
    r"|\s?여|개|명|인|건|대|식|점|부|회|호|톤|장|매|권|종|세대|가구|곳|배|평|주|시간"
    r"|이상|이하|이내|미만|초과|정도|가량|까지|부터|수준|규모|내외|단위|[은는이가을를의에과와로도]|으로|씩)"
)
MULTIPLIER = re.compile(
    rf"(?:(?P<sign>[십백천만억조])|\s(?P<spaced>[십백천만억조])(?=[십백천만억조]?\s?원|\s?달러)){_AFTER_MULTIPLIER}"
)
HANGUL_MONEY = re.compile(
    r"(?:(?<![가-힣0-9])|(?<=금)|(?<=금\s))(?P<amount>(?:[일이삼사오육륙칠팔구십백천만억조]\s?){2,40})(?<!\s)\s?원"
    r"(?=[정整이을은의에으과도까부]|[^가-힣]|$)"
)

_NAMES = "|".join(f"{month}|{month.upper()}" for month in (*MONTHS, *(name[:3] for name in MONTHS), "Sept"))
_MONTH = rf"(?<![A-Za-z])(?P<month>{_NAMES})\.?(?![a-z])"
_DAY = r"(?P<day>[0-3]?[0-9])(?:st|nd|rd|th)?(?![0-9A-Za-z])"
DATES = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?<![0-9.])(?P<year>[12][0-9]{3}|'[0-9]{2})(?:\s?년\s?|\s?[-./]\s?)(?P<month>[01]?[0-9])"
        r"(?:\s?월\s?|\s?[-./]\s?)(?P<day>[0-3]?[0-9])(?:\s?일(?!간)|\.(?![0-9]))?(?![0-9]|\.[0-9])",
        r"(?<![0-9.])(?P<year>[12][0-9]{3}|'[0-9]{2})\s?년\s?(?P<month>[01]?[0-9])\s?월",
        rf"{_MONTH}\s{{1,3}}{_DAY},?\s{{1,3}}(?P<year>[12][0-9]{{3}})(?![0-9])",
        rf"(?<![0-9.,]){_DAY}\s{{1,3}}(?:of\s)?{_MONTH},?\s{{1,3}}(?P<year>[12][0-9]{{3}})(?![0-9])",
        rf"{_MONTH},?\s{{1,3}}(?P<year>[12][0-9]{{3}})(?![0-9])",
        rf"{_MONTH}\s{{1,3}}{_DAY}(?!,[0-9])",
        r"(?<![0-9/.,])(?P<month>[01]?[0-9])/(?P<day>[0-3]?[0-9])/(?P<year>[12][0-9]{3})(?![0-9/])",
        r"(?<![0-9])(?P<month>1?[0-9])\s?월\s?(?P<day>[0-3]?[0-9])\s?일(?!간)",
    )
)
RANGE_END = re.compile(
    r"\s?(?:\(\s?[^)0-9]{1,3}\)\s?)?(?:[0-9]{1,2}\s?(?::\s?[0-9]{2}|시)\s?)?[~∼～–—-]\s?"
    r"(?P<month>1?[0-9])\s?[.월]\s?(?P<day>[0-3]?[0-9])\s?(?:[.일]|(?![0-9]))(?!\s?[0-9]{1,2}\s?\.)"
)
TIME = re.compile(
    r"(?<![0-9:.,A-Za-z])(?:(?P<before>오전|오후|AM|PM|am|pm)\s?)?(?P<hour>[0-2]?[0-9])"
    r"(?:\s?:\s?(?P<minute>[0-5][0-9])(?::[0-5][0-9])?(?![0-9:])"
    r"|(?P<hour_mark>\s?시)(?!간|스|장|설|행|점|민|청|군|도|작|범|료|공|나|각|험|기)"
    r"(?:\s?(?P<minutes>[0-5]?[0-9])\s?분(?!기))?"
    r"|(?=\s?[AaPp]\.?[Mm]))(?:\s?(?P<after>[AaPp]\.?[Mm]\.?)(?![A-Za-z]))?"
)
QUARTER = re.compile(
    r"(?<![0-9A-Za-z])(?:제\s?)?(?:(?P<ko>[1-4])\s?(?:/\s?4\s?)?분기|Q(?P<q>[1-4])(?![0-9A-Za-z])"
    rf"|(?P<word>{'|'.join(ORDINALS)})(?:\s|-)quarter)",
    re.IGNORECASE,
)

MARKS = tuple(
    re.compile(pattern, re.MULTILINE)
    for pattern in (
        r"https?://[^\s)>\]]{1,300}",
        r"\[[0-9]{1,3}(?:\s?[,–-]\s?[0-9]{1,3}){0,20}\]",
        r"^[ \t]{0,12}(?:[0-9]{1,2}[.)]|\([0-9]{1,2}\))(?=\s)",
        r"(?<![0-9-])(?:0[0-9]{1,2}|[0-9]{3})[-)]\s?[0-9]{3,4}-[0-9]{4}(?![0-9])",
        r"(?<![0-9-])[0-9]{3}-[0-9]{2}-[0-9]{5}(?![0-9])",
        r"(?<![0-9.])[0-9]{1,4}(?:\.[0-9]{1,4}){2,8}(?![0-9])",
        r"(?<![A-Za-z0-9])[0-9]{1,3}(?:st|nd|rd|th|-[A-Z])(?![A-Za-z0-9])",
        r"(?<![가-힣])제\s?[0-9]{1,6}(?:-[0-9]{1,4}){0,3}",
        r"(?<![가-힣])(?:표|그림|부록|붙임|별표|별지|서식|첨부)\s?[0-9]{1,3}(?:-[0-9]{1,3})?(?![0-9]|,[0-9])",
        r"(?<![A-Za-z])(?:[Aa]rticle|[Ss]ection|Item|Exhibit|Note|Table|Figure|Appendix|Annex|Chapter|Part|Page|No\.)"
        r"\s[0-9]{1,3}(?:\.[0-9]{1,3}){0,3}(?![0-9]|,[0-9])",
    )
)
"""Digits that are no numbers: citations, list marks, telephone numbers, versions, ordinals, articles, captions."""
IDS = re.compile(r"(?<![A-Za-z0-9])(?=[A-Za-z])[A-Za-z0-9]++(?:[-_][A-Za-z0-9]++|\.[0-9]++)*+")
"""Words of letters and digits such as SFR-001, whose digits are no numbers."""
GLUED = re.compile(rf"(?:{'|'.join(_GLUED)})[0-9]")
"""Words that begin as ids do and hold a number nevertheless: USD100, FY2023."""

BEFORE = re.compile(
    rf"(?P<open>\()?(?P<minus>(?<![A-Za-z0-9가-힣)\]%.])[-−–]|[△▲▽▼∆]\s?)?"
    rf"(?:(?<![A-Za-z])(?P<currency>{CURRENCY})(?:\s\|\s|\s)?)?(?P<inner>\()?$"
)
_MONEY = (
    r"원(?!칙|래|본|활|격|가|안|서|천|주|료|자|문|장|하|소)|달러|불(?!가|량|용|만|공|법|리|구)|유로|엔(?!진|드|터|지)"
    rf"|위안|파운드|(?:U\.?S\.?\s)?dollars?|{CODE}|RMB|won|euros?|yen|pounds?|€(?!\s?[0-9])"
)
_UNITS: dict[str, str] = _WORDS["units"]
UNIT_NAMES = tuple((name, re.compile(pattern, re.IGNORECASE)) for name, pattern in _UNITS.items())
COUNTERS = "|".join(_WORDS["counters"].split())
_ASCII_END = r"(?:(?<![A-Za-z])|(?![A-Za-z0-9]))"
UNIT = re.compile(
    rf"""
      [\s-]?(?P<scale>thousand|million|billion|trillion|mln|mn|bn|tn|lakh|crore|mio|mrd)s?(?![A-Za-z0-9])
        (?:\s?(?P<scaled_money>{_MONEY}){_ASCII_END})?
    | (?P<short>mm|[mbkt])(?![A-Za-z0-9])
    | (?:\s?여)?\s?(?P<money>{_MONEY}){_ASCII_END}
    | (?:\s?여)?[\s-]?(?P<word>{"|".join(_UNITS.values())}|{COUNTERS}){_ASCII_END}
    | (?P<glued>[a-z]{{1,6}})(?![A-Za-z0-9])
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""Words that may stand behind a number: a scale, a currency, a unit or a counter."""
AFTER_BRACKET = re.compile(
    r"\s?(?P<unit>%|percent|개월|일|명|months?|days?|years?|weeks?|hours?|points?)(?![A-Za-z0-9])", re.IGNORECASE
)

FALLING = re.compile(
    r"손실|적자|감소|하락|축소|마이너스|\b(?:loss|losses|lost|decreas\w*|declin\w*|deficit|negative|fell|down|minus"
    r"|outflows?|used)\b",
    re.IGNORECASE,
)
"""Words of loss or decrease: in a sentence with one, a number without a sign may stand for a negative one."""


def month_number(written: str) -> int:
    """Return a month, written `5`, `May`, `MAY` or `Sept`, as its number, digits unchecked. Raises ValueError."""
    if written.isdigit():
        return int(written)
    return [name[:3] for name in MONTHS].index(written[:3].capitalize()) + 1


def quarter_number(match: re.Match[str]) -> int:
    """Return the quarter that a match names in one of its groups `q`, `q_after`, `ko` and `word`, as 1 … 4."""
    groups = match.groupdict()
    written = next(filter(None, map(groups.get, ("q", "q_after", "ko", "word"))))
    return int(written) if written.isdigit() else ORDINALS[written.lower()]
