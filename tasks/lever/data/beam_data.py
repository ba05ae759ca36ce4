"""Beam data: sequences of demonstrations to imitate, with their scores, in the formats of Lever-Plus.

old   {query: {"id_list": [[demonstration …, query], …], "score_list": [score, …]}}
new   {query: {"pointer_candidates": [{"pointer": [position …], "beam_score": score, …}, …], "candidate_pool_ids": […]}}

Lever-Plus counts the items of its training file and calls that number an id; `with_ids` puts ids in their place.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

from tasks.lever.data.json_files import content_of, first_twice, members
from tasks.lever.lever_errors import FileUnusable, PointerUnusable, PoolTooSmall
from tasks.lever.lever_records import PointerRecord, Pools

Value = TypeVar("Value")


class BeamQuery(NamedTuple):
    """Sequences of one query, best first."""

    query: str
    demonstrations: tuple[tuple[str, ...], ...]
    """Ids, in the order in which they are shown."""
    scores: tuple[float, ...]
    """One for each sequence."""
    pool: tuple[str, ...] = ()
    """Ids of its candidates in the order in which pointers count them; empty in the old format, which has none."""


Beams = dict[str, BeamQuery]
"""By query id."""


def read_beams(source: Path | bytes) -> Beams:
    """Beam data in either format. Raises FileUnusable naming file, query and field."""
    text, where = content_of(source, "the beam data")
    beams = {one.key: beam_of(one.key, one.value, f"{where}: query {one.key}") for one in members(text, where)}
    if not beams:
        raise FileUnusable(f"{where} holds no query; search for beams, or name another file")
    return beams


def beam_bytes(beams: Mapping[str, BeamQuery]) -> bytes:
    """Beam data in the new format. Raises FileUnusable for a query without a pool."""
    return json.dumps({key: _written(beam) for key, beam in beams.items()}, ensure_ascii=False).encode()


def beams_of(found: Mapping[str, Sequence[PointerRecord]], pools: Pools) -> Beams:
    """Sequences that were searched for in these pools; their score is `beam_score`."""
    beams: Beams = {}
    for query, records in found.items():
        pool = pools.pools[query]
        scored = [(record.beam_score, tuple(pool[at] for at in record.pointer)) for record in records]
        beams[query] = _ordered(query, [(ids, score) for score, ids in scored if score is not None], pool)
    return beams


def pointers_in(beams: Mapping[str, BeamQuery], pools: Pools, *, shots: int) -> dict[str, tuple[PointerRecord, ...]]:
    """The sequences as positions in the pools of this run, best first.

    Raises PointerUnusable naming query and candidate: no pool, a candidate outside of it, another number of shots.
    """
    return {
        query: tuple(
            PointerRecord(
                pointer=_positions(query, ids, pools, shots=shots), gen_method="beam", beam_rank=rank, beam_score=score
            )
            for rank, (ids, score) in enumerate(zip(beam.demonstrations, beam.scores, strict=True))
        )
        for query, beam in beams.items()
    }


def pools_around(beams: Mapping[str, BeamQuery], pools: Pools) -> Pools:
    """`pools` in which every demonstration of the beams can be pointed at.

    A file that tells its own pools brings them. In one that does not, of another run with pools of its own, each
    demonstration that is missing takes the place of a last candidate that no beam names.
    Raises PointerUnusable for a query without a pool or in its own, PoolTooSmall if its beams name more than a pool
    holds, FileUnusable for pools of different sizes.
    """
    changed: dict[str, tuple[str, ...]] = {}
    for query, beam in beams.items():
        pool = _pool(query, pools)
        if beam.pool:
            if query in beam.pool:
                raise PointerUnusable(
                    f"query {query}: the pool of its beams holds the query itself; search for beams again"
                )
            changed[query] = beam.pool
            continue
        named = list(dict.fromkeys(id for ids in beam.demonstrations for id in ids))
        if len(named) > len(pool):
            raise PoolTooSmall(f"query {query}: its beams name {len(named)} candidates, its pool holds {len(pool)}")
        missing = [id for id in named if id not in pool]
        spare = [id for id in pool if id not in named]
        dropped = set(spare[len(spare) - len(missing) :])
        changed[query] = (*(id for id in pool if id not in dropped), *missing)
    if len(sizes := {len(pool) for pool in changed.values()}) > 1:
        raise FileUnusable(f"the beam data have pools of different sizes, {sorted(sizes)[:5]}; search for beams again")
    return pools.model_copy(update={"pools": pools.pools | changed})


def with_ids(beams: Mapping[str, BeamQuery], ids: Sequence[str]) -> Beams:
    """Beams of Lever-Plus with ids in place of its numbers. ids: of its training file, in its order.

    Raises PointerUnusable for a number that is none of a training item.
    """

    def name(number: str) -> str:
        if not number.isdecimal() or int(number) >= len(ids):
            raise PointerUnusable(f"{number[:80]} is no number of a training item; there are {len(ids)}")
        return ids[int(number)]

    return {
        name(query): BeamQuery(
            name(query),
            tuple(tuple(map(name, shown)) for shown in beam.demonstrations),
            beam.scores,
            tuple(map(name, beam.pool)),
        )
        for query, beam in beams.items()
    }


def split_beams(beams: Mapping[str, Value], train_ratio: float = 0.8) -> tuple[dict[str, Value], dict[str, Value]]:
    """The first queries by id, numbers by size, and the rest; always the same ones."""
    ordered = sorted(beams, key=by_number)
    first = set(ordered[: int(len(ordered) * train_ratio)])
    train = {query: beam for query, beam in beams.items() if query in first}
    return train, {query: beam for query, beam in beams.items() if query not in first}


def by_number(query: str) -> tuple[bool, int, str]:
    number = query.isdecimal() and len(query) < 100
    return not number, int(query) if number else 0, query


def beam_of(query: str, value: Mapping[str, Any], where: str) -> BeamQuery:
    if "pointer_candidates" in value:
        return _new(query, value, where)
    if "id_list" in value and "score_list" in value:
        return _old(query, value, where)
    raise FileUnusable(f"{where}: neither `pointer_candidates` nor `id_list` and `score_list`, but {list(value)[:5]}")


def _old(query: str, value: Mapping[str, Any], where: str) -> BeamQuery:
    lists, scores = _list(value["id_list"], where, "id_list"), _list(value["score_list"], where, "score_list")
    if len(lists) != len(scores):
        raise FileUnusable(f"{where}: `id_list` has {len(lists)} sequences, `score_list` {len(scores)} scores")
    scored: list[tuple[tuple[str, ...], float]] = []
    for place, (listed, score) in enumerate(zip(lists, scores, strict=True)):
        field = f"id_list[{place}]"
        *shown, last = _ids(listed, where, field) or ("",)
        if last != query:
            raise FileUnusable(f"{where}: `{field}` ends with {last[:80]!r}; the query's own id is expected there")
        scored.append((_shown(query, shown, where, field), _number(score, where, f"score_list[{place}]")))
    return _ordered(query, scored, ())


def _new(query: str, value: Mapping[str, Any], where: str) -> BeamQuery:
    pool = pool_ids(value, where)
    scored: list[tuple[tuple[str, ...], float]] = []
    for place, record in enumerate(_list(value["pointer_candidates"], where, "pointer_candidates")):
        field = f"pointer_candidates[{place}]"
        if not isinstance(record, dict):
            raise FileUnusable(f"{where}: `{field}` is no object")
        said = cast(dict[str, Any], record)
        shown = [_at(position, pool, where, f"{field}.pointer") for position in _pointer(said, where, field)]
        if (score := _score(said, where, field)) is not None:
            scored.append((_shown(query, shown, where, f"{field}.pointer"), score))
    return _ordered(query, scored, pool)


def pool_ids(value: Mapping[str, Any], where: str) -> tuple[str, ...]:
    """Ids of the candidates: `candidate_pool_ids`, else those in `candidate_pool`. Raises FileUnusable."""
    if "candidate_pool_ids" in value:
        pool, field = _ids(value["candidate_pool_ids"], where, "candidate_pool_ids"), "candidate_pool_ids"
    elif "candidate_pool" in value:
        field = "candidate_pool"
        pool = _ids([_id_of(one) for one in _list(value[field], where, field)], where, field)
    else:
        raise FileUnusable(f"{where}: no `candidate_pool_ids`: nobody can tell which candidates its pointers count")
    if (twice := first_twice(pool)) is not None:
        raise FileUnusable(f"{where}: `{field}` names {twice} twice")
    return pool


def _id_of(candidate: Any) -> Any:
    if not isinstance(candidate, dict):
        return candidate
    said = cast(dict[str, Any], candidate)
    return next((said[key] for key in ("id", "question_id", "idx") if key in said), None)


def _pointer(record: Mapping[str, Any], where: str, field: str) -> list[Any]:
    return _list(record.get("pointer"), where, f"{field}.pointer")


def _at(position: Any, pool: Sequence[str], where: str, field: str) -> str:
    if type(position) is not int or not 0 <= position < len(pool):
        raise FileUnusable(f"{where}: `{field}` has {str(position)[:80]}; positions are 0 to {len(pool) - 1}")
    return pool[position]


def _score(record: Mapping[str, Any], where: str, field: str) -> float | None:
    """What a judge thought of it, where one was asked; else what its search did; None for a random pointer."""
    if record.get("vqa_acc_score") is not None:
        judged = [record[key] for key in ("vqa_correct", "vqa_acc_score") if record.get(key) is not None]
        return sum(_number(one, where, f"{field}.vqa_acc_score") for one in judged)
    key = next((key for key in ("beam_score", "logprob_score") if record.get(key) is not None), None)
    return None if key is None else _number(record[key], where, f"{field}.{key}")


def _ordered(query: str, scored: list[tuple[tuple[str, ...], float]], pool: tuple[str, ...]) -> BeamQuery:
    best = sorted(scored, key=lambda one: -one[1])  # equals stay in the order of the file
    return BeamQuery(query, tuple(ids for ids, _ in best), tuple(score for _, score in best), pool)


def _shown(query: str, ids: Sequence[str], where: str, field: str) -> tuple[str, ...]:
    if not ids or len(set(ids)) < len(ids) or query in ids:
        raise FileUnusable(
            f"{where}: `{field}` shows {list(ids)[:9]}; at least one demonstration, each once, none the query itself"
        )
    return tuple(ids)


def _list(value: Any, where: str, field: str) -> list[Any]:
    if not isinstance(value, list):
        raise FileUnusable(f"{where}: `{field}` is {str(value)[:80]!r}; a list is expected")
    return cast(list[Any], value)


def _ids(value: Any, where: str, field: str) -> tuple[str, ...]:
    ids = _list(value, where, field)
    if wrong := [one for one in ids if not isinstance(one, str | int) or isinstance(one, bool)]:
        raise FileUnusable(f"{where}: `{field}` has {str(wrong[0])[:80]!r}, which is no id")
    return tuple(map(str, ids))


def _number(value: Any, where: str, field: str) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        raise FileUnusable(f"{where}: `{field}` is {str(value)[:80]!r}; a finite number is expected")
    return float(value)


def _pool(query: str, pools: Pools) -> tuple[str, ...]:
    if query not in pools.pools:
        raise PointerUnusable(f"query {query} of the beam data has no pool: it is no train query of this dataset")
    return pools.pools[query]


def _positions(query: str, ids: Sequence[str], pools: Pools, *, shots: int) -> tuple[int, ...]:
    place = {id: position for position, id in enumerate(_pool(query, pools))}
    if missing := [id for id in ids if id not in place]:
        raise PointerUnusable(f"query {query}: {missing[0]} is none of its {len(place)} candidates; widen its pool")
    if len(ids) != shots:
        raise PointerUnusable(f"query {query}: {len(ids)} demonstrations, {shots} are wanted; set the shots to that")
    return tuple(place[id] for id in ids)


def _written(beam: BeamQuery) -> dict[str, Any]:
    place = {id: position for position, id in enumerate(beam.pool)}
    if any(id not in place for ids in beam.demonstrations for id in ids):
        raise FileUnusable(f"query {beam.query}: its demonstrations are not in its pool, so nothing can point at them")
    return {
        "candidate_pool_ids": beam.pool,
        "pointer_candidates": [
            {"pointer": [place[id] for id in ids], "gen_method": "beam", "beam_rank": rank, "beam_score": score}
            for rank, (ids, score) in enumerate(zip(beam.demonstrations, beam.scores, strict=True))
        ],
    }
