"""Tables that go from one balance to the next: what stands between two of them is of the time between them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from itertools import pairwise

from tasks.rag.numbers.periods import Period, fiscal_year, period_in

BALANCE = re.compile(r"\b(?:balances?|outstanding|(?:un|non)vested|beginning|ending)\b|잔액|기초|기말", re.IGNORECASE)
WHOLE_YEAR = range(350, 380)
"""Days of a fiscal year of 52 or 53 weeks, or of 12 months."""


def periods_between(labels: Mapping[int, Sequence[str]]) -> dict[int, Period]:
    """The period of each row that stands between two dated balances. labels: the path of each row, by its number."""
    dated = [
        (row, period)
        for row, path in sorted(labels.items())
        if BALANCE.search(said := " ".join(path[-2:]))
        and (period := period_in(said))
        and period.kind == "instant"
        and period.end
    ]
    found: dict[int, Period] = {}
    for (first, opening), (last, closing) in pairwise(dated):
        if opening.end and closing.end and opening.end < closing.end:
            span = _span(opening, closing)
            found |= {row: span for row in labels if first < row < last}
    return found


def _span(opening: Period, closing: Period) -> Period:
    assert opening.end
    assert closing.end
    year = fiscal_year(closing.end)
    days = (closing.end - opening.end).days
    label = f"FY{year}" if days in WHOLE_YEAR else f"{round(days / 30.4)} months to {closing.end.isoformat()}"
    return Period(kind="duration", start=opening.end + timedelta(days=1), end=closing.end, year=year, label=label)
