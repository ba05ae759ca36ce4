"""Which words in capitals there are; each case was cut the same way by NLTK 3.10's `word_tokenize`."""

from __future__ import annotations

import pytest

from tasks.grading.rules.rule_sentences import capital_words

CASES: dict[str, list[str]] = {
    "I saw A BIG cat": ["I", "A", "BIG"],
    "DON'T": ["DO", "N'T"],
    "Don't": [],
    "WE'LL, IT'S": ["WE", "'LL", "IT", "'S"],
    "IT'S.": ["IT", "'S"],
    "NASA's ROCKET'S": ["NASA", "ROCKET", "'S"],
    "NASA’s plan": ["NASA"],
    "CANNOT": ["CAN", "NOT"],
    "WANNA GO": ["WAN", "NA", "GO"],
    "AND/OR": ["AND/OR"],
    "T-SHIRT": ["T-SHIRT"],
    "NOW--OR--NEVER": ["NOW", "OR", "NEVER"],
    "NOW—OR NEVER": ["NOW", "OR", "NEVER"],
    "U.S.A. and U.K. today": ["U.S.A.", "U.K."],
    "The END. Go": ["END"],
    "GO.NOW please": ["GO.NOW"],
    "**BOLD** *IT*": ["BOLD", "IT"],
    '"QUOTED" (BRACKET) [X] <TAG>': ["QUOTED", "BRACKET", "X", "TAG"],
    "COVID-19 3D 12:30PM 42": ["COVID-19", "3D", "12:30PM"],
    "YES:NO YES,NO": ["YES", "NO", "YES", "NO"],
    "WAIT...NOW": ["WAIT", "NOW"],
    "A&B #TAG @ME $US": ["A", "B", "TAG", "ME", "US"],
    "ÉTÉ GROẞ": ["ÉTÉ", "GROẞ"],
    "MiXeD iPHONE": [],
}


@pytest.mark.parametrize(("text", "words"), CASES.items(), ids=CASES)
def test_capital_words_are_those_of_the_treebank(text: str, words: list[str]) -> None:
    assert list(capital_words(text)) == words
