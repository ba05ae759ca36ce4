"""Reads a question as a computation over lines of statements: the formula, the years, and the form of the answer.

"What was Marlow's inventory turnover in FY2019, defined as COGS / average inventory?" needs no model: the formula is
written there, or stands in `concepts.toml`. What names a part of the company ("Domestic") goes with its line; a word
that nothing explains makes the reading less sure, and several of them make it none."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tasks.language.sentences import language_of
from tasks.rag.numbers.computations import (
    Computation,
    Labels,
    Latest,
    Task,
    find_extreme,
    find_periods,
    is_ratio,
    operation,
    read_count,
    spread_over_periods,
    value_of,
)
from tasks.rag.numbers.concepts import Concept, mentions, words_of
from tasks.rag.numbers.expressions import find_years, lines_of, parse
from tasks.rag.numbers.periods import When, find_parts, write_years_out
from tasks.rag.numbers.question_shape import NAME, OWNER, Shape, any_of, mark_names, parse_shape, strip_instructions
from tasks.rag.numbers.written_formulas import (
    PERCENT,
    SHARE,
    definitions,
    formulas_by_key,
    read_written_formula,
    remove_definitions,
    substitute_meanings,
)
from tasks.rag.retrieval.expansion import expand

SAYS_VALUE, OF_TWO, IN_UNIT, DECIMALS, ASKS_TEXT, ASKS_SHARE, ASKS_VALUE = map(
    any_of,
    ("figure", "of_two", "in_unit", "decimals", "asks_text", "asks_share", "asks_figure"),
)
MOST_CHARS = 2_000
"""Most characters of a question that is read as one for a value."""
MOST_YEARS = 12
MOST_OF_RARE = 3
"""Most labels that hold a word which names one thing alone."""
MOST_PARTS = 2
"""Most names of parts that one line may be of: a segment and a product."""
MOST_UNREAD = 3
"""Most words that nothing explains; a question with more is not understood."""
MARKED = re.compile(rf"[{NAME}{OWNER}](?:\s+의(?=\s))?\s*")


def read_computation(
    question: str,
    *,
    spoken_names: Sequence[str] = (),
    names: Sequence[str] = (),
    latest: Latest = lambda: None,
    labels: Labels = dict,
) -> Computation | None:
    """Read the computation that a question asks for; None where it asks for something else, or more, or is too long.

    spoken_names: what the question calls the documents, as it writes them. names: their own names.
    """
    text = write_years_out(" ".join(question.split()))
    if len(text) > MOST_CHARS:
        return None
    display = read_display(text)
    marked = mark_names(text, spoken_names)
    if read := read_written_formula(MARKED.sub(" ", marked), latest):
        return display._replace(tasks=(read,), defined=True, assumed=not (find_years(text) or find_parts(text)))
    if inputs := definitions(MARKED.sub(lambda mark: " " * len(mark[0]), marked)):  # of inputs of what is asked for
        text, display = remove_definitions(marked, inputs), display._replace(defined=True)
    if ASKS_TEXT.search(text):
        return None
    plain = strip_instructions(DECIMALS.sub(" ", expand(text).question))
    read = _read_values(plain, display, spoken_names=spoken_names, names=names, latest=latest, labels=labels)
    if read is None:
        return None
    formulas = formulas_by_key(inputs)
    tasks = tuple(task._replace(expression=substitute_meanings(task.expression, formulas)) for task in read.tasks)
    return read._replace(tasks=tasks)


def read_display(question: str) -> Computation:
    """Read how the answer is to be shown: a computation without tasks, with language, decimals and scale."""
    decimals = next((read_count(match["count"] or match["count_ko"]) for match in DECIMALS.finditer(question)), None)
    scale = next((f"{match['scale'].lower().rstrip('s')}s" for match in IN_UNIT.finditer(question)), "")
    percent = PERCENT.search(question) is not None
    return Computation((), language_of(question), decimals, scale, in_percent=percent)


def asks_to_work_out(question: str) -> bool:
    """Return whether a question asks for a value that takes arithmetic unless a document states it: growth, a ratio."""
    text = " ".join(question.split())[:MOST_CHARS]
    mentioned = mentions(text)
    if writes_formula(text) or any(mention.concept.statement is None for mention in mentioned):
        return True
    operation_name = operation(text)
    two = SHARE.search(text) or OF_TWO.search(text)
    return SAYS_VALUE.search(text) is not None and bool(
        operation_name in ("growth", "cagr") or two or (operation_name and mentioned)
    )


def writes_formula(question: str) -> bool:
    """Return whether a question writes the formula of what it asks for."""
    return read_written_formula(" ".join(question.split())[:MOST_CHARS]) is not None


def _read_values(
    plain: str,
    display: Computation,
    *,
    spoken_names: Sequence[str],
    names: Sequence[str],
    latest: Latest,
    labels: Labels,
) -> Computation | None:
    """Read the values that a question asks for by the names of their lines; None if not understood, or of no period."""
    whens, assumed = find_periods(plain, latest)
    if not whens or len(whens) > MOST_YEARS:
        return None
    shape = _attach_parts(drop_inputs(parse_shape(plain, spoken_names=spoken_names, names=names)), labels)
    tasks = tuple(_make_tasks(shape, whens, plain))
    is_read = sum(len(phrase.split()) for phrase in shape.unread) <= MOST_UNREAD and not shape.loose
    if not (tasks and is_read and ASKS_VALUE.search(plain)):
        return None
    return display._replace(tasks=tasks, unread=shape.unread, assumed=assumed)


def _attach_parts(shape: Shape, labels: Labels) -> Shape:
    """Attach up to two names of parts of the company to the lines; of more, or if labels lack one, all stay loose.

    Other words that labels hold go with the lines too: cells that have them are preferred.
    """
    loose = [phrase for phrase in shape.loose if _are_in_labels(phrase, labels)]
    unread = [word for phrase in shape.unread for word in phrase.split()]
    rare = [word for word in unread if _are_in_labels(word, labels, most=MOST_OF_RARE)]
    preferred_words = " ".join(word for word in unread if word not in rare and _are_in_labels(word, labels))
    loose += rare
    if len(loose) < len(shape.loose) or len(loose) > MOST_PARTS:
        return shape._replace(loose=shape.loose or tuple(loose))
    of = " ".join(loose)
    still_unread = tuple(word for word in unread if word not in rare)
    lines = (line._replace(name=f"{of} {line.name}".strip()) for line in shape.lines)
    lines = (
        line._replace(of=f"{of} {line.of}".strip(), preferred=preferred_words) if line.concept else line
        for line in lines
    )
    return shape._replace(lines=tuple(lines), loose=(), unread=still_unread)


def _are_in_labels(words: str, labels: Labels, *, most: int | None = None) -> bool:
    """Return whether labels hold all of the words, and at most `most` labels the rarest of them."""
    label_counts = labels()
    counts = [label_counts.get(word, 0) for word in words_of(words)]
    return bool(counts) and all(counts) and (most is None or min(counts) <= most)


def _make_tasks(shape: Shape, whens: Sequence[When], plain: str) -> Iterator[Task]:
    """Yield the tasks of a line over periods; none of several lines, or for a share of an unknown whole."""
    if len(shape.lines) == 1 and (is_ratio(shape.lines[0]) or not ASKS_SHARE.search(shape.skeleton)):
        operation_name = find_extreme(plain) or operation(shape.skeleton)
        yield from spread_over_periods(value_of(shape.lines[0]), operation_name, whens)


def drop_inputs(shape: Shape) -> Shape:
    """Leave out the other lines of a question with one ratio if that is made of all of them: they only explain it."""
    lines = list(enumerate(shape.lines))
    ratios = [at for at, line in lines if line.concept and line.concept.statement is None]
    ratio = shape.lines[ratios[0]].concept if len(ratios) == 1 else None
    if ratio is None or len(lines) == 1:
        return shape
    if not set(_find_inputs(ratio)) >= {line.concept for at, line in lines if at not in ratios}:
        return shape
    pieces = re.split("(¤)", shape.skeleton)
    pieces_of_ratio = [piece for at, piece in enumerate(pieces) if at % 2 == 0 or at // 2 in ratios]
    return shape._replace(skeleton=" ".join(pieces_of_ratio), lines=(shape.lines[ratios[0]],))


def _find_inputs(ratio: Concept, above: tuple[str, ...] = ()) -> Iterator[Concept]:
    """Yield the lines that a ratio is made of, through other ratios; above: keys of the ratios on the way to it."""
    for line in lines_of(parse(ratio.formula)):
        if line.concept and line.concept.statement:
            yield line.concept
        elif line.concept and line.concept.key not in (*above, ratio.key):
            yield from _find_inputs(line.concept, (*above, ratio.key))
