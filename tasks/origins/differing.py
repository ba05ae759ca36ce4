"""Why two runs of a kind differ: what went into one and not into the other, nearest to the data first."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Literal

from pydantic import Field, JsonValue

from storage.lineage import Origin, StepRun
from storage.lineages import Lineage
from storage.records import Record

MOST = 200_000
"""Digests that are followed for one run."""
CHECKED = frozenset(
    (
        *("run", "report", "output_path", "out", "index", "folder", "found", "spending", "effort", "learning.device"),
        *("include", "exclude"),  # of a scan: one that finds nothing new is not recorded, so these may be another run's
    )
)
"""Parameters that say where results go, how hard to work, and which inputs to take: not what they are."""

What = Literal["input", "parameter", "step version", "code"]


class Cause(Record):
    """Something that one run has and the other has not."""

    what: What
    where: str
    """The step, or the kind of the input."""
    name: str = ""
    """Of the parameter or the input."""
    one: JsonValue = None
    other: JsonValue = None


class Inside(Record):
    """All that went into a run."""

    steps: tuple[StepRun, ...]
    inputs: dict[str, str]
    """Digest → kind, of what no step made of others."""
    makers: dict[str, str] = Field(default_factory=dict)
    """Digest → key of the step that made it, of inputs that a step found or drew."""
    made: dict[str, str] = Field(default_factory=dict)
    """Digest → kind, of the artifacts on the way."""

    @property
    def codes(self) -> list[str]:
        return sorted({step.code for step in self.steps})


class Made(Record):
    """Artifacts of a kind that went into two runs."""

    kind: str
    same: int
    one: int
    """That only the one has."""
    other: int


def inside(digest: str, lineage: Lineage) -> Inside:
    """What went into a run, an index or an artifact. Raises StoreUnreachable, DatabaseUnavailable."""
    found = lineage.origins([digest], most=MOST)
    steps = {origin.step.key: origin.step for origin in found.values() if origin.step}
    leaves = {one.digest: one.kind or one.name for one in found.values() if _is_leaf(one, found)}
    leaves.pop(digest, None)
    makers = {one: step.key for one in leaves if (step := found[one].step)}
    made = {one.digest: one.kind for one in found.values() if one.kind and one.digest not in leaves}
    return Inside(steps=tuple(steps.values()), inputs=leaves, makers=makers, made=made)


def _is_leaf(origin: Origin, found: Mapping[str, Origin]) -> bool:
    return not any(one in found for one in origin.used)


def made(one: Inside, other: Inside) -> list[Made]:
    """What was made on the way to both: chunks, vectors, pools, judgments, weights …, as many as differ."""
    kinds = sorted({*one.made.values(), *other.made.values()})
    of = [{kind: {d for d, k in each.made.items() if k == kind} for kind in kinds} for each in (one, other)]
    return [
        Made(
            kind=kind,
            same=len(of[0][kind] & of[1][kind]),
            one=len(of[0][kind] - of[1][kind]),
            other=len(of[1][kind] - of[0][kind]),
        )
        for kind in kinds
    ]


def causes(one: Inside, other: Inside, *, names: Mapping[str, str] | None = None) -> list[Cause]:
    """What differs, nearest to the data first: inputs, parameters, versions of steps, the code.

    names: of documents, by digest. What was only made of what differs is no cause.
    """
    called = names or {}
    return [
        *_inputs(one, other, called),
        *_parameters(one, other),
        *_versions(one, other),
        *_code(one, other),
    ]


def _inputs(one: Inside, other: Inside, called: Mapping[str, str]) -> Iterator[Cause]:
    """Inputs of one alone; the same name with another content is one cause."""
    ours = {called.get(d, d): (d, kind) for d, kind in one.inputs.items() if _is_alone(d, one, other)}
    theirs = {called.get(d, d): (d, kind) for d, kind in other.inputs.items() if _is_alone(d, other, one)}
    for kind in sorted({kind for _, kind in [*ours.values(), *theirs.values()]}):
        mine = sorted(name for name, (_, of) in ours.items() if of == kind)
        yours = sorted(name for name, (_, of) in theirs.items() if of == kind)
        if len(mine) == len(yours) == 1:
            yield Cause(what="input", where=kind, name=mine[0], one=ours[mine[0]][0], other=theirs[yours[0]][0])
            continue
        for name in sorted({*mine, *yours}):
            yield Cause(
                what="input",
                where=kind,
                name=name,
                one=ours[name][0] if name in mine else None,
                other=theirs[name][0] if name in yours else None,
            )


def _is_alone(digest: str, one: Inside, other: Inside) -> bool:
    """True for an input that the other has not, unless it was found or drawn with other parameters: they are named."""
    if digest in other.inputs:
        return False
    maker = next((step for step in one.steps if step.key == one.makers.get(digest)), None)
    if maker is None:
        return True
    told = _values([maker])
    others = [_values([step]) for step in other.steps if step.step == maker.step]
    return not others or told in others


def _parameters(one: Inside, other: Inside) -> Iterator[Cause]:
    ours, theirs = _values(one.steps), _values(other.steps)
    began: dict[str, datetime] = {}  # what follows from a parameter of an earlier step stands behind it
    for step in one.steps:
        began[_short(step)] = min(step.at, began.get(_short(step), step.at))
    for place in sorted(ours.keys() & theirs.keys(), key=lambda place: (began[place[0]], place)):
        if (mine := ours[place]) != (yours := theirs[place]):
            step, name = place
            yield Cause(
                what="parameter",
                where=step,
                name=name,
                one=_alone(mine - yours or mine),
                other=_alone(yours - mine or yours),
            )


def _values(steps: Iterable[StepRun]) -> dict[tuple[str, str], frozenset[str]]:
    """(step, path of a parameter) → its values as JSON; shards may differ."""
    values: dict[tuple[str, str], set[str]] = {}
    for step in steps:
        for path, value in _paths(step.parameters):
            if path not in CHECKED and path.partition(".")[0] not in CHECKED:
                values.setdefault((_short(step), path), set()).add(json.dumps(value, sort_keys=True))
    return {place: frozenset(found) for place, found in values.items()}


def _paths(value: Mapping[str, JsonValue], above: str = "") -> Iterator[tuple[str, JsonValue]]:
    """`settings.temperature` of every value inside."""
    for name, inner in value.items():
        path = f"{above}.{name}" if above else name
        if isinstance(inner, dict) and inner:
            yield from _paths(inner, path)
        else:
            yield path, inner


def _alone(values: frozenset[str]) -> JsonValue:
    listed: list[JsonValue] = [json.loads(value) for value in sorted(values)]
    return listed[0] if len(listed) == 1 else listed


def settings(one: Mapping[str, JsonValue], other: Mapping[str, JsonValue], *, where: str) -> Iterator[Cause]:
    """What differs in the settings of a benchmark in two runs."""
    ours, theirs = dict(_paths(one)), dict(_paths(other))
    for path in sorted(ours.keys() | theirs.keys()):
        if ours.get(path) != theirs.get(path):
            yield Cause(what="parameter", where=where, name=path, one=ours.get(path), other=theirs.get(path))


def _versions(one: Inside, other: Inside) -> Iterator[Cause]:
    ours, theirs = ({_short(step): step.version for step in each.steps} for each in (one, other))
    for name in sorted(ours.keys() & theirs.keys()):
        if ours[name] != theirs[name]:
            yield Cause(what="step version", where=name, one=ours[name], other=theirs[name])


def _code(one: Inside, other: Inside) -> Iterator[Cause]:
    if one.codes != other.codes:
        yield Cause(what="code", where="program", one=", ".join(one.codes), other=", ".join(other.codes))


def _short(step: StepRun) -> str:
    return step.step.rpartition(".")[2]
