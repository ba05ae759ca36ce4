"""Why a step finds no record of what it is asked for: what differs from the last runs of the step."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from pydantic import JsonValue

from storage.lineage import Named, StepRun
from storage.lineages import Lineage
from tasks.lineage import digests_in, items_of, parameters_of
from tasks.origins.differing import settings

NEVER = "never ran here"
LOST = "record gone, or not finished then"
OTHERWISE = "documents are grouped anew"
"""The same documents under the same settings, in other shards."""
FEW = 20
"""Earlier uses of one digest that are compared."""
MOST_CHARS = 40
"""Of a value of a parameter that is shown."""


class Names(NamedTuple):
    """Documents and other files by digest: those that are there, and the documents of the last generation."""

    now: Mapping[str, str] = MappingProxyType({})
    before: Mapping[str, str] | None = None
    """None: there was no generation, or nobody knows."""


class Asked(NamedTuple):
    """A step and what it would be given."""

    step: str
    """`tasks.rag.steps.parse`."""
    version: int
    key: str
    inputs: Mapping[str, Any]
    aside: Collection[str] = ()
    """Inputs that are no part of the key."""


def why_missing(asked: Asked, lineage: Lineage, names: Names) -> list[str]:
    """What differs, from the earlier runs that are most like this one. Raises StoreUnreachable, DatabaseUnavailable."""
    now = {one for name, value in asked.inputs.items() if name not in asked.aside for one in digests_in(value, name)}
    compared = _Compared(asked)
    uses = lineage.uses(asked.step, _own(asked.inputs))
    runs = {run.key: run for used_it in uses.values() if (run := compared.nearest(used_it))}
    if not (alike := bool(runs)) and (last := compared.nearest(lineage.last(asked.step))):
        runs = {last.key: last}
    if asked.key in runs:
        return [LOST]
    used = lineage.used(runs)
    reasons = dict.fromkeys(_new(now, {one.digest for before in used.values() for one in before}, names))
    for key, run in runs.items():
        if run.version != asked.version:
            raised = "raised" if run.version < asked.version else "changed"
            reasons[f"code version {raised} {run.version} → {asked.version}"] = None
        reasons |= dict.fromkeys(compared.changes(run))
        if alike:
            reasons |= dict.fromkeys(_removed(used.get(key, set()), now, names))
    return list(reasons) or [OTHERWISE if runs else NEVER]


def _own(inputs: Mapping[str, Any]) -> list[str]:
    """What a step works on: the first digest of each item of its first input that has any."""
    for name, value in inputs.items():
        firsts = (next(digests_in(item, name), None) for item in items_of(value))
        if own := list(dict.fromkeys(one.digest for one in firsts if one)):
            return own
    return []


class _Compared:
    """Earlier runs beside the one that is asked for."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._now = self._told(parameters_of(asked.inputs))
        self._changes: dict[str, list[str]] = {}

    def nearest(self, runs: Sequence[StepRun]) -> StepRun | None:
        """The run that is most like the one that is asked for; of equals the first."""
        return min(runs[:FEW], key=self._distance, default=None)

    def changes(self, run: StepRun) -> list[str]:
        """The parameters that were others then."""
        if run.key not in self._changes:
            self._changes[run.key] = [
                f"parameter changed: {cause.name} {_shown(cause.one)} → {_shown(cause.other)}"
                for cause in settings(self._told(run.parameters), self._now, where=run.step)
            ]
        return self._changes[run.key]

    def _distance(self, run: StepRun) -> tuple[bool, bool, int]:
        return run.key != self._asked.key, run.version != self._asked.version, len(self.changes(run))

    def _told(self, parameters: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        return {name: value for name, value in parameters.items() if name not in self._asked.aside}


def _new(now: Collection[Named], used: Collection[str], names: Names) -> Iterator[str]:
    """Inputs that none of the earlier runs had."""
    before = names.before or {}
    called = set(before.values())
    for one in sorted(now, key=lambda one: (names.now.get(one.digest, ""), one)):
        if one.digest in used or one.digest in before:
            continue
        name = names.now.get(one.digest)
        if name and names.before is not None:
            yield f"input {'changed' if name in called else 'new'}: {name}"
        elif used:
            yield f"input changed: {name or one.kind or one.name}"


def _removed(used: Collection[Named], now: Collection[Named], names: Names) -> Iterator[str]:
    """Documents that the earlier run had, and that are gone."""
    there, called = {one.digest for one in now}, set(names.now.values())
    for digest in sorted(one.digest for one in used if one.digest not in there):
        name = (names.before or {}).get(digest)
        if name and digest not in names.now and name not in called:
            yield f"input removed: {name}"


def _shown(value: JsonValue) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MOST_CHARS else f"{text[: MOST_CHARS - 1]}…"
