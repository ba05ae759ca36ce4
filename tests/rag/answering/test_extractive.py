from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.language.tokens import BIGRAM, installed_tokenizer
from tasks.rag.answering.extractive import Evidence, Group, confidence_of, extract_answer
from tasks.rag.answers import Draft, QueryType
from tasks.rag.indexing.chunks import Chunk
from tasks.rag.retrieval.search import Hit

SALES = """Table 4. Results of segments
(dollars in millions)
Segment | 2023 | 2022
Retail | 1,486.2 | 1,425.6
Wholesale | 198.4 | 187.1
Services | 82.9 | 76.6"""
SALES_ROWS = (
    "Retail — 2023: 1,486.2; 2022: 1,425.6",
    "Wholesale — 2023: 198.4; 2022: 187.1",
    "Services — 2023: 82.9; 2022: 76.6",
)
PLAN = """3. 추진 일정
(단위: 천원)
구분 | 착수금 | 잔금
설계 용역 | 12,000 | 8,000
감리 용역 | 7,500 | 2,500"""
PLAN_ROWS = ("설계 용역 — 착수금: 12,000; 잔금: 8,000", "감리 용역 — 착수금: 7,500; 잔금: 2,500")


def hit(
    text: str, *, rows: tuple[str, ...] = (), name: str = "a.pdf", page: int = 1, above: tuple[str, ...] = ()
) -> Hit:
    chunk = Chunk(
        id=f"{name}-{page}",
        document=f"{ord(name[0]):064x}",
        page=page,
        bbox=(0.0, 0.0, 9.0, 9.0),
        kind="table" if rows else "text",
        text=text,
        heading_path=above,
        sentences=rows,
    )
    return Hit(chunk=chunk, document_name=name, score=1.0, ranks={"bm25": page})


def asked(question: str, *hits: Hit, kind: QueryType = "single", groups: tuple[Group, ...] = ()) -> Draft:
    return extract_answer(question, hits, query_type=kind, tokenizer=installed_tokenizer(), groups=groups)


KOREAN = hit(
    "1. 사업 개요\n본 사업은 교통 안전을 위한 것이다. 사업 예산은 금 1,250,000,000원이다. "
    "사업 기간은 계약일부터 8개월이다. 발주 기관은 가람시 교통정책과이다. 제안서는 2024. 5. 7. 17:00까지 낸다.",
    name="가람시_교통신호.pdf",
    above=("1. 사업 개요",),
)
ENGLISH = hit(
    "Acme Corp. runs 214 stores in 19 regions. Acme was founded in Tarn Harbor in 1987. "
    "The chief executive is Ottilie Marsh. Margins fell because of higher freight rates. "
    "The hearing is set for September 16, 2024.",
    name="acme.pdf",
)
FORM = hit(
    "Principal Investigator Nuchanun Kessakorn, MD\nCo-investigators Prof.Dr. Darin Sosoth, Diplomat\n"
    "Protocol Number ABX-2041-03\nStudy Site Lakeview General Hospital\n연구책임자 서하늘\n문의처 임상연구지원팀",
    name="form.pdf",
)
GLOSSARY = hit(
    "Policyholder: the party that owns the contract.\nBeneficiary: the party named to receive the proceeds.\n"
    "A beneficiary may be changed by notice.\n계약자: 회사와 계약을 맺고 보험료를 낼 의무를 지는 사람\n"
    "피보험자: 보험사고의 대상이 되는 사람을 말합니다.\n피보험자는 계약자에게 사고를 알려야 하는 사람입니다.",
    name="glossary.pdf",
)


@pytest.mark.parametrize(
    ("document", "question", "answer"),
    [
        (FORM, "Who is the principal investigator?", "Principal Investigator Nuchanun Kessakorn, MD [1]"),
        (FORM, "What is the protocol number?", "Protocol Number ABX-2041-03 [1]"),
        (FORM, "Where is the study site?", "Study Site Lakeview General Hospital [1]"),
        (FORM, "연구책임자는 누구인가?", "연구책임자 서하늘 [1]"),
        (FORM, "문의처는 어디인가?", "문의처 임상연구지원팀 [1]"),
        (GLOSSARY, "What is a beneficiary?", "Beneficiary: the party named to receive the proceeds [1]."),
        (GLOSSARY, "피보험자는 어떤 사람입니까?", "피보험자: 보험사고의 대상이 되는 사람을 말합니다 [1]."),
    ],
)
def test_a_line_of_a_form_or_glossary_tells_of_its_label(document: Hit, question: str, answer: str) -> None:
    assert asked(question, document).text.split("\n")[0] == answer


