"""Words and letters that a response must or must not have.

Keywords are regular expressions, found inside longer words too, as the published grader has it; a pattern that does
not compile is refused before any response is seen.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice
from typing import Any, Literal

Relation = Literal["less than", "at least"]


def compares(found: Iterable[Any], relation: Relation, threshold: int) -> bool:
    """True if `found` has at least, or less than, `threshold` members; it is read no further than that."""
    reached = sum(1 for _ in islice(found, threshold)) >= threshold
    return reached == (relation == "at least")


def existence(response: str, *, keywords: list[str]) -> bool:
    """Every keyword is somewhere in it, in any case."""
    return all(re.search(keyword, response, re.IGNORECASE) for keyword in keywords)


def frequency(response: str, *, keyword: str, frequency: int, relation: Relation) -> bool:
    """The keyword occurs often, or seldom, enough; `the` occurs in `other`."""
    return compares(re.finditer(keyword.strip(), response, re.IGNORECASE), relation, frequency)


def forbidden_words(response: str, *, forbidden_words: list[str]) -> bool:
    """None of the words stands in it as a whole word, in any case."""
    return not any(re.search(rf"\b{word}\b", response, re.IGNORECASE) for word in forbidden_words)


def letter_frequency(response: str, *, letter: str, let_frequency: int, let_relation: Relation) -> bool:
    """The letter, or sign such as `#`, occurs often, or seldom, enough, in any case."""
    reached = response.lower().count(letter.lower()) >= let_frequency
    return reached == (let_relation == "at least")
