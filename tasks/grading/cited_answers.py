"""Checks of answers that cite numbered blocks of text, the second one as [2].

A sentence is borne out if the blocks that it cites hold all its numbers in some spelling or, where it has no number,
enough of its words.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from decimal import Decimal, localcontext
from typing import NamedTuple

from tasks.language.number_words import CURRENCIES, FALLING, PLAIN_SIGNS, SCALE_WORDS
from tasks.language.numbers import (
    CALENDAR,
    MOST_DIGITS,
    Number,
    is_same_number,
    missing_numbers,
    read_numbers,
    written_value,
)
from tasks.language.sentences import CITATION_MARK, language_of, sentences_of
from tasks.language.tokens import BIGRAM, tokenize

MOST_RANGE = 20
"""Blocks that a range such as [1-3] may name."""
FEWEST_SHARED = 0.15
"""Share of the words of a sentence without numbers that the cited blocks must hold, if in the same language."""
FEWEST_WORDS = 5  # of a shorter sentence a share of words says nothing
_NOT_THERE = re.compile(
    r"찾지 못|찾을 수 없|알 수 없|확인할 수 없|확인되지 않|(?:나와|나타나|적혀|들어) ?있지는? ?않|"
    r"(?:명시|언급|제시|기재|포함)(?:되어|돼) ?있지는? ?않|(?:나오|밝히|명시하|언급하|다루)지는? ?않|"
    r"(?:정보|언급|내용|기재|명시|기록)[이가은는도]? ?없|"
    r"\b(?:do|does|did|is|are|was|were|can|could|has|have)(?: not|n[’']t|not) (?:\w+ ){0,2}?(?:"
    r"say|state|tell|told|mention|specif|contain|provide|give|include|name|report|disclos|indicat|found|find|answer|"
    r"determin|cover|hold|list|known|available)|"
    r"\bno (?:information|mention|figures?|data|details?|statement)\b|"
    r"\b(?:unknown|unclear|not (?:stated|told|mentioned|given|specified|disclosed|provided|available|found|known))\b",
    re.IGNORECASE,
)
_DOCUMENT_WORDS = re.compile(
    r"문서|자료|구절|지문|본문|발췌|제공된|정보|documents?|passages?|contexts?|texts?|information|sources?|excerpts?",
    re.IGNORECASE,
)
_GREETS = re.compile(
    r"(?:안녕|감사|도움이 되|네[,.!]|다음과 같|아래와 같|답변|hello|hi\b|thank|sure|certainly|of course|"
    r"here (?:is|are)|i hope|let me know|in summary|the following|as follows|yes[.!]?$|no[.!]?$)",
    re.IGNORECASE,
)
BETWEEN_ITEMS = re.compile(r"[,;、·]\s*(?:and|or|및)?\s*|\s(?:and|or|및)\s|(?<=[가-힣])[와과]\s")
"""Separator of the items of a list."""
_CJK = "\u1100-\u11ff\u3040-\u30ff\u3130-\u318f\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3"
_SPACE_AT_CJK = re.compile(rf"(?<=[{_CJK}]) | (?=[{_CJK}])")
"""Korean spacing varies, and Chinese has none."""
_WORD_CHARACTER = rf"[^\W{_CJK}]"


class RenumberedAnswer(NamedTuple):
    """An answer whose marks number the cited blocks in the order of first use."""

    text: str
    blocks: list[int]
    """Old number of each cited block; the new number n is at index n - 1."""


class Sentence(NamedTuple):
    """A sentence of an answer with the numbers of the blocks that it cites."""

    text: str
    words: str
    """The text without its citation marks."""
    marks: frozenset[int]


def renumber_citations(answer: str, *, blocks: int) -> RenumberedAnswer:
    """Renumber the marks of `answer` by first use, a mark for each block; one that names none of the `blocks` goes."""
    used: list[int] = []

    def new_marks(mark: re.Match[str]) -> str:
        numbers = list(dict.fromkeys(number for number in _numbers_of(mark.group()) if 1 <= number <= blocks))
        used.extend(number for number in numbers if number not in used)
        return "".join(f"[{used.index(number) + 1}]" for number in numbers)

    text = CITATION_MARK.sub(new_marks, answer.strip())
    # a mark that goes leaves a space before the full stop
    tidy = (re.sub(r"[ \t]+(?=[.,;:!?](?:\s|$))", "", line).rstrip() for line in text.splitlines())
    return RenumberedAnswer("\n".join(tidy).strip(), used)


def split_sentences(answer: str) -> list[Sentence]:
    """Return the sentences of an answer with the blocks that each cites."""
    sentences: list[Sentence] = []
    for sentence in sentences_of(answer):
        marks = frozenset(number for mark in CITATION_MARK.finditer(sentence) for number in _numbers_of(mark.group()))
        sentences.append(Sentence(sentence, CITATION_MARK.sub("", sentence).strip(), marks))
    return sentences


def is_borne_out(sentence: Sentence, sources: Sequence[str], *, question: str = "") -> bool:
    """Return whether a sentence claims nothing beyond `question`, or the `sources` it cites, [n] at n - 1, hold it."""
    if not _needs_evidence(sentence, question) and not (sentence.marks and read_numbers(sentence.words)):
        return True
    cited = [sources[n - 1] for n in sorted(sentence.marks)]
    if not cited:
        return False
    claim, source = _without_label(sentence.words), "\n".join(cited)
    if read_numbers(claim):
        return not missing_numbers(claim, cited)
    if language_of(claim) != language_of(source):
        return True  # an answer in Korean from an English document
    claim_words, source_words = (set(words) for words in tokenize([claim, source], tokenizer=BIGRAM))
    return len(claim_words) < FEWEST_WORDS or len(claim_words & source_words) >= FEWEST_SHARED * len(claim_words)


def only_abstains(sentences: Sequence[Sentence], *, question: str = "") -> bool:
    """Return whether the sentences only say that the documents do not give the answer."""
    claims = any(_needs_evidence(sentence, question) for sentence in sentences)
    return not claims and any(_says_unknown(sentence) for sentence in sentences)


def abstains(answer: str) -> bool:
    """Return whether an answer, its marks aside, only says that the documents do not give the answer."""
    return only_abstains(split_sentences(renumber_citations(answer, blocks=0).text))


def has_same_evidence(draft: str, rewritten: str) -> bool:
    """Return whether both texts have the same numbers before the same marks, none more or less, in any order."""
    evidence = _list_numbers_by_marks(draft), _list_numbers_by_marks(rewritten)
    return evidence[0].keys() == evidence[1].keys() and all(
        any(is_same_number(number, counterpart) for counterpart in theirs[marks])
        for ours, theirs in (evidence, evidence[::-1])
        for marks, numbers in ours.items()
        for number in numbers
    )


def has_numbers(answer: str, gold: str) -> bool:
    """Return whether `answer` has all numbers of `gold`, if any, in any spelling; without a unit digits are enough."""
    missing = set(missing_numbers(gold, [answer]))
    for number in read_numbers(gold):
        if number.text in missing:
            digits = re.escape(number.text.strip())
            if number.unit or not re.search(rf"(?<![\d.,]){digits}(?!\d|[.,]\d)", answer):
                return False
    return True


def has_words(answer: str, gold: str) -> bool:
    """Return whether `gold` is in `answer`, but for case, punctuation and the spaces between Korean words.

    Of a gold that lists things ("Oslo, Bergen and Bodø") each must be there, whatever stands between them.
    """
    items = [item for item in BETWEEN_ITEMS.split(gold) if item.strip(" .")]
    return _contains(answer, gold) or (len(items) > 1 and all(_contains(answer, item) for item in items))


def _contains(answer: str, gold: str) -> bool:
    """Return whether the gold's words stand in the answer, not inside longer words of letters."""
    gold_words, answer_words = _plain_words(gold), _plain_words(answer)
    if not gold_words:
        return gold.strip() in answer
    # a word of letters with spaces around must not be part of another: `dan` is not in `abundance`
    before = rf"(?<!{_WORD_CHARACTER})" if re.match(_WORD_CHARACTER, gold_words) else ""
    after = rf"(?!{_WORD_CHARACTER})" if re.match(_WORD_CHARACTER, gold_words[-1]) else ""
    return re.search(before + re.escape(gold_words) + after, answer_words) is not None


