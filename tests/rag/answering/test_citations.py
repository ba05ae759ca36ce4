from __future__ import annotations

import re
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.segments import CatalogueEntry
from tasks.rag.answering.citations import MOST_QUOTE_CHARS, cite
from tasks.rag.answers import Draft, page_source_of, place_of
from tasks.rag.indexing.chunks import Chunk
from tasks.rag.retrieval.search import Hit
from tests.grading.marked_texts import ANSWERS


def hit(number: int, text: str, *, rows: tuple[str, ...] = (), name: str = "") -> Hit:
    chunk = Chunk(
        id=f"c{number}",
        document=f"{number}" * 64,
        page=number + 10,
        bbox=(1.0, 2.0, 3.0, 4.0),
        kind="table" if rows else "text",
        text=text,
        heading_path=("제23기",),
        sentences=rows,
    )
    return Hit(chunk=chunk, document_name=name or f"{number}.pdf", score=1.0, ranks={})


BUDGET = hit(1, "사업 개요는 다음과 같다. 사업 예산은 35,750,000원이다. 사업 기간은 6개월이다.")
SALES = hit(2, "Costs fell. Net sales were $1.2 billion in 2023, up 8.5%. Margins rose.")
TABLE = hit(3, "(단위: 백만원)\n구분 | 2023\n매출 | 1,200\n비용 | 900", rows=("매출 — 2023: 1,200", "비용 — 2023: 900"))
HITS = (BUDGET, SALES, TABLE)


def cited(text: str) -> Draft:
    return cite(text, HITS)


@pytest.mark.parametrize(
    ("format", "stored", "english", "korean"),
    [
        ("pdf", "stored", "a, page 3", "a 3쪽"),
        ("hwpx", "layout", "a, page 3 as laid out", "a 3쪽(조판 기준)"),
        ("pptx", "stored", "a, slide 3", "a 슬라이드 3"),
        ("hwp", "layout", "a, page 3 (estimated)", "a 3쪽(추정)"),
    ],
)
def test_a_place_is_told_in_the_words_of_its_format(
    format: str, stored: Literal["stored", "layout"], english: str, korean: str
) -> None:
    unshown = (3,) if format == "hwp" else ()
    entry = CatalogueEntry(document="0" * 64, name="a", format=format, page_source=stored, estimated_pages=unshown)
    source = page_source_of(entry, 3)
    assert (place_of("a", 3, source), place_of("a", 3, source, language="ko")) == (english, korean)
    assert [place_of("a", None, source, cells) for cells in ("Sheet 'May', B3:D9", None)] == [
        "a, Sheet 'May', B3:D9",
        "a",
    ]


@pytest.mark.parametrize(
    ("text", "told", "chunks"),
    [
        ("예산은 3,575만 원이다 [1].", "예산은 3,575만 원이다 [1].", ["c1"]),
        ("매출은 12억 원이다 [3][2].", "매출은 12억 원이다 [1][2].", ["c3", "c2"]),
        ("매출은 12억 원이다 [출처 3].", "매출은 12억 원이다 [1].", ["c3"]),
        ("예산 35,750,000원 [9][1][0].", "예산 35,750,000원 [1].", ["c1"]),
        ("예산 35,750,000원 [99].", "예산 35,750,000원.", []),
    ],
    ids=["one", "two", "named", "some unknown", "all unknown"],
)
def test_marks_are_numbered_by_first_use_and_never_name_what_is_not_there(
    text: str, told: str, chunks: list[str]
) -> None:
    got = cited(text)
    assert got.text == told
    assert [(one.n, one.chunk_id) for one in got.citations] == list(enumerate(chunks, start=1))


def test_a_citation_has_page_box_headings_and_the_sentence_that_bears_the_claim_out() -> None:
    (one,) = cited("예산은 3,575만 원이다 [1].").citations
    assert one.quote == "사업 예산은 35,750,000원이다."
    assert (one.document, one.digest, one.page, one.bbox) == ("1.pdf", "1" * 64, 11, (1.0, 2.0, 3.0, 4.0))
    assert one.place.heading_path == ("제23기",)


