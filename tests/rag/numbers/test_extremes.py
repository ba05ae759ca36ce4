"""The member of a table that has most of a figure."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tasks.language.tokens import BIGRAM
from tasks.rag.answering.cell_questions import read_extreme_question
from tasks.rag.numbers.cell_search import CellScorer, Context
from tasks.rag.numbers.extremes import Extreme, extreme_of
from tasks.rag.numbers.line_lookup import Number
from tests.rag.numbers.test_cell_search import cell

OPENED = [
    cell([f"{quarter} Quarter"], ["Stores opened"], shown, unit="")
    for quarter, shown in (("1st", "10"), ("2nd", "7"), ("3rd", "18"))
]


def extreme(question: str, numbers: Sequence[Number]) -> Extreme | None:
    read = read_extreme_question(question, tokenizer=BIGRAM)
    assert read
    asked, figure = read
    scorer = CellScorer(figure, numbers, BIGRAM)
    return extreme_of(asked, [scorer.match(one, Context(), 1.0) for one in numbers], question=question)


@pytest.mark.parametrize(
    ("question", "name"),
    [
        ("In which quarter were most stores opened?", "3rd Quarter"),
        ("Which quarter had the fewest stores opened, and how many?", "2nd Quarter"),
    ],
)
def test_the_member_with_most_or_least(question: str, name: str) -> None:
    found = extreme(question, OPENED)
    assert found
    assert found.members[0].name == name


def test_members_of_which_not_all_is_said_are_none() -> None:
    assert extreme("Which quarter had the most warehouse leases ended?", OPENED) is None


@pytest.mark.parametrize("question", ["How many stores were opened?", "Which quarter is described?"])
def test_other_questions_ask_for_no_member(question: str) -> None:
    assert read_extreme_question(question, tokenizer=BIGRAM) is None
