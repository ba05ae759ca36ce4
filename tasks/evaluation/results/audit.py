"""Grades published per-item logs again, and classes each verdict that differs from the published one.

gold         the log's gold is not that of the benchmark's data, or cannot be read
truncation   the answer was cut off, or its reasoning or box was never closed
extraction   the source read another answer than we do, or one of both read none
equality     both read the same, and only one of them calls it right
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from itertools import groupby, tee
from pathlib import Path
from typing import Literal, NamedTuple, cast, get_args

from pydantic import Field, JsonValue

from storage.records import FiniteRecord
from tasks.evaluation.benchmarks.base import BaseBenchmark, Tools
from tasks.evaluation.benchmarks.simple import SimpleBenchmark
from tasks.evaluation.evaluation_errors import DataUnusable, OptionUnusable
from tasks.evaluation.evaluation_records import Item, Reply, Response, Sample
from tasks.evaluation.results.published_logs import Layout, Log, Logged, read_logs
from tasks.evaluation.running.benchmark_data import Data
from tasks.evaluation.running.task_choice import find
from tasks.grading.choice import LETTERS, canonical
from tasks.grading.math.math_grader import shared_grader
from tasks.grading.reading import POLICIES, Policy, last_box, readings_of, score_under
from tasks.grading.reasoning import visible_answer

Kind = Literal["extraction", "equality", "gold", "truncation"]
KINDS: tuple[Kind, ...] = get_args(Kind)
SHOWN_CHARS = 200


class Disagreement(FiniteRecord):
    """An answer on which the published verdict and ours differ."""

    log: str
    place: str
    item: str | None
    kind: Kind
    published: bool
    """The published verdict; ours is the other."""
    gold: str
    our_gold: str | None
    """The gold of the benchmark's data, where it is another."""
    published_answer: str | None
    our_answer: str | None
    reason: str
    """What decided ours."""


class Split(FiniteRecord):
    """Disagreements of one kind."""

    published_right: int = 0
    """Right by the published verdict, wrong by ours."""
    ours_right: int = 0


class LogAudit(FiniteRecord):
    """One log, or one model or filter in it."""

    log: str
    group: str = ""
    layout: str
    answers: int = 0
    without_verdict: int = 0
    unscored: int = 0
    """Answers that we could not grade; they count in no figure of ours."""
    unread: int = 0
    """Answers in which the source read nothing; MMLU-Pro guesses there, here they are wrong."""
    published: float | None = None
    """Share right by the published verdicts."""
    ours: dict[Policy, float] = Field(default_factory=dict)
    """Share right by our graders, by how answers are read."""
    reproduced: int = 0
    """Answers for which the source's reading and equality, made again here, give the published verdict."""
    compared: int = 0
    """Answers with a verdict of both."""
    agreed: int = 0
    """Answers on which both verdicts are the same."""
    disagreements: dict[Kind, Split] = Field(default_factory=dict)


class Audit(FiniteRecord):
    """What became of published verdicts."""

    task: str
    extract: Policy
    """How our graders read answers for the comparison."""
    logs: tuple[LogAudit, ...]
    disagreements: tuple[Disagreement, ...]
    notes: tuple[str, ...] = ()


class _Graded(NamedTuple):
    logged: Logged
    sample: Sample
    theirs: Sample
    """Graded with the log's gold, where that is another."""


class _Compared(NamedTuple):
    """What a published verdict and ours say of one answer."""

    logged: Logged
    unread: bool
    scores: Mapping[Policy, float | None]
    reproduced: bool
    agrees: bool | None
    """None without a verdict of both."""
    disagreement: Disagreement | None


