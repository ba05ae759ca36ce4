"""Models on benchmarks in the evaluation tables: what was done before, what is the latest, what a leaderboard gets."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from storage import connections
from storage.evaluations import Dataset, EvalSettings, Evaluated, Evaluations, Graded, Model, Result, Run, Sample, Task
from storage.storage_errors import UnknownRun

pytestmark = pytest.mark.postgres
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SETTINGS: dict[str, Any] = {"version": "1", "temperature": 0.7}


def model(name: str, **changed: Any) -> Model:
    return Model.model_validate({"name": name, "revision": "r1", "backend": "hf"} | changed)


def run(id: str, of: Model, *, minutes: int = 0, status: str = "completed") -> Run:
    started = NOON + timedelta(minutes=minutes)
    plain: dict[str, Any] = {
        "id": id,
        "kind": "benchmark",
        "started_at": started,
        "ended_at": started + timedelta(minutes=1),
        "status": status,
        "version": "0.1.0",
        "model": of,
        "model_args": {"dtype": "auto"},
        "config": {"tasks": ["MBPP"]},
        "skipped": {"AIME24": "earlier"},
        "notes": ("a note",),
    }
    return Run.model_validate(plain)


def evaluated(
    made: Run,
    task: str = "MBPP",
    *,
    value: float = 0.5,
    checksum: str = "b" * 64,
    parameters: dict[str, Any] = SETTINGS,
    samples: tuple[Sample, ...] = (),
    unscored: int = 0,
) -> Evaluated:
    return Evaluated(
        run=made,
        dataset=Dataset(name=task, source="own", checksum=checksum, count=3),
        settings=EvalSettings(name=task, parameters=parameters),
        results=(
            Result(metric="accuracy", value=value, std_err=0.1, low=0.3, high=0.7, n=3, headline=True),
            Result(metric="accuracy", part="group=easy", value=1.0, n=1, higher_is_better=False),
        ),
        samples=samples,
        task=Task(
            task=task,
            version="1",
            family="code",
            metrics={"accuracy": value, "run_stats": [{"n": 1}]},
            counts={"samples": len(samples), "unscored": unscored},
            usage={"calls": 3, "cost": None},
            judge="openai:grader",
            judge_usage={"calls": 1},
            notes=("one more",),
            artifacts={"samples": [], "items": None},
        ),
    )


SAMPLES = (
    Sample(
        item="1",
        detail={"why": "x\x00"},
        score=1.0,
        extracted="4\ud800",
        gold="4",
        reason="number",
        group="easy",
        values={"Turn 1": 7.5},
        keys=("k\x001", "k2"),
        truncated=True,
    ),
    Sample(item="2", detail={}, status="unscored", reason="the judge was away"),
)


@pytest.fixture(scope="module")
def evaluations(url: str) -> Evaluations:
    return Evaluations(lambda: url)


def before(evaluations: Evaluations, of: Model, **changed: Any) -> str | None:
    asked = {
        "model_name": of.name,
        "model_revision": of.revision,
        "backend": of.backend,
        "dataset_name": "MBPP",
        "dataset_checksum": "b" * 64,
        "settings_digest": EvalSettings(name="MBPP", parameters=SETTINGS).digest,
    }
    return evaluations.evaluated_before(**asked | changed)


def count(url: str, table: str, run: str) -> int:
    with connections.connected(connections.engine(url)) as connection:
        return connection.execute(text(f"select count(*) from {table} where run = :run"), {"run": run}).scalar_one()


def test_a_task_of_a_run_comes_back_whole(evaluations: Evaluations) -> None:
    written = evaluated(run("whole", model("whole/m", training_parameters={"lr": 0.1})), samples=SAMPLES)
    evaluations.write([written])
    assert evaluations.task_results("whole") == [written.model_copy(update={"samples": ()})]
    assert tuple(evaluations.samples("whole", "MBPP")) == SAMPLES
    assert [*evaluations.graded("whole", "MBPP")] == [
        Graded(one.item, one.status, one.score, one.extracted, one.gold, one.missing) for one in SAMPLES
    ]
    assert evaluations.sample("whole", "MBPP", "2") == [SAMPLES[1]]
    assert evaluations.sample("whole", "MBPP", "3") == []


def test_a_repeated_write_changes_nothing(evaluations: Evaluations, url: str) -> None:
    own: dict[str, Any] = {"parameters": {"only": "here"}, "checksum": "e" * 64}
    written = evaluated(run("repeated", model("repeated")), samples=SAMPLES, **own)
    # settings, model, run, data set, task, two figures, two samples
    assert (evaluations.write([written]), evaluations.write([written])) == (9, 0)
    assert [count(url, table, "repeated") for table in ("eval_tasks", "eval_results", "samples")] == [1, 2, 2]


def test_a_sample_that_was_graded_anew_takes_the_place_of_the_old(evaluations: Evaluations) -> None:
    made = run("anew", model("anew"))
    evaluations.write([evaluated(made, samples=SAMPLES)])
    again = SAMPLES[1].model_copy(update={"status": "scored", "score": 0.0, "reason": ""})
    assert evaluations.write([evaluated(made, samples=(SAMPLES[0], again))]) == 1
    assert tuple(evaluations.samples("anew", "MBPP")) == (SAMPLES[0], again)


@pytest.mark.parametrize(
    "changed",
    [
        {"dataset_name": "MBPPPlus"},
        {"dataset_checksum": "c" * 64},
        {"settings_digest": EvalSettings(name="MBPP", parameters=SETTINGS | {"temperature": 0.8}).digest},
        {"model_revision": ""},
        {"model_name": "done-instruct"},
        {"backend": "vllm"},
    ],
    ids=["task", "data", "settings", "revision", "name", "backend"],
)
def test_only_exactly_the_same_was_evaluated_before(evaluations: Evaluations, changed: dict[str, str]) -> None:
    done = model("done")
    evaluations.write([evaluated(run("done1", done))])
    assert before(evaluations, done) == "done1"
    assert before(evaluations, done, **changed) is None


@pytest.mark.parametrize("status", ["running", "failed"])
def test_what_did_not_end_well_is_evaluated_again(evaluations: Evaluations, status: str) -> None:
    evaluations.write([evaluated(run(f"{status}-1", model(status), status=status))])
    assert before(evaluations, model(status)) is None


def test_the_run_before_is_the_last_completed_one_of_whatever_revision(evaluations: Evaluations) -> None:
    for id, minutes, status, revision in (
        ("p-first", 1, "completed", "r1"),
        ("p-second", 2, "completed", "r2"),
        ("p-failed", 3, "failed", "r2"),
        ("p-now", 4, "completed", "r3"),
    ):
        made = run(id, model("prev", revision=revision), minutes=minutes, status=status)
        evaluations.write([evaluated(made)])
    asked: dict[str, Any] = {
        "model_name": "prev",
        "task": "MBPP",
        "dataset_checksum": "b" * 64,
        "settings_digest": EvalSettings(name="MBPP", parameters=SETTINGS).digest,
    }
    assert evaluations.previous(**asked, before=NOON + timedelta(minutes=4)) == "p-second"
    assert evaluations.previous(**asked, before=NOON + timedelta(minutes=1)) is None
    assert evaluations.previous(**asked | {"task": "MBPPPlus"}, before=NOON + timedelta(minutes=4)) is None


def test_a_leaderboard_gets_the_latest_completed_run(evaluations: Evaluations) -> None:
    made = model("board", backend="openai")
    evaluations.write([evaluated(run("b-old", made, minutes=1), value=0.1)])
    evaluations.write([evaluated(run("b-new", made, minutes=2), value=0.2, unscored=1)])
    evaluations.write([evaluated(run("b-failed", made, minutes=3, status="failed"), value=0.3)])
    evaluations.write([evaluated(run("b-running", made, minutes=4, status="running"), value=0.4)])
    evaluations.write([evaluated(run("b-other", made, minutes=1), parameters={"version": "2"}, value=0.6)])
    scores = evaluations.scores(models=["board"], tasks=["MBPP"])
    headlines = [score for score in scores if score.headline]
    assert [(score.run, score.value, score.counts["unscored"]) for score in headlines] == [
        ("b-other", 0.6, 0),
        ("b-new", 0.2, 1),
    ]
    shown = headlines[1]
    assert (shown.model, shown.revision, shown.backend, shown.task) == ("board", "r1", "openai", "MBPP")
    assert (shown.metric, shown.part, shown.std_err, shown.low, shown.high, shown.n) == (
        "accuracy",
        "",
        0.1,
        0.3,
        0.7,
        3,
    )
    assert (shown.dataset_checksum, shown.ended_at) == ("b" * 64, NOON + timedelta(minutes=3))
    assert scores == headlines  # and no figures of groups
    everything = evaluations.scores(models=["board"], all_runs=True)
    assert {score.run for score in everything} == {"b-old", "b-new", "b-failed", "b-other"}


def test_a_run_is_found_by_the_beginning_of_its_id(evaluations: Evaluations) -> None:
    for id in ("feedc0de11", "feedc0de22"):
        evaluations.write_run(run(id, model("found")))
    assert evaluations.run("feedc0de1").id == "feedc0de11"
    assert evaluations.run("feedc0de22").id == "feedc0de22"


@pytest.mark.parametrize(
    ("which", "says"),
    [
        ("feedc0de", "2 or more runs begin with feedc0de"),
        ("feedc", "6 characters or more"),
        ("badc0de1", "no run has an id that begins with badc0de1; the latest are"),
        ("%%%%%%", "no run has the id"),
        ("feedc0_e", "no run has an id that begins"),
        ("", "no run has the id ''"),
    ],
)
def test_what_names_no_run_or_several_is_refused(evaluations: Evaluations, which: str, says: str) -> None:
    for id in ("feedc0de11", "feedc0de22"):
        evaluations.write_run(run(id, model("found")))
    with pytest.raises(UnknownRun, match=says):
        evaluations.run(which)


def test_a_server_that_comes_back_gets_all_samples(running: Path, url: str) -> None:
    """The connection dies while samples are made; the write begins again on a new one."""
    evaluations, tries = Evaluations(lambda: url), list[int]()

    def samples() -> Iterator[Sample]:
        tries.append(1)
        for number in range(1100):
            if number == 700 and len(tries) == 1:
                with connections.connected(connections.engine(url)) as connection:
                    others = "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid()"
                    connection.execute(text(f"{others} and backend_type = 'client backend'"))
            yield Sample(item=f"{number:05d}", detail={}, score=1.0)

    made = evaluated(run("came-back", model("back"))).model_copy(update={"more_samples": samples})
    evaluations.write([made])
    assert (len(tries), count(url, "samples", "came-back")) == (2, 1100)


def test_equal_settings_have_equal_digests_whatever_their_order() -> None:
    one = EvalSettings(name="rag", parameters={"a": 1, "b": [1.5, None]})
    other = EvalSettings(name="rag", parameters={"b": [1.5, None], "a": 1})
    assert one.digest == other.digest != EvalSettings(name="rag", parameters={"a": 2}).digest