def test_a_long_sentence_is_quoted_around_the_claim() -> None:
    long = hit(1, f"{'서론 ' * 200}예산은 5,000원이고 {'결론 ' * 200}")
    (one,) = cite("예산은 5,000원이다 [1].", [long]).citations
    assert "5,000원" in one.quote
    assert len(one.quote) <= MOST_QUOTE_CHARS


@pytest.mark.parametrize(
    ("text", "unsupported"),
    [
        ("예산은 35,750,000원이다 [1]. 기간은 7개월이다 [1].", ["기간은 7개월이다 [1]."]),
        ("Net sales were $1,200 million [2].", []),
        ("Net sales were $1,300 million [2].", ["Net sales were $1,300 million [1]."]),
        ("매출은 12억 원이다 [3].", []),
        ("매출은 12억 원이다 [1].", ["매출은 12억 원이다 [1]."]),
        ("예산은 35,750,000원이다.", ["예산은 35,750,000원이다."]),
        ("Costs fell because of lower freight rates.", ["Costs fell because of lower freight rates."]),
        ("예산은 35,750,000원이다 [9].", ["예산은 35,750,000원이다."]),
        ("안녕하세요. 예산은 3,575만 원이다 [1]. 감사합니다.", []),
        ("The documents do not state the price [1].", []),
        ("다음과 같습니다:\n1. 예산: 35,750,000원 [1]\n2. 기간: 6개월 [1]", []),
        ("| 항목 | 값 |\n|---|---|\n| 예산 | 35,750,000원 [1] |", []),
        ("제23기 매출은 12억 원이다 [3].", []),
        ("Cold and windy weather yesterday on the moon [2].", ["Cold and windy weather yesterday on the moon [1]."]),
    ],
    ids=[
        "wrong number", "other spelling", "wrong million", "unit of table", "wrong block", "no mark", "claim, no mark",
        "mark of no block", "greetings", "not stated", "numbered list", "table", "number of a heading", "other words",
    ],
)  # fmt: skip
def test_what_nothing_bears_out_is_unsupported(text: str, unsupported: list[str]) -> None:
    assert list(cited(text).unsupported) == unsupported


@pytest.mark.parametrize(
    ("text", "abstained"),
    [
        ("문서에서 답을 찾지 못했습니다.", True),
        ("죄송하지만 제공된 자료에는 2025년 예산이 나와 있지 않습니다.", True),
        ("The passages do not say who won.", True),
        ("The documents do not state it [1].", True),
        ("예산은 35,750,000원이다 [1]. 기간은 문서에 나와 있지 않습니다.", False),
        ("The service is not available on Sundays [2].", False),
        ("예산은 35,750,000원이다 [1].", False),
        ("", False),
    ],
)
def test_an_answer_abstains_if_all_it_says_is_that_documents_do_not_tell(text: str, abstained: bool) -> None:
    assert cited(text).abstained is abstained


@given(ANSWERS | st.text(max_size=60), st.integers(0, 3))
def test_every_mark_has_its_citation_and_every_quote_stands_in_its_chunk(text: str, blocks: int) -> None:
    got = cite(text, HITS[:blocks])
    marks = {int(number) for number in re.findall(r"\[(\d{1,3})\]", got.text)}
    assert [one.n for one in got.citations] == list(range(1, len(got.citations) + 1))
    assert marks == {one.n for one in got.citations}
    for one in got.citations:
        (chunk,) = (other.chunk for other in HITS[:blocks] if other.chunk.id == one.chunk_id)
        assert one.quote in chunk.text or any(one.quote in row for row in chunk.sentences)
        assert len(one.quote) <= MOST_QUOTE_CHARS
    assert all(sentence in got.text for sentence in got.unsupported)


@pytest.mark.parametrize(
    "text", ["예산은 5원이다. " * 60_000, "1," * 500_000, "a" * 1_000_000], ids=["words", "commas", "one"]
)
@pytest.mark.timeout(60)
def test_a_chunk_of_a_megabyte_keeps_nobody_for_long(text: str) -> None:
    assert cite("예산은 5원이다 [1].", [hit(1, text)]).citations
