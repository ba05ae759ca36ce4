"""Patterns of written numbers, and what the rules of spoken Korean and English share."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable
from importlib.resources import files


def in_words(number: int, *, lang: str, to: str = "cardinal") -> str:
    """The number in words of that language, without commas and `and`."""
    from num2words import num2words  # .1 s, and only who listens to an answer needs it

    return str(num2words(number, lang=lang, to=to)).replace(",", "").replace(" and ", " ")


Rule = tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]
"""A pattern of written text, and its replacement in words."""

NUMBER = r"(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]+)?"
FIRST = r"(?<![0-9.,])"
"""Where a number begins."""
SIGN = r"[$₩￦€£¥]"
DATE = (
    r"(?<![0-9.])(?P<year>[12][0-9]{3})(?:\s?(?P<dot>[.])\s?|[-/])(?P<month>[0-9]{1,2})(?:\s?\.\s?|[-/])"
    r"(?P<day>[0-9]{1,2})(?![0-9])(?(dot)\.?)"
)
DIGIT_GROUPS = re.compile(rf"{FIRST}[0-9]+(?:-[0-9]+){{2,}}")
"""Telephone and account numbers."""
SECTION = re.compile(rf"{FIRST}[0-9]+(?:\.[0-9]+){{2,}}")
LEADING_ZERO = re.compile(rf"{FIRST}0[0-9]+(?![0-9.,]*[.,][0-9])")
ANY_NUMBER = re.compile(rf"(?P<before>[A-Za-z]?)(?P<number>{NUMBER})")


def apart(found: re.Match[str], words: str) -> str:
    """A number in words, within other text: Latin letters keep their distance."""
    before = f"{found['before']} " if found["before"] else ""
    following = found.string[found.end() : found.end() + 1]
    return before + words + (" " if following.isascii() and following.isalpha() else "")


def spoken(text: str, rules: Iterable[Rule]) -> str:
    """`text` after all rules in their order: what one has put into words, no later one finds."""
    for pattern, say in rules:
        text = pattern.sub(say, text)
    return text


_WORDS = tomllib.loads((files("tasks.rag.speech") / "spoken_words.toml").read_text("utf-8"))


def by_symbol(language: str, table: str) -> dict[str, str]:
    """Symbol → what is said for it, from a table of `spoken_words.toml`: currencies, scales or units."""
    return {symbol: said for said, symbols in _WORDS[language][table].items() for symbol in symbols.split()}


def either(words: Iterable[str]) -> str:
    """A pattern for any of the words, the longest first."""
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))


def is_day(month: int, day: int) -> bool:
    """Whether there may be such a day; 2024.13.40 is something else."""
    return 1 <= month <= 12 and 1 <= day <= 31
