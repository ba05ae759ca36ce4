"""Reads a question as a computation over lines of statements: what, of which years, and how it is to be shown.

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
    combine,
    count_of,
    extreme,
    is_ratio,
    operation,
    over_periods,
    whens_of,
)
from tasks.rag.numbers.concepts import Concept, mentions, words_of
from tasks.rag.numbers.expressions import (
    Line,
    Operation,
    lines_of,
    parse,
    years_in,
)
from tasks.rag.numbers.periods import When, parts_in, spelled_out
from tasks.rag.numbers.question_shape import (
    NAME,
    OWNER,
    WORDS,
    Shape,
    shape_of,
    with_marks,
    without_instructions,
)
from tasks.rag.numbers.written_formulas import PERCENT, SHARE, defined, definitions, meanings, with_meanings, without
from tasks.rag.retrieval.expansion import expand

FIGURE, OF_TWO, IN_UNIT, DECIMALS, ASKS_TEXT, ASKS_SHARE, ASKS_FIGURE, BOTH_ENDS, ASIDE = (
    re.compile(WORDS[name], re.IGNORECASE)
    for name in (
        "figure",
        "of_two",
        "in_unit",
        "decimals",
        "asks_text",
        "asks_share",
        "asks_figure",
        "both_ends",
        "aside",
    )
)
MOST_CHARS = 2_000
"""A longer question is no question for a figure."""
MOST_YEARS = 12
MOST_OF_RARE = 3
"""Labels that hold a word which only one thing is called."""
MOST_PARTS = 2
"""Names of parts that one line may be of: a segment and a product."""
MOST_UNREAD = 3
"""Words that nothing explains; a question with more is not understood."""
MARKED = re.compile(rf"[{NAME}{OWNER}](?:\s+의(?=\s))?\s*")


def read_computation(
    question: str,
    *,
    said: Sequence[str] = (),
    names: Sequence[str] = (),
    latest: Latest = lambda: None,
    labels: Labels = dict,
) -> Computation | None:
    """The computation that a question asks for; None where it asks for something else, or not only for one.

    said: what the question calls the documents, as it writes them. names: their own names.
    """
    asked = spelled_out(" ".join(question.split()))
    if len(asked) > MOST_CHARS:
        return None
    how = shown_as(asked)
    marked = with_marks(asked, said)
    if found := defined(MARKED.sub(" ", marked), latest):
        return how._replace(tasks=(found,), defined=True, assumed=not (years_in(asked) or parts_in(asked)))
    if given := definitions(MARKED.sub(lambda mark: " " * len(mark[0]), marked)):  # of inputs of what is asked for
        asked, how = without(marked, given), how._replace(defined=True)
    if ASKS_TEXT.search(asked):
        return None
    # what is after accumulated depreciation is net
    net = lambda said: ", net" if "accumulated" in said[0].lower() else " "  # noqa: E731
    plain = without_instructions(DECIMALS.sub(" ", BOTH_ENDS.sub(" ", ASIDE.sub(net, expand(asked).asked))))
    found = _understood(plain, how, said=said, names=names, latest=latest, labels=labels)
    if found is None:
        return None
    meant = meanings(given)
    tasks = tuple(one._replace(expression=with_meanings(one.expression, meant)) for one in found.tasks)
    return found._replace(tasks=tasks)


def shown_as(question: str) -> Computation:
    """How the answer is to be shown, without what is worked out: language, decimals, scale."""
    decimals = next((count_of(match["count"] or match["count_ko"]) for match in DECIMALS.finditer(question)), None)
    scale = next((f"{match['scale'].lower().rstrip('s')}s" for match in IN_UNIT.finditer(question)), "")
    percent = PERCENT.search(question) is not None
    return Computation((), language_of(question), decimals, scale, in_percent=percent)


def asks_to_work_out(question: str) -> bool:
    """Whether a question asks for a figure that takes arithmetic unless a document states it: growth, a ratio."""
    asked = " ".join(question.split())[:MOST_CHARS]
    named = mentions(asked)
    if defines(asked) or any(one.concept.statement is None for one in named):
        return True
    how = operation(asked)
    two = SHARE.search(asked) or OF_TWO.search(asked)
    return FIGURE.search(asked) is not None and bool(how in ("growth", "cagr") or two or (how and named))


def defines(question: str) -> bool:
    """Whether a question writes the formula of what it asks for."""
    return defined(" ".join(question.split())[:MOST_CHARS]) is not None


def _understood(
    plain: str, how: Computation, *, said: Sequence[str], names: Sequence[str], latest: Latest, labels: Labels
) -> Computation | None:
    """The figures that a question asks for by the names of their lines."""
    whens, assumed = whens_of(plain, latest)
    if not whens or len(whens) > MOST_YEARS:
        return None
    for shape in _shapes(plain, how, said=said, names=names, labels=labels):
        tasks = tuple(_tasks(shape, whens, how, plain))
        is_read = sum(len(one.split()) for one in shape.unread) <= MOST_UNREAD and not shape.loose
        if tasks and is_read and ASKS_FIGURE.search(plain):
            return how._replace(tasks=tasks, unread=shape.unread, assumed=assumed)
    return None


def _shapes(
    plain: str, how: Computation, *, said: Sequence[str], names: Sequence[str], labels: Labels
) -> Iterator[Shape]:
    """The ways to read a question, the surest first: by concepts alone, or by other words of tables too."""
    known, free = (without_parts(shape_of(plain, said=said, names=names, free=free)) for free in (False, True))
    named_more = any(_in_labels(one, labels) for one in known.unread) and len(free.lines) > len(known.lines)
    if known.lines and not named_more:
        yield _with_parts(known, labels)
    # lines of no concept are only guessed at where an operation is asked for
    figures = combine(free.skeleton, free.lines, percent=how.in_percent)
    asks_arithmetic = len(figures) == 1 and (len(free.lines) > 1 or operation(free.skeleton))
    if len(free.lines) > len(known.lines) and asks_arithmetic:
        yield _with_parts(free, labels)


def _with_parts(shape: Shape, labels: Labels) -> Shape:
    """The lines of the part of the company that is named away from them; loose words stay where no label has them.

    Other words that labels hold are kept beside the lines: they may tell which cell is meant, and need not.
    """
    loose = [one for one in shape.loose if _in_labels(one, labels)]
    unread = [word for phrase in shape.unread for word in phrase.split()]
    rare = [one for one in unread if _in_labels(one, labels, most=MOST_OF_RARE)]
    beside = " ".join(one for one in unread if one not in rare and _in_labels(one, labels))
    loose += rare
    if len(loose) < len(shape.loose) or len(loose) > MOST_PARTS:
        return shape._replace(loose=shape.loose or tuple(loose))
    of = " ".join(loose)
    left = tuple(one for one in unread if one not in rare)
    lines = (line._replace(said=f"{of} {line.said}".strip()) for line in shape.lines)
    lines = (line._replace(of=f"{of} {line.of}".strip(), beside=beside) if line.concept else line for line in lines)
    return shape._replace(lines=tuple(lines), loose=(), unread=left)


def _in_labels(said: str, labels: Labels, *, most: int | None = None) -> bool:
    """Whether labels hold the words; one of them at most so many labels."""
    found = labels()
    counts = [found.get(word, 0) for word in words_of(said)]
    return bool(counts) and all(counts) and (most is None or min(counts) <= most)


def _tasks(shape: Shape, whens: Sequence[When], how: Computation, plain: str) -> Iterator[Task]:
    figures = combine(shape.skeleton, shape.lines, percent=how.in_percent)
    only = figures[0].expression if len(figures) == 1 else None
    if isinstance(only, Line) and not is_ratio(only) and ASKS_SHARE.search(shape.skeleton):
        return  # of two lines, of which one is not known
    for figure in figures:
        two = isinstance(figure.expression, Operation) and len(shape.lines) > 1
        done = extreme(plain) or operation(shape.skeleton)
        if two and len(whens) == 1 and done in ("growth", "difference", "total"):
            done = ""  # of the two lines, and not of two years
        yield from over_periods(figure, done, whens)


def without_parts(shape: Shape) -> Shape:
    """Without the lines of which a ratio is made that the question explains."""
    lines = list(enumerate(shape.lines))
    ratios = [at for at, line in lines if line.concept and line.concept.statement is None]
    ratio = shape.lines[ratios[0]].concept if len(ratios) == 1 else None
    if ratio is None or len(lines) == 1:
        return shape
    if not set(_inputs(ratio)) >= {line.concept for at, line in lines if at not in ratios}:
        return shape
    pieces = re.split("(¤)", shape.skeleton)
    kept = [piece for at, piece in enumerate(pieces) if at % 2 == 0 or at // 2 in ratios]
    return shape._replace(skeleton=" ".join(kept), lines=(shape.lines[ratios[0]],))


def _inputs(ratio: Concept, above: tuple[str, ...] = ()) -> Iterator[Concept]:
    """The lines that a ratio is made of, through other ratios; above: those that lead to it."""
    for line in lines_of(parse(ratio.formula)):
        if line.concept and line.concept.statement:
            yield line.concept
        elif line.concept and line.concept.key not in (*above, ratio.key):
            yield from _inputs(line.concept, (*above, ratio.key))
