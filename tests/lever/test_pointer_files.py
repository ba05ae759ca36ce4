"""Beam data and RL data: both formats and the published structure are read, and no bad record passes unnamed."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any
from unittest.mock import patch

import jsonschema
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tasks.lever.data import pointer_files
from tasks.lever.data.embeddings import EmbeddingBank, make_bank
from tasks.lever.data.pointer_files import BeamQuery, iter_rl_data, read_beams, serialize_beams, serialize_rl_data
from tasks.lever.learning.training_inputs import make_groups
from tasks.lever.lever_errors import FileUnusable, RewardUnusable
from tasks.lever.lever_records import PointerRecord, PoolRecipe, Pools, RlQuery

FIELDS = {
    "pointer": {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2},
    "gen_method": {"enum": ["beam", "sample", "random", "retrieval"]},
    "beam_rank": {"type": ["integer", "null"]},
    "beam_score": {"type": ["number", "null"]},
    "logprob_score": {"type": ["number", "null"]},
    "temperature": {"type": ["number", "null"]},
    "vqa_pred_answer": {"type": ["string", "null"]},
    "vqa_correct": {"enum": [0, 1, None]},
    "vqa_acc_score": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
}
META = {"image_id": {"type": "string"}, "question": {"type": "string"}, "split": {"const": "train"}}
QUERY = {
    "meta": {"type": "object", "required": list(META), "properties": META},
    "candidate_pool": {"type": "array"},
    "pointer_candidates": {
        "type": "array",
        "minItems": 1,
        "items": {"type": "object", "required": list(FIELDS), "properties": FIELDS},
    },
}
PUBLISHED = {
    "type": "object",
    "additionalProperties": {"type": "object", "required": list(QUERY), "properties": QUERY},
}
"""Section 3.3.1 of the seed as a JSON schema; what we write beyond it is allowed there."""

BEAM = PointerRecord(
    pointer=(1, 0),
    gen_method="beam",
    beam_rank=0,
    beam_score=1.25,
    logprob_score=-1.5,
    vqa_pred_answer="a book",
    vqa_correct=1,
    vqa_acc_score=0.9,
    behaviour_logp=-1.5,
)
SAMPLE = PointerRecord(
    pointer=(0, 2),
    gen_method="sample",
    logprob_score=-2.0,
    temperature=1.3,
    vqa_pred_answer="책",
    vqa_correct=0,
    vqa_acc_score=0.3,
    behaviour_logp=-2.0,
)
FAILED = PointerRecord(pointer=(2, 1), gen_method="random", status="eval_failed", reason="the judge is away")


def query(*records: PointerRecord, pool: tuple[str, ...] = ("7", "8", "9")) -> RlQuery:
    return RlQuery(
        meta={"image_id": "COCO_1", "question": "What?", "split": "train", "threshold": 0.5, "judge": "digits"},
        candidate_pool=tuple({"id": id, "image_id": "COCO_2", "question": "?", "answer": "a"} for id in pool),
        candidate_pool_ids=pool,
        pointer_candidates=records,
    )


DATA = {"12345": query(BEAM, SAMPLE, FAILED), "12346": query(SAMPLE)}


def test_what_is_written_has_the_published_structure() -> None:
    jsonschema.validate(json.loads(b"".join(serialize_rl_data(DATA.items()))), PUBLISHED)


def test_the_seeds_own_fields_stand_first_in_their_order_and_ours_follow() -> None:
    written = json.loads(b"".join(serialize_rl_data(DATA.items())))["12345"]
    assert list(written["pointer_candidates"][0]) == [*FIELDS, "behaviour_logp", "status"]
    assert set(written) == {"meta", "candidate_pool", "candidate_pool_ids", "pointer_candidates"}


records = st.builds(
    PointerRecord,
    pointer=st.permutations(range(4)).map(lambda order: tuple(order[:2])),
    gen_method=st.sampled_from(["beam", "sample", "random", "retrieval"]),
    beam_score=st.none() | st.floats(allow_nan=False, allow_infinity=False),
    behaviour_logp=st.none() | st.floats(-1e9, 0),
    vqa_pred_answer=st.text(max_size=5),
    vqa_correct=st.sampled_from([0, 1]),
    vqa_acc_score=st.floats(0, 1),
    vqa_gt_prob=st.none() | st.floats(0, 1),
)
queries = st.lists(records, min_size=1, max_size=5, unique_by=lambda record: record.pointer).map(
    lambda found: query(*found, pool=("a", "b", "c", "d"))
)


@given(
    st.dictionaries(st.text(max_size=4).filter(lambda id: id not in "abcd" or not id), queries, min_size=1, max_size=4),
    st.sampled_from([1, 7, 200, 1 << 20]),
    st.sampled_from([None, 1]),
)
def test_any_data_survive_however_they_are_read(data: dict[str, RlQuery], together: int, indent: int | None) -> None:
    written = b"".join(serialize_rl_data(data.items()))
    content = json.dumps(json.loads(written), indent=indent).encode() if indent else written
    with patch.object(pointer_files, "READ_AT_ONCE", together):
        assert dict(iter_rl_data(content)) == data


def test_the_seeds_own_file_is_read_where_it_names_its_candidates() -> None:
    record = {
        "pointer": [1, 0],
        "gen_method": "beam",
        "beam_rank": 0,
        "beam_score": 2.13,
        "logprob_score": -1.56,
        "temperature": None,
        "vqa_pred_answer": "a book",
        "vqa_correct": 1,
        "vqa_acc_score": 1.0,
    }
    content = {"12345": {"meta": {"image_id": "1"}, "candidate_pool": [22, 7], "pointer_candidates": [record]}}
    one = dict(iter_rl_data(json.dumps(content).encode()))["12345"]
    assert one.candidate_pool_ids == ("22", "7")
    assert one.pointer_candidates[0].status == "judged"


WRITTEN: dict[str, Any] = json.loads(b"".join(serialize_rl_data({"12345": query(BEAM, SAMPLE)}.items())))


def changed(place: int | None = None, **changes: Any) -> bytes:
    """The file with fields of the query, or of one of its records, replaced; `...` removes one."""
    content = json.loads(json.dumps(WRITTEN))
    target = content["12345"] if place is None else content["12345"]["pointer_candidates"][place]
    for field, value in changes.items():
        target.pop(field, None)
        if value is not ...:
            target[field] = value
    return json.dumps(content).encode()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        pytest.param(changed(1, pointer=[2, 2]), r"pointer \[2, 2\] repeats a position", id="repeated"),
        pytest.param(
            changed(1, pointer=[1, 0]),
            r"`pointer_candidates\[1\].pointer` is that of \[0\]",
            id="the same pointer twice",
        ),
        pytest.param(
            changed(1, vqa_acc_score=1.5), r"`pointer_candidates\[1\].vqa_acc_score`.*not '1.5'", id="accuracy"
        ),
        pytest.param(changed(1, behaviour_logp=math.nan), "finite number", id="NaN"),
        pytest.param(
            changed(candidate_pool_ids=["7", "8", "7"]), "`candidate_pool_ids` names 7 twice", id="a candidate twice"
        ),
    ],
)
def test_a_bad_record_is_named_by_file_query_and_field(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "rl.json").write_bytes(content)
    with pytest.raises(FileUnusable, match=rf"rl\.json.*({said})"):
        dict(iter_rl_data(tmp_path / "rl.json"))


# as tensors

CANDIDATES = EmbeddingBank(("9", "8", "7", "6"), torch.eye(4), "e")
QUERIES = make_bank(["12346", "12345"], torch.tensor([[0.0, 1, 0, 0], [1.0, 0, 0, 0]]), encoder="e", where="q")


def test_groups_hold_what_the_file_says() -> None:
    groups = make_groups(
        b"".join(serialize_rl_data(DATA.items())), queries=QUERIES, candidates=CANDIDATES, mode="hard_plus_soft"
    )
    assert groups.ids == ("12345", "12346")
    assert groups.queries.tolist() == [[1, 0, 0, 0], [0, 1, 0, 0]]
    assert groups.pools.tolist() == [[2, 1, 0], [2, 1, 0]]
    assert groups.pointers.tolist() == [[[1, 0], [0, 2], [2, 1]], [[0, 2], [0, 1], [0, 1]]]
    assert groups.judged.tolist() == [[True, True, False], [True, False, False]]
    torch.testing.assert_close(groups.rewards, torch.tensor([[1.9, 0.3, 0.0], [0.3, 0.0, 0.0]]))
    expected = torch.tensor([[-1.5, -2.0, math.nan], [-2.0, math.nan, math.nan]])
    torch.testing.assert_close(groups.behaviour, expected, equal_nan=True)
    assert groups.bank is CANDIDATES.vectors


@pytest.mark.parametrize(
    ("data", "mode", "error", "said"),
    [
        pytest.param(
            {"12345": query(BEAM)}, "hard_plus_gtprob", RewardUnusable, "query 12345: .*vqa_gt_prob", id="mode"
        ),
        pytest.param(
            {"12345": query(BEAM), "12346": query(BEAM, pool=("7", "8"))},
            "hard_only",
            FileUnusable,
            r"\[2, 3\]",
            id="sizes",
        ),
    ],
)
def test_what_cannot_be_learnt_from_is_refused(data, mode, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        make_groups(b"".join(serialize_rl_data(data.items())), queries=QUERIES, candidates=CANDIDATES, mode=mode)


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
        pytest.param(b'{"100": {"id_list": [], "score_list": [NaN]}}', "finite number", id="NaN"),
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
    assert read_beams(serialize_beams(found, POOLS)) == {"100": BeamQuery((("7", "8"),), (0.5,), POOLS.pools["100"])}
