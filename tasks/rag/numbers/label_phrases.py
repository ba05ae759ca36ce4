"""What the tables of a document call their lines and the parts of a company, found in a question as they are written.

"Technology and content" is a line of one company alone and "Data Center and AI" a part of another: no list of concepts
knows them, and the documents that the question names do. Only English ones: Korean joins its particles to them.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tasks.rag.numbers.concepts import (
    ASIDE,
    FREE_WORDS,
    NUMBERED,
    Concept,
    Statement,
    concepts,
    fits,
    label_of,
    tokens_of,
    words_of,
)

STATEMENTS: Sequence[Statement] = ("balance", "income", "cash_flow")
"""Of a label that several statements hold the first one counts."""
FEWEST_WORDS, MOST_WORDS = 2, 8
COSTS = frozenset(("expense", "cost", "charge"))
"""Words that end a label and that people leave out."""
EXACT = 0.97
"""A label that fits a concept so well is its name."""
PAYS = re.compile(
    r"\b(?:purchases?|payments?|repayments?|repurchases?|acquisitions?|dividends?|expenses?|costs?|expenditures?"
    r"|additions?|retirements?|redemptions?|paid|repurchased)\b",
    re.IGNORECASE,
)
NET_OF = re.compile(r"\b(?:changes?|increase|decrease|gains?|loss(?:es)?|income|proceeds)\b", re.IGNORECASE)
"""A line of which the sign tells more."""
MARK = re.compile(r"\s*\((?:\d+|[a-z])\)|(?<=[a-z])\d$")
"""Of a footnote."""


class Phrase(NamedTuple):
    """The label of a line, or the name of a part."""

    words: tuple[str, ...]
    concept: Concept | None
    """The line; None: a part."""
    label: str = ""
    """Of a line, as a table writes it."""


class Said(NamedTuple):
    """A phrase in a text."""

    concept: Concept | None
    start: int
    """Offset in the text."""
    end: int


class Phrases(NamedTuple):
    """What some documents call things."""

    by_first: Mapping[str, Sequence[Phrase]] = {}
    """By their first word."""
    statements: frozenset[str] | None = None
    """The kinds of their tables; None: not known."""

    def lines(self) -> Iterator[Phrase]:
        """The lines of statements."""
        yield from (one for group in self.by_first.values() for one in group if one.concept)


def phrases_of(rows: Iterable[Mapping[str, Any]], statements: Container[tuple[str, int]]) -> Phrases:
    """The labels of rows of storage.numbers that have several words; those of statements are lines, others parts.

    statements: document and table of each.
    """
    rows = list(rows)
    labels = {(label_of(row["row_path"]), _kind(row, statements)) for row in rows}
    headers = {tuple(row["column_path"][-2:]) for row in rows}
    lines: dict[tuple[str, ...], tuple[int, str]] = {}
    parts: set[tuple[str, ...]] = set()
    for label, kind in sorted(labels):
        plain = plain_label(label)
        words = words_of(plain)
        if _is_phrase(words) and kind in STATEMENTS:
            lines[words] = min(lines.get(words, (len(STATEMENTS), "")), (STATEMENTS.index(kind), plain))
        elif _is_phrase(words):
            parts.add(words)
    for path in headers:
        texts = [plain_label(one) for one in path]
        parts.update(filter(_is_phrase, map(words_of, (*texts, " ".join(texts)))))
    found: dict[str, list[Phrase]] = {}
    for words, (kind, label) in lines.items():
        called = {words, words[:-1]} if words[-1] in COSTS else {words}
        concept = _concept(label, STATEMENTS[kind])
        for one in called if len(words) > FEWEST_WORDS else (words,):
            found.setdefault(words[0], []).append(Phrase(one, concept, label))
    for words in parts - set(lines):
        found.setdefault(words[0], []).append(Phrase(words, None))
    return Phrases(found, frozenset(row.get("statement", "other") for row in rows))


def said_in(text: str, phrases: Phrases) -> list[Said]:
    """The phrases that a text holds, those that overlap too."""
    tokens = tokens_of(text)
    words = [word for word, _, _ in tokens]
    found: list[Said] = []
    for at, word in enumerate(words):
        for one in phrases.by_first.get(word, ()):
            last = at + len(one.words)
            if tuple(words[at:last]) == one.words:
                found.append(Said(one.concept, tokens[at][1], tokens[last - 1][2]))
    return found


def plain_label(label: str) -> str:
    """A label without its counter, its brackets and the mark of its footnote."""
    return " ".join(ASIDE.sub(" ", MARK.sub(" ", NUMBERED.sub("", label))).split()).strip(" :,")


def _kind(row: Mapping[str, Any], statements: Container[tuple[str, int]]) -> str:
    """The statement that a row stands in, where that is one of those."""
    return row.get("statement", "other") if (row["document"], row["table"]) in statements else "other"


def _is_phrase(words: tuple[str, ...]) -> bool:
    telling = [word for word in words if word.isalpha() and word not in FREE_WORDS]
    return len(telling) >= FEWEST_WORDS and len(words) <= MOST_WORDS and len(telling) == len(words)


def _concept(label: str, statement: Statement) -> Concept:
    """The concept of which a label is a name, or one that the label itself makes."""
    known = max(fits(label).items(), key=lambda one: one[1], default=("", 0.0))
    if known[1] >= EXACT:
        return concepts()[known[0]]
    pays = statement != "balance" and PAYS.search(label) is not None and NET_OF.search(label) is None
    return Concept(f"label: {label.lower()}", (label,), statement, outflow=pays)
