"""A pattern that is tried only at its words finds what `re` finds."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.grading.reading import FIRST_WINDOW, Anchored

PATTERN = r"(?i:answer|so)\b[: ]*(\w)?"
WORDS = ("Answer", "so")


@given(
    st.lists(st.sampled_from(["Answer: 3", "SO 4", "answers", "son", "İ", "x" * FIRST_WINDOW, "\n", " "]), max_size=12)
)
def test_matches_come_last_first_and_none_is_left_out(parts: list[str]) -> None:
    text = "".join(parts)
    found = [match.span() for match in Anchored(PATTERN, WORDS).backwards(text)]
    assert found == [match.span() for match in re.finditer(PATTERN, text)][::-1]


@pytest.mark.parametrize("before", [0, FIRST_WINDOW - 3, 9 * FIRST_WINDOW - 3])
def test_a_word_across_the_edge_of_a_window_is_found(before: int) -> None:
    assert (found := next(Anchored(PATTERN, WORDS).backwards("Answer: 7" + "." * before), None)) is not None
    assert found[1] == "7"
