"""Where sentences end, and which words in capitals there are; NLTK 3.10 (Punkt, `word_tokenize`) cuts alike."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.grading.rules.rule_checks import capital_words, sentences

CUT = json.loads(Path(__file__).with_name("cut.json").read_text("utf-8"))


@pytest.mark.parametrize(("text", "cut"), CUT["sentences"].values(), ids=CUT["sentences"])
def test_sentences_end_where_punkt_ends_them(text: str, cut: list[str]) -> None:
    assert list(sentences(text)) == cut


@given(st.text(st.sampled_from("aA1 .?!\n\"'()*-,:“” \u00a0\0"), max_size=60))
def test_no_letter_is_lost_or_moved(text: str) -> None:
    def solid(pieces: Any) -> str:
        return "".join("".join(pieces).split())

    assert solid(sentences(text)) == solid(text)


def test_sentences_come_one_at_a_time() -> None:
    assert next(sentences("One. " * 2_000_000)) == "One."


@pytest.mark.parametrize("unit", ["a", "!", "(", "\n", "a" * 50 + ".b", '?"', "--", ". ", "\ud800", "\0."])
def test_a_million_of_anything_is_cut(unit: str) -> None:
    assert sum(map(len, sentences(unit * (300_000 // len(unit)) + "x"))) > 0


@pytest.mark.parametrize(("text", "words"), CUT["capitals"].items(), ids=CUT["capitals"])
def test_capital_words_are_those_of_the_treebank(text: str, words: list[str]) -> None:
    assert list(capital_words(text)) == words
