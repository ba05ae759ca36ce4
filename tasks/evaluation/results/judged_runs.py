"""Published judgments as runs of the judged models, marked as imported; the judge is the file's."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from pydantic import JsonValue

from storage.files import sha256_of
from tasks.evaluation.benchmarks.benchmark_registry import find_benchmark
from tasks.evaluation.evaluation_errors import DataUnusable, ResultsUnusable
from tasks.evaluation.evaluation_records import (
    IMPORTED,
    DataFacts,
    EvalReport,
    ModelFacts,
    RunFacts,
    Sample,
    TaskResult,
)
from tasks.evaluation.results.published_judgments import (
    LENGTH_CONTROLLED,
    TIE,
    TURNS,
    Judgment,
    pair,
    preference,
    rating,
)
from tasks.evaluation.running.benchmark_data import Row, read_rows
from tasks.grading.grading_records import Summary
from tasks.grading.sample_statistics import tally
from tasks.measure.estimates import Share, estimate, scaled, weighted_estimate

EXPECTED = "annotations of AlpacaEval, or judgments of MT-Bench: of single answers, or of pairs"


class Layout(NamedTuple):
    name: str
    task: str
    fits: Callable[[Row], bool]
    read: Callable[[Row], Iterator[Judgment]]
    samples: Callable[[Sequence[Judgment]], Iterator[Sample]]
    summarise: Callable[[Sequence[Sample]], Summary]
    pooled: bool = False
    """A model's figure is over all other models of the file, not against one baseline."""


class JudgedRun(NamedTuple):
    """A model's run, with its samples."""

    report: EvalReport
    samples: tuple[Sample, ...]


def holds_judgments(path: Path) -> bool:
    """Whether a file is one of lines or a list, where results files hold one object. Raises ResultsUnusable."""
    if path.name.removesuffix(".gz").endswith(".jsonl"):
        return True
    try:
        with path.open("rb") as file:
            return file.read(64).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"[")
    except OSError as error:
        raise ResultsUnusable(f"{path} cannot be read ({error.strerror}); name a results file") from error


def judged_runs(path: Path) -> list[JudgedRun]:
    """A run for each model and judge of a file; the same file gives the same runs. Raises ResultsUnusable."""
    try:
        rows = read_rows(path)
        first = next(rows, None)
        if first is None:
            raise ResultsUnusable(f"{path} is empty; expected {EXPECTED}")
        layout = next((one for one in LAYOUTS if one.fits(first)), None)
        if layout is None:
            named = ", ".join(list(first)[:12])
            raise ResultsUnusable(
                f"{path}, {first.unit} {first.line}: a record has the fields {named}; expected {EXPECTED}"
            )
        read = [one for row in chain((first,), rows) for one in layout.read(row)]
    except DataUnusable as error:
        raise ResultsUnusable(str(error)) from error
    if not (found := list(_runs(read, layout, path))):
        raise ResultsUnusable(f"{path} holds no verdict: its judge failed throughout")
    return found


def _runs(judgments: Sequence[Judgment], layout: Layout, path: Path) -> Iterator[JudgedRun]:
    """Runs are compared where judge, opponents and items are the same."""
    digest = sha256_of(path)
    by_run: defaultdict[tuple[str, str, str], list[Judgment]] = defaultdict(list)
    among = sorted({one.model for one in judgments}) if layout.pooled else []
    for one in judgments:
        by_run[one.model, one.judge, "" if among else one.against].append(one)
    for (model, judge, against), found in sorted(by_run.items()):
        samples = tuple(layout.samples(found))
        settings: dict[str, JsonValue] = {"imported": layout.name, "judge": judge}
        settings |= ({"among": ", ".join(among)} if among else {}) | ({"against": against} if against else {})
        result = _result(layout, samples, path, judge=judge, settings=settings)
        if result.headline:  # none: its judge failed throughout
            facts = _facts(f"{digest}:{model}:{judge}:{against}", model, found, path)
            yield JudgedRun(EvalReport(run=facts, results=(result,)), samples)


def _result(
    layout: Layout, samples: Sequence[Sample], path: Path, *, judge: str, settings: dict[str, JsonValue]
) -> TaskResult:
    summary = layout.summarise(samples)
    return TaskResult(
        task=layout.task,
        version="imported",
        family="judge",
        data=_data(path, samples),
        settings=settings,
        metrics=summary.metrics,
        estimates=summary.estimates,
        counts=summary.counts,
        judge=judge,
        notes=(f"imported: {layout.name}, {path.name}; the judge is {judge}", *summary.notes),
    )


def _facts(key: str, model: str, judgments: Iterable[Judgment], path: Path) -> RunFacts:
    times = [datetime.fromtimestamp(one.at, UTC) for one in judgments]
    return RunFacts(
        id=hashlib.sha256(key.encode()).hexdigest()[:32],
        model=ModelFacts(name=model, backend=IMPORTED),
        started_at=min(times),
        ended_at=max(times) if any(one.timestamp() for one in times) else None,
        status="completed",
        version=f"judgments {path.name}",
    )