def _numbers_of(mark: str) -> Iterator[int]:
    """Yield the block numbers that a mark names: 1, 3, 4, 5 for [1, 3-5]; a range ends MOST_RANGE above its start."""
    for part in re.findall(r"\d+(?:\s*[–-]\s*\d+)?", mark):
        first, *last = (int(number) for number in re.findall(r"\d+", part))
        yield from range(first, min(last[0], first + MOST_RANGE) + 1) if last else (first,)


def _needs_evidence(sentence: Sentence, question: str) -> bool:
    """Return whether a sentence needs evidence: no greeting, lead-in, heading, question, nor `not stated`."""
    words = sentence.words
    if not any(sign.isalnum() for sign in words):
        return False
    if _says_unknown(sentence) or words.rstrip("*_ ").endswith("?"):  # a question back claims nothing
        return False
    has_number = bool(read_numbers(words))
    if not has_number and (_GREETS.match(words) or words.rstrip("*_ ").endswith((":", "："))):
        return False
    if not has_number and (words.startswith(("|", "#")) or (words.startswith("**") and words.endswith("**"))):
        return False
    return words.strip(" .") != question.strip(" .?")


def _says_unknown(sentence: Sentence) -> bool:
    """Return whether a sentence says that the documents lack the answer; `Not available on Sundays [1]` is a fact."""
    unknown = _NOT_THERE.search(sentence.words) is not None
    return unknown and (not sentence.marks or _DOCUMENT_WORDS.search(sentence.words) is not None)


