"""The VQA accuracy of an answer: the more people gave it, the more it is worth.

Source: Antol et al. 2015, arXiv:1505.00468, and the authors' vqaEval.py (GT-Vision-Lab/VQA), oddities included: texts
are normalised only where people disagree; only the first 32 periods are removed (`re.UNICODE` stands where `re.sub` has
its count); a comma between digits makes all punctuation vanish, which otherwise mostly becomes a space; contractions
are looked up in lower case, so that `Im`, `Ive`, `Id've` and `I'dve` are never found.
One difference is meant: each person is left out alone, where the authors leave out all whose *entry* is equal, so that
unnumbered entries (VizWiz) would give the majority's answer .67 instead of .94.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from tasks.language.number_words import NUMBER_NAMES

ENOUGH = 3
"""Other people who must agree for a full point."""
SIGNS = re.compile(r"""[;/\[\]"{}()=+\\_\-><@`,?!]""")
COMMA_IN_NUMBER = re.compile(r"\d,\d")
PERIOD = re.compile(r"\.(?!\d)")
MOST_PERIODS = 32  # int(re.UNICODE), see above
NUMBERS = {"none": "0"} | {name: str(value) for value, name in enumerate(NUMBER_NAMES)}
ARTICLES = frozenset({"a", "an", "the"})
ODD_CONTRACTIONS = {"somebody'd": "somebodyd", "let's": "let's", "she's": "she's"}  # slips of the authors' table
CACHED = 1 << 16
CACHED_CHARS = 100
"""Longer texts are not cached, so that the cache stays small."""
CACHED_QUESTIONS = 1 << 13


class People(NamedTuple):
    """The answers of people to one question, prepared for comparison."""

    counts: Mapping[str, int]
    """Prepared answer → how many gave it."""
    total: int
    disagree: bool
    stem: bool


def vqa_accuracy(answer: str, answers: Sequence[str], *, stem: bool = False) -> float:
    """Return the mean over the people, each left out once, of min(others who gave `answer` / 3, 1): 0 to 1.

    With m of ten it is 0, .3, .6, .9 and from four on 1; with fewer than four people never 1.
    stem: as in `prepare_answers`. Raises ValueError if nobody answered.
    """
    return accuracy_among(prepare_answers(tuple(answers), stem=stem), answer)


def accuracy_among(peers: People, answer: str) -> float:
    """Return the VQA accuracy of `answer` among prepared answers of people, 0 to 1."""
    agree = peers.counts.get(prepare_answer(answer, normalised=peers.disagree, stem=peers.stem), 0)
    if not agree:
        return 0.0
    # without one who disagrees `agree` people remain who gave the answer, without one of these `agree` - 1
    without_other, without_agreeing = min(agree, ENOUGH), min(agree - 1, ENOUGH)
    return ((peers.total - agree) * without_other + agree * without_agreeing) / (ENOUGH * peers.total)


@lru_cache(CACHED_QUESTIONS)
def prepare_answers(answers: tuple[str, ...], *, stem: bool = False) -> People:
    """Return people's answers, normalised only if they disagree, with their counts, as `accuracy_among` takes them.

    Raises ValueError if there are none. stem: words are compared by their Porter stems. OK-VQA publishes stems by an
    unreleased procedure, which others approximate differently (open_flamingo: lemmatiser, singulars, a table), so
    values are close but not the same.
    """
    if not answers:
        raise ValueError("nobody answered this question; leave it out")
    disagree = len({_one_line(text) for text in answers}) > 1
    counts = Counter(prepare_answer(text, normalised=disagree, stem=stem) for text in answers)
    return People(counts, len(answers), disagree, stem)


def prepare_answer(answer: str, *, normalised: bool = True, stem: bool = False) -> str:
    """Return an answer as it is compared: exactly or normalised, and stemmed on demand."""
    prepared = normalise(answer) if normalised else _one_line(answer)
    return " ".join(map(_stem, prepared.split())) if stem else prepared


def normalise(answer: str) -> str:
    """Return `answer` without punctuation, articles and capitals, with digits and with contractions spelt right."""
    return (_normalise_cached if len(answer) <= CACHED_CHARS else _normalise_cached.__wrapped__)(answer)


@lru_cache(CACHED)
def _normalise_cached(answer: str) -> str:
    """Return an answer as VQA's published script compares it: signs, articles, numbers and contractions."""
    text = bare = _one_line(answer)
    for sign in set(SIGNS.findall(text)):
        vanishes = COMMA_IN_NUMBER.search(text) or f"{sign} " in text or f" {sign}" in text
        bare = bare.replace(sign, "" if vanishes else " ")
    bare = PERIOD.sub("", bare, count=MOST_PERIODS)
    words = [NUMBERS.get(word, word) for word in bare.lower().split()]
    return " ".join(CONTRACTIONS.get(word, word) for word in words if word not in ARTICLES)


def _one_line(answer: str) -> str:
    return answer.replace("\n", " ").replace("\t", " ").strip()


@lru_cache(CACHED)
def _stem(word: str) -> str:
    from snowballstemmer.porter_stemmer import PorterStemmer

    return PorterStemmer().stemWord(word)  # a stemmer holds state and serves one thread


def _contractions() -> Iterator[tuple[str, str]]:
    """Yield misspelt contractions, each with the correct form."""
    lists = json.loads(Path(__file__).with_name("vqa_contractions.json").read_text("utf-8"))
    for word in " ".join(lists["without_apostrophes"]).split():
        yield word.replace("'", ""), word
    for word in " ".join(lists["without_one_of_several"]).split():
        for place in re.finditer("'", word):
            yield word[: place.start()] + word[place.end() :], word
    yield from ODD_CONTRACTIONS.items()


CONTRACTIONS = dict(_contractions())
