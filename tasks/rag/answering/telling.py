"""A passage as an answer says it: without its bullet, a table row with the columns that are asked for and its unit."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from tasks.rag.answering.passages import Passage, cells_of
from tasks.rag.answering.question_reading import Question
from tasks.rag.language.sentences import disarmed

MOST_CHARS = 400
"""Of one passage in an answer."""
_BULLET = re.compile(r"^\s*(?:[-–—○●□■▪▶◦·•*※❍◇◆▷]\s*)?(?:[(（]?(?:\d{1,2}|[가-하]|[①-⑳])[.)）]\s+|[①-⑳]\s*)?(?=\S)")
_DIGIT = re.compile(r"\d")
_HAS_UNIT = re.compile(r"[%$₩€£¥]|\d\s?(?:원|천원|만|억|명|개|건|대|톤|일|시간|㎡|㎞|℃|points?|years?)")


class _Row(NamedTuple):
    label: str
    columns: tuple[tuple[str, str], ...]
    """Name and value; the name may be empty."""


def told(question: Question, passage: Passage) -> str:
    """The passage in one line."""
    text = _row_told(question, passage) if passage.is_row else _BULLET.sub("", " ".join(passage.text.split()))
    if passage.unit and _bare_number(text):
        text = f"{text} ({passage.unit})"
    text = disarmed(" ".join(text.split()))
    return text if len(text) <= MOST_CHARS else f"{text[: MOST_CHARS - 1].rstrip()}…"


def _row_told(question: Question, passage: Passage) -> str:
    row = _read_row(passage)
    if not row.columns:
        return passage.text
    wanted = _asked_columns(question, row)
    return f"{row.label} — {'; '.join(f'{name}: {value}' for name, value in wanted)}"


def _read_row(passage: Passage) -> _Row:
    """The row by its columns: `label — name: value; name: value`, or with the names of the table's first row."""
    label, dash, rest = passage.text.partition(" — ")
    values = cells_of(passage.text)[1:]
    if passage.names and len(values) == len(passage.names) - 1:
        return _Row(label, tuple(zip(passage.names[1:], values, strict=True)))
    pairs = [part.partition(": ") for part in rest.split("; ")] if dash else []
    if not all(colon and name for name, colon, _ in pairs):
        return _Row(label, ())  # a value holds a semicolon, or a column has no name
    return _Row(label, tuple((name, value) for name, _, value in pairs))


def _asked_columns(question: Question, row: _Row) -> Sequence[tuple[str, str]]:
    """The columns of the years and things that are asked for; those that the question does not tell apart stay."""
    columns = row.columns
    dated = [term.word for term in question.terms if term.literal and term.word[0].isdigit()]
    of_date = [column for column in columns if any(_names(word, column[0]) for word in dated)]
    if of_date:
        columns = [column for column in columns if column in of_date or not _DIGIT.search(column[0])]
    others = [term.word for term in question.terms if not term.literal and not _names(term.word, row.label)]
    held = [sum(_names(word, name) for word in others) for name, _ in columns]
    most = max(held)
    fitting = [column for column, count in zip(columns, held, strict=True) if count == most]
    answers = question.wants != "number" or any(_DIGIT.search(value) for _, value in fitting)
    return fitting if most and answers else columns


def _names(word: str, name: str) -> bool:
    """Whether the name of a column holds a word of the question."""
    lowered = re.sub(r"(?<=\d),(?=\d)", "", name.lower())
    if word[0].isdigit():
        return re.search(rf"(?<!\d){re.escape(word)}(?!\d)", lowered) is not None
    return word in lowered


def _bare_number(text: str) -> bool:
    """Whether a number stands there that does not tell what it counts."""
    return bool(_DIGIT.search(text)) and not _HAS_UNIT.search(text)
