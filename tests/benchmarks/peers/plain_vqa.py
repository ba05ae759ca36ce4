"""The VQA accuracy as one writes it down at first: each answer prepared where it is met, each person left out in turn.

tests/lever/second_vqa_accuracy.py is written to be checked, this one to be timed beside ours.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

SIGNS = ';/[]"{}()=+\\_-><@`,?!'
WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
NUMBERS = {word: str(number) for number, word in enumerate(WORDS)} | {"none": "0"}


def plain_accuracy(said: str, people: Sequence[str], contractions: Mapping[str, str]) -> float:
    """Mean over the people of min(others who said the same / 3, 1)."""
    answers = [one.replace("\n", " ").replace("\t", " ").strip() for one in people]
    said = said.replace("\n", " ").replace("\t", " ").strip()
    if len(set(answers)) > 1:
        answers = [_prepared(one, contractions) for one in answers]
        said = _prepared(said, contractions)
    total = 0.0
    for left_out in range(len(answers)):
        matching = [n for n, one in enumerate(answers) if n != left_out and one == said]
        total += min(1.0, len(matching) / 3)
    return total / len(answers)


def _prepared(text: str, contractions: Mapping[str, str]) -> str:
    bare = text
    for sign in SIGNS:
        if sign + " " in text or " " + sign in text or re.search(r"\d,\d", text):
            bare = bare.replace(sign, "")
        else:
            bare = bare.replace(sign, " ")
    bare = re.sub(r"\.(?!\d)", "", bare, count=32)
    words: list[str] = []
    for word in bare.lower().split():
        word = NUMBERS.get(word, word)
        if word not in ["a", "an", "the"]:
            words.append(contractions.get(word, word))
    return " ".join(words)
