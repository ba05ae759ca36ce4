"""Questions in the words of documents, and nothing added to questions about other things."""

from __future__ import annotations

import pytest

from tasks.rag.retrieval.expansion import STATEMENTS, expand, is_statement

CASH_FLOW, BALANCE, INCOME = STATEMENTS


@pytest.mark.parametrize(
    ("question", "added"),
    [
        ("How large was the capex?", "purchases of property, plant and equipment"),
        ("What was the PPNE?", "property, plant and equipment, net"),
        ("What did the shop earn before D&A?", "depreciation and amortization"),
        ("What was net AR?", "accounts receivable, net"),
        ("Is the quick ratio healthy?", "total current liabilities"),
        ("What happened in FY23?", "2023"),
        ("Sales in Q2 of FY2022?", "second quarter"),
        ("입찰 마감은 언제인가?", "제출기한"),
    ],
)
def test_what_is_asked_is_said_in_the_words_of_documents(question: str, added: str) -> None:
    assert added in expand(question).added


@pytest.mark.parametrize(
    "question",
    [
        "Where does the tour of the tram take place?",
        "How deep is the intake below the surface?",
        "Is the airport epsilon gate open?",
        "Which cogsworth clock was darn near repaired?",
        "회의는 어디에서 열리는가?",
        "제2조는 무엇을 정하는가?",
    ],
)
def test_other_questions_get_nothing(question: str) -> None:
    assert expand(question) == (question, (), ())


@pytest.mark.parametrize(
    ("question", "statements"),
    [
        ("What was the capital expenditure?", (CASH_FLOW,)),
        ("What was the capex, judging by the balance sheet?", (BALANCE,)),
        ("According to the P&L, how high was R&D?", (INCOME,)),
        ("Inventory turnover of FY2020?", (INCOME, BALANCE)),
        ("What does the statement of financial position say of debt?", (BALANCE,)),
        ("현금흐름표에서 투자활동은?", (CASH_FLOW,)),
        ("Who won?", ()),
        ("How much did the shop spend on marketing in 2016?", (CASH_FLOW, BALANCE, INCOME)),
        ("2023년 광고선전비는 얼마인가?", (CASH_FLOW, BALANCE, INCOME)),
    ],
)
def test_the_statement_is_the_one_named_or_that_has_the_line_or_any_that_tells_of_a_year(
    question: str, statements: tuple[str, ...]
) -> None:
    assert set(expand(question).statements) == set(statements)


@pytest.mark.parametrize(
    ("title", "statement"),
    [
        ("CONSOLIDATED STATEMENTS OF CASH FLOWS", CASH_FLOW),
        ("Condensed Consolidated Statement of Cash Flows (Unaudited)", CASH_FLOW),
        ("Consolidated Balance Sheets", BALANCE),
        ("Consolidated Statement of Financial Position", BALANCE),
        ("Consolidated Statements of Earnings", INCOME),
        ("Statements of Consolidated Operations", INCOME),
        ("연결 재무상태표", BALANCE),
        ("포괄손익계산서", INCOME),
    ],
)
def test_titles_of_statements_are_known(title: str, statement: str) -> None:
    others = tuple({CASH_FLOW, BALANCE, INCOME} - {statement})
    assert is_statement(title, (statement,))
    assert not is_statement(title, others)
