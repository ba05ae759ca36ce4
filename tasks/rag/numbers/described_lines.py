"""How well a cell is the line of a part of a company: "casino revenue of MGM China", wherever a table tells which part.

The part may stand in the row's label, in a heading above it or in the header of the column; so may the line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tasks.rag.numbers.concepts import FREE_WORDS, Concept, fit, words_of

IN_HEADING, IN_COLUMN = 0.97, 0.95
"""Share of a fit that is left where a heading or the header of a column names the line."""
UNASKED_OWN, UNASKED_BESIDE = 0.1, 0.05
"""What each word of the row's own label, or of the labels around it, takes away that nothing asks for."""
MOST_BESIDE = 0.2
SURELY = 0.85
"""How well the label must name the line, without the words of the part."""
ONE_MISSING = 0.72
"""Share that is left where all but one of three or more words of the part are held."""
PART_WORDS = frozenset(
    ("segment", "division", "business", "unit", "region", "group", "operation", "company", "부문", "사업부문", "지역")
)
"""Words that say that something is a part, and not which."""


def fit_of_part(
    concept: Concept, of: str, row_path: Sequence[str], column_path: Sequence[str], *, plain: frozenset[str]
) -> float:
    """How well the labels of a cell name a concept of a part, 0 … 1.

    of: the words that name the part. plain: words of headers that name no part.
    """
    wanted = frozenset(words_of(of)) - PART_WORDS or frozenset(words_of(of))
    *heads, own = row_path or ("",)
    labels = (own, *heads, *column_path)
    words = {label: frozenset(words_of(label)) for label in labels}
    missing = wanted - frozenset[str]().union(*words.values())
    if missing and (len(missing) > 1 or len(wanted) < 3):
        return 0.0
    header = " ".join(one for one in column_path if any(w.isalpha() and w not in plain for w in words[one]))
    best, where = _named_at(concept, of, own, heads, header)
    if not best:
        return 0.0
    known = wanted | PART_WORDS | FREE_WORDS | frozenset(words_of(" ".join(concept.names)))
    beside = frozenset[str]().union(*(words[label] for label in labels if label not in (own, where))) - plain - known
    own_more = words[own] - known - plain if own != where else frozenset[str]()
    score = best - min(MOST_BESIDE, UNASKED_BESIDE * len([word for word in beside if word.isalpha()]))
    return (score - UNASKED_OWN * len(own_more)) * (ONE_MISSING if missing else 1.0)


def _named_at(concept: Concept, of: str, own: str, heads: Sequence[str], header: str) -> tuple[float, str]:
    """The best fit of a label without the words of the part, and the label."""
    words = sorted((*of.split(), *words_of(of), *PART_WORDS), key=len, reverse=True)
    part = re.compile(rf"(?<![a-z])(?:{'|'.join(map(re.escape, words))})(?:s\b)?", re.IGNORECASE)
    places = ((own, 1.0), *((head, IN_HEADING) for head in heads), (header, IN_COLUMN))
    fits = [(share * fit(concept, " ".join(part.sub(" ", label).split())), label) for label, share in places]
    best = max(fits, default=(0.0, ""))
    return best if best[0] >= SURELY else (0.0, "")  # "casino revenue" is not the revenue of the part
