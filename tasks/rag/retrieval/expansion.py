"""Adds the words that documents use for what a question asks: capex → `purchases of property, plant and equipment`.

`vocabulary.toml` holds general vocabulary of accounts and tenders, and no name of a company, a document or a data set.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import NamedTuple


class Expansion(NamedTuple):
    """A question with the words that documents use for what it asks."""

    question: str
    """The question without instructions to the answerer, such as how to round."""
    added: tuple[str, ...]
    """Phrases that documents may use in place of the question's own, each once."""
    statements: tuple[str, ...]
    """Names of the financial statements that may hold the answer, as in `STATEMENTS`."""


class _Statement(NamedTuple):
    """The titles of one financial statement."""

    titled: str
    """Pattern of the titles that documents give it."""
    english: str
    """Titles that are added to a question about it; a Korean question gets both."""
    korean: str
    said_only: str = ""
    """Further alternatives of the pattern, which name it in questions alone."""


class _Term(NamedTuple):
    said: str
    """Pattern, matched without case between word boundaries; Korean may go on with a particle."""
    written: Sequence[str]
    """What the line of the statement or the clause of the tender is called, in several ways."""
    statements: Sequence[str] = ()


_VOCABULARY = tomllib.loads((files("tasks.rag.retrieval") / "vocabulary.toml").read_text("utf-8"))
STATEMENTS = {name: _Statement(**fields) for name, fields in _VOCABULARY["statements"].items()}
_TERMS = [_Term(**fields) for terms in _VOCABULARY["terms"].values() for fields in terms]

_HANGUL = re.compile("[가-힣]")
_CLAUSE = re.compile(r"(?<=[.?!:;])\s+")
_QUESTION_WORDS = re.compile(
    r"(?:(?:and|so|then) )?(?:what|which|who|whom|whose|when|where|why|how|is|are|was|were|do|does|did|has|have|can)\b",
    re.IGNORECASE,
)
_TO_THE_ANSWERER = re.compile(  # "please round to one decimal": words that no document holds
    r"\b(?:answers?|respon(?:se|d)|questions?|please|assume|assuming|you|your|explain why|round(?:ed)?|what was asked"
    r"|we (?:need|want|would like) to|help us)\b",
    re.IGNORECASE,
)
_FISCAL = re.compile(
    r"\b(?:FY|fiscal(?: year)?|(?:Q[1-4]|[1-4]Q)\s?(?:of\s)?(?:FY)?)\s?['’]?(\d{4}|\d{2})\b", re.IGNORECASE
)
_YEAR = re.compile(rf"(?<!\d)(?:19|20)\d\d(?!\d)|{_FISCAL.pattern}", re.IGNORECASE)
_QUARTER = re.compile(r"\b(?:Q([1-4])|([1-4])Q)", re.IGNORECASE)
_ORDINALS = ("first", "second", "third", "fourth")


def expand(question: str) -> Expansion:
    """Return the question without its instructions, and the phrases and statements to search for as well."""
    # the clauses that ask, without those that tell the answerer how to go about it
    clauses = _CLAUSE.split(question)
    asking = [clause for clause in clauses if _QUESTION_WORDS.match(clause) or not _TO_THE_ANSWERER.search(clause)]
    clauses_that_ask = " ".join(asking) if any(len(clause.split()) > 2 for clause in asking) else question
    added: dict[str, None] = {}
    of_terms: dict[str, None] = {}
    by_title = [
        name
        for name, statement in STATEMENTS.items()
        if _compile_words(statement.titled + statement.said_only).search(question)
    ]
    for term in _TERMS:
        if _compile_words(term.said).search(clauses_that_ask):
            added |= dict.fromkeys(term.written)
            of_terms |= dict.fromkeys(term.statements)
    statements = tuple(by_title or of_terms)
    korean = _HANGUL.search(question) is not None
    for statement in (STATEMENTS[name] for name in statements):
        added |= dict.fromkeys([statement.english, statement.korean][: 1 + korean])
    # FY2023 and Q2 as filings write them: 2023, second quarter
    added |= dict.fromkeys(f"{'20' if len(match[1]) == 2 else ''}{match[1]}" for match in _FISCAL.finditer(question))
    quarters = (_ORDINALS[int(match[1] or match[2]) - 1] for match in _QUARTER.finditer(question))
    added |= dict.fromkeys(f"{quarter} quarter" for quarter in quarters)
    if not statements and _YEAR.search(question):
        statements = tuple(STATEMENTS)  # the line of a year that has no name in the vocabulary stands in any of them
    return Expansion(clauses_that_ask, tuple(added), statements)


def find_terms(text: str) -> list[tuple[str, tuple[str, ...]]]:
    """Return each term of the vocabulary that a text uses, as written there, with what documents may write for it."""
    matches = ((_compile_words(term.said).search(text), term.written) for term in _TERMS)
    return [(match[0], tuple(written)) for match, written in matches if match]


def is_statement(title: str, statements: tuple[str, ...]) -> bool:
    """Return whether a heading is the title of one of `statements`."""
    return any(_compile_words(STATEMENTS[name].titled).search(title) for name in statements)


@cache
def _compile_words(pattern: str) -> re.Pattern[str]:
    """Return `pattern` compiled to match whole words; Hangul may begin within a word and go on with a particle."""
    return re.compile(rf"(?<![A-Za-z0-9])(?:{pattern})(?![A-Za-z0-9])", re.IGNORECASE)