ROWS = ("노을보상제도 — 2023: 0.8", "Linden Bonus Plan — 2023: 1.4", "Sale of kilns (1) — 2023: 24.8")
BENEFITS = hit(
    "(1) Related to the closure of Marlow.\nItem | 2023\n노을보상제도 | 0.8\nSale of kilns (1) | 24.8", rows=ROWS
)
TOLD = hit(
    "노을보상제도는 직원에게 주식을 주는 제도를 말한다. The Linden Bonus Plan is a plan for shares of employees."
)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What is the Linden Bonus Plan?", "The Linden Bonus Plan is a plan for shares of employees [1]."),
        ("What was the sale of kilns related to?", "Sale of kilns — (1) Related to the closure of Marlow [1]."),
        ("노을보상제도는 무엇인가요?", "노을보상제도는 직원에게 주식을 주는 제도를 말한다 [1]."),
    ],
)
def test_a_sentence_and_no_row_of_numbers_tells_what_something_is(question: str, answer: str) -> None:
    got = asked(question, BENEFITS, TOLD)
    assert got.text.split("\n")[0] == answer
    assert got.citations[0].quote in f"{BENEFITS.chunk.text}\n{TOLD.chunk.text}", "as the document writes it"


def test_a_long_sentence_is_cut_around_what_answers() -> None:
    clause = "until the date that falls five years after the final sale of the last of such products, "
    sentence = f"At all times {clause * 5}the least insurance per occurrence shall be $5,000,000."
    draft = asked("What is the least insurance per occurrence?", hit(sentence))
    assert "$5,000,000" in draft.text
    assert draft.citations[0].quote.endswith("the least insurance per occurrence shall be $5,000,000.")


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("사업 예산은 얼마인가?", "사업 예산은 금 1,250,000,000원이다 [1]."),
        ("사업 기간은 몇 개월인가?", "사업 기간은 계약일부터 8개월이다 [1]."),
        ("발주 기관은 어디인가?", "발주 기관은 가람시 교통정책과이다 [1]."),
        ("제안서는 언제까지 내는가?", "제안서는 2024. 5. 7. 17:00까지 낸다 [1]."),
        ("How many stores does Acme run?", "Acme Corp. runs 214 stores in 19 regions [1]."),
        ("Who is the chief executive of Acme?", "The chief executive is Ottilie Marsh [1]."),
        ("When is the hearing of Acme?", "The hearing is set for September 16, 2024 [1]."),
        ("Where was Acme founded?", "Acme was founded in Tarn Harbor in 1987 [1]."),
    ],
)
def test_a_question_gets_the_sentence_that_holds_what_it_asks_for(question: str, answer: str) -> None:
    assert asked(question, ENGLISH, KOREAN).text.split("\n")[0] == answer


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What were the sales of the Wholesale segment in 2022?", "Wholesale — 2022: 187.1 (dollars in millions) [1]"),
        ("What were the sales of Services in 2023?", "Services — 2023: 82.9 (dollars in millions) [1]"),
        ("감리 용역의 착수금은 얼마인가?", "감리 용역 — 착수금: 7,500 (단위: 천원) [1]"),
        ("설계 용역의 잔금은?", "설계 용역 — 잔금: 8,000 (단위: 천원) [1]"),
    ],
)
def test_a_table_is_read_with_its_row_its_column_and_its_unit(question: str, answer: str) -> None:
    tables = (hit(SALES, rows=SALES_ROWS, name="sales.pdf"), hit(PLAN, rows=PLAN_ROWS, name="plan.pdf"))
    assert asked(question, *tables).text.split("\n")[0] == answer


