"""Questions about facts are answered from the catalogue, and only those."""

from __future__ import annotations

import unicodedata

import pytest

from storage.segments import CatalogueEntry, Fact
from tasks.rag.answering.notice_answers import answer_from_facts, compare_facts, find_requested_facts
from tasks.rag.answers import Filters, RetrievalPlan

BOX = (1.0, 2.0, 3.0, 4.0)


def _fact(name: str, label: str, value: str, canonical: str | None = None) -> Fact:
    return Fact(name=name, label=label, value=value, canonical=canonical, page=3, bbox=BOX)


def _entry(name: str, *facts: Fact, **metadata: str) -> CatalogueEntry:
    return CatalogueEntry(document=name[0] * 64, name=name, metadata=metadata, facts=facts)


GARAM = _entry(
    "notices/가람시_교통신호 통합관제시스템 구축.pdf",
    _fact("amount", "추정가격", "1,136,363,636원", "1136363636"),
    _fact("amount", "사업 예산", "금 1,250,000,000원 (부가세 포함)", "1250000000"),
    _fact("period", "사업 기간", "계약일로부터 9개월", "9 months"),
    _fact("deadline", "입찰 마감", "2024. 4. 22. 17:00", "2024-04-22 17:00"),
    issuer="가람시",
)
NARAE = _entry(
    "나래시_교통신호 통합관제시스템 구축.pdf",
    _fact("amount", "사업금액", "11억 9천만원", "1190000000"),
    _fact("period", "과업 기간", "9개월", "9 months"),
    issuer="나래시 교통정책과",
    bid_end="2024-04-22 17:00",
)
FARES = _entry(
    "RFP 24-017 Fare Collection System.pdf",
    _fact("amount", "budget", "$18,750,000", "18750000 USD"),
    project_name="Fare",
)


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("가람시 교통신호 사업의 예산은 얼마인가?", ("amount",)),
        ("사업비와 사업 기간을 알려줘", ("amount", "period")),
        ("두 사업의 예산, 기간, 마감을 비교해줘", ("amount", "period", "deadline")),
        ("두 사업의 입찰은 각각 언제 마감되는가?", ("deadline",)),
        ("제안서는 언제까지 내야 하나?", ("deadline",)),
        ("예산에 부가세가 포함되어 있나?", ("vat",)),
        ("When are proposals for RFP 24-017 due?", ("deadline",)),
        ("질의 마감은 언제인가?", ("questions_due",)),
        ("입찰 참여 시작 일시는?", ("opening",)),
        ("예산이 13억 원인 사업의 발주 기관은?", ("issuer",)),
        ("공고 번호와 문의처는?", ("notice", "contact")),
        ("Compare budget, contract term and submission deadline", ("amount", "period", "deadline")),
        ("What is the deadline for questions?", ("questions_due",)),
    ],
)
def test_a_question_asks_for_facts(question: str, names: tuple[str, ...]) -> None:
    assert find_requested_facts(question) == names


@pytest.mark.parametrize(
    "question",
    [
        "하도급은 사업 예산의 몇 퍼센트까지 되는가?",
        "하자담보 책임기간은?",
        "소장 자료는 몇 권인가?",
        "What did the company spend on capital expenditures?",
        "",
    ],
)
def test_a_question_about_something_else_asks_for_none(question: str) -> None:
    assert find_requested_facts(question) == ()


@pytest.mark.parametrize(
    ("question", "values"),
    [
        ("가람시 교통신호 사업의 예산은 얼마인가?", ["금 1,250,000,000원 (부가세 포함)"]),
        ("예산은?", ["금 1,250,000,000원 (부가세 포함)"]),
        ("가람시 사업의 추정가격은?", ["1,136,363,636원"]),
        ("사업 기간과 마감은?", ["계약일로부터 9개월", "2024. 4. 22. 17:00"]),
        ("다래시 교통신호 사업의 예산은?", []),
        ("가람시 교통신호 사업 3차 재공고의 예산은?", []),
        ("상황판 교체 예산은 얼마인가?", []),
        ("가람시 교통신호 사업의 질의 마감은?", []),
    ],
)
def test_the_fact_of_one_document_answers(question: str, values: list[str]) -> None:
    plan = RetrievalPlan(
        query_type="single",
        strategy="rrf",
        top_k=8,
        needs_multi_doc=False,
        filters=Filters(mode="only", documents=(GARAM.document,)),
        decided_by="default",
    )
    answer = answer_from_facts(question, plan, [GARAM, NARAE])

    lines = answer.text.splitlines() if answer else []
    assert [line.partition(": ")[2].rpartition(" [")[0] for line in lines] == values
    cited = [(one.page, one.bbox, one.digest) for one in answer.citations] if answer else []
    assert cited == [(3, BOX, GARAM.document)] * len(values)


def test_the_metadata_fills_what_the_document_does_not_state() -> None:
    table = compare_facts(["deadline"], [GARAM, NARAE], "마감 비교")

    assert "| 2024. 4. 22. 17:00 [1]" in table.text
    assert "| 2024-04-22 17:00 (메타데이터)" in table.text
    assert [one.page for one in table.citations] == [3]


@pytest.mark.parametrize(
    ("field", "told", "contradicts"),
    [
        ("project_amount", "1,300,000,000", True),
        ("project_amount", "1250000000", False),
        ("bid_end", "2024-05-07 17:00", True),
        ("bid_end", "2024-04-22", False),
        ("issuer", "가람시 교통정책과", False),
    ],
)
def test_the_document_wins_over_the_metadata_and_the_difference_is_noted(
    field: str, told: str, contradicts: bool
) -> None:
    entry = GARAM.model_copy(update={"metadata": {field: told}})
    table = compare_facts(["amount", "deadline", "issuer"], [entry], "비교")

    assert ("메타데이터에" in table.text) == contradicts
    assert "금 1,250,000,000원 (부가세 포함) [" in table.text


def test_a_table_in_korean_is_aligned_and_says_what_is_missing() -> None:
    shown = compare_facts(["amount", "period", "questions_due"], [GARAM, NARAE], "비교해 줘").text
    lines = shown.splitlines()

    assert lines[0].split(" | ")[0] == "| 항목     "
    assert lines[-2:] == ["같음: 사업 기간", "다름: 사업 예산"]
    assert shown.count("문서에 없음") == 2
    columns = {sum(2 if unicodedata.east_asian_width(sign) == "W" else 1 for sign in line) for line in lines[:5]}
    assert len(columns) == 1


def test_a_table_in_english_names_metadata_and_contradiction() -> None:
    entry = GARAM.model_copy(update={"metadata": {"project_amount": "1300000000"}})
    shown = compare_facts(["amount", "deadline"], [entry, NARAE, FARES], "Compare them").text

    assert "2024-04-22 17:00 (metadata)" in shown
    assert "not stated" in shown
    assert "the metadata gives 1300000000 for Budget" in shown


def test_a_bar_in_a_value_does_not_break_the_table() -> None:
    table = compare_facts(["place"], [_entry("a.pdf", _fact("place", "제출처", "3층 | 계약팀"))], "비교")

    assert "3층 \\| 계약팀" in table.text
