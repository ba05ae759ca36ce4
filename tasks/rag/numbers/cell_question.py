"""A question for one figure as cells are scored against it, and the words of cells and questions."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from importlib.resources import files
from typing import Literal, NamedTuple

from tasks.rag.numbers.year_parts import WHOLE_YEAR, Part

CELL_WORDS = tomllib.loads((files("tasks.rag.numbers") / "cell_words.toml").read_text("utf-8"))
FREE = frozenset[str](CELL_WORDS["free"].split())
"""Words of a label that may stand beside the name of the line."""
SAME: Mapping[str, frozenset[int]] = {
    word: frozenset(at for at, line in enumerate(CELL_WORDS["same"]) if word in line.split())
    for line in CELL_WORDS["same"]
    for word in line.split()
}
"""Word → the things that it may name."""
CHANGE = re.compile(CELL_WORDS["columns"]["change"], re.IGNORECASE)
"""A column that shows how a figure changed, and not the figure."""
UNITED_STATES = re.compile(r"\bU\.\s?S\.(?:\s?A\.)?|\bUnited States\b")
Unit = Literal["amount", "%", "count", ""]


class Word(NamedTuple):
    """A word of a question, as the index splits them."""

    text: str
    weight: float
    name: bool = False
    """Nothing else stands for it: it is a name."""
    focus: bool = False
    """It names what is asked for."""


class Alternative(NamedTuple):
    """Words of the question that name a line, and what that line may be called instead."""

    words: frozenset[str]
    phrases: tuple[frozenset[str], ...]


class CellQuestion(NamedTuple):
    """A question for one figure."""

    asked: str
    """The question as it is."""
    core: str
    """What is asked for, without documents, periods, units and words that ask."""
    words: tuple[Word, ...]
    alternatives: tuple[Alternative, ...] = ()
    year: int | None = None
    part: Part = WHOLE_YEAR
    term: str = ""
    """A business term of a Korean company, as periods are labelled: `제23기`."""
    unit: Unit = ""
    change: bool = False
    """It asks for a change."""


def spelled(text: str) -> str:
    """With names that are written in several ways in one."""
    return UNITED_STATES.sub("USA", text)
