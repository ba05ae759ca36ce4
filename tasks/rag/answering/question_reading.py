"""What a question asks for: its words, the thing it wants to know, and the kind of answer that would do."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

from tasks.language.sentences import Language, language_of
from tasks.language.tokens import FUNCTION_WORDS, HANGUL, MYRIADS, tokenize
from tasks.rag.answering.question_words import (
    ASKING,
    COUNTER,
    HOW_MANY,
    INTERROGATIVE,
    LINKS,
    MEASURES,
    ORDINAL,
    PARTICLES,
    SHORT_FORMS,
    WANTED,
    WHAT,
    Wanted,
)
from tasks.rag.retrieval.expansion import expand

MOST_QUESTION_CHARS = 2_000
"""Characters of a question that are read when sentences are scored."""
MOST_WORDS = 64


class Term(NamedTuple):
    """A word of the question that evidence may hold."""

    word: str
    """As the index splits words."""
    weight: float
    """Before it is told how rare the word is."""
    focus: bool
    """Whether it names what is asked for, and not only what it is asked about."""
    literal: bool
    """Whether it stands for something that has no other word: a number, a year, an id, a name."""


class Question(NamedTuple):
    """A question as the scores read it."""

    text: str
    language: Language
    terms: tuple[Term, ...]
    wants: Wanted
    counter: str
    """`개소` of 몇 개소, the stem of `stores` of how many stores; empty if nothing is counted."""
    numbers: frozenset[str]
    """Digits that the question itself says: they do not answer it."""


def read_question(text: str, *, tokenizer: str) -> Question:
    """The question, read with the tokenizer of the index. Raises WrongTokenizer."""
    short = unicodedata.normalize("NFC", text[: 2 * MOST_QUESTION_CHARS])[:MOST_QUESTION_CHARS]
    asked = _spelled_out(expand(" ".join(short.split())).asked)
    focus_text = _focus(asked)
    words, focus_words = tokenize([asked, focus_text], tokenizer=tokenizer)
    words = _with_ordinals(_mended(_without_joins(words), asked), asked)
    terms = _terms(words, asked, _focus_words(focus_words, focus_text), tokenizer)
    return Question(
        text=asked,
        language=language_of(asked),
        terms=terms,
        wants=_wanted(asked),
        counter=_counter(asked, tokenizer),
        numbers=frozenset(re.findall(r"\d+(?:\.\d+)?", asked.replace(",", ""))),
    )


def _wanted(asked: str) -> Wanted:
    """The first kind whose words stand in the question."""
    for wanted, pattern in WANTED:
        if pattern.search(asked):
            return wanted
    return "text"


def _spelled_out(asked: str) -> str:
    """With the short forms of reports as their tables spell them: FY2023, capex, PP&E."""
    for short, spelled in SHORT_FORMS:
        asked = short.sub(spelled, asked)
    return asked


def _terms(words: Sequence[str], asked: str, focus: frozenset[str], tokenizer: str) -> tuple[Term, ...]:
    names = _names(asked, tokenizer)
    said_whole = {part for word in words for part in _inner(word)}
    terms: dict[str, Term] = {}
    for word in words:
        if word in ASKING or word in said_whole or re.fullmatch(r"(?:19|20)\d\d년", word):
            continue
        literal = any(sign.isdigit() for sign in word) or word in names
        weight = 0.3 if word in MEASURES or len(word) == 1 else 1.3 if literal else 1.0
        terms.setdefault(word, Term(word, weight, word in focus and word not in names, literal))
    return tuple(terms.values())[:MOST_WORDS]


def _with_ordinals(words: Sequence[str], asked: str) -> list[str]:
    """With 20기 of 제20기 as one word, and without the digits of an amount in myriads: 13 and 8 of 13억 8천만."""
    ordinals = {digits: f"{digits}{of}" for digits, of in ORDINAL.findall(asked)}
    in_amounts = {digits for amount in MYRIADS.findall(asked) for digits in re.findall(r"\d+(?:\.\d+)?", amount)}
    kept = [ordinals.get(word, word) for word in words if word in ordinals or word not in in_amounts]
    return list(dict.fromkeys(kept))


def _inner(word: str) -> set[str]:
    """Parts of an id, or of a number with its counter, that say less alone: 002 of sfr-002, 12 of 12개월."""
    if re.fullmatch(r"(?:19|20)\d\d년", word) or not any(sign.isdigit() for sign in word):
        return set()
    return {part for part in re.findall(r"[^\W\d_]+|\d+(?:\.\d+)?", word) if part != word}


def _without_joins(words: Sequence[str]) -> list[str]:
    """A compound counts by its parts; where a part is a single syllable, which says little, by itself."""
    kept: list[str] = []
    for word in words:
        parts = _parts_of(word, kept)
        if not parts:
            kept.append(word)
        elif any(len(part) == 1 for part in parts):
            kept[-len(parts) :] = [word]
    return kept


def _parts_of(word: str, before: Sequence[str]) -> Sequence[str]:
    """The words right before that make up `word`; empty if they do not."""
    for count in range(2, min(len(before), len(word)) + 1):
        if "".join(before[-count:]) == word:
            return before[-count:]
    return ()


def _mended(words: Sequence[str], asked: str) -> list[str]:
    """With names whole again that the tokenizer took for something else and told in part: `공고` of 재공고, 가온시."""
    mended = list(words)
    for run in dict.fromkeys(re.findall("[가-힣]{2,}", asked)):
        parts = [word for word in words if HANGUL.search(word) and word in run]
        covered = {at for word in parts for at in range(run.find(word), run.find(word) + len(word))}
        if (
            not covered
            or (len(parts) == 1 and len(parts[0]) == 1)
            or len(covered & set(range(max(covered)))) == max(covered)
        ):
            continue
        whole = run[: max(covered) + 1]
        first = min(mended.index(part) for part in parts if part in mended) if set(parts) & set(mended) else len(mended)
        mended = [word for word in mended if word not in parts]
        mended.insert(first, whole)
    return mended


def _focus_words(words: Sequence[str], focus_text: str) -> frozenset[str]:
    return frozenset([*words, *_mended(_without_joins(words), focus_text)])


def _names(asked: str, tokenizer: str) -> frozenset[str]:
    """Words that are written as names: a capital letter within the sentence, or all capitals."""
    written = re.findall(r"(?<![.?!:] )(?<=[^\s]\s)(?:[A-Z][\w'’-]*)|\b[A-Z]{2,}\b", asked)
    latin = [word for word in written if word.lower() not in FUNCTION_WORDS]
    return frozenset(word for words in tokenize(latin, tokenizer=tokenizer) for word in words)


def _focus(asked: str) -> str:
    """The words of the question that name what is asked for."""
    if language_of(asked) == "en":
        found = WHAT.search(asked)
        return found["focus"] if found else ""
    return _korean_focus(asked.rstrip(" ?.").split())


def _korean_focus(spaced: Sequence[str]) -> str:
    """The last words with the particle of a subject, topic or object before the question word, or the very last."""
    asks = next((at for at, word in enumerate(spaced) if INTERROGATIVE.match(word)), len(spaced))
    if asks < len(spaced) and re.match("(?:어느|어떤|무슨)$", spaced[asks]):
        return " ".join(spaced[asks + 1 :])
    before = range(min(asks, len(spaced)) - 1, -1, -1)
    last = next((at for at in before if len(spaced[at]) > 1 and spaced[at].endswith(PARTICLES)), None)
    if last is None:
        return spaced[-1] if spaced and asks == len(spaced) else ""
    first = last
    while first and last - first < 3 and not LINKS.search(spaced[first - 1]):
        first -= 1
    return " ".join(spaced[first : last + 1])


def _counter(asked: str, tokenizer: str) -> str:
    if found := COUNTER.search(asked):
        return found[1]
    if found := HOW_MANY.search(asked):
        words = tokenize([found[1]], tokenizer=tokenizer)[0]
        return words[0] if words else ""
    return ""
