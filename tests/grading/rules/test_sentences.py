"""Where sentences end; each case was cut the same way by NLTK 3.10's Punkt model for English."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.grading.rules.rule_sentences import sentences

CASES: dict[str, tuple[str, list[str]]] = {
    "plain": ("It rains. We stay in! Do you?", ["It rains.", "We stay in!", "Do you?"]),
    "no mark at the end": ("It rains. We stay", ["It rains.", "We stay"]),
    "a line break alone ends nothing": ("A heading\n\nIt rains.", ["A heading\n\nIt rains."]),
    "title before a name": ("Ask Dr. Smith. Mr. Jones left.", ["Ask Dr. Smith.", "Mr. Jones left."]),
    "time before an ordinary word": ("Come at 9 p.m. Please eat.", ["Come at 9 p.m.", "Please eat."]),
    "time before a beginner": ("It opens at 9 a.m. The rest follows.", ["It opens at 9 a.m.", "The rest follows."]),
    "country before a name": ("The U.S. Senate met.", ["The U.S. Senate met."]),
    "company before a small letter": ("Acme Inc. was sold.", ["Acme Inc. was sold."]),
    "e.g. is no abbreviation to it": ("Fruit, e.g. apples.", ["Fruit, e.g.", "apples."]),
    "etc. is none either": ("Pens, ink, etc. are here.", ["Pens, ink, etc.", "are here."]),
    "initials of a name": ("J. R. Tolkien wrote it.", ["J. R. Tolkien wrote it."]),
    "an initial before an ordinary word": ("Plan B. Then we go.", ["Plan B.", "Then we go."]),
    "an initial that never ends one": ("Eat vitamin C. It helps.", ["Eat vitamin C. It helps."]),
    "an initial before I": ("Plan B. I agree.", ["Plan B. I agree."]),
    "numbered list": ("1. Mix it.\n2. Bake it.", ["1.", "Mix it.", "2.", "Bake it."]),
    "number before a small letter": ("In 1999. the end", ["In 1999. the end"]),
    "decimal": ("It costs 3.50 dollars.", ["It costs 3.50 dollars."]),
    "address": ("See example.com now.", ["See example.com now."]),
    "dots before a small letter": ("Well... maybe.", ["Well... maybe."]),
    "dots before a beginning": ("Well... The end.", ["Well...", "The end."]),
    "dots before a name": ("Well... Anna came.", ["Well... Anna came."]),
    "several marks": ("What?! No!!! Yes.", ["What?!", "No!!!", "Yes."]),
    "marks that stand alone": ("Yay !! Yes.", ["Yay !", "!", "Yes."]),
    "quotes close with their sentence": ('He said "Go." Then he left.', ['He said "Go."', "Then he left."]),
    "curly quotes too": ("He said “Go.” Then he left.", ["He said “Go.”", "Then he left."]),
    "brackets too": ("(It rains.) We stay.", ["(It rains.)", "We stay."]),
    "asterisks do not": ("**Done.** Next.", ["**Done.", "** Next."]),
    "asterisks at the end are a sentence": ("**Done.**", ["**Done.", "**"]),
    "a quote at the end is none": ('"Done."', ['"Done."']),
    "hyphenated abbreviation": ("A vice-gen. Smith came.", ["A vice-gen. Smith came."]),
    "other space than ASCII's": ("One.\u00a0Two. Three.", ["One.\u00a0Two.", "Three."]),
}


@pytest.mark.parametrize(("text", "cut"), CASES.values(), ids=CASES)
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
