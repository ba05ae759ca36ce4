from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.prompts import Listener, cut_at_stops, settled_text


@pytest.mark.parametrize(
    ("text", "stops", "left"),
    [
        ("one two", (), "one two"),
        ("one two", ("three",), "one two"),
        ("one two three", (" two",), "one"),
        ("one two three", ("three", "two"), "one "),
        ("one", ("one",), ""),
        ("aabb", ("abb", "b"), "aa"),
        ("aab", ("ab", "b"), "a"),
        ("one", ("",), "one"),
    ],
)
def test_a_text_ends_before_the_first_stop(text: str, stops: tuple[str, ...], left: str):
    assert cut_at_stops(text, stops) == left


@pytest.mark.parametrize(
    ("text", "stops", "shown"),
    [
        ("one\nQues", ("\nQuestion:",), "one"),
        ("one\nQuestion: two", ("\nQuestion:",), "one"),
        ("one\nQuery", ("\nQuestion:",), "one\nQuery"),
        ("aab", ("aabaa",), ""),
    ],
)
def test_what_may_begin_a_stop_is_held_back(text: str, stops: tuple[str, ...], shown: str):
    assert settled_text(text, stops) == shown


@given(st.text("ab", max_size=20), st.lists(st.text("ab", min_size=1, max_size=4), max_size=3))
def test_what_is_heard_only_grows_and_ends_in_the_answer(text: str, stops: list[str]):
    heard: list[str] = []
    listener = Listener(heard.append, stops)
    for end in range(len(text) + 1):
        listener(text[:end])
    listener.end(cut_at_stops(text, stops))
    assert all(after.startswith(before) and after != before for before, after in pairwise(heard))
    assert (heard[-1] if heard else "") == cut_at_stops(text, stops)
