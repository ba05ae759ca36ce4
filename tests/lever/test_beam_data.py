"""Beam data of both formats become the same sequences, and every bad record is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tasks.lever.data.pointer_files import (
    BeamQuery,
    beam_bytes,
    read_beams,
)
from tasks.lever.lever_errors import FileUnusable
from tasks.lever.lever_records import PointerRecord, PoolRecipe, Pools

OLD = {"100": {"id_list": [[7, 8, 100], [9, 7, 100]], "score_list": [0.046, 0.045]}}
NEW = {
    "100": {
        "candidate_pool_ids": ["6", "7", "8", "9"],
        "pointer_candidates": [
            {"pointer": [3, 1], "gen_method": "beam", "beam_rank": 1, "beam_score": 0.045},
            {"pointer": [1, 2], "gen_method": "beam", "beam_rank": 0, "beam_score": 0.046},
        ],
    }
}
BEST_FIRST = (("7", "8"), ("9", "7"))
POOLS = Pools(recipe=PoolRecipe(sampler="RandSampler", size=4), seed=0, pools={"100": ("6", "7", "8", "9")})


def as_file(content: object) -> bytes:
    return json.dumps(content).encode()


@pytest.mark.parametrize("content", [OLD, NEW], ids=["old", "new"])
def test_both_formats_give_the_same_sequences_best_first(content: object) -> None:
    beam = read_beams(as_file(content))["100"]
    assert (beam.demonstrations, beam.scores) == (BEST_FIRST, (0.046, 0.045))


@pytest.mark.parametrize(
    "pool",
    [
        {"candidate_pool": ["6", "7", "8", "9"]},
        {"candidate_pool": [6, 7, 8, 9]},
        {"candidate_pool": [{"id": 6}, {"question_id": 7}, {"idx": 8}, {"id": "9", "question": "?"}]},
    ],
    ids=["texts", "numbers", "objects"],
)
def test_candidates_may_be_named_in_the_pool_itself(pool: dict[str, Any]) -> None:
    content = {"100": {**pool, "pointer_candidates": NEW["100"]["pointer_candidates"]}}
    assert read_beams(as_file(content))["100"].demonstrations == BEST_FIRST


def old(**changes: Any) -> dict[str, Any]:
    return {"100": {**OLD["100"], **changes}}


def lists(*id_list: list[Any]) -> dict[str, Any]:
    return old(id_list=[*id_list, [9, 7, 100]])


def new(**changes: Any) -> dict[str, Any]:
    return {"100": {**NEW["100"], **changes}}


def pointing(pointer: object, beam_score: object = 1) -> dict[str, Any]:
    return new(pointer_candidates=[{"pointer": pointer, "beam_score": beam_score}])


POINTER = r"`pointer_candidates\[0\].pointer`"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        pytest.param({}, "holds no query", id="nothing"),
        pytest.param({"100": {"icd": 1}}, r"query 100: neither .* but \['icd'\]", id="another format"),
        pytest.param(old(score_list=[1.0, True]), r"`score_list\[1\]`: .*number, not 'True'", id="a truth value"),
        pytest.param(lists([9, 7, 101]), r"`id_list\[0\]` ends with '101'", id="other query"),
        pytest.param(lists([7, 100, 100]), r"`id_list\[0\]` shows", id="the query itself"),
        pytest.param({"100": {"pointer_candidates": []}}, "no `candidate_pool_ids`", id="no pool"),
        pytest.param(new(candidate_pool_ids=["6", "7", "7", "9"]), "names 7 twice", id="a candidate twice"),
        pytest.param(pointing([0, 4]), f"{POINTER} has 4; positions are 0 to 3", id="outside"),
    ],
)
def test_a_bad_record_is_named_by_query_and_field(content: object, said: str) -> None:
    with pytest.raises(FileUnusable, match=said):
        read_beams(as_file(content))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(b"\xff\xfe", "cannot be read as UTF-8", id="no UTF-8"),
        pytest.param(as_file(OLD)[:-1], "no whole JSON", id="cut"),
        pytest.param(b'{"100": {"id_list": [], "score_list": [NaN]}}', "NaN is no number", id="NaN"),
        pytest.param(
            b'{"1": {"id_list": [], "score_list": []}, "1": {}}', "'1' stands there twice", id="a query twice"
        ),
    ],
)
def test_a_file_that_is_no_json_is_refused(tmp_path: Path, text: bytes, said: str) -> None:
    (tmp_path / "beams.json").write_bytes(text)
    with pytest.raises(FileUnusable, match=rf"beams\.json.*({said})"):
        read_beams(tmp_path / "beams.json")


def test_what_was_found_in_pools_is_written_with_them() -> None:
    found = {"100": (PointerRecord(pointer=(1, 2), gen_method="beam", beam_rank=0, beam_score=0.5),)}
    assert read_beams(beam_bytes(found, POOLS)) == {"100": BeamQuery((("7", "8"),), (0.5,), POOLS.pools["100"])}