def _without_label(words: str) -> str:
    return re.sub(r"^\s*\(?\d{1,2}[.)]\s+", "", words)


def _list_numbers_by_marks(text: str) -> dict[frozenset[int], list[Number]]:
    """Return the numbers before each set of marks, back to the last marks or the beginning of the sentence."""
    by_marks: dict[frozenset[int], list[Number]] = {}
    for sentence in sentences_of(text):
        claim, marks = "", frozenset[int]()
        for piece in re.split(f"({CITATION_MARK.pattern})", sentence, flags=re.IGNORECASE):
            if CITATION_MARK.fullmatch(piece):
                marks |= frozenset(_numbers_of(piece))
            elif piece.strip(" .,;"):  # marks side by side, [1], [2], belong to the same words
                _add_evidence(by_marks, marks, claim)
                claim, marks = piece, frozenset()
        _add_evidence(by_marks, marks, claim)
    return by_marks


def _add_evidence(by_marks: dict[frozenset[int], list[Number]], marks: frozenset[int], claim: str) -> None:
    numbers = read_numbers(_without_label(claim))
    if marks or numbers:
        by_marks.setdefault(marks, []).extend(numbers)


def _plain_words(text: str) -> str:
    """Return `text` as words are compared: NFC, lower case, without punctuation and spaces beside Hangul and Hanja."""
    lowered = unicodedata.normalize("NFC", text).casefold()
    spaced = "".join(" " if unicodedata.category(sign)[0] in "PZC" else sign for sign in lowered)
    return _SPACE_AT_CJK.sub("", " ".join(spaced.split()))


TOLERANCE = Decimal("0.005")
"""Relative difference within which numbers are equal."""
HEADER_SCALES = tuple(Decimal(10**power) for power in (3, 6, 8, 9))
"""Thousand, million, 억, billion: units of a table's header that a number without a unit may have lost."""
FEWEST_DIGITS = 3
"""A shorter number without a unit is not taken for one in thousands or millions: `2 plants` is not $2 billion."""
_YEAR = re.compile(r"(?:FY\s?)?(?:19[0-9]{2}|20[0-9]{2}|2100)", re.IGNORECASE)
_CURRENCY_SIGN = r"(?:US\$|[$₩￦€£¥￥])"
_BRACKETS = re.compile(
    rf"(?P<before>{_CURRENCY_SIGN})?\s?\(\s?(?P<after>{_CURRENCY_SIGN})?(?P<digits>[0-9][0-9,.]{{0,40}})\)"
    r"(?=\s?(?:percent|thousand|million|billion|trillion|백만|[%천만억조]))",
    re.IGNORECASE,
)
"""A negative number whose unit follows the bracket: $(2.5) billion."""


class Amount(NamedTuple):
    """A number as compared: its absolute value, unit and scale."""

    value: Decimal
    """Absolute value in whole units."""
    unit: str
    scale: Decimal
    """Value of 1 as written: 1000000 for numbers in millions."""


class SignedNumber(NamedTuple):
    """A number that may be negative by a word or brackets beside it."""

    number: Number
    either_sign: bool
    """Whether a word or brackets give the sign: `a loss of 5` is -5."""


