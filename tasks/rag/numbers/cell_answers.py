"""The answer that a found cell gives: its line, its period, the figure as the table shows it, and how sure it is."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from decimal import Decimal

from tasks.language.sentences import Language
from tasks.rag.answers import Draft
from tasks.rag.numbers.cell_question import FREE, CellQuestion
from tasks.rag.numbers.cell_scores import Match, telling
from tasks.rag.numbers.cell_search import Found
from tasks.rag.numbers.concepts import words_of
from tasks.rag.numbers.doubts import said_in_answer
from tasks.rag.numbers.extremes import Extreme
from tasks.rag.numbers.figure_text import INPUT_SCALES, KOREAN_UNITS
from tasks.rag.numbers.line_lookup import AMOUNTS, Number
from tasks.rag.numbers.working_out import cited_number

SIGNS = {"USD": "$", "EUR": "€", "GBP": "£", "JPY": "¥", "KRW": "₩"}
COUNTS: Mapping[str, str] = {"people": " people", "shares": " shares", "years": " years", "days": " days"}
LEAST = 0.55
"""Confidence below which there is no answer."""
EXTREME, EXTREME_UNNAMED, NOT_ALONE = 0.9, 0.75, 0.6
"""How sure a member of a table is of which all is said; in a document that the question does not name; and what is left
where another table that fits as well names another member."""
MOST_MEMBERS = 8
"""That an answer shows."""
MOST_MARGIN = 0.2
"""A cell that is further ahead of the next is no surer."""


def answer_of(found: Found, question: CellQuestion, *, named: bool, language: Language) -> Draft | None:
    """`Loss on sale of stores FY2018 = $36 million [1]`; None where the cell is too unsure.

    named: the question names the document.
    """
    confidence = confidence_of(found, named=named)
    if confidence < LEAST:
        return None
    number = found.best.number
    head = " ".join(filter(None, (_title(number, question), number.period.label)))
    doubt = f"\n{said_in_answer(1, number.broken, number.scale, language)}" if number.broken else ""
    return Draft(
        f"{head} = {shown(number, language)} [1]{doubt}",
        (cited_number(1, number),),
        reason=_why(found.best),
        confidence=round(confidence, 4),
    )


def answer_of_extreme(found: Extreme, question: CellQuestion, *, named: bool, language: Language) -> Draft | None:
    """`AWS: Depreciation FY2017 = $4,524 million [1] (North America 3,029 [2], …)`; None where it is too unsure."""
    confidence = found.asked * (EXTREME if named else EXTREME_UNNAMED) * (1.0 if found.alone else NOT_ALONE)
    if confidence < LEAST:
        return None
    first, *others = found.members[:MOST_MEMBERS]
    number = first.number
    period = "" if first.name == number.period.label else number.period.label
    told = [f"{one.name} {one.number.shown.lstrip('$€£¥₩ ')} [{n}]" for n, one in enumerate(others, 2)]
    more = " …" if len(found.members) > MOST_MEMBERS else ""
    head = " ".join(filter(None, (f"{first.name}:", question.core, period)))
    return Draft(
        f"{head} = {shown(number, language)} [1] ({', '.join(told)}{more})",
        tuple(cited_number(n, one.number) for n, one in enumerate(found.members[:MOST_MEMBERS], 1)),
        reason=f"the {len(found.members)} members of a table that holds {found.asked:.0%} of the question",
        confidence=round(confidence, 4),
    )


def confidence_of(found: Found, *, named: bool) -> float:
    """How likely the cell is the one that is meant, 0 … 1.

    Logistic regression on 72 questions over filings, reports and notices, 22 of them without an answer.
    """
    best = found.best
    sign = 1.9 * best.score + 10.3 * min(found.margin, MOST_MARGIN) + 1.5 * named + 0.5 * best.sure - 3.2
    sign -= 1.2 * bool(best.unheld) + 0.5 * any(word.focus for word in best.unheld)
    return 1 / (1 + math.exp(-sign))


def shown(number: Number, language: Language) -> str:
    """The figure as the table shows it, with scale and unit: `$3,136 million`, `60,540백만원`, `2,310`."""
    digits = re.sub(r"[^\d.,/]", "", number.shown) if re.search(r"\d", number.shown) else number.shown
    minus = "-" if number.value < 0 and number.statement != "cash_flow" else ""
    scale = INPUT_SCALES[language].get(Decimal(number.scale), "")
    if language == "ko":
        return f"{minus}{digits}{scale}{KOREAN_UNITS.get(number.unit, number.unit)}"
    if number.unit in AMOUNTS:
        return f"{minus}{SIGNS.get(number.unit, f'{number.unit} ')}{digits}{scale}"
    return f"{minus}{digits}{scale}{COUNTS.get(number.unit, number.unit)}"


def _title(number: Number, question: CellQuestion) -> str:
    """The label of the row, with the headings that the question names, and the column if it is of a part."""
    *heads, label = number.row_path or ("",)
    asked = set(words_of(question.core)) - FREE
    bare = not set(words_of(label)) - FREE
    told = [head for head in heads if asked & set(words_of(head))] or (heads[-1:] if bare else [])
    row = " › ".join(part.strip(" :") for part in (*told, label))
    column = " ".join(number.column_path) if telling(number.column_path) else ""
    return " — ".join(filter(None, (row, column)))


def _why(best: Match) -> str:
    lacks = f", without {', '.join(word.text for word in best.unheld)}" if best.unheld else ""
    return f"the cell of a table whose labels hold {best.asked:.0%} of the question{lacks}"
