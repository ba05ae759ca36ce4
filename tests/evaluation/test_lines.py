"""Artifacts of many records."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from storage.artifacts import Artifacts
from tasks.evaluation.evaluation_records import Item, Reply, Sample
from tasks.evaluation.record_lines import line_of, read_lines, write_lines

anything = st.text(st.characters(), max_size=30)  # lone surrogates among them


@given(st.lists(anything, max_size=5))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])  # the store may be shared
def test_every_record_is_a_line_that_reads_back(artifacts: Artifacts, texts: list[str]) -> None:
    written = [Reply(text=text) for text in texts]
    read = [reply.text for reply in read_lines(artifacts, write_lines(artifacts, "replies", written), Reply)]
    assert read == [text.encode("utf-8", "replace").decode() for text in texts]


def test_half_a_surrogate_pair_becomes_a_question_mark_and_the_rest_stays() -> None:
    sample = Sample(item="1", score=0.25, extracted="a\ud800b", detail={"x": [1, None, True]}, keys=("k",))
    read = Sample.model_validate_json(line_of(sample))
    assert read == sample.model_copy(update={"extracted": "a?b"})


def test_a_failure_on_the_way_leaves_nothing_behind(artifacts: Artifacts) -> None:
    def breaking() -> Iterator[Item]:
        yield from _items(2)
        raise ValueError("line 3 is no item")

    with pytest.raises(ValueError, match="line 3"):
        write_lines(artifacts, "items", breaking())
    assert [path for path in artifacts.root.rglob("*") if path.is_file()] == []


def _items(count: int) -> Iterator[Item]:
    return (Item(id=str(number), prompts=("?",)) for number in range(count))
