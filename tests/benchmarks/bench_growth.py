"""What grows with use: samples of one evaluation, runs of a leaderboard, calls and judgments in the store.

Runs and their samples are written by the pipeline's own functions. Judgments are what the lever stores of questions
with pictures; a thousand are made by it, and COPY repeats them under other keys. Seconds are wall seconds unless said
otherwise. PostgreSQL's CPU and memory are not among those of this process.
"""

from __future__ import annotations

import hashlib
import random
import statistics
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

import psutil
from psycopg import Cursor
from pydantic import JsonValue

from storage import connections
from storage.artifacts import Artifacts
from storage.embedded import Cluster
from storage.evaluated import Dataset, Evaluated
from storage.evaluations import After, Evaluations
from storage.responses import Responses
from tasks.evaluation.evaluation_records import Estimate, EvalReport, ModelFacts, Sample, TaskResult, Usage
from tasks.evaluation.record_lines import write_lines
from tasks.evaluation.results.finding_runs import find_run
from tasks.evaluation.results.ranking import rank, render_page
from tasks.evaluation.results.results_file import build_rows, store_run
from tasks.evaluation.results.run_comparison import compare_task, compare_with_last_run
from tasks.evaluation.running.generation import SHARD_RESPONSES, Generated
from tasks.evaluation.running.planning import PlannedTask
from tasks.evaluation.running.shard_grading import Scored, build_result
from tests.benchmarks.bench_judging import Bench, Instant, asked_in, items_in
from tests.benchmarks.measuring import Figures, scratch_home, status_mb, trivet
from tests.evaluation.reports import NOON, report, task_result
from tests.evaluation.sums import task_of

JUDGMENTS = [20_000]
TASKS = ("MMLUPro", "GSM8K", "MATH500", "GPQADiamond")
METRICS = ("accuracy", "accuracy_strict", "accuracy_flexible")
SUBJECTS = 14
SETTINGS: dict[str, Any] = {
    "sampling": {"temperature": 0.0, "max_tokens": 2048, "top_p": None, "stop": [], "seed": 0},
    "repeats": 1,
    "extract": "published",
    "system": None,
    "template": True,
}
ASKED_AT_ONCE = 1_000
LOOKS = 20
KINDS_OF_JUDGMENT = 1_000
DAYS, MONTH_DAYS = 365, 30
SERVERS: list[int] = []
"""Process IDs of the database that is filled."""


class Place(NamedTuple):
    """A home with its database."""

    home: Path
    url: str

    @property
    def evaluations(self) -> Evaluations:
        return Evaluations(lambda: self.url)


class Cost(NamedTuple):
    """Of something that was done in this process."""

    wall_s: float
    cpu_s: float
    peak_mb: float
    """Memory that it needed beyond what was held before."""
    server_s: float
    """CPU seconds of PostgreSQL."""


def measure(samples: int = 2_000, runs: int = 50, judgments: list[int] = JUDGMENTS, at: Path | None = None) -> Figures:
    """samples: of one run. runs: of the leaderboard, each of another model. judgments: sizes of the store, ascending.

    at: where the home is made; a temporary folder by default.
    """
    with scratch_home(at) as home:
        place = Place(home, Cluster(home).start())
        SERVERS.extend(filter(None, [Cluster(home).status().pid]))
        yield from measure_evaluation(place, samples)
        yield from measure_leaderboard(place, runs)
        yield from measure_store(place, judgments)


