"""Reads a question for one figure of a table: its words, period and unit, and whether it is such a question."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files

from tasks.language.tokens import HANGUL, tokenize
from tasks.rag.answering.question_reading import read_question
from tasks.rag.numbers.cell_search import CHANGE, Alternative, CellQuestion, Unit, Word, spelled
from tasks.rag.numbers.computations import IN_UNIT, asks_to_work_out
from tasks.rag.numbers.concepts import mentions
from tasks.rag.numbers.document_numbers import TERM
from tasks.rag.numbers.expressions import YEARS, years_in
from tasks.rag.numbers.year_parts import PART_SAID, part_of_year
from tasks.rag.retrieval.expansion import expand, terms_in

_WORDS = tomllib.loads((files("tasks.rag.numbers") / "cell_words.toml").read_text("utf-8"))
ASKS = frozenset[str](_WORDS["asks"].split())
KOREAN_ASKS = frozenset[str](_WORDS["korean_asks"].split())
UNITS: Mapping[Unit, re.Pattern[str]] = {
    "%": re.compile(_WORDS["unit"]["percent"], re.IGNORECASE),
    "count": re.compile(_WORDS["unit"]["count"], re.IGNORECASE),
    "amount": re.compile(_WORDS["unit"]["amount"], re.IGNORECASE),
}
"""What a question wants its figure in; the first that fits counts."""
YEAR_SAID = re.compile(rf"(?<![a-z\d]){YEARS}(?!\d)", re.IGNORECASE)
NO_FIGURE = re.compile(_WORDS["no_figure"], re.IGNORECASE)
"""A question for something else than a figure."""
LINK = re.compile(r"\b(?:of|in|at|on|for|by|from|to|with)\b", re.IGNORECASE)
WEAK = frozenset[str](_WORDS["weak"].split())
WEAK_WEIGHT = 0.5
FOCUS_WEIGHT = 1.3
NAME_WEIGHT = 1.3
MOST_CHARS = 400


def read_cell_question(question: str, *, tokenizer: str, said: Sequence[str] = ()) -> CellQuestion | None:
    """The question as cells are scored against it; None where it asks for something else than one figure.

    said: what the question calls the documents, as it writes them. Raises WrongTokenizer.
    """
    asked = spelled(expand(" ".join(question.split())).asked)
    part = part_of_year(asked)
    years = years_in(asked)
    terms = {match[1] for match in TERM.finditer(asked)}
    if len(asked) > MOST_CHARS or part is None or max(len(years), len(terms)) > 1:
        return None
    if NO_FIGURE.search(asked) or asks_to_work_out(asked):
        return None
    core = _core(asked, said)
    words = tuple(_words(asked, core, tokenizer))
    core = _plain(core)
    if not words:
        return None
    return CellQuestion(
        asked=asked,
        core=core,
        words=words,
        alternatives=tuple(_alternatives(core, tokenizer)),
        year=years[0] if years else None,
        part=part,
        term=f"제{terms.pop()}기" if terms else "",
        unit=_unit(asked),
        change=CHANGE.search(core) is not None,
    )


def _unit(asked: str) -> Unit:
    for unit, pattern in UNITS.items():
        if pattern.search(asked):
            return unit
    return ""


def _core(asked: str, said: Sequence[str]) -> str:
    """What is asked for, without documents, periods, units and words that ask."""
    core = asked
    for name in sorted(said, key=len, reverse=True):
        core = re.sub(rf"(?:\bthe\s+)?{_loosely(name)}(?:['’]s\b)?", " ", core, flags=re.IGNORECASE)
    core = YEAR_SAID.sub(" ", PART_SAID.sub(" ", TERM.sub(" ", IN_UNIT.sub(" ", core))))
    core = re.sub(r"['’]s\b|[()?,;:]|\.(?!\w)", " ", core)
    return " ".join(word for word in core.split() if word.lower() not in ASKS or LINK.fullmatch(word))


def _plain(core: str) -> str:
    return " ".join(LINK.sub(" ", core).split())


def _loosely(name: str) -> str:
    """A name as a question may write it, with hyphens for spaces."""
    return r"[\s-]+".join(map(re.escape, re.split(r"[\s-]+", name)))


def _words(asked: str, core: str, tokenizer: str) -> Iterator[Word]:
    first = LINK.split(core, maxsplit=1)[0]
    left, begin = map(frozenset, tokenize([core, first], tokenizer=tokenizer))
    run = "".join(core.split())
    terms = read_question(asked, tokenizer=tokenizer).terms
    if not any(term.focus for term in terms):  # a question of catchwords begins with what it asks for
        terms = [term._replace(focus=term.word in begin and not term.literal) for term in terms]
    for term in terms:
        word = term.word
        kept = word in left or (HANGUL.search(word) is not None and word in run)
        if kept and word not in KOREAN_ASKS and not word.isdigit() and (len(word) > 1 or HANGUL.search(word)):
            weight = NAME_WEIGHT if term.literal else FOCUS_WEIGHT if term.focus else term.weight
            yield Word(word, weight if word not in WEAK else WEAK_WEIGHT, term.literal, term.focus)


def _alternatives(core: str, tokenizer: str) -> Iterator[Alternative]:
    """What the lines that the question names are called elsewhere."""
    for text, names in [(core[one.start : one.end], one.concept.names) for one in mentions(core)] + terms_in(core):
        words, *phrases = tokenize([text, *names], tokenizer=tokenizer)
        yield Alternative(frozenset(words), tuple(map(frozenset, phrases)))
