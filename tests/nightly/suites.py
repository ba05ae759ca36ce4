"""A suite whose nights a test writes, as the flow writes them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from storage.evaluated import Dataset, EvalSettings, Evaluated, Model, Result, Run, Sample, Task
from storage.evaluations import Evaluations
from storage.incidents import Incident, Incidents
from tasks.nightly import night_comparison
from tasks.nightly.night_history import build_report
from tasks.nightly.night_records import ModelRun, Night, NightReport
from tasks.nightly.suite import RegressionRules
from tests.nightly.nights import TWO

ITEMS = 40


class Suite:
    """A suite whose nights are written as the flow writes them, by right answers of its one model."""

    def __init__(self, name: str, url: str) -> None:
        self.file = f"/suites/{name}.yaml"
        self.evaluations, self.incidents = Evaluations(lambda: url), Incidents(lambda: url)
        self.nights: list[Night] = []

    def night(self, right: int | dict[str, int], *, again: bool = False, limit: int | None = None) -> NightReport:
        """The next night, or the last one once more. right: right answers of 40, by benchmark."""
        if again:
            self.nights.pop()
        number = len(self.nights)
        found = {"Sums": right} if isinstance(right, int) else right
        run = self._id(f"run {number}")
        night = Night(
            run=self._id(f"night {number}"),
            suite="suite",
            file=self.file,
            started_at=TWO + timedelta(days=number),
            ended_at=TWO + timedelta(days=number, minutes=4),
            version="0",
            models=(ModelRun(label="small", run=run, tasks=dict.fromkeys(found, run)),),
        )
        self.evaluations.write([_evaluated(run, task, count, limit=limit) for task, count in found.items()])
        report = self.report(night)
        self.incidents.keep(self.file, night.run, report.incidents)
        self.nights.append(night)
        return report

    def report(self, night: Night) -> NightReport:
        rules = RegressionRules(fail=True)
        earlier = [one for one in self.nights if one.run != night.run]
        return build_report(night, earlier, self.evaluations, self.incidents, nights=30, rules=rules)

    def accept(self, which: str, word: str) -> None:
        accepted = night_comparison.accept_incident(self.known(), which, word=word, at=datetime.now(UTC))
        self.incidents.put(accepted)

    def known(self) -> Sequence[Incident]:
        return self.incidents.of_suite(self.file)

    def _id(self, name: str) -> str:
        return hashlib.sha256(f"{self.file} {name}".encode()).hexdigest()[:32]


def _evaluated(run: str, task: str, right: int, *, limit: int | None) -> Evaluated:
    value = right / ITEMS
    return Evaluated(
        run=Run(
            id=run,
            kind="benchmark",
            started_at=TWO,
            status="completed",
            version="0",
            model=Model(name="small", backend="openai"),
        ),
        dataset=Dataset(name=task, source="own", checksum="a" * 64, count=ITEMS),
        settings=EvalSettings(name=task, parameters={"limit": limit}),
        results=(Result(metric="accuracy", value=value, low=value - 0.1, high=value + 0.1, n=ITEMS, headline=True),),
        samples=tuple(Sample(item=f"{item:02d}", detail={}, score=float(item < right)) for item in range(ITEMS)),
        task=Task(task=task, version="1", family="math", metrics={}, counts={"items": ITEMS}, usage={}),
    )
