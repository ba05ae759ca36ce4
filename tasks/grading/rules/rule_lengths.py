"""How long a response is: sentences, words, paragraphs."""

from __future__ import annotations

import re

from tasks.grading.rules.rule_keywords import Relation, compares
from tasks.grading.rules.rule_sentences import sentences

DIVIDER = re.compile(r"\s?\*\*\*\s?")
END_OF_FIRST_WORD = re.compile(r"[.,?!'\"]")


def number_sentences(response: str, *, num_sentences: int, relation: Relation) -> bool:
    """It has enough, or few enough, sentences; `1.` of a numbered list is one of its own."""
    return compares(sentences(response), relation, num_sentences)


def number_words(response: str, *, num_words: int, relation: Relation) -> bool:
    """It has enough, or few enough, runs of letters, digits and underscores; `don't` is two."""
    return compares(re.finditer(r"\w+", response), relation, num_words)


def number_paragraphs(response: str, *, num_paragraphs: int) -> bool:
    """It has exactly that many paragraphs between `***` dividers; only the first and the last may be empty."""
    paragraphs = [bool(paragraph.strip()) for paragraph in DIVIDER.split(response)]
    return all(paragraphs[1:-1]) and sum(paragraphs) == num_paragraphs


def nth_paragraph_first_word(response: str, *, num_paragraphs: int, nth_paragraph: int, first_word: str) -> bool:
    """It has exactly that many paragraphs between blank lines, and the nth starts with the word.

    Empty paragraphs are not counted, yet they hold their place when the nth is looked up.
    """
    paragraphs = response.split("\n\n")
    filled = sum(1 for paragraph in paragraphs if paragraph.strip())
    if filled != num_paragraphs or nth_paragraph > filled:
        return False
    words = paragraphs[nth_paragraph - 1].split(maxsplit=1)
    return bool(words) and _bare(words[0]) == first_word.lower()


def _bare(word: str) -> str:
    """`word` in lower case without quotes before it, up to the first punctuation mark."""
    return "".join(letter.lower() for letter in END_OF_FIRST_WORD.split(word.lstrip("'").lstrip('"'), maxsplit=1)[0])
