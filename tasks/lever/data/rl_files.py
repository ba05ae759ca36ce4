"""`rl_data_{Sampler}.json`: the judged pointers of each query, in the structure of the seed's section 3.3.1.

{query: {"meta": {…}, "candidate_pool": […], "candidate_pool_ids": […], "pointer_candidates": [{"pointer": [7, 22] …}]}}

Beyond the seed it has `candidate_pool_ids` (pointers are positions in it), `behaviour_logp` and `status`. There is no
InfoScore in it: `info_score.offline` gives that afterwards.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from pydantic import ValidationError

from storage import files
from tasks.lever.data.banks import EmbeddingBank
from tasks.lever.data.beam_data import pool_ids
from tasks.lever.data.json_files import Member, content_of, first_twice, members
from tasks.lever.judge.rewards import GroupRewards, group_rewards
from tasks.lever.learning.groups import Groups
from tasks.lever.lever_errors import FileUnusable, RewardUnusable
from tasks.lever.lever_options import RewardMode
from tasks.lever.lever_records import PointerRecord, RlData, RlQuery

ONLY_IF_KNOWN = {"vqa_gt_prob", "reason"}
"""Fields that are left out where there is nothing to say; the seed's own are `null` then."""


def read_rl_data(source: Path | bytes, *, shots: int | None = None) -> RlData:
    """All of a file. Raises as `iter_rl_data` does."""
    return dict(iter_rl_data(source, shots=shots))


def iter_rl_data(source: Path | bytes, *, shots: int | None = None) -> Iterator[tuple[str, RlQuery]]:
    """Query by query, so that no more than one of them is in memory beside the text.

    shots: length of all pointers; none: that of the first one.
    Raises FileUnusable naming file, query and field: a pointer that leaves its pool, repeats, or has another length,
    NaN, a judged record without its scores, no query at all.
    """
    text, where = content_of(source, "the RL data")
    for member in members(text, where):
        place = f"{where}: query {member.key}"
        query = _validated(member, place)
        shots = shots or len(query.pointer_candidates[0].pointer) if query.pointer_candidates else shots
        _check(member.key, query, place, shots=shots)
        yield member.key, query
    if shots is None:
        raise FileUnusable(f"{where} holds no pointer; generate the RL data again")


def rl_data_bytes(data: RlData) -> bytes:
    """The file's content. Raises FileUnusable for NaN and for pointers that no reader would take."""
    return b"".join(_parts(data.items()))


def write_rl_data(path: Path, queries: Iterable[tuple[str, RlQuery]]) -> None:
    """Write queries as they come; the file is whole or not there. Raises as `rl_data_bytes` does."""
    with files.replacing(path) as file:
        file.writelines(_parts(queries))


def groups_of(
    data: Iterable[tuple[str, RlQuery]],
    *,
    queries: EmbeddingBank,
    candidates: EmbeddingBank,
    mode: RewardMode,
) -> Groups:
    """Judged pointers as tensors; rows with fewer pointers than others are filled up, `judged` is False there.

    A query none of whose pointers could be judged teaches nothing and is left out.
    Raises RewardUnusable if none is left or a record lacks what `mode` needs, FileUnusable for an id without an
    embedding and for pools of different sizes.
    """
    row = {id: number for number, id in enumerate(candidates.ids)}
    rows = [made for query, one in data if (made := _row(query, one, row, mode)) is not None]
    if not rows:
        raise RewardUnusable("no pointer of the RL data could be judged; see that the judge is there, and judge again")
    if len(sizes := {len(one.pool) for one in rows}) > 1:
        raise FileUnusable(f"the RL data have pools of different sizes, {sorted(sizes)[:5]}; generate them again")
    most = max(len(one.pointers) for one in rows)
    shots = len(rows[0].pointers[0])
    return Groups(
        ids=tuple(one.query for one in rows),
        queries=queries.rows([one.query for one in rows]),
        bank=candidates.vectors,
        pools=torch.tensor([one.pool for one in rows]),
        pointers=torch.tensor([_filled(one.pointers, most, tuple(range(shots))) for one in rows]),
        rewards=torch.tensor([_filled(one.rewards.rewards, most, 0.0) for one in rows]),
        judged=torch.tensor([_filled(one.rewards.judged, most, False) for one in rows]),
        behaviour=torch.tensor([_filled(one.behaviour, most, math.nan) for one in rows]),
    )


class _Row(NamedTuple):
    query: str
    pool: tuple[int, ...]
    """Rows of the bank."""
    pointers: tuple[tuple[int, ...], ...]
    rewards: GroupRewards
    behaviour: tuple[float, ...]


