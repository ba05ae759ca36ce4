"""LiveBench's graders by rule, each reading an answer as the published one does.

Source: livebench/process_results of LiveBench/LiveBench, in the state of 2025; the file is named with each grader.
A grader gives the score, 0 to 1, and what it read; None where it read nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from rapidfuzz.distance import Levenshtein

from tasks.grading.reading import last_box


class Scored(NamedTuple):
    """The score of an answer, and what was read in it."""

    score: float
    read: str | None


CLOSING, OPENING = "</solution>", "<solution>"
_BOLD = re.compile(r"\*\*([^*]+)\*\*")
_OPTION = re.compile(r"\\textbf\{\(([A-E])\)\s?\}(.*?)(?:\\qquad|\$)")
_DIGITS = re.compile(r"\d+")
_TRUTHS = ("yes", "no", "unknown")
_THREE_TRUTHS = re.compile(r"(?=\b((?:yes|no|unknown), (?:yes|no|unknown), (?:yes|no|unknown)))")
AIME_CHARS, OPTION_CHARS = 50, 20
"""At the end of an answer, where the number or the option's text must stand."""
NUMBERS = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty"),
)
SHAPES = ("tetrahedra", "tetrahedron", "triangle", "square")
"""A few letters may stand around these: `equilateral triangle`."""


def grade_letter(answer: str, gold: str, question: str) -> Scored:
    """AMC and SMC (math/math_competitions): the letter four times over, in a tag or a box, or the option's text."""
    tagged = _tagged(answer)
    if tagged and len(set(tagged)) == 1 and tagged[0].casefold() == gold.casefold():
        return Scored(1.0, gold)
    repeated = next((letter for letter in (gold, *"ABCDE") if letter * 4 in answer), None)
    if repeated == gold:
        return Scored(1.0, gold)
    boxed = last_box(answer)
    said = _plain(boxed).upper() if boxed else None
    options = {letter: text.strip().strip("$").strip("~") for letter, text in _OPTION.findall(question)}
    value = options.get(gold)
    if said == gold or (value and value in answer[-OPTION_CHARS - len(value) :]):
        return Scored(1.0, gold)
    return Scored(0.0, said or repeated or (tagged or None))


def grade_number(answer: str, gold: str, question: str) -> Scored:
    """AIME (math/math_competitions): the gold stands in the last 50 characters."""
    del question
    end = answer[-AIME_CHARS:]
    found = _DIGITS.findall(end)
    return Scored(1.0, gold) if gold in end else Scored(0.0, found[-1] if found else None)


def grade_steps(answer: str, gold: str, question: str) -> Scored:
    """Proofs to complete (math/olympiad): one less the edit distance of the lists, by the longer one."""
    del question
    wanted = [int(number) for number in gold.split(",")]
    read = _steps(answer)
    distance = Levenshtein.distance(read, wanted)
    said = ",".join("?" if number is None else str(number) for number in read)
    return Scored(1 - distance / max(len(read), len(wanted)), said or None)


def grade_column(answer: str, gold: str, question: str) -> Scored:
    """The type of a column (data_analysis/cta): the whole answer, or its box, without case and signs."""
    del question
    boxed = last_box(answer) if "\\boxed{" in answer else None
    said = answer if boxed is None else _plain(boxed)
    return Scored(float(_letters(said) == _letters(gold)), said.strip() or None)


def grade_truths(answer: str, gold: str, question: str) -> Scored:
    """Who tells the truth (reasoning/web_of_lies_v2): a tag, three bold words, a box, or three words in a row."""
    del question
    said = _tagged(answer) or _bold_truths(answer)
    if not said:
        boxed = last_box(answer.replace("\\textbf{", "\\boxed{"))
        found = _THREE_TRUTHS.findall(answer.lower())
        said = boxed or (found[-1] if found else None)
    if not said:
        return Scored(0.0, None)
    three = sum(map(said.count, _TRUTHS)) == 3  # as published: `unknown` counts as a `no` as well
    return Scored(float(said == gold.lower() or (three and gold.lower() in said)), said)


def grade_shape(answer: str, gold: str, question: str) -> Scored:
    """Counts and shapes (reasoning/spatial): one of the last three bold texts is the gold, a number also in words."""
    del question
    wanted, bold = gold.strip().lower(), [text.strip().lower() for text in _BOLD.findall(answer)][-3:]
    fits = any(
        text == wanted
        or (text in NUMBERS and str(NUMBERS.index(text)) == wanted)
        or any(wanted == shape and shape in text and len(text) < 2 * len(shape) + 5 for shape in SHAPES)
        for text in bold
    )
    return Scored(float(fits), wanted if fits else bold[-1] if bold else None)


def _tagged(answer: str) -> str | None:
    """What the last pair of tags on one line holds."""
    before, closed, _ = answer.rpartition(CLOSING)
    _, opened, inside = before.rpartition(OPENING)
    return inside if closed and opened and "\n" not in inside else None


def _plain(boxed: str) -> str:
    return boxed.replace("\\text{", "").replace("}", "").replace("\\", "")


def _letters(text: str) -> str:
    return re.sub(r"\W", "", text.lower().strip())


def _bold_truths(answer: str) -> str | None:
    words = [word.lower().strip(",.") for text in _BOLD.findall(answer) for word in text.split()]
    return ", ".join([word for word in words if word in _TRUTHS][-3:]) or None


def _steps(answer: str) -> Sequence[int | None]:
    """The numbers behind the last `Answer:`, else in the last box, else in the last line; None for one that is none."""
    for numbers in (_after_answer(answer.lower()), _in_box(answer)):
        if any(number is not None for number in numbers):
            return numbers
    last = answer.strip().rpartition("\n")[2]
    return [int(found[0]) for part in last.split(",") if (found := _DIGITS.search(part))]


def _after_answer(answer: str) -> list[int | None]:
    _, announced, rest = answer.rpartition("answer:")
    lines = [line.replace("**", "").replace(".", "").strip() for line in rest.split("\n", 2)[:2]]
    said = next(filter(None, lines), "") if announced else ""
    return [_integer(re.sub(r"[${}\\<>]|boxed", "", part.split()[-1])) for part in said.split(",") if part.split()]


def _in_box(answer: str) -> list[int | None]:
    boxed = last_box(answer)
    return [_integer(part) for part in _plain(boxed).split(",")] if boxed else []


def _integer(text: str) -> int | None:
    return int(text) if re.fullmatch(r"\s*[+-]?\d{1,9}\s*", text) else None
