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
    """A question in the vocabulary of documents."""

    asked: str
    """The question without instructions to the answerer, such as how to round."""
    added: tuple[str, ...]
    """Phrases that documents may have instead, each once."""
    statements: tuple[str, ...]
    """Names of the financial statements that hold the answer, as in `STATEMENTS`."""


class _Statement(NamedTuple):
    """A financial statement."""

    titled: str
    """Pattern of its titles."""
    english: str
    """Titles that are added to a question about it; a Korean question gets both."""
    korean: str
    said_only: str = ""
    """More of the pattern, for questions."""


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
    named = [name for name, one in STATEMENTS.items() if _spoken(one.titled + one.said_only).search(question)]
    for term in _TERMS:
        if _spoken(term.said).search(asked):
            added |= dict.fromkeys(term.written)
            meant |= dict.fromkeys(term.statements)
    statements = tuple(named or meant)
    korean = _HANGUL.search(question) is not None
    for statement in (STATEMENTS[name] for name in statements):
        added |= dict.fromkeys([statement.english, statement.korean][: 1 + korean])
    # FY2023 and Q2 as filings write them: 2023, second quarter
    added |= dict.fromkeys(f"{'20' if len(match[1]) == 2 else ''}{match[1]}" for match in _FISCAL.finditer(question))
    quarters = (_ORDINALS[int(match[1] or match[2]) - 1] for match in _QUARTER.finditer(question))
    added |= dict.fromkeys(f"{quarter} quarter" for quarter in quarters)
    return Expansion(asked, tuple(added), statements)


def terms_in(text: str) -> list[tuple[str, tuple[str, ...]]]:
    """What a text says of the vocabulary, and what documents may write for it."""
    found = ((_spoken(term.said).search(text), term.written) for term in _TERMS)
    return [(match[0], tuple(written)) for match, written in found if match]


def is_statement(title: str, statements: tuple[str, ...]) -> bool:
    """Whether a heading is the title of one of `statements`."""
    return any(_spoken(STATEMENTS[name].titled).search(title) for name in statements)


@cache
def _spoken(pattern: str) -> re.Pattern[str]:
    """`pattern` as whole words; Hangul may begin within a word and go on with a particle."""
    return re.compile(rf"(?<![A-Za-z0-9])(?:{pattern})(?![A-Za-z0-9])", re.IGNORECASE)