def cost_of(work: Callable[[], object]) -> Cost:
    """What it costs to do this once."""
    held = status_mb("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak is counted anew
    wall, cpu, served = time.perf_counter(), time.process_time(), _server_s()
    work()
    spent = time.perf_counter() - wall, time.process_time() - cpu
    return Cost(*spent, status_mb("VmHWM") - held, _server_s() - served)


def _server_s() -> float:
    """Of the servers that this process and its children have started, and of theirs that have ended."""
    spent = 0.0
    for one in SERVERS:
        spent += sum(psutil.Process(one).cpu_times()[:4])
        for child in psutil.Process(one).children():
            with suppress(psutil.NoSuchProcess):
                spent += sum(child.cpu_times()[:2])
    return spent


def median_ms(ways: Iterable[Callable[[], object]]) -> float:
    return 1000 * statistics.median(cost_of(way).wall_s for way in ways)


def _looks(name: str, ways: Iterable[Callable[[], object]]) -> Figures:
    """Medians; on a busy machine the wall says more of the others than of the look-up."""
    costs = [cost_of(way) for way in ways]
    yield f"{name}: ms", 1000 * statistics.median(cost.wall_s for cost in costs)
    yield f"{name}: CPU ms of this process", 1000 * statistics.median(cost.cpu_s for cost in costs)
    yield f"{name}: CPU ms of PostgreSQL, mean", 1000 * statistics.mean(cost.server_s for cost in costs)


def _told(name: str, cost: Cost) -> Figures:
    yield f"{name}: s", cost.wall_s
    yield f"{name}: CPU s of this process", cost.cpu_s
    yield f"{name}: CPU s of PostgreSQL", cost.server_s
    yield f"{name}: memory beyond what was held, MB", cost.peak_mb


def measure_evaluation(place: Place, count: int) -> Figures:
    """One run of as many samples after another: aggregate, write, compare, page."""
    artifacts = Artifacts(place.home / "artifacts")
    data = Dataset(name="MMLUPro", source="bench", checksum="b" * 64, count=count)
    named = {"task": "MMLUPro", "benchmark": "MMLUPro", "family": "choice"}
    task = task_of((), artifacts, **named, data=data, count=count, settings=SETTINGS)
    first, second = (tuple(_scored(artifacts, number, count)) for number in range(2))
    before = _report(0, _aggregate(task, first, artifacts))
    store_run(before, artifacts, place.evaluations)
    yield from _told(f"{count:,} samples, aggregate", cost_of(partial(_aggregate, task, second, artifacts)))
    after = _report(1, _aggregate(task, second, artifacts))
    compared = cost_of(partial(compare_with_last_run, after, artifacts, place.evaluations))
    yield from _told("compared with the last run", compared)
    yield from _told("written to the database", cost_of(partial(store_run, after, artifacts, place.evaluations)))
    with transaction(place.url) as cursor:
        cursor.execute("select count(*), pg_table_size('samples'), pg_indexes_size('samples') from samples")
        rows, table, indexes = cast("tuple[Any, ...]", cursor.fetchone())
    yield "… bytes a sample, table", table / rows
    yield "… bytes a sample, indexes", indexes / rows
    name, (old, new) = task.task, (find_run(one.run.id, place.evaluations) for one in (before, after))
    rated = (before.results[0], old.graded(name), after.results[0], new.graded(name))
    yield from _told("compare, in this process", cost_of(partial(compare_task, *rated)))
    whole = trivet(place.home, "eval", "compare", before.run.id, after.run.id)
    yield "trivet eval compare: s", whole.wall_s
    yield "trivet eval compare: CPU s", whole.cpu_s
    yield "trivet eval compare: peak memory, MB", whole.memory_mb
    page = partial(place.evaluations.sample_page, after.run.id, task.task, most=51)
    middle = f"item-{count // 2:07d}"
    ways: dict[str, Callable[[], object]] = {
        "first page of all samples": partial(page, kind="all", after=None),
        "page in the middle": partial(page, kind="all", after=After(middle, 0)),
        "wrong ones, page in the middle": partial(page, kind="wrong", after=After(middle, 0)),
        "those that hold a word, of which there is one": partial(page, kind="all", after=None, words=middle),
    }
    for look, way in ways.items():
        yield f"{look}: ms", median_ms([way] * 5)


def _scored(artifacts: Artifacts, run_number: int, count: int) -> Iterator[Scored]:
    """Shards of graded answers, as a run of the second model has some that the first had not right."""
    for start in range(0, count, SHARD_RESPONSES):
        graded = (_graded(run_number, number) for number in range(start, min(start + SHARD_RESPONSES, count)))
        yield Scored(samples=write_lines(artifacts, "samples", graded))


def _graded(run_number: int, number: int) -> Sample:
    rng = random.Random(f"{run_number}/{number}")
    gold, right = "ABCDEFGHIJ"[number % 10], rng.random() < 0.6 + 0.02 * run_number
    said = gold if right else rng.choice("ABCDEFGHIJ".replace(gold, ""))
    verdict: JsonValue = {"answer": said, "score": float(right)}
    readings: dict[str, JsonValue] = {"strict": verdict, "flexible": verdict}
    return Sample(
        item=f"item-{number:07d}",
        score=float(right),
        extracted=said,
        gold=gold,
        reason="the answer is (X)",
        group=f"subject {number % SUBJECTS}",
        detail={"readings": readings, "options": 10},
        keys=(hashlib.sha256(f"{run_number}/{number}".encode()).hexdigest(),),
    )


def _aggregate(task: PlannedTask, scored: tuple[Scored, ...], artifacts: Artifacts) -> TaskResult:
    generated = Generated(shards=(), responses=task.count, usage=Usage(calls=task.count))
    return build_result(task, generated, scored, artifacts)


def _report(number: int, result: TaskResult) -> EvalReport:
    model = ModelFacts(name="grown", backend="openai", revision=str(number))
    started = NOON + timedelta(hours=number)
    times = {"started_at": started, "ended_at": started + timedelta(minutes=50)}
    return report(result, id=f"{number:032x}", model=model, **times)


def measure_leaderboard(place: Place, count: int) -> Figures:
    """As many runs, each of another model on four benchmarks: what ranking them takes."""
    filled = cost_of(lambda: place.evaluations.write([one for number in range(count) for one in _evaluated(number)]))
    yield from _told(f"{count:,} runs of {len(TASKS)} benchmarks written", filled)
    found = list[Any]()
    yield from _told("figures read", cost_of(lambda: found.extend(place.evaluations.scores())))
    yield "… figures", float(len(found))
    boards = list[Any]()
    yield from _told("ranked", cost_of(lambda: boards.extend(rank(found))))
    yield "the page of them: s", cost_of(lambda: render_page(boards, made_at=NOON)).wall_s
    for arguments in ([], ["--json"], ["--format", "html"]):
        cost = trivet(place.home, "eval", "results", *arguments)
        yield f"trivet eval results {' '.join(arguments)}: CPU s", cost.cpu_s


def _evaluated(number: int) -> Iterator[Evaluated]:
    rng, started = random.Random(number), NOON + timedelta(minutes=number)
    times = {"started_at": started, "ended_at": started + timedelta(minutes=1)}
    model = ModelFacts(name=f"model-{number}", backend="openai")
    for name in TASKS:
        share = rng.uniform(0.2, 0.9)
        whole = [
            Estimate(metric=metric, value=share, low=share - 0.02, high=share + 0.02, n=1000, headline=not at)
            for at, metric in enumerate(METRICS)
        ]
        figure = Estimate(metric="accuracy", value=share, low=share - 0.1, high=share + 0.1, n=70)
        parts = [figure.model_copy(update={"part": f"group=subject {part}"}) for part in range(SUBJECTS)]
        result = task_result(name, family="choice", settings=SETTINGS, estimates=(*whole, *parts))
        yield build_rows(report(result, id=f"f{number:031x}", model=model, **times), result, tuple)


def measure_store(place: Place, sizes: list[int]) -> Figures:
    """Judgments by the million: how fast a thousand are found, and how large the indexes are."""
    responses = Responses(lambda: place.url)
    responses.many([])
    requests = _judged(place)
    held = 0
    for size in sizes:
        filled = cost_of(partial(_fill, place.url, requests, range(held, size), of=sizes[-1]))
        held = size
        yield f"{size:,} judgments, filled by COPY: s", filled.wall_s
        yield from _asked(place, responses, size)
    pruned = cost_of(partial(responses.prune, before=NOON + timedelta(days=MONTH_DAYS), dry_run=False))
    yield "model calls of the first month removed by gc: s", pruned.wall_s
    yield from _asked(place, responses, sizes[-1])


def _judged(place: Place) -> list[tuple[str, str, str, str]]:
    """What the store holds of judgments of the lever: backend, model, request and response as JSON."""
    folder = place.home / "pictures"
    folder.mkdir()
    judging = Bench("", Responses(lambda: place.url), items_in(folder), 1).judging(Instant())
    asked = asked_in(0, KINDS_OF_JUDGMENT // 2)
    judging.judge(asked)
    judging.log_probs([(one, "ferry") for one in asked])
    with transaction(place.url) as cursor:
        found = cursor.execute("select backend, model, request::text, response::text from responses").fetchall()
        cursor.execute("truncate responses")
        return cast("list[tuple[str, str, str, str]]", found)


def key_of(number: int) -> str:
    return hashlib.sha256(str(number).encode()).hexdigest()


def _fill(url: str, made: list[tuple[str, str, str, str]], numbers: range, *, of: int) -> None:
    """Judgments of a year, in the order of their time; the indexes are made anew behind them."""
    with transaction(url) as cursor:
        indexes = cursor.execute(
            "select indexname, indexdef from pg_indexes where tablename = 'responses' and indexname <> 'responses_pkey'"
        ).fetchall()
        for name, _ in indexes:
            cursor.execute(f"drop index {name}".encode())
        cursor.execute("alter table responses drop constraint responses_pkey")
        columns = "key, backend, model, request, response, latency_s, created_at"
        with cursor.copy(f"copy responses ({columns}) from stdin".encode()) as copy:
            for number in numbers:
                at = NOON + timedelta(days=DAYS * number / of)
                copy.write_row((key_of(number), *made[number % len(made)], 0.02, at))
        cursor.execute("alter table responses add primary key (key)")
        for _, definition in indexes:
            cursor.execute(definition.encode())
    with transaction(url) as cursor:
        cursor.connection.autocommit = True
        cursor.execute("vacuum analyze responses")


def _asked(place: Place, responses: Responses, size: int) -> Figures:
    rng = random.Random(size)
    draws = [[key_of(rng.randrange(size)) for _ in range(ASKED_AT_ONCE)] for _ in range(LOOKS)]
    unknown = [[key_of(-1 - rng.randrange(10**9)) for _ in range(ASKED_AT_ONCE)] for _ in range(LOOKS)]
    yield from _looks("… 1,000 keys", (partial(responses.many, keys) for keys in draws))
    yield from _looks("… the same keys again", (partial(responses.many, keys) for keys in draws))
    yield from _looks("… 1,000 keys that are not there", (partial(responses.many, keys) for keys in unknown))
    with transaction(place.url) as cursor:
        table = cast("tuple[Any, ...]", cursor.execute("select pg_table_size('responses')").fetchone())
        yield "… table, GB", table[0] / 1e9
        for name, bytes_ in cursor.execute(
            "select indexrelname, pg_relation_size(indexrelid) from pg_stat_user_indexes where relname = 'responses'"
        ).fetchall():
            yield f"… index {name}, GB", bytes_ / 1e9


@contextmanager
def transaction(url: str) -> Generator[Cursor[Any]]:
    """A cursor of psycopg in a transaction of its own."""
    connection = connections.engine(url).raw_connection()
    try:
        yield cast("Cursor[Any]", connection.cursor())
        connection.commit()
    finally:
        connection.close()
