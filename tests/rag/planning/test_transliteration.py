"""Latin names in Korean letters."""

from __future__ import annotations

import pytest

from storage.segments import CatalogueEntry
from tasks.rag.planning.learned_names import sounds_alike
from tasks.rag.planning.routing import Router


@pytest.mark.parametrize(
    ("korean", "latin"),
    [
        ("월마트", "Walmart"),
        ("맥도날드", "McDonalds"),
        ("나이키", "NIKE"),
        ("퀄컴", "Qualcomm"),
        ("보스턴 사이언티픽", "Boston Scientific"),
        ("골드만삭스", "Goldman Sachs"),
        ("CVS 헬스", "CVS Health"),
    ],
)
def test_a_korean_spelling_is_heard_as_the_name(korean: str, latin: str) -> None:
    assert sounds_alike(korean, latin)


@pytest.mark.parametrize(
    ("korean", "latin"),
    [
        ("이미지는", "Amazon"),
        ("대비", "Adobe"),
        ("얼마였나", "Walmart"),
        ("매출", "Mattel"),
        ("인텔", "Intuit"),
        ("", "X"),
    ],
)
def test_another_word_is_not(korean: str, latin: str) -> None:
    assert not sounds_alike(korean, latin)


def test_a_question_in_korean_finds_the_filing_of_an_english_name() -> None:
    names = (
        "QUALCOMM_2022_10K.pdf",
        "BOSTONSCIENTIFIC_2022_10K.pdf",
        "한빛전자_2022_사업보고서.pdf",
        "PAYPAL_2022_10K.pdf",
    )
    entries = [
        CatalogueEntry(document=f"{at:064x}", name=name, format="pdf", pages=90, chunks=300)
        for at, name in enumerate(names)
    ]
    router = Router(entries)

    def found(question: str) -> tuple[str, list[str]]:
        filters = router.route(question)
        return filters.mode, [names[int(digest, 16)] for digest in filters.documents]

    assert found("퀄컴의 2022년 매출은 얼마인가?") == ("only", ["QUALCOMM_2022_10K.pdf"])
    assert found("보스턴 사이언티픽은 2022년에 얼마를 벌었나?") == ("only", ["BOSTONSCIENTIFIC_2022_10K.pdf"])
    assert found("한빛전자의 2022년 매출은?")[1] == ["한빛전자_2022_사업보고서.pdf"]
