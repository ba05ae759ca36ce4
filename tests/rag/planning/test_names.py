from __future__ import annotations

import re
import unicodedata

import pytest

from storage.segments import CatalogueEntry
from tasks.rag.planning.names import (
    DocumentNames,
    Period,
    Qualifiers,
    core_words,
    document_names,
    find_named_documents,
    fit_of,
    name_words,
    read_qualifiers,
)
from tasks.rag.rag_errors import UnknownDocument


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
    assert names("가람시_구축 사업.hwp", **metadata).qualifiers.rounds == rounds


def test_a_document_has_the_years_of_its_name_and_of_its_title() -> None:
    title = "Ultramarine Announces Fourth Quarter Fiscal 2022 Results"
    periods = names("ULTRAMARINE_2023Q4_EARNINGS.pdf", title).qualifiers.periods
    assert [period.number for period in periods] == [2023, 2022]


@pytest.mark.parametrize(
    ("text", "years"),
    [
        ("the FY2018 capital expenditure", [2018]),
        ("As of Q2 2023", [2023]),
        ("제22기와 제23기", [22, 23]),
        ("3M_2018_10K", [2018]),
        ("2,023 stores", []),
        ("2023.5 million", []),
        ("Room 2199", []),
    ],
)
def test_years_and_terms_of_a_text(text: str, years: list[int]) -> None:
    assert [period.number for period in read_qualifiers(text).periods] == years


@pytest.mark.parametrize(
    ("text", "rounds"),
    [
        ("재공고의 마감", [1]),
        ("최초 공고와 재공고", [0, 1]),
        ("the second re-notice", [2]),
        ("제2회 공고", [1]),
        ("the initial tender", [0]),
        ("Signals (round 3)", [2]),
        ("2차전지", []),
    ],
)
def test_rounds_of_a_text(text: str, rounds: list[int]) -> None:
    assert list(read_qualifiers(text).rounds) == rounds


YEAR, NEXT = Qualifiers(periods=(Period("year", 2018),)), Qualifiers(periods=(Period("year", 2019),))


@pytest.mark.parametrize(
    ("said", "document", "fit"),
    [
        (YEAR, YEAR, 1.0),
        (YEAR, NEXT, 0.5),
        (NEXT, YEAR, 0.2),
        (YEAR, Qualifiers(), 0.5),
        (Qualifiers(), YEAR, 1.0),
        (Qualifiers(rounds=(2,)), Qualifiers(rounds=(2,)), 1.0),
        (Qualifiers(rounds=(2,)), Qualifiers(rounds=(0,)), 0.2),
    ],
    ids=["year", "year-after-repeats-it", "year-before-cannot", "undated", "nothing-asked", "round", "other-round"],
)
def test_how_well_a_document_fits(said: Qualifiers, document: Qualifiers, fit: float) -> None:
    assert fit_of(said, document, rounds=True) == pytest.approx(fit)


CATALOGUE = [
    CatalogueEntry(document="a", name="2022/annual.pdf", aliases=("copies/report.pdf",)),
    CatalogueEntry(document="b", name="2023/annual.pdf"),
    CatalogueEntry(document="c", name="2023/공고문[재].hwp"),
]


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ("2022/annual.pdf", {"a": "2022/annual.pdf"}),
        ("REPORT.pdf", {"a": "copies/report.pdf"}),
        ("공고문[재].hwp", {"c": "2023/공고문[재].hwp"}),
        ("documents/2023/annual.pdf", {"b": "2023/annual.pdf"}),
        ("2023/*", {"b": "2023/annual.pdf", "c": "2023/공고문[재].hwp"}),
        ("*.pdf", {"a": "2022/annual.pdf", "b": "2023/annual.pdf"}),
    ],
    ids=["path", "file of equal bytes", "brackets", "with the indexed folder", "pattern of a folder", "of all"],
)
def test_a_document_is_named_by_path_file_or_pattern(asked: str, named: dict[str, str]) -> None:
    assert find_named_documents([unicodedata.normalize("NFD", asked)], CATALOGUE) == named


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("2023/anual.pdf", "no document '2023/anual.pdf'; nearest: 2022/annual.pdf, 2023/annual.pdf"),
        ("annual.pdf", "'annual.pdf' names 2 documents (2022/annual.pdf, 2023/annual.pdf …); write the folder"),
    ],
    ids=["unknown", "several"],
)
def test_a_name_of_no_document_or_of_several_is_refused_with_those_that_it_may_mean(asked: str, said: str) -> None:
    with pytest.raises(UnknownDocument, match=re.escape(said)):
        find_named_documents([asked], CATALOGUE)
