"""Answers that cite: gold numbers in any spelling, gold words, abstentions, rewrites that keep their evidence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.grading.cited_answers import abstains, has_numbers, has_same_evidence, has_words
from tests.grading.marked_texts import ANSWERS

CASES = json.loads(Path(__file__).with_name("cited_answers.json").read_text("utf-8"))


@pytest.mark.parametrize(("answer", "gold", "there"), CASES["numbers"])
def test_a_gold_number_may_be_spelled_otherwise_but_is_no_other(answer: str, gold: str, there: bool) -> None:
    assert has_numbers(answer, gold) is there


@pytest.mark.parametrize(("answer", "gold", "there"), CASES["words"])
def test_gold_words_count_whatever_case_and_punctuation_but_not_within_a_word(
    answer: str, gold: str, there: bool
) -> None:
    assert has_words(answer, gold) is there


@given(st.text(), st.text(), st.text(min_size=1))
def test_gold_between_spaces_is_found(before: str, after: str, gold: str) -> None:
    assert has_words(f"{before} | {gold} | {after}", gold)


@pytest.mark.parametrize(("text", "abstained"), CASES["abstains"])
def test_an_answer_without_blocks_abstains_if_it_only_says_that_nothing_tells(text: str, abstained: bool) -> None:
    assert abstains(text) is abstained


@pytest.mark.parametrize(("draft", "rewritten", "same"), CASES["rewrites"])
def test_a_rewrite_keeps_every_number_with_its_marks(draft: str, rewritten: str, same: bool) -> None:
    assert has_same_evidence(draft, rewritten) is same


@given(ANSWERS)
def test_a_text_has_the_same_evidence_as_itself(text: str) -> None:
    assert has_same_evidence(text, text)


@pytest.mark.parametrize(
    ("answer", "gold", "held"),
    [
        ("Two depots, at Elm Falls and at Port Rowe, receive the goods.", "Elm Falls and Port Rowe", True),
        ("Two depots, at Elm Falls and at Port Dale, receive the goods.", "Elm Falls and Port Rowe", False),
        ("종속회사는 새솔필름과 HNR Europe GmbH 2개사이다", "새솔필름, HNR Europe GmbH", True),
        ("종속회사는 새솔필름이다", "새솔필름, HNR Europe GmbH", False),
    ],
    ids=["apart", "one lacks", "Korean", "Korean, one lacks"],
)
def test_every_item_of_a_list_must_be_there(answer, gold, held):
    assert has_words(answer, gold) is held
