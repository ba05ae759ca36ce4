"""Balances that a question moves: what was bought, repaid, issued or sold is a line of the cash flow statement.

"How much long-term debt did Marlow repay?" asks for "Repayments of long-term debt", and not for the debt.
"""

from __future__ import annotations

import re

from tasks.rag.numbers.concepts import FREE_WORDS, words_of
from tasks.rag.numbers.expressions import Line
from tasks.rag.numbers.label_phrases import Phrase, Phrases
from tasks.rag.numbers.question_shape import WORDS, Shape

MOVEMENTS = tuple(
    (re.compile(said, re.IGNORECASE), re.compile(label, re.IGNORECASE)) for said, label in WORDS["movements"]
)
"""Words of questions, and of the labels that mean them."""


def moved(shape: Shape, phrases: Phrases) -> Shape | None:
    """The shape with the movement in place of a balance; None where no line of the tables is that movement."""
    around = " ".join((shape.skeleton, *shape.unread, *(line.of for line in shape.lines)))
    found = next(((said, label) for said, label in MOVEMENTS if said.search(around)), None)
    if found is None or not any(map(_is_balance, shape.lines)):
        return shape
    said, label = found
    lines: list[Line] = []
    for line in shape.lines:
        movement = _movement(said.sub(" ", line.said), label, phrases) if _is_balance(line) else None
        if movement is None and _is_balance(line):
            return None
        lines.append(movement or line)
    return shape._replace(lines=tuple(lines), unread=tuple(one for one in shape.unread if not said.search(one)))


def _movement(balance: str, label: re.Pattern[str], phrases: Phrases) -> Line | None:
    """The line of the cash flow statement that moves a balance: the one with the fewest other words."""
    wanted = frozenset(words_of(balance)) - FREE_WORDS
    held = [one for one in phrases.lines() if _moves(one, wanted, label)]
    best = min(held, key=lambda one: len(one.words), default=None)
    return Line(best.label, best.concept) if best else None


def _moves(phrase: Phrase, wanted: frozenset[str], label: re.Pattern[str]) -> bool:
    in_cash = phrase.concept is not None and phrase.concept.statement == "cash_flow"
    return in_cash and bool(wanted) and wanted <= frozenset(phrase.words) and label.search(phrase.label) is not None


def _is_balance(line: Line) -> bool:
    return line.concept is not None and line.concept.statement in ("balance", "equity")