def audit(paths: Sequence[Path], task: str, *, data_dir: Path | None, extract: Policy = "flexible") -> Audit:
    """Grade the logs of a task again. Raises UnknownTask, OptionUnusable, DataUnusable.

    paths: files, and folders of them. data_dir: the benchmark's data; without them the golds of the logs count.
    """
    benchmark = find(task, None)
    if benchmark is None or not benchmark.reads_answers:
        raise OptionUnusable(
            f"{task} reads no answers (mathematics, letters, words); grade it with `trivet eval score`"
        )
    data = Data(data_dir)
    known = {item.id: item for item in benchmark.items(data)} if any(map(data.find, benchmark.files)) else {}
    notes = [] if known else [f"the data of {benchmark.name} are not here (--data-dir), so the golds of the logs count"]
    tools = Tools(shared_grader(), extract=extract)
    audits, cases = list[LogAudit](), list[Disagreement]()
    for log in read_logs(paths, notes):
        own = _reading_as(benchmark, log.layout)
        compared = [_compare(one, log, own) for one in _graded(log, own, known, tools)]
        cases += [one.disagreement for one in compared if one.disagreement]
        compared.sort(key=lambda one: one.logged.group)
        audits += [_tally(log, name, group) for name, group in groupby(compared, key=lambda one: one.logged.group)]
    if not any(one.answers > one.without_verdict for one in audits):
        raise DataUnusable("no record has a verdict to compare with; grade its answers with `trivet eval score`")
    return Audit(
        task=benchmark.name, extract=extract, logs=tuple(audits), disagreements=tuple(cases), notes=tuple(notes)
    )


def _reading_as(benchmark: BaseBenchmark, layout: Layout) -> BaseBenchmark:
    """The benchmark, which reads answers as the source of the layout does."""
    if layout.published is None or not isinstance(benchmark, SimpleBenchmark):
        return benchmark
    changed = copy(benchmark)
    grader = benchmark.definition.grader.model_copy(update={"published": layout.published})
    changed.definition = benchmark.definition.model_copy(update={"grader": grader})
    return changed


def _graded(log: Log, benchmark: BaseBenchmark, known: Mapping[str, Item], tools: Tools) -> Iterator[_Graded]:
    answers, again = tee((logged, _item(logged, known, benchmark)) for logged in log.answers)
    samples = benchmark.grade(((item, _response(logged)) for logged, item in answers), tools)
    for (logged, item), sample in zip(again, samples, strict=True):
        theirs = sample
        if logged.gold and item.gold != logged.gold:
            own = item.model_copy(update={"gold": logged.gold})
            [theirs] = benchmark.grade([(own, _response(logged))], tools)
        yield _Graded(logged, sample, theirs)


def _response(logged: Logged) -> Response:
    reply = Reply(text=logged.response, finish_reason="length" if logged.truncated else "stop")
    return Response(item=logged.id or logged.place, turns=(reply,))


def _item(logged: Logged, known: Mapping[str, Item], benchmark: BaseBenchmark) -> Item:
    """The item as the log has it, with the gold of the benchmark's data where it is there. Raises DataUnusable."""
    item = known.get(logged.id or "")
    item = item if item and _asks(item, logged.question) else None
    gold: JsonValue = logged.gold
    detail: dict[str, JsonValue] = dict(item.detail) if item else {}
    if logged.options:
        detail["options"] = list(logged.options)
        gold = (_letter_of(item, logged.options) if item else None) or gold
    elif item and not _shuffles(benchmark):
        gold = item.gold
    elif benchmark.family == "choice":
        detail = {"letters": LETTERS[:10]}
    if not gold:
        raise DataUnusable(f"{logged.place}: there is no gold, and the benchmark's data have none for it")
    return Item(id=logged.id or logged.place, prompts=("",), gold=gold, detail=detail)


def _asks(item: Item, question: str) -> bool:
    """Whether an item asks the question of a log; ids alone may be of another order of the data."""
    return "".join(question.split()) in "".join("".join(item.prompts).split())


