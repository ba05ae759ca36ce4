"""Arithmetic over tables of an invented town, asked as people do, through the whole assistant."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from storage.index import Index, open_index
from storage.segments import CatalogueEntry
from tasks.language.tokens import BIGRAM
from tasks.rag.indexing.chunks import Chunk, tokenize_chunks
from tasks.rag.numbers.document_numbers import document_numbers
from tests.rag.answering.test_graph import Letters, assistant
from tests.rag.numbers.test_cell_facts import page
from tests.storage.publishing import publish

TOWN = "d" * 64
ROWS = [
    ("구분", "어선 (척)", "논 면적(㏊)", "쌀 생산(톤)"),
    ("솔밭면", "120", "400", "2,000"),
    ("물빛면", "80", "250", "1,500"),
    ("합계", "200", "650", "3,500"),
]
YEARS = [("", "2021", "2023"), ("도서관 방문객", "40,000", "50,000"), ("등록 장서", "9,000", "9,900")]
TEXTS = [
    "해밀읍 통계를 모은 자료이다.",
    "구분 | 어선 (척) | 논 면적(㏊) | 쌀 생산(톤)\n솔밭면 | 120 | 400 | 2,000\n물빛면 | 80 | 250 | 1,500",
]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    out = tmp_path_factory.mktemp("index")
    chunks = [
        Chunk(id=f"{TOWN[:16]}-{row:05d}", document=TOWN, page=3, bbox=(1, 2, 3, 4), kind="text", text=text)
        for row, text in enumerate(TEXTS)
    ]
    facts = document_numbers([page(ROWS), page(YEARS)], document=TOWN)
    publish(
        out,
        chunks=chunks,
        vectors=Letters().embed([chunk.text for chunk in chunks]).astype(np.float16),
        tokens=tokenize_chunks(chunks, tokenizer=BIGRAM),
        catalogue=[CatalogueEntry(document=TOWN, name="해밀읍 통계.pdf")],
        embedder=Letters.id,
        tokenizer=BIGRAM,
        settings={},
        numbers=[fact.model_dump_json().encode() + b"\n" for fact in facts],
    )
    with open_index(out) as opened:
        yield opened


@pytest.mark.parametrize(
    ("question", "result"),
    [
        ("해밀읍에서 솔밭면 어선은 물빛면 어선보다 몇 척 더 많나요?", "120 [1] − 80 [2] = 40"),
        ("해밀읍 솔밭면과 물빛면의 쌀 생산을 합치면 몇 톤이야?", "2,000 [1] + 1,500 [2] = 3,500"),
        ("해밀읍 솔밭면 어선은 물빛면 어선의 몇 배인가?", "120 [1] ÷ 80 [2] = 1.50배"),
        ("해밀읍 쌀 생산에서 솔밭면 쌀 생산이 차지하는 비중은?", "= 57.14%"),
        ("해밀읍 도서관 방문객은 2021년에서 2023년 사이에 몇 % 늘었나요?", "50,000 [1] ÷ 40,000 [2] − 1 = 25.00%"),
        ("해밀읍 솔밭면 쌀 생산을 물빛면 쌀 생산으로 나누면 얼마야?", "2,000 [1] ÷ 1,500 [2] = 1.33"),
    ],
)
def test_what_is_asked_is_worked_out_with_a_citation_for_each_figure(index: Index, question: str, result: str) -> None:
    answered = assistant(index).ask(question)
    assert result in answered.answer
    assert not answered.abstained
    assert len(answered.citations) == 2
    assert {one.digest for one in answered.citations} == {TOWN}


@pytest.mark.parametrize(
    "question",
    [
        "해밀읍 솔밭면 학교는 물빛면 학교보다 몇 개 더 많나요?",
        "해밀읍 도서관 방문객은 2015년에서 2018년 사이에 몇 % 늘었나요?",
        "What are the boats of Solbat expressed as a percentage of the boats of Solbat?",
    ],
)
def test_a_figure_that_is_not_there_is_not_made_up(index: Index, question: str) -> None:
    assert assistant(index).ask(question).abstained
