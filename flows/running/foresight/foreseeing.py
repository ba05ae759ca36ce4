"""Looks up the records that the steps of a flow would find, without Prefect's engine.

inputs ─► the step's own key ─► a record that holds: its result is an input of the next step
                           └─► none: the step would run, and what follows from its result is not known yet

Nothing is written, renewed or removed, and no flow run begins.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import signature
from statistics import quantiles
from typing import Any, cast

from prefect import Task

from storage.lineage import StepRun
from storage.records import Record, Ref
from tasks.origins.missing import Asked, Names, why_missing
from tasks.resources import lineage
from tasks.step import StepKey

WORLD = "looks at the world each time"
WAITS = "waits for "
MOST_REASONS = 3
"""Reasons that a step tells; of more only the number."""


class PlannedStep(Record):
    """What would become of one step of a flow, over all its shards."""

    step: str
    cached: int = 0
    """Shards whose record would be found."""
    runs: int = 0
    """Shards that would run."""
    unknown: int = 0
    """Further shards that would run at most: their inputs are made by steps that run before them."""
    reasons: tuple[str, ...] = ()
    """Why it runs, or what it waits for."""
    seconds: tuple[float, float] | None = None
    """Work of what would run, from the seconds of earlier runs: the shortest tenth of them for what runs for sure, the
    longest tenth for all that may run. None: there were no earlier runs, or nothing runs."""


class RunPlan(Record):
    """What a run would do."""

    steps: tuple[PlannedStep, ...]
    """In the order of the flow."""
    seconds: tuple[float, float] | None = None
    """Of all steps that have any."""


@dataclass(frozen=True)
class Unknown:
    """A result that nobody has yet."""

    waits_for: str
    """The step that would make it."""


def known(*values: Any) -> bool:
    """True when none of the values, and none of their elements, waits for a step."""
    return _awaited(values) is None


def _awaited(values: Iterable[Any]) -> Unknown | None:
    """The first value that is not known."""
    for value in values:
        if isinstance(value, Unknown):
            return value
        if isinstance(value, list | tuple):
            members: Iterable[Any] = cast(Sequence[Any], value)
        elif isinstance(value, dict):
            members = cast(Mapping[Any, Any], value).values()
        else:
            continue
        if found := next((one for one in members if isinstance(one, Unknown)), None):
            return found
    return None


@dataclass
class _Tally:
    step: str
    counts: Counter[str] = field(default_factory=Counter[str])
    reasons: Counter[str] = field(default_factory=Counter[str])


class Foresight:
    """The steps of one run, foreseen in the order of its flow."""

    def __init__(self, names: Names | None = None) -> None:
        """names: of documents, for the reasons."""
        self._names = names or Names()
        self._tallies: dict[str, _Tally] = {}
        self._lost = set[Ref]()

    def foresee(self, step: Task[..., Any], *inputs: Any, **named: Any) -> Any:
        """The result that a run would find under the step's key; Unknown where it would run, or may.

        Raises StoreUnreachable, DatabaseUnavailable.
        """
        key, tally = _key(step), self._tally(step)
        if key.reads_world:
            return self._missing(tally, "runs", [WORLD])
        if awaited := _awaited((*inputs, *named.values())):
            return self._missing(tally, "unknown", [WAITS + awaited.waits_for])
        bound = signature(step.fn).bind(*inputs, **named)
        bound.apply_defaults()
        found = key.look_up(bound.arguments)
        if found and not found.fault:
            tally.counts["cached"] += 1
            return found.result
        if found:
            made_before = found.lost and (found.lost <= self._lost or tally.counts["runs"] + tally.counts["unknown"])
            self._lost |= found.lost
            what = "unknown" if made_before else "runs"  # until then another shard may have made them anew
            return self._missing(tally, what, [found.fault])
        asked = Asked(key.name, key.version, key.key_of(bound.arguments, run=None), bound.arguments, key.aside)
        return self._missing(tally, "runs", why_missing(asked, lineage(), self._names))

    def foresee_each(self, step: Task[..., Any], shards: Iterable[Any], **named: Any) -> list[Any]:
        """As `foresee`, for each shard."""
        return [self.foresee(step, shard, **named) for shard in shards]

    def will_run(self, step: Task[..., Any], reason: str) -> Unknown:
        """Count a step whose inputs are other ones in each run, or whose record a run removes."""
        return self._missing(self._tally(step), "runs", [reason])

    def may_run(self, step: Task[..., Any], waits_for: str) -> None:
        """Count a step that another one decides on."""
        self._missing(self._tally(step), "unknown", [WAITS + waits_for])

    def _tally(self, step: Task[..., Any]) -> _Tally:
        return self._tallies.setdefault(_key(step).name, _Tally(step.name))

    @property
    def plan(self) -> RunPlan:
        """What was foreseen."""
        steps = tuple(_planned(tally, lineage().last(name)) for name, tally in self._tallies.items())
        times = [step.seconds for step in steps if step.seconds]
        low, high = (round(sum(ends), 1) for ends in zip(*times, strict=True)) if times else (0.0, 0.0)
        return RunPlan(steps=steps, seconds=(low, high) if times else None)

    def _missing(self, tally: _Tally, what: str, reasons: Sequence[str]) -> Unknown:
        tally.counts[what] += 1
        tally.reasons.update(reasons)
        return Unknown(tally.step)


def _key(step: Task[..., Any]) -> StepKey:
    return cast(StepKey, step.cache_policy)


def _planned(tally: _Tally, earlier: Sequence[StepRun]) -> PlannedStep:
    runs, unknown = tally.counts["runs"], tally.counts["unknown"]
    return PlannedStep(
        step=tally.step,
        cached=tally.counts["cached"],
        runs=runs,
        unknown=unknown,
        reasons=_few(tally.reasons),
        seconds=_seconds([run.seconds for run in earlier], runs, unknown),
    )


def _few(reasons: Counter[str]) -> tuple[str, ...]:
    """The most frequent reasons; what a step waits for is told only where nothing else is."""
    waits = [reason for reason in reasons if reason.startswith(WAITS)]
    certain = [
        f"{reason} (× {count:,})" if count > 1 and len(reasons) > 1 else reason
        for reason, count in reasons.most_common()
        if reason not in waits
    ] or waits
    more = (f"… and {len(certain) - MOST_REASONS:,} more",) if len(certain) > MOST_REASONS else ()
    return (*certain[:MOST_REASONS], *more)


def _seconds(earlier: Sequence[float], runs: int, unknown: int) -> tuple[float, float] | None:
    if not earlier or not runs + unknown:
        return None
    tenths = quantiles(earlier, n=10, method="inclusive") if len(earlier) > 1 else [earlier[0]] * 9
    return round(tenths[0] * runs, 1), round(tenths[-1] * (runs + unknown), 1)