def has_close_number(answer: str, gold: str) -> bool:
    """Return whether `answer` has the numbers of `gold`, its one quantity within half a percent and across units.

    Several quantities, dates and years must be there exactly. Whole numbers of one scale are equal only if one is the
    other rounded: 204 is not 203, and 7,300 million is 7,296 million.
    """
    if has_numbers(answer, gold):
        return True
    quantities = [quantity for quantity in _signed_numbers(gold) if not _is_calendar(quantity.number)]
    if len({abs(quantity.number.value) for quantity in quantities}) != 1:
        return False
    gold_number = quantities[0]
    missing = set(missing_numbers(gold, [answer]))
    if any(_is_calendar(number) and number.text in missing for number in read_numbers(gold)):
        return False
    candidates = (candidate for candidate in _signed_numbers(answer) if not _is_calendar(candidate.number))
    with localcontext(prec=2 * MOST_DIGITS):  # remainders of long numbers are exact
        return any(
            _are_equal(amount, gold_amount)
            for candidate in candidates
            if candidate.either_sign
            or gold_number.either_sign
            or (candidate.number.value < 0) == (gold_number.number.value < 0)
            for amount in _list_meanings(candidate.number, compared=gold_number.number)
            for gold_amount in _list_meanings(gold_number.number, compared=candidate.number)
        )


def _signed_numbers(text: str) -> Iterator[SignedNumber]:
    """Yield a text's numbers, and whether their sign may be either: in brackets, or where something falls."""
    for sentence in sentences_of(text.translate(PLAIN_SIGNS)):
        plain = _BRACKETS.sub(
            lambda bracket: f" -{bracket['before'] or bracket['after'] or ''}{bracket['digits']}", sentence
        )
        either_sign = FALLING.search(plain) is not None
        for number in read_numbers(plain):
            yield SignedNumber(number, either_sign or "(" in number.text or plain != sentence)


def _is_calendar(number: Number) -> bool:
    """Return whether a number is a date, a time, or a bare 2019, which may be a year."""
    return number.unit in CALENDAR or number.unit == "year" or _YEAR.fullmatch(number.text.strip("() ")) is not None


def _list_meanings(number: Number, *, compared: Number) -> Iterator[Amount]:
    """Yield the amounts that a number may mean when it is compared with another."""
    written, unit, value = written_value(number), number.unit, abs(number.value)
    scale = value / written if written else Decimal(1)
    yield Amount(value, unit, scale)
    if unit == "bp":
        yield Amount(value / 100, "%p", scale / 100)
    elif unit in SCALE_WORDS:  # 1.2B without a currency
        yield Amount(value * SCALE_WORDS[unit], "", scale * SCALE_WORDS[unit])
    if _is_bare(number) and value <= 1 and "." in number.text:
        yield Amount(value * 100, "share", scale * 100)  # a bare 0.25 may be a quarter, and so 25 %
    if unit == "%":
        yield Amount(value, "share", scale)
    is_scaled = compared.unit in _AMOUNT_UNITS and abs(compared.value) != written_value(compared)
    in_scale = compared.unit in SCALE_WORDS or is_scaled
    if _is_bare(number) and in_scale and len(re.sub(r"\D", "", number.text).lstrip("0")) >= FEWEST_DIGITS:
        yield from (Amount(value * header, compared.unit, header) for header in HEADER_SCALES)


def _are_equal(answer: Amount, gold: Amount) -> bool:
    """Return whether amounts are equal within TOLERANCE; whole ones of one scale, within half the coarser rounding."""
    units = {answer.unit, gold.unit}
    same_unit = len(units) == 1 or ("" in units and units <= _AMOUNT_UNITS)  # a currency may be left out, not changed
    difference = abs(answer.value - gold.value)
    if not same_unit or difference > TOLERANCE * gold.value:
        return False
    if answer.scale != gold.scale or answer.value % answer.scale or gold.value % gold.scale:
        return True
    return difference <= max(_rounding_unit(answer), _rounding_unit(gold)) / 2


def _rounding_unit(amount: Amount) -> Decimal:
    """Return the unit to which a whole number seems rounded: 100 for 7,300; 0 where it is not rounded."""
    digits = str(int(amount.value / amount.scale))
    zeros = len(digits) - len(digits.rstrip("0"))
    return 10**zeros * amount.scale if zeros else Decimal(0)


def _is_bare(number: Number) -> bool:
    return not number.unit and abs(number.value) == written_value(number)


_AMOUNT_UNITS = frozenset(["", *CURRENCIES.values()])
"""Units beside which a number without a unit may mean the same."""
