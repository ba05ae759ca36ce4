from __future__ import annotations

import pytest

from storage.segments import CatalogueEntry
from tasks.rag.planning.names import DocumentNames, core_words, document_names, name_words


def names(path: str, title: str | None = None, **metadata: str) -> DocumentNames:
    return document_names(CatalogueEntry(document="d", name=path, title=title, metadata=metadata))


@pytest.mark.parametrize(
    ("path", "entity"),
    [
        ("3M_2018_10K.pdf", "3M"),
        ("JOHNSON_JOHNSON_2022_10K.pdf", "JOHNSON JOHNSON"),
        ("AMCOR_2023Q4_EARNINGS.pdf", "AMCOR"),
        ("PEPSICO_2023_8K_dated-2023-05-05.pdf", "PEPSICO"),
        ("english/CalderRidge_FY2023_Annual_Report.pdf", "CalderRidge"),
        ("reports/한누리소재_제23기_사업보고서.pdf", "한누리소재"),
        ("가람시_지능형 교통신호 통합관제시스템 구축(2차 재공고).pdf", "가람시"),
    ],
)
def test_who_issued_a_document_stands_at_the_beginning_of_its_name(path: str, entity: str) -> None:
    assert names(path).entities == (("name", entity),)


@pytest.mark.parametrize(
    ("title", "issuer"),
    [
        ("Calder Ridge Outfitters, Inc. - Annual Report", "Calder Ridge Outfitters"),
        ("한누리소재 주식회사 제23기 사업보고서", "한누리소재"),
        ("㈜한누리 사업보고서", "한누리"),
    ],
)
def test_the_company_of_a_title_is_known_by_its_legal_form(title: str, issuer: str) -> None:
    assert ("issuer", issuer) in names("a.pdf", title).entities


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Calder Ridge Outfitters, Inc.", ("calder", "ridge", "outfitters")),
        ("The AES Corp.", ("aes",)),
        ("CalderRidge", ("calder", "ridge")),
        ("주식회사 한누리소재", ("한누리소재",)),
        ("(재)늘푸른", ("늘푸른",)),
        ("Macy's", ("macys",)),
        ("Inc.", ("inc",)),
        ("", ()),
    ],
)
def test_the_words_of_a_name_are_without_its_legal_form(name: str, words: tuple[str, ...]) -> None:
    assert name_words(name) == words


def test_the_core_of_a_name_is_without_year_form_and_round() -> None:
    assert core_words("한누리소재_제23기_사업보고서") == ("한누리소재",)
    assert core_words("가람시_교통신호 구축(2차 재공고)") == ("가람시", "교통신호", "구축")


@pytest.mark.parametrize(
    ("metadata", "rounds"), [({}, (0,)), ({"notice_round": "02"}, (2,)), ({"notice_round": "없음"}, (0,))]
)
def test_the_round_is_the_tables_where_the_name_has_none(metadata: dict[str, str], rounds: tuple[int, ...]) -> None:
    assert names("가람시_구축 사업.hwp", **metadata).said.rounds == rounds


def test_a_document_has_the_years_of_its_name_and_of_its_title() -> None:
    said = names("ULTRAMARINE_2023Q4_EARNINGS.pdf", "Ultramarine Announces Fourth Quarter Fiscal 2022 Results").said
    assert [period.number for period in said.periods] == [2023, 2022]
