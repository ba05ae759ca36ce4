"""A request for proposals states its facts under labels; other documents, and other sentences, state none."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.documents.blocks import Block, Cell, Document, Kind, Page, PageStatus
from tasks.rag.indexing.notice_facts import MOST_FACTS, extract_facts

BOX = (10.0, 20.0, 30.0, 40.0)
TITLE = Block(kind="heading", text="제안요청서", page=1)


def _table(*rows: str, spans: dict[tuple[int, int], tuple[int, int]] | None = None) -> Block:
    """Rows with cells between bars; `spans` gives row and column spans, whose covered cells are left out."""
    spans = spans or {}
    covered = {
        (row + down, col + right)
        for (row, col), (rows_, cols) in spans.items()
        for down in range(rows_)
        for right in range(cols)
    } - set(spans)
    cells = [
        Cell(
            row=row,
            col=col,
            text=text.strip(),
            row_span=spans.get((row, col), (1, 1))[0],
            col_span=spans.get((row, col), (1, 1))[1],
        )
        for row, line in enumerate(rows)
        for col, text in enumerate(line.split("|"))
        if (row, col) not in covered
    ]
    return Block(kind="table", text="\n".join(rows), page=3, bbox=BOX, cells=tuple(cells))


def _text(text: str, kind: Kind = "paragraph") -> Block:
    return Block(kind=kind, text=text, page=2, bbox=BOX)


def make_document(*blocks: Block, title: str | None = None) -> Document:
    page = Page(number=1, status=PageStatus.OK, blocks=blocks)
    return Document(format="pdf", reader="test", page_source="stored", pages=(page,), title=title)


def _facts(*blocks: Block) -> list[tuple[str, str, str | None]]:
    return [(fact.name, fact.label, fact.canonical) for fact in extract_facts(make_document(TITLE, *blocks))]


def _values(name: str, *blocks: Block) -> list[str | None]:
    return [canonical for known, _, canonical in _facts(*blocks) if known == name]


@pytest.mark.parametrize(
    ("line", "name", "canonical"),
    [
        ("가. 사업예산 : 금 1,250,000,000원", "amount", "1250000000"),
        ("○ 소요예산: 12억 5천만원 이내", "amount", "1250000000"),
        ("- 추정가격 : 35,750천원", "amount", "35750000"),
        ("1) 기초금액：일금 삼천오백칠십오만원정", "amount", "35750000"),
        ("배정예산(단위: 백만원): 1,250", "amount", "1250000000"),
        ("Budget: $1.2 million", "amount", "1200000 USD"),
        ("Estimated contract value: EUR 640,000", "amount", "640000 EUR"),
        ("사 업 기 간 : 착수일로부터 12개월", "period", "12 months"),
        ("계약기간: 2024. 7. 1. ~ 2024. 11. 30.", "period", "2024-07-01/2024-11-30"),
        ("과업기간 : 계약일로부터 90일 이내", "period", "90 days"),
        ("용역기간: 계약일로부터 2024. 12. 31.까지", "period", "/2024-12-31"),
        ("Contract term: three (3) years", "period", "36 months"),
        ("제안서 제출 마감: 2024. 5. 7.(화) 17:00", "deadline", "2024-05-07 17:00"),
        ("입찰마감일시 : 2024년 5월 7일 오후 5시", "deadline", "2024-05-07 17:00"),
        ("제안서 접수기간: 2024. 5. 1. 10:00 ~ 2024. 5. 7. 17:00", "deadline", "2024-05-07 17:00"),
        ("Proposals due April 12, 2024, 2:00 p.m.", "deadline", "2024-04-12 14:00"),
        ("Submission deadline: 12 April 2024", "deadline", "2024-04-12"),
        ("Deadline: no later than 3:00 PM on Friday, May 24, 2024", "deadline", "2024-05-24 15:00"),
        ("제안서 제출 : 2024.5.21.(화) 14:00까지 전자조달", "deadline", "2024-05-21 14:00"),
        ("질의 마감: 2024. 4. 1. 18:00", "questions_due", "2024-04-01 18:00"),
        ("Last day for questions March 8, 2024", "questions_due", "2024-03-08"),
        ("입찰 참여 시작: 2024. 3. 25. 10:00", "opening", "2024-03-25 10:00"),
        ("공고일: 2024-03-11", "published", "2024-03-11"),
        ("Issued February 5, 2024", "published", "2024-02-05"),
        ("공고번호 : 제2024-123호", "notice", "제2024-123호"),
        ("RFP 24-017", "notice", "24-017"),
        ("사업명: 버스정류장 설치", "project", None),
        ("발주기관 : 가람시 교통정책과", "issuer", None),
        ("제출처: 가람시청 3층 계약팀", "place", None),
        ("문의처: 교통시설팀 (☎ 000-552-1190)", "contact", None),
    ],
)
def test_a_labelled_line_states_a_fact(line: str, name: str, canonical: str | None) -> None:
    stated = [fact for fact in extract_facts(make_document(TITLE, _text(line))) if fact.name == name]

    assert [(fact.canonical, fact.page, fact.bbox) for fact in stated] == [(canonical, 2, BOX)]


@pytest.mark.parametrize(
    "line",
    [
        "하도급은 사업 금액의 50%를 넘을 수 없으며, 사전에 승인을 받아야 한다.",
        "입찰가격이 추정가격의 80% 미만이면 감점한다.",
        "하자담보 책임기간은 최종 검수 완료일부터 1년으로 한다.",
        "사업예산: 추후 공지",
        "제안서 제출 마감: 별도 통보",
        "사업기간: 협의",
        "문의처: 홈페이지 참조",
        "입찰 마감일 전일까지 발급받은 업체",
        "A performance bond of $2,000,000 is due within 15 days of the award.",
        "The contractor shall answer questions within five days.",
        "1. 사업 예산 ............................ 3",
        "평가 점수가 85점 미만이면 제외한다.",
        "COVID-19 and ISO-9001 apply.",
    ],
)
def test_a_sentence_about_something_else_states_none(line: str) -> None:
    assert _facts(_text(line)) == []


def test_cells_beside_labels_state_facts_with_page_and_box() -> None:
    table = _table(
        "사 업 명 | 신호 구축 | 발주 기관 | 가람시", "사업 예산 | 1,250,000,000원 (부가세 별도) | 사업 기간 | 9개월"
    )
    facts = extract_facts(make_document(TITLE, table))

    assert [(fact.name, fact.value) for fact in facts] == [
        ("project", "신호 구축"),
        ("issuer", "가람시"),
        ("amount", "1,250,000,000원 (부가세 별도)"),
        ("vat", "부가세 별도"),
        ("period", "9개월"),
    ]
    assert {(fact.page, fact.bbox) for fact in facts} == {(3, BOX)}


def test_a_header_names_the_one_row_below_it() -> None:
    table = _table("사업명 | 사업예산(천원) | 사업기간", "신호 구축 | 35,750 | 5개월")

    assert _facts(table) == [
        ("project", "사업명", None),
        ("amount", "사업예산(천원)", "35750000"),
        ("period", "사업기간", "5 months"),
    ]


def test_a_list_of_other_projects_states_none() -> None:
    assert (
        _facts(_table("사업명 | 발주처 | 사업금액 | 사업기간", "가 | 나 | 1억원 | 3개월", "다 | 라 | 2억원 | 4개월"))
        == []
    )


@pytest.mark.parametrize(
    ("said", "canonical"),
    [
        ("부가가치세 포함", "included"),
        ("VAT 포함", "included"),
        ("부가세 별도", "excluded"),
        ("부가세 미포함", "excluded"),
        ("부가가치세(VAT) 포함", "included"),
        ("VAT included", "included"),
        ("excluding VAT", "excluded"),
    ],
)
def test_the_tax_of_an_amount_is_a_fact(said: str, canonical: str) -> None:
    assert _values("vat", _text(f"사업예산: 1,000,000원 ({said})")) == [canonical]


def test_the_tax_in_the_next_cell_is_that_of_the_amount() -> None:
    assert _values("vat", _table("사업예산 | 금 1억원 | 부가세 포함")) == ["included"]


def test_two_spellings_of_an_amount_are_one_fact() -> None:
    assert _values("amount", _text("사업예산: 35,750,000원"), _text("사업금액: 3,575만원")) == ["35750000"]


def test_the_day_is_not_repeated_without_its_hour() -> None:
    lines = _text("제출 마감: 2024. 5. 7. 17:00"), _text("제안서 마감: 2024. 5. 7.")

    assert _values("deadline", *lines) == ["2024-05-07 17:00"]


def test_headers_and_footers_state_none() -> None:
    assert _facts(_text("사업예산: 1,000,000원", kind="footer")) == []


def test_another_document_has_no_facts() -> None:
    assert extract_facts(make_document(_text("Annual report"), _text("Budget: $1.2 million"))) == ()


def test_a_document_that_states_amount_and_period_is_a_request() -> None:
    blocks = _text("사업예산: 1,000,000원"), _text("사업기간: 3개월")

    assert [fact.name for fact in extract_facts(make_document(*blocks))] == ["amount", "period"]


def test_facts_come_in_reading_order() -> None:
    names = [name for name, _, _ in _facts(_text("사업기간: 3개월\n사업예산: 1,000,000원"), _text("공고번호: 2024-1"))]

    assert names == ["period", "amount", "notice"]


def test_facts_are_limited_in_number() -> None:
    lines = [_text(f"제출처: {number}동 계약팀") for number in range(MOST_FACTS + 50)]

    assert len(_facts(*lines)) == MOST_FACTS


@given(st.lists(st.text(alphabet="사업예산기간01 :|원만억.점\n(),%은는", max_size=80), max_size=8))
@settings(max_examples=150)
def test_any_text_and_table_is_read(texts: list[str]) -> None:
    blocks = [_text(text) for text in texts] + ([_table(*[text.replace("\n", " ") for text in texts])] if texts else [])

    for fact in extract_facts(make_document(TITLE, *blocks)):
        assert fact.value
        assert fact.label


@pytest.mark.parametrize("piece", ["사업 예산은 ", "The budget ", "a: ", "( "])
@pytest.mark.timeout(60)
def test_a_long_line_keeps_nobody_for_long(piece: str) -> None:
    text = "\n".join([piece * (2_000 // len(piece))] * 8)
    assert isinstance(extract_facts(make_document(TITLE, _text(text))), tuple)
