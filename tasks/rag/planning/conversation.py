"""A conversation as its next question sees it: what was asked and answered since it last began anew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pydantic import JsonValue, ValidationError

from tasks.rag.answers import Answered, Turn
from tasks.rag.planning.plan import is_reset

MOST_TURNS = 8
"""A question that needs more of the conversation than this says so in its own words."""


class Recalled(NamedTuple):
    """Answers that were kept as JSON."""

    answers: tuple[Answered, ...]
    unreadable: int
    """Answers of another version of this program, which are left out."""


def history_of(answers: Sequence[Answered]) -> tuple[Turn, ...]:
    """The last turns, oldest first, from the last question that begins anew."""
    anew = max((at for at, answered in enumerate(answers) if is_reset(answered.question)), default=0)
    return tuple(turn_of(answered) for answered in answers[anew:][-MOST_TURNS:])


def turn_of(answered: Answered) -> Turn:
    """A question and its answer with the documents that a follow-up is about."""
    cited = tuple(dict.fromkeys(citation.digest for citation in answered.citations))
    return Turn(question=answered.question, answer=answered.answer, documents=cited or answered.plan.filters.documents)


def recall(kept: Sequence[JsonValue]) -> Recalled:
    """What `Answered.model_dump(mode="json")` gave, as values again."""
    answers: list[Answered] = []
    for value in kept:
        try:
            answers.append(Answered.model_validate(value))
        except ValidationError:
            continue
    return Recalled(tuple(answers), len(kept) - len(answers))
