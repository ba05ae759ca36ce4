"""What a step used and made is read from its inputs and its result."""

from __future__ import annotations

import pytest

from storage.lineage import EVERY, Edge
from storage.records import Record, Ref
from tasks.lineage import edges_of, parameters_of


def digest(sign: str) -> str:
    return sign * 64


def ref(kind: str, sign: str) -> Ref:
    return Ref(kind=kind, digest=digest(sign), size=1)


class Read(Record):
    source: Ref
    text: Ref | None = None


class Cut(Record):
    document: str
    chunks: Ref


class Shards(Record):
    shards: tuple[tuple[Read, ...], ...]


A, B = Read(source=ref("document", "a")), Read(source=ref("document", "b"))


def test_an_item_is_made_of_the_input_that_begins_with_the_same_digest() -> None:
    result = (B.model_copy(update={"text": ref("text", "2")}), A.model_copy(update={"text": ref("text", "1")}))
    assert set(edges_of({"sources": (A, B), "size": 3}, result)) == {
        Edge(0, True, "text", digest("2"), "text"),
        Edge(0, False, "document", digest("b"), "source"),
        Edge(1, True, "text", digest("1"), "text"),
        Edge(1, False, "document", digest("a"), "source"),
    }


def test_an_item_left_out_moves_no_other() -> None:
    cut = Cut(document=digest("b"), chunks=ref("chunks", "c"))
    assert [edge for edge in edges_of({"read": (A, B)}, (cut,)) if not edge.made] == [
        Edge(0, False, "document", digest("b"), "source")
    ]


def test_shards_in_a_record_are_items_too() -> None:
    made = Shards(shards=((A.model_copy(update={"text": ref("text", "1")}),), (B,)))
    assert set(edges_of({"shards": ((A,), (B,))}, made)) == {
        Edge(0, True, "text", digest("1"), "text"),
        Edge(0, False, "document", digest("a"), "source"),
    }


def test_what_belongs_to_no_input_was_made_of_all() -> None:
    edges = set(edges_of({"parts": (A, B), "pools": ref("pools", "e")}, ref("merged", "d")))
    assert edges == {
        Edge(EVERY, True, "merged", digest("d"), ""),
        Edge(EVERY, False, "document", digest("a"), "source"),
        Edge(EVERY, False, "document", digest("b"), "source"),
        Edge(EVERY, False, "pools", digest("e"), "pools"),
    }


def test_what_was_handed_in_is_not_made() -> None:
    assert edges_of({"parts": (A, B)}, (A, B)) == []


def test_a_step_that_looks_at_the_world_makes_only_what_it_keeps() -> None:
    assert edges_of({}, {"index": digest("f")}, reads_world=True) == []
    assert edges_of({}, {"index": digest("f")}) == [Edge(EVERY, True, "", digest("f"), "")]
    assert [edge.kind for edge in edges_of({}, (A,), reads_world=True)] == ["document"]


def test_a_run_that_was_written_to_the_database_is_made() -> None:
    run = "0a1b2c3d" * 4
    assert Edge(EVERY, True, "run", run, "") in edges_of({"report": A}, run)
    assert edges_of({"report": A}, "written") == []


class Task(Record):
    name: str
    items: Ref
    checksum: str
    sampling: dict[str, float]
    shards: tuple[Ref, ...] = ()


def test_parameters_are_what_inputs_hold_beside_digests() -> None:
    task = Task(
        name="sums", items=ref("items", "a"), checksum=digest("b"), sampling={"top_p": 1.0}, shards=(ref("x", "c"),)
    )
    told = parameters_of({"sources": (A,), "task": task, "size": 3, "empty": {}, "ref": ref("text", "1")})
    assert told == {"task": {"name": "sums", "sampling": {"top_p": 1.0}}, "size": 3, "empty": {}}


def test_a_long_text_is_kept_by_its_digest() -> None:
    one, other = (parameters_of({"system": sign * 9_000})["system"] for sign in "xy")
    assert str(one).startswith("(9,000 characters, ")
    assert one != other


def test_too_many_sources_are_one_that_tells_them_from_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.lineage.MOST_SOURCES", 2)
    made = Cut(document=digest("f"), chunks=ref("chunks", "c"))

    def used(*signs: str) -> list[Edge]:
        found = [Read(source=ref("document", sign)) for sign in signs]
        return [edge for edge in edges_of({"found": tuple(found)}, made) if not edge.made]

    assert [edge.digest for edge in used("a", "b")] == [digest("a"), digest("b")]
    [edge] = used("a", "b", "d")
    assert (edge.item, edge.name) == (EVERY, "3 sources, kept as one")
    assert used("d", "b", "a") == [edge]
    assert used("a", "b", "e")[0].digest != edge.digest