def _letter_of(item: Item, options: Sequence[str]) -> str | None:
    """The letter that the right option of an item has among the options of a log."""
    own = item.detail.get("options")
    if not isinstance(own, list):
        return None
    right = canonical(str(own[LETTERS.index(str(item.gold))]))
    return next((LETTERS[at] for at, option in enumerate(options) if canonical(option) == right), None)


def _shuffles(benchmark: BaseBenchmark) -> bool:
    options = benchmark.definition.options if isinstance(benchmark, SimpleBenchmark) else None
    return bool(options and options.shuffle)


def _compare(graded: _Graded, log: Log, benchmark: BaseBenchmark) -> _Compared:
    logged, sample, theirs = graded
    published = cast("str | None", readings_of(theirs).get("published", {}).get("extracted", theirs.extracted))
    score = score_under("published", theirs)
    if log.layout.keeps_reading:
        published = logged.extracted
    if log.layout.equal:
        score = float(bool(published) and log.layout.equal(logged.gold, published or ""))
    agrees = None if logged.verdict is None or sample.score is None else (sample.score >= 1) == logged.verdict
    their_answer = logged.extracted if logged.tells_extracted else published
    return _Compared(
        logged,
        unread=their_answer is None,
        scores={policy: score_under(policy, sample) for policy in POLICIES},
        reproduced=logged.verdict is not None and score is not None and (score >= 1) == logged.verdict,
        agrees=agrees,
        disagreement=_disagreement(graded, log, benchmark, their_answer) if agrees is False else None,
    )


def _disagreement(graded: _Graded, log: Log, benchmark: BaseBenchmark, their_answer: str | None) -> Disagreement:
    logged, sample, theirs = graded
    same = their_answer == sample.extracted or bool(
        their_answer and sample.extracted and benchmark.same_answer(their_answer, sample.extracted)
    )
    kind: Kind = "equality" if same else "truncation" if _cut_off(logged) else "extraction"
    if not sample.gold or (theirs is not sample and theirs.score is not None and theirs.score != sample.score):
        kind = "gold"
    return Disagreement(
        log=log.name,
        place=logged.place.removeprefix(log.name).lstrip(",/ "),
        item=logged.id,
        kind=kind,
        published=bool(logged.verdict),
        gold=logged.gold[:SHOWN_CHARS],
        our_gold=sample.gold if theirs is not sample and sample.gold != theirs.gold else None,
        published_answer=their_answer and their_answer[:SHOWN_CHARS],
        our_answer=sample.extracted and sample.extracted[:SHOWN_CHARS],
        reason=sample.reason[:SHOWN_CHARS],
    )


def _cut_off(logged: Logged) -> bool:
    unclosed = "\\boxed{" in logged.response and last_box(logged.response) is None
    return logged.truncated or unclosed or visible_answer(logged.response) is None


def _tally(log: Log, name: str, group: Iterable[_Compared]) -> LogAudit:
    answers = list(group)
    verdicts = [one.logged.verdict for one in answers if one.logged.verdict is not None]
    scored = [one.scores for one in answers if all(score is not None for score in one.scores.values())]
    return LogAudit(
        log=log.name,
        group=name,
        layout=log.layout.name,
        answers=len(answers),
        without_verdict=len(answers) - len(verdicts),
        unscored=len(answers) - len(scored),
        unread=sum(one.unread for one in answers),
        published=sum(verdicts) / len(verdicts) if verdicts else None,
        ours={policy: sum(one[policy] or 0 for one in scored) / len(scored) for policy in POLICIES if scored},
        reproduced=sum(one.reproduced for one in answers),
        compared=sum(one.agrees is not None for one in answers),
        agreed=sum(one.agrees is True for one in answers),
        disagreements={kind: _split(answers, kind) for kind in KINDS},
    )


def _split(answers: Sequence[_Compared], kind: Kind) -> Split:
    of_kind = [one.disagreement.published for one in answers if one.disagreement and one.disagreement.kind == kind]
    return Split(published_right=sum(of_kind), ours_right=len(of_kind) - sum(of_kind))