def test_a_table_whose_header_was_not_known_is_read_with_the_cells_of_its_first_row() -> None:
    rows = (
        "구분 — 고유번호; 요구사항; 검수 방법",
        "기능 — SFR-001; 재고 연계; 시연",
        "기능 — SFR-002; 약 찾기; 문서 확인",
    )
    table = hit("구분 | 고유번호 | 요구사항 | 검수 방법\n기능 | SFR-001 | 재고 연계 | 시연", rows=rows)
    assert asked("SFR-002의 검수 방법은?", table).text.split("\n")[0] == "기능 — 검수 방법: 문서 확인 [1]"


def test_a_comparison_tells_each_side_under_its_name_and_says_where_one_tells_nothing() -> None:
    hits = (hit("사업 예산은 500원이다.", name="b.pdf"), hit("사업 기간은 6개월이다.", name="c.pdf"))
    groups = tuple(Group(name, (one.chunk.document,)) for name, one in zip(("가람시", "나래시"), hits, strict=True))
    got = asked("가람시와 나래시의 사업 예산은 얼마인가?", *hits, kind="compare", groups=groups)
    assert got.text.startswith("가람시: 사업 예산은 500원이다 [1].\n나래시: ")
    assert got.citations[0].document == "b.pdf"


def test_what_several_documents_answer_is_told_of_each_where_none_is_named() -> None:
    hits = [hit(f"The fee is {fee} won.", name=name) for name, fee in (("b.pdf", 500), ("c.pdf", 700), ("d.pdf", 500))]
    got = extract_answer("What is the fee?", hits, query_type="single", tokenizer=BIGRAM, is_unnamed=True)
    assert got.text.split("\n")[1:] == ["b: The fee is 500 won [1].", "c: The fee is 700 won [2]."]
    assert got.abstained
    assert asked("What is the fee?", *hits).text == "The fee is 500 won [1]."


@pytest.mark.parametrize(
    ("question", "hits"),
    [
        ("삼성전자의 2021년 영업이익은 얼마인가?", (KOREAN,)),
        ("What revenue did Globex report for fiscal 2019?", (ENGLISH,)),
        ("가람시_교통신호 제5차 공고의 예산은?", (KOREAN,)),
        ("予算はいくらですか", (KOREAN, ENGLISH)),
        ("?!", (KOREAN,)),
    ],
    ids=["other company", "other name and year", "other round", "third language", "no words"],
)
def test_it_says_so_when_the_documents_do_not_tell(question: str, hits: tuple[Hit, ...]) -> None:
    got = asked(question, *hits)
    assert got.abstained
    assert got.text.startswith(
        ("문서에서 답을 찾지 못했습니다. 가장 가까운 곳: ", "The documents do not tell. The closest place: ")
    )
    assert len(got.citations) == 1


@pytest.mark.parametrize(
    ("question", "passage"),
    [
        ("Why did the margins of Acme fall?", "Margins fell because of higher freight rates [1]."),
        ("Summarise what is said of the margins of Acme.", "Margins fell because of higher freight rates [1]."),
    ],
    ids=["reason", "summary"],
)
def test_what_has_to_be_written_says_that_it_needs_a_model_and_shows_passages(question: str, passage: str) -> None:
    got = asked(question, KOREAN, ENGLISH)
    opening, *passages = got.text.split("\n")
    assert (got.abstained, "written by a model" in opening) == (True, True)
    assert passage in passages


CRITERIA = "Eligibility criteria of bidders:\n- a licence for harbour works\n- two similar projects\n- a local office"


def test_a_list_that_is_asked_for_is_the_items_below_its_heading() -> None:
    got = asked("What are the eligibility criteria of bidders?", hit(CRITERIA))
    assert got.text == "a licence for harbour works; two similar projects; a local office [1]"
    assert got.citations[0].quote == "\n".join(CRITERIA.splitlines()[1:])


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Is mooring at the north quay allowed?", "No: Mooring at the north quay is not allowed [1]."),
        ("Is mooring at the south quay allowed?", "Yes: Mooring at the south quay is allowed [1]."),
    ],
)
def test_a_yes_or_no_leads_the_sentence_that_says_it(question: str, answer: str) -> None:
    quays = hit("Mooring at the north quay is not allowed. Mooring at the south quay is allowed.")
    assert asked(question, quays).text.split("\n")[0] == answer


