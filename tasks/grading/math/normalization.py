"""Rewrites the many spellings of the same mathematics, in LaTeX and in plain text, to one."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction

from tasks.grading.math.math_tokens import OTHER_UNITS, UNITS, WORDS

MAX_CHARS = 20_000
"""A longer answer is neither normalized nor compared."""

_SUPERSCRIPTS = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ", "0123456789+-n", strict=True))
_SUBSCRIPTS = dict(zip("₀₁₂₃₄₅₆₇₈₉", "0123456789", strict=True))
_AREAS = ("㎡ m 2", "㎢ km 2", "㎠ cm 2", "㎥ m 3", "㎤ cm 3")
_CHARACTERS = str.maketrans(
    {sign: rf"\{name} " for sign, name in re.findall(r"(\S) (\w+)", " ".join(WORDS["signs"]))}
    | {sign: rf"\mathbb{{{name}}}" for sign, name in zip("ℝℤℚℕ", "RZQN", strict=True)}
    | {sign: rf"\frac{{{above}}}{{{below}}}" for sign, above, below in zip("½⅓⅔¼¾", "11213", "23344", strict=True)}
    | {sign: rf" \text{{{unit}}}^{power} " for sign, unit, power in (area.split() for area in _AREAS)}
    | {"°": r"^{\circ}", "％": r"\%", "∶": ":", "、": ", ", "“": '"', "”": '"'}
    | dict.fromkeys("−–—", "-")
    | dict.fromkeys("′’‘", "'")
    | dict.fromkeys("\u00ad\u200b\ufeff\0", "")
)
_RAISED = re.compile(f"[{''.join(_SUPERSCRIPTS)}]+")
_LOWERED = re.compile(f"[{''.join(_SUBSCRIPTS)}]+")

_NEW_ROW = re.compile(r"\\\\(?:\s*\[[^\]\n]{0,8}(?:pt|ex|[cem]m)\])?")
_SPACES = re.compile(r"\\(?:[,;:>\s]|q?quad\b|thinspace\b|enspace\b|hspace\*?\{[^{}]*\})|~(?!=)|\s+")
_PERCENT = re.compile(
    r"\\?%|\\(?:text|mathrm|mbox)\s*\{\s*(?:percent(?:age)?|pct|\\?%)\s*\}|(?<![a-zA-Z])(?:percent(?:age)?|pct)\b"
)
_DERIVATIVE = re.compile(
    r"\\frac\s*\{\s*(?:\\mathrm\s*\{d\}|d)(?:\^\{?(\d)\}?)?\s*([^{}]*?)\}\s*\{\s*(?:\\mathrm\s*\{d\}|d)\s*([A-Za-z])(?:\^\{?\d\}?)?\s*\}"
)
_DOUBLED_ROW = re.compile(r"\\{4}")
_DOUBLED = re.compile(r"\\\\+(?=[a-zA-Z,;!{}%$])")  # escaped once more than needed, as in JSON
_ENDING = "(?:st|nd|rd|th)"
_ORDINAL = re.compile(
    rf"(?<=\d)\s?(?:\^?\s?(?:\{{\s*)?\\(?:text\w*|mathrm)\s*\{{\s*{_ENDING}\s*\}}(?:\s*\}})?"
    rf"|\^\{{{_ENDING}\}}|{_ENDING}(?![A-Za-z]))"
)
_REWRITES = (
    (("$", "\\"), re.compile(r"\$\$?|\\[()\[\]](?![a-zA-Z])"), " "),
    (("\\!",), re.compile(r"(?<=\d),\s*\\!\s*(?=\d)"), ""),
    (("\\!",), re.compile(r"\\!\s*"), ""),
    (("{", "\\"), re.compile(r"(?<=\d)\s*\{\s*,\s*\}\s*(?=\d{3}(?!\d))|(?<=\d)\\[,;:\s](?=\d{3}(?!\d))"), ""),
    (("{",), re.compile(r"\{\s*,\s*\}"), ","),
    (
        ("\\",),
        re.compile(
            r"\\(?:[mM]?left|[mM]?right|[bB]igg?[lrm]?)(?![a-zA-Z])\s*\.?"
            r"|\\(?:displaystyle|textstyle|(?:no)?limits|nonumber|rm|bf|it|tiny|small|(?i:large|huge)|hfill|notag)(?![a-zA-Z])"
            r"|\\(?:(?:label|tag)\*?|phantom|(?:text)?color\s*(?:\[\w+\])?\s*)\{[^{}]*\}"
        ),
        "",
    ),
    (("frac",), re.compile(r"\\[dtc]frac(?![a-zA-Z])"), r"\\frac"),
    (("frac",), _DERIVATIVE, r" \\derivative{\2}{\3}{\1} "),
    (
        ("\\circ", "\\degree"),
        re.compile(r"\^\s*(?:\{\s*\\circ\s*\}|\\circ(?![a-zA-Z]))|\\degrees?(?![a-zA-Z])"),
        r"\\degree ",
    ),
    (("%", "p"), _PERCENT, r"\\% "),
    (("\\le", "<"), re.compile(r"\\le(?:q(?:slant)?)?(?![a-zA-Z])|<\s*=|=\s*<"), r"\\le "),
    (("\\ge", ">"), re.compile(r"\\ge(?:q(?:slant)?)?(?![a-zA-Z])|>\s*="), r"\\ge "),
    (("\\n", "!"), re.compile(r"\\neq?(?![a-zA-Z])|!\s*=|\\not\s*="), r"\\ne "),
    (("\\lt",), re.compile(r"\\lt(?![a-zA-Z])"), "<"),
    (("\\gt",), re.compile(r"\\gt(?![a-zA-Z])"), ">"),
    (("\\", "~"), re.compile(r"\\(?:approx|simeq|doteq)(?![a-zA-Z])|~="), r"\\approx "),
    ((":", "colon"), re.compile(r"\\(?:colon|mathbin\{:\})|\s:\s"), ":"),
    (("th", "d"), _ORDINAL, ""),
    (("st",), _ORDINAL, ""),
    (("minus", "negative"), re.compile(r"\b(?:minus|negative)\s(?=\d)", re.I), "-"),
    (("*",), re.compile(r"\*\*"), "^"),
    (("half",), re.compile(r"(?<=\d) and (?:a|one) half\b"), ".5"),
    (("\\degree",), re.compile(r"\\degree\s*(?:\\\w+\{)?([CF])\b\}?"), r"\\text{ deg\1}"),
    (("root",), re.compile(r"(?<!\w)(?<!\w )(?:the )?(?:square )?root (?:of )?(?=\d)", re.I), r"\\sqrt "),
    (("cbrt",), re.compile(r"(?<![a-zA-Z\\])cbrt(?=\()"), r"\\sqrt[3]"),
)
"""One or two texts, of which one is in all that the pattern matches; the pattern; how that is spelled."""
_NUMERALS = {word: Decimal(value) for value, words in WORDS["numerals"].items() for word in words.split()}
_DENOMINATORS = {word: value for value, words in WORDS["denominators"].items() for word in words.split()}


def _any_of(words: Iterable[str]) -> str:
    return "|".join(sorted(words, key=len, reverse=True))


_DIGITS = r"\d[\d,]*(?:\.\d+)?"
_WORD = _any_of(_NUMERALS)
_SIGN = "".join(word for word in _NUMERALS if len(word) == 1)
_NUMERAL_PIECE = re.compile(f"{_DIGITS}|{_WORD}", re.I)
_COUNTER = _any_of((*UNITS, *OTHER_UNITS))
_SPELLED = re.compile(
    rf"(?P<sign>minus |negative )?(?:a )?(?P<numeral>(?:{_WORD})(?:(?:[\s-]|\sand\s)?(?:{_WORD}))*)"
    rf"(?P<half> and a half)?[\s-]?(?:(?P<part>{_any_of(_DENOMINATORS)})|(?<![A-Za-z])(?P<counter>{_COUNTER}))?",
    re.I,
)
_TIMES_TEN = r"\s?[십백천만억조十百千万萬億亿兆](?!각|큼|[米克瓦])"  # 3조각 are three pieces, 5千米 five kilometres
_MYRIADS = re.compile(
    rf"(?<![\d.,A-Za-z^]){_DIGITS}(?:{_TIMES_TEN})+(?:\s?(?:\d[\d,]*|[{_SIGN}](?={_TIMES_TEN}))(?:{_TIMES_TEN})*)*"
)
_ANY_NUMERAL = rf"(?:{_DIGITS}|[{_SIGN}]+)"
_PARTS = re.compile(rf"(?P<below>{_ANY_NUMERAL})\s?(?:분의|分之|分の)\s?(?P<above>{_ANY_NUMERAL})")
_AND_A_HALF = re.compile(
    rf"(?P<number>(?<![\d.])\d+|(?:{_WORD})+)(?P<gap>\s?(?:\\text\w*\{{\s*)?)(?P<unit>[个個]|{_any_of(UNITS)})\s?[반半](?![가-힣])"
)
_LOCAL = (
    (re.compile(r"(?<![\d.])(\d)\s?[할割](?!\w)"), r"\g<1>0\\%"),
    (re.compile(r"(?<=\d)\s?(?:퍼센트|프로(?![가-힣])|パーセント)"), r"\\%"),
    (re.compile(r"(?:루트|根号)\s?(?=\d)"), r"\\sqrt "),
    (re.compile(r"(?:마이너스|영하|零下|マイナス|[负負])\s?(?=\d)"), "-"),
    (re.compile(r"(?<![A-Za-z])([A-Za-z])\s?[는은이가はが是为為]\s?(?=[-\d\\(])"), r"\1 = "),
)
_HALVES = {
    half: hours for hours, halves in ((0, "a 오전 午前 上午"), (12, "p 오후 午後 下午")) for half in halves.split()
}
_HOUR = re.compile(
    rf"(?:(?P<half>{'|'.join(half for half in _HALVES if len(half) > 1)})\s?)?(?<!\d)(?P<hour>\d{{1,2}})\s?[시時时点點]"
    r"(?:\s?(?P<minute>\d{1,2})\s?[분分]|\s?(?P<thirty>[반半]))?"
)
_DIAL = re.compile(
    r"(?<![\d.])(?P<hour>1[0-2]|0?[1-9])(?::(?P<minute>[0-5]\d))?"
    r"(?:\s*\\text\w*\{\s*|\s|(?<=:\d\d))(?:(?P<half>[ap])\.?m\b\.?|o'clock\b|noon\b)\}?",
    re.I,
)
VERB_AT_THE_END = re.compile(
    r"\s{0,9}(?:입니다|이다|이에요|예요|가 됩니다|이 됩니다|です|である|だ|となります|になります)\s*[.!。]?\s*$"
)
PLAIN_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
"""Matches a number that has only one spelling."""
_SCALES = {"thousand": 3, "million": 6, "billion": 9, "trillion": 12}
_SCALE = re.compile(rf"(?<=\d)\s{{0,9}}(?:\\text\w*\s*\{{\s*)?({'|'.join(_SCALES)})s?\b(?P<rest>[^{{}}]*\}})?", re.I)
_MONEY = {"\\$": "dollar", "$": "dollar", "€": "euro", "£": "pound", "₩": "won"}
_PRICE = re.compile(r"(-?)\s*(\\?[$€£₩])\s*(-?[\d.,{}\\! ]*\d)(\s*[a-z]{7,9})?")
_CURRENCY = re.compile(r"\\\$|[€£¥₩₹]|\\(?:euro|pounds)(?![a-zA-Z])")
_TEXT_COMMAND = re.compile(r"\\(?:text\w*|mathrm|mathbf|mbox|operatorname)\s*\{([^{}]*)\}")
_NUMBER_IN_TEXT = re.compile(r"\\(?:text\w*|mathrm|mathbf|mbox)\s*\{\s*\(?\s*(-?\d[^{}()\\]*)\)?\s*\}")
_SPACE = re.compile(r"(?<!\d) | (?!\d)")
_ONLY_LETTERS = re.compile(r"[^\W\d_][^\W\d_ .'-]*(?:[ .'-]+[^\W\d_]+)*")
_ARTICLE = re.compile(r"^(?:an?|the)\s+(?=[a-z]{3})", re.I)
_MODULE = re.compile(r"\b(?:np|math|sympy)\.(?=[a-z])")
_EMPHASIS = re.compile(r"(?<![\w)\]}*])\*\*(?=\S)(.{1,500}?)(?<=\S)\*\*(?![\w(*])|`([^`]*)`")
_MATRIX = re.compile(r"\\begin\s*\{[a-zA-Z]*(?:matrix|array|cases|align|gather|split)")
_REPEATING = re.compile(
    r"(?<!\d)(\d{0,20})\.(\d{0,20})(?:\\(?:overline|bar|dot)\s*(?:\{(\d{1,20})\}|(\d))"
    r"|\\dot\s*\{?(\d)\}?(\d{0,20})\\dot\s*\{?(\d)\}?)(?!\\dot)"
)
_OUTWARD = re.compile(r"(?P<opening>[][(])(?P<ends>[^][(),;]{1,100},[^][(),;]{1,100})(?P<closing>[][)])")


def plain_characters(text: str) -> str:
    """Return `text` with Unicode mathematics spelled in LaTeX, and without signs that mean nothing."""
    if text.isascii():
        return text.replace("\0", "")
    text = _RAISED.sub(lambda raised: "^{" + "".join(_SUPERSCRIPTS[sign] for sign in raised.group()) + "}", text)
    text = _LOWERED.sub(lambda lowered: "_{" + "".join(_SUBSCRIPTS[sign] for sign in lowered.group()) + "}", text)
    text = text.translate(_CHARACTERS)
    if text.isascii():
        return text
    return unicodedata.normalize("NFKC", text).translate(_CHARACTERS)


def normalize(answer: str) -> str:
    """Return `answer` in one spelling of LaTeX, without dollars, sizes and colours."""
    if PLAIN_NUMBER.fullmatch(answer):
        return answer
    text = plain_characters(answer).strip()
    if not text.isascii():
        text = _spell_locally(text)
    if "*" in text or "`" in text:
        text = _EMPHASIS.sub(lambda marked: marked.group(1) or marked.group(2) or "", text)
    if _MATRIX.search(text) and "\\\\begin" not in text:
        text = _NEW_ROW.sub(r"\\newline ", text)
    elif "\\" in text:
        text = _DOUBLED_ROW.sub(r"\\newline ", text)
        text = _DOUBLED.sub(r"\\", text)
    if not text.isalnum():
        if price := _PRICE.fullmatch(text):
            text = rf"{price[1]}{price[3]}{price[4] or ''} \text{{{_MONEY[price[2]]}}}"
        text = _CURRENCY.sub(" ", _MODULE.sub("", text))
    if any(scale in text.lower() for scale in _SCALES):
        text = _SCALE.sub(_spell_scale, text)
    if "\\" in text:
        text = _REPEATING.sub(_spell_fraction, text)
    for needed, pattern, spelled in _REWRITES:
        if needed[0] in text or needed[-1] in text:
            text = pattern.sub(spelled, text)
    text = _DIAL.sub(_spell_time, _SPACES.sub(" ", text).strip(" \n\t")).rstrip(".,;:\\ ")
    if number := _NUMBER_IN_TEXT.fullmatch(text):
        return number.group(1).strip()
    return _OUTWARD.sub(_turn_inward, text) if text.startswith("]") or text.endswith("[") else text


def join_myriads(text: str) -> str:
    """Return numbers with 만, 億 and the like in digits: `3만 5천 원` is 35000 원."""
    return _MYRIADS.sub(lambda match: _read_numeral(match.group()), text)


def _spell_locally(text: str) -> str:
    """Return Korean, Chinese and Japanese spellings in LaTeX: `3분의 1`, `30퍼센트`, `2시 30분`, `x는 5`."""
    text = _HOUR.sub(_spell_time, _PARTS.sub(_spell_parts, join_myriads(VERB_AT_THE_END.sub("", text))))
    text = _AND_A_HALF.sub(lambda match: f"{_read_numeral(match['number'])}.5{match['gap']}{match['unit']}", text)
    for pattern, spelled in _LOCAL:
        text = pattern.sub(spelled, text)
    return text


def read_spelled(words: str) -> str | None:
    """Return a number in words, alone or with a unit (`two thirds`, `열두 명`), in digits; None for other words."""
    if not (spelled := _SPELLED.fullmatch(words)):
        return None
    number = f"{'-' if spelled['sign'] else ''}{_read_numeral(spelled['numeral'])}{'.5' if spelled['half'] else ''}"
    if part := spelled["part"]:
        return rf"\frac{{{number}}}{{{_DENOMINATORS[part.lower()]}}}"
    return f"{number} {spelled['counter'] or ''}".strip()


def _read_numeral(numeral: str) -> str:
    """Return the digits of `3만 5천`, `열두`, `二百三十` or `two hundred thousand`."""
    total, section, number = Decimal(0), Decimal(0), Decimal(0)
    for piece in _NUMERAL_PIECE.findall(numeral):
        if piece[0].isdigit():
            number = Decimal(piece.replace(",", ""))
            continue
        value = _NUMERALS[piece.lower()]
        if value < 10:
            number = number * 10 + value
        elif value < 100 and value != 10:
            section += value
        elif value >= 10_000:
            total, section, number = total + (section + number or 1) * value, Decimal(0), Decimal(0)
        elif section >= value:
            section, number = section + (number or 1) * value, Decimal(0)
        else:
            section, number = (section + number or 1) * value, Decimal(0)
    return f"{(total + section + number).normalize():f}"


def _spell_parts(match: re.Match[str]) -> str:
    """Return `3분의 1` as a fraction, and parts of a hundred as a percentage."""
    below, above = _read_numeral(match["below"]), _read_numeral(match["above"])
    return rf"{above}\%" if below == "100" else rf"\frac{{{above}}}{{{below}}}"


def _spell_time(match: re.Match[str]) -> str:
    """Return `12 noon`, `오후 2시 30분` or `下午2点半` by 24 hours; 2시 alone, which may be a count, as it is."""
    half, minute, thirty = (match.groupdict().get(name) for name in ("half", "minute", "thirty"))
    if match.re is _HOUR and not (half or minute or thirty):
        return match.group()
    hour = int(match["hour"])
    hour = hour % 12 + _HALVES[half.lower()] if half else hour
    return f"{hour}:{minute or ('30' if thirty else '00')}"


def _spell_scale(match: re.Match[str]) -> str:
    """Return `2 million` as a number; text behind it in the same `\\text{}` stays text."""
    rest = (match.group("rest") or "").rstrip("}").strip()
    return rf" \cdot 10^{{{_SCALES[match.group(1).lower()]}}}" + (rf" \text{{{rest}}}" if rest else "")


def _spell_fraction(match: re.Match[str]) -> str:
    """Return `0.1\\overline{6}` as the fraction that it is."""
    whole, fixed, *rest = (group or "" for group in match.groups())
    period = "".join(rest)
    value = Fraction(
        int(whole + fixed + period) - int((whole + fixed) or "0"), 10 ** len(fixed) * (10 ** len(period) - 1)
    )
    return rf"\frac{{{value.numerator}}}{{{value.denominator}}}"


def _turn_inward(match: re.Match[str]) -> str:
    """Return an interval with outward brackets, `]2,5[`, as (2,5)."""
    opening, closing = ("(" if match["opening"] == "]" else match["opening"]), match["closing"]
    return f"{opening}{match['ends']}{')' if closing == '[' else closing}"


def plain_words(normalized: str) -> str:
    """Return an answer that is nothing but text, however set, in lower case without an article; empty for all else."""
    text = _TEXT_COMMAND.sub(r"\1", normalized).strip()
    text = _ARTICLE.sub("", text)
    return " ".join(text.lower().split()) if _ONLY_LETTERS.fullmatch(text) else ""


def spell_for_sympy(normalized: str) -> str:
    """Return a normalized answer in LaTeX that other parsers read."""
    return normalized.replace("\\newline ", "\\\\ ").replace("\\degree ", r"^{\circ} ")


def remove_spaces(normalized: str) -> str:
    """Return a normalized answer without spaces but those between digits, by which equal spellings are found."""
    return _SPACE.sub("", normalized)
