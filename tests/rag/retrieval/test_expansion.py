"""Questions in the words of documents, and nothing added to questions about other things."""

from __future__ import annotations

import pytest

from tasks.rag.retrieval.expansion import STATEMENTS, expand, is_statement

CASH_FLOW, BALANCE, INCOME = STATEMENTS


@pytest.mark.parametrize(
    ("question", "added"),
    [
        ("How large was the capex?", "purchases of property, plant and equipment"),
        ("What is year end PP&E?", "property, plant and equipment, net"),
        ("What was the PPNE?", "property, plant and equipment, net"),
        ("How much was COGS?", "cost of sales"),
        ("What did the shop earn before D&A?", "depreciation and amortization"),
        ("SG&A as a share of sales", "selling, general and administrative expenses"),
        ("What was net AR?", "accounts receivable, net"),
        ("days payable outstanding", "accounts payable"),
        ("Is the quick ratio healthy?", "total current liabilities"),
        ("Who is the CEO?", "chief executive officer"),
        ("What happened in FY23?", "2023"),
        ("What happened in fiscal 2019?", "2019"),
        ("Sales in Q2 of FY2022?", "second quarter"),
        ("사업 예산은 얼마인가?", "사업금액"),
        ("입찰 마감은 언제인가?", "제출기한"),
        ("설비투자는 얼마인가?", "유형자산의 취득"),
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
    ],
)
def test_the_statement_is_the_one_that_is_named_or_else_the_one_that_has_the_line(
    question: str, statements: tuple[str, ...]
) -> None:
    assert set(expand(question).statements) == set(statements)


@pytest.mark.parametrize(
    ("question", "asked"),
    [
        (
            "Assume that you are an analyst. Answer by the balance sheet: what is net debt? Round to two digits.",
            "what is net debt?",
        ),
        (
            "What is the quick ratio? If it is not relevant, please state that and explain why.",
            "What is the quick ratio?",
        ),
        ("What response time does the help desk need?", "What response time does the help desk need?"),
        ("Answer in millions.", "Answer in millions."),
        ("DPO is defined as: payables / cost of sales.", "DPO is defined as: payables / cost of sales."),
    ],
    ids=[
        "persona and rounding",
        "a way out",
        "a word of instructions that is asked for",
        "nothing else",
        "a definition",
    ],
)
def test_what_is_said_to_the_answerer_is_not_looked_for(question: str, asked: str) -> None:
    assert expand(question).asked == asked


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


@pytest.mark.parametrize("title", ["Consolidated Statements of Comprehensive Income", "Results of Operations", "Notes"])
def test_other_titles_are_not(title: str) -> None:
    assert not is_statement(title, (CASH_FLOW, BALANCE, INCOME))


def test_a_long_question_takes_no_time() -> None:
    assert len(expand("capex " * 17_000).added) > 1
