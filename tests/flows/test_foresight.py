"""What a plan says of records that are kept in part, and how long it thinks that steps take."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from flows.running.configuring import configure_steps
from flows.running.foresight.foreseeing import WORLD, Foresight, PlannedStep, Unknown, known
from flows.running.settings import settings
from storage.lineage import EVERY, Edge, StepRun
from storage.records import Record, Ref
from tasks.resources import artifacts, lineage, results
from tasks.step import StepKey, step
from tests.command import run_apart, run_here


class Made(Record):
    text: Ref


def _stands(result: Made, inputs: dict[str, str]) -> bool:
    del result
    return inputs["name"] != "undone"


@step(version=3, verify=_stands, undone="the folder is gone")
def make(name: str) -> Made:
    return Made(text=artifacts().put("text", name.encode()))


@step(version=1)
def join(parts: tuple[Made, ...]) -> int:
    return len(parts)


@step(version=1, reads_world=True)
def look() -> int:
    return 0


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TRIVET_HOME", str(tmp_path))
    settings.cache_clear()
    configure_steps()
    yield
    monkeypatch.undo()
    settings.cache_clear()
    configure_steps()


def keep(name: str, *, text: str = "") -> Ref:
    """A record of `make` as Prefect writes it."""
    from prefect.results import (
        ResultRecord,  # pyright: ignore[reportPrivateImportUsage]
        ResultRecordMetadata,  # pyright: ignore[reportPrivateImportUsage]
    )
    from prefect.serializers import JSONSerializer

    made = Made(text=artifacts().put("text", (text or name).encode()))
    metadata = ResultRecordMetadata(storage_key="k", serializer=JSONSerializer())
    results().write(key_of(name), ResultRecord(result=made, metadata=metadata).serialize())
    return made.text


def key_of(name: str) -> str:
    key = make.cache_policy
    assert isinstance(key, StepKey)
    return key.key_of({"name": name}, run=None)


def everything(home: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(home)): path.read_bytes()
        for path in home.rglob("*")
        if path.is_file() and not path.name.startswith("lineage")
    }


def test_results_are_found_and_what_follows_from_others_is_not_known(tmp_path: Path) -> None:
    keep("a")
    keep("undone")
    artifacts().path(keep("lost")).unlink()
    artifacts().path(keep("damaged")).write_bytes(b"x" * 7)
    results().write(key_of("torn"), b'{"metadata": {')
    before, ahead = everything(tmp_path), Foresight()

    found = ahead.foresee_each(make, ["a", "undone", "lost", "damaged", "torn", "new"])
    joined = ahead.foresee(join, tuple(found))
    alone = ahead.foresee(join, (found[0],))
    ahead.foresee(look)

    assert everything(tmp_path) == before
    assert known(found[0])
    assert found[1:] == [Unknown("make")] * 5
    assert (joined, alone) == (Unknown("join"), Unknown("join"))
    making, joining, looking = ahead.plan.steps
    # a lost artifact may be made anew by the shards before
    assert (making.cached, making.runs, making.unknown) == (1, 3, 2)
    assert making.reasons[0] == "the folder is gone"
    assert making.reasons[-1] == "… and 2 more"
    assert (joining.cached, joining.runs, joining.unknown) == (0, 1, 1)
    assert joining.reasons == ("never ran here",)
    assert looking == PlannedStep(step="look", runs=1, reasons=(WORLD,))


def test_the_first_loss_of_an_artifact_is_sure_to_run_the_step_and_the_second_may_not() -> None:
    keep("one", text="shared")
    artifacts().path(keep("other", text="shared")).unlink()
    ahead = Foresight()
    ahead.foresee_each(make, ["one", "other"])
    [making] = ahead.plan.steps
    assert (making.runs, making.unknown) == (1, 1)
    assert [reason.startswith("artifact gone: text ") for reason in making.reasons] == [True]


def test_time_is_that_of_earlier_runs() -> None:
    for number in range(11):
        ran = StepRun(
            key=f"k{number}",
            step="tests.flows.test_foresight.make",
            version=2,
            run="r",
            code="1",
            at=datetime(2026, 3, 1, tzinfo=UTC) + timedelta(minutes=number),
            seconds=float(number),
            parameters={},
        )
        lineage().record(ran, [Edge(EVERY, True, "text", f"{number:064x}", "text")])
    ahead = Foresight()
    ahead.will_run(make, "now")
    ahead.will_run(make, "now")
    ahead.may_run(make, "look")
    # of 0, 1 … 10 seconds the tenths are 1 and 9: two runs for sure, and three at most
    [making] = ahead.plan.steps
    assert making.seconds == ahead.plan.seconds == (2.0, 27.0)
    assert Foresight().plan.seconds is None


@pytest.mark.slow
def test_a_plan_starts_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    home, documents, index = tmp_path / "own", tmp_path / "docs", tmp_path / "index"
    documents.mkdir()
    (documents / "a.md").write_text("# One\n\nThe budget is 41,000 won.")
    done = run_apart("rag", "index", documents, "--index", index, "--plan", "--json", TRIVET_HOME=str(home))
    assert done.code == 0, done.stderr
    runs = {step["step"] for step in done.json["steps"] if step["runs"]}
    assert runs == {"scan", "parse", "catalogue", "publish_report"}
    assert done.json["documents"] == {"unchanged": 0, "new": 1, "changed": 0, "renamed": 0, "removed": 0}
    assert not index.exists()
    kept = [path.relative_to(home).parts[0] for path in home.rglob("*") if path.is_file()]
    assert set(kept) <= {"store", "lineage.sqlite", "lineage.sqlite-wal", "lineage.sqlite-shm"}


@pytest.mark.parametrize("command", [("rag", "index", "docs", "--index", "i"), ("eval", "run"), ("lever", "run")])
def test_a_plan_and_a_count_at_once_are_refused(command: tuple[str, ...]) -> None:
    done = run_here(*command, "--plan", "--dry-run")
    assert (done.code, "give one of them" in done.stderr) == (2, True)


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("text")
    done = run_here("rag", "index", tmp_path, "--index", tmp_path, "--plan")
    assert (done.code, "holds a.md and no index" in done.stderr) == (2, True)