def test_headings_captions_and_contents_do_not_answer() -> None:
    contents = hit("1. 사업 예산 ........................ 3\n<표 1> 사업 예산\n1. 사업 예산", above=("1. 사업 예산",))
    assert (
        asked("사업 예산은 얼마인가?", contents, KOREAN).text.split("\n")[0]
        == "사업 예산은 금 1,250,000,000원이다 [1]."
    )


def test_a_mark_of_the_document_is_no_citation() -> None:
    got = asked("예산은 얼마인가?", hit("예산은 500원이다[3]."))
    assert re.findall(r"\[(\d+)\]", got.text) == ["1"]
    assert got.citations[0].quote == "예산은 500원이다[3]."


WORDS = st.sampled_from(
    ["예산은", "500원이다.", "Net", "2023", "[1]", "—", ":", ";", "|", "\n", "1,000", "얼마인가?", "how"]
)
TEXTS = st.lists(WORDS, max_size=12).map(" ".join) | st.text(max_size=40)


@settings(deadline=None)
@given(
    TEXTS,
    st.lists(st.tuples(TEXTS, st.lists(TEXTS, max_size=2)), max_size=4),
    st.sampled_from(["single", "multi", "compare", "followup"]),
    st.sampled_from([BIGRAM, None]),
)
def test_whatever_it_reads_marks_have_citations_and_quotes_are_verbatim(
    question: str, chunks: list[tuple[str, list[str]]], kind: QueryType, tokenizer: str | None
) -> None:
    hits = [hit(text, rows=tuple(rows), name=f"{'abcd'[at]}.pdf", page=at) for at, (text, rows) in enumerate(chunks)]
    got = extract_answer(question, hits, query_type=kind, tokenizer=tokenizer)
    assert got == extract_answer(question, hits, query_type=kind, tokenizer=tokenizer)
    marks = [int(number) for number in re.findall(r"\[(\d{1,3})\]", got.text)]
    assert marks == [one.n for one in got.citations] == list(range(1, len(marks) + 1))
    by_id: dict[str | None, Chunk] = {one.chunk.id: one.chunk for one in hits}
    for one in got.citations:
        chunk = by_id[one.chunk_id]
        assert one.quote in chunk.text or any(one.quote in row for row in chunk.sentences)


@pytest.mark.parametrize(
    "text",
    ["예산은 5원이다. " * 100_000, "1" * 1_000_000, "a | b\n" * 160_000, "[" * 1_000_000],
    ids=["words", "digits", "table", "brackets"],
)
@pytest.mark.timeout(60)
def test_a_chunk_of_a_megabyte_keeps_nobody_for_long(text: str) -> None:
    assert asked("예산은 얼마인가?", hit(text)).text


ALL = Evidence(False, False, in_text=1, focus_in_text=1, nowhere=0, missing=False, other_period=False, first_hit=1)


@pytest.mark.parametrize(
    ("lacks", "confidence"),
    [
        ({}, 0.937),  # -1.6 + 2.3 + 1.0 + 1.0 = 2.7
        ({"wrong_type": True}, 0.769),  # 2.7 - 1.5 = 1.2
        ({"missing": True, "open_type": True}, 0.711),  # 2.7 - 1.4 - 0.4 = 0.9
        ({"other_period": True, "first_hit": 0.5}, 0.846),  # 2.7 - 0.5 - 0.5 = 1.7
        ({"in_text": 0.5, "nowhere": 0.5}, 0.679),  # 2.7 - 1.15 - 0.8 = 0.75
        ({"focus_in_text": 0.0}, 0.846),  # 2.7 - 1.0 = 1.7
    ],
    ids=str,
)
def test_confidence_falls_with_what_the_sentence_lacks(lacks: dict[str, Any], confidence: float) -> None:
    assert confidence_of(ALL._replace(**lacks)) == pytest.approx(confidence, abs=0.001)
