"""Gold numbers across units: half a percent, lost headers, shares, signs; and the numbers that only look alike."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.grading.cited_answers import has_close_number, has_numbers

CASES = [json.loads(line) for line in Path(__file__).with_name("close_numbers.jsonl").read_text("utf-8").splitlines()]
"""Answer, gold, and whether the number counts: in other units and within half a percent, or it only looks alike."""


@pytest.mark.parametrize(("answer", "gold", "counts"), CASES)
def test_a_number_counts_in_other_units_and_not_where_it_only_looks_alike(answer: str, gold: str, counts: bool) -> None:
    assert has_close_number(answer, gold) is counts


@given(
    st.text(alphabet="0123456789.,-()$%만억원 milobn[]년", max_size=30), st.sampled_from(["28 %", "$2.5 billion", "0"])
)
def test_what_is_there_exactly_is_there_closely(answer: str, gold: str) -> None:
    assert has_close_number(answer, gold) >= has_numbers(answer, gold)
