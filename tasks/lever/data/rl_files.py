"""`rl_data_{Sampler}.json`: the judged pointers of each query, in the structure of the seed's section 3.3.1.

{query: {"meta": {…}, "candidate_pool": […], "candidate_pool_ids": […], "pointer_candidates": [{"pointer": [7, 22] …}]}}

Beyond the seed it has `candidate_pool_ids` (pointers are positions in it), `behaviour_logp` and `status`; it has no
InfoScore.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from tasks.lever.data.beam_data import pool_ids
from tasks.lever.data.json_files import first_twice, read_by_query, validated
from tasks.lever.lever_errors import FileUnusable
from tasks.lever.lever_records import PointerRecord, RlData, RlQuery

ONLY_IF_KNOWN = {"vqa_gt_prob", "reason"}
"""Fields that are left out where they are not known; the seed's own are `null` then."""


def read_rl_data(source: Path | bytes, *, shots: int | None = None) -> RlData:
    """All of a file. Raises as `iter_rl_data` does."""
    return dict(iter_rl_data(source, shots=shots))


def iter_rl_data(source: Path | bytes, *, shots: int | None = None) -> Iterator[tuple[str, RlQuery]]:
    """The queries of a file, each checked.

    shots: length of all pointers; None: that of the first one.
    Raises FileUnusable naming file, query and field: a pointer that leaves its pool, repeats, or has another length,
    NaN, a judged record without its scores, no query at all.
    """
    entries, where = read_by_query(source, "the RL data")
    for key, value in entries.items():
        place = f"{where}: query {key}"
        query = validated(RlQuery, value if "candidate_pool_ids" in value else _with_pool(value, place), place)
        shots = shots or len(query.pointer_candidates[0].pointer) if query.pointer_candidates else shots
        _check(key, query, place, shots=shots)
        yield key, query
    if shots is None:
        raise FileUnusable(f"{where} holds no pointer; generate the RL data again")


def rl_data_bytes(data: RlData) -> bytes:
    """The file's content. Raises FileUnusable for a value that JSON does not know."""
    lines: list[str] = []
    for key, query in data.items():
        said = query.model_dump()
        said["pointer_candidates"] = [
            {field: value for field, value in record.items() if value is not None or field not in ONLY_IF_KNOWN}
            for record in said["pointer_candidates"]
        ]
        try:
            written = json.dumps(said, ensure_ascii=False, allow_nan=False)
        except (ValueError, TypeError) as error:
            raise FileUnusable(
                f"query {key} of the RL data: {error}; every value must be one that JSON knows"
            ) from error
        lines.append(f"{json.dumps(key, ensure_ascii=False)}: {written}")
    return ("{" + ",\n".join(lines) + "}\n").encode()


def _with_pool(value: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The seed's own files name their candidates in `candidate_pool` alone, if they do."""
    pool = cast(list[Any], value["candidate_pool"]) if isinstance(value.get("candidate_pool"), list) else []
    named = [one if isinstance(one, dict) else {"id": str(one)} for one in pool]
    return {"meta": {}, **value, "candidate_pool": named, "candidate_pool_ids": pool_ids(value, where)}


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
    if record.status == "judged" and (record.vqa_correct is None or record.vqa_acc_score is None):
        raise FileUnusable(
            f"{where}: no `vqa_correct` or no `vqa_acc_score`, and `status` is not `eval_failed`: judge it again"
        )
