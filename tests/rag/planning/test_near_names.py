from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as some
from rapidfuzz import fuzz

from tasks.rag.planning.near_names import NearNames

WORDS = some.text(alphabet="abcdefgᄀ나ᅥ", max_size=14)


@settings(max_examples=150)
@given(some.lists(WORDS, max_size=12), WORDS, some.sampled_from([80.0, 85.0]))
def test_no_name_that_is_alike_is_left_out(names: list[str], asked: str, percent: float) -> None:
    alike = [name for name in names if fuzz.ratio(asked, name) >= percent]
    found = NearNames(names).alike(asked, percent=percent)
    assert [name for name in found if fuzz.ratio(asked, name) >= percent] == alike


def test_most_names_are_left_out() -> None:
    names = [f"company number {number:x}" for number in range(16, 99)] + ["calderridge"]
    assert NearNames(names).alike("calderidge", percent=85) == ["calderridge"]
