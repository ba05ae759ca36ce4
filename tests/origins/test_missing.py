"""Planted changes, one at a time: the reason why a step has no record is told, and nothing else is."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from storage.lineage import StepRun
from storage.lineages import FILE, Lineage
from storage.records import Record, Ref
from tasks.keys import content_key
from tasks.lineage import edges_of, parameters_of
from tasks.origins.missing import LOST, NEVER, OTHERWISE, Asked, Names, why_missing

STEP = "tasks.rag.steps.cut"


class Cut(Record):
    document: str
    chunks: Ref


def source(name: str) -> Ref:
    return Ref(kind="document", digest=content_key(name, 1, {}), size=1)


def asked(*documents: str, version: int = 4, **parameters: Any) -> Asked:
    inputs = {"sources": tuple(map(source, documents)), "size": 800, "model": {"name": "m", "layers": 2}} | parameters
    counted = {name: value for name, value in inputs.items() if name != "effort"}
    return Asked(STEP, version, content_key(STEP, version, counted), inputs, ("effort",))


def run(lineage: Lineage, done: Asked, *, day: int = 1) -> None:
    """Records what the step would, had it run."""
    result = tuple(
        Cut(document=one.digest, chunks=Ref(kind="chunks", digest=content_key("cut", 1, {"of": one.digest}), size=1))
        for one in done.inputs["sources"]
    )
    ran = StepRun(
        key=done.key,
        step=done.step,
        version=done.version,
        run="r",
        code="1",
        at=datetime(2026, 3, day, tzinfo=UTC),
        seconds=1.0,
        parameters=parameters_of(done.inputs),
    )
    lineage.record(ran, edges_of(done.inputs, result))


def names(**documents: str) -> dict[str, str]:
    return {source(content).digest: f"{name}.txt" for name, content in documents.items()}


BEFORE = names(a="a1", b="b1", c="c1")
CASES = {
    "the same again": (asked("a1", "b1"), BEFORE, [LOST]),
    "harder work for the same": (asked("a1", "b1", effort=9), BEFORE, [LOST]),
    "version": (asked("a1", "b1", version=5), BEFORE, ["code version raised 4 → 5"]),
    "version of another day": (asked("a1", "b1", version=3), BEFORE, ["code version changed 4 → 3"]),
    "parameter": (asked("a1", "b1", size=500), BEFORE, ["parameter changed: size 800 → 500"]),
    "inner parameter": (
        asked("a1", "b1", model={"name": "n", "layers": 2}),
        BEFORE,
        ['parameter changed: model.name "m" → "n"'],
    ),
    "changed": (asked("a2", "b1"), names(a="a2", b="b1", c="c1"), ["input changed: a.txt"]),
    "added": (asked("a1", "b1", "d1"), BEFORE | names(d="d1"), ["input new: d.txt"]),
    "removed": (asked("a1"), names(a="a1", c="c1"), ["input removed: b.txt"]),
    "grouped anew": (asked("a1"), BEFORE, [OTHERWISE]),
    "all new": (asked("x1", "y1"), names(x="x1", y="y1"), ["input new: x.txt", "input new: y.txt"]),
    "another file": (asked("a1", "b1", weights=source("w").digest), BEFORE, ["input changed: weights"]),
    "several": (
        asked("a1", "b2", version=5, size=500),
        names(a="a1", b="b2", c="c1"),
        ["input changed: b.txt", "code version raised 4 → 5", "parameter changed: size 800 → 500"],
    ),
}


@pytest.mark.parametrize(("now", "there", "reasons"), CASES.values(), ids=CASES)
def test_the_reason_is_told(now: Asked, there: dict[str, str], reasons: list[str], tmp_path: Path) -> None:
    lineage = Lineage(None, tmp_path / FILE)
    run(lineage, asked("a1", "b1"))
    run(lineage, asked("c1"))
    assert why_missing(now, lineage, Names(there, BEFORE)) == reasons


def test_what_never_ran_is_said_so(tmp_path: Path) -> None:
    lineage = Lineage(None, tmp_path / FILE)
    assert why_missing(asked("a1"), lineage, Names()) == [NEVER]
    assert why_missing(asked("a1"), lineage, Names(names(a="a1"))) == [NEVER]


def test_it_is_compared_with_the_run_that_is_most_alike(tmp_path: Path) -> None:
    lineage = Lineage(None, tmp_path / FILE)
    run(lineage, asked("a1", size=700), day=1)
    run(lineage, asked("a1", size=900, model={"name": "other", "layers": 1}), day=2)
    assert why_missing(asked("a1", size=800), lineage, Names()) == ["parameter changed: size 700 → 800"]


def test_other_content_without_names_is_named_by_its_kind(tmp_path: Path) -> None:
    lineage = Lineage(None, tmp_path / FILE)
    run(lineage, asked("a1"))
    assert why_missing(asked("a2"), lineage, Names()) == ["input changed: document"]
    assert why_missing(asked("a2"), lineage, Names(names(answers="a2"))) == ["input changed: answers.txt"]
