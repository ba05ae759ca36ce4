"""What the loose verdict forgives."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.grading.rules.rule_grading import check_followed, loose_variants, rule_of

QUOTED = rule_of("startend:quotation", {})
NO_COMMA = rule_of("punctuation:no_comma", {})


def test_there_are_eight_variants() -> None:
    assert list(loose_variants(" *a*\n\nb \nc")) == [
        " *a*\n\nb \nc",
        "b \nc",
        "*a*\n\nb",
        "b",
        " a\n\nb \nc",
        "b \nc",
        "a\n\nb",
        "b",
    ]


def test_a_single_line_has_nothing_left_without_it() -> None:
    assert set(loose_variants("*a*")) == {"*a*", "a", ""}


@pytest.mark.parametrize(
    ("response", "strict", "loose"),
    [
        ('"yes"', True, True),
        ('Sure!\n"yes"', False, True),
        ('"yes"\nAnything else?', False, True),
        ('Sure!\n\n"yes"\n\nAnything else?', False, True),
        ('*"yes"*', False, True),
        ('Sure!\n**"yes"**\nBye', False, True),
        ('Sure!\nHere:\n"yes"', False, False),
        ("yes", False, False),
        ("", False, False),
        (" \n\t", False, False),
    ],
)
def test_loose_forgives_a_line_at_either_end_and_asterisks(response: str, strict: bool, loose: bool) -> None:
    assert check_followed([QUOTED], response) == ([strict], [loose])


@pytest.mark.parametrize("empty", ["", "  ", "\n\n"])
def test_an_empty_response_follows_nothing_although_it_has_no_comma(empty: str) -> None:
    assert check_followed([NO_COMMA], empty) == ([False], [False])


def test_what_is_left_may_not_be_empty_either() -> None:
    assert check_followed([NO_COMMA], "one, two\n***") == ([False], [True])  # the `***` line is a text of its own
    assert check_followed([NO_COMMA], "one, two\n") == ([False], [False])


@given(st.text(st.sampled_from('*", \nab'), max_size=30))
def test_loose_is_never_stricter(text: str) -> None:
    verdicts = check_followed([QUOTED, NO_COMMA], text)
    assert all(loose or not strict for strict, loose in zip(*verdicts, strict=True))
