"""Files of earlier runs name questions by ids or by numbers, and show what may not be shown here."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tasks.lever.data.earlier_files import import_beams, take_queries_from
from tasks.lever.lever_errors import PointerUnusable
from tasks.lever.lever_records import Dataset
from tests.lever.small_dataset import dataset, item, pools

IDS = ("9251", "9250", "250", "3", "4381", "4380")
"""Of the training file, in its order; 4380 and 4381 are set apart."""
POOLS = pools({"9251": ["250", "9250", "3"], "3": ["9251", "250", "9250"]})


def okvqa() -> Dataset:
    train = [item(id) for id in ("3", "9250", "250", "9251")]
    return dataset(train, train_queries=["9251", "3"]).model_copy(update={"counted": IDS})


def old(path: Path, beams: Mapping[str, Sequence[Sequence[str]]]) -> Path:
    """Scores fall from sequence to sequence."""
    entries: dict[str, Any] = {
        query: {
            "id_list": [[*map(int, shown), int(query)] for shown in sequences],
            "score_list": [1.0 / (place + 1) for place in range(len(sequences))],
        }
        for query, sequences in beams.items()
    }
    path.write_text(json.dumps(entries))
    return path


def shown(path: Path) -> dict[str, list[tuple[str, ...]]]:
    beams, around, _ = import_beams(path, POOLS, okvqa(), shots=2)
    return {
        query: [tuple(around.pools[query][at] for at in one.pointer) for one in pointers]
        for query, pointers in beams.queries.items()
    }


def test_ids_are_taken_as_they_are(tmp_path: Path) -> None:
    path = old(tmp_path / "vqa.json", {"9251": [["250", "3"], ["3", "9250"]]})
    assert shown(path) == {"9251": [("250", "3"), ("3", "9250")]}
    assert import_beams(path, POOLS, okvqa(), shots=2)[2] == ()


def test_numbers_are_those_of_the_training_file(tmp_path: Path) -> None:
    path = old(tmp_path / "vqa.json", {"0": [["2", "1"]], "3": [["1", "0"]]})
    assert shown(path) == {"9251": [("250", "9250")], "3": [("9250", "9251")]}
    assert "by their numbers" in import_beams(path, POOLS, okvqa(), shots=2)[2][0]
    assert take_queries_from(okvqa(), path).train_queries == ("9251", "3")


def test_a_number_that_is_some_id_by_chance_stays_a_number(tmp_path: Path) -> None:
    path = old(tmp_path / "vqa.json", {"3": [["0", "2"]]})
    assert shown(path) == {"3": [("9251", "250")]}


def test_sequences_that_show_what_is_set_apart_are_not_imitated(tmp_path: Path) -> None:
    path = old(tmp_path / "vqa.json", {"9251": [["250", "4381"], ["3", "9250"]], "3": [["4380", "4381"]]})
    assert shown(path) == {"9251": [("3", "9250")], "3": []}
    [note] = import_beams(path, POOLS, okvqa(), shots=2)[2]
    assert "2 of 3 sequences" in note


def test_a_pool_of_the_file_keeps_its_size(tmp_path: Path) -> None:
    told = {"candidate_pool_ids": [4, 1, 2], "pointer_candidates": [{"pointer": [1, 2], "beam_score": 0.5}]}
    path = tmp_path / "vqa.json"
    path.write_text(json.dumps({"0": told}))
    beams, around, _ = import_beams(path, POOLS, okvqa(), shots=2)
    assert around.pools["9251"] == ("9250", "250", "3"), "4381 is set apart; 3 of this run's pool takes its place"
    [best] = beams.queries["9251"]
    assert best.pointer == (0, 1)


def test_pools_take_in_what_the_beams_name_and_keep_their_size(tmp_path: Path) -> None:
    path = old(tmp_path / "vqa.json", {"3": [["9251", "250"]]})
    around = pools({"3": ["9250", "9251", "4380"]})
    _, made, _ = import_beams(path, around, okvqa(), shots=2)
    assert made.pools["3"] == ("9250", "9251", "250")
    with pytest.raises(PointerUnusable, match="query 3: 2 demonstrations, 3 are wanted"):
        import_beams(path, around, okvqa(), shots=3)
