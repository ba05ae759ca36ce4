"""Which documents a question speaks of, by the names of a catalogue."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.arrays import map_arrays
from storage.segments import Catalogue, CatalogueEntry, pack_catalogue
from tasks.rag.answers import Filters, QueryType, Turn
from tasks.rag.planning.routing import Router

FILINGS = (
    "3M_2018_10K",
    "3M_2022_10K",
    "3M_2023Q2_10Q",
    "AMCOR_2022_8K_dated-2022-07-01",
    "AMCOR_2023Q4_EARNINGS",
    "AMERICANEXPRESS_2022_10K",
    "AMERICANWATERWORKS_2020_10K",
    "BESTBUY_2019_10K",
    "BESTBUY_2023_10K",
    "BRIGHTWELLCANVAS_2021_10K",
    "CVSHEALTH_2018_10K",
    "CVSHEALTH_2022_10K",
    "HOLLOWAY_HOLLOWAY_2022_10K",
    "JOHNSON_JOHNSON_2022_10K",
    "JOHNSON_JOHNSON_2023Q2_EARNINGS",
    "PEPSICO_2022_10K",
    "PEPSICO_2023_8K_dated-2023-05-05",
    "BLOCK_2020_10K",
    "tellus/Orsta_Cement_Climate_Report_2023",
)
CITY = "지능형 교통신호 통합관제시스템 구축"
TENDERS = (
    (f"가람시_{CITY}", "가람시", CITY, "0", "1250000000"),
    (f"가람시_{CITY}(재공고)", "가람시", CITY, "1", "1250000000"),
    (f"가람시_{CITY}(2차 재공고)", "가람시", CITY, "2", "1380000000"),
    (f"나래시_{CITY}", "나래시", CITY, "0", "1190000000"),
    ("새봄시립도서관_통합자료관리시스템 고도화", "새봄시립도서관", "통합자료관리시스템 고도화", "0", "482600000"),
    ("누리과학관_전시 안내 로봇 도입 및 운영", "누리과학관", "전시 안내 로봇 도입 및 운영", "0", "728000000"),
    ("라온군_버스정류장 한파쉼터 설치", "라온군", "버스정류장 한파쉼터 설치", "0", "312500000"),
    ("하늬군_마을 약국 재고연계 시스템 구축", "하늬군 보건소", "마을 약국 재고연계 시스템 구축", "0", "157300000"),
)
OTHERS = (
    ("새봄시립도서관_정정공고.txt", None),
    ("reports/한누리소재_제22기_사업보고서.pdf", "한누리소재 주식회사 제22기 사업보고서"),
    ("reports/한누리소재_제23기_사업보고서.pdf", "한누리소재 주식회사 제23기 사업보고서"),
    ("english/CalderRidge_FY2023_Annual_Report.pdf", "Calder Ridge Outfitters, Inc. - Annual Report for Fiscal 2023"),
    ("english/RFP 24-017 Account-Based Fare Collection System.pdf", "RFP 24-017 Account-Based Fare Collection System"),
)


def entry(name: str, title: str | None = None, **metadata: str) -> CatalogueEntry:
    return CatalogueEntry(document=f"digest of {name}", name=name, title=title, metadata=metadata)


def catalogue() -> list[CatalogueEntry]:
    tenders = [
        entry(f"{stem}.hwp", issuer=issuer, project_name=project, notice_round=number, project_amount=amount)
        for stem, issuer, project, number, amount in TENDERS
    ]
    return [*(entry(f"{stem}.pdf") for stem in FILINGS), *tenders, *(entry(name, title) for name, title in OTHERS)]


CATALOGUE = catalogue()
ROUTER = Router(CATALOGUE)
STEMS = {one.document: one.name.rpartition("/")[2].rpartition(".")[0] for one in CATALOGUE}


def stems(documents: tuple[str, ...]) -> list[str]:
    return [STEMS[document] for document in documents]


def route(question: str, query_type: QueryType = "single", *history: Turn) -> Filters:
    return ROUTER.route(question, query_type=query_type, history=history)


@pytest.mark.parametrize(
    ("question", "favoured"),
    [
        ("What is the FY2018 capital expenditure amount (in USD millions) for 3M?", ["3M_2018_10K"]),
        ("As of Q2 2023, which debt securities does 3M have?", ["3M_2023Q2_10Q"]),
        ("What was American Express's largest liability in 2022?", ["AMERICANEXPRESS_2022_10K"]),
        ("What are Best Buy's inventories at the end of FY2019?", ["BESTBUY_2019_10K"]),
        ("Johnson and Johnson FY2022 sales", ["JOHNSON_JOHNSON_2022_10K"]),
        ("What was agreed in the 8-K of PepsiCo dated May 5, 2023?", ["PEPSICO_2023_8K_dated-2023-05-05"]),
        ("What was the agenda of Amcor's 8k filing dated 1st July 2022?", ["AMCOR_2022_8K_dated-2022-07-01"]),
        ("Brightwell Canvas debt at the end of FY21?", ["BRIGHTWELLCANVAS_2021_10K"]),
        ("3M의 2022년 매출은?", ["3M_2022_10K"]),
    ],
)
def test_a_company_and_a_year_lead_to_the_report_of_that_year(question: str, favoured: list[str]) -> None:
    found = route(question)
    assert (found.mode, stems(found.favoured or found.documents)) == ("only", favoured)


def test_a_report_of_the_year_after_stays_behind_the_one_of_the_year() -> None:
    nike = [entry(f"NIKE_{year}_10K.pdf") for year in (2016, 2018, 2019, 2020, 2023)]
    found = Router([*nike, entry("AMCOR_2018_10K.pdf")]).route("What was Nike's FY2018 revenue?")
    assert [document.split("_")[1] for document in found.documents] == ["2018", "2019", "2020"]
    assert found.favoured == (nike[1].document,)


@pytest.mark.parametrize(
    ("question", "document"),
    [
        ("What does the earnings release of Johnson & Johnson for Q2 2023 say?", "JOHNSON_JOHNSON_2023Q2_EARNINGS"),
        ("나래시 교통신호 사업의 예산은?", f"나래시_{CITY}"),
        ("[나래시] 「교통신호 통합관제시스템」의 예산은?", f"나래시_{CITY}"),
        ("가람시 교통신호 원공고의 예산은?", f"가람시_{CITY}"),
        ("가람시 교통신호 (2차 재공고)의 예산은?", f"가람시_{CITY}(2차 재공고)"),
        ("누리 과학관의 관람객은 몇 명인가?", "누리과학관_전시 안내 로봇 도입 및 운영"),
        ("하늬군 약국 재고연계의 배점은?", "하늬군_마을 약국 재고연계 시스템 구축"),
        ("What were Calder Ridge's net sales?", "CalderRidge_FY2023_Annual_Report"),
    ],
)
def test_a_name_and_what_tells_its_documents_apart_lead_to_one(question: str, document: str) -> None:
    found = route(question)
    assert (found.mode, stems(found.documents)) == ("only", [document])


@pytest.mark.parametrize(
    "written",
    [
        "㈜한누리소재",
        "주식회사 한누리소재",
        "한누리 소재",
        "「한누리소재」",
        unicodedata.normalize("NFD", "한누리소재"),
    ],
)
def test_a_company_is_known_in_any_spelling(written: str) -> None:
    found = route(f"{written}의 제23기 매출액은?")
    assert stems(found.favoured or found.documents) == ["한누리소재_제23기_사업보고서"]


@pytest.mark.parametrize(
    "question",
    [
        "비트코인의 가격은?",
        "What is the building block of the revenue?",
        "What was the revenue in FY2022?",
        "제안서 제출 마감은 언제인가?",
        "어느 시스템을 구축하는가?",
        "Zanzibar Airlines 2022 10-K",
        "",
    ],
)
def test_a_question_that_names_nothing_searches_everywhere(question: str) -> None:
    assert route(question) == Filters()


@pytest.mark.parametrize("place", ["하늬군 하늬읍의 경로당은 몇 곳인가?", "나래시의 인구는?"])
def test_a_place_alone_is_only_preferred_since_other_documents_speak_of_it_too(place: str) -> None:
    assert route(place).mode == "prefer"


@pytest.mark.parametrize(("pages", "mode"), [(1, "all"), (2, "prefer")])
def test_the_heading_of_a_page_that_is_a_file_is_no_name(pages: int, mode: str) -> None:
    headings = ("표 옆으로 글 흐르게 하기", "각주와 본문의 간격", "머리글에 쪽번호 넣기", "수식의 문자 맞추기")
    catalogue = [
        CatalogueEntry(document=f"{at}", name=f"p{at}.md", pages=pages, chunks=2, metadata={"title": heading})
        for at, heading in enumerate(headings)
    ]
    assert Router(catalogue).route("쪽번호가 머리글에 들어가게 하려면?").mode == mode


def test_a_name_that_all_documents_bear_says_nothing() -> None:
    alike = [
        entry(f"가람시_{project} 사업.hwp", issuer="가람시") for project in ("상수도", "하수도", "가로등", "보행로")
    ]
    router = Router(alike)
    assert router.route("가람시의 예산은?") == Filters()
    assert router.route("가람시 하수도 사업의 예산은?").documents[0] == alike[1].document


@pytest.mark.parametrize(
    ("question", "count"),
    [
        ("가람시 교통신호 통합관제시스템의 예산은?", 3),
        ("교통신호 통합관제시스템 구축의 예산은?", 4),
        ("What is CVS Health's quick ratio?", 2),
        ("가람시 교통신호 2차 재공고의 예산은?", 0),
        ("What is CVS Health's quick ratio in FY2022?", 0),
        ("새봄시립도서관의 소장 자료는 몇 권인가?", 0),
    ],
    ids=["rounds", "and-cities", "years", "round-said", "year-said", "notice-and-correction"],
)
def test_documents_that_fit_equally_well_are_named(question: str, count: int) -> None:
    found = route(question)
    assert len(found.ambiguous) == count
    assert set(found.ambiguous) <= {one.name for one in CATALOGUE if one.document in found.documents}


@pytest.mark.parametrize(
    ("question", "groups"),
    [
        ("나래시와 새봄시립도서관의 사업 예산을 비교해줘", [["나래시"], ["새봄시립도서관", "새봄시립도서관"]]),
        ("가람시와 나래시의 교통신호 예산 차이는?", [["가람시", "가람시", "가람시"], ["나래시"]]),
        ("Compare Amcor with American Express in 2022", [["AMCOR", "AMCOR"], ["AMERICANEXPRESS"]]),
        ("Compare Calder Ridge and CVS Health in FY2022", [["CalderRidge"], ["CVSHEALTH"]]),
        ("3M의 2018년과 2022년 매출을 비교하면?", [["3M"], ["3M"]]),
        ("가람시 교통신호 재공고와 2차 재공고의 차이는?", [["가람시"], ["가람시"]]),
    ],
    ids=["issuers", "near-twins", "companies", "other-years", "years-of-one", "rounds-of-one"],
)
def test_each_side_of_a_comparison_is_a_group(question: str, groups: list[list[str]]) -> None:
    found = route(question, "compare")
    sides = [[stem.split("_")[0] for stem in stems(group)] for group in found.groups]
    assert sorted(sides) == sorted(groups)
    assert found.documents == tuple(document for group in found.groups for document in group)


LAST = Turn(question="가람시 교통신호 재공고의 예산은?", answer="…", documents=(CATALOGUE[len(FILINGS) + 1].document,))


@pytest.mark.parametrize(
    ("question", "query_type", "expected"),
    [
        ("그럼 2차 재공고는?", "followup", [f"가람시_{CITY}(2차 재공고)"]),
        ("그럼 마감일은?", "followup", []),
        ("그럼 나래시는?", "followup", [f"나래시_{CITY}"]),
        ("나래시와 비교하면?", "compare", [f"가람시_{CITY}(재공고)", f"나래시_{CITY}"]),
    ],
    ids=["another-round", "nothing-new", "another-city", "compared-with-the-last"],
)
def test_what_a_followup_adds_is_looked_for_beside_the_last_documents(
    question: str, query_type: QueryType, expected: list[str]
) -> None:
    assert stems(route(question, query_type, LAST).documents) == expected


def test_a_notice_number_leads_to_its_notice() -> None:
    router = Router([entry("a.hwp", notice_id="20240311903"), entry("b.hwp", notice_id="20240311904")])
    found = router.route("공고 20240311903-00의 마감은?")
    assert (found.mode, found.documents) == ("only", ("digest of a.hwp",))


def test_an_alias_of_a_file_is_a_name_of_its_document() -> None:
    copied = entry("notices/사본.pdf").model_copy(update={"aliases": ("제7차 스마트도시 사업협의회 회의록.pdf",)})
    found = Router([copied, *CATALOGUE]).route("제7차 스마트도시 사업협의회 회의록에서 의결한 것은?")
    assert (found.mode, found.documents) == ("only", (copied.document,))


def test_matches_say_what_was_recognised_and_how_it_was_written() -> None:
    found = route("What is the FY2018 capex of Best Buy's stores?")
    assert [(match.field, match.value, match.said) for match in found.matches] == [("name", "BESTBUY", "Best Buy's")]
    assert ("year", "2019") in [(match.field, match.value) for match in route("Best Buy in 2019").matches]


@pytest.mark.parametrize("count", [0, 1, 2])
def test_a_catalogue_of_few_documents_routes_without_error(count: int) -> None:
    found = Router(CATALOGUE[:count]).route("What is 3M's FY2018 capex?")
    assert set(found.documents) <= {one.document for one in CATALOGUE[:count]}


NAMES = [
    "가람시",
    "나래시의",
    "교통신호",
    "재공고",
    "3M",
    "Best",
    "Buy",
    "FY2018",
    "Q2",
    "2023",
    "10-K",
    "비교",
    "J&J",
    "and",
]


@settings(max_examples=150, deadline=None)
@given(
    st.one_of(st.text(max_size=120), st.lists(st.sampled_from(NAMES), max_size=12).map(" ".join)),
    st.sampled_from(["single", "multi", "compare", "followup"]),
    st.booleans(),
)
def test_any_question_gives_documents_of_the_catalogue(question: str, query_type: QueryType, follows: bool) -> None:
    found = ROUTER.route(question, query_type=query_type, history=(LAST,) if follows else ())
    assert set(found.documents) <= set(STEMS)
    assert (found.mode == "all") == (not found.documents)
    assert {document for group in found.groups for document in group} == set(found.documents)
    assert set(found.favoured) <= set(found.documents)


def test_what_parts_of_a_catalogue_teach_is_kept_and_leads_to_the_same_documents(tmp_path: Path) -> None:
    parts = [CATALOGUE[:9], CATALOGUE[9:20], CATALOGUE[20:]]
    for number, part in enumerate(parts):
        (tmp_path / f"part {number}").write_bytes(pack_catalogue(part))
    arrays = [map_arrays(tmp_path / f"part {number}") for number in range(len(parts))]
    catalogue = Catalogue(arrays, ["a", "b", "c"])
    questions = [
        "What is 3M's FY2018 capex?",
        "가람시 교통신호 구축 재공고의 예산은?",
        "Bset Buy in 2019",
        "관제시스템",
    ]
    routers = [Router(catalogue, kept_at=tmp_path / "kept") for _ in ("learns", "reads")]
    kept = sorted((tmp_path / "kept").iterdir())
    kept[0].write_bytes(b"not ours")
    routers.append(Router(catalogue, kept_at=tmp_path / "kept"))
    assert len(kept) == len(parts)
    for question in questions:
        assert [router.route(question) for router in routers] == [ROUTER.route(question)] * len(routers)


SIGNALS = "Garam_Traffic Signal Control System"


@pytest.mark.parametrize(
    ("first", "again"),
    [
        *((f"가람시_{CITY}", f"가람시_{CITY}{word}") for word in ("(2차)", "_재입찰공고", "_2회 공고")),
        (f"가람시_{CITY}_공고", f"가람시_{CITY}_재공고(2회)"),
        (f"가람시_{CITY}(1차 공고)", f"가람시_{CITY}(2차 공고)"),
        *((SIGNALS, f"{SIGNALS}_{word}") for word in ("re-notice", "second notice", "Notice 2", "retender")),
        (f"{SIGNALS}_first notice", f"{SIGNALS}_2nd notice"),
    ],
    ids=lambda stem: stem.removeprefix(f"가람시_{CITY}").removeprefix(SIGNALS) or "plain",
)
def test_a_question_for_the_first_notice_means_no_later_one_that_only_its_name_tells(first: str, again: str) -> None:
    router = Router([entry(f"{stem}.pdf") for stem in (first, again, "누리과학관_전시 안내 로봇 도입", "Orsta Cement")])
    questions = (
        ("가람시 교통신호 최초 공고의 예산은?", "가람시 교통신호 1차 공고의 예산은?")
        if "가람" in first
        else ("What is the budget of the first notice of the Garam traffic signal tender?",)
    )
    assert [router.route(one).documents for one in questions] == [(f"digest of {first}.pdf",)] * len(questions)