def _data(path: Path, samples: Iterable[Sample]) -> DataFacts:
    """The items that were judged: files of the same ones are of the same data."""
    items = sorted({one.item for one in samples})
    checksum = hashlib.sha256("\n".join(items).encode()).hexdigest()
    return DataFacts(name=path.stem, source=str(path), checksum=checksum, count=len(items))


def _each(judgments: Sequence[Judgment]) -> Iterator[Sample]:
    """A sample for each judgment; several of one item are its repeats."""
    seen = Counter[str]()
    for one in judgments:
        yield Sample(
            item=one.item,
            repeat=seen[one.item],
            status="unscored" if one.score is None else "scored",
            score=one.score,
            reason=one.reason,
            group=one.group,
            values=one.values or {},
            detail={"judge": one.judge, "against": one.against},
        )
        seen[one.item] += 1


def _by_question(judgments: Sequence[Judgment]) -> Iterator[Sample]:
    """A sample for each question with the ratings of its turns; a turn that was rated again is of the next repeat."""
    found: defaultdict[tuple[str, int], list[Judgment]] = defaultdict(list)
    seen = Counter[tuple[str, int]]()
    for one in judgments:
        found[one.item, seen[one.item, one.turn]].append(one)
        seen[one.item, one.turn] += 1
    for (item, repeat), turns in found.items():
        rated = {TURNS[one.turn]: one.score for one in sorted(turns, key=lambda one: one.turn) if one.score is not None}
        whole = len(rated) == len(turns)
        yield Sample(
            item=item,
            repeat=repeat,
            status="scored" if whole else "unscored",
            score=sum(rated.values()) / len(rated) if whole else None,
            reason="; ".join(one.reason for one in turns),
            values=rated,
            detail={"judge": turns[0].judge},
        )


def _alpaca_summary(samples: Sequence[Sample]) -> Summary:
    """As AlpacaEval counts preferences between 1 and 2; the length-controlled rate where each one has it."""
    found = find_benchmark("AlpacaEval").summarise(samples)
    scores = [one.score for one in samples if one.score is not None]
    wins, losses = sum(score > TIE for score in scores), sum(score < TIE for score in scores)
    ties = len(scores) - wins - losses
    metrics: dict[str, JsonValue] = {"n_wins": wins, "n_wins_base": losses, "n_draws": ties}
    metrics["discrete_win_rate"] = 100 * (wins + TIE * ties) / len(scores) if scores else None
    controlled = tally(samples).values.get(LENGTH_CONTROLLED, {})
    if sum(map(len, controlled.values())) < len(scores) or not scores:
        note = f"{LENGTH_CONTROLLED} is not there: the file holds no `glm_preference`, and it is not worked out here"
        return Summary(found.metrics | metrics, found.estimates, found.counts, (*found.notes, note))
    rate = scaled(estimate(LENGTH_CONTROLLED, controlled), 100)
    return Summary(found.metrics | metrics | {LENGTH_CONTROLLED: rate.value}, (*found.estimates, rate), found.counts)


def _single_summary(samples: Sequence[Sample]) -> Summary:
    """Means over all ratings of a turn and of both, as show_result.py has them."""
    return find_benchmark("MTBench").summarise(samples)


def _pairs_summary(samples: Sequence[Sample]) -> Summary:
    """Wins of all pairs of a model, a tie counting half: `win_rate_adjusted` of `pairwise-all`."""
    shares: dict[str, Share] = {}
    scores = [one.score for one in samples if one.score is not None]
    for one in samples:
        if one.score is not None:
            shares[one.item] = shares.get(one.item, Share(0, 0)).plus(one.score)
    rate = weighted_estimate("win_rate_adjusted", shares, headline=True)
    n = len(scores)
    metrics: dict[str, JsonValue] = {
        "win_rate": scores.count(1.0) / n if n else None,
        "loss_rate": scores.count(0.0) / n if n else None,
        "win_rate_adjusted": rate.value if rate else None,
        "num_total": n,
    }
    return Summary(metrics, (rate,) if rate else (), tally(samples).counts)


def _has(*names: str) -> Callable[[Row], bool]:
    return lambda row: all(name in row for name in names)


LAYOUTS = (
    Layout(
        "AlpacaEval annotations",
        "AlpacaEval",
        fits=_has("instruction", "generator_1", "generator_2", "preference"),
        read=preference,
        samples=_each,
        summarise=_alpaca_summary,
    ),
    Layout(
        "MT-Bench judgments",
        "MTBench",
        fits=_has("question_id", "model", "judge", "score"),
        read=rating,
        samples=_by_question,
        summarise=_single_summary,
    ),
    Layout(
        "MT-Bench pairs",
        "MTBenchPairs",
        fits=lambda row: _has("question_id", "judge")(row) and ("winner" in row or "g1_winner" in row),
        read=pair,
        samples=_each,
        summarise=_pairs_summary,
        pooled=True,
    ),
)
