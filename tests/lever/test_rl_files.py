"""RL data have the structure that the seed published, whatever wrote them, and no bad record passes unnamed."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tasks.lever.data.embeddings import EmbeddingBank, bank_of
from tasks.lever.data.pointer_files import read_rl_data, rl_data_bytes
from tasks.lever.learning.training_inputs import groups_of
from tasks.lever.lever_errors import FileUnusable, RewardUnusable
from tasks.lever.lever_records import PointerRecord, RlQuery

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
    jsonschema.validate(json.loads(rl_data_bytes(DATA)), PUBLISHED)


def test_the_seeds_own_fields_stand_first_in_their_order_and_ours_follow() -> None:
    written = json.loads(rl_data_bytes(DATA))["12345"]
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
    st.dictionaries(st.text(max_size=4).filter(lambda id: id not in "abcd" or not id), queries, min_size=1, max_size=4)
)
def test_any_data_survive(data: dict[str, RlQuery]) -> None:
    assert read_rl_data(rl_data_bytes(data)) == data


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
    one = read_rl_data(json.dumps(content).encode())["12345"]
    assert one.candidate_pool_ids == ("22", "7")
    assert one.pointer_candidates[0].status == "judged"


WRITTEN: dict[str, Any] = json.loads(rl_data_bytes({"12345": query(BEAM, SAMPLE)}))


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
        pytest.param(changed(1, behaviour_logp=math.nan), "query|NaN is no number", id="NaN"),
        pytest.param(
            changed(candidate_pool_ids=["7", "8", "7"]), "`candidate_pool_ids` names 7 twice", id="a candidate twice"
        ),
    ],
)
def test_a_bad_record_is_named_by_file_query_and_field(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "rl.json").write_bytes(content)
    with pytest.raises(FileUnusable, match=rf"rl\.json.*({said})"):
        read_rl_data(tmp_path / "rl.json")


# as tensors

CANDIDATES = EmbeddingBank(("9", "8", "7", "6"), torch.eye(4), "e")
QUERIES = bank_of(["12346", "12345"], torch.tensor([[0.0, 1, 0, 0], [1.0, 0, 0, 0]]), encoder="e", where="q")


def test_groups_hold_what_the_file_says() -> None:
    groups = groups_of(rl_data_bytes(DATA), queries=QUERIES, candidates=CANDIDATES, mode="hard_plus_soft")
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
        groups_of(rl_data_bytes(data), queries=QUERIES, candidates=CANDIDATES, mode=mode)