def _row(query: str, one: RlQuery, row: Mapping[str, int], mode: RewardMode) -> _Row | None:
    records = one.pointer_candidates
    try:
        rewards = group_rewards(records, mode)
    except RewardUnusable as error:
        raise RewardUnusable(f"query {query}: {error}") from error
    if missing := [id for id in one.candidate_pool_ids if id not in row]:
        raise FileUnusable(f"query {query}: candidate {missing[0]} has no embedding; embed the candidates again")
    if not any(rewards.judged):
        return None
    return _Row(
        query=query,
        pool=tuple(row[id] for id in one.candidate_pool_ids),
        pointers=tuple(record.pointer for record in records),
        rewards=rewards,
        behaviour=tuple(math.nan if record.behaviour_logp is None else record.behaviour_logp for record in records),
    )


def _filled(values: Sequence[Any], length: int, filler: Any) -> list[Any]:
    return [*values, *[filler] * (length - len(values))]


def _parts(queries: Iterable[tuple[str, RlQuery]]) -> Iterator[bytes]:
    before, shots = b"{", None
    for key, query in queries:
        where = f"query {key} of the RL data"
        shots = shots or len(query.pointer_candidates[0].pointer) if query.pointer_candidates else shots
        _check(key, query, where, shots=shots)
        try:
            written = json.dumps(_plain(query), ensure_ascii=False, allow_nan=False)
        except (ValueError, TypeError) as error:
            raise FileUnusable(f"{where}: {error}; every value must be one that JSON knows") from error
        yield before + f"{json.dumps(key, ensure_ascii=False)}: {written}".encode()
        before = b",\n"
    yield b"}\n" if before == b",\n" else b"{}\n"


def _plain(query: RlQuery) -> dict[str, Any]:
    said = query.model_dump()
    said["pointer_candidates"] = [
        {field: value for field, value in record.items() if value is not None or field not in ONLY_IF_KNOWN}
        for record in said["pointer_candidates"]
    ]
    return said


def _validated(member: Member, where: str) -> RlQuery:
    try:
        if "candidate_pool_ids" in member.value:
            return RlQuery.model_validate_json(member.text, strict=True)
        return RlQuery.model_validate_json(json.dumps(_with_pool(member.value, where)), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"]).lstrip(".")
        raise FileUnusable(f"{where}: `{field}`: {first['msg']}, not {str(first['input'])[:80]!r}") from error


def _with_pool(value: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The seed's own files name their candidates in `candidate_pool` alone, if they do."""
    pool = cast(list[Any], value["candidate_pool"]) if isinstance(value.get("candidate_pool"), list) else []
    ids = pool_ids(value, where)
    named = [one if isinstance(one, dict) else {"id": str(one)} for one in pool]
    return {"meta": {}, **value, "candidate_pool": named, "candidate_pool_ids": ids}


def _check(key: str, query: RlQuery, where: str, *, shots: int | None) -> None:
    """Raises FileUnusable for what the types cannot tell."""
    pool = query.candidate_pool_ids
    if (twice := first_twice(pool)) is not None:
        raise FileUnusable(f"{where}: `candidate_pool_ids` names {twice} twice")
    if key in pool:
        raise FileUnusable(f"{where}: `candidate_pool_ids` names the query itself; nobody may be shown its answer")
    if not query.pointer_candidates:
        raise FileUnusable(f"{where}: `pointer_candidates` is empty; generate its pointers, or leave it out")
    seen: dict[tuple[int, ...], int] = {}
    for place, record in enumerate(query.pointer_candidates):
        _check_record(record, f"{where}: `pointer_candidates[{place}]`", size=len(pool), shots=shots)
        if seen.setdefault(record.pointer, place) != place:
            raise FileUnusable(
                f"{where}: `pointer_candidates[{place}].pointer` is that of [{seen[record.pointer]}]; keep one of them"
            )


def _check_record(record: PointerRecord, where: str, *, size: int, shots: int | None) -> None:
    pointer = list(record.pointer)
    if len(pointer) != shots or not pointer:
        raise FileUnusable(f"{where}: pointer {pointer[:9]} has {len(pointer)} positions, {shots} are expected")
    if outside := [at for at in pointer if not 0 <= at < size]:
        raise FileUnusable(f"{where}: pointer {pointer} leaves its pool: {outside[0]} is none of 0 to {size - 1}")
    if len(set(pointer)) < len(pointer):
        raise FileUnusable(f"{where}: pointer {pointer} repeats a position; nobody is shown the same twice")
    for field in ("beam_score", "logprob_score", "temperature", "behaviour_logp", "vqa_acc_score", "vqa_gt_prob"):
        value = getattr(record, field)
        if value is not None and not math.isfinite(value):
            raise FileUnusable(f"{where}: `{field}` is {value}; a finite number is expected")
    if record.status == "judged" and (record.vqa_correct is None or record.vqa_acc_score is None):
        raise FileUnusable(
            f"{where}: no `vqa_correct` or no `vqa_acc_score`, and `status` is not `eval_failed`: judge it again"
        )
