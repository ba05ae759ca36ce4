"""Whether a passage holds the type of answer that a question asks for: a person, a date, money, a count, a list …"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from importlib.resources import files

from tasks.language.tokens import HANGUL
from tasks.rag.answering.passages import Passage
from tasks.rag.answering.question_reading import NUMBER, NUMBER_WORDS, REASON, SIGNS, Question

_WORDS = tomllib.loads((files("tasks.rag.answering") / "question_words.toml").read_text("utf-8"))["answers"]
_NAMED = {name: re.compile(sign) for name, sign in _WORDS.items()}
"""What an answer of each type looks like; letter case counts, because names are told by it."""
_OPENS_ITEM = re.compile(r"^\s*(?:[-○●□■▪▶◦·•*※]\s*)?[(（]?\d{1,3}(?:[.-]\d{1,3})*[.)）]+\s")
_ASKS_YEAR = re.compile(r"\b(?:what|which) year\b|몇\s?년도?|어느 해", re.IGNORECASE)
_ASKS_HOUR = re.compile(r"\bwhat time\b|몇\s?시", re.IGNORECASE)
MOST_WORDS_BETWEEN = 3
"""Words between a number and what it counts: `214 company-operated retail stores`."""


def fits_type(question: Question, passage: Passage) -> bool:
    """Whether the passage holds an answer of the type; true where the question asks for no particular type."""
    text = passage.text
    match question.wants:
        case "number":
            return _has_measure(question, passage)
        case "money":
            return _has_money(question, passage)
        case "percent":
            return _has_percentage(question, passage)
        case "count":
            return _has_count(question, passage)
        case "date":
            return _has_date(question, text)
        case "who" | "where":
            return _has_name(question, passage)
        case "list":
            return passage.is_list or bool(_NAMED["enumerates"].search(text))
        case "definition":
            return bool(_NAMED["defines"].search(text))
        case "why":
            return bool(REASON.search(text))
        case "yesno":
            return yes_or_no(question, text) is not None
        case "writer":
            return False
        case _:
            return True


def new_numbers(question: Question, text: str) -> list[str]:
    """Numbers of quantities that the question does not say: no dates, and no numbers of items, notes and pages."""
    body = _NAMED["calendar"].sub(" ", _NAMED["reference"].sub(" ", _OPENS_ITEM.sub("", text)))
    return _unsaid(question, body)


def yes_or_no(question: Question, text: str) -> bool | None:
    """Whether a sentence affirms what the question asks; None for a question that denies, or a sentence that may do."""
    denies = (_NAMED["negates"], _NAMED["may_deny"])
    asked_so = any(pattern.search(question.text.lower()) for pattern in denies)
    if question.wants != "yesno" or asked_so or _NAMED["may_deny"].search(text):
        return None
    return _NAMED["negates"].search(text) is None


def counts(question: Question, passage: Passage) -> bool:
    """Whether a number of what is counted stands in the passage: `158개소` for 몇 개소."""
    counter = question.counter
    if not counter or (not HANGUL.search(counter) and counter.isascii()):
        return False
    counted = rf"(?:\d|[십백천만억])\s?(?:여\s?)?{re.escape(counter)}"
    return bool(re.search(counted, passage.text)) or counter in passage.unit or counter in passage.before


def _unsaid(question: Question, text: str) -> list[str]:
    numbers = (match.group().replace(",", "") for match in NUMBER.finditer(text))
    return [number for number in numbers if number not in question.numbers]


def _has_measure(question: Question, passage: Passage) -> bool:
    """Whether a number stands there, in a unit of what is asked for: meters for a length."""
    if not new_numbers(question, passage.text) and not NUMBER_WORDS.search(passage.text):
        return False
    measured = {term.word for term in question.terms if term.focus}
    signs = [sign for words, sign in SIGNS if measured & words]
    said = f"{passage.text} {passage.before if passage.is_row else ''}"
    return not signs or any(sign.search(said) for sign in signs) or bool(passage.unit)


def _has_money(question: Question, passage: Passage) -> bool:
    if any(_unsaid(question, match.group()) for match in _NAMED["money"].finditer(passage.text)):
        return True
    # a table says the currency once, above its numbers
    rest = _NAMED["counted"].sub(" ", _NAMED["percent"].sub(" ", passage.text))
    return (passage.is_row or bool(passage.unit)) and bool(new_numbers(question, rest))


def _has_percentage(question: Question, passage: Passage) -> bool:
    if any(_unsaid(question, match.group()) or match["word"] for match in _NAMED["percent"].finditer(passage.text)):
        return True
    said = f"{passage.unit} {passage.before if passage.is_row else ''} {passage.text if passage.is_row else ''}"
    return bool(_NAMED["percentages"].search(said)) and bool(new_numbers(question, passage.text))


def _has_count(question: Question, passage: Passage) -> bool:
    """Whether a number stands before what is counted, or in a row whose label or table names it."""
    numbers = new_numbers(question, passage.text) or NUMBER_WORDS.search(passage.text)
    if not numbers or not question.counter:
        return bool(numbers)
    if HANGUL.search(question.counter):
        return counts(question, passage) or (passage.is_row and question.counter in f"{passage.text} {passage.above}")
    if any(sign.search(passage.text) for words, sign in SIGNS if question.counter in words):
        return True
    around = f"{passage.before} {passage.above} {passage.unit}" if passage.is_row else ""
    stem = re.escape(question.counter[: max(3, len(question.counter) - 1)])
    number = rf"(?:\d[\d,.]*|{NUMBER_WORDS.pattern})(?:\s(?:million|thousand|billion))?"
    after = rf"{number}\s(?:[\w’'-]+\s){{0,{MOST_WORDS_BETWEEN}}}{stem}"
    named = re.search(rf"\b{stem}", f"{passage.text} {around}", re.IGNORECASE) if passage.is_row else None
    return bool(named or re.search(after, passage.text, re.IGNORECASE))


def _has_date(question: Question, text: str) -> bool:
    if _ASKS_HOUR.search(question.text):
        return any(_unsaid(question, match.group()) for match in _NAMED["hour"].finditer(text))
    found: Iterator[re.Match[str]] = _NAMED["day"].finditer(text)
    if any(_unsaid(question, match.group()) or not re.search(r"\d", match.group()) for match in found):
        return True
    years = (match for match in _NAMED["year"].finditer(text) if match["year"] not in question.numbers)
    return any(_ASKS_YEAR.search(question.text) or match["said"] for match in years)


def _has_name(question: Question, passage: Passage) -> bool:
    """Whether the passage names a person, an organisation, a role or a place that the question does not name."""
    asked = question.text.lower()
    kind = "korean_who" if question.wants == "who" else "korean_where"
    text = passage.text
    names = [match.group() for match in _NAMED["name"].finditer(text)]
    names += [match.group() for match in _NAMED[kind].finditer(text)]
    if question.wants == "who":
        names += [match.group() for match in _NAMED["role"].finditer(text)]
    return any(any(word.lower() not in asked for word in name.split()) for name in names)
