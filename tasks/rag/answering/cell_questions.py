"""Reads a question for one figure of a table: its words, period and unit, and whether it is such a question."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from tasks.language.tokens import HANGUL, tokenize
from tasks.rag.answering.question_reading import read_question
from tasks.rag.numbers.cell_search import CELL_WORDS, CHANGE, Alternative, CellQuestion, Unit, Word, spelled
from tasks.rag.numbers.computation_reading import IN_UNIT, asks_to_work_out
from tasks.rag.numbers.concepts import mentions
from tasks.rag.numbers.document_numbers import TERM
from tasks.rag.numbers.expressions import YEARS, years_in
from tasks.rag.numbers.periods import PART_SAID, WHOLE_YEAR, Part, When, part_of_year, spelled_out
from tasks.rag.retrieval.expansion import expand, terms_in

ASKS = frozenset[str](CELL_WORDS["asks"].split())
KOREAN_ASKS = frozenset[str](CELL_WORDS["korean_asks"].split())
UNITS: Mapping[Unit, re.Pattern[str]] = {
    "%": re.compile(CELL_WORDS["unit"]["percent"], re.IGNORECASE),
    "count": re.compile(CELL_WORDS["unit"]["count"], re.IGNORECASE),
    "amount": re.compile(CELL_WORDS["unit"]["amount"], re.IGNORECASE),
}
"""What a question wants its figure in; the first that fits counts."""
NAMES_MONEY, NAMES_COUNT = (re.compile(CELL_WORDS["names"][one], re.IGNORECASE) for one in ("money", "count"))
YEAR_SAID = re.compile(rf"(?<![a-z\d]){YEARS}(?!\d)", re.IGNORECASE)
NO_FIGURE = re.compile(CELL_WORDS["no_figure"], re.IGNORECASE)
"""A question for something else than a figure."""
LINK = re.compile(r"\b(?:of|in|at|on|for|by|from|to|with)\b", re.IGNORECASE)
WEAK = frozenset[str](CELL_WORDS["weak"].split())
WEAK_WEIGHT = 0.5
FOCUS_WEIGHT = 1.3
NAME_WEIGHT = 1.3
BESIDE_WEIGHT = 0.25
MOST_CHARS = 400


def read_cell_question(question: str, *, tokenizer: str, said: Sequence[str] = ()) -> CellQuestion | None:
    """The question as cells are scored against it; None where it asks for something else than one figure.

    said: what the question calls the documents, as it writes them. Raises WrongTokenizer.
    """
    asked = spelled(expand(spelled_out(" ".join(question.split()))).asked)
    part = part_of_year(asked)
    years = years_in(asked)
    terms = {match[1] for match in TERM.finditer(asked)}
    if len(asked) > MOST_CHARS or part is None or max(len(years), len(terms)) > 1:
        return None
    if NO_FIGURE.search(asked) or asks_to_work_out(asked):
        return None
    return _question(asked, asked, part, years, terms, tokenizer=tokenizer, said=said)


def line_question(said: str, when: When, *, tokenizer: str) -> CellQuestion | None:
    """What names one line, as a question for its figure in a period. Raises WrongTokenizer."""
    return _question(said, said, when.part, (when.year,), set(), tokenizer=tokenizer, said=())


def phrase_question(words: str, beside: str, asked: str, when: When | None, *, tokenizer: str) -> CellQuestion | None:
    """Words of a question, as a question for their figure; None without words. Raises WrongTokenizer.

    beside: its other words, which count less. when: the period; None: the one that the whole question names, if any.
    """
    part, years, terms = part_of_year(asked) or WHOLE_YEAR, years_in(asked), set(TERM.findall(asked))
    if when:
        part, years, terms = when.part, (when.year,), set[str]()
    years = years if len(years) == 1 else ()
    terms = terms if len(terms) == 1 else set[str]()
    own = _question(words, words, part, years, terms, tokenizer=tokenizer, said=())
    more = _question(beside, beside, part, (), set(), tokenizer=tokenizer, said=())
    if own is None or more is None:
        return own
    held = {word.text for word in own.words}
    told = [Word(word.text, word.weight * BESIDE_WEIGHT) for word in more.words if word.text not in held]
    # what the name of a figure says that it counts: 사업비 is money, 어르신 수 is none
    return own._replace(
        core=f"{own.core} {more.core}",
        words=(*own.words, *told),
        unit=("amount" if NAMES_MONEY.search(words) else "count" if NAMES_COUNT.search(words) else ""),
    )


def _question(
    asked: str,
    figure: str,
    part: Part,
    years: Sequence[int],
    terms: set[str],
    *,
    tokenizer: str,
    said: Sequence[str],
) -> CellQuestion | None:
    """figure: the question as far as it says which figure is meant."""
    core = _core(figure, said)
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
    core = _without_names(asked, said)
    core = YEAR_SAID.sub(" ", PART_SAID.sub(" ", TERM.sub(" ", IN_UNIT.sub(" ", core))))
    core = re.sub(r"['’]s\b|[()?,;:]|\.(?!\w)", " ", core)
    return " ".join(word for word in core.split() if word.lower() not in ASKS or LINK.fullmatch(word))


def _without_names(asked: str, said: Sequence[str]) -> str:
    for name in sorted(said, key=len, reverse=True):
        asked = re.sub(rf"(?:\bthe\s+)?{_loosely(name)}(?:['’]s\b)?", " ", asked, flags=re.IGNORECASE)
    return asked


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
