"""Short answers that must equal the gold, but for case, spacing and surrounding punctuation."""

from __future__ import annotations

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Any, NamedTuple

import regex

from tasks.grading.choice import strip_marks
from tasks.grading.grading_records import Item, Response, Sample, make_sample
from tasks.grading.reading import (
    BOLD,
    FLEXIBLE,
    PATTERN_S,
    UNREAD,
    Readings,
    Rule,
    announcements,
    grade_readings,
    json_field,
    visible_answer,
    why_missing,
)

ANNOUNCED = announcements(r"(?:(?i:\banswer(?:[ ]{0,3}[:：]|\sis(?![A-Za-z]):?))|\#{4})[ \t*]*", ("answer", "####"))
LONGEST_LINE = 1_000
ARTICLE = re.compile(r"^(?:the|an?)\s+(?=\S)")


def grade_exact(answered: Iterable[tuple[Item, Response]], rule: Rule = FLEXIBLE) -> Iterator[Sample]:
    """Yield a sample for each response, in order; `item.gold`: the answer, or a list of accepted answers."""
    for item, response in answered:
        golds = [str(gold) for gold in (item.gold if isinstance(item.gold, list) else [item.gold])]
        yield grade_readings(rule, read_answers(response.text, rule), item, response, partial(_grade, response, golds))


def _grade(response: Response, golds: list[str], answer: str | None) -> dict[str, Any]:
    """Return the fields of a sample: score 1 if the answer equals any of the golds, else 0; None is `missing`."""
    is_right = answer is not None and any(are_same_words(gold, answer) for gold in golds)
    return {
        "score": float(is_right),
        "extracted": answer,
        "gold": " | ".join(golds),
        "reason": why_missing(response) if answer is None else "same words" if is_right else "other words",
        "missing": answer is None,
    }


def read_answers(response: str, rule: Rule) -> Readings:
    """Return what each policy reads: strict the last box, else a JSON field, else what `answer:` or `####` announces.

    Flexible falls back to the last bold text of the last line, or that line. Unclosed reasoning gives None for all.
    """
    text = visible_answer(response)
    if text is None:
        return UNREAD
    strict = _find_announced(text)
    line = text[-LONGEST_LINE:].rstrip().rpartition("\n")[2]
    bold = BOLD.findall(line)
    return rule.read(text, strict, strict or (bold[-1] if bold else line).strip("* ") or None)


def _find_announced(text: str) -> str | None:
    """Return the last box, else a JSON field, else the text on or below the last announcement's line; else None."""
    from tasks.grading.math.boxes import last_boxed

    if box := last_boxed(text):
        return box[:LONGEST_LINE].strip()
    if '"' in text and (field := json_field(text)):
        return field[:LONGEST_LINE].strip()
    for announced in ANNOUNCED.backwards(text):
        following = text[announced.end() : announced.end() + LONGEST_LINE].split("\n")
        if line := next((line.strip() for line in following if line.strip()), "").strip("* "):
            return line
    return None


def are_same_words(gold: str, answer: str) -> bool:
    """Return whether both are the same text by `plain_text`, or the same decimal number: 1,000.0 is 1000."""
    gold_words, answer_words = plain_text(gold), plain_text(answer)
    if gold_words == answer_words:
        return True
    numbers = _parse_number(gold_words), _parse_number(answer_words)
    return None not in numbers and numbers[0] == numbers[1]


def plain_text(text: str) -> str:
    """Return `text` as compared: NFKC, casefolded, single spaces; without LaTeX, signs at its ends, a first article."""
    has_words = any(map(str.isalnum, text))
    plain = strip_marks(text) if has_words and "\\" in text else text.replace("\\", "").replace("’", "'")
    words = " ".join(unicodedata.normalize("NFKC", plain).casefold().split())
    return ARTICLE.sub("", words.strip(" .,;:!?*_`\"'“”‘${}" if has_words else " .,;:!?")).strip() or words


def _parse_number(text: str) -> Decimal | None:
    """Return a finite number, without the commas before three digits; None for other text."""
    try:
        number = Decimal(re.sub(r"(?<=\d),(?=\d{3})", "", text))
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


SHOWN_CHARS = 500
_ARTICLE = re.compile(r"\b(?:a|an|the)\b")


class TextScore(NamedTuple):
    """The score of an answer against its golds, with the reason."""

    score: float
    reason: str
    extracted: str | None = None
    """The text that was compared; None for the whole answer."""


Measure = Callable[[str, Sequence[str]], TextScore]
"""Scores an answer without its reasoning against accepted golds. Raises TimeoutError."""


def grade_text(answered: Iterable[tuple[Item, Response]], measure: Measure) -> Iterator[Sample]:
    """Yield a sample for each response, in order, unscored on a timeout; `item.gold`: one, a list of golds, or None."""
    for item, response in answered:
        golds = [str(gold) for gold in (item.gold if isinstance(item.gold, list) else [item.gold]) if gold is not None]
        gold_text = " | ".join(golds)[:SHOWN_CHARS] or None
        graded = partial(make_sample, item, response, gold=gold_text)
        answer = visible_answer(response.text)
        if not answer:
            yield graded(score=0.0, reason=why_missing(response), missing=True)
            continue
        try:
            graded_text = measure(answer, golds)
        except TimeoutError:
            reason = f"the pattern took more than {PATTERN_S:g} s on this answer; write it without nested repeats"
            yield graded(status="unscored", extracted=answer[:SHOWN_CHARS], reason=reason)
            continue
        extracted = (answer if graded_text.extracted is None else graded_text.extracted)[:SHOWN_CHARS]
        yield graded(score=graded_text.score, extracted=extracted, reason=graded_text.reason)


def includes(answer: str, golds: Sequence[str]) -> TextScore:
    """Score 1 if the answer contains a gold, in any case."""
    folded = answer.casefold()
    included = next((gold for gold in golds if gold.casefold() in folded), None)
    return TextScore(float(included is not None), "included" if included is not None else "not included")


def matches(pattern: str) -> Measure:
    """Return a measure: 1 if the pattern matches; with groups and golds, the last one's first group must be a gold."""
    compiled = regex.compile(pattern)

    def measure(answer: str, golds: Sequence[str]) -> TextScore:
        """Return 1 or 0 and why, by the pattern's last match."""
        match: Any = None
        for match in compiled.finditer(answer, timeout=PATTERN_S):  # noqa: B007 the last one counts
            pass
        if match is None:
            return TextScore(0.0, "the pattern does not match")
        if not compiled.groups or not golds:
            return TextScore(1.0, "the pattern matches", match.group())
        group_text = next((group for group in match.groups() if group is not None), "")
        equal = any(are_same_words(gold, group_text) for gold in golds)
        return TextScore(float(equal), "same words" if equal else "other words", group_text)

    return measure


def f1(answer: str, golds: Sequence[str]) -> TextScore:
    """Return the best F1 of words, but for articles, punctuation and case; 0 without golds. Source: SQuAD's v1.1."""
    words, best_f1 = _words(answer), 0.0
    for gold in map(_words, golds):
        shared = sum((Counter(words) & Counter(gold)).values())
        best_f1 = max(best_f1, 2 * shared / (len(words) + len(gold)) if words and gold else float(words == gold))
    return TextScore(best_f1, "F1 of words")


def _words(text: str) -> list[str]:
    plain = "".join(sign for sign in text.lower() if sign not in string.punctuation)
    return _ARTICLE.sub(" ", plain).split()
