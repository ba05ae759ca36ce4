from __future__ import annotations

import pytest
from hypothesis import strategies as st

from tasks.rag.answering.answer_prompts import estimated_tokens, pack_context
from tasks.rag.indexing.chunks import Chunk
from tasks.rag.retrieval.search import Hit

TABLE = "(in millions)\nName | 2023 | 2022\n" + "\n".join(f"Row {row} | {row} | {row + 1}" for row in range(40))


def hit(text: str, *, document: str = "a", number: int = 0, rows: tuple[str, ...] = ()) -> Hit:
    chunk = Chunk(
        id=f"{document}-{number}",
        document=document * 64,
        page=3,
        bbox=None,
        kind="table" if rows else "text",
        text=text,
        heading_path=("Part I", "Money"),
        sentences=rows,
    )
    return Hit(chunk=chunk, document_name=f"{document}.pdf", score=1.0, ranks={"bm25": 1})


def numbers(hits: tuple[Hit, ...]) -> list[str]:
    return [one.chunk.id for one in hits]


def test_blocks_are_numbered_from_one_and_say_where_they_stand() -> None:
    packed = pack_context([hit("one"), hit("two", number=1)], most_tokens=200, per_document=False)
    assert [(block.n, block.label, block.text) for block in packed.blocks] == [
        (1, "a.pdf, page 3, Part I › Money", "one"),
        (2, "a.pdf, page 3, Part I › Money", "two"),
    ]


def test_what_has_no_room_is_named_and_a_smaller_one_behind_it_still_comes() -> None:
    hits = [hit("short"), hit("word " * 400, number=1), hit("small", number=2)]
    packed = pack_context(hits, most_tokens=120, per_document=False)
    assert (numbers(packed.hits), numbers(packed.dropped)) == (["a-0", "a-2"], ["a-1"])


def test_the_best_of_each_document_comes_before_the_second_of_any() -> None:
    hits = [hit("x", number=0), hit("y", number=1), hit("z", document="b")]
    assert numbers(pack_context(hits, most_tokens=300, per_document=True).hits) == ["a-0", "b-0", "a-1"]
    assert numbers(pack_context(hits, most_tokens=300, per_document=False).hits) == ["a-0", "a-1", "b-0"]


def test_the_first_table_is_cut_between_rows_and_keeps_unit_and_header() -> None:
    (block,) = pack_context([hit(TABLE)], most_tokens=120, per_document=False).blocks
    lines = block.text.splitlines()
    assert lines[:2] == ["(in millions)", "Name | 2023 | 2022"]
    assert 2 < len(lines) < 42
    assert TABLE.splitlines()[: len(lines)] == lines


@pytest.mark.parametrize(("most_tokens", "told"), [(90, True), (40, False)], ids=["room", "no room"])
def test_rows_of_a_wide_table_are_said_as_sentences_where_there_is_room(most_tokens: int, told: bool) -> None:
    table = hit("Name | 2023 | 2022\nCash | 5 | 4", rows=("Cash — 2023: 5; 2022: 4",))
    (block,) = pack_context([table], most_tokens=most_tokens, per_document=False).blocks
    assert block.text.startswith("Name | 2023 | 2022\nCash | 5 | 4")
    assert ("Cash — 2023: 5; 2022: 4" in block.text) is told


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("가나다라마", 4), ("abcdefgh", 2), ("12345", 3), ("漢字", 2), ("!!", 2)],
)
def test_tokens_are_estimated_by_script(text: str, tokens: int) -> None:
    assert estimated_tokens(text) == tokens


TEXTS = st.lists(st.text(alphabet="가a1 .\n|", max_size=300), max_size=8)
