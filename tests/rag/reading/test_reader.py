"""Answers over the cells of a small table, worked by hand: value, working, citations, and what is refused."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from storage.numbers import COLUMNS
from tasks.language.tokens import BIGRAM, Stems
from tasks.rag.answers import Draft, Short, Value
from tasks.rag.indexing.chunks import Chunk
from tasks.rag.numbers.document_numbers import document_cells
from tasks.rag.reading.candidates import Candidate, list_candidates
from tasks.rag.reading.pages import Page, Question, Standing, compare_documents
from tasks.rag.reading.reader import find_nonsense, write_answer
from tasks.rag.reading.scorers import answer_key
from tasks.rag.retrieval.search import Hit
from tests.rag.numbers.test_cell_facts import page

REPORT = "a" * 64
NAMES = {REPORT: "reports/Harbour_2019.pdf"}
ROWS = [
    ("", "2019", "2018"),
    ("Operating profit", "$ 735", "$ 687"),
    ("Tax benefit", "(20)", "12"),
    ("Crews", "40", "32"),
    ("Margin", "12.5%", "11.2%"),
    ("Fees (EUR)", "€ 35", "€ 30"),
]
TEXT = "Cash held in 2019 was $3.4 million. Ferries paid $1.1 million and yachts $0.9 million of it."


def read_page(rows: list[tuple[str, ...]] = ROWS, *, above: str = "(In millions)") -> Page:
    numbers, texts = document_cells([page(rows, above=above)], document=REPORT)
    records: list[dict[str, Any]] = [dict.fromkeys(COLUMNS) | cell.model_dump() for cell in (*numbers, *texts)]
    chunks = [
        Chunk(id="a-0", document=REPORT, page=3, bbox=None, kind="table", text="Operating profit | 735", table=0),
        Chunk(id="a-1", document=REPORT, page=4, bbox=(1, 2, 3, 4), kind="text", text=TEXT),
    ]
    return Page([Hit(chunk=c, document_name=NAMES[REPORT], score=1, ranks={}) for c in chunks], records, Stems(BIGRAM))


PAGE = read_page()


def place(text: str, of: Page = PAGE) -> int:
    return next(at for at, cell in enumerate(of.cells) if cell.text == text)


def write(operation: str, *cells: str, number: str = "", texts: tuple[str, ...] = (), of: Page = PAGE) -> Draft:
    worked = Decimal(number) if number else None
    draft = write_answer(of, Candidate(operation, tuple(place(cell, of) for cell in cells), texts, worked), "en", NAMES)
    assert draft
    return draft


@pytest.mark.parametrize(
    ("operation", "cells", "number", "text", "value"),
    [
        (
            "value", ("$ 735",), "", "Operating profit, 2019: USD 735 million [1]",
            Value(exact="735000000", unit="USD", scale="million", display="735"),
        ),
        (
            "difference", ("$ 735", "$ 687"), "48",
            "Operating profit, 2019: USD 735 million [1]; Operating profit, 2018: USD 687 million [2]. "
            "Difference = 735 − 687 = USD 48 million",
            Value(exact="48000000", unit="USD", scale="million", display="48"),
        ),
        (
            "growth", ("$ 735", "$ 687"), "6.986899563318777292576419214",
            "Operating profit, 2019: USD 735 million [1]; Operating profit, 2018: USD 687 million [2]. "
            "Growth = (735 − 687) / 687 = 6.99%",
            Value(exact="6.98689956331878", unit="%", display="6.99"),
        ),
        (
            "difference", ("12.5%", "11.2%"), "1.3",
            "Margin, 2019: 12.5% [1]; Margin, 2018: 11.2% [2]. Difference = 12.5 − 11.2 = 1.3 percentage points",
            Value(exact="1.3", unit="%", display="1.3"),
        ),
        (
            "average", ("$ 735", "$ 687"), "711",
            "Operating profit, 2019: USD 735 million [1]; Operating profit, 2018: USD 687 million [2]. "
            "Average = (735 + 687) / 2 = USD 711 million",
            Value(exact="711000000", unit="USD", scale="million", display="711"),
        ),
        (
            "share", ("12", "$ 687"), "1.746724890829694323144104804",
            "Tax benefit, 2018: USD 12 million [1]; Operating profit, 2018: USD 687 million [2]. "
            "Share = 12 / 687 = 1.75%",
            Value(exact="1.74672489082969", unit="%", display="1.75"),
        ),
        (
            "product", ("$ 735", "12.5%"), "91.875",
            "Operating profit, 2019: USD 735 million [1]; Margin, 2019: 12.5% [2]. "
            "Product = 735 × 12.5% = USD 91.88 million",
            Value(exact="91875000", unit="USD", scale="million", display="91.88"),
        ),
        ("share", ("(20)", "$ 687"), "-2.911208151382823871906841339", "", None),
        (
            "sum", ("$1.1 million", "$0.9 million"), "2.0",
            "“Ferries paid $1.1 million and yachts $0.9 million of it.”: USD 1.1 million [1]; “Ferries paid "
            "$1.1 million and yachts $0.9 million of it.”: USD 0.9 million [1]. Sum = 1.1 + 0.9 = USD 2.0 million",
            Value(exact="2000000", unit="USD", scale="million", display="2.0"),
        ),
    ],
    ids=[
        "value", "difference", "growth", "points", "average", "share", "product", "share out of range",
        "sentences",
    ],
)  # fmt: skip
def test_an_operation_shows_its_cells_and_its_working(
    operation: str, cells: tuple[str, ...], number: str, text: str, value: Value | None
) -> None:
    texts = () if number else cells
    draft = write(operation, *cells, number=number, texts=texts)
    assert draft.value == value
    if value:
        assert draft.text == text
    else:
        assert draft.abstained


@pytest.mark.parametrize(
    ("operation", "cells", "texts", "text"),
    [
        ("list", ("$ 735", "$ 687"), ("$ 735", "$ 687"), "2019: USD 735 million [1]; Operating profit, 2018"),
        ("argmax", ("$ 735",), ("2019",), "2019 (largest): Operating profit, 2019: USD 735 million [1]"),
        ("yesno", ("$ 735", "$ 687"), ("yes",), "Yes: Operating profit, 2019: USD 735 million [1]; Operating"),
        ("value", ("$3.4 million",), ("$3.4 million",), "Cash held in 2019 was $3.4 million [1]."),
    ],
)
def test_an_answer_of_texts_names_its_cells(
    operation: str, cells: tuple[str, ...], texts: tuple[str, ...], text: str
) -> None:
    draft = write(operation, *cells, texts=texts)
    assert text in draft.text
    assert draft.short == Short(values=texts, scale="million" if operation == "list" else "")


def test_each_cell_is_cited_with_its_place() -> None:
    cells = write("growth", "$ 735", "$ 687", number="6.986899563318777292576419214").citations
    assert [(one.n, one.document, one.page, one.cell) for one in cells] == [
        (1, "reports/Harbour_2019.pdf", 3, f"{REPORT[:16]}:0:1:1"),
        (2, "reports/Harbour_2019.pdf", 3, f"{REPORT[:16]}:0:1:2"),
    ]
    assert cells[0].quote == "Operating profit; 2019: $ 735"
    sentence = write("value", "$3.4 million", texts=("$3.4 million",)).citations[0]
    assert (sentence.page, sentence.bbox, sentence.quote) == (4, (1, 2, 3, 4), "Cash held in 2019 was $3.4 million.")


def test_a_korean_question_is_answered_in_korean() -> None:
    of = read_page([("", "2019년", "2018년"), ("영업이익", "735", "687")], above="(단위: 백만원)")
    difference = Candidate("difference", (place("735", of), place("687", of)), (), Decimal(48))
    draft = write_answer(of, difference, "ko", NAMES)
    assert draft
    assert draft.text == (
        "영업이익, 2019년: 735백만 원 [1]; 영업이익, 2018년: 687백만 원 [2]. 차이 = 735 − 687 = 48백만 원"
    )


def test_a_document_is_named_where_several_could_be_meant() -> None:
    draft = write_answer(PAGE, Candidate("value", (place("$ 735"),), ("$ 735",)), "en", NAMES, several=True)
    assert draft
    assert draft.text == "Operating profit, 2019 (Harbour_2019): USD 735 million [1]"


@pytest.mark.parametrize(
    ("operation", "cells", "number", "reason"),
    [
        ("sum", ("$ 735", "€ 35"), "770", "several currencies (USD, EUR)"),
        ("difference", ("$ 735", "12.5%"), "722.5", "a percentage and an amount"),
        ("growth", ("(20)", "12"), "-266.67", "no rate of growth from 12 to -20"),
        ("share", ("$ 735", "$ 687"), "106.99", "106.99% would be no part of a whole"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_cells(
    operation: str, cells: tuple[str, ...], number: str, reason: str
) -> None:
    nonsense = find_nonsense(PAGE, Candidate(operation, tuple(map(place, cells)), (), Decimal(number)))
    assert nonsense
    worked = {"growth": "-266.6666666666666666666666667", "share": "106.9868995633187772925764192"}
    draft = write(operation, *cells, number=worked.get(operation, number))
    assert draft.abstained
    assert reason in draft.text
    assert reason in str(draft.reason)
    assert "[1]" in draft.text
    assert [one.n for one in draft.citations] == [1, 2]


def test_the_ratio_of_one_year_to_another_has_the_first_above() -> None:
    asked = Question("What was the ratio of operating profit in 2018 to 2019?", Stems(BIGRAM))
    pair = (place("$ 687"), place("$ 735"))
    candidates = list_candidates(PAGE, asked, np.ones(len(PAGE.cells), np.float32))
    assert [each.cells for each in candidates if each.operation == "ratio" and {*each.cells} == {*pair}] == [pair]


def test_a_share_above_the_whole_that_the_page_prints_stands() -> None:
    of = read_page([("", "2019", "2018"), ("Load", "30", "20"), ("Load of plan", "150%", "100%")], above="")
    assert find_nonsense(of, Candidate("share", (place("30", of), place("20", of)), (), Decimal(150))) is None


def test_a_balance_is_no_share_of_a_flow() -> None:
    of = read_page()
    kinds = {"$ 735": "balance", "12": "income"}
    of.cells = [cell._replace(record={**cell.record, "statement": kinds.get(cell.text)}) for cell in of.cells]
    candidate = Candidate("share", (place("$ 735", of), place("12", of)), (), Decimal(6125))
    assert find_nonsense(of, candidate) == ("kinds", ("6,125",))


def test_a_number_that_its_cells_do_not_give_is_no_answer() -> None:
    candidate = Candidate("sum", (place("$ 735"), place("$ 687")), (), Decimal(9_999))
    assert write_answer(PAGE, candidate, "en", NAMES) is None


def test_a_product_of_more_than_28_digits_is_compared_and_written() -> None:
    product, cells = "10191644000003199500000000.25", ("3412000000000.5", "2987000000000.5")
    draft = write("product", *cells, number=product, of=read_page([("", "2019", "2018"), ("Net", *cells)], above=""))
    shown = draft.text.split(" = ")[-1], answer_key(Candidate("product", (), (), Decimal(product)))
    assert shown == ("10,191,644,000,003,199,500,000,000.25", float(product))


def test_a_document_leads_by_the_hits_before_those_of_others() -> None:
    other = "b" * 64
    hits = [
        Hit(chunk=chunk.model_copy(update={"document": document}), document_name="", score=score, ranks={})
        for chunk, document, score in zip(
            [PAGE.hits[0].chunk] * 4, (REPORT, REPORT, other, REPORT), (8, 6, 4, 2), strict=True
        )
    ]
    assert compare_documents(hits, is_named=False) == {
        REPORT: Standing(is_named=False, place=1, share=0.75, lead=0.5, distance=0.5),
        other: Standing(is_named=False, place=0.5, share=0.25, lead=-0.5, distance=-0.5),
    }
    assert compare_documents(hits[:2], is_named=True) == {REPORT: Standing()}
